//! The documents are true: every command that one of them shows is run, what is shown beneath it is what it
//! prints, and every file that one names is there.
//!
//! A fenced block marked `console` holds commands, each behind `$ `, and beneath each what it prints (stdout
//! and stderr as a terminal mixes them). A line `...` stands for any lines, `[..]` for any text in a line; a
//! last line `? 5` is the exit status, 0 where there is none. A command with nothing beneath it is run for
//! its status alone. Commands are run by `sh` in a directory of their own with `machines` and `crates` in it.
//!
//! Surveys of this host may end with 0, 3 or 5, depending on the host; where they name no budget they are run
//! with one of a second. Commands of `cargo` and of `scripts` are not run, because they run this test: what
//! they name must exist.
//!
//! `FATHOM_BLESS=1 cargo test -p fathom --test documents` writes what is printed now into the documents, and
//! `FATHOM_RECORD=FILE` beside it takes that record for the README's.

mod documents {
    pub mod block;
    pub mod names;
    pub mod record;
}

use std::path::{Path, PathBuf};
use std::process::Command;

use documents::block::{Step, differs, steps};
use documents::{names, record};

/// The documents, from the root of the repository.
const DOCUMENTS: [&str; 8] = [
    "README.md",
    "ARCHITECTURE.md",
    "METHOD.md",
    "BIAS.md",
    "VOCABULARY.md",
    "CONTRIBUTING.md",
    "FAULTS.md",
    "CHANGELOG.md",
];

/// The record that the README reports.
const RECORD: &str = "crates/fathom/tests/documents/guest.fathom";

/// What a command line may begin with, besides `cargo` and the scripts.
const PROGRAMS: [&str; 7] = ["fathom", "printf", "sed", "grep", "mkdir", "yes", "ulimit"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(document: &str) -> String {
    std::fs::read_to_string(root().join(document)).unwrap_or_else(|e| panic!("{document}: {e}"))
}

/// Takes the record that `FATHOM_RECORD` names for the README's, once and before anything reads it.
fn take_record() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let Some(from) = std::env::var_os("FATHOM_RECORD") else { return };
        let record = std::fs::read_to_string(&from).unwrap_or_else(|e| panic!("{from:?}: {e}"));
        std::fs::write(root().join(RECORD), record::published(&record)).expect("the record can be written");
    });
}

/// A directory to run in: its own home, the repository's files beside it.
fn workplace() -> tempfile::TempDir {
    take_record();
    let dir = tempfile::tempdir().expect("a temporary directory");
    for name in ["machines", "crates", "records"] {
        std::os::unix::fs::symlink(root().join(name), dir.path().join(name)).expect("a link");
    }
    dir
}

/// Runs a command line; answers its exit status and what it printed.
fn shell(line: &str, dir: &Path) -> (i32, String) {
    let fathom = Path::new(env!("CARGO_BIN_EXE_fathom"));
    let mut path = fathom.parent().expect("a directory").as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let out = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {line}")])
        .current_dir(dir)
        .env("PATH", path)
        .env("HOME", dir)
        .env("XDG_DATA_HOME", dir.join("data"))
        .env("XDG_CONFIG_HOME", dir.join("config"))
        .env("LC_ALL", "C.UTF-8")
        .env_remove("CLICOLOR_FORCE")
        .stdin(std::process::Stdio::null())
        .output()
        .expect("sh starts");
    (out.status.code().unwrap_or(-1), String::from_utf8_lossy(&out.stdout).into_owned())
}

/// What is wrong with a step, and what may stand in the document instead.
#[derive(Default)]
struct Checked {
    trouble: Option<String>,
    blessed: Option<Vec<String>>,
}

impl Checked {
    fn wrong(trouble: String) -> Checked {
        Checked { trouble: Some(trouble), blessed: None }
    }
}

fn check(step: &Step, dir: &Path) -> Checked {
    // Variables may stand before the program, as in `A=1 cargo test`.
    let first = step.command.split_whitespace().find(|w| !w.contains('=')).unwrap_or_default();
    if first == "cargo" || first.starts_with("scripts/") || first == ".ci/run" {
        return Checked { trouble: names::unknown(&root(), &step.command), blessed: None };
    }
    if !PROGRAMS.contains(&first) {
        return Checked::wrong(format!(
            "'{first}' is not run here; the programs are {}",
            PROGRAMS.join(", ")
        ));
    }
    let host = step.command.contains("fathom survey") && !step.command.contains("--on ");
    let command = if host && !step.command.contains("--budget") {
        step.command.replace("fathom survey", "fathom survey --budget 1s")
    } else {
        step.command.clone()
    };
    let (status, printed) = shell(&command, dir);
    compare(step, host, status, &printed)
}

