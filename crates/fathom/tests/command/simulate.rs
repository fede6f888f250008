//! Simulated programs: counts that are known by arithmetic come back exactly, the program is passed through, and what cannot
//! be simulated is refused. The programs are those of `examples/`, built here; a test without compiler, QEMU or plugin is
//! told and counted.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Did, User, kill, wait};

/// A compiler and its options: for the named instruction set.
pub struct Target {
    pub name: &'static str,
    pub compiler: &'static str,
    pub flags: &'static [&'static str],
    /// QEMU's user-mode emulator for it, and its CPU.
    pub qemu: &'static str,
    pub cpu: Option<&'static str>,
}

/// The instruction sets of the study's demonstrator.
pub const TARGETS: [Target; 5] = [
    Target {
        name: "ARMv6",
        compiler: "arm-linux-gnueabi-gcc",
        flags: &["-march=armv6", "-marm", "-mfpu=vfp", "-mfloat-abi=softfp"],
        qemu: "qemu-arm",
        cpu: Some("arm1176"),
    },
    Target {
        name: "ARMv7",
        compiler: "arm-linux-gnueabihf-gcc",
        flags: &["-march=armv7-a+fp", "-marm"],
        qemu: "qemu-arm",
        cpu: Some("cortex-a15"),
    },
    Target {
        name: "AArch64",
        compiler: "aarch64-linux-gnu-gcc",
        flags: &[],
        qemu: "qemu-aarch64",
        cpu: None,
    },
    Target {
        name: "RISC-V 64",
        compiler: "riscv64-linux-gnu-gcc",
        flags: &[],
        qemu: "qemu-riscv64",
        cpu: None,
    },
    Target {
        name: "x86-64",
        compiler: "x86_64-linux-gnu-gcc",
        flags: &["-mno-avx"],
        qemu: "qemu-x86_64",
        cpu: None,
    },
];

fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success())
}

/// Returns whether QEMU and the plugin are here; else tells that the test is not run.
pub fn can_simulate(qemu: &str) -> bool {
    if !runs(qemu) {
        fathom_skip::skipped!(QemuUser, "no {qemu}: scripts/simulate --setup installs it");
        return false;
    }
    let plugin = Path::new(env!("CARGO_BIN_EXE_fathom")).with_file_name("libfathom_plugin.so");
    if !plugin.is_file() {
        fathom_skip::skipped!(Unchecked, "no {}: scripts/simulate builds it", plugin.display());
        return false;
    }
    true
}

