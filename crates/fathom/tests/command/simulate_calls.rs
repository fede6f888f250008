//! Calls of simulated programs: who called whom, with counts that are known by arithmetic.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::common::User;
use crate::simulate::{TARGETS, Target, built, can_simulate, compiled, value};

/// Code for Thumb, whose calls and returns are other instructions.
const THUMB: Target = Target { name: "ARMv7, Thumb", flags: &["-march=armv7-a+fp", "-mthumb"], ..TARGETS[1] };

/// What is called by each sequence of functions from `main` on, without what is called from there.
type Folded = BTreeMap<String, u64>;

/// Simulates the program with calls. Returns the report, and keeps the record as `calls.fathom`.
fn with_calls(user: &User, target: &Target) -> Value {
    let cpu: Vec<&str> = target.cpu.iter().flat_map(|cpu| ["--cpu", cpu]).collect();
    let simulate =
        ["simulate", "--on", "bcm2837", "--calls", "--json", "--force", "--record", "calls.fathom"];
    let did = user.run(&[&simulate, &cpu[..], &["--", "./program"]].concat());
    assert_eq!(did.status, 0, "{}: {did:?}", target.name);
    serde_json::from_str(&did.out).unwrap_or_else(|e| panic!("{e}: {did:?}"))
}

/// Returns all sequences of calls of the record, with an amount of each.
fn whole(user: &User, by: &str) -> Folded {
    let did = user.run(&["export", "calls.fathom", "--as", "folded", "--by", by]);
    assert_eq!(did.status, 0, "{did:?}");
    // Functions of one name may be several.
    let lines = did.out.lines().map(|line| line.rsplit_once(' ').expect("calls and a number"));
    lines.fold(Folded::new(), |mut sums, (calls, number)| {
        *sums.entry(calls.to_owned()).or_default() += number.parse::<u64>().expect("a number");
        sums
    })
}

/// Returns those within `main`.
fn folded(user: &User, by: &str) -> Folded {
    let all = whole(user, by);
    let own = all.iter().filter_map(|(calls, number)| {
        let from = calls.split(';').position(|function| function == "main")?;
        Some((calls.split(';').skip(from).collect::<Vec<_>>().join(";"), *number))
    });
    own.fold(Folded::new(), |mut sums, (calls, number)| {
        *sums.entry(calls).or_default() += number;
        sums
    })
}

/// The lines that `touch` touches in `examples/calls.c`, by the calls that lead to it.
const TOUCHED: [(&str, u64); 19] = [
    ("main;recursion;touch", 2),
    ("main;recursion;recursion;touch", 2),
    ("main;recursion;recursion;recursion;touch", 2),
    ("main;recursion;recursion;recursion;recursion;touch", 2),
    ("main;even;touch", 3),
    ("main;even;odd;touch", 4),
    ("main;even;odd;even;touch", 3),
    ("main;even;odd;even;odd;touch", 4),
    ("main;by_pointer;ten;touch", 20),
    ("main;by_pointer;twenty;touch", 20),
    ("main;tail_first;touch", 5),
    ("main;tail_last;touch", 30),
    ("main;catcher;thrower;touch", 4),
    ("main;catcher;thrower;thrower;touch", 4),
    ("main;catcher;thrower;thrower;thrower;touch", 4),
    ("main;catcher;touch", 40),
    ("main;sorter;touch", 63),
    ("main;sorter;compare", 0),
    ("main;touch", 0),
];

/// Each line that `touch` touches is one execution of its loop: three accesses, and a miss; it reads a pointer first where that is in
/// the file's data, and writes it back. So all counts are linear in the lines and in the calls of `touch`.
#[test]
fn planted_calls_have_their_counts() {
    for target in TARGETS.iter().chain([&THUMB]) {
        let user = User::new();
        if built(&user, target, "calls.c", &[]).is_none() {
            continue;
        }
        let document = with_calls(&user, target);
        let (misses, instructions) = (folded(&user, "misses.L1D"), folded(&user, "instructions"));
        let touching: Vec<&str> =
            instructions.keys().filter(|calls| calls.ends_with(";touch")).map(String::as_str).collect();
        let mut expected: Vec<&str> =
            TOUCHED.iter().filter(|(_, lines)| *lines > 0).map(|(calls, _)| *calls).collect();
        expected.sort_unstable();
        assert_eq!(touching, expected, "{}: {instructions:?}", target.name);
        for (calls, lines) in TOUCHED.into_iter().filter(|(_, lines)| *lines > 0) {
            // The pointer's own line may be evicted, by what is between.
            let of = misses.get(calls).copied().unwrap_or(0);
            assert!((lines..=lines + 2).contains(&of), "{}: {calls}: {of}, {lines}", target.name);
        }
        linear(target, &instructions);
        // qsort calls back, wherever the library has its functions.
        let compared: u64 =
            instructions.iter().filter(|(calls, _)| calls.ends_with(";compare")).map(|(_, n)| n).sum();
        let alone = instructions.keys().find(|calls| calls.ends_with(";compare")).expect("it is called");
        assert!(alone.starts_with("main;sorter;qsort"), "{}: {alone}", target.name);
        assert_eq!(compared % 318, 0, "{}: each of 318 comparisons is the same", target.name);
        assert!(compared > 0, "{}", target.name);
        adds_up(&user, target, &document);
    }
}

