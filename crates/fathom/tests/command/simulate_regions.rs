//! Regions that a program marks with `fathom.h`: counts that are known by arithmetic.

use std::path::Path;

use serde_json::Value;

use crate::common::User;
use crate::rust_programs::built_with_rustc;
use crate::simulate::{TARGETS, Target, built, compiled, hot, listed, misses, simulated, value};

const REGION: &str = "simulated.region.{rank}.cycles";

fn regions(document: &Value) -> Vec<&Value> {
    let findings = document["findings"].as_array().expect("a list");
    findings.iter().filter(|finding| finding["metric"] == REGION).collect()
}

fn region<'a>(document: &'a Value, name: &str) -> &'a Value {
    hot(document, REGION, "region", name)
}

fn number(of: &Value, field: &str) -> u64 {
    of[field].as_u64().unwrap_or_else(|| panic!("{field} in {of}"))
}

/// Compiles a program that includes `fathom.h`.
fn marked(user: &User, target: &Target, text: &str) -> bool {
    crate::simulate::can_simulate(target.qemu)
        && compiled(user, target, &user.write("program.c", text), &["-static", "-pthread"]).is_some()
}

/// Text of a shared library with the region `name`, in which `function` calls another function.
fn library(name: &str, function: &str) -> String {
    format!(
        "#include <fathom.h>\nvoid {function}(void (*of)(void)) {{ FATHOM_BEGIN({name}); of(); FATHOM_END({name}); }}\n"
    )
}

/// Builds a library, as `libNAME.so`.
fn built_library(user: &User, target: &Target, name: &str, text: &str) -> bool {
    let source = user.write(&format!("{name}.c"), text);
    let built = compiled(user, target, &source, &["-shared", "-fPIC"]);
    built.is_some_and(|file| {
        std::fs::rename(file, user.path(&format!("lib{name}.so"))).expect("a library");
        true
    })
}

/// Libraries that are loaded late, with the program's only marks: what they call has been executed before, and its instructions
/// count all the same. The second one is loaded where the first one was. A library of the program itself has marks that are known
/// before all that: the same counts.
#[test]
fn regions_of_libraries_count_however_they_are_loaded() {
    let text = "#include <dlfcn.h>\n#include <stdlib.h>\ntypedef void caller(void (*)(void));\nvoid needed(void (*)(void));\n\
                static volatile int words[1024];\n\
                static void work(void) { for (int n = 0; n < 1024; n++) words[n] = n; }\n\
                static void load(const char *name, int calls) { void *of = dlopen(name, RTLD_NOW); if (!of) abort();\n\
                caller *call = (caller *)dlsym(of, \"call\"); for (int n = 0; n < calls; n++) call(work); dlclose(of); }\n\
                int main(void) { work();\n#ifdef NEEDED\nneeded(work);\n#endif\n\
                load(\"./libone.so\", 2); load(\"./libtwo.so\", 3); load(\"./libone.so\", 1); return 0; }\n";
    for target in &TARGETS {
        let user = User::new();
        let two = format!("int pad(int n) {{ return n * 3; }}\n{}", library("two", "call"));
        let libraries =
            [("one", library("one", "call")), ("two", two), ("needed", library("needed", "needed"))];
        if !crate::simulate::can_simulate(target.qemu)
            || !libraries.iter().all(|(name, text)| built_library(&user, target, name, text))
        {
            continue;
        }
        let source = user.write("program.c", text);
        compiled(&user, target, &source, &["-ldl"]).expect("the compiler is here");
        let late = simulated(&user, target, "bcm2837", &[]);
        let here = format!("-L{}", user.home.path().display());
        let options = ["-DNEEDED", &here, "-Wl,--no-as-needed", "-lneeded", "-Wl,-rpath,$ORIGIN", "-ldl"];
        compiled(&user, target, &source, &options).expect("the compiler is here");
        let early = simulated(&user, target, "bcm2837", &[]);
        let executed = number(region(&early, "needed"), "executed");
        assert!(executed > 3 * 1024, "{}: {executed}", target.name);
        for (document, name, calls) in [
            (&early, "needed", 1),
            (&early, "one", 3),
            (&early, "two", 3),
            (&late, "one", 3),
            (&late, "two", 3),
        ] {
            let of = region(document, name);
            assert_eq!(number(of, "entered"), calls, "{}: {of}", target.name);
            assert!(of.get("unmatched").is_none(), "{}: {of}", target.name);
            assert_eq!(number(of, "accesses") / 1024, calls, "{}: {of}", target.name);
            assert_eq!(number(of, "executed"), executed * calls, "{}: {of}", target.name);
        }
        assert_eq!(regions(&late).len(), 2, "{}", target.name);
        if target.cpu.is_none() {
            let condition =
                ["simulate", "--on", "bcm2837", "--fail-if", "nowhere:walks > 1", "--", "./program"];
            user.run(&condition).failed(2, &["entered no region 'nowhere'; it entered", "two"]);
        }
    }
}

