//! Each row of the tables of SECURITY.md names tests that exist.

use std::path::{Path, PathBuf};

use super::run::{root, text};

/// Columns whose cells name tests.
const TESTS: &str = "Test";

/// Returns the texts in backquotes in the last cell of each row of a table whose last column is that of tests.
fn rows(document: &str) -> Vec<(String, Vec<String>)> {
    let cells = |line: &str| -> Option<Vec<String>> {
        let inner = line.strip_prefix('|')?.strip_suffix('|')?;
        Some(inner.split('|').map(|cell| cell.trim().to_owned()).collect())
    };
    let mut found = Vec::new();
    let mut of_tests = false;
    for line in document.lines() {
        let Some(cells) = cells(line) else {
            of_tests = false;
            continue;
        };
        let last = cells.last().expect("a cell");
        match last.as_str() {
            TESTS => of_tests = true,
            _ if last.starts_with("---") => {}
            _ if of_tests => {
                found.push((
                    cells[0].clone(),
                    last.split('`').skip(1).step_by(2).map(str::to_owned).collect(),
                ));
            }
            _ => {}
        }
    }
    found
}

/// Returns all sources of tests below a directory.
fn sources(directory: &Path, into: &mut Vec<(PathBuf, String)>) {
    for entry in
        std::fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display())).flatten()
    {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|x| x == "rs" || x == "c") {
            into.push((path.clone(), std::fs::read_to_string(&path).expect("text")));
        }
    }
}

#[test]
fn every_row_of_security_names_tests_that_exist() {
    let mut all = Vec::new();
    sources(&root().join("crates"), &mut all);
    sources(&root().join("driver/test"), &mut all);
    let rows = rows(&text("SECURITY.md"));
    assert!(rows.len() > 30, "{} rows", rows.len());
    let exists = |name: &str| {
        let name = name.trim_end_matches('*');
        let is = |(path, text): &(PathBuf, String)| {
            path.ends_with(name)
                || path.parent().is_some_and(|directory| directory.ends_with(name))
                // A function, a test of the guests, or a target of the fuzzer.
                || text.contains(&format!("fn {name}"))
                || text.contains(&format!("run(\"{name}\""))
                || path.ends_with("fuzz/main.rs") && text.contains(&format!("(\"{name}\","))
        };
        all.iter().any(is) || root().join(name).is_dir()
    };
    for (row, tests) in rows {
        assert!(!tests.is_empty(), "{row}: no test");
        let missing: Vec<&String> = tests.iter().filter(|test| !exists(test)).collect();
        assert!(missing.is_empty(), "{row}: there is no {missing:?}");
    }
}
