//! Events of described processors, counted in simulations of programs: those that were planted come back, each by the rule of its
//! processor.

use std::path::Path;

use serde_json::Value;

use crate::common::User;
use crate::simulate::{TARGETS, built, can_simulate, compiled, simulated, value};

/// Counts a program on a described machine; returns the report.
fn counted(user: &User, machine: &str, arguments: &[&str]) -> Value {
    let count = ["count", "--simulated", "--on", machine, "--json", "--", "./program"];
    let did = user.run(&[&count, arguments].concat());
    assert_eq!(did.status, 0, "{did:?}");
    serde_json::from_str(&did.out).unwrap_or_else(|e| panic!("{e}: {did:?}"))
}

/// Returns the finding of an event, if it was counted.
fn event<'a>(document: &'a Value, name: &str) -> Option<&'a Value> {
    let findings = document["findings"].as_array().expect("a list");
    findings.iter().find(|f| f["metric"] == "program.entry.{entry}.count" && f["detail"]["event"] == name)
}

fn count(document: &Value, name: &str) -> f64 {
    let found = event(document, name).and_then(|f| f["value"].as_f64());
    found.unwrap_or_else(|| panic!("no {name}: {document}"))
}

/// Returns why an event was not counted.
fn refusal<'a>(document: &'a Value, name: &str) -> &'a str {
    let all = document["refusals"].as_array().expect("a list");
    let names =
        |refused: &Value| refused["what"].as_str().is_some_and(|what| what.split(", ").any(|of| of == name));
    let found = all.iter().find(|refused| names(refused)).unwrap_or_else(|| panic!("no {name}: {all:?}"));
    found["reason"].as_str().expect("a text")
}

/// Study S4's explanation by counters: misses times access times are the program's cycles, and walks are the cause. The model's
/// own account of the same accesses is exact.
#[test]
fn counters_explain_the_matrix_multiplication_of_study_s4() {
    let (user, target) = (User::new(), &TARGETS[0]);
    if built(&user, target, "matmul.c", &["-static"]).is_none() {
        return;
    }
    for function in ["textbook", "interchanged"] {
        let document = counted(&user, "bcm2835", &[function]);
        let of = |name| value(&document, name);
        let (explained, account) = (of("program.explained.all"), of("program.waits"));
        assert!((0.95..1.05).contains(&(explained / account)), "{function}: {explained} of {account}");
        assert_eq!(of("program.explained.rest"), count(&document, "CPU_CYCLES") - explained);
        let translation = of("program.explained.translation") / explained;
        assert_eq!(translation > 0.5, function == "textbook", "{function}: {translation}");
        // The same run of `fathom simulate`.
        let simulated = simulated(&user, target, "bcm2835", &[function]);
        for (event, metric) in [
            ("CPU_CYCLES", "simulated.cycles"),
            ("INSTR_EXEC", "simulated.instructions"),
            ("DCACHE_MISS", "simulated.level.1.misses"),
            ("ICACHE_MISS", "simulated.level.2.misses"),
            ("MAIN_TLB_MISS", "simulated.walks"),
        ] {
            let (counted, known) = (count(&document, event), value(&simulated, metric));
            assert!((counted - known).abs() <= 0.5, "{function}, {event}: {counted}, {metric}: {known}");
        }
        let sides = count(&document, "ITLB_MISS") + count(&document, "DTLB_MISS");
        assert_eq!(sides, value(&simulated, "simulated.tlb.1.misses"), "{function}");
        let kept = format!("{function}.fathom");
        let arguments =
            ["count", "--simulated", "--on", "bcm2835", "--record", &kept, "--", "./program", function];
        let did = user.run(&arguments);
        assert_eq!(did.status, 0, "{did:?}");
    }
    let did = user.run(&["compare", "textbook.fathom", "interchanged.fathom", "--json"]);
    assert!(did.out.contains("program.entry.14.count") && did.out.contains("program.waits"), "{did:?}");
    let page = user.run(&["report", "textbook.fathom"]);
    assert!(page.out.contains("a sequential run over a line counts once"), "{page:?}");
}