/// Checks that the instructions of `touch` are a number for each line and one for each call.
fn linear(target: &Target, instructions: &Folded) {
    let of = |calls: &str| instructions[calls];
    let (one_call, ten_lines) = (of("main;tail_first;touch"), of("main;catcher;touch"));
    let each = (ten_lines - one_call) / 35;
    assert_eq!(ten_lines - one_call, 35 * each, "{}", target.name);
    let begin = one_call - 5 * each;
    for (calls, lines, called) in [
        ("main;recursion;touch", 2, 2),
        ("main;recursion;recursion;recursion;recursion;touch", 2, 2),
        ("main;even;touch", 3, 2),
        ("main;even;odd;touch", 4, 2),
        ("main;tail_last;touch", 30, 1),
        ("main;catcher;thrower;thrower;thrower;touch", 4, 1),
        ("main;by_pointer;twenty;touch", 20, 1),
        ("main;by_pointer;ten;touch", 20, 2),
        ("main;sorter;touch", 63, 1),
    ] {
        // `ten` and `twenty` also call it for no line, which takes another way.
        let zero = if calls.contains("by_pointer") { called } else { 0 };
        let rest = of(calls) - lines * each - called * begin;
        match zero {
            0 => assert_eq!(rest, 0, "{}: {calls}", target.name),
            _ => assert!(rest > 0 && rest % zero == 0, "{}: {calls}: {rest}", target.name),
        }
    }
}

/// Checks that all calls together have the counts of the program.
fn adds_up(user: &User, target: &Target, document: &Value) {
    let sum = |by: &str| whole(user, by).values().sum::<u64>() as f64;
    assert_eq!(sum("instructions"), value(document, "simulated.instructions"), "{}", target.name);
    let accesses = value(document, "simulated.loads") + value(document, "simulated.stores");
    assert_eq!(sum("accesses"), accesses, "{}", target.name);
    assert_eq!(sum("walks"), value(document, "simulated.walks"), "{}", target.name);
    // Data only; the second level's fetches are those that the first one for instructions passes on.
    let level = |number: u32| value(document, &format!("simulated.level.{number}.misses"));
    assert_eq!(sum("misses.L1D"), level(1), "{}", target.name);
    assert_eq!(sum("misses.L1I"), level(2), "{}", target.name);
    assert_eq!(sum("cycles"), value(document, "simulated.cycles").round(), "{}", target.name);
}

/// Threads, and a shared library that calls back, through its stub and the dynamic linker.
#[test]
fn threads_and_libraries_are_told_apart() {
    let library = "void twice(void (*of)(void)) { of(); of(); __asm__ volatile (\"\"); }\n";
    let text = "#include <pthread.h>\nvoid twice(void (*)(void));\nstatic volatile int sum;\n\
                __attribute__((noinline)) void work(void) { for (int n = 0; n < 1000; n++) sum = n; __asm__ volatile (\"\"); }\n\
                void *thread(void *of) { twice(work); return of; }\n\
                int main(void) { twice(work); for (int n = 0; n < 3; n++) { pthread_t id; pthread_create(&id, 0, thread, 0);\n\
                pthread_join(id, 0); } return 0; }\n";
    for target in TARGETS.iter().chain([&THUMB]) {
        let user = User::new();
        let source = user.write("twice.c", library);
        if !can_simulate(target.qemu) || compiled(&user, target, &source, &["-shared", "-fPIC"]).is_none() {
            continue;
        }
        std::fs::rename(user.path("program"), user.path("libtwice.so")).expect("a library");
        let here = format!("-L{}", user.home.path().display());
        let source = user.write("program.c", text);
        let options = ["-pthread", &here, "-Wl,--no-as-needed", "-ltwice", "-Wl,-rpath,$ORIGIN"];
        compiled(&user, target, &source, &options).expect("the compiler is here");
        with_calls(&user, target);
        let all = whole(&user, "instructions");
        let of = |end: &str, in_main: bool| -> u64 {
            let own = all.iter().filter(|(calls, _)| calls.ends_with(end));
            own.filter(|(calls, _)| calls.contains("main;") == in_main).map(|(_, number)| number).sum()
        };
        let main = of(";main;twice;work", true);
        assert!(main > 4000, "{}: {all:?}", target.name);
        assert_eq!(of(";thread;twice;work", false), 3 * main, "{}: {all:?}", target.name);
        assert_eq!(of(";work", true) + of(";work", false), 4 * main, "{}: {all:?}", target.name);
    }
}