/// Builds a program of `examples/` for a target; `None`, and told, where that is not possible.
pub fn built(user: &User, target: &Target, source: &str, more: &[&str]) -> Option<PathBuf> {
    if !can_simulate(target.qemu) {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(source);
    compiled(user, target, &source, more)
}

pub fn compiled(user: &User, target: &Target, source: &Path, more: &[&str]) -> Option<PathBuf> {
    if !runs(target.compiler) {
        fathom_skip::skipped!(Unchecked, "no {}: scripts/simulate --setup installs it", target.compiler);
        return None;
    }
    let program = user.path("program");
    let mut compiler = Command::new(target.compiler);
    compiler.args(target.flags).args(["-O1", "-g", "-Wall", "-Wextra", "-Werror"]).args(more);
    compiler.arg("-I").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include"));
    let out = compiler.arg(source).arg("-o").arg(&program).output().expect("it starts");
    assert!(out.status.success(), "{}: {}", target.name, String::from_utf8_lossy(&out.stderr));
    Some(program)
}

/// Builds a program of this host from its text.
pub fn of_this_host(user: &User, text: &str) -> Option<PathBuf> {
    let host = &TARGETS[4];
    if !cfg!(target_arch = "x86_64") {
        fathom_skip::skipped!(Unchecked, "this host is no x86-64");
        return None;
    }
    if !can_simulate(host.qemu) {
        return None;
    }
    compiled(user, host, &user.write("program.c", text), &[])
}

/// Runs a simulation and returns its JSON. The program's output is on stderr.
pub fn simulated(user: &User, target: &Target, on: &str, arguments: &[&str]) -> Value {
    simulated_with(user, target, on, &[], arguments)
}

/// The same with options of `fathom simulate`.
pub fn simulated_with(user: &User, target: &Target, on: &str, options: &[&str], arguments: &[&str]) -> Value {
    let cpu: Vec<&str> = target.cpu.iter().flat_map(|cpu| ["--cpu", cpu]).collect();
    let simulate = ["simulate", "--on", on, "--json"];
    let did = user.run(&[&simulate, options, &cpu[..], &["--", "./program"], arguments].concat());
    assert_eq!(did.status, 0, "{}: {did:?}", target.name);
    serde_json::from_str(&did.out).unwrap_or_else(|e| panic!("{e}: {did:?}"))
}

/// Returns the value of a finding.
pub fn value(document: &Value, name: &str) -> f64 {
    let findings = document["findings"].as_array().expect("a list");
    let found = findings.iter().find(|finding| finding["name"] == name);
    found.and_then(|finding| finding["value"].as_f64()).unwrap_or_else(|| panic!("no {name}"))
}

/// Returns the details of the function or line of this name.
pub fn hot<'a>(document: &'a Value, metric: &str, key: &str, name: &str) -> &'a Value {
    let findings = document["findings"].as_array().expect("a list");
    let found = findings.iter().find(|finding| finding["metric"] == metric && finding["detail"][key] == name);
    &found.unwrap_or_else(|| panic!("no {key} {name} in {findings:#?}"))["detail"]
}

/// Returns the misses of a level in the details of a function or line.
pub fn misses(detail: &Value, level: &str) -> u64 {
    listed(detail, "misses", level)
}

/// Returns a number of a list of names and numbers.
pub fn listed(detail: &Value, list: &str, name: &str) -> u64 {
    let all = detail[list].as_array().expect("a list");
    let found = all.iter().find(|pair| pair[0] == name);
    found.and_then(|pair| pair[1].as_u64()).unwrap_or_else(|| panic!("no {name} in {detail}"))
}

pub const FUNCTION: &str = "simulated.function.{rank}.cycles";
const LINE: &str = "simulated.line.{rank}.cycles";
const INSTRUCTION: &str = "simulated.instruction.{rank}.cycles";

/// Returns the place of a text in a source of `examples/`.
pub fn place(file: &str, text: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(file);
    let source = std::fs::read_to_string(path).expect("the source");
    let line = source.lines().position(|line| line.contains(text)).expect("the line");
    format!("{file}:{}", line + 1)
}

/// Returns the place of the load in `stream.c`.
fn read_in_stream() -> String {
    place("stream.c", "sum += from[i];")
}

