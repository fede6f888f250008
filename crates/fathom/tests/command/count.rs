//! Counted programs: what is known by arithmetic comes back, the program is passed through, and nothing of it is left.

use std::time::{Duration, Instant};

use fathom_analysis::explained::{AccessTimes, Misses};
use fathom_analysis::interval::Interval;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Background, User, kill, wait};
use crate::simulate::{FUNCTION, TARGETS, built, hot, misses, simulated};

/// Counts with these arguments; returns the report.
fn counted(user: &User, arguments: &[&str]) -> Value {
    let did = user.run(&[&["count", "--json"], arguments].concat());
    assert!(did.status == 0 || did.status == 3, "{} {}", did.status, did.err);
    serde_json::from_str(&did.out).expect("JSON")
}

fn finding<'a>(document: &'a Value, name: &str) -> &'a Value {
    let all = document["findings"].as_array().expect("findings");
    all.iter().find(|finding| finding["name"] == name).unwrap_or_else(|| panic!("no {name}: {document}"))
}

fn value(document: &Value, name: &str) -> f64 {
    finding(document, name)["value"].as_f64().expect("a number")
}

/// Returns how often the program runs for each of `--runs`: without counting, and for each set of events.
fn runs_in_a_round(user: &User) -> usize {
    user.run(&["count", "--runs", "1", "--", "echo", "x"]).out.lines().count()
}

#[test]
fn faults_and_time_are_those_of_the_program_and_what_it_starts() {
    const MIB: u64 = 32;
    let user = User::new();
    // dd touches each page of its buffer; the shell starts it.
    let of = |mib: u64| {
        let script = format!("dd if=/dev/zero of=/dev/null bs={mib}M count=8 status=none; :");
        counted(&user, &["--runs", "2", "--", "sh", "-c", &script])
    };
    let (small, large) = (of(1), of(1 + MIB));
    let faults = |document: &Value| value(document, "program.faults.minor");
    let huge = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let page = if huge.contains("[always]") { 2 << 20 } else { rustix::param::page_size() as u64 };
    let pages = ((MIB << 20) / page) as f64;
    let more = faults(&large) - faults(&small);
    assert!(more >= 0.9 * pages && more <= 1.1 * (MIB << 20) as f64 / 4096.0 + 100.0, "{more} of {pages}");
    let (cpu, wall) = (value(&large, "program.cpu"), value(&large, "program.wall"));
    assert!(cpu > 0.0 && wall > 0.0, "{cpu} {wall}");
    let parts = value(&large, "program.user") + value(&large, "program.system");
    assert!(finding(&large, "program.cpu")["count"] != 0 && parts > 0.0);
}

#[test]
fn every_run_reads_the_same_stdin_and_its_output_is_passed_through() {
    let user = User::new();
    let round = runs_in_a_round(&user);
    assert!(round >= 1);
    let did = user.run_with(&["count", "--runs", "3", "--", "cat"], b"one\ntwo\n");
    assert_eq!(did.out, "one\ntwo\n".repeat(3 * round), "{}", did.err);
    assert!(did.err.contains("Time of a run"), "{}", did.err);
    let did = user.run_with(&["count", "--once", "--", "cat"], b"one\ntwo\n");
    assert_eq!((did.out.as_str(), did.status), ("one\ntwo\n", 0), "{}", did.err);
    // With JSON on stdout, the program's output is elsewhere.
    let did = user.run(&["count", "--runs", "1", "--json", "--", "echo", "elsewhere"]);
    assert!(did.err.contains("elsewhere"), "{}", did.err);
    serde_json::from_str::<Value>(&did.out).expect("JSON only");
}

/// Each event is counted in runs of its own set, or refused with its reason; nothing is missing.
#[test]
fn every_event_is_counted_or_refused() {
    let user = User::new();
    let document = counted(&user, &["--runs", "1", "--", "true"]);
    let refused: Vec<String> = document["refusals"]
        .as_array()
        .expect("refusals")
        .iter()
        .map(|refused| refused["what"].as_str().expect("text").to_owned())
        .collect();
    let refused = refused.join(", ");
    let mut none = 0;
    for event in fathom_host::PROGRAM_EVENTS.iter().map(|event| event.name) {
        let name = format!("program.event.{event}.count");
        let is_counted =
            document["findings"].as_array().expect("findings").iter().any(|f| f["name"] == *name);
        let is_refused = refused.split(", ").any(|what| what == event);
        assert!(is_counted != is_refused, "{event}: {document}");
        none += usize::from(is_refused);
    }
    if none == fathom_host::PROGRAM_EVENTS.len() {
        fathom_skip::skipped!(Unchecked, "counts of this machine: {refused}");
    }
}

