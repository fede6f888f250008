//! A whole guest that is small enough for its counts to be known by arithmetic (`guest/kernel.c`, `guest/program.c`): it needs no
//! Linux, and is over in a moment.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{Did, User};
use crate::simulate::{can_simulate, hot, listed, misses};
use crate::simulate_why::{OBJECT, PAIR};

const COMPILER: &str = "aarch64-linux-gnu-gcc";
/// Options of both programs: neither has a library, nor anything that needs one.
const FLAGS: [&str; 11] = [
    "-O1",
    "-g",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-ffreestanding",
    "-mgeneral-regs-only",
    "-mstrict-align",
    "-nostdlib",
    "-static",
    "-no-pie",
];
/// Rounds of the program's loads, and the lines that it loads in each.
const LOADS: u64 = 100 * 6;
/// System calls that read the kernel's table and the caller's buffer, and the lines of both.
const CALLS: u64 = 3;
const TABLE_LINES: u64 = 1024;
const BUFFER_LINES: u64 = 64;

/// Returns whether a program is there; else tells that the test is not run.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success());
    if !found {
        fathom_skip::skipped!(
            Unchecked,
            "no {program}: scripts/simulate --setup and scripts/setup --test install it"
        );
    }
    found
}

fn compiled(user: &User, source: &str, more: &[&str]) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = user.path(source.strip_suffix(".c").expect("a source"));
    let mut compiler = Command::new(COMPILER);
    compiler.args(FLAGS).args(more).arg("-I").arg(folder.join("../../include"));
    let out = compiler.arg(folder.join("tests/command/guest").join(source)).arg("-o").arg(&program).output();
    let out = out.expect("it starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    program.display().to_string()
}

/// Builds the guest, with the kernel's symbols in the file `symbols`; returns false, and tells, where that is not possible.
pub fn guest(user: &User) -> bool {
    if !can_simulate("qemu-system-aarch64") || !has(COMPILER) {
        return false;
    }
    let kernel = compiled(user, "kernel.c", &["-Wl,-Ttext=0x40100000,--build-id=none,-e,start"]);
    compiled(user, "program.c", &["-Wl,-z,max-page-size=4096,--build-id=none"]);
    let symbols = Command::new("aarch64-linux-gnu-nm").arg("-n").arg(kernel).output().expect("binutils");
    user.write("symbols", &String::from_utf8_lossy(&symbols.stdout));
    true
}

/// Runs the guest under `fathom simulate` with these options.
pub fn run(user: &User, options: &[&str]) -> Did {
    let qemu = "-M virt,highmem=off -serial file:numbers -cpu cortex-a53 -m 256 -nodefaults -display none -kernel kernel \
                -device loader,file=program,addr=0x48000000,force-raw=on";
    let qemu: Vec<&str> = qemu.split(' ').filter(|word| !word.is_empty()).collect();
    let start = ["simulate", "--system", "--symbols", "symbols", "--program", "program"];
    user.run(&[&start, options, &["--", "qemu-system-aarch64"], &qemu[..]].concat())
}

fn json(did: &Did) -> Value {
    assert_eq!(did.status, 0, "{did:?}");
    serde_json::from_str(&did.out).unwrap_or_else(|e| panic!("{e}: {did:?}"))
}

/// The findings of each machine.
fn counts(of: &Value) -> Vec<Value> {
    let one = std::slice::from_ref(of);
    of.as_array().map_or(one, Vec::as_slice).iter().map(|report| report["findings"].clone()).collect()
}

