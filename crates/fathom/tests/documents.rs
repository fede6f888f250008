//! Checks the documents: every command that a document shows is run and must print the shown output, and every file,
//! heading, verb, option and finding that a document names must exist.
//!
//! A fenced block marked `console` has commands, each after `$ `, and after each command its output (stdout and stderr
//! as on a terminal). A line `...` matches any lines, `[..]` matches any text in a line; a last line `? 5` is the exit
//! status, 0 if absent. A command without output is run for its status only. `sh` runs the commands of a document one
//! after the other, in a separate directory with `machines`, `crates`, `records`, `examples` and `include`; documents run in parallel.
//! Commands must not cut their output: `...` replaces what a document leaves out.
//!
//! Commands that simulate a program are told as skipped where QEMU's user mode, its plugin or the cross compiler is missing.
//! Surveys of this host may end with 0, 3 or 5, depending on the host; without a budget they run with one second.
//! Commands of `cargo` and of `scripts` are not run, because they run this test: only the files that they name must
//! exist.
//!
//! `FATHOM_BLESS=1 cargo test -p fathom --test documents` writes the current output into the documents: all of it, or
//! the same excerpts (`documents/excerpt.rs`). `FATHOM_DOCUMENT=PATH` restricts the test or the update to one document.
//! `FATHOM_RECORD=FILE` replaces the record that the documents show; `scripts/picture` draws it.

mod documents {
    pub mod block;
    pub mod excerpt;
    pub mod links;
    pub mod names;
    pub mod picture;
    pub mod record;
    pub mod run;
    mod security;
}

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use documents::block::steps;
use documents::run::{RECORD, blessing, check, root, shell, take_record, temporary_home, text};
use documents::{links, names, record};

/// Folders without documents of this project.
const ELSEWHERE: [&str; 3] = ["target", "fuzz", "local"];

/// Maximum lengths of a document and of the README, in lines.
const MAX_DOCUMENT_LINES: usize = 600;
const MAX_README_LINES: usize = 150;

/// Returns every document of the repository, relative to its root.
fn documents() -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).expect("a folder").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !name.starts_with('.') && !ELSEWHERE.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Runs the steps of a document; returns their number and the errors.
fn run(document: &str) -> (usize, Vec<String>) {
    let dir = temporary_home();
    let written = text(document);
    let steps = match steps(&written) {
        Ok(steps) => steps,
        Err(e) => return (0, vec![format!("{document}: {e}")]),
    };
    let mut wrong = Vec::new();
    let mut lines: Vec<String> = written.lines().map(str::to_owned).collect();
    let mut found: Vec<_> = steps.iter().map(|s| (s, check(s, dir.path()))).collect();
    // From the end, so that earlier line numbers stay valid.
    found.reverse();
    for (step, checked) in found {
        let Some(trouble) = checked.trouble else { continue };
        match checked.blessed {
            Some(blessed) if blessing() => drop(lines.splice(step.lines.clone(), blessed)),
            _ => wrong.push(format!("{document}:{}: $ {}\n{trouble}", step.line, step.command)),
        }
    }
    wrong.reverse();
    let blessed = lines.join("\n") + "\n";
    if blessing() && blessed != written {
        std::fs::write(root().join(document), blessed).expect("the document can be written");
    }
    (steps.len(), wrong)
}

/// Runs the steps of all documents, as many documents at a time as there are CPUs.
fn run_all(documents: &[String]) -> Vec<(usize, Vec<String>)> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(vec![(0, Vec::new()); documents.len()]);
    let threads = std::thread::available_parallelism().map_or(2, usize::from).min(documents.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(n) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|n| *n < documents.len())
                {
                    let ran = run(&documents[n]);
                    done.lock().expect("no thread panics with it")[n] = ran;
                }
            });
        }
    });
    done.into_inner().expect("no thread panics with it")
}

#[test]
fn documents_show_the_printed_output() {
    let one = std::env::var("FATHOM_DOCUMENT").ok();
    let mut documents = documents();
    documents.retain(|document| one.as_ref().is_none_or(|one| one == document));
    let ran = run_all(&documents);
    let wrong: Vec<String> = ran.iter().flat_map(|(_, wrong)| wrong.iter().cloned()).collect();
    assert!(
        wrong.is_empty(),
        "{}\n(FATHOM_BLESS=1 writes what is printed now into the document)",
        wrong.join("\n\n")
    );
    if one.is_none() {
        let all: usize = ran.iter().map(|(count, _)| count).sum();
        assert!(all >= 80, "only {all} commands in {} documents: are they still found?", documents.len());
    }
}