#[test]
fn names_of_events_are_those_of_the_findings() {
    let all = fathom_host::PROGRAM_EVENTS.iter().chain(&fathom_host::KERNEL_EVENTS);
    let names: Vec<&str> = all.map(|event| event.name).collect();
    assert_eq!(names, fathom_analysis::findings::tokens::EVENT.values);
}

/// A shell that works for some time, then waits, then works again.
const IN_TURNS: &str = "work() { end=$(($(date +%s%N) + 400000000)); while [ $(date +%s%N) -lt $end ]; do :; done; }; \
                        work; sleep 0.5; work";

/// Returns the findings of slices: time since the begin, and the value.
fn slices(document: &Value) -> Vec<(u64, f64)> {
    let all = document["findings"].as_array().expect("findings");
    let slices = all.iter().filter(|f| f["metric"] == "program.slice.{elapsed}.cpus");
    let number = |f: &Value| Some((f["at"]["elapsed"].as_f64()? as u64, f["value"].as_f64()?));
    slices.map(|f| number(f).expect("numbers")).collect()
}

/// Returns whether slices can be counted here; why not is told.
fn has_slices(user: &User) -> bool {
    let did = user.run(&["count", "--every", "100ms", "--", "true"]);
    if did.err.contains("slices of time need") {
        fathom_skip::skipped!(Unchecked, "{}", did.err);
        return false;
    }
    true
}

#[test]
fn slices_show_when_a_program_works() {
    let user = User::new();
    if !has_slices(&user) {
        return;
    }
    let document = counted(&user, &["--every", "50ms", "--", "sh", "-c", IN_TURNS]);
    let mut slices = slices(&document);
    assert!(slices.len() >= 10 && slices.is_sorted_by_key(|(end, _)| *end), "{slices:?}");
    // The last one is what is left of the run: it may be so short that the program did nothing in it.
    slices.pop();
    let idle = slices.iter().filter(|(_, cpus)| *cpus < 0.05).count();
    // Other work of this machine may take time from the program, but gives it none while it sleeps.
    assert!(idle >= 5, "half a second of sleep: {slices:?}");
    let first = slices.iter().position(|(_, cpus)| *cpus < 0.05).expect("some");
    let last = slices.iter().rposition(|(_, cpus)| *cpus < 0.05).expect("some");
    let busy = |slices: &[(u64, f64)]| slices.iter().any(|(_, cpus)| *cpus > 0.2);
    assert!(busy(&slices[..first]) && busy(&slices[last..]), "{slices:?}");
    // Together they are the run.
    let (wall, time) = (value(&document, "program.wall"), value(&document, "program.counted_time"));
    assert!(time >= wall && time < wall + 200.0, "{time} {wall}");
    let cpu = value(&document, "program.cpus") * time;
    let accounted = value(&document, "program.cpu");
    assert!((cpu - accounted).abs() < 0.2 * accounted + 20.0, "{cpu} {accounted}");
}

/// Counts a process for half a second in slices, and keeps the record.
fn counted_for_half_a_second(user: &User, pid: &str) -> Value {
    let begin = Instant::now();
    let slices = ["--for", "500ms", "--every", "100ms"];
    let did =
        user.run(&[&["count", "--json", "--pid", pid], &slices[..], &["--record", "kept.fathom"]].concat());
    assert!(did.status == 0 || did.status == 3, "{} {}", did.status, did.err);
    assert!(begin.elapsed() >= Duration::from_millis(500), "{:?}", begin.elapsed());
    serde_json::from_str(&did.out).expect("JSON")
}

/// Returns whether nearly all of half a second of a busy process was counted.
fn is_whole(document: &Value) -> bool {
    let cpus = value(document, "program.cpus");
    (450.0..2000.0).contains(&value(document, "program.counted_time"))
        && (0.1..1.05).contains(&cpus)
        && slices(document).len() >= 2
}

