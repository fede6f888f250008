use super::*;
use crate::fixture;

#[test]
fn mappings_of_the_kernel_and_of_the_arena_are_left_alone() {
    assert_eq!(
        range("00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/x"),
        Some((0x40_0000, 0x45_2000))
    );
    assert_eq!(range("7ffc-7ffe rw-p 00000000 00:00 0 [stack]"), Some((0x7ffc, 0x7ffe)));
    assert_eq!(range("7ffc-7ffe rw-p 00000000 00:00 0"), Some((0x7ffc, 0x7ffe)));
    assert_eq!(range("7fff-8000 r--p 00000000 00:00 0 [vvar]"), None);
    assert_eq!(range("no line of it"), None);
}

#[test]
fn a_group_without_real_time_runtime_is_named_with_its_file() {
    let denied = || io::Error::from_raw_os_error(libc::EPERM);
    let groups = ("/proc/self/cgroup", "11:memory:/a\n4:cpu,cpuacct:/docker/1\n0::/\n");
    let file = "/sys/fs/cgroup/cpu/docker/1/cpu.rt_runtime_us";
    let (_directory, root) = fixture::root(&[groups, (file, "0\n")]);
    let refusal = refused(&root, 80, &denied());
    assert!(refusal.reason.contains("RT_GROUP_SCHED") && refusal.remedy.contains(file), "{refusal:?}");
    let (_directory, root) = fixture::root(&[groups, (file, "950000\n")]);
    let refusal = refused(&root, 80, &denied());
    assert!(
        !refusal.reason.contains("RT_GROUP_SCHED") && refusal.remedy.contains("ulimit -r 80"),
        "{refusal:?}"
    );
}

#[test]
fn a_sleep_ends_at_its_time_and_not_before() {
    let mut waker = Waker::new(crate::lookout::Lookout::new(None, Vec::new()));
    for _ in 0..5 {
        let at = now() + 200_000;
        let awake = waker.sleep(at).expect("a sleep");
        assert!(awake.now_ns >= at, "woken {} ns early", at - awake.now_ns);
    }
    // A time that is past is no sleep.
    assert!(waker.sleep(now() - 1_000_000).is_ok());
}

#[test]
fn switches_are_asked_for_where_there_can_have_been_one() {
    let mut waker = Waker::new(crate::lookout::Lookout::new(None, Vec::new()));
    let asked = |waker: &mut Waker| {
        // No count is so large: what is still there was not asked for.
        waker.involuntary = u64::MAX;
        waker.sleep(now() + 50_000).expect("a sleep").involuntary != u64::MAX
    };
    assert!(asked(&mut waker), "the first");
    // A least time that nothing undercuts: only every 64th.
    waker.least_ns = u64::MAX / 2;
    let often = (0..2 * ASK - 1).filter(|_| {
        waker.least_ns = u64::MAX / 2;
        asked(&mut waker)
    });
    assert_eq!(often.count(), 1);
    // Awake for longer than at least, by more than two switches.
    assert!(asked(&mut waker), "the 64th");
    (waker.least_ns, waker.woke_ns) = (0, now() - 2 * SWITCHES_NS);
    assert!(asked(&mut waker));
}

#[test]
fn rows_of_the_tracer_are_activations_whose_late_thread_skips_periods() {
    let row = |seq, irq_ns, thread_ns| Row { seq, irq_ns, thread_ns };
    let rows = [
        row(7, None, Some(40)),
        row(8, Some(3), Some(2500)),
        row(9, Some(4), Some(50)),
        // A record of each was lost: the thread's, and all of the next two.
        row(10, Some(5), None),
        row(13, Some(6), Some(60)),
    ];
    let woken = of_rows(&rows, 1000, 2);
    let told: Vec<_> = woken.iter().map(|w| (w.irq_ns, w.user_ns, w.missed, w.skipped)).collect();
    assert_eq!(told, [(None, 40, 0, 0), (Some(3), 2500, 0, 0), (Some(4), 50, 2, 0), (Some(6), 60, 0, 3)]);
    assert!(woken.iter().all(|w| w.work_ns == w.user_ns && w.cpu == 2 && w.end == 0));
}
