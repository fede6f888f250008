use super::*;
use crate::fixture;

/// `/proc/PID/stat`, with a name that is hard to parse.
pub(crate) fn stat(state: &str, start: u64) -> String {
    let before: Vec<String> = (4..=21).map(|n| n.to_string()).collect();
    format!("12 (a) R (b) {state} {} {start} 23 24\n", before.join(" "))
}

#[test]
fn a_process_is_known_by_its_number_and_its_start() {
    let (lives, dead) = (stat("S", 777), stat("Z", 777));
    let (_keep, root) = fixture::root(&[("/proc/12/stat", &lives), ("/proc/13/stat", &dead)]);
    assert_eq!((started(&root, 12), started(&root, 13), started(&root, 14)), (Some(777), None, None));
    assert!(!left_behind(&root, "fathom.12.777.0"));
    assert!(left_behind(&root, "fathom.12.776.0"), "its number is another's now");
    assert!(left_behind(&root, "fathom.13.777.0"), "dead, and waiting to be reaped");
    assert!(left_behind(&root, "fathom.14.777.0"));
    for other in
        ["fathom", "fathom.", "fathom.x.1", "fathom.14", "fathom.14.", "other.14.777", "xfathom.14.777"]
    {
        assert!(!left_behind(&root, other), "{other} is not ours");
    }
    let own = name(&Root::system());
    assert!(own.starts_with("fathom.") && !left_behind(&Root::system(), &own), "{own}");
    assert_ne!(own, name(&Root::system()));
}