#[test]
fn planted_accesses_come_back_by_the_rules_of_each_processor() {
    let (user, target) = (User::new(), &TARGETS[0]);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/counted_events.c");
    if !can_simulate(target.qemu) || compiled(&user, target, &source, &["-static"]).is_none() {
        return;
    }
    // Of as many digits each, so that the rest of the program does the same.
    let more = |machine: &str, pattern: &str, lines: [&str; 2], names: &[&str]| {
        let [less, more] = lines.map(|lines| counted(&user, machine, &[pattern, lines]));
        names.iter().map(|name| count(&more, name) - count(&less, name)).collect::<Vec<f64>>()
    };
    // 2000 more lines of 32 bytes, each read in 8 loads: on the ARM1176 a sequential run counts one access a line.
    let arm1176 = ["DCACHE_ACCESS_CACHEABLE", "DCACHE_ACCESS"];
    assert_eq!(more("bcm2835", "sequential", ["1000", "3000"], &arm1176), [2000.0; 2]);
    assert_eq!(more("bcm2835", "alternating", ["1000", "3000"], &arm1176), [32_000.0; 2]);
    let a53 = ["L1D_CACHE", "MEM_ACCESS"];
    assert_eq!(more("bcm2837", "sequential", ["1000", "3000"], &a53), [16_000.0; 2]);
    let near = |counted: &[f64], planted: f64| {
        assert!(
            counted.iter().all(|count| (count - planted).abs() <= 0.01 * planted + 8.0),
            "{counted:?}, {planted}"
        );
    };
    near(&more("bcm2835", "sequential", ["1000", "3000"], &["DCACHE_MISS", "EXPL_D_ACCESS"]), 2000.0);
    near(&more("bcm2837", "sequential", ["1000", "3000"], &["L1D_CACHE_REFILL"]), 1000.0);
    // Stores fill no line of the ARM1176 and miss each time; the Cortex-A53 has most lines in the second pass: random replacement
    // may take one of a set that was full before.
    near(&more("bcm2835", "stores", ["100", "300"], &["DCACHE_MISS"]), 400.0);
    let filled = more("bcm2837", "stores", ["100", "300"], &["L1D_CACHE_REFILL"])[0];
    assert!((200.0..=270.0).contains(&filled), "{filled}");
    // A line from memory takes its latency less that of the first level, 3 cycles: 142 ns of 600 MHz.
    let stalls = more("bcm2837", "sequential", ["1000", "3000"], &["LD_DEP_STALL"])[0];
    let memory = memory_cycles("bcm2837");
    assert!((stalls / 1000.0 - (memory - 3.0)).abs() < 0.05 * memory, "{stalls}: {memory} cycles each");
    let document = counted(&user, "bcm2837", &["sequential", "1000"]);
    for (name, why) in [
        ("BR_MIS_PRED", "none is predicted"),
        ("LD_RETIRED", "condition"),
        ("STALL_SB_FULL", "no buffer of stores"),
        ("BUS_ACCESS", "transfers"),
    ] {
        assert!(refusal(&document, name).contains(why), "{name}");
        assert!(event(&document, name).is_none(), "{name}");
    }
}

/// Returns the described latency of memory, cycles.
fn memory_cycles(machine: &str) -> f64 {
    let of = fathom_model::catalog::load(machine).expect("built in").expect("valid");
    of.memory.latency.in_cycles(of.core.clock_hz)
}

#[test]
fn instructions_that_load_are_counted_where_they_have_no_condition() {
    let (user, target) = (User::new(), &TARGETS[2]);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/counted_events.c");
    if !can_simulate(target.qemu) || compiled(&user, target, &source, &["-static"]).is_none() {
        return;
    }
    let [less, more] = ["1000", "3000"].map(|lines| counted(&user, "bcm2837", &["sequential", lines]));
    assert_eq!(count(&more, "LD_RETIRED") - count(&less, "LD_RETIRED"), 16_000.0);
    assert_eq!(count(&more, "ST_RETIRED") - count(&less, "ST_RETIRED"), 0.0);
}

#[test]
fn what_cannot_be_counted_in_a_simulation_is_refused_with_the_remedy() {
    let user = User::new();
    let described = |name: &str, events: &str| {
        let text = fathom_model::catalog::text("bcm2835").expect("built in");
        let line = text.lines().find(|line| line.starts_with("events")).expect("a line");
        user.write(name, &text.replace(line, events));
    };
    described("none.toml", "");
    described("wrong.toml", "events = \"cortex-a35\"");
    let run = |arguments: &[&str]| user.run(&[&["count"], arguments, &["--", "true"]].concat());
    for (arguments, says) in [
        (&["--simulated", "--on", "./none.toml"][..], "events = \"NAME\""),
        (&["--simulated", "--on", "./wrong.toml"], "did you mean \"cortex-a"),
        (&["--simulated", "--on", "host"], "no subject or machine"),
        (&["--simulated"], "--on <MACHINE>"),
        (&["--on", "bcm2835"], "--simulated"),
        (&["--simulated", "--on", "bcm2835", "--once"], "cannot be used with"),
        (&["--simulated", "--on", "bcm2835", "--regions"], "cannot be used with"),
    ] {
        let did = run(arguments);
        assert!(did.status == 2 && did.err.contains(says), "{arguments:?}: {did:?}");
    }
}
