//! Sampled programs: planted shares come back, and what is not sampled is told.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Background, User, kill, wait};
use crate::simulate::{TARGETS, compiled};

/// A program that works in `inner` and in `outer`, tells the CPU time of each, and has a child process that does it again.
const WORK: &str = include_str!("../work.c");

/// Builds the program for this host; `None`, and told, where that is not possible, or where nothing may be sampled.
pub fn built(user: &User) -> Option<()> {
    if !cfg!(target_arch = "x86_64") {
        fathom_skip::skipped!(Unchecked, "this host is no x86-64");
        return None;
    }
    compiled(user, &TARGETS[4], &user.write("work.c", WORK), &[])?;
    let did = user.run(&["profile", "--event", "cpu-clock", "--", "true"]);
    if did.err.contains("cannot be sampled") {
        fathom_skip::skipped!(Unchecked, "{}", did.err);
        return None;
    }
    Some(())
}

/// Returns the share of a function with its interval.
fn share(document: &Value, function: &str) -> [f64; 3] {
    let all = document["findings"].as_array().expect("findings");
    let metric = "profile.function.{rank}.share";
    let found = all.iter().find(|f| f["metric"] == metric && f["detail"]["function"] == function);
    let found = found.unwrap_or_else(|| panic!("no {function}: {document}"));
    ["value", "low", "high"].map(|key| found[key].as_f64().expect("a number"))
}

#[test]
fn planted_shares_come_back_of_the_program_and_its_child() {
    let user = User::new();
    if built(&user).is_none() {
        return;
    }
    for more in [&[][..], &["child"]] {
        let arguments =
            ["profile", "--event", "cpu-clock", "--rate", "4000", "--json", "--", "./program", "100000000"];
        let did = user.run(&[&arguments, more].concat());
        // Neighbours may have taken samples.
        assert!(did.status == 0 || did.status == 3, "{} {}", did.status, did.err);
        let document: Value = serde_json::from_str(&did.out).expect("JSON");
        let took = did.err.lines().filter_map(|line| line.strip_prefix("took "));
        let took: Vec<Vec<f64>> =
            took.map(|line| line.split(' ').map(|ns| ns.parse().expect("ns")).collect()).collect();
        assert_eq!(took.len(), 1 + more.len(), "{}", did.err);
        let [inner, outer] = [0, 1].map(|part| took.iter().map(|times| times[part]).sum::<f64>());
        for (function, ns) in [("inner", inner), ("outer", outer)] {
            let [value, low, high] = share(&document, function);
            let expected = ns / (inner + outer);
            // Its CPU time has a part in the kernel, which serves interrupts.
            assert!(
                low - 0.03 < expected && expected < high + 0.03,
                "{function}: {value} ({low}..{high}), {expected}"
            );
        }
        let all = document["findings"].as_array().expect("findings");
        let line = all.iter().find(|f| f["name"] == "profile.line.1.share").expect("lines");
        assert_eq!(
            (&line["detail"]["source"], &line["detail"]["file"]),
            (
                &format!(
                    "work.c:{}",
                    1 + WORK.lines().position(|line| line.contains("void inner")).expect("a line")
                )
                .into(),
                &"program".into()
            )
        );
    }
}

/// Returns the functions of a call and of its callers, the call first, by the largest call of a function.
fn callers<'a>(document: &'a Value, function: &str) -> Vec<&'a str> {
    let all = document["findings"].as_array().expect("findings");
    let calls: Vec<&Value> = all.iter().filter(|f| f["metric"] == "profile.call.{call}.share").collect();
    let share = |call: &&Value| call["value"].as_f64().expect("a share");
    let own = calls.iter().filter(|call| call["detail"]["function"] == function);
    let mut next = own.max_by(|a, b| share(a).total_cmp(&share(b))).copied();
    let mut found = Vec::new();
    while let Some(call) = next {
        found.push(call["detail"]["function"].as_str().expect("a name"));
        next = calls
            .iter()
            .find(|other| other["at"]["call"].as_f64() == call["detail"]["caller"].as_f64())
            .copied();
    }
    found
}