#[test]
fn too_many_regions_are_refused() {
    let user = User::new();
    let marks: String = (0..=1024).map(|n| format!("FATHOM_BEGIN(r{n}); FATHOM_END(r{n});\n")).collect();
    let text = format!("#include <fathom.h>\nint main(void) {{ {marks} return 0; }}\n");
    if marked(&user, &TARGETS[2], &text) {
        let did = user.run(&["simulate", "--on", "bcm2837", "--", "./program"]);
        did.failed(1, &["mark more than 1024 regions"]);
    }
}

/// Two passes over an array of 1 MiB: along its rows, each line of 64 bytes misses once; down 16 columns, each of 256 words
/// is on another line and page. 32-bit ARM may have addresses of what it needs in its code, and loads them.
#[test]
fn counts_between_marks_are_those_of_arithmetic() {
    for target in &TARGETS {
        let user = User::new();
        if built(&user, target, "regions.c", &["-static", "-DFATHOM_MARKS_ONLY"]).is_none() {
            continue;
        }
        let document = simulated(&user, target, "bcm2837", &[]);
        let [rows, columns, both] = ["rows", "columns", "both"].map(|name| region(&document, name));
        let constants = if target.qemu == "qemu-arm" { 0..=8 } else { 0..=0 };
        let about = |of: &Value, field: &str, exact: u64| {
            let more = number(of, field).checked_sub(exact);
            assert!(more.is_some_and(|more| constants.contains(&more)), "{}: {field} in {of}", target.name);
        };
        about(rows, "accesses", 65_536);
        about(columns, "accesses", 4096);
        about(both, "accesses", 65_536 + 4096);
        assert_eq!([rows, columns, both].map(|of| number(of, "entered")), [4, 1, 1], "{}", target.name);
        for (of, exact) in [(rows, 16_384), (columns, 4096), (both, 20_480)] {
            let more = misses(of, "L1D") - exact;
            assert!(constants.contains(&more), "{}: {of}", target.name);
            assert_eq!(listed(of, "reached", "L1D"), number(of, "accesses"), "{}: {of}", target.name);
        }
        assert!((256..=258).contains(&number(rows, "walks")), "{}: {rows}", target.name);
        let parts = number(rows, "executed") + number(columns, "executed");
        let whole = number(both, "executed");
        assert!(parts < whole && whole < parts + 200, "{}: {parts} of {whole}", target.name);
        assert!(whole < value(&document, "simulated.instructions") as u64);
    }
}

/// The instructions between two marks, one by one. The tests of the flag, which marks have beside, are in the regions around.
#[test]
fn instructions_between_marks_are_exact_within_a_block_too() {
    for target in &TARGETS {
        let user = User::new();
        let text = "#include <fathom.h>\n#define NOPS(n) __asm__ volatile(\".rept \" #n \"\\n nop\\n .endr\")\n\
                    int main(void) { NOPS(5); FATHOM_BEGIN(a); NOPS(7); FATHOM_BEGIN(b); NOPS(11); FATHOM_END(a); NOPS(3); \
                    FATHOM_END(b); NOPS(2); return 0; }\n";
        if !marked(&user, target, &format!("#define FATHOM_MARKS_ONLY\n{text}")) {
            continue;
        }
        let executed = || {
            let document = simulated(&user, target, "bcm2837", &[]);
            ["a", "b"].map(|name| number(region(&document, name), "executed"))
        };
        // The mark that begins a region is its first instruction.
        let exact = [1 + 7 + 1 + 11, 1 + 11 + 1 + 3];
        assert_eq!(executed(), exact, "{}", target.name);
        assert!(marked(&user, target, text));
        let more = [0, 1].map(|at| executed()[at] - exact[at]);
        assert!(more.iter().all(|more| (1..=8).contains(more)), "{}: {more:?}", target.name);
    }
}

