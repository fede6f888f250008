use std::io::Error;

use super::*;
use crate::driver::Presence;
use crate::fixture;
use crate::perf::tests::EMULATION_FAULTS;

#[test]
fn refusals_name_the_remedy_for_the_error() {
    let (_keep, root) = fixture::root(&[("/proc/sys/kernel/perf_event_paranoid", "4\n")]);
    let of = |code| refusal(&root, &Error::from_raw_os_error(code));
    assert!(of(libc::ENOENT).remedy.contains("PMU"));
    assert!(of(libc::EACCES).remedy.contains("perf_event_paranoid=2"));
    assert!(of(libc::EACCES).reason.contains("is 4"));
    assert!(of(libc::ENOSYS).remedy.contains("CONFIG_PERF_EVENTS"));
    for code in [libc::ENOENT, libc::EPERM, libc::ENOSYS, libc::EINVAL, libc::EMFILE] {
        let refusal = of(code);
        assert!(!refusal.reason.is_empty() && !refusal.remedy.is_empty(), "{refusal:?}");
    }
}

/// Available counters count, and others are refused with a remedy.
#[test]
fn counters_count_or_are_refused() {
    let sizes = crate::pages::sizes(&Root::system(), rustix::param::page_size() as u64, None);
    let mut memory =
        Memory::open(Root::system(), sizes.expect("the kernel's own"), Some(64 << 20), Presence::Absent)
            .expect("addresses");
    let (mut events, facts) = Events::open(&Root::system(), &mut memory);
    assert!(facts.iter().any(|f| f.name == "privilege.counters"));
    match events.read() {
        Ok(before) => {
            clock::alu(1 << 20);
            let after = events.read().expect("they could be read before");
            for (before, after) in before.iter().zip(&after) {
                assert_eq!(before.name, after.name);
                if before.name == "instructions" {
                    assert!(after.value - before.value > 1 << 20);
                }
            }
        }
        Err(refusal) => assert!(!refusal.reason.is_empty() && !refusal.remedy.is_empty(), "{refusal:?}"),
    }
}

/// Counters are closed and opened again, or refused as before.
#[test]
fn closed_counters_count_again_after_reopening() {
    let sizes = crate::pages::sizes(&Root::system(), rustix::param::page_size() as u64, None);
    let mut memory =
        Memory::open(Root::system(), sizes.expect("the kernel's own"), Some(64 << 20), Presence::Absent)
            .expect("addresses");
    let (mut events, _) = Events::open(&Root::system(), &mut memory);
    let names = |counts: Vec<Count>| counts.into_iter().map(|count| count.name).collect::<Vec<_>>();
    let before = events.read().map(names);
    events.close_all();
    events.close_all();
    assert!(events.counters.is_empty());
    let after = events.read().map(names);
    assert_eq!(before.as_ref().ok(), after.as_ref().ok());
    if let Err(refusal) = &after {
        fathom_skip::skipped!(Unchecked, "that they count: {}: {}", refusal.reason, refusal.remedy);
    }
    clock::alu(1 << 20);
    assert!(events.read().is_ok_and(|counts| counts.iter().all(|count| count.value > 0)) || after.is_err());
}

#[test]
fn impossible_counts_are_not_believed() {
    assert_eq!(judge(400, 300_400), Tried::Counted(300_000));
    assert_eq!(judge(7, 7), Tried::Nothing);
    // QEMU's ARM1176 under Linux 6.1: registers that stay 0, of counters that began at -(2^31 - 1).
    for (before, after) in
        [(2_147_483_647, 2_147_483_647), (0, 2_147_483_647), (2_147_483_647, 4_294_967_294), (9, 8)]
    {
        assert_eq!(judge(before, after), Tried::Impossible(after));
    }
}

/// Software events replace hardware events here: one that always counts, and one that opens everywhere and counts
/// nothing on these architectures.
#[test]
fn event_that_counts_nothing_is_left_out() {
    let (Ok(time), Ok(nothing)) = (Counter::open(Event::TASK_CLOCK), Counter::open(EMULATION_FAULTS)) else {
        fathom_skip::skipped!(Unchecked, "perf_event_open is not permitted here");
        return;
    };
    let sizes = crate::pages::sizes(&Root::system(), rustix::param::page_size() as u64, None);
    let mut memory =
        Memory::open(Root::system(), sizes.expect("the kernel's own"), Some(64 << 20), Presence::Absent)
            .expect("addresses");
    let mut counters = vec![("nothing", nothing), ("time", time)];
    let mut facts = Vec::new();
    keep_counting(&mut counters, &mut memory, &mut facts);
    let names: Vec<&str> = counters.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["time"]);
    assert!(facts.contains(&int("counter.nothing.tried", 0)));
    let refusal = Refusal::new("", "");
    let before = Events { counters, closed: Vec::new(), refusal }.read().expect("it counts");
    assert_eq!(before[0].name, "time");
    assert!(before[0].value > 0);
}