/// `fathom profile --simulated` is the same report.
#[test]
fn profile_is_simulated_on_request() {
    let user = User::new();
    let target = &TARGETS[2];
    if built(&user, target, "calls.c", &[]).is_none() {
        return;
    }
    let simulated = with_calls(&user, target);
    let did = user.run(&["profile", "--simulated", "--on", "bcm2837", "--json", "--", "./program"]);
    assert_eq!(did.status, 0, "{did:?}");
    let profiled: Value = serde_json::from_str(&did.out).unwrap_or_else(|e| panic!("{e}: {did:?}"));
    assert_eq!(profiled["findings"], simulated["findings"]);
    let calls = profiled["findings"].as_array().expect("a list").iter();
    let touch =
        |f: &&Value| f["metric"] == "simulated.call.{call}.share" && f["detail"]["function"] == "touch";
    assert!(calls.filter(touch).count() > 3);
    user.run(&["profile", "--on", "bcm2837", "--", "./program"]).failed(2, &["--simulated"]);
    user.run(&["profile", "--simulated", "--rate", "99", "--", "./program"]).failed(2, &["--rate"]);
    // Where cycles are not counted, the report tells this remedy.
    let did = user.run(&["profile", "--json", "--", "./program"]);
    if let Ok(report) = serde_json::from_str::<Value>(&did.out)
        && report.to_string().contains("cycles cannot be sampled: ")
        && !report.to_string().contains("perf_event_paranoid")
    {
        assert!(report.to_string().contains("fathom profile --simulated"), "{report}");
    }
}

/// Other tools' formats have all cycles; pprof reads its own, where it is installed.
#[test]
fn calls_are_exported() {
    let user = User::new();
    if built(&user, &TARGETS[2], "calls.c", &[]).is_none() {
        return;
    }
    with_calls(&user, &TARGETS[2]);
    let cycles: u64 = whole(&user, "cycles").values().sum();
    let did = user.run(&["export", "calls.fathom", "--as", "firefox"]);
    let firefox: Value = serde_json::from_str(&did.out).expect("JSON");
    let weights = firefox["threads"][0]["samples"]["weight"].as_array().expect("weights");
    assert_eq!(weights.iter().map(|n| n.as_u64().expect("a number")).sum::<u64>(), cycles);
    assert_eq!(user.shell("fathom export calls.fathom --as pprof > calls.pb").status, 0);
    let did = user.shell("go tool pprof -raw calls.pb");
    if did.status == 127 {
        return fathom_skip::skipped!(Unchecked, "no go, whose pprof would read the profile");
    }
    assert_eq!(did.status, 0, "{}", did.err);
    let samples = did.out.lines().skip_while(|line| *line != "Samples:").skip(2);
    let first = samples.map_while(|line| line.split_once(':')).map(|(values, _)| values);
    let of_pprof: u64 =
        first.filter_map(|values| values.split_whitespace().next()?.parse::<u64>().ok()).sum();
    assert_eq!(of_pprof, cycles, "{}", did.out);
}

#[test]
fn a_trace_has_no_calls_and_a_record_without_them_is_not_exported() {
    let user = User::new();
    if built(&user, &TARGETS[2], "calls.c", &[]).is_none() {
        return;
    }
    let trace = ["simulate", "--on", "bcm2837", "--calls", "--keep-trace", "run.trace", "--", "./program"];
    user.run(&trace).failed(2, &["--keep-trace", "--calls"]);
    let simulate = ["simulate", "--on", "bcm2837", "--record", "plain.fathom", "--", "./program"];
    assert_eq!(user.run(&simulate).status, 0);
    user.run(&["export", "plain.fathom", "--as", "folded"]).failed(2, &["has no calls", "--calls"]);
    with_calls(&user, &TARGETS[2]);
    let wrong = ["export", "calls.fathom", "--as", "folded", "--by", "misses.L9"];
    user.run(&wrong).failed(2, &["misses.L9", "cycles", "misses.L1D"]);
}
