//! Files of records: every change of a sealed file is told.

use proptest::prelude::*;

use super::super::file::{read, resumable, sealed};
use super::*;

/// The small session as a file.
fn file() -> Vec<String> {
    sealed(session().iter().map(String::as_str)).lines().map(str::to_owned).collect()
}

/// Returns whether reading the file says that something is wrong with it.
fn is_told(text: &str) -> bool {
    read(text).is_err_and(|why| !why.is_empty())
        || read(text).is_ok_and(|record| !record.problems.is_empty() || record.end.is_none())
}

#[test]
fn intact_file_is_read_without_problems() {
    let text = file().join("\n");
    let record = read(&text).expect("a record");
    assert_eq!(record.problems, Vec::<String>::new());
    assert_eq!(resumable(&text), session());
    assert_eq!(
        format!("{record:?}"),
        format!("{:?}", Record::parse(&session().join("\n")).expect("a record"))
    );
}

#[test]
fn lines_missing_before_the_end_are_counted() {
    let whole = file();
    let end = whole.last().expect("an end");
    for missing in 1..whole.len() - 2 {
        let cut: Vec<&str> = whole[..whole.len() - 1 - missing].iter().map(String::as_str).collect();
        let record = read(&[cut.as_slice(), &[end]].concat().join("\n")).expect("a record");
        let said = format!("{missing} lines are missing before it");
        assert!(record.problems.iter().any(|problem| problem.ends_with(&said)), "{:?}", record.problems);
    }
}

#[test]
fn damage_is_told_after_the_record_was_resumed() {
    let whole = file();
    let after = |lines: &[String]| {
        let resumed = resumable(&lines.join("\n"));
        read(&sealed(resumed.iter().map(String::as_str))).expect("a record").problems
    };
    let mut missing = whole.clone();
    missing.drain(5..8);
    assert!(
        after(&missing).iter().any(|p| p.contains("3 lines are missing before it")),
        "{:?}",
        after(&missing)
    );
    let mut changed = whole.clone();
    changed[6] = changed[6].replace('=', "~");
    assert!(after(&changed).iter().any(|p| p.contains("1 damaged lines before it")), "{:?}", after(&changed));
    // Neither a repeated line nor a torn last one is missing.
    let mut torn = whole.clone();
    torn.insert(6, torn[4].clone());
    torn.push("sample trial=1 ti".into());
    assert_eq!(after(&torn), Vec::<String>::new());
}

#[test]
fn bad_line_is_told_once() {
    let mut lines = file();
    lines.insert(5, "an inserted line".into());
    lines[9] = lines[9].replace('=', "~");
    lines.insert(12, String::new());
    let record = read(&lines.join("\n")).expect("a record");
    let by_seal = record.problems.iter().filter(|problem| problem.contains("checksum"));
    let at: Vec<&str> = by_seal.filter_map(|problem| problem.split(':').next()).collect();
    assert_eq!(at, ["line 6", "line 10", "line 13"], "{:?}", record.problems);
    assert!(
        !record.problems.iter().any(|problem| problem.contains("missing before it")),
        "{:?}",
        record.problems
    );
}

#[test]
fn complete_session_without_the_probes_last_line_is_told() {
    let lines = session();
    let cut: Vec<&str> = lines.iter().map(String::as_str).filter(|line| !line.starts_with("gone")).collect();
    let record = read(&sealed(cut)).expect("a record");
    assert!(
        record.problems.iter().any(|problem| problem.contains("'gone', is missing")),
        "{:?}",
        record.problems
    );
}

#[test]
fn file_without_seals_is_refused() {
    let why = read(&session().join("\n")).expect_err("no record");
    assert!(why.contains("line 1") && why.contains("checksum"), "{why}");
}

proptest! {
    #[test]
    fn changed_bit_is_told(at in any::<prop::sample::Index>(), bit in 0..8u32) {
        let mut bytes = file().join("\n").into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assume!(bytes[at] != b'\r');
        // As files are read: a changed letter may be no UTF-8 any more.
        prop_assert!(is_told(&String::from_utf8_lossy(&bytes)));
    }

    #[test]
    fn removed_moved_and_repeated_lines_are_told(
        from in any::<prop::sample::Index>(),
        count in 1..4usize,
        to in any::<prop::sample::Index>(),
        repeated in any::<bool>(),
    ) {
        let mut lines = file();
        let from = from.index(lines.len());
        let count = count.min(lines.len() - from);
        let block: Vec<String> = if repeated {
            lines[from..from + count].to_vec()
        } else {
            lines.drain(from..from + count).collect()
        };
        prop_assert!(repeated || is_told(&lines.join("\n")));
        let to = to.index(lines.len() + 1);
        prop_assume!(repeated || to != from);
        lines.splice(to..to, block);
        prop_assert!(is_told(&lines.join("\n")));
    }

    #[test]
    fn lines_of_another_file_are_told(at in any::<prop::sample::Index>()) {
        let lines = file();
        let mut other = session();
        other[1] = other[1].replace("seed=", "seed=1");
        let other: Vec<String> = sealed(other.iter().map(String::as_str)).lines().map(str::to_owned).collect();
        let at = 2 + at.index(lines.len() - 2);
        prop_assert!(is_told(&[&lines[..at], &other[at..]].concat().join("\n")));
    }
}
