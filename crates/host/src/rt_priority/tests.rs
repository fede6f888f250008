use super::*;
use crate::fixture;

const MS: u64 = 1_000_000;

fn quiet(throttle: Option<Throttle>) -> RtPriority {
    RtPriority { permitted: true, throttle, intervals: VecDeque::new(), since: None }
}

const DEFAULT: Throttle = Throttle { runtime_ns: 950 * MS, period_ns: 1000 * MS };

#[test]
fn the_throttle_as_the_kernel_says() {
    let set = |runtime: &str| {
        let (_keep, root) = fixture::root(&[
            ("/proc/sys/kernel/sched_rt_runtime_us", runtime),
            ("/proc/sys/kernel/sched_rt_period_us", "1000000\n"),
        ]);
        throttle(&root)
    };
    assert_eq!(set("950000\n"), Some(DEFAULT));
    assert_eq!(set("-1\n"), None);
    assert_eq!(set("1000000\n"), None, "all of the period is no throttle");
    let (_keep, root) = fixture::root(&[]);
    assert_eq!(throttle(&root), Some(DEFAULT), "unknown: the kernel's defaults");
}

/// Back-to-back trials: in any period, the used time stays below the throttle's limit.
#[test]
fn no_period_ever_holds_more_than_the_throttle_allows() {
    for trial in [1, 20, 50, 150, 200, 400] {
        let mut quiet = quiet(Some(DEFAULT));
        let mut now = 5_000 * MS;
        let mut all: Vec<(u64, u64)> = Vec::new();
        for _ in 0..200 {
            now += quiet.pause(now);
            quiet.intervals.push_back((now, now + trial * MS));
            all.push((now, now + trial * MS));
            now += trial * MS;
        }
        for &(_, end) in &all {
            let from = end - 1000 * MS;
            let used: u64 = all
                .iter()
                .filter(|(begin, _)| *begin < end)
                .map(|&(b, e)| e.min(end).saturating_sub(b.max(from)))
                .sum();
            assert!(used <= DEFAULT.runtime_ns, "{trial} ms: {} ms in one second", used / MS);
        }
        assert!(quiet.intervals.len() < 1100, "old intervals are forgotten");
        // Most of the time is used if trials are short.
        let (begin, spent) = (5_000 * MS, 200 * trial * MS);
        assert!(trial > 50 || spent * 100 > (now - begin) * 80, "{trial} ms: {} of {}", spent, now - begin);
    }
}

#[test]
fn no_pause_where_there_is_no_throttle_or_little_use() {
    let mut free = quiet(None);
    free.intervals.push_back((0, 10_000 * MS));
    assert_eq!(free.pause(10_000 * MS), 0);
    let mut set_idle = quiet(Some(DEFAULT));
    set_idle.intervals.push_back((1000 * MS, 1400 * MS));
    assert_eq!(set_idle.pause(1500 * MS), 0);
}

#[test]
fn an_absurd_throttle_delays_by_a_period_at_most() {
    let mut quiet = quiet(Some(Throttle { runtime_ns: MS, period_ns: 1000 * MS }));
    quiet.intervals.push_back((0, 500 * MS));
    assert!(quiet.pause(500 * MS) <= 1000 * MS);
}

#[test]
fn spells_begin_and_end_whatever_is_permitted() {
    let (mut quiet, facts) = RtPriority::new(&Root::system(), true);
    assert_eq!(facts[0].name, PRIVILEGE_FIFO);
    quiet.begin();
    quiet.begin();
    assert_eq!(quiet.since.is_some(), quiet.permitted);
    quiet.end();
    quiet.end();
    assert_eq!(quiet.since, None);
    assert_eq!(quiet.intervals.len(), usize::from(quiet.permitted));
}
