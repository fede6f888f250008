use std::io::Error;

use super::*;
use crate::fixture;

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

/// Here or elsewhere: what is offered counts, and what is not offered is refused with a remedy.
#[test]
fn counters_count_or_are_refused() {
    let sizes = crate::pages::sizes(&Root::system(), rustix::param::page_size() as u64, None);
    let mut memory =
        Memory::open(Root::system(), sizes.expect("the kernel's own"), Some(64 << 20)).expect("addresses");
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