/// A program that writes to each page of some memory faults there, once in each.
#[test]
fn page_faults_are_sampled_where_memory_is_touched_first() {
    const TOUCH: &str = "#include <sys/mman.h>
__attribute__((noinline)) static void touch(char *memory) {
    for (long page = 0; page < 2000; page++)
        __asm__ volatile(\"planted_store: movb $1, (%0)\" :: \"r\"(memory + page * 4096) : \"memory\");
}
int main(void) {
    char *memory = mmap(0, 2000 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || madvise(memory, 2000 * 4096, MADV_NOHUGEPAGE)) return 1;
    touch(memory);
}
";
    let user = User::new();
    if built(&user).is_none() {
        return;
    }
    compiled(&user, &TARGETS[4], &user.write("touch.c", TOUCH), &[]).expect("it was built before");
    let did = user.run(&["profile", "--event", "page-faults", "--period", "10", "--json", "--", "./program"]);
    assert!(did.status == 0 || did.status == 3, "{} {}", did.status, did.err);
    let document: Value = serde_json::from_str(&did.out).expect("JSON");
    let all = document["findings"].as_array().expect("findings");
    let number = |name: &str| {
        let found = all.iter().find(|f| f["name"] == name).unwrap_or_else(|| panic!("no {name}: {document}"));
        found["value"].as_f64().expect("a number")
    };
    // Those of the program's start are some ten or hundred.
    let counted = number("profile.counted");
    assert!((2000.0..2500.0).contains(&counted), "{counted}");
    assert!((number("profile.samples") - counted / 10.0).abs() <= 2.0, "{document}");
    let [value, ..] = share(&document, "touch");
    assert!((value - 2000.0 / counted).abs() < 0.02, "{value} of {counted}");
    // All of these faults are of one instruction.
    let instruction = all.iter().find(|f| f["name"] == "profile.instruction.1.share").expect("instructions");
    assert_eq!(instruction["value"].as_f64(), Some(value));
    let symbols = user.shell("nm program").out;
    let address = |name: &str| {
        let line = symbols.lines().find(|line| line.ends_with(name)).expect("a symbol");
        u64::from_str_radix(line.split(' ').next().expect("an address"), 16).expect("hexadecimal")
    };
    let (planted, offset) = (address(" planted_store"), address(" planted_store") - address(" touch"));
    let detail = &instruction["detail"];
    assert_eq!(detail["address"], format!("{planted:#x}"), "{detail}");
    assert_eq!((&detail["offset"], &detail["source"]), (&offset.into(), &"touch.c:4".into()));
}

/// Its code was mapped before it was observed.
#[test]
fn running_process_is_sampled_until_the_time_is_over_or_it_ends() {
    let user = User::new();
    if built(&user).is_none() {
        return;
    }
    let busy = Background::start(user.path("program"), &["100000000000"]);
    let pid = busy.0.id().to_string();
    let observe = ["profile", "--event", "cpu-clock", "--json", "--pid", &pid, "--for"];
    let did = user.run(&[&observe[..], &["1s", "--record", "kept.fathom"]].concat());
    assert!(did.status == 0 || did.status == 3, "{} {}", did.status, did.err);
    let document: Value = serde_json::from_str(&did.out).expect("JSON");
    assert_eq!(document["subject"]["name"], "program");
    assert!(share(&document, "inner")[0] > 0.99, "{document}");
    let called = callers(&document, "inner");
    assert!(called.starts_with(&["inner", "work", "main"]), "{called:?}");
    let again = user.run(&["report", "kept.fathom", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&again.out).expect("JSON")["findings"], document["findings"]);
    // It ends, and nobody has waited for it yet.
    let begin = Instant::now();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        let mut busy = busy;
        busy.0.kill().map(|()| busy)
    });
    let did = user.run(&[&observe[..], &["10m"]].concat());
    assert!(did.status == 0 || did.status == 3, "{} {}", did.status, did.err);
    assert!(begin.elapsed() < Duration::from_secs(60));
    let ended = killer.join().expect("a thread").expect("it was running");
    user.run(&[&observe[..], &["1s"]].concat()).failed(2, &["no such process"]);
    drop(ended);
    user.run(&[&observe[..], &["1s"]].concat()).failed(2, &["no such process", "ps -e"]);
    user.run(&["profile", "--pid", &pid, "--", "true"]).failed(2, &["--pid"]);
    user.run(&["profile"]).failed(2, &["PROGRAM"]);
    user.run(&["profile", "--event", "cpu-clock", "--period", "9", "--", "true"]).failed(2, &["10000"]);
    user.run(&["profile", "--period", "9", "--", "true"]).failed(2, &["--event"]);
    user.run(&["profile", "--event", "page-faults", "--rate", "9", "--", "true"]).failed(2, &["--period 97"]);
}

