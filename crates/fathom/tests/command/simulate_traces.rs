//! Traces on described machines: counts that are known by arithmetic, a kept trace that gives what its run gave, and wrong traces that
//! are told with their place.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Did, User, kill, wait};
use crate::simulate::{TARGETS, built, misses, value};

/// Simulates a trace; returns its report.
fn simulated(user: &User, on: &str, arguments: &[&str]) -> Value {
    let did = user.run(&[&["simulate", "--on", on, "--json"], arguments].concat());
    assert_eq!(did.status, 0, "{did:?}");
    serde_json::from_str(&did.out).unwrap_or_else(|e| panic!("{e}: {did:?}"))
}

fn bytes(user: &User, name: &str) -> Vec<u8> {
    std::fs::read(user.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Returns a trace in din: two passes over 16 KiB and one over 1 MiB, by words of 8 bytes, and as many stores.
fn din() -> String {
    let pass =
        |label: u8, bytes: u64| (0..bytes / 8).map(move |n| format!("{label} {:x}\n", 0x10_0000 + 8 * n));
    pass(0, 16 << 10).chain(pass(0, 16 << 10)).chain(pass(1, 1 << 20)).collect()
}

#[test]
fn din_without_fetches_reports_what_it_knows() {
    let user = User::new();
    user.write("x.din", &din());
    let document = simulated(&user, "bcm2837", &["--trace", "x.din"]);
    // Lines of 64 bytes, of which the first 256 are there; pages of 4 KiB, of which four are known.
    for (name, expected) in [
        ("simulated.loads", 4096.0),
        ("simulated.stores", 131_072.0),
        ("simulated.level.1.accesses", 135_168.0),
        ("simulated.level.1.misses", 16384.0),
        ("simulated.walks", 256.0),
        ("simulated.memory.accesses", 16384.0),
    ] {
        assert_eq!(value(&document, name), expected, "{name}");
    }
    let names =
        document["findings"].as_array().expect("a list").iter().map(|finding| finding["name"].to_string());
    let unknown =
        ["instructions", "operations", "fetch", "function"].map(|part| format!("\"simulated.{part}"));
    assert!(names.into_iter().all(|name| unknown.iter().all(|part| !name.starts_with(part))), "{document}");
    assert!(document["warnings"][0].to_string().contains("unseen"), "{document}");
    let text = user.run(&["simulate", "--on", "bcm2837", "--trace", "x.din"]);
    assert!(text.ended(0).contains("135168 loads and stores take"), "{text:?}");
    let limit =
        user.run(&["simulate", "--on", "bcm2837", "--trace", "x.din", "--fail-if", "instructions > 1"]);
    assert!(limit.status == 2 && limit.err.contains("does not have all instructions"), "{limit:?}");
    let limit =
        user.run(&["simulate", "--on", "bcm2837", "--trace", "x.din", "--fail-if", "misses.L1D > 12%"]);
    assert_eq!(limit.status, 4, "{limit:?}");
}

#[test]
fn stdin_threads_variants_and_records_are_as_of_a_program() {
    let user = User::new();
    user.write("x.din", &din());
    let from = ["--on", "bcm2837,bcm2835", "--vary", "L1D.size=16K,32K"];
    let run = |more: &[&str]| user.run(&[&["simulate", "--json"], &from[..], more].concat());
    let counts = |did: &Did| {
        let mut all: Value = serde_json::from_str(did.ended(0)).expect("JSON");
        for report in all.as_array_mut().expect("a list") {
            report["elapsed_s"] = Value::Null;
            report["subject"] = Value::Null;
        }
        all
    };
    let file = counts(&run(&["--trace", "x.din", "--threads", "1", "-o", "r.fathom"]));
    assert_eq!(file.as_array().map(Vec::len), Some(4));
    assert_eq!(counts(&run(&["--trace", "x.din", "--threads", "3"])), file);
    let stdin =
        user.run_with(&[&["simulate", "--json"], &from[..], &["--trace", "-"]].concat(), din().as_bytes());
    assert_eq!(counts(&stdin), file);
    let report = user.run(&["report", "r.bcm2837_L1D.size=16K.fathom"]);
    assert!(report.ended(0).contains("x.din on bcm2837,L1D.size=16K"), "{report:?}");
}

/// Slower memory takes more cycles: of two machines at one cost the faster one is shown, and a cheaper one beside it.
#[test]
fn best_machines_are_told_for_each_cost() {
    let user = User::new();
    user.write("x.din", &din());
    let simulate = |arguments: &[&str]| {
        let all = ["simulate", "--on", "bcm2837", "--trace", "x.din", "--quiet"];
        user.run(&[&all, arguments].concat())
    };
    let vary = ["--vary", "memory.latency=100 ns,200 ns,300 ns"];
    let priced = ["--best-of", "cycles", "--cost", "memory.latency=5,5,1", "--html", "page.html"];
    let did = simulate(&[&vary[..], &priced].concat());
    let text = did.ended(0);
    let (_, best) = text.split_once("Least cycles for each cost").unwrap_or_else(|| panic!("{text}"));
    let rows: Vec<Vec<&str>> = best
        .lines()
        .filter(|line| line.starts_with("memory.latency="))
        .map(|line| line.split_whitespace().collect())
        .collect();
    let shown: Vec<(&str, &str)> = rows.iter().map(|row| (row[0], row[row.len() - 1])).collect();
    assert_eq!(shown, [("memory.latency=300", "1"), ("memory.latency=100", "5")], "{text}");
    assert!(best.contains("1 other has no less than one of these"), "{text}");
    assert!(user.read("page.html").contains("Least cycles for each cost"));
    let did = simulate(&[&vary[..], &["--best-of", "walks"]].concat());
    let text = did.ended(0);
    assert!(text.contains("Least walks") && text.contains(" 256     1.000"), "{text}");
    for (arguments, said) in [
        (vec!["--best-of", "cycles"], "--best-of with one machine"),
        (vec!["--best-of", "misses.L3", "--vary", "l2.size=256K,1M"], "no 'L3', but L1D"),
        (vec!["--best-of", "misses.L2", "--vary", "l2.size=0,1M"], "no 'L2'"),
        (vec!["--best-of", "walk", "--vary", "l2.size=256K,1M"], "write misses.LEVEL"),
        (vec!["--cost", "l2.size=1,2", "--vary", "l2.size=256K,1M"], "--best-of"),
        (
            vec!["--best-of", "cycles", "--cost", "l2.size=1", "--vary", "l2.size=256K,1M"],
            "1 costs for 2 values",
        ),
    ] {
        let did = simulate(&arguments);
        assert!(did.status == 2 && did.err.contains(said), "{arguments:?}: {did:?}");
    }
}

#[test]
fn lackey_names_instructions_by_address() {
    let user = User::new();
    // A loop of two instructions: 4096 loads of 64 bytes apart.
    let steps: String =
        (0..4096u64).map(|n| format!("I  00401000,4\n L {:x},8\nI  00401004,2\n", 64 * n)).collect();
    user.write("lackey.txt", &format!("==1== Lackey, an example Valgrind tool\n{steps}==1== \n"));
    let document = simulated(&user, "bcm2835", &["--trace", "lackey.txt"]);
    assert_eq!(value(&document, "simulated.instructions"), 8192.0);
    assert_eq!(value(&document, "simulated.fetches"), 1.0, "the loop is on one line");
    let findings = document["findings"].as_array().expect("a list");
    let first =
        findings.iter().find(|finding| finding["name"] == "simulated.function.1.cycles").expect("a function");
    let detail = &first["detail"];
    assert_eq!((detail["function"].as_str(), detail["file"].as_str()), (Some("0x401000"), None));
    assert_eq!((misses(detail, "L1D"), detail["accesses"].as_u64()), (4096, Some(4096)));
    let text = user.run(&["simulate", "--on", "bcm2835", "--trace", "lackey.txt"]);
    assert!(text.ended(0).contains("Instructions, by time beyond hits"), "{text:?}");
    let data = simulated(&user, "bcm2835", &["--trace", "lackey.txt", "--no-fetches"]);
    assert_eq!((value(&data, "simulated.instructions"), value(&data, "simulated.fetches")), (8192.0, 0.0));
}

#[test]
fn interrupted_trace_keeps_its_counts_unless_it_waits() {
    use std::io::Write as _;
    let user = User::new();
    let start = |record: &str| {
        let mut command = user.command(&["simulate", "--on", "bcm2837", "--trace", "-", "-o", record]);
        command.stdin(Stdio::piped()).spawn().expect("it starts")
    };
    // More and more accesses: nothing is known of the end.
    let mut child = start("r.fathom");
    let (pid, mut stdin) = (child.id(), child.stdin.take().expect("a pipe"));
    let feeder = std::thread::spawn(move || while stdin.write_all(din().as_bytes()).is_ok() {});
    std::thread::sleep(Duration::from_millis(800));
    kill(pid, Signal::INT);
    let did = wait(child);
    feeder.join().expect("the pipe is closed");
    assert_eq!(did.status, 130, "{did:?}");
    assert!(did.out.contains("interrupted"), "{did:?}");
    let again = user.run(&["report", "r.fathom"]);
    assert!(again.ended(3).contains("stdin on bcm2837"), "{again:?}");
    // A source that sends nothing.
    let mut child = start("s.fathom");
    let stdin = child.stdin.take();
    std::thread::sleep(Duration::from_millis(500));
    kill(child.id(), Signal::INT);
    let did = wait(child);
    drop(stdin);
    assert!(did.status == 130 && did.err.contains("interrupted while the trace was waited for"), "{did:?}");
}

#[test]
fn wrong_traces_are_told_with_their_place() {
    let user = User::new();
    user.write("x.din", "0 1000\n1 zz\n");
    user.write("text", "hello\n");
    let run = |arguments: &[&str]| user.run(&[&["simulate", "--on", "bcm2835"], arguments].concat());
    run(&["--trace", "x.din"]).failed(2, &["x.din: line 2: '1 zz'", "expected a label", "labels are 0 read"]);
    run(&["--trace", "text"]).failed(2, &["text: byte 0", "none of fathom", "--trace-format"]);
    run(&["--trace", "text", "--trace-format", "lackey"]).failed(2, &["text: line 1: 'hello'", "--log-file"]);
    run(&["--trace", "nothing"]).failed(2, &["--trace nothing", "name a file"]);
    run(&["--trace", "."]).failed(2, &["--trace ."]);
    run(&["--trace", "x.din", "--trace-format", "pin"]).failed(2, &["pin", "lackey"]);
    run(&["--trace", "x.din", "--", "./program"]).failed(2, &["--trace"]);
    run(&["--trace", "x.din", "--keep-trace", "y"]).failed(2, &["--keep-trace"]);
    run(&["--trace-format", "din", "./program"]).failed(2, &["--trace"]);
}

#[test]
fn kept_trace_gives_what_its_run_gave() {
    for target in &TARGETS {
        let user = User::new();
        if built(&user, target, "stream.c", &["-static"]).is_none() {
            continue;
        }
        let on = "bcm2837,bcm2835";
        let run = |more: &[&str]| {
            let did = user.run(&[&["simulate", "--json", "--on", on], more].concat());
            let mut all: Value =
                serde_json::from_str(did.ended(0)).unwrap_or_else(|e| panic!("{e}: {did:?}"));
            for report in all.as_array_mut().expect("a list") {
                // Only the time of the run and its command differ.
                report["elapsed_s"] = Value::Null;
                report["subject"]["facts"]["run.command"] = Value::Null;
            }
            all
        };
        let plain = run(&["--", "./program"]);
        let kept = run(&["--keep-trace", "run.trace", "--", "./program"]);
        assert_eq!(kept, plain, "{}", target.name);
        // The report has functions and lines, as that of the program.
        assert_eq!(run(&["--trace", "run.trace"]), plain, "{}", target.name);
        let accesses = value(&plain[0], "simulated.loads") + value(&plain[0], "simulated.fetches");
        let bytes = bytes(&user, "run.trace").len() as f64;
        assert!(bytes < 2.0 * accesses, "{}: {bytes} bytes for {accesses} accesses", target.name);
        // A machine with longer lines of instructions than those of the trace counts as if it had run the program.
        let one = |more: &[&str]| simulated(&user, "bcm2837", more)["findings"].clone();
        assert_eq!(one(&["--trace", "run.trace"]), one(&["--", "./program"]), "{}", target.name);
    }
}

#[test]
fn kept_trace_of_a_program_that_has_changed_names_no_functions() {
    let (user, target) = (User::new(), &TARGETS[2]);
    if built(&user, target, "stream.c", &["-static"]).is_none() {
        return;
    }
    let run = |more: &[&str]| user.run(&[&["simulate", "--on", "bcm2837"], more].concat());
    assert_eq!(run(&["--keep-trace", "run.trace", "--", "./program"]).status, 0);
    assert!(run(&["--trace", "run.trace"]).ended(0).contains("stream.c:"));
    run(&["--keep-trace", "run.trace", "--", "./program"])
        .failed(2, &["run.trace: the file exists", "remove this one"]);
    run(&["--keep-trace", "no/run.trace", "--", "./program"]).failed(2, &["--keep-trace no/run.trace"]);
    let mut program = bytes(&user, "program");
    program.extend(b"more");
    std::fs::write(user.path("program"), program).expect("it is written");
    let did = run(&["--trace", "run.trace"]);
    assert!(did.status == 0 && !did.out.contains("stream.c:"), "{did:?}");
    assert!(did.err.contains("program has changed since the trace was made"), "{did:?}");
    let trace = bytes(&user, "run.trace");
    std::fs::write(user.path("cut.trace"), &trace[..trace.len() / 2]).expect("it is written");
    run(&["--trace", "cut.trace"]).failed(2, &["cut.trace: byte", "cut off", "copy the file again"]);
}