#[test]
fn regions_of_threads_add_up_and_what_does_not_match_is_told() {
    let target = &TARGETS[2];
    let user = User::new();
    let text = "#include <fathom.h>\n#include <pthread.h>\nstatic volatile int words[2][1024];\n\
                static void *work(void *of) { volatile int *at = of; FATHOM_BEGIN(work);\n\
                for (int n = 0; n < 1024; n++) { at[n] = n; }\n\
                FATHOM_END(work); FATHOM_BEGIN(open); return 0; }\n\
                int main(void) { pthread_t threads[2]; FATHOM_END(shut);\n\
                for (int n = 0; n < 2; n++) { pthread_create(threads + n, 0, work, (void *)words[n]); }\n\
                for (int n = 0; n < 2; n++) { pthread_join(threads[n], 0); }\n\
                return 0; }\n";
    if !marked(&user, target, text) {
        return;
    }
    let document = simulated(&user, target, "bcm2837", &[]);
    let work = region(&document, "work");
    assert_eq!((number(work, "entered"), number(work, "accesses")), (2, 2048), "{work}");
    assert!(work.get("unmatched").is_none(), "{work}");
    assert_eq!(number(region(&document, "open"), "unmatched"), 2);
    assert_eq!(number(region(&document, "shut"), "unmatched"), 1);
    let warnings = document["warnings"].to_string();
    assert!(warnings.contains("open (2 times), shut (1 times)"), "{warnings}");
}

/// A run, its trace, several machines on several threads and a run that the program ends by a signal agree.
#[test]
fn regions_of_a_trace_and_of_a_killed_program_are_those_of_a_run() {
    let target = &TARGETS[2];
    let user = User::new();
    let text = "#include <fathom.h>\n#include <stdlib.h>\nstatic volatile int words[1024] __attribute__((aligned(4096)));\n\
                int main(int count, char **of) { (void)of; for (int n = 0; n < 100; n++) { FATHOM_BEGIN(odd name);\n\
                for (int i = 0; i < 1024; i++) { words[i] += i; }\n\
                FATHOM_END(odd name); }\n\
                FATHOM_BEGIN(last); if (count > 1) abort(); FATHOM_END(last); return 0; }\n";
    if !marked(&user, target, text) {
        return;
    }
    let run = |arguments: &[&str]| {
        let did = user.run(&[&["simulate", "--json"], arguments].concat());
        serde_json::from_str::<Value>(&did.out).unwrap_or_else(|e| panic!("{e}: {did:?}"))
    };
    let whole = run(&["--on", "bcm2835", "--keep-trace", "kept.trace", "--", "./program"]);
    let replayed = run(&["--on", "bcm2835,am5728", "--threads", "2", "--trace", "kept.trace"]);
    assert_eq!(regions(&whole), regions(&replayed[0]));
    assert_eq!(regions(&whole).len(), 2);
    let odd = region(&whole, "odd name");
    assert_eq!((number(odd, "entered"), number(odd, "accesses")), (100, 204_800), "{odd}");
    // Least recently used lines are replaced there.
    let odd_there = region(&replayed[1], "odd name");
    assert_eq!(misses(odd_there, "L1D"), 4096 / 64, "{odd_there}");
    let why = run(&["--on", "bcm2835", "--why", "--", "./program"]);
    assert_eq!(regions(&whole), regions(&why));
    let killed = run(&["--on", "bcm2835", "--", "./program", "abort"]);
    assert_eq!(number(region(&killed, "odd name"), "executed"), number(odd, "executed"));
    let last = region(&killed, "last");
    assert!(number(last, "executed") > 20 && number(last, "unmatched") == 1, "{last}");
    let report = user.run(&["simulate", "--on", "bcm2835", "--trace", "kept.trace"]);
    assert!(report.out.contains("Regions, with those within them, by time"), "{}", report.out);
    crate::common::fits(&report.out);
}

