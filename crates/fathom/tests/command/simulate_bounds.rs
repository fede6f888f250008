//! The two bounds of a simulated program's time, wherever they are told: what parts have adds up to the whole.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::common::User;
use crate::simulate::{TARGETS, can_simulate, compiled, hot, listed, value};

/// Stores to 2048 lines that nobody has touched, which do not depend on each other; and a loop that misses nothing.
const PROGRAM: &str = "#include <fathom.h>\n#define PLAIN __attribute__((noinline, noclone))\n\
     static char lines[2048 * 64] __attribute__((aligned(64)));\n\
     PLAIN void touch(int n) { for (int i = 0; i < n; i++) *(volatile char *)(lines + 64 * i) = 1; }\n\
     PLAIN void spin(int n) { for (volatile int i = 0; i < n; i++); }\n\
     int main(void) { FATHOM_BEGIN(touching); touch(2048); FATHOM_END(touching);\n\
     FATHOM_BEGIN(spinning); spin(20000); FATHOM_END(spinning); return 0; }\n";

/// Misses under way at the same time.
const OUTSTANDING: f64 = 4.0;

/// Returns the description of a machine without TLBs whose instructions take `alu` cycles each.
fn machine(alu: u64) -> String {
    let level = |name: &str, holds: &str| {
        format!(
            "[[level]]\nname = \"{name}\"\nholds = \"{holds}\"\nsize = \"32K\"\nline = \"64\"\nways = 8\nlatency = \"4 cycles\"\n\
             replacement = \"lru\"\nwrite = \"back\"\nallocate = true\ninclusion = \"neither\"\nshared = false\n"
        )
    };
    format!(
        "format = 1\nabout = \"four misses overlap\"\n[core]\nclock = \"1 GHz\"\ncpus = 1\nalu = \"{alu} cycles\"\n\
         branch = \"0 cycles\"\noutstanding = {OUTSTANDING}\n[timer]\nclock = \"1 GHz\"\noverhead = \"0 cycles\"\n\
         jitter = \"0 cycles\"\nresolution = 1\n{}{}[memory]\nsize = \"1G\"\npages = [\"4K\"]\nlatency = \"100 ns\"\n",
        level("L1D", "data"),
        level("L1I", "instructions")
    )
}

/// Returns a user with the program and both machines, if this machine can simulate.
fn user() -> Option<User> {
    let (user, target) = (User::new(), &TARGETS[2]);
    if !can_simulate(target.qemu) {
        return None;
    }
    compiled(&user, target, &user.write("program.c", PROGRAM), &["-static"])?;
    user.write("memory.toml", &machine(0));
    user.write("alu.toml", &machine(1000));
    Some(user)
}

fn simulated(user: &User, on: &str) -> Value {
    let options = ["simulate", "--on", on, "--calls", "--why", "--json", "--force", "--record", "run.fathom"];
    let did = user.run(&[&options[..], &["--", "./program"]].concat());
    serde_json::from_str(did.ended(0)).unwrap_or_else(|e| panic!("{e}: {did:?}"))
}

/// Returns an amount of each sequence of calls.
fn folded(user: &User, by: &str) -> BTreeMap<String, u64> {
    let did = user.run(&["export", "run.fathom", "--as", "folded", "--by", by]);
    let lines = did.ended(0).lines().map(|line| line.rsplit_once(' ').expect("calls and a number"));
    let number = |number: &str| number.parse::<u64>().expect("a number");
    lines.fold(BTreeMap::new(), |mut all, (calls, of)| {
        *all.entry(calls.to_owned()).or_default() += number(of);
        all
    })
}

fn of<'a>(all: &'a BTreeMap<String, u64>, end: &str) -> impl Iterator<Item = u64> + use<'a> {
    let end = end.to_owned();
    all.iter().filter(move |(calls, _)| calls.ends_with(&end)).map(|(_, number)| *number)
}

fn number(detail: &Value, field: &str) -> f64 {
    detail[field].as_f64().unwrap_or_else(|| panic!("{field} in {detail}"))
}

fn findings_of<'a>(document: &'a Value, metric: &'a str) -> impl Iterator<Item = &'a Value> {
    document["findings"].as_array().expect("a list").iter().filter(move |f| f["metric"] == metric)
}

fn region<'a>(document: &'a Value, name: &str) -> &'a Value {
    hot(document, "simulated.region.{rank}.cycles", "region", name)
}

fn total<'a>(document: &'a Value, name: &str) -> &'a Value {
    hot(document, "simulated.total.{rank}.share", "function", name)
}

/// Checks that both bounds of all calls together are those of the program, to the cycle.
fn adds_up(user: &User, document: &Value) {
    for (by, whole) in [("cycles", "simulated.cycles"), ("cycles.least", "simulated.cycles.least")] {
        let sum: u64 = folded(user, by).values().sum();
        assert_eq!(sum as f64, value(document, whole).round(), "{by}");
    }
    // What nothing has called has everything but what threads begin with.
    let shares = findings_of(document, "simulated.call.{call}.least_share");
    let roots = shares.filter(|f| f["detail"]["caller"] == 0).map(|f| f["value"].as_f64().expect("a number"));
    let roots: f64 = roots.sum();
    assert!((0.999..=1.000_001).contains(&roots), "{roots}");
}