#[test]
fn misses_and_walks_of_a_function_are_those_of_arithmetic() {
    for target in &TARGETS {
        let user = User::new();
        if built(&user, target, "stream.c", &["-static"]).is_none() {
            continue;
        }
        // 1 MiB: lines of 64 and of 32 bytes, pages of 4 KiB.
        for (machine, lines) in [("bcm2837", 16384), ("bcm2835", 32768)] {
            let document = simulated(&user, target, machine, &[]);
            let stream = hot(&document, LINE, "source", &read_in_stream());
            assert_eq!(misses(stream, "L1D"), lines, "{} on {machine}: {stream}", target.name);
            assert_eq!(stream["accesses"], 32768, "{} on {machine}: {stream}", target.name);
            assert_eq!(stream["walks"], 256, "{} on {machine}: {stream}", target.name);
            if machine == "bcm2837" {
                assert_eq!(misses(stream, "L2"), lines, "{}: {stream}", target.name);
            }
            // One of its instructions reads.
            let findings = document["findings"].as_array().expect("a list");
            let instructions = findings.iter().filter(|f| f["metric"] == INSTRUCTION).map(|f| &f["detail"]);
            let reads: Vec<&Value> = instructions.filter(|f| f["accesses"] == 32768).collect();
            assert_eq!((reads.len(), misses(reads[0], "L1D")), (1, lines), "{}: {reads:?}", target.name);
            assert_eq!(
                (&reads[0]["function"], &reads[0]["source"]),
                (&"stream".into(), &read_in_stream().into())
            );
            // The function has a return address too on x86-64, and may be the first on its page.
            let function = hot(&document, FUNCTION, "function", "stream");
            assert!((lines..=lines + 1).contains(&misses(function, "L1D")), "{}: {function}", target.name);
            let walks = function["walks"].as_u64().expect("a number");
            assert!((256..=258).contains(&walks), "{} on {machine}: {function}", target.name);
            let all = value(&document, "simulated.level.1.misses") as u64;
            assert!((lines..lines + 3000).contains(&all), "{}: {all}", target.name);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_threads_change_nothing() {
    let (user, target) = (User::new(), &TARGETS[2]);
    if built(&user, target, "list.c", &["-static"]).is_none() {
        return;
    }
    let run = |threads: &str| {
        let on = "bcm2835,bcm2837,zen3,am5728";
        let did =
            user.run(&["simulate", "--on", on, "--json", "--threads", threads, "./program", "65536", "2"]);
        assert_eq!(did.status, 0, "{did:?}");
        let mut all: Value = serde_json::from_str(&did.out).expect("JSON");
        assert_eq!(all.as_array().map(Vec::len), Some(4));
        for report in all.as_array_mut().expect("a list") {
            // Only the time of the run and its command differ.
            report["elapsed_s"] = Value::Null;
        }
        all.to_string()
    };
    let one = run("1");
    for threads in ["1", "2", "3", "8"] {
        assert_eq!(
            run(threads).replace(&format!("--threads {threads}"), "--threads 1"),
            one,
            "{threads} threads"
        );
    }
}

#[test]
fn column_of_a_matrix_misses_at_every_step_on_every_instruction_set() {
    for target in &TARGETS {
        let user = User::new();
        if built(&user, target, "matmul.c", &["-static"]).is_none() {
            continue;
        }
        // Four rows of the product, 1024 values each, 1024 steps for each value.
        let steps = 4 << 20;
        let textbook = simulated(&user, target, "bcm2835", &["textbook"]);
        let column = hot(&textbook, LINE, "source", &place("matmul.c", "sum += left * b[k][j];"));
        // Some compilers attribute the load along the row to this line too; the column evicts some of its lines.
        let (accesses, missed) = (column["accesses"].as_u64().expect("a number"), misses(column, "L1D"));
        match accesses == steps {
            true => assert_eq!(missed, steps, "{}: {column}", target.name),
            false => {
                assert_eq!(accesses, 2 * steps, "{}: {column}", target.name);
                assert!((steps..steps + steps / 50).contains(&missed), "{}: {column}", target.name);
            }
        }
        // The column has 1024 pages, many times what the TLBs hold.
        let walks = column["walks"].as_u64().expect("a number");
        assert!((steps..steps + steps / 4).contains(&walks), "{}: {walks} walks", target.name);
        let interchanged = simulated(&user, target, "bcm2835", &["interchanged"]);
        let row = hot(&interchanged, LINE, "source", &place("matmul.c", "c[i][j] += left * b[k][j];"));
        // Loads of c and b, and a store. Of b each line of eight values misses once; the row of c, one of four ways, may be evicted
        // by the rows of b, because the replacement is random.
        assert_eq!(row["accesses"], 3 * steps, "{}: {row}", target.name);
        let lines = steps / 8;
        assert!((lines..2 * lines).contains(&misses(row, "L1D")), "{}: {row}", target.name);
        let cycles = |document: &Value| value(document, "simulated.cycles");
        assert!(cycles(&textbook) > 2.0 * cycles(&interchanged), "{}: the study's claim", target.name);
    }
}

#[test]
fn list_of_study_s4_has_its_events_by_size() {
    let (user, target) = (User::new(), &TARGETS[0]);
    if built(&user, target, "list.c", &["-static"]).is_none() {
        return;
    }
    // Bytes; shares of the loads that miss L1D and that walk; cycles of a load as `fathom latency --on bcm2835` finds them.
    for (bytes, missed, walked, cycles) in [
        (8 << 10, 0.0..0.02, 0.0..0.001, 3.0..3.6),
        (64 << 10, 0.98..1.0, 0.0..0.01, 55.0..55.6),
        (256 << 10, 0.999..1.01, 0.6..0.8, 99.0..100.5),
        (1 << 20, 0.999..1.01, 0.9..0.96, 111.3..112.3),
    ] {
        let document = simulated(&user, target, "bcm2835", &[&bytes.to_string(), "100"]);
        let traverse = hot(&document, FUNCTION, "function", "traverse");
        let loads = bytes / 32 * 100;
        assert_eq!(traverse["accesses"], loads, "{bytes}: {traverse}");
        let share = |events: u64| events as f64 / f64::from(loads);
        assert!(missed.contains(&share(misses(traverse, "L1D"))), "{bytes}: {traverse}");
        assert!(
            walked.contains(&share(traverse["walks"].as_u64().expect("a number"))),
            "{bytes}: {traverse}"
        );
        // The finding is what the loads take beyond the 3 cycles of a hit.
        let findings = document["findings"].as_array().expect("a list");
        let finding = findings.iter().find(|finding| finding["detail"] == *traverse).expect("the finding");
        let each = 3.0 + finding["value"].as_f64().expect("a number") / f64::from(loads);
        assert!(cycles.contains(&each), "{bytes}: {each} cycles");
    }
}

#[test]
fn variants_of_a_machine_answer_one_run() {
    let (user, target) = (User::new(), &TARGETS[2]);
    if built(&user, target, "list.c", &["-static"]).is_none() {
        return;
    }
    let list = ["./program", "262144", "3"];
    let vary = ["--vary", "l2.size=0,128K,1M", "--vary", "L1D.size=32K,512K"];
    let did = user.run(&[&["simulate", "--on", "bcm2837", "--json"], &vary[..], &list].concat());
    let all: Value = serde_json::from_str(did.ended(0)).expect("JSON");
    let all = all.as_array().expect("a list");
    // 8192 lines of 32 bytes in 4096 lines of 64: what holds the list misses it once.
    let expected = [
        (false, None),
        (true, None),
        (false, Some(false)),
        (true, Some(true)),
        (false, Some(true)),
        (true, Some(true)),
    ];
    assert_eq!(all.len(), expected.len());
    for (document, (in_l1, in_l2)) in all.iter().zip(expected) {
        let traverse = hot(document, FUNCTION, "function", "traverse");
        let held = misses(traverse, "L1D") < 200;
        assert_eq!(held, in_l1, "{}: {traverse}", document["subject"]);
        let has_l2 = traverse["misses"].as_array().expect("a list").iter().any(|pair| pair[0] == "L2");
        assert!(in_l2.is_some() || !has_l2, "{traverse}");
        if has_l2 {
            assert_eq!(Some(misses(traverse, "L2") < 200), in_l2, "{}: {traverse}", document["subject"]);
        }
    }
    let run = |vary: &str| user.run(&[&["simulate", "--on", "bcm2837", "--vary", vary], &list[..]].concat());
    run("l3.size=1M").failed(2, &["has no 'l3', but L1D, L1I, L2", "fathom machines bcm2837"]);
    run("l2.size=1000").failed(2, &["l2.size=1000 is no possible machine"]);
    run("l2.size").failed(2, &["no values", "l2.size=0,256K,1M"]);
}

#[test]
fn dynamic_programs_use_their_libraries() {
    for target in &TARGETS[1..] {
        let user = User::new();
        if built(&user, target, "stream.c", &[]).is_none() {
            continue;
        }
        let document = simulated(&user, target, "bcm2837", &[]);
        let stream = hot(&document, LINE, "source", &read_in_stream());
        assert_eq!(misses(stream, "L1D"), 16384, "{}: {stream}", target.name);
    }
}

#[test]
fn program_has_its_streams_and_the_report_follows_on_stderr() {
    let user = User::new();
    let text = "#include <stdio.h>\nint main(int n, char **v) { int c; while ((c = getchar()) != EOF) putchar(c + 1); \
                fprintf(stderr, \"told %s\\n\", v[n - 1]); return n - 2; }\n";
    if of_this_host(&user, text).is_none() {
        return;
    }
    let did = user.run_with(&["simulate", "--on", "bcm2835", "./program", "-x"], b"HAL");
    assert_eq!((did.status, did.out.as_str()), (0, "IBM"), "{}", did.err);
    assert!(did.err.starts_with("told -x\n") && did.err.contains("program on bcm2835"), "{}", did.err);
    // Its own status is told, and is not fathom's.
    let did = user.run_with(&["simulate", "--on", "bcm2835", "./program", "-x", "-y"], b"");
    assert_eq!(did.status, 1, "{}", did.err);
    assert!(did.err.contains("exit status: 1") && did.err.contains("program-failed"), "{}", did.err);
    let did = user.run_with(&["simulate", "--on", "bcm2835", "--json", "./program", "-x"], b"HAL");
    assert!(did.err.contains("IBM") && did.out.starts_with('{'), "{did:?}");
}

#[test]
fn conditions_give_status_four_and_unknown_levels_are_told_before_the_program_runs() {
    let user = User::new();
    if of_this_host(&user, "#include <stdio.h>\nint main(void) { puts(\"ran\"); return 0; }\n").is_none() {
        return;
    }
    let run = |condition: &str| {
        user.run(&["simulate", "--on", "bcm2837,bcm2835", "--fail-if", condition, "./program"])
    };
    let did = run("misses.L1D > 0.01%");
    assert_eq!((did.status, did.out.as_str()), (4, "ran\n"), "{}", did.err);
    assert_eq!(did.err.matches("'misses.L1D > 0.01%' holds on bcm283").count(), 2, "{}", did.err);
    assert_eq!(run("misses.L1D > 99%").status, 0);
    run("misses.L2 > 1").failed(2, &["no 'L2', but L1D, L1I", "(bcm2835)"]);
    run("rumours > 1").failed(2, &["this is not counted"]);
}

#[test]
fn records_are_kept_reported_again_and_compared() {
    let (user, target) = (User::new(), &TARGETS[2]);
    if built(&user, target, "stream.c", &["-static"]).is_none() {
        return;
    }
    let run = |arguments: &[&str]| user.run(&[&["simulate"], arguments, &["./program"]].concat());
    let did = run(&["--on", "bcm2835,bcm2837", "-o", "r.fathom", "--html", "page.html"]);
    assert_eq!(did.status, 0, "{did:?}");
    assert!(did.err.contains("Next: fathom report r.bcm2835.fathom r.bcm2837.fathom"), "{}", did.err);
    let again = user.run(&["report", "r.bcm2837.fathom"]);
    assert!(again.ended(0).contains("stream"), "{again:?}");
    assert!(user.read("page.html").contains("bcm2835"));
    let files = ["r.bcm2835.fathom", "r.bcm2837.fathom"];
    let both = user.run(&["report", files[0], files[1], "--html", "both.html"]);
    let text = both.ended(0);
    assert!(text.contains("Simulations, side by side") && text.contains("program on bcm2837"), "{text}");
    assert!(text.find("side by side") < text.find("==> r.bcm2835.fathom <=="), "{text}");
    crate::common::fits(text);
    // The figure of both is that of the run, with the names of the records.
    let chart = |page: &str| {
        let text = user.read(page);
        let from = text.find("\"together\": [{").unwrap_or_else(|| panic!("{page}"));
        text[from..].split("\"changes\"").next().expect("a part").to_owned()
    };
    let renamed = ["bcm2835", "bcm2837"].into_iter().zip(files);
    let expected = renamed.fold(chart("page.html"), |text, (machine, file)| {
        text.replace(&format!("\"{machine}\""), &format!("\"{file}\""))
    });
    assert_eq!(chart("both.html"), expected);
    // Of a page that has both, too; other records as before.
    assert!(user.run(&["report", "both.html"]).ended(0).contains("Simulations, side by side"));
    let latency =
        ["latency", "--on", "bcm2835", "--bytes", "16K", "--budget", "1s", "--record", "latency.fathom"];
    assert_eq!(user.run(&latency).status, 0);
    let mixed = user.run(&["report", files[0], "latency.fathom"]);
    assert!(!mixed.out.contains("Simulations") && mixed.out.contains("==> latency.fathom <=="), "{mixed:?}");
    run(&["--on", "bcm2835,bcm2837", "-o", "r.fathom"]).failed(2, &["r.bcm2835.fathom", "--force"]);
    let compared = user.run(&["compare", "r.bcm2835.fathom", "r.bcm2837.fathom"]);
    assert!(compared.ended(0).contains("level.1.misses"), "{compared:?}");
}

#[test]
fn programs_that_cannot_be_simulated_are_refused_with_the_remedy() {
    let user = User::new();
    user.write("script", "#!/bin/sh\ntrue\n");
    user.write("text", "nothing\n");
    let run = |arguments: &[&str]| user.run(&[&["simulate", "--on", "bcm2835"], arguments].concat());
    run(&["./script"]).failed(2, &["this is a script", "name the interpreter"]);
    run(&["./text"]).failed(2, &["not an ELF file"]);
    run(&["./nothing"]).failed(2, &["no such file"]);
    run(&["text"]).failed(2, &["./text"]);
    user.run(&["simulate", "./text"]).failed(2, &["no machine is named", "--on", "fathom survey"]);
    user.run(&["simulate", "--on", "bcm2387", "./text"]).failed(2, &["did you mean"]);
    let own = env!("CARGO_BIN_EXE_fathom");
    let without = |name: &str, value: &str| {
        let mut command = user.command(&["simulate", "--on", "bcm2835", own]);
        wait(command.env(name, value).spawn().expect("it starts"))
    };
    without("PATH", "/nowhere").failed(1, &["qemu-", "qemu-user", "scripts/simulate --setup"]);
    if runs("qemu-x86_64") && cfg!(target_arch = "x86_64") {
        without("FATHOM_PLUGIN", "/nowhere/plugin.so").failed(2, &["/nowhere/plugin.so", "scripts/simulate"]);
    }
}

#[test]
fn interrupted_simulation_keeps_its_counts_and_leaves_no_process() {
    let text = "#include <stdio.h>\n#include <unistd.h>\nstatic volatile long a[4096];\nint main(void) { if (!fork()) for (;;) \
                pause(); puts(\"started\"); fflush(stdout); for (long i = 0;; i++) a[i & 4095]++; }\n";
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let user = User::new();
        if of_this_host(&user, text).is_none() {
            return;
        }
        let child = user.spawn(&["simulate", "--on", "bcm2835", "-o", "r.fathom", "./program"]);
        let pid = child.id();
        // fathom, QEMU, and the program's child.
        user.wait(crate::common::SOON, |all| all.len() >= 3);
        std::thread::sleep(Duration::from_millis(500));
        let since = Instant::now();
        kill(pid, signal);
        let did: Did = wait(child);
        user.nothing_left(since);
        if signal == Signal::KILL {
            continue;
        }
        assert_eq!(did.status, 128 + signal.as_raw(), "{did:?}");
        assert!(did.out == "started\n" && did.err.contains("interrupted"), "{did:?}");
        let again = user.run(&["report", "r.fathom"]);
        assert!(again.ended(3).contains("program on bcm2835"), "{again:?}");
    }
}
