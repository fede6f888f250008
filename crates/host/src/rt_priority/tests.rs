use super::*;
use crate::fixture;

const MS: u64 = 1_000_000;

fn with_throttle(throttle: Option<Throttle>) -> RtPriority {
    RtPriority { permitted: true, throttle, intervals: VecDeque::new(), since: None }
}

const DEFAULT: Throttle = Throttle { runtime_ns: 950 * MS, period_ns: 1000 * MS };

#[test]
fn throttle_is_read_from_the_kernel_settings() {
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

/// Consecutive trials: in any period, the used time stays below the throttle's limit.
#[test]
fn used_time_per_period_stays_below_the_throttle() {
    for trial in [1, 20, 50, 150, 200, 400] {
        let mut rt_priority = with_throttle(Some(DEFAULT));
        let mut now = 5_000 * MS;
        let mut all: Vec<(u64, u64)> = Vec::new();
        for _ in 0..200 {
            now += rt_priority.pause(now);
            rt_priority.intervals.push_back((now, now + trial * MS));
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
        assert!(rt_priority.intervals.len() < 1100, "old intervals are forgotten");
        // With short trials most of the time is used.
        let (begin, spent) = (5_000 * MS, 200 * trial * MS);
        assert!(trial > 50 || spent * 100 > (now - begin) * 80, "{trial} ms: {} of {}", spent, now - begin);
    }
}

#[test]
fn no_pause_without_throttle_or_with_little_use() {
    let mut free = with_throttle(None);
    free.intervals.push_back((0, 10_000 * MS));
    assert_eq!(free.pause(10_000 * MS), 0);
    let mut unused = with_throttle(Some(DEFAULT));
    unused.intervals.push_back((1000 * MS, 1400 * MS));
    assert_eq!(unused.pause(1500 * MS), 0);
}

#[test]
fn extreme_throttle_delays_by_one_period_at_most() {
    let mut rt_priority = with_throttle(Some(Throttle { runtime_ns: MS, period_ns: 1000 * MS }));
    rt_priority.intervals.push_back((0, 500 * MS));
    assert!(rt_priority.pause(500 * MS) <= 1000 * MS);
}

#[test]
fn repeated_begin_and_end_are_allowed() {
    let (mut rt_priority, facts) = RtPriority::new(&Root::system(), true);
    assert_eq!(facts[0].name, PRIVILEGE_FIFO);
    rt_priority.begin();
    rt_priority.begin();
    assert_eq!(rt_priority.since.is_some(), rt_priority.permitted);
    rt_priority.end();
    rt_priority.end();
    assert_eq!(rt_priority.since, None);
    assert_eq!(rt_priority.intervals.len(), usize::from(rt_priority.permitted));
}
