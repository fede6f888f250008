//! Regions that a program in Rust marks: what is known by arithmetic comes back, as of `include/fathom.h`.

use std::path::Path;

use crate::common::User;
use crate::count_regions::{counted, faults, marks, region, value};
use crate::rust_programs::{COUNT, built_with_rustc};

/// Builds the program as `program`, whose marks count. Returns whether this machine can.
fn built(user: &User, features: &[&str]) -> bool {
    let triple = match cfg!(target_arch = "x86_64") {
        true => "x86_64-unknown-linux-gnu",
        false => "aarch64-unknown-linux-gnu",
    };
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/marked.rs");
    built_with_rustc([user.home.path(), &program], "program", triple, &[], features)
}

#[test]
fn faults_between_marks_of_rust_are_those_of_arithmetic() {
    let user = User::new();
    if !built(&user, COUNT) {
        return;
    }
    let (document, record) = counted(&user, &["--regions", "--runs", "3", "--", "./program"]);
    assert!(marks(&record).len() >= 3, "{record:?}");
    for marks in marks(&record) {
        assert_eq!((marks.attached, marks.threads, marks.pairs[0]), (1, 1, 64), "{marks:?}");
        assert!(marks.pairs[1] > 0 && region(marks, "").entered == 64, "{marks:?}");
        let entered = ["touch", "spin", "recursive", "panics"].map(|name| region(marks, name).entered);
        assert_eq!(entered, [2, 1, 1, 2], "{marks:?}");
        assert!(marks.regions.iter().all(|region| region.unmatched == 0 && region.ns > 0), "{marks:?}");
    }
    // The loop's code may be on a page that was not there yet.
    assert!(faults(&record, "touch").iter().all(|faults| (520..=521).contains(faults)), "{record:?}");
    assert!(faults(&record, "spin").iter().all(|faults| *faults <= 1), "{record:?}");
    assert!(value(&document, "program.region.{region}.time", "spin") > 0.0);
    // Others are not counted; and a region that is not there is told before the run, or after it.
    let (_, record) = counted(&user, &["--region", "spin", "--once", "--", "./program"]);
    let all: Vec<&str> = marks(&record)[0].regions.iter().map(|region| region.name.as_str()).collect();
    assert_eq!(all, ["", "spin"]);
}

#[test]
fn threads_processes_and_a_killed_program_of_rust_keep_their_counts() {
    let user = User::new();
    if !built(&user, COUNT) {
        return;
    }
    let (_, record) = counted(&user, &["--regions", "--once", "--", "./program", "threads"]);
    let all = marks(&record);
    assert_eq!(region(all[0], "touch").entered, 100, "{all:?}");
    assert!(all[0].threads < 20 && all[0].uncounted == 0, "{all:?}");
    assert!(faults(&record, "touch").iter().all(|faults| (10_000..=10_002).contains(faults)), "{all:?}");
    let (_, record) = counted(&user, &["--regions", "--once", "--", "./program", "fork"]);
    let all = marks(&record);
    assert_eq!(region(all[0], "touch").entered, 5, "{all:?}");
    assert!((2..=4).contains(&all[0].threads) && all[0].uncounted == 0, "{all:?}");
    assert!(faults(&record, "touch").iter().all(|faults| (1020..=1025).contains(faults)), "{all:?}");
    let (document, record) = counted(&user, &["--regions", "--once", "--", "./program", "killed"]);
    assert_eq!(region(marks(&record)[0], "touch").entered, 1);
    assert!(faults(&record, "touch").iter().all(|faults| (500..=501).contains(faults)));
    let warnings = document["warnings"].to_string();
    assert!(warnings.contains("cut (1 times)") && warnings.contains("SIGKILL"), "{warnings}");
}

/// A mark in the handler of a signal counts, or is told as lost if it came during another one.
#[test]
fn marks_of_rust_in_handlers_of_signals_are_counted_or_told() {
    let user = User::new();
    if !built(&user, COUNT) {
        return;
    }
    let did =
        user.run(&["count", "--regions", "--once", "--record", "kept.fathom", "--", "./program", "handlers"]);
    let ticks: u64 = did.out.trim().parse().unwrap_or_else(|e| panic!("{e}: {did:?}"));
    let record = fathom_experiment::record::file::read(&user.read("kept.fathom")).expect("a record");
    let all = marks(&record)[0];
    assert_eq!(2 * region(all, "tick").entered + all.lost, 2 * ticks, "{all:?}");
    assert!(all.lost > 0 && region(all, "tick").unmatched == 0, "{all:?}");
}

/// Variables of an earlier run, or of somebody who plays; and a program whose marks do not count.
#[test]
fn program_of_rust_without_a_run_is_left_alone() {
    let user = User::new();
    if !built(&user, COUNT) {
        return;
    }
    for value in ["", "0:0", "7:zz", "99999999999:1", "-1:1", "3:7878787878787878", "2:ffffffffffffffffff"] {
        let did = user.shell(&format!("FATHOM_REGIONS={value} ./program"));
        assert_eq!(did.status, 0, "{value}: {did:?}");
    }
    assert!(built(&user, &[]));
    user.run(&["count", "--regions", "--", "./program"]).failed(2, &["for fathom simulate only", "count"]);
}
