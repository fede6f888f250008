//! Regions of a counted program: what is known by arithmetic comes back, and whatever the program does, it is told.

use std::path::{Path, PathBuf};
use std::process::Command;

use fathom_experiment::record::{ProgramMarks, ProgramRegion, Record};
use serde_json::Value;

use crate::common::User;

/// Builds a program for this host as `name`; `None`, and told, without a compiler.
fn built(user: &User, name: &str, source: &Path, options: &[&str]) -> Option<PathBuf> {
    let program = user.path(name);
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]);
    compiler.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include"));
    let Ok(out) = compiler.arg(source).args(options).arg("-o").arg(&program).output() else {
        fathom_skip::skipped!(Unchecked, "no gcc");
        return None;
    };
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Some(program)
}

fn marked(user: &User, options: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/marked.c");
    built(user, "marked", &source, options)
}

/// Counts with these arguments. Returns the report and the record.
pub fn counted(user: &User, arguments: &[&str]) -> (Value, Record) {
    let did = user.run(&[&["count", "--json", "--record", "kept.fathom", "--force"], arguments].concat());
    let document = serde_json::from_str(&did.out).unwrap_or_else(|e| panic!("{e}: {did:?}"));
    let record = fathom_experiment::record::file::read(&user.read("kept.fathom")).expect("a record");
    assert_eq!(record.problems, Vec::<String>::new());
    (document, record)
}

/// Returns what the marks of the runs have counted.
pub fn marks(record: &Record) -> Vec<&ProgramMarks> {
    record.program.iter().flat_map(|program| &program.runs).filter_map(|run| run.marks.as_ref()).collect()
}

pub fn region<'a>(marks: &'a ProgramMarks, name: &str) -> &'a ProgramRegion {
    let found = marks.regions.iter().find(|region| region.name == name);
    found.unwrap_or_else(|| panic!("no {name}: {marks:?}"))
}

/// Returns the page faults of a region in each run that counted them; none, and told, if nobody may count them here.
pub fn faults(record: &Record, name: &str) -> Vec<u64> {
    let program = record.program.as_ref().expect("a program");
    let of = |set: usize| program.sets[set].iter().position(|event| event == "page-faults");
    let all = program.runs.iter().filter_map(|run| {
        let at = run.set.and_then(of)?;
        Some(region(run.marks.as_ref()?, name).counts[at])
    });
    let all: Vec<u64> = all.collect();
    if all.is_empty() {
        fathom_skip::skipped!(Unchecked, "perf_event_open is not permitted here");
    }
    all
}

pub fn value(document: &Value, metric: &str, name: &str) -> f64 {
    let findings = document["findings"].as_array().expect("findings");
    let found = findings.iter().find(|f| f["metric"] == metric && f["detail"]["region"] == name);
    found.and_then(|f| f["value"].as_f64()).unwrap_or_else(|| panic!("no {metric} of {name}: {document}"))
}

/// Each page that is touched between the marks is a fault there, in each run, and no other is.
#[test]
fn faults_between_marks_are_those_of_arithmetic() {
    for options in [&["-static"][..], &[]] {
        let user = User::new();
        if marked(&user, options).is_none() {
            return;
        }
        let (document, record) = counted(&user, &["--regions", "--runs", "3", "--", "./marked"]);
        assert!(marks(&record).len() >= 3, "{record:?}");
        for marks in marks(&record) {
            assert_eq!((marks.attached, marks.threads, marks.pairs[0]), (1, 1, 64), "{marks:?}");
            assert!(marks.pairs[1] > 0 && region(marks, "").entered == 64, "{marks:?}");
            let entered = ["touch", "spin", "recursive"].map(|name| region(marks, name).entered);
            assert_eq!(entered, [2, 1, 1], "{marks:?}");
            assert!(marks.regions.iter().all(|region| region.unmatched == 0 && region.ns > 0), "{marks:?}");
        }
        // The loop's code may be on a page that was not there yet.
        assert!(faults(&record, "touch").iter().all(|faults| (520..=521).contains(faults)), "{record:?}");
        assert!(faults(&record, "spin").iter().all(|faults| *faults <= 1), "{record:?}");
        assert_eq!(value(&document, "program.region.{region}.entered", "touch"), 2.0);
        assert!(value(&document, "program.region.{region}.time", "spin") > 0.0);
        let again = user.run(&["report", "kept.fathom"]);
        for text in ["Regions, with what they call", "recursive", "What a pair of marks adds"] {
            assert!(again.out.contains(text), "{}", again.out);
        }
        crate::common::fits(&again.out);
        // Others are not counted.
        let (_, record) = counted(&user, &["--region", "spin", "--once", "--", "./marked"]);
        let all: Vec<&str> = marks(&record)[0].regions.iter().map(|region| region.name.as_str()).collect();
        assert_eq!(all, ["", "spin"]);
    }
}