/// Data are named by who accesses them; sets are those of physical addresses.
#[test]
fn data_of_kernel_and_program_miss_as_arithmetic_says() {
    let user = User::new();
    if !guest(&user) {
        return;
    }
    let why = json(&run(&user, &["--on", "am5728", "--json", "--why"]));
    let pages = hot(&why, OBJECT, "object", "pages");
    // Neighbouring virtual pages are 16 KiB apart in physical memory, as much as a way has: six lines in a set of two.
    assert_eq!(misses(pages, "L1D"), LOADS, "{pages}");
    assert_eq!(
        ["cold", "capacity", "conflict"].map(|name| listed(pages, "reasons", name)),
        [6, 0, LOADS - 6]
    );
    assert_eq!(pages["file"], "program");
    let pair = hot(&why, PAIR, "object", "pages");
    assert_eq!((&pair["by_object"], &pair["reason"]), (&"pages".into(), &"conflict".into()), "{pair}");
    assert_eq!((&pair["function"], &pair["by_function"]), (&"read_pages".into(), &"read_pages".into()));
    // 64 KiB in an L1 of 32 KiB, again and again.
    let table = hot(&why, OBJECT, "object", "table");
    assert_eq!(misses(table, "L1D"), CALLS * TABLE_LINES, "{table}");
    assert_eq!(
        ["cold", "capacity"].map(|name| listed(table, "reasons", name)),
        [TABLE_LINES, (CALLS - 1) * TABLE_LINES]
    );
    let buffer = hot(&why, OBJECT, "object", "user memory, accessed by the kernel");
    assert_eq!(misses(buffer, "L1D"), CALLS * BUFFER_LINES, "{buffer}");
    // Nothing else is counted otherwise than without reasons.
    let plain = json(&run(&user, &["--on", "am5728", "--json"]));
    let levels = |of: &Value| {
        let findings = of["findings"].as_array().expect("findings").clone();
        let wanted = |f: &&Value| f["name"].as_str().is_some_and(|name| name.starts_with("simulated.level."));
        let counted = |f: &&Value| {
            ["accesses", "misses", "writebacks"]
                .iter()
                .any(|end| f["name"].as_str().is_some_and(|name| name.ends_with(end)))
        };
        findings
            .iter()
            .filter(wanted)
            .filter(counted)
            .map(|f| (f["name"].clone(), f["value"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(levels(&why), levels(&plain));
    assert!(levels(&why).len() > 6, "{:?}", levels(&why));
}

/// The source is that of the program.
#[test]
fn source_of_the_program_has_its_counts() {
    let user = User::new();
    if !guest(&user) {
        return;
    }
    let did = run(&user, &["--on", "am5728", "--source"]);
    let line = did
        .err
        .lines()
        .find(|line| line.contains("(void)pages[page][0];"))
        .unwrap_or_else(|| panic!("{did:?}"));
    assert!(line.split_whitespace().any(|word| word == LOADS.to_string()), "{line}");
    let start =
        ["simulate", "--on", "am5728", "--system", "--source", "--", "qemu-system-aarch64", "-M", "virt"];
    user.run(&start).failed(2, &["--source", "--program"]);
}

/// A kept trace has virtual and physical addresses: on another machine it counts as a run there, reasons, names and regions included.
#[test]
fn trace_of_a_guest_is_the_guest() {
    let user = User::new();
    if !guest(&user) {
        return;
    }
    let did = run(&user, &["--on", "bcm2837", "--quiet", "--keep-trace", "guest.trace"]);
    assert_eq!(did.status, 0, "{did:?}");
    let again = ["--trace", "guest.trace", "--symbols", "symbols"];
    for more in
        [&["--on", "am5728", "--json", "--why"][..], &["--on", "bcm2711,zen3", "--json", "--threads", "2"]]
    {
        let run = counts(&json(&run(&user, more)));
        let replayed = counts(&json(&user.run(&[&["simulate"], more, &again[..]].concat())));
        assert_eq!(replayed, run);
        assert!(run.iter().all(|of| of.as_array().is_some_and(|all| all.len() > 50)), "{run:?}");
    }
    let bytes = std::fs::metadata(user.path("guest.trace")).expect("a trace").len();
    println!("{bytes} bytes");
    user.write("x.din", "0 1000\n");
    let refused = user.run(&["simulate", "--on", "bcm2837", "--trace", "x.din", "--symbols", "symbols"]);
    refused.failed(2, &["--symbols", "no trace of a guest"]);
    let refused = user.run(&["simulate", "--on", "bcm2837", "--symbols", "symbols", "--", "./program"]);
    refused.failed(2, &["--symbols without --system"]);
}

/// Exceptions are calls of what they interrupt, which goes on after them; each task has its own calls.
#[test]
fn calls_of_kernel_and_program_are_those_of_their_source() {
    let user = User::new();
    if !guest(&user) {
        return;
    }
    let did = run(&user, &["--on", "bcm2837", "--quiet", "--calls", "--record", "calls.fathom"]);
    assert_eq!(did.status, 0, "{did:?}");
    let folded = user.run(&["export", "calls.fathom", "--as", "folded", "--by", "instructions"]);
    let folded = folded.ended(0);
    let of = |calls: &str| {
        let all = folded.lines().filter_map(|line| line.rsplit_once(' '));
        let sum: u64 = all
            .filter(|(of, _)| *of == calls)
            .map(|(_, count)| count.parse::<u64>().expect("a number"))
            .sum();
        assert!(sum > 0, "{calls}: {folded}");
        sum
    };
    // Loops of two and of four instructions, and some around them.
    let around = |counted: u64, loops: u64| {
        assert!((loops..loops + 40).contains(&counted), "{counted} {loops}: {folded}")
    };
    around(of("_start;ask;called;answer;read_table"), CALLS * 4 * TABLE_LINES);
    around(of("work;job"), 2 * 3 * 2 * 1000);
    around(of("_start;spin"), 2 * 50_000);
    around(of("_start;have_worked;spin"), 2 * 50_000);
    of("_start;recurse;recurse;recurse;recurse;recurse");
    of("_start;have_worked;called;answer;switch_to_worker;cpu_switch_to");
    // The timer interrupts both loops, and each of its interrupts counts itself in as many instructions.
    let ticks = of("_start;spin;interrupted;tick;count_tick");
    assert!(
        ticks.is_multiple_of(5) && of("_start;have_worked;spin;interrupted;tick;count_tick") > 0,
        "{folded}"
    );
    let report = user.run(&["report", "calls.fathom", "--json"]);
    let executed: u64 = folded.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum();
    let document: Value = serde_json::from_str(report.ended(0)).expect("JSON");
    assert_eq!(
        crate::simulate::value(&document, "simulated.instructions"),
        executed as f64,
        "all are in calls"
    );
    let start = ["simulate", "--on", "bcm2837", "--system", "--calls", "--symbols", "symbols", "--"];
    user.run(&[&start[..], &["qemu-system-arm", "-M", "virt"]].concat())
        .failed(2, &["--calls", "qemu-system-aarch64"]);
    user.write("few", "0000000040100000 T start\n");
    let few = [
        "simulate",
        "--on",
        "bcm2837",
        "--system",
        "--calls",
        "--symbols",
        "few",
        "--",
        "qemu-system-aarch64",
    ];
    user.run(&few).failed(2, &["--calls", "no symbol 'vectors'"]);
}

/// The guest reads counts of the machine while it runs: what a loop adds is known by arithmetic.
#[test]
fn guest_reads_counters_of_the_machine() {
    let user = User::new();
    if !guest(&user) {
        return;
    }
    let document = json(&run(&user, &["--on", "am5728,bcm2837", "--threads", "2", "--json", "--counters"]));
    let text = user.read("numbers");
    let numbers: Vec<u64> = text.lines().map(|line| line.parse().expect("a number")).collect();
    let [instructions, loads, stores, misses, memory, walks, cycles, others, all, levels, name] = numbers[..]
    else {
        panic!("{text}")
    };
    let first = &document[0];
    let described = crate::simulate::value(first, "simulated.instructions");
    println!("{text}{described}");
    // The call of the loop and its return are beside it.
    assert!((4 * 1024..4 * 1024 + 12).contains(&instructions), "{text}");
    assert_eq!((loads, memory, others), (1024, 1024, 0), "{text}");
    assert!(stores <= 2 && walks >= 16, "{text}");
    assert!(
        (1024..1024 + 32).contains(&misses),
        "each line is new, and takes what the read has used: {text}"
    );
    assert!(cycles > 1024 * 50, "memory takes 94 ns of 1.5 GHz: {text}");
    assert!(all < described as u64 && all + 2000 > described as u64, "{text} of {described}");
    assert_eq!((levels, name), (3, u64::from(b'L')), "{text}");
    // Without the device the program does not read, and counts as ever.
    let without = json(&run(&user, &["--on", "am5728", "--json"]));
    assert_eq!(user.read("numbers"), "");
    let region = |of: &Value| hot(of, "simulated.region.{rank}.cycles", "region", "pages").clone();
    let misses_of = |of: &Value| misses_in(&region(of));
    assert_eq!(misses_of(&without), misses_of(first));
    user.run(&["simulate", "--on", "bcm2837", "--counters", "--", "./program"]).failed(2, &["--system"]);
}

fn misses_in(region: &Value) -> u64 {
    misses(region, "L1D")
}

/// A task is a region: what the worker does, twice, is known by arithmetic.
#[test]
fn tasks_have_numbers_names_and_counts() {
    let user = User::new();
    if !guest(&user) {
        return;
    }
    let document = json(&run(&user, &["--on", "bcm2837", "--json", "--tasks"]));
    let region = |name: &str| hot(&document, "simulated.region.{rank}.cycles", "region", name);
    let number = |of: &Value, field: &str| of[field].as_u64().unwrap_or_else(|| panic!("{field} in {of}"));
    let (worker, first) = (region("task 8 worker"), region("task 0 swapper/0"));
    println!("{worker} {first}");
    assert_eq!((number(worker, "entered"), number(first, "entered")), (2, 2));
    let jobs = 2 * 3 * 2 * 1000;
    assert!((jobs..jobs + 200).contains(&number(worker, "executed")), "{worker}");
    // The first one spins in between, and reads its counters after that, if it can.
    assert!((100_000..101_500).contains(&number(first, "executed")), "{first}");
    let pages = region("pages");
    assert_eq!((number(pages, "entered"), number(pages, "accesses")), (1, LOADS), "{pages}");
    user.write("few", "0000000040100000 T start\n");
    let few = [
        "simulate",
        "--on",
        "bcm2837",
        "--system",
        "--tasks",
        "--symbols",
        "few",
        "--",
        "qemu-system-aarch64",
    ];
    user.run(&few).failed(2, &["--tasks", "no symbol 'cpu_switch_to'"]);
}
