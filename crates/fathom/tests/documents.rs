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
//! `FATHOM_BLESS=1 cargo test -p fathom --test documents` writes what is printed now into the documents.

mod documents {
    pub mod block;
    pub mod names;
}

use std::path::{Path, PathBuf};
use std::process::Command;

use documents::block::{Step, differs, steps};
use documents::names;

/// The documents, from the root of the repository.
const DOCUMENTS: [&str; 7] = [
    "README.md",
    "ARCHITECTURE.md",
    "METHOD.md",
    "BIAS.md",
    "VOCABULARY.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
];

/// What a command line may begin with, besides `cargo` and the scripts.
const PROGRAMS: [&str; 4] = ["fathom", "printf", "sed", "grep"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(document: &str) -> String {
    std::fs::read_to_string(root().join(document)).unwrap_or_else(|e| panic!("{document}: {e}"))
}

/// A directory to run in: its own home, the repository's files beside it.
fn workplace() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for name in ["machines", "crates"] {
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

/// What is wrong with a step, if anything; and what it printed, where it was run.
fn check(step: &Step, dir: &Path) -> (Option<String>, Option<String>) {
    // Variables may stand before the program, as in `A=1 cargo test`.
    let first = step.command.split_whitespace().find(|w| !w.contains('=')).unwrap_or_default();
    if first == "cargo" || first.starts_with("scripts/") || first == ".ci/run" {
        return (names::unknown(&root(), &step.command), None);
    }
    if !PROGRAMS.contains(&first) {
        return (Some(format!("'{first}' is not run here; the programs are {}", PROGRAMS.join(", "))), None);
    }
    let host = step.command.contains("fathom survey") && !step.command.contains("--on ");
    let command = if host && !step.command.contains("--budget") {
        step.command.replace("fathom survey", "fathom survey --budget 1s")
    } else {
        step.command.clone()
    };
    let (status, printed) = shell(&command, dir);
    let fits = if host && step.status.is_none() {
        [0, 3, 5].contains(&status)
    } else {
        status == step.status.unwrap_or(0)
    };
    if !fits {
        return (
            Some(format!("exit status {status}, shown: {:?}; it printed:\n{printed}", step.status)),
            None,
        );
    }
    let wrong = (!step.shown.is_empty()).then(|| differs(&step.shown, &printed)).flatten();
    (wrong, Some(printed))
}

/// Runs the steps of a document; answers how many there were and what was wrong.
fn run(document: &str) -> (usize, Vec<String>) {
    let dir = workplace();
    let written = text(document);
    let steps = steps(&written).unwrap_or_else(|e| panic!("{document}: {e}"));
    let bless = std::env::var_os("FATHOM_BLESS").is_some();
    let mut wrong = Vec::new();
    let mut lines: Vec<String> = written.lines().map(str::to_owned).collect();
    // From the end, so that the numbers of the lines before stay what they were.
    let mut found: Vec<_> = steps.iter().map(|s| (s, check(s, dir.path()))).collect();
    found.reverse();
    for (step, (trouble, printed)) in found {
        let Some(trouble) = trouble else { continue };
        match printed {
            Some(printed) if bless && !step.has_wildcards() => {
                lines.splice(step.lines.clone(), printed.lines().map(str::to_owned));
            }
            _ => wrong.push(format!("{document}:{}: $ {}\n{trouble}", step.line, step.command)),
        }
    }
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
    for document in ["METHOD.md", "CONTRIBUTING.md"] {
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
fn every_crate_and_every_machine_is_in_the_documents() {
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