/// Holds what a step printed, and its exit status, against what is shown.
fn compare(step: &Step, host: bool, status: i32, printed: &str) -> Checked {
    let any = host && step.status.is_none();
    let fits = if any { [0, 3, 5].contains(&status) } else { status == step.status.unwrap_or(0) };
    let trouble = if fits {
        (!step.shown.is_empty()).then(|| differs(&step.shown, printed)).flatten()
    } else {
        Some(format!("exit status {status}, shown {:?}; it printed:\n{printed}", step.status))
    };
    // Failures and panics are for mending and not for blessing.
    let sane = any || [0, 2, 3, 4, 5].contains(&status);
    let blessed = (sane && !step.shown.is_empty() && !step.has_wildcards()).then(|| {
        let mut lines: Vec<String> = printed.lines().map(str::to_owned).collect();
        if status != 0 && !any {
            lines.push(format!("? {status}"));
        }
        lines
    });
    Checked { trouble, blessed }
}

/// Runs the steps of a document; answers how many there were and what was wrong.
fn run(document: &str) -> (usize, Vec<String>) {
    let dir = workplace();
    let written = text(document);
    let steps = steps(&written).unwrap_or_else(|e| panic!("{document}: {e}"));
    let bless = std::env::var_os("FATHOM_BLESS").is_some();
    let mut wrong = Vec::new();
    let mut lines: Vec<String> = written.lines().map(str::to_owned).collect();
    let mut found: Vec<_> = steps.iter().map(|s| (s, check(s, dir.path()))).collect();
    // From the end, so that the numbers of the lines before stay what they were.
    found.reverse();
    for (step, checked) in found {
        let Some(trouble) = checked.trouble else { continue };
        match checked.blessed {
            Some(blessed) if bless => drop(lines.splice(step.lines.clone(), blessed)),
            _ => wrong.push(format!("{document}:{}: $ {}\n{trouble}", step.line, step.command)),
        }
    }
    wrong.reverse();
    let blessed = lines.join("\n") + "\n";
    if bless && blessed != written {
        std::fs::write(root().join(document), blessed).expect("the document can be written");
    }
    (steps.len(), wrong)
}

fn holds(document: &str) -> usize {
    let (count, wrong) = run(document);
    assert!(
        wrong.is_empty(),
        "{}\n(FATHOM_BLESS=1 writes what is printed now into the document)",
        wrong.join("\n\n")
    );
    count
}

#[test]
fn what_the_readme_shows_is_what_is_printed() {
    assert!(holds("README.md") >= 8);
}

#[test]
fn what_the_other_documents_show_is_what_is_printed() {
    let shown: Vec<(&str, usize)> = DOCUMENTS[1..].iter().map(|d| (*d, holds(d))).collect();
    for document in ["METHOD.md", "CONTRIBUTING.md", "FAULTS.md"] {
        assert!(
            shown.iter().any(|(d, n)| *d == document && *n >= 3),
            "{document} shows no commands: {shown:?}"
        );
    }
}

#[test]
fn files_and_documents_that_are_named_exist() {
    let mut seen = 0;
    for document in DOCUMENTS {
        for (line, name) in names::files(&text(document)) {
            seen += 1;
            assert!(root().join(&name).exists(), "{document}:{line}: there is no {name}");
        }
    }
    assert!(seen > 50, "only {seen} files are named: are they still found?");
}

#[test]
fn findings_that_are_named_are_in_the_schema() {
    let (status, schema) = shell("fathom schema", workplace().path());
    assert_eq!(status, 0);
    let names: Vec<&str> = schema.split_whitespace().collect();
    let mut seen = 0;
    for document in DOCUMENTS {
        for (line, name) in names::findings(&text(document)) {
            seen += 1;
            assert!(names.contains(&name.as_str()), "{document}:{line}: no finding is called {name}");
        }
    }
    assert!(seen > 10, "only {seen} findings are named: are they still found?");
}

#[test]
fn every_crate_is_on_the_map() {
    let map = text("ARCHITECTURE.md");
    let mut crates = 0;
    for entry in std::fs::read_dir(root().join("crates")).expect("crates").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        crates += 1;
        assert!(
            map.contains(&format!("crates/{name}")),
            "ARCHITECTURE.md does not say what crates/{name} is"
        );
    }
    assert!(crates >= 7);
}

#[test]
fn the_committed_record_holds_nothing_private() {
    take_record();
    let kept = text(RECORD);
    assert!(kept.lines().count() > 500, "that is no survey");
    assert!(kept == record::published(&kept), "take it with FATHOM_RECORD");
}

#[test]
fn prose_is_wrapped() {
    for document in DOCUMENTS {
        let mut fenced = false;
        for (n, line) in text(document).lines().enumerate() {
            fenced ^= line.starts_with("```");
            let free = fenced || line.starts_with('|') || line.starts_with("```");
            assert!(free || line.chars().count() <= 112, "{document}:{}: wrap this line", n + 1);
        }
        assert!(!fenced, "{document}: a fence is not closed");
    }
}
