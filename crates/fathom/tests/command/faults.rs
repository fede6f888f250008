//! Faults of files and streams: full, closed, truncated, hostile and endless ones. docs/faults.md shows the output that
//! users see.

use std::io::Write as _;
use std::time::Instant;

use fathom_probe::wire::Line;

use crate::common::{Did, User, is_of};

/// A short survey of a small model.
const SURVEY: &str = "fathom survey --on s1-8way --budget 500ms";

fn record() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../records/v1-bcm2835-survey.fathom");
    std::fs::read_to_string(path).expect("a record").lines().map(str::to_owned).collect()
}

/// Returns the first lines of a record of this experiment.
fn head(experiment: &str) -> String {
    format!(
        "fathom.record version=1\n\
         run experiment=\"{experiment}\" subject=\"x\" seed=1 budget_ms=1000 build=\"x\" command=\"x\"\n"
    )
}

/// Returns these lines, sealed in order.
fn sealed<'a>(lines: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = String::new();
    for (n, line) in lines.into_iter().enumerate() {
        let line = Line::parse(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        out += &(line.seal(n as u64 + 1) + "\n");
    }
    out
}

/// Asserts that the report is complete although the record is not.
#[track_caller]
fn reported(did: &Did) {
    assert!(is_of(&did.out, "survey: s1-8way") && did.out.contains("Clocks and bias"), "{did:?}");
    assert!(!did.err.contains("panicked"), "{did:?}");
}

#[test]
fn full_disk_ends_the_record_but_not_the_measurement() {
    let user = User::new();
    // The limit is in blocks of 512 bytes: both the record and its copy are truncated.
    let did = user.shell(&format!("ulimit -f 16; {SURVEY} --record A"));
    reported(&did);
    assert_eq!(did.status, 1, "{did:?}");
    for words in
        ["--record A: the record ends early: File too large", "the copy of the record, ", "with room for it"]
    {
        assert!(did.err.contains(words), "no '{words}' in {}", did.err);
    }
    assert!(!did.out.contains("Next:"), "nothing is left to report: {}", did.out);
    // The written part is a truncated record.
    let cut = user.run(&["report", "A"]);
    assert!(matches!(cut.status, 3) && cut.out.contains("cut off"), "{cut:?}");
    user.nothing_left(Instant::now());
}

#[test]
fn full_disk_of_the_record_leaves_the_copy_whole() {
    let user = User::new();
    let line = "mkdir -p full && mount -t tmpfs -o size=16k none full || exit 99; ";
    let did = user.shell(&format!("exec unshare -m sh -c '{line}{SURVEY} --record full/A'"));
    if !is_of(&did.out, "survey: ") {
        return fathom_skip::skipped!(Mounts, "no file system can be mounted here: {}", did.err);
    }
    reported(&did);
    assert_eq!(did.status, 1, "{did:?}");
    assert!(did.err.contains("--record full/A: the record ends early: No space left"), "{}", did.err);
    let copy = did.err.split("the copy is whole: ").nth(1).expect("the copy's name").trim();
    let again = user.run(&["report", copy]);
    assert!(matches!(again.status, 0 | 3) && !again.out.contains("damaged-record"), "{again:?}");
    assert!(did.out.replace("\\\n", "").contains(copy), "the report names the copy: {}", did.out);
}

#[test]
fn closed_stdout_is_not_an_error_and_keeps_the_record() {
    let user = User::new();
    user.shell(&format!("{SURVEY} --record A")).ended(0);
    let latency = "fathom latency --on s1-8way --bytes 8K --budget 300ms --record L";
    let survey = format!("{SURVEY} --record B");
    for line in [
        survey.as_str(),
        latency,
        "fathom report A",
        "fathom compare A A --all",
        "fathom generate completions bash",
        "fathom machines",
        "fathom subjects",
        "fathom schema",
    ] {
        let did = user.shell(&format!("{{ {line}; echo $? >status; }} | true"));
        assert_eq!((did.err.as_str(), user.read("status").trim()), ("", "0"), "{line}");
    }
    for record in ["B", "L"] {
        assert!(user.read(record).contains("\nend status=complete"), "{record}");
    }
    user.nothing_left(Instant::now());
}

#[test]
fn full_stdout_is_an_error_and_record_is_kept() {
    let user = User::new();
    let did = user.shell(&format!("{SURVEY} --record A >/dev/full"));
    did.failed(1, &["cannot write to stdout", "No space left", "is the disk full?"]);
    assert!(user.read("A").contains("\nend status=complete"));
    // With all streams closed, no output may be written to the files that get their descriptors.
    let did = user.shell(&format!("{SURVEY} --record B <&- >&- 2>&-"));
    assert_eq!(did.status, 0);
    let b = user.read("B");
    assert!(b.starts_with("fathom.record ") && b.contains("\nend status=complete"));
    assert!(user.record("B").lines().all(|l| Line::parse(l).is_ok()), "{b}");
}