/// Threads, which end and leave their place to others, and processes have counters of their own.
#[test]
fn threads_and_forked_processes_add_up() {
    let user = User::new();
    if marked(&user, &[]).is_none() {
        return;
    }
    let (_, record) = counted(&user, &["--regions", "--once", "--", "./marked", "threads"]);
    let all = marks(&record);
    assert_eq!(region(all[0], "touch").entered, 100, "{all:?}");
    assert!(all[0].threads < 20 && all[0].uncounted == 0, "{all:?}");
    assert!(faults(&record, "touch").iter().all(|faults| (10_000..=10_002).contains(faults)), "{all:?}");
    let (_, record) = counted(&user, &["--regions", "--once", "--", "./marked", "fork"]);
    let all = marks(&record);
    assert_eq!(region(all[0], "touch").entered, 5, "{all:?}");
    assert!((2..=4).contains(&all[0].threads) && all[0].uncounted == 0, "{all:?}");
    // The child's first page of its own stack is one.
    assert!(faults(&record, "touch").iter().all(|faults| (1020..=1025).contains(faults)), "{all:?}");
    // The shell passes on what it does not know.
    let (_, record) = counted(&user, &["--regions", "--once", "--", "sh", "-c", "./marked; ./marked"]);
    assert_eq!((region(marks(&record)[0], "touch").entered, marks(&record)[0].attached), (4, 2));
}

#[test]
fn what_does_not_match_is_told_and_a_killed_program_keeps_its_counts() {
    let user = User::new();
    if marked(&user, &[]).is_none() {
        return;
    }
    let (document, _) = counted(&user, &["--regions", "--once", "--", "./marked", "unmatched"]);
    let warnings = document["warnings"].to_string();
    assert!(warnings.contains("marks-unmatched"), "{warnings}");
    assert!(warnings.contains("jumped (1 times), open (10 times), shut (1 times)"), "{warnings}");
    assert_eq!(value(&document, "program.region.{region}.entered", "touch"), 1.0);
    let (document, record) = counted(&user, &["--regions", "--once", "--", "./marked", "killed"]);
    assert_eq!(region(marks(&record)[0], "touch").entered, 1);
    assert!(faults(&record, "touch").iter().all(|faults| (500..=501).contains(faults)));
    let warnings = document["warnings"].to_string();
    assert!(warnings.contains("cut (1 times)") && warnings.contains("SIGKILL"), "{warnings}");
}

/// A mark in the handler of a signal counts, or is told as lost if it came during another one.
#[test]
fn marks_in_handlers_of_signals_are_counted_or_told() {
    let user = User::new();
    if marked(&user, &[]).is_none() {
        return;
    }
    let did =
        user.run(&["count", "--regions", "--once", "--record", "kept.fathom", "--", "./marked", "handlers"]);
    let ticks: u64 = did.out.trim().parse().unwrap_or_else(|e| panic!("{e}: {did:?}"));
    let record = fathom_experiment::record::file::read(&user.read("kept.fathom")).expect("a record");
    let all = marks(&record)[0];
    assert_eq!(2 * region(all, "tick").entered + all.lost, 2 * ticks, "{all:?}");
    assert!(all.lost > 0 && region(all, "tick").unmatched == 0, "{all:?}");
    assert!(did.err.contains("marks-lost"), "{}", did.err);
}

#[test]
fn memory_that_the_program_overwrites_counts_nothing() {
    let user = User::new();
    if marked(&user, &[]).is_none() {
        return;
    }
    let (document, record) = counted(&user, &["--regions", "--once", "--", "./marked", "hostile"]);
    assert!(marks(&record)[0].damaged && marks(&record)[0].regions.is_empty());
    assert!(document["warnings"].to_string().contains("marks-lost"), "{document}");
    assert!(document["refusals"].to_string().contains("wrote into the memory"), "{document}");
    assert!(!document["findings"].to_string().contains("program.region"), "{document}");
}

/// A program that closes all files and opens its own: marks neither read nor write these.
#[test]
fn files_of_the_program_are_left_alone() {
    let user = User::new();
    if marked(&user, &[]).is_none() {
        return;
    }
    let text = "data".repeat(1 << 18);
    user.write("data", &text);
    let (document, record) = counted(&user, &["--regions", "--once", "--", "./marked", "closes"]);
    assert_eq!(user.read("data"), text);
    // Threads that begin later have no part in the memory.
    let all = marks(&record)[0];
    assert_eq!((region(all, "touch").entered, all.uncounted), (2, 2), "{all:?}");
    assert!(faults(&record, "touch").iter().all(|faults| (520..=521).contains(faults)), "{all:?}");
    assert!(document["warnings"].to_string().contains("2 threads had no counters"), "{document}");
    assert!(!document["warnings"].to_string().contains("program-failed"), "{document}");
}