/// Misses take the longest: the least time of a call is a quarter of that of its misses.
#[test]
fn independent_misses_overlap_in_calls_regions_and_data() {
    let Some(user) = user() else { return };
    let document = simulated(&user, "./memory.toml");
    let mut functions = findings_of(&document, "simulated.function.{rank}.cycles");
    let touch = functions.find(|f| f["detail"]["function"] == "touch").expect("it misses");
    let (beyond, touch) = (touch["value"].as_f64().expect("a time"), &touch["detail"]);
    assert_eq!(listed(touch, "misses", "L1D"), 2048);
    let each = (beyond / 2048.0).round();
    assert!((90.0..=100.0).contains(&each), "{beyond}: its fetches are two lines");
    // One more or less is at its time where its places are free: by what was before.
    let expected = 2048.0 / OUTSTANDING * each;
    let near = |cycles: f64| assert!((cycles - expected).abs() <= 3.0 * each, "{cycles} of {expected}");
    near(number(touch, "overlapped"));
    near(number(total(&document, "touch"), "least"));
    near(number(region(&document, "touching"), "least"));
    near(number(hot(&document, "simulated.object.{rank}.cycles", "object", "lines"), "overlapped"));
    near(of(&folded(&user, "cycles.least"), ";main;touch").map(|n| n as f64).sum());
    // Its own line of the stack may have been evicted, and it fetches a line or two.
    assert!(number(region(&document, "spinning"), "least") <= 2.0 * each);
    assert!(of(&folded(&user, "cycles.least"), ";main;spin").sum::<u64>() as f64 <= each);
    adds_up(&user, &document);
    let limit = |condition: &str| {
        let simulate =
            ["simulate", "--on", "./memory.toml", "--quiet", "--fail-if", condition, "--", "./program"];
        user.run(&simulate).status
    };
    let (least, most) = (value(&document, "simulated.cycles.least"), value(&document, "simulated.cycles"));
    assert!(least < most);
    for (condition, status) in [
        (format!("cycles.least > {}", least - 1.0), 4),
        (format!("cycles.least > {least}"), 0),
        (format!("cycles > {}", most - 1.0), 4),
        (format!("touching:cycles.least > {}", expected + 4.0 * each), 0),
        (format!("touching:cycles.least > {}", expected - 4.0 * each), 4),
    ] {
        assert_eq!(limit(&condition), status, "{condition}");
    }
    let there = ["simulate", "--on", "bcm2837", "--fail-if", "cycles.least > 1", "--", "./program"];
    user.run(&there).failed(2, &["no least time", "`outstanding`", "(bcm2837)"]);
}

/// Pairs of stores that miss: the second is 21 instructions after the first, and the next pair 204 after that.
const PAIRS: &str = "#include <fathom.h>\nstatic char lines[2048 * 64 + 64] __attribute__((aligned(64)));\n\
     __attribute__((noinline)) void pairs(void) { char *at = lines; int left = 1024;\n\
     __asm__ volatile(\"1:\\n str %1, [%0]\\n .rept 20\\n nop\\n .endr\\n str %1, [%0, #64]\\n .rept 200\\n nop\\n .endr\\n\"\n\
     \"add %0, %0, #128\\n subs %1, %1, #1\\n bne 1b\" : \"+r\"(at), \"+r\"(left) :: \"memory\", \"cc\"); }\n\
     int main(void) { FATHOM_BEGIN(paired); pairs(); FATHOM_END(paired); return 0; }\n";

/// Two misses overlap if the window has all instructions from one to the other.
#[test]
fn misses_overlap_within_the_window_only() {
    let (user, target) = (User::new(), &TARGETS[2]);
    if !can_simulate(target.qemu)
        || compiled(&user, target, &user.write("pairs.c", PAIRS), &["-static"]).is_none()
    {
        return;
    }
    let windowed =
        |window: u32| machine(0).replace("outstanding = 4", &format!("outstanding = 4\nwindow = {window}"));
    user.write("m.toml", &windowed(21));
    let options = ["simulate", "--on", "./m.toml", "--vary", "core.window=21,22,225,226,2000", "--json"];
    let more = ["--calls", "--force", "--record", "run.fathom", "--", "./program"];
    let did = user.run(&[&options[..], &more].concat());
    let all: Value = serde_json::from_str(did.ended(0)).unwrap_or_else(|e| panic!("{e}: {did:?}"));
    let least: Vec<f64> = all
        .as_array()
        .expect("a document for each")
        .iter()
        .map(|document| number(region(document, "paired"), "least"))
        .collect();
    // A store takes 100 cycles, 96 more than a hit. Of the region itself there are a few lines more.
    for (least, together) in least.iter().zip([1.0, 2.0, 2.0, 3.0, 4.0]) {
        let expected = 2048.0 / together * 96.0;
        assert!((least / expected - 1.0).abs() < 0.01, "{least} of {expected}, {together} together");
    }
    user.write("m.toml", &windowed(22));
    let options = ["simulate", "--on", "./m.toml", "--json", "--calls", "--force", "--record", "run.fathom"];
    let did = user.run(&[&options[..], &["--", "./program"]].concat());
    let document: Value = serde_json::from_str(did.ended(0)).unwrap_or_else(|e| panic!("{e}: {did:?}"));
    adds_up(&user, &document);
    let report = user.run(&["report", "run.fathom"]);
    assert!(report.ended(0).contains("overlap, within 22 instructions"), "{report:?}");
}