#[test]
fn record_truncated_anywhere_is_reported() {
    let user = User::new();
    let text = record().join("\n");
    // Cuts at regular distances, and in the seal of the last line.
    for cut in (1..text.len()).step_by(text.len() / 12).chain([30, text.len() - 9, text.len() - 1]) {
        user.write("A", &text[..cut]);
        let did = user.run(&["report", "A"]);
        // Cut within the first line, the file is not a record.
        if cut < 23 {
            did.failed(2, &["A: line 1", "a record begins with 'fathom.record version=1'"]);
        } else if cut < text.find('\n').expect("a line") {
            did.failed(2, &["A: line 1"]);
        } else {
            assert!(did.err.is_empty() && did.out.contains("the session was cut off"), "{cut}: {did:?}");
            assert_eq!(did.status, 3, "{cut}: {}", did.out);
        }
    }
}

#[test]
fn hostile_values_in_a_record_are_reported_as_damage() {
    let user = User::new();
    let maximum = u64::MAX;
    let greeting = ["probe wire=1 trust=real", "fact name=\"clock.hz\" int=1000000000", "facts_end count=1"];
    let report = |lines: &[&str]| {
        user.write_record(
            "A",
            &(head("survey")
                + &sealed(greeting.iter().chain(lines).copied())
                + "end status=complete elapsed_ms=1\n"),
        );
        let did = user.run(&["report", "A"]);
        assert!(did.err.is_empty(), "{did:?}");
        did.out.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    // No memory is allocated for claimed counts.
    let part = format!("fact name=\"acpi.pptt\" part=0 of={maximum} hex=0x00");
    assert!(
        report(&[&part, "facts_end count=1"]).contains("only 1 of 18446744073709551615 parts were received")
    );
    let trial = format!("trial id={maximum} bytes=64 stride=64");
    assert!(report(&[&trial]).contains("id and round must be at most"));
    assert!(
        report(&[&format!("trial loads={maximum}")]).contains("loads=18446744073709551615 must be from 1")
    );
    assert!(
        report(&["trial id=1", "trial id=2", "sample trial=1 ticks=1 ticks2=2 end=0 end2=0"])
            .contains("trial 1 is not the running trial")
    );
    let huge = format!("sample trial=1 ticks={maximum} ticks2={maximum} end={maximum} end2={maximum}");
    let done = format!(
        "done trial=1 page_bytes={maximum} base={maximum} wall_ns={maximum} cpu_ns={maximum} involuntary={maximum} steal_ns={maximum} faults={maximum} accesses={maximum}"
    );
    assert!(report(&["trial id=1 bytes=4096", &huge, &done]).contains("1 samples did not"));
    let end =
        user.write_record("A", &format!("{}end status=complete elapsed_ms={maximum}\n", head("survey")));
    assert!(user.run(&["report", end.to_str().expect("a name"), "--json"]).err.is_empty());
}

#[test]
fn endless_record_is_abandoned_with_the_limit() {
    let user = User::new();
    // Each command may take at most 64 MiB and must end.
    let lines = [
        ("yes", "-: line 1 begins with 'y'"),
        ("cat /dev/zero", "-: line 1: line of 4138 bytes; the limit is 4096"),
        (
            "{ echo 'fathom.record version=1 @1:e229c806:db568a6e'; yes; }",
            "more than 100000 lines are blank or not lines of a record",
        ),
        (
            "{ echo 'fathom.record version=1 @1:e229c806:db568a6e'; yes ''; }",
            "more than 100000 lines are blank or not lines of a record",
        ),
        ("{ echo 'fathom.record version=1 @1:e229c806:db568a6e'; cat /dev/zero; }", "longer than 256 MiB"),
    ];
    for (stream, words) in lines {
        let did = user.shell(&format!("ulimit -v 65536; {stream} | fathom report -"));
        did.failed(2, &[words, "fathom survey --record FILE"]);
    }
    user.run(&["report", "/dev/zero"]).failed(2, &["/dev/zero: line 1"]);
    user.nothing_left(Instant::now());
}

/// Returns the record of a trial whose samples need more than 64 MiB to judge.
pub fn many_samples() -> String {
    let columns = ["ticks", "ticks2", "end", "end2"].map(|c| format!(" {c}={}1", "1,".repeat(199))).concat();
    let sample = format!("sample trial=0{columns}");
    let greeting = ["probe wire=1 trust=modelled", "facts_end count=0", "trial bytes=64 stride=64"];
    let samples = std::iter::repeat_n(sample.as_str(), 2000);
    head("latency") + &sealed(greeting.into_iter().chain(samples))
}

/// Returns a record of `hundreds` × 100 single loads, each with a different time. Their chain has one cell, at which
/// every verification ends.
pub fn all_different(hundreds: u64) -> String {
    let list = |from: u64| (from..from + 100).map(|t| t.to_string()).collect::<Vec<_>>().join(",");
    let zeros = format!("0{}", ",0".repeat(99));
    let samples = (0..hundreds).map(|n| {
        format!("sample trial=0 ticks={} ticks2={} end={zeros} end2={zeros}", list(n * 100), list(n * 100))
    });
    let greeting =
        ["probe wire=1 trust=modelled", "facts_end count=0", "trial pattern=single bytes=64 stride=64"];
    let done =
        "done trial=0 page_bytes=4096 base=0 wall_ns=1 cpu_ns=1 involuntary=0 steal_ns=0 faults=0 accesses=1";
    let lines: Vec<String> =
        greeting.map(str::to_owned).into_iter().chain(samples).chain([done.to_owned()]).collect();
    head("latency") + &sealed(lines.iter().map(String::as_str)) + "end status=complete elapsed_ms=1\n"
}

#[test]
fn records_with_too_many_trials_or_samples_are_refused() {
    let user = User::new();
    let greeting = ["probe wire=1 trust=modelled", "facts_end count=0"];
    // More trials than any session has.
    let trials = std::iter::repeat_n("trial bytes=64 stride=64", 20_001);
    user.write_record("A", &(head("survey") + &sealed(greeting.into_iter().chain(trials))));
    user.run(&["report", "A"])
        .failed(2, &["A: line 20005: more than 20000 trials, more than any session has"]);
    // More samples of one trial than fit the memory.
    user.write_record("A", &many_samples());
    let did = user.shell("ulimit -v 65536; fathom report A");
    did.failed(2, &["MiB may be taken here", "RLIMIT_AS", "more memory"]);
}

#[test]
fn subject_silent_after_half_a_line_is_abandoned() {
    let user = User::new();
    user.subject("odd", "printf 'probe wire=1 wor'; sleep 1000");
    let did = user.run(&["survey", "--on", "odd", "--record", "A", "--patience", "1s"]);
    did.failed(1, &["sent nothing for 1 s", "type: facts", "fathom report A"]);
    user.nothing_left(Instant::now());
}

#[test]
fn subject_silent_after_greeting_is_abandoned_and_record_kept() {
    let user = User::new();
    user.subject(
        "late",
        "echo 'probe wire=1 trust=real seq=1 crc=0x16539b27'; read -r l; sleep 1000; echo late",
    );
    for verb in ["survey", "latency"] {
        let did = user.run(&[verb, "--on", "late", "--record", "A", "--force", "--patience", "1s"]);
        did.failed(1, &["sent nothing for 1 s", "fathom report A"]);
        assert!(user.read("A").contains("probe wire=1 trust=real"), "{}", user.read("A"));
        user.nothing_left(Instant::now());
    }
}

#[test]
fn subject_that_sends_too_many_trials_is_ended() {
    let user = User::new();
    let greeting = ["probe wire=1 trust=modelled", "facts_end count=0"];
    let trials = std::iter::repeat_n("trial bytes=64 stride=64", 20_001);
    user.write("lines", &sealed(greeting.into_iter().chain(trials)));
    user.subject("endless", &format!("cat '{}'; sleep 1000", user.path("lines").display()));
    let did = user.run(&["survey", "--on", "endless", "--record", "A"]);
    did.failed(
        1,
        &["the subject sent too much", "more than 20000 trials", "is it a probe?", "fathom report A"],
    );
    user.nothing_left(Instant::now());
}

#[test]
fn invalid_machine_and_subject_files_are_named() {
    let user = User::new();
    std::fs::write(user.path("bad.toml"), b"format = 1\nabout = \"\xff\xfe\"\n").expect("a file");
    user.run(&["machines", "./bad.toml"]).failed(2, &["./bad.toml: line 2 is not UTF-8 text"]);
    user.run(&["machines", "/dev/zero"]).failed(2, &["/dev/zero: longer than 1024 KiB"]);
    user.run(&["machines", "."]).failed(2, &["no subject or machine is called '.'"]);
    user.run(&["machines", "./"]).failed(2, &["./: Is a directory"]);
    user.write("escape.toml", "format = 1\n\"\\u001b[31m\" = 1\n");
    let did = user.run(&["machines", "./escape.toml"]);
    did.failed(2, &["./escape.toml:2:1"]);
    assert!(!did.err.contains('\x1b'), "{:?}", did.err);
    // The same faults in subjects.toml.
    let file_path = user.write(".config/fathom/subjects.toml", "");
    let mut file = std::fs::File::create(&file_path).expect("a file");
    file.write_all(b"[a]\n\xff\n").expect("room");
    user.run(&["subjects"]).failed(2, &["subjects.toml: line 2 is not UTF-8 text", "readable text file"]);
    file.set_len(2 << 20).expect("its length");
    user.run(&["survey", "--on", "a"]).failed(2, &["subjects.toml: longer than 1024 KiB"]);
    std::fs::remove_file(&file_path).expect("it is there");
    std::fs::create_dir(&file_path).expect("a directory");
    user.run(&["subjects"]).failed(2, &["subjects.toml: Is a directory"]);
}