#[test]
fn callers_are_those_of_the_source() {
    let user = User::new();
    if built(&user).is_none() {
        return;
    }
    let profile = |more: &[&str]| {
        let arguments = [
            &["profile", "--event", "cpu-clock", "--json"],
            more,
            &["--", "./program", "100000000", "child"],
        ];
        let did = user.run(&arguments.concat());
        assert!(did.status == 0 || did.status == 3, "{} {}", did.status, did.err);
        serde_json::from_str::<Value>(&did.out).expect("JSON")
    };
    let known = |document: &Value| {
        let all = document["findings"].as_array().expect("findings");
        all.iter()
            .find(|f| f["metric"] == "profile.callers.known")
            .map(|f| f["value"].as_f64().expect("a share"))
    };
    // By tables: the compiler has left out frame pointers.
    let document = profile(&[]);
    for function in ["inner", "outer"] {
        let all = callers(&document, function);
        assert_eq!(all[..3], [function, "work", "main"], "{document}");
        assert_eq!(all.last(), Some(&"_start"), "{document}");
    }
    assert!(known(&document).is_some_and(|share| share > 0.9), "{document}");
    let none = profile(&["--callers", "none"]);
    assert!(callers(&none, "inner").is_empty() && known(&none).is_none());
    // The kernel follows frame pointers, if there are any.
    assert!(user.shell("gcc -g -O1 -fno-omit-frame-pointer -static -o program work.c").status == 0);
    let document = profile(&["--callers", "frame-pointers"]);
    assert_eq!(callers(&document, "inner")[..3], ["inner", "work", "main"], "{document}");
    assert_eq!(known(&document), None);
}

/// Other tools' formats have every sample; pprof reads its own, where it is installed.
#[test]
fn profiles_are_exported() {
    let user = User::new();
    if built(&user).is_none() {
        return;
    }
    let did = user.run(&[
        "profile",
        "--event",
        "cpu-clock",
        "--record",
        "kept.fathom",
        "--",
        "./program",
        "100000000",
    ]);
    assert!(did.status == 0 || did.status == 3, "{}", did.err);
    let report = user.run(&["report", "kept.fathom", "--json"]);
    let document: Value = serde_json::from_str(&report.out).expect("JSON");
    let all = document["findings"].as_array().expect("findings");
    let samples = all.iter().find(|f| f["metric"] == "profile.samples").and_then(|f| f["value"].as_f64());
    let did = user.run(&["export", "kept.fathom", "--as", "folded"]);
    let lines = did.out.lines().map(|line| line.rsplit_once(' ').expect("a number"));
    let lines: Vec<(&str, f64)> = lines.map(|(calls, n)| (calls, n.parse().expect("a number"))).collect();
    assert_eq!(Some(lines.iter().map(|(_, n)| n).sum()), samples, "{}", did.out);
    let inner = lines.iter().find(|(calls, _)| calls.ends_with(";main;work;inner"));
    assert!(inner.is_some_and(|(_, n)| Some(n / 2.0) < samples), "{}", did.out);
    let did = user.run(&["export", "kept.fathom", "--as", "firefox"]);
    let firefox: Value = serde_json::from_str(&did.out).expect("JSON");
    let weights = firefox["threads"][0]["samples"]["weight"].as_array().expect("weights");
    assert_eq!(Some(weights.iter().map(|n| n.as_f64().expect("a number")).sum()), samples);
    assert_eq!(user.shell("fathom export kept.fathom --as pprof > kept.pb").status, 0);
    let did = user.shell("go tool pprof -top -sample_index=samples kept.pb");
    if did.status == 127 {
        fathom_skip::skipped!(Unchecked, "no go, whose pprof would read the profile");
    } else {
        assert!(
            did.status == 0 && did.out.contains("100%") && did.out.contains(" inner"),
            "{} {}",
            did.out,
            did.err
        );
    }
    user.run(&["export", "nothing.fathom", "--as", "folded"]).failed(2, &["nothing.fathom"]);
    user.run(&["export", "kept.fathom"]).failed(2, &["--as"]);
    user.run(&["survey", "--on", "bcm2711", "--budget", "1s", "--record", "survey.fathom"]);
    user.run(&["export", "survey.fathom", "--as", "pprof"]).failed(2, &["no record of `fathom profile`"]);
}

