use super::*;
use crate::fixture;

#[test]
fn mappings_of_the_kernel_have_no_range() {
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
fn group_without_real_time_runtime_is_named_with_its_file() {
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
fn sleep_does_not_end_early() {
    let mut waker = Waker::new(crate::supervisor::Supervisor::new(None, Vec::new()));
    for _ in 0..5 {
        let at = now() + 200_000;
        let awake = waker.sleep(at).expect("a sleep");
        assert!(awake.now_ns >= at, "woken {} ns early", at - awake.now_ns);
    }
    // A past time does not sleep.
    assert!(waker.sleep(now() - 1_000_000).is_ok());
}

#[test]
fn involuntary_switches_are_read_only_if_possible() {
    let mut waker = Waker::new(crate::supervisor::Supervisor::new(None, Vec::new()));
    let requested = |waker: &mut Waker| {
        // No count is this large: if the value stays, the count was not read.
        waker.involuntary = u64::MAX;
        waker.sleep(now() + 50_000).expect("a sleep").involuntary != u64::MAX
    };
    assert!(requested(&mut waker), "the first");
    // No sleep is shorter than the minimum: only every 64th reads the count.
    waker.min_awake_ns = u64::MAX / 2;
    let reads = (0..2 * SLEEPS_PER_QUERY - 1).filter(|_| {
        waker.min_awake_ns = u64::MAX / 2;
        requested(&mut waker)
    });
    assert_eq!(reads.count(), 1);
    // Awake for longer than the minimum, by more than two switches.
    assert!(requested(&mut waker), "the 64th");
    (waker.min_awake_ns, waker.woke_ns) = (0, now() - 2 * SWITCHES_NS);
    assert!(requested(&mut waker));
}

#[test]
fn timerlat_rows_with_late_threads_skip_periods() {
    let row = |seq, irq_ns, thread_ns| Row { seq, irq_ns, thread_ns };
    let rows = [
        row(7, None, Some(40)),
        row(8, Some(3), Some(2500)),
        row(9, Some(4), Some(50)),
        // Lost records: one of the thread, and all of the next two.
        row(10, Some(5), None),
        row(13, Some(6), Some(60)),
    ];
    let woken = tracer_activations(&rows, 1000, 2);
    let reported: Vec<_> = woken.iter().map(|w| (w.irq_ns, w.user_ns, w.missed, w.skipped)).collect();
    assert_eq!(reported, [(None, 40, 0, 0), (Some(3), 2500, 0, 0), (Some(4), 50, 2, 0), (Some(6), 60, 0, 3)]);
    assert!(woken.iter().all(|w| w.work_ns == w.user_ns && w.cpu == 2 && w.end == 0));
}

#[test]
fn gaps_in_driver_rows_are_missed_periods() {
    let row = |expires_ns, irq, task| Activation {
        expires_ns,
        irq_ns: expires_ns + irq,
        task_ns: expires_ns + task,
    };
    // The thread was two periods late. A time before the expiry is not a latency.
    let early = Activation { expires_ns: 10_000, irq_ns: 9_999, task_ns: 0 };
    let rows = [row(5_000, 3, 40), row(6_000, 4, 2500), row(9_000, 5, 50), early];
    let reported: Vec<_> = recorder_activations(&rows, 1000, 2)
        .iter()
        .map(|w| (w.irq_ns, w.user_ns, w.work_ns, w.missed, w.skipped, w.cpu))
        .collect();
    assert_eq!(
        reported,
        [
            (Some(3), 40, 40, 0, 0, 2),
            (Some(4), 2500, 2500, 0, 0, 2),
            (Some(5), 50, 50, 2, 0, 2),
            (Some(0), 0, 0, 0, 0, 2),
        ]
    );
}

/// No test machine has a tracer at that path, or the driver.
#[test]
fn missing_kernel_wake_ups_name_both_sources() {
    let (_keep, root) = fixture::root(&[]);
    let mut waker = Waker::new(crate::supervisor::Supervisor::new(None, Vec::new()));
    let mut refused = |presence: &Presence| {
        let wakes = Wakes { timerlat: true, ..Wakes::default() };
        let refusal =
            waker.kernel_wakeups(&root, presence, (0, 10), &wakes).expect_err("no source of kernel wake-ups");
        assert_eq!(waker.kernel, None, "no source");
        refusal
    };
    let absent = refused(&Presence::Absent);
    assert!(absent.reason.contains("and Fathom's driver is not loaded"), "{absent:?}");
    assert!(absent.remedy.contains("; or, by the driver, load it: make -C driver"), "{absent:?}");
    let denied = refused(&Presence::Denied("Permission denied".into()));
    assert!(denied.remedy.contains("usermod -aG fathom $USER"), "{denied:?}");
}