/// 65,536 loads of which each fourth misses.
#[test]
fn conditions_can_be_about_a_region() {
    let (user, target) = (User::new(), &TARGETS[2]);
    if built(&user, target, "regions.c", &["-static"]).is_none() {
        return;
    }
    let run = |condition: &str, source: &[&str]| {
        user.run(&[&["simulate", "--on", "bcm2837", "--fail-if", condition], source].concat())
    };
    let program = ["--keep-trace", "kept.trace", "--", "./program"];
    let did = run("rows:misses.L1D > 24.9%", &program);
    assert_eq!(did.status, 4, "{did:?}");
    assert!(did.err.contains("'rows:misses.L1D > 24.9%' holds on bcm2837: it is 25"), "{did:?}");
    let kept = ["--trace", "kept.trace"];
    for (condition, status) in [
        ("rows:misses.L1D > 25.1%", 0),
        ("rows:misses.L1D > 16383", 4),
        ("columns:misses.L1D < 99%", 0),
        ("both:walks < 100", 0),
        ("columns:instructions > 4096", 4),
    ] {
        assert_eq!(run(condition, &kept).status, status, "{condition}");
    }
    run("none:walks > 1", &["--", "./program"]).failed(2, &["marks no region 'none'", "both, columns, rows"]);
    // The regions of a trace are known at its end.
    let late = run("none:walks > 1", &kept);
    assert_eq!(late.status, 2, "{late:?}");
    assert!(late.err.contains("entered no region 'none'; it entered both, rows, columns"), "{late:?}");
    run("rows:misses.main-TLB > 1", &["--", "./program"]).failed(2, &["counts no 'main-TLB', but L1D"]);
    run("rows:writebacks.L1D > 1", &kept).failed(2, &["writebacks are not counted by region"]);
}

/// The crate for Rust: the same counts as of `examples/regions.c`, and each way out of a function ends its region. Linked by
/// LLVM's linker, whose segments share pages of the file.
#[test]
fn crate_for_rust_marks_the_same_regions() {
    let lld: &[&str] = &["-Clinker=rust-lld"];
    let host = (&TARGETS[4], "x86_64-unknown-linux-gnu", &[][..]);
    for (target, triple, linker) in [host, (&TARGETS[2], "aarch64-unknown-linux-musl", lld)] {
        let user = User::new();
        let here = target.name != "x86-64" || cfg!(all(target_arch = "x86_64", target_env = "gnu"));
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mark/examples/regions.rs");
        if !here
            || !crate::simulate::can_simulate(target.qemu)
            || !built_with_rustc([user.home.path(), &example], "program", triple, linker, &[])
        {
            continue;
        }
        let document = simulated(&user, target, "bcm2837", &[]);
        for (name, entered) in [("rows", 4), ("columns", 1), ("both", 1), ("checked", 4)] {
            let found = region(&document, name);
            assert_eq!(number(found, "entered"), entered, "{triple}: {found}");
            assert!(found.get("unmatched").is_none(), "{triple}: {found}");
        }
        for (name, loads, lines) in [("rows", 65_536, 16_384), ("columns", 4096, 4096)] {
            let found = region(&document, name);
            let more = [(number(found, "accesses"), loads), (misses(found, "L1D"), lines)];
            let more = more.map(|(counted, exact)| counted.checked_sub(exact));
            assert!(more.iter().all(|more| more.is_some_and(|more| more <= 8)), "{triple}: {found}");
        }
    }
}

/// The header is one of C++, too, in functions of which the linker keeps one copy.
#[test]
fn header_can_be_included_by_cpp() {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let user = User::new();
    let text = "#include <fathom.h>\ntemplate <class T> int sum(T of) { FATHOM_BEGIN(sum); of += 1; FATHOM_END(sum); return of; }\n\
                int main() { return sum(1) + sum(2L) - 5; }\n";
    let source = user.write("program.cpp", text);
    let mut compiler = std::process::Command::new("g++");
    compiler.args(["-O1", "-static", "-Wall", "-Wextra", "-Werror", "-I"]).arg(header).arg(source);
    let Ok(out) = compiler.arg("-o").arg(user.path("program")).output() else {
        fathom_skip::skipped!(Unchecked, "no g++");
        return;
    };
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let host = &TARGETS[4];
    if cfg!(target_arch = "x86_64") && crate::simulate::can_simulate(host.qemu) {
        let document = simulated(&user, host, "bcm2837", &[]);
        assert_eq!(number(region(&document, "sum"), "entered"), 2);
    }
}
