use super::*;
use crate::fixture;

const STAT: &str = "cpu  10 20 30 40 50 60 70 999 90 0\ncpu0 1 2 3 4 5 6 7 8 9 0\ncpu1 1 2 3 4 5 6 7 25 9 0\n\
                    cpu10 1 2 3 4 5 6 7 77 9 0\nintr 12345\n";

#[test]
fn stolen_time_is_that_of_the_pinned_cpu() {
    assert_eq!(stolen(STAT, "cpu1 "), Some(25));
    assert_eq!(stolen(STAT, "cpu10 "), Some(77));
    assert_eq!(stolen(STAT, "cpu2 "), None);
    assert_eq!(stolen("cpu0 1 2 3", "cpu0 "), None);
    let (_keep, root) = fixture::root(&[("/proc/stat", STAT)]);
    let mut watcher = Watcher::new(&root, 1, true);
    let step = watcher.steal_step_ns().expect("stolen time is read");
    assert_eq!(watcher.read().steal_ns, 25 * step);
}

#[test]
fn long_stat_file_is_read_up_to_the_cpu() {
    let mut text = String::from("cpu  1 2 3 4 5 6 7 8 9 0\n");
    for cpu in 0..600 {
        let big = u64::MAX / 2;
        text += &format!("cpu{cpu} {big} {big} {big} {big} {big} {big} {big} {cpu} {big} {big}\n");
    }
    let (_keep, root) = fixture::root(&[("/proc/stat", &text)]);
    let mut watcher = Watcher::new(&root, 599, true);
    assert_eq!(watcher.read().steal_ns, 599 * watcher.steal_step_ns().expect("read"));
}

#[test]
fn stolen_time_is_not_read_on_hardware() {
    let (_keep, root) = fixture::root(&[("/proc/stat", STAT)]);
    let mut watcher = Watcher::new(&root, 1, false);
    assert_eq!((watcher.steal_step_ns(), watcher.read().steal_ns), (None, 0));
}