#[test]
fn link_targets_exist() {
    let documents = documents();
    let anchors: HashMap<String, Vec<String>> =
        documents.iter().map(|document| (document.clone(), links::anchors(&text(document)))).collect();
    let (mut seen, mut wrong) = (0, Vec::new());
    for document in &documents {
        for link in links::links(document, &text(document)) {
            seen += 1;
            let file = link.file.display().to_string();
            if !root().join(&link.file).exists() {
                wrong.push(format!("{document}:{}: there is no {file}", link.line));
            } else if !link.anchor.is_empty() && !anchors.get(&file).is_some_and(|a| a.contains(&link.anchor))
            {
                wrong.push(format!("{document}:{}: {file} has no heading #{}", link.line, link.anchor));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 50, "only {seen} links: are they still found?");
}

#[test]
fn named_files_exist() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for document in documents() {
        for (line, name) in names::files(&text(&document)) {
            seen += 1;
            if !root().join(&name).exists() {
                wrong.push(format!("{document}:{line}: there is no {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 50, "only {seen} files are named: are they still found?");
}

#[test]
fn named_findings_are_in_the_schema() {
    let (status, schema) = shell("fathom schema", temporary_home().path());
    assert_eq!(status, 0);
    let names: Vec<&str> = schema.split_whitespace().collect();
    let (mut seen, mut wrong) = (0, Vec::new());
    for document in documents() {
        for (line, name) in names::findings(&text(&document)) {
            seen += 1;
            if !names.contains(&name.as_str()) {
                wrong.push(format!("{document}:{line}: no finding is called {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 10, "only {seen} findings are named: are they still found?");
}

#[test]
fn named_commands_and_options_exist() {
    let dir = temporary_home();
    let mut help: HashMap<String, (i32, String)> = HashMap::new();
    let (mut seen, mut wrong) = (0, Vec::new());
    for document in documents() {
        let text = text(&document);
        for (line, verb, options) in names::verbs(&text) {
            seen += 1;
            let known = || shell(&format!("fathom {verb} --help"), dir.path());
            let (status, help) = help.entry(verb.clone()).or_insert_with(known);
            if *status != 0 {
                wrong.push(format!("{document}:{line}: there is no 'fathom {verb}'"));
            }
            let words: Vec<&str> = help.split(|c: char| !c.is_alphanumeric() && c != '-').collect();
            for option in options.iter().filter(|option| *status == 0 && !words.contains(&option.as_str())) {
                wrong.push(format!("{document}:{line}: 'fathom {verb}' has no {option}"));
            }
        }
        for (line, command) in names::quoted(&text).into_iter().filter(|(_, q)| q.starts_with("cargo ")) {
            let trouble = names::unknown(&root(), &command);
            wrong.extend(trouble.map(|trouble| format!("{document}:{line}: {command}: {trouble}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 50, "only {seen} commands are named: are they still found?");
}

#[test]
fn architecture_names_every_crate() {
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
fn documents_are_short_and_their_blocks_are_closed() {
    for document in documents() {
        let text = text(&document);
        let limit = if document == "README.md" { MAX_README_LINES } else { MAX_DOCUMENT_LINES };
        let lines = text.lines().count();
        assert!(lines <= limit, "{document} has {lines} lines: more than {limit} are not read");
        let fences = text.lines().filter(|line| line.starts_with("```")).count();
        assert!(fences % 2 == 0, "{document}: a fence is not closed");
    }
}

#[test]
fn committed_record_has_no_private_facts() {
    take_record();
    let kept = text(RECORD);
    assert!(kept.lines().count() > 500, "that is no survey");
    assert!(kept == record::published(&kept), "take it with FATHOM_RECORD");
}

#[test]
fn picture_matches_the_committed_record() {
    let (status, json) = shell(&format!("fathom report {RECORD} --json"), temporary_home().path());
    assert!(matches!(status, 0 | 3), "{json}");
    let drawn = documents::picture::draw(&json).unwrap_or_else(|e| panic!("{RECORD}: {e}"));
    let file = root().join("docs/survey.svg");
    if blessing() {
        std::fs::write(&file, &drawn).expect("the picture can be written");
    }
    assert!(std::fs::read_to_string(&file).is_ok_and(|kept| kept == drawn), "draw it with scripts/picture");
    assert!(Path::new(&file).metadata().is_ok_and(|m| m.len() < 100_000), "a picture and no data file");
}
