//! The deterministic laboratory (`scripts/lab`): two runs with one seed give the same bytes.
//!
//! Skipped, aloud, where the static AArch64 binary, QEMU or Debian's kernel cannot be had. `scripts/test` names the
//! binary in FATHOM_BOARD; the laboratory would otherwise build it within the test, for minutes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use fathom_experiment::record::Record;
use fathom_probe::machine::Worth;

/// What the laboratory answers where it cannot be had.
const NOT_HERE: i32 = 77;

/// Seconds of wall time until a guest is given up: some fifteen times what a run takes on two busy cores.
const LIMIT: &str = "400";

/// A guest that has been started, and where its record will be.
struct Run {
    laboratory: std::process::Child,
    record: PathBuf,
}

/// MiB of the guest's memory: two workers with 64 MiB each, beside what a guest has anyway.
const MEMORY: &str = "512";

fn start(folder: &Path, name: &str, arguments: &[&str]) -> Run {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let record = folder.join(name);
    let laboratory = Command::new("sh")
        .arg(format!("{root}/scripts/lab"))
        .args(["--seed", "1", "--limit", LIMIT, "--memory", MEMORY, "-o"])
        .arg(&record)
        .arg("--")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    Run { laboratory, record }
}

/// What a guest left: status and report, and its record. `None`, aloud, where there is no laboratory.
fn end(run: Run) -> Option<(Output, Vec<u8>)> {
    let output = run.laboratory.wait_with_output().expect("the laboratory ends");
    if output.status.code() == Some(NOT_HERE) {
        println!("SKIPPED: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    let record = std::fs::read(&run.record).unwrap_or_else(|e| panic!("no record: {e}; {output:?}"));
    Some((output, record))
}

#[test]
fn two_runs_with_one_seed_give_the_same_bytes() {
    if std::env::var_os("FATHOM_BOARD").is_none() {
        return println!("SKIPPED: FATHOM_BOARD names no static AArch64 fathom, as scripts/test does");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let survey = ["survey", "--budget", "2s", "--color", "never"];
    // At once: they take turns on this host's CPUs in ways that never repeat.
    let runs = [start(folder.path(), "first", &survey), start(folder.path(), "second", &survey)];
    let [Some((one, first)), Some((two, second))] = runs.map(end) else { return };
    // An emulated guest refuses every time, and says so.
    assert_eq!(one.status.code(), Some(5), "{one:?}");
    assert_eq!(two.status.code(), Some(5), "{two:?}");
    let printed = [&one, &two].map(|run| String::from_utf8_lossy(&run.stdout).into_owned());
    assert_eq!(printed[0], printed[1]);
    // Whole records of trials that ran, and not the same nothing twice.
    let text = String::from_utf8(first.clone()).expect("a record is text");
    let record = Record::parse(&text).expect("a record");
    assert!(record.problems.is_empty(), "it came whole through the console: {:?}", record.problems);
    assert!(record.end.is_some(), "the guest ended in order");
    assert_eq!(record.worth, Some(Worth::Emulated));
    let done = record.trials.iter().filter(|t| t.done.is_some()).count();
    assert!(done > 10, "{done} trials");
    let line = record.text("env.cmdline").expect("the kernel's command line");
    assert!(line.contains("fathom.instruction_ns=4"), "{line}");
    let again = String::from_utf8_lossy(&second);
    let differ: Vec<_> = text.lines().zip(again.lines()).filter(|(a, b)| a != b).take(3).collect();
    assert!(first == second, "the first lines that differ: {differ:#?}");
}

/// The sweep of one allocator in the guest, as a report, with the record's bytes.
fn sweep(folder: &Path, name: &str, allocator: &[&str]) -> Option<(String, Vec<u8>)> {
    let plain =
        ["pressure", "--sweep", "--bytes", "8M,16M,31M,32M,64M", "--modes", "free", "--budget", SWEEP];
    let run = start(folder, name, &[&plain[..], allocator, &["--no-trace", "--color", "never"]].concat());
    let (output, record) = end(run)?;
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    Some((String::from_utf8_lossy(&output.stdout).into_owned(), record))
}

/// Seconds of the guest's time for a sweep.
const SWEEP: &str = "60s";

/// Page faults a second that workers of a size had.
fn faults(record: &[u8], bytes: u64) -> f64 {
    let record = Record::parse(&String::from_utf8_lossy(record)).expect("a record");
    let of = |run: &&fathom_experiment::record::TrialRun| {
        run.done.is_some() && run.trial.load.stressors.first().is_some_and(|s| s.bytes == bytes)
    };
    let (faults, ns) = record
        .trials
        .iter()
        .filter(of)
        .flat_map(|run| &run.wakeups.pressed)
        .fold((0, 0), |(faults, ns), pressed| (faults + pressed.faults, ns + pressed.ns));
    faults as f64 / (ns.max(1) as f64 / 1e9)
}

/// What `stress` does to a path, by its allocator alone: no cache is in this guest. With glibc's rules blocks below 32
/// MiB never fault again, and all above do in each round; mapped explicitly, every size does.
#[test]
#[ignore = "minutes: scripts/test --full"]
fn the_allocators_kink_is_found_and_is_the_allocators() {
    if std::env::var_os("FATHOM_BOARD").is_none() {
        return println!("SKIPPED: FATHOM_BOARD names no static AArch64 fathom, as scripts/test does");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Some((report, record)) = sweep(folder.path(), "malloc", &["--like-stress"]) else { return };
    let [below, above] = [31 << 20, 32 << 20].map(|bytes| faults(&record, bytes));
    assert!(below < 100.0 && above > 10_000.0, "{below} and {above} faults a second");
    let kink = report.lines().find(|line| line.contains("31 MiB") && line.contains("32 MiB"));
    assert!(kink.is_some(), "no inflection between 31 and 32 MiB: {report}");
    let Some((report, record)) = sweep(folder.path(), "vm", &[]) else { return };
    let [below, above] = [31 << 20, 32 << 20].map(|bytes| faults(&record, bytes));
    assert!(below > 10_000.0 && above > 10_000.0, "{below} and {above} faults a second");
    let kink = report.lines().find(|line| line.contains("31 MiB") && line.contains("32 MiB"));
    assert!(kink.is_none(), "an inflection without an allocator: {report}");
}
