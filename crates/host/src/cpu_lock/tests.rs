use std::os::unix::fs::symlink;

use super::*;
use crate::fixture;

/// A machine with two CPUs, and options that do not wait.
fn machine() -> (tempfile::TempDir, Root, LockOptions) {
    let (directory, root) = fixture::root(&[
        ("/sys/devices/system/cpu/cpu0/online", "1"),
        ("/sys/devices/system/cpu/cpu1/online", "1"),
        ("/sys/devices/system/cpu/cpufreq/boost", "1"),
    ]);
    (directory, root, LockOptions::default())
}

fn texts(facts: &[Fact]) -> Vec<String> {
    facts.iter().map(|fact| format!("{fact:?}")).collect()
}

#[test]
fn cpu_is_measured_by_one_process_at_a_time() {
    let (_directory, root, options) = machine();
    let (first, facts) = CpuLock::acquire(&root, &options, 1).expect("a free CPU");
    assert!(texts(&facts).iter().any(|fact| fact.contains("held")), "{facts:?}");
    let refusal = CpuLock::acquire(&root, &options, 1).expect_err("it is measured");
    assert!(refusal.reason.starts_with("CPU 1 is measured by "), "{refusal:?}");
    assert!(refusal.remedy.contains("--cpu"), "{refusal:?}");
    let (mut other, _) = CpuLock::acquire(&root, &options, 0).expect("another CPU");
    assert!(texts(&other.others("env.after").into_iter().collect::<Vec<_>>())[0].contains("\"1\""));
    drop(first);
    CpuLock::acquire(&root, &options, 1).expect("free again");
}

#[test]
fn measurement_that_begins_and_ends_between_two_trials_of_another_is_seen() {
    let (_directory, root, options) = machine();
    let (mut lock, _) = CpuLock::acquire(&root, &options, 0).expect("a free CPU");
    assert!(lock.others("env").is_none());
    lock.looked = None;
    let (meanwhile, _) = CpuLock::acquire(&root, &options, 1).expect("another CPU");
    lock.look();
    drop(meanwhile);
    let seen: Vec<Fact> = lock.others("env.after").into_iter().collect();
    assert!(texts(&seen)[0].contains("\"1\""), "{seen:?}");
}

#[test]
fn end_of_another_measurement_is_waited_for() {
    let (_directory, root, options) = machine();
    let (first, _) = CpuLock::acquire(&root, &options, 0).expect("a free CPU");
    let release = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        drop(first);
    });
    let waiting = LockOptions { wait: Duration::from_secs(60), ..options };
    let (_second, facts) = CpuLock::acquire(&root, &waiting, 0).expect("it becomes free");
    release.join().expect("the other measurement");
    let waited = facts.iter().find(|fact| fact.name == facts::CPU_LOCK_WAITED_MS).expect("a fact");
    assert!(!format!("{waited:?}").contains("(0)"), "{waited:?}");
}

#[test]
fn directory_may_be_shared_and_links_in_it_are_not_followed() {
    let (directory, root, _) = machine();
    let shared = directory.path().join("shared");
    std::fs::create_dir(&shared).expect("a directory");
    let options = LockOptions { directory: Some(shared.clone()), ..LockOptions::default() };
    let (first, _) = CpuLock::acquire(&root, &options, 3).expect("a free CPU");
    CpuLock::acquire(&root, &options, 3).expect_err("it is measured");
    drop(first);
    symlink("/dev/null", shared.join("cpu4")).expect("a link");
    for (cpu, options) in [
        (4, options),
        (5, LockOptions { directory: Some(directory.path().join("none")), ..LockOptions::default() }),
        // A machine without sysfs.
        (9, LockOptions::default()),
    ] {
        let (_, facts) = CpuLock::acquire(&root, &options, cpu).expect("a measurement without a lock");
        assert!(texts(&facts)[0].contains("none: "), "{facts:?}");
    }
}

#[test]
fn holder_is_named_by_its_command() {
    let (directory, root, options) = machine();
    let (lock, _) = CpuLock::acquire(&root, &options, 0).expect("a free CPU");
    let file = lock.open(0).expect("the place");
    let about = file.metadata().expect("its numbers");
    let (major, minor) = (libc::major(about.dev()), libc::minor(about.dev()));
    let line = format!(
        "1: POSIX  ADVISORY  WRITE 7 00:01:2 0 EOF\n2: FLOCK  ADVISORY  WRITE 41 {major:02x}:{minor:02x}:{} 0 EOF",
        about.ino()
    );
    fixture::write(directory.path(), "/proc/locks", line.as_bytes());
    assert_eq!(lock.holder(&file), "process 41");
    fixture::write(directory.path(), "/proc/41/cmdline", b"/bin/fathom\0serve\0host\x1b[2J\0");
    assert_eq!(lock.holder(&file), "process 41 (/bin/fathom serve host [2J)");
    fixture::write(directory.path(), "/proc/41/status", b"Name:\tfathom\nPPid:\t40\n");
    fixture::write(directory.path(), "/proc/40/cmdline", b"fathom\0survey\0");
    assert_eq!(lock.holder(&file), "process 41 (fathom survey)");
    fixture::write(directory.path(), "/proc/40/cmdline", b"bash\0");
    assert_eq!(lock.holder(&file), "process 41 (/bin/fathom serve host [2J)");
    fixture::write(directory.path(), "/proc/locks", b"");
    assert_eq!(lock.holder(&file), "a process that is not seen from here");
}