#[test]
fn running_process_is_counted_until_the_time_is_over_or_it_ends() {
    let user = User::new();
    if !has_slices(&user) {
        return;
    }
    let busy = Background::start("sh", &["-c", "while :; do :; done"]);
    let pid = busy.0.id().to_string();
    // On a loaded machine slices are left out, and the process has a small part of a CPU: some tries are not.
    let mut tries = (0..5).map(|_| counted_for_half_a_second(&user, &pid));
    let document = tries.find(is_whole).expect("nearly all of half a second in one of five tries");
    assert_eq!(document["subject"]["name"], "sh");
    let again = user.run(&["report", "kept.fathom", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&again.out).expect("JSON")["findings"], document["findings"]);
    // It ends long before the time that was asked for.
    let begin = Instant::now();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        drop(busy);
    });
    let did = user.run(&["count", "--pid", &pid, "--for", "10m", "--every", "60s"]);
    assert!(did.status == 0 || did.status == 3, "{} {}", did.status, did.err);
    assert!(killer.join().is_ok() && begin.elapsed() < Duration::from_secs(60));
    assert!(did.err.contains(&format!("process {pid} ended after")), "{}", did.err);
    let did = user.run(&["count", "--pid", &pid, "--record", "none.fathom"]);
    did.failed(2, &["no such process", "ps -e"]);
    assert!(!user.path("none.fathom").exists());
    user.run(&["count", "--pid", &pid, "--runs", "3"]).failed(2, &["--runs"]);
    user.run(&["count", "--every", "1ms", "--", "true"]).failed(2, &["10ms to 60m"]);
    user.run(&["count", "--for", "1s", "--", "true"]).failed(2, &["--for", "--pid 1234"]);
}

#[test]
fn program_that_cannot_be_started_leaves_no_record() {
    let user = User::new();
    user.write("text", "not a program");
    for (program, words) in [
        ("./nothing", "check its path"),
        ("no-such-program-here", "not in PATH"),
        ("./text", "chmod +x"),
        ("/", "it is a folder"),
    ] {
        let did = user.run(&["count", "--runs", "1", "--record", "kept.fathom", "--", program]);
        assert_eq!((did.status, did.out.as_str()), (2, ""), "{}", did.err);
        assert!(did.err.contains(program) && did.err.contains(words), "{}", did.err);
        assert!(!user.path("kept.fathom").exists(), "{program}");
    }
    user.run(&["count"]).failed(2, &["PROGRAM"]);
    user.run(&["count", "--runs", "0", "--", "true"]).failed(2, &["--runs"]);
}

#[test]
fn program_that_fails_is_told() {
    let user = User::new();
    let did = user.run(&["count", "--runs", "1", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(did.status, 1, "{}", did.err);
    assert!(did.err.contains("program-failed") && did.err.contains("SIGKILL"), "{}", did.err);
}

#[test]
fn record_is_reported_and_compared() {
    let user = User::new();
    for name in ["a.fathom", "b.fathom"] {
        let did = user.run(&[
            "count",
            "--runs",
            "2",
            "--record",
            name,
            "--html",
            "page.html",
            "--force",
            "--",
            "true",
        ]);
        assert_eq!(did.status, 0, "{}", did.err);
    }
    let report = user.run(&["report", "a.fathom"]);
    assert!(report.out.contains("What the kernel accounts for a run"), "{} {}", report.out, report.err);
    assert!(user.read("page.html").contains("program.wall"));
    let compared = user.run(&["compare", "a.fathom", "b.fathom"]);
    assert!(compared.out.contains("program.wall"), "{} {}", compared.out, compared.err);
}

/// A signal to the command ends the program and what that has started, and keeps the runs until then.
#[test]
fn a_signal_ends_the_program_and_keeps_the_record() {
    let user = User::new();
    // The first run ends at once.
    let script = "[ -e first ] || { : >first; exit 0; }; : >second; sleep 100 & sleep 100";
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        for file in ["first", "second"] {
            std::fs::remove_file(user.path(file)).unwrap_or_default();
        }
        let child = user.spawn(&["count", "--record", "kept.fathom", "--force", "--", "sh", "-c", script]);
        let limit = Instant::now() + Duration::from_secs(60);
        while !user.path("second").exists() && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(20));
        }
        kill(child.id(), signal);
        let (did, since) = (wait(child), Instant::now());
        assert_eq!(did.status, status, "{}", did.err);
        assert!(did.err.contains("interrupted"), "{}", did.err);
        user.nothing_left(since);
        let report = user.run(&["report", "kept.fathom"]);
        assert!(report.out.contains("Time of a run"), "{} {}", report.out, report.err);
        // The run that was cut short is not among them.
        let kept = fathom_experiment::record::file::read(&user.read("kept.fathom")).expect("a record");
        assert_eq!(kept.program.expect("a program").runs.len(), 1);
    }
}

