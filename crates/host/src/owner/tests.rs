use super::*;
use crate::fixture;

/// Returns the text of `/proc/PID/stat`, with a name that is hard to parse.
pub(crate) fn stat(state: &str, start: u64) -> String {
    let before: Vec<String> = (4..=21).map(|n| n.to_string()).collect();
    format!("12 (a) R (b) {state} {} {start} 23 24\n", before.join(" "))
}

#[test]
fn processes_are_identified_by_number_and_start_time() {
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
    let own_name = name(&Root::system());
    assert!(own_name.starts_with("fathom.") && !left_behind(&Root::system(), &own_name), "{own_name}");
    assert_ne!(own_name, name(&Root::system()));
}