/// Variables of an earlier run, or of somebody who plays.
#[test]
fn program_with_a_wrong_variable_runs_as_without_it() {
    let user = User::new();
    let Some(program) = marked(&user, &[]) else { return };
    let page = user.write("page", &"x".repeat(1 << 20));
    for value in
        ["", "0", "0:0", ":", "7:zz", "99999999999:1", "-1:1", "3:7878787878787878", "2:ffffffffffffffffff"]
    {
        let file = std::fs::File::open(&page).expect("a file");
        let did =
            Command::new(&program).env("FATHOM_REGIONS", value).stdin(file).output().expect("it starts");
        assert!(did.status.success(), "{value}: {did:?}");
    }
    assert!(user.read("page").bytes().all(|byte| byte == b'x'));
}

#[test]
fn programs_without_marks_that_count_are_refused() {
    let user = User::new();
    let plain = user.write("plain.c", "int main(void) { return 0; }\n");
    if built(&user, "plain", &plain, &["-static"]).is_none() {
        return;
    }
    let count = |arguments: &[&str]| user.run(&[&["count"], arguments].concat());
    count(&["--regions", "--", "./plain"]).failed(2, &["marks no regions", "include/fathom.h"]);
    marked(&user, &["-static", "-DFATHOM_MARKS_ONLY"]).expect("gcc is here");
    count(&["--regions", "--", "./marked"]).failed(2, &["for fathom simulate only", "FATHOM_MARKS_ONLY"]);
    marked(&user, &["-static"]).expect("gcc is here");
    count(&["--region", "none", "--", "./marked"]).failed(2, &["marks no region 'none'", "recursive"]);
    // Only a run tells what libraries have, and it is the only one.
    let did = count(&["--regions", "--", "echo", "once"]);
    assert_eq!((did.status, did.out.as_str()), (1, "once\n"), "{did:?}");
    assert!(
        did.err.contains("neither echo nor a library") && did.err.contains("include/fathom.h"),
        "{did:?}"
    );
    marked(&user, &[]).expect("gcc is here");
    let did = count(&["--region", "none", "--region", "spin", "--once", "--", "./marked"]);
    assert!(did.err.contains("region none: the program did not enter it"), "{did:?}");
    let long = "x".repeat(64);
    for wrong in [&["--region", long.as_str()][..], &["--region", ""], &["--regions", "--every", "1s"]] {
        count(&[wrong, &["--", "./marked"]].concat()).failed(2, &["--region"]);
    }
    count(&["--regions", "--pid", "1"]).failed(2, &["--regions"]);
}

/// A region that a library enters again within the program's is one entry. A library that is loaded later counts by itself.
#[test]
fn marks_of_libraries_count_with_those_of_the_program() {
    let user = User::new();
    let text = "#include <fathom.h>\nvoid call(void (*)(void));\n\
                void call(void (*of)(void)) { FATHOM_BEGIN(shared); of(); FATHOM_END(shared); }\n";
    let source = user.write("one.c", text);
    if built(&user, "libone.so", &source, &["-shared", "-fPIC"]).is_none() {
        return;
    }
    std::fs::copy(user.path("libone.so"), user.path("libtwo.so")).expect("a library");
    let text = "#include <dlfcn.h>\n#include <fathom.h>\nvoid call(void (*)(void));\nstatic void nothing(void) {}\n\
                int main(void) { FATHOM_BEGIN(shared); call(nothing); FATHOM_END(shared); call(nothing);\n\
                void *late = dlopen(\"./libtwo.so\", RTLD_NOW | RTLD_LOCAL); if (!late) return 1;\n\
                ((void (*)(void (*)(void)))dlsym(late, \"call\"))(nothing); return dlclose(late); }\n";
    let source = user.write("program.c", text);
    let here = format!("-L{}", user.home.path().display());
    built(&user, "program", &source, &[&here, "-lone", "-Wl,-rpath,$ORIGIN", "-ldl"]).expect("gcc is here");
    let (_, record) = counted(&user, &["--regions", "--runs", "1", "--", "./program"]);
    for marks in marks(&record) {
        assert_eq!(region(marks, "shared").entered, 3, "{marks:?}");
    }
}