/// A kept trace has the instructions between accesses, whether or not a machine of its run needed them: replayed, it gives what a run gives.
#[test]
fn kept_trace_tells_how_far_accesses_are_apart() {
    let (user, target) = (User::new(), &TARGETS[2]);
    if !can_simulate(target.qemu)
        || compiled(&user, target, &user.write("pairs.c", PAIRS), &["-static"]).is_none()
    {
        return;
    }
    user.write("plain.toml", &machine(0));
    user.write("m.toml", &machine(0).replace("outstanding = 4", "outstanding = 4\nwindow = 21"));
    let all = |from: &[&str]| {
        let options = ["simulate", "--on", "./m.toml", "--vary", "core.window=21,22,225,226,2000", "--json"];
        let did = user.run(&[&options[..], from].concat());
        let mut all: Value = serde_json::from_str(did.ended(0)).unwrap_or_else(|e| panic!("{e}: {did:?}"));
        for report in all.as_array_mut().expect("a document for each") {
            // Only the time of the run and its command differ.
            report["elapsed_s"] = Value::Null;
            report["subject"]["facts"]["run.command"] = Value::Null;
        }
        all
    };
    let run = all(&["--", "./program"]);
    let keep =
        ["simulate", "--quiet", "--keep-trace", "run.trace", "--on", "./plain.toml", "--", "./program"];
    assert_eq!(user.run(&keep).status, 0);
    assert_eq!(all(&["--trace", "run.trace"]), run);
    let least = |nth: usize| number(region(&run[nth], "paired"), "least");
    assert!(least(0) > 1.9 * least(1) && least(1) > 1.4 * least(3), "the windows differ: {run}");
}

/// A trace with instructions tells how far accesses are apart; in one without, each access is an instruction.
#[test]
fn traces_tell_how_far_accesses_are_apart() {
    let user = User::new();
    let windowed = machine(0).replace("outstanding = 4", "outstanding = 4\nwindow = 10");
    user.write("m.toml", &windowed);
    let lackey = |apart: usize| {
        let step = |nth: usize| {
            let others = (1..apart).map(|other| format!("I  {:x},4\n", 0x1000 + 4 * other));
            format!("I  1000,4\n L {:x},8\n{}", 0x10_0000 + 64 * nth, others.collect::<String>())
        };
        format!("==1== Lackey, an example Valgrind tool\n{}==1== \n", (0..400).map(step).collect::<String>())
    };
    let data = |name: &str, text: &str| {
        user.write(name, text);
        let did = user.run(&["simulate", "--on", "./m.toml", "--json", "--trace", name]);
        let document: Value = serde_json::from_str(did.ended(0)).unwrap_or_else(|e| panic!("{e}: {did:?}"));
        let least = findings_of(&document, "simulated.cycles.least").next().expect("it is described");
        listed(&least["detail"], "sides", "data")
    };
    assert_eq!(data("ten", &lackey(10)), 400 * 96);
    assert_eq!(data("nine", &lackey(9)), 200 * 96);
    assert_eq!(data("three", &lackey(3)), 100 * 96);
    let din: String = (0..400).map(|nth| format!("0 {:x}\n", 0x10_0000 + 64 * nth)).collect();
    assert_eq!(data("din", &din), 100 * 96);
}

/// Instructions take the longest: the least time of a call is theirs, exactly.
#[test]
fn instructions_are_the_least_time_where_they_take_the_longest() {
    let Some(user) = user() else { return };
    let document = simulated(&user, "./alu.toml");
    let instructions = folded(&user, "instructions");
    let expected: BTreeMap<String, u64> =
        instructions.iter().map(|(calls, number)| (calls.clone(), 1000 * number)).collect();
    assert_eq!(folded(&user, "cycles.least"), expected);
    let least = findings_of(&document, "simulated.cycles.least").next().expect("it is described");
    let instructions = listed(&least["detail"], "sides", "instructions");
    assert_eq!(instructions as f64, least["value"].as_f64().expect("a time"));
    for name in ["touching", "spinning"] {
        let region = region(&document, name);
        assert_eq!(number(region, "least"), 1000.0 * number(region, "executed"), "{region}");
    }
    adds_up(&user, &document);
    let report = user.run(&["report", "run.fathom", "--html", "page.html"]);
    let text = report.ended(0);
    for part in ["the longest of: instructions", "Calls, by share of the least time"] {
        assert!(text.contains(part), "{text}");
    }
    crate::common::fits(text);
    assert!(user.read("page.html").contains("calls-least"));
}