#[test]
fn short_failing_and_missing_programs_are_told() {
    let user = User::new();
    if built(&user).is_none() {
        return;
    }
    let did = user.run(&["profile", "--event", "cpu-clock", "--", "./program", "0", "child", "fails"]);
    let none = did.err.contains("it has no sample");
    assert!(none || did.err.contains("few-samples") && did.err.contains("program-failed"), "{}", did.err);
    assert_eq!(did.status, if none { 5 } else { 3 }, "{}", did.err);
    let did = user.run(&["profile", "--", "./nothing"]);
    assert_eq!((did.status, did.out.as_str()), (2, ""), "{}", did.err);
    user.run(&["profile", "--rate", "0", "--", "true"]).failed(2, &["--rate"]);
    user.run(&["profile"]).failed(2, &["PROGRAM"]);
    user.run(&["profile", "--event", "cpu-clock", "--period", "9", "--", "true"]).failed(2, &["10000"]);
    user.run(&["profile", "--period", "9", "--", "true"]).failed(2, &["--event"]);
}

/// Names are of the file that ran, and not of the one that has its name afterwards.
#[test]
fn a_program_that_was_replaced_has_no_names() {
    let user = User::new();
    if built(&user).is_none() {
        return;
    }
    let script = "./program 50000000; cp program other; printf x >>other; mv other program";
    let did = user.run(&["profile", "--event", "cpu-clock", "--json", "--", "sh", "-c", script]);
    let document: Value = serde_json::from_str(&did.out).expect("JSON");
    // The build id tells that it is the same code.
    assert!(share(&document, "inner")[0] > 0.5, "{document}");
    user.write("other.c", &WORK.replace("inner", "impostor"));
    assert!(user.shell("gcc -g -O1 -o other other.c").status == 0);
    let script = "./program 50000000; mv other program";
    let did = user.run(&["profile", "--event", "cpu-clock", "--json", "--", "sh", "-c", script]);
    assert!(!did.out.contains("impostor") && did.out.contains("names in"), "{}", did.out);
}

#[test]
fn short_processes_and_processes_that_are_left_are_told() {
    let user = User::new();
    if built(&user).is_none() {
        return;
    }
    let script =
        "i=0; while [ $i -lt 200 ]; do ./program 1000 >/dev/null; i=$((i+1)); done; ./program 30000000";
    let did =
        user.run(&["profile", "--event", "cpu-clock", "--rate", "200", "--json", "--", "sh", "-c", script]);
    let document: Value = serde_json::from_str(&did.out).expect("JSON");
    let warnings = document["warnings"].to_string();
    assert!(warnings.contains("processes have no sample") || warnings.contains("stand for"), "{warnings}");
    let did =
        user.run(&["profile", "--event", "cpu-clock", "--", "sh", "-c", "sleep 3 & ./program 30000000"]);
    assert!(did.err.contains("processes-left"), "{}", did.err);
}

/// A signal to the command ends the program and what that has started, and keeps the samples until then.
#[test]
fn a_signal_ends_the_program_and_keeps_the_samples() {
    let user = User::new();
    if built(&user).is_none() {
        return;
    }
    let script = "./program 50000000; : >started; sleep 100 & sleep 100";
    let child =
        user.spawn(&["profile", "--event", "cpu-clock", "--record", "kept.fathom", "--", "sh", "-c", script]);
    let limit = Instant::now() + Duration::from_secs(60);
    while !user.path("started").exists() && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(child.id(), Signal::TERM);
    let (did, since) = (wait(child), Instant::now());
    assert_eq!(did.status, 143, "{}", did.err);
    user.nothing_left(since);
    let report = user.run(&["report", "kept.fathom"]);
    assert!(
        report.out.contains("inner") && report.out.contains("interrupted"),
        "{} {}",
        report.out,
        report.err
    );
}

/// Without a PMU the clock is taken, and the report says so.
#[test]
fn samples_are_by_cycles_or_the_report_says_why_not() {
    let user = User::new();
    if built(&user).is_none() {
        return;
    }
    let did = user.run(&["profile", "--record", "kept.fathom", "--", "./program", "30000000"]);
    let told = did.err.contains("cpu-clock instead");
    assert!(did.err.contains("samples by cycles") || told, "{}", did.err);
    let asked = user.run(&["profile", "--event", "cycles", "--", "./program", "30000000"]);
    assert_eq!(asked.status == 1 && asked.err.contains("cycles cannot be sampled"), told, "{}", asked.err);
    let report = user.run(&["report", "kept.fathom"]);
    assert!(report.out.contains("Functions, by share of the samples"), "{} {}", report.out, report.err);
}