/// Nobody waits for the program any more.
#[test]
fn a_kill_ends_the_program_too() {
    let user = User::new();
    let child = user.spawn(&[
        "count",
        "--once",
        "--record",
        "kept.fathom",
        "--",
        "sh",
        "-c",
        ": >begun; exec sleep 100",
    ]);
    let limit = Instant::now() + Duration::from_secs(60);
    while !user.path("begun").exists() && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(child.id(), Signal::KILL);
    let (_, since) = (wait(child), Instant::now());
    user.nothing_left(since);
    let report = user.run(&["report", "kept.fathom"]);
    assert!(report.status == 3 || report.status == 5, "{} {}", report.status, report.err);
}

#[test]
fn processes_that_are_left_are_told() {
    let user = User::new();
    let document = counted(&user, &["--runs", "1", "--", "sh", "-c", "sleep 2 & :"]);
    let kinds: Vec<&str> = document["warnings"]
        .as_array()
        .expect("warnings")
        .iter()
        .filter_map(|w| w["token"].as_str())
        .collect();
    assert!(kinds.contains(&"processes-left"), "{document}");
    let document = counted(&user, &["--runs", "1", "--", "sh", "-c", "sleep 0.1; :"]);
    assert!(!document["warnings"].to_string().contains("processes-left"), "{document}");
}

/// A pipe that nobody closes looks like a hang.
#[test]
fn a_stdin_that_does_not_end_is_told() {
    let user = User::new();
    let script = "(sleep 3; echo x) | fathom count --runs 1 -- cat";
    let did = user.shell(script);
    assert!(did.err.contains("reading stdin to its end") && did.out.contains('x'), "{} {}", did.out, did.err);
    let did = user.run_with(&["count", "--runs", "1", "--", "cat"], b"x");
    assert!(!did.err.contains("reading stdin"), "{}", did.err);
}

/// Study S4's explanation of a slow program: misses times access times are its cycles, and name the cause. The model counts
/// every event exactly, and knows what each access took.
#[test]
fn access_times_explain_the_matrix_multiplication_of_study_s4() {
    let (user, target) = (User::new(), &TARGETS[0]);
    if built(&user, target, "matmul.c", &["-static"]).is_none() {
        return;
    }
    // The Cortex-A53 has a second level, and a second TLB that serves some misses of the first: its times are intervals.
    for (machine, study) in [("bcm2835", true), ("bcm2837", false)] {
        user.run(&["survey", "--on", machine, "--record", "survey.fathom", "--force"]).ended(0);
        let record = fathom_experiment::record::file::read(&user.read("survey.fathom")).expect("a record");
        let survey = fathom_experiment::read(&record).expect("a survey");
        let times = AccessTimes::of_survey(&survey).expect("tiers");
        for function in ["textbook", "interchanged"] {
            let document = simulated(&user, target, machine, &[function]);
            let detail = hot(&document, FUNCTION, "function", function);
            let exactly =
                |count: u64| Interval { value: count as f64, low: count as f64, high: count as f64 };
            let levels = detail["misses"].as_array().expect("a list");
            let last = levels.iter().rfind(|level| level[0] != "L1D" && level[0] != "L1I");
            let explained = times.explain(&Misses {
                nearest: exactly(misses(detail, "L1D")),
                last: last.map(|level| exactly(level[1].as_u64().expect("a number"))),
                translations: Some(exactly(detail["walks"].as_u64().expect("a number"))),
            });
            let explained = explained.expect("tiers");
            let findings = document["findings"].as_array().expect("a list");
            let finding = findings.iter().find(|finding| finding["detail"] == *detail).expect("the finding");
            let account = finding["value"].as_f64().expect("cycles");
            let Interval { value, low, high } = explained.all;
            println!(
                "{machine}, {function}: {account:.0} cycles, explained {value:.0} ({low:.0}..{high:.0})"
            );
            assert!(0.95 * low < account && account < 1.05 * high, "{machine}, {function}: {explained:?}");
            if study {
                assert!((0.95..1.05).contains(&(value / account)), "{machine}, {function}: {explained:?}");
                let translation = explained.translation.expect("walks").value / value;
                assert_eq!(translation > 0.5, function == "textbook", "{function}: {explained:?}");
            }
        }
    }
}
