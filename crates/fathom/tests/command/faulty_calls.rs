//! Every call of the system and every allocation fails once, in the command and in its probe: the failure is told, or the
//! record is whole. The calls fail by `faulty_calls.c`, which is preloaded.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::io::Errno;

use crate::common::{Did, User, wait};

/// A measurement with a record and a page, and the same calls each time.
const MEASUREMENT: [&str; 12] = [
    "latency", "--on", "s1-8way", "--bytes", "8K", "--budget", "300ms", "--record", "A", "--html", "B", "-q",
];

/// Builds the library; None, with a message, where that is not possible.
fn library(user: &User) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/faulty_calls.c");
    let to = user.path("faulty_calls.so");
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).args([&to, &source]).arg("-ldl").output();
    match built {
        Ok(output) if output.status.success() && cfg!(target_env = "gnu") => Some(to),
        Ok(output) => {
            fathom_skip::skipped!(
                Unchecked,
                "no glibc, or no C compiler for it: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            None
        }
        Err(e) => {
            fathom_skip::skipped!(Unchecked, "no C compiler: {e}");
            None
        }
    }
}

/// Runs the measurement with one failing call, in a new home. Returns None if there are not so many calls.
fn run(library: &Path, call: &str, at: u64, error: Errno) -> Option<(User, Did)> {
    let user = User::new();
    let mut command = user.command(&MEASUREMENT);
    command.env("LD_PRELOAD", library).env("FAULT_CALL", call).env("FAULT_AT", at.to_string());
    command.env("FAULT_ERRNO", error.raw_os_error().to_string()).env("FAULT_HIT", user.path("hit"));
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let did = wait(command.spawn().expect("it starts"));
    user.path("hit").exists().then_some((user, did))
}

/// Asserts that the failure was told, or that nothing is missing; and that a record which is not whole says so.
fn told_or_whole(user: &User, did: &Did, what: &str) {
    let whole = |file: &Path| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.lines().last().is_some_and(|end| end.starts_with("end status=complete"))
    };
    let record = user.path("A");
    if did.status == 0 && did.err.is_empty() {
        assert!(whole(&record), "{what}: nothing is told, and the record is not whole");
        assert!(
            user.read("B").trim_end().ends_with("</html>"),
            "{what}: nothing is told, and the page is not whole"
        );
        assert!(did.out.contains("Clocks and bias"), "{what}: nothing is told, and the report is not whole");
    }
    assert!(did.status == 0 || !did.err.is_empty(), "{what}: status {} without a message", did.status);
    // An allocation that fails ends the process at once (SIGABRT), and so does Rust's runtime without memory at its start.
    assert!(matches!(did.status, -1..=3 | 5), "{what}: {did:?}");
    let memory = ["malloc ", "mmap "].iter().any(|call| what.starts_with(call));
    assert!(memory || (did.status >= 0 && !did.err.contains("panicked")), "{what}: {did:?}");
    let kept = std::fs::read_dir(user.path(".local/share/fathom/records")).into_iter().flatten().flatten();
    for file in kept.map(|entry| entry.path()).chain([record]).filter(|file| file.exists()) {
        let shown = file.to_string_lossy();
        let report = user.run(&["report", &shown, "--json"]);
        assert!(!report.err.contains("panicked"), "{what}: {report:?}");
        assert!(
            report.status != 0 || whole(&file),
            "{what}: {shown} is not whole, and its report does not say so"
        );
    }
}

/// Lets every `step`-th call fail. Returns how many failed.
fn sweep(library: &Path, call: &str, error: Errno, step: u64) -> u64 {
    let mut failed = 0;
    for at in (1..).step_by(step as usize) {
        let Some((user, did)) = run(library, call, at, error) else { break };
        told_or_whole(&user, &did, &format!("{call} {at}"));
        failed += 1;
    }
    failed
}

/// Returns the step of a sweep: every call in the full tier.
fn step(by_default: u64) -> u64 {
    if std::env::var_os("FATHOM_FULL").is_some() { 1 } else { by_default }
}

#[test]
fn failed_call_is_told_or_the_record_is_whole() {
    let user = User::new();
    let Some(library) = library(&user) else { return };
    let mut failed = Vec::new();
    for (call, error, by_default) in [
        ("write", Errno::NOSPC, 23),
        ("write", Errno::IO, 29),
        ("read", Errno::IO, 23),
        ("open", Errno::MFILE, 1),
        ("sync", Errno::IO, 3),
        ("mkdir", Errno::ROFS, 1),
        ("flock", Errno::NOLCK, 1),
        ("thread", Errno::AGAIN, 1),
        ("spawn", Errno::AGAIN, 1),
        ("mmap", Errno::NOMEM, 1),
    ] {
        let count = sweep(&library, call, error, step(by_default));
        assert!(count > 0, "no {call} failed");
        failed.push(format!("{count} {call}"));
    }
    println!("failed: {}", failed.join(", "));
}

/// A session of several rounds syncs its record and its copy at the start, after each round and at the end: a longer one more often.
#[test]
fn record_is_synced_after_each_round() {
    let user = User::new();
    let Some(library) = library(&user) else { return };
    let has_call = |budget: &str, at: u64| {
        let user = User::new();
        let line =
            ["wakeup", "--on", "am5728", "--conditions", "unloaded", "-q", "--record", "A", "--budget"];
        let mut command = user.command(&[&line[..], &[budget]].concat());
        command.env("LD_PRELOAD", &library).env("FAULT_CALL", "sync").env("FAULT_AT", at.to_string());
        command.env("FAULT_ERRNO", Errno::IO.raw_os_error().to_string()).env("FAULT_HIT", user.path("hit"));
        wait(command.spawn().expect("it starts"));
        user.path("hit").exists()
    };
    let few = (1..).find(|at| !has_call("1s", *at)).expect("an end");
    assert!(few > 2, "{few} calls in a short session");
    assert!(has_call("20s", few), "no more than {few} calls in a longer one");
}

#[test]
fn failed_allocation_is_told_or_the_record_is_whole() {
    let user = User::new();
    let Some(library) = library(&user) else { return };
    // All 25,000 would take hours.
    let count = sweep(&library, "malloc", Errno::NOMEM, 11 * step(137));
    assert!(count > 5, "{count} allocations failed");
    println!("failed: {count} allocations");
}
