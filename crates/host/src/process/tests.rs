use super::*;
use crate::fixture;

#[test]
fn an_isolated_cpu_is_preferred_then_the_last() {
    let (_keep, root) = fixture::root(&[("/sys/devices/system/cpu/isolated", "2-3,6\n")]);
    let all: Vec<u32> = (0..8).collect();
    assert_eq!(choose_cpu(&root, &all, None), Ok(6));
    assert_eq!(choose_cpu(&root, &[0, 1, 3, 5], None), Ok(3));
    assert_eq!(choose_cpu(&root, &[0, 1, 5], None), Ok(5), "isolated ones are not allowed: the last");
    assert_eq!(choose_cpu(&root, &all, Some(1)), Ok(1), "who asks is served");
    let (_keep, root) = fixture::root(&[("/sys/devices/system/cpu/isolated", "\n")]);
    assert_eq!(choose_cpu(&root, &all, None), Ok(7));
}

#[test]
fn disallowed_cpu_is_refused_with_the_allowed_ones() {
    let (_keep, root) = fixture::root(&[]);
    let refusal = choose_cpu(&root, &[0, 4], Some(2)).expect_err("not allowed");
    assert!(refusal.reason.contains("CPU 2") && refusal.reason.contains("0,4"), "{refusal:?}");
    assert!(choose_cpu(&root, &[], None).is_err());
}

#[test]
fn unexpected_parent_is_refused() {
    // The check precedes the request for a signal, and a process is never its own parent. (0 would mean a parent
    // outside of this PID namespace.)
    let own = std::process::id();
    let refusal = die_with_parent(Some(own)).expect_err("a process is not its own parent");
    assert!(refusal.reason.contains("gone"), "{refusal:?}");
    rustix::process::set_parent_process_death_signal(None).expect("taken back for the other tests");
}

#[test]
fn cpu_lists_are_parsed() {
    assert_eq!(cpu_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
    assert_eq!(cpu_list(""), []);
    assert_eq!(cpu_list("x,3-1,-,5"), [5]);
    assert_eq!(cpu_list("0-4294967295").len(), 4096);
}
