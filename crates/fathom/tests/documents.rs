//! The documents are true: every command that one of them shows is run, what is shown beneath it is what it
//! prints, and every file, heading, verb, option and finding that one names is there.
//!
//! A fenced block marked `console` holds commands, each behind `$ `, and beneath each what it prints (stdout
//! and stderr as a terminal mixes them). A line `...` stands for any lines, `[..]` for any text in a line; a
//! last line `? 5` is the exit status, 0 where there is none. A command with nothing beneath it is run for
//! its status alone. Commands are run by `sh` in a directory of their own with `machines`, `crates` and
//! `records` in it, one after the other, and the documents in parallel. No command cuts its output: what a
//! document leaves out is a line `...`.
//!
//! Surveys of this host may end with 0, 3 or 5, depending on the host; where they name no budget they are run
//! with one of a second. Commands of `cargo` and of `scripts` are not run, because they run this test: what
//! they name must exist.
//!
//! `FATHOM_BLESS=1 cargo test -p fathom --test documents` writes what is printed now into the documents: the
//! whole of it, or the same excerpts (`documents/excerpt.rs`). `FATHOM_DOCUMENT=PATH` does so, or only looks,
//! in one document. `FATHOM_RECORD=FILE` takes that record for the documents' own; `scripts/picture` draws it.

mod documents {
    pub mod block;
    pub mod excerpt;
    pub mod links;
    pub mod names;
    pub mod picture;
    pub mod record;
    pub mod run;
}

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use documents::block::steps;
use documents::run::{RECORD, blessing, check, root, shell, take_record, text, workplace};
use documents::{links, names, record};

/// Folders in which no document of ours lies.
const ELSEWHERE: [&str; 3] = ["target", "fuzz", "local"];

/// The longest document, and the longest README, in lines.
const MAX_DOCUMENT_LINES: usize = 600;
const README: usize = 150;

/// Every document of the repository, from its root.
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

/// Runs the steps of a document; returns how many there were and what was wrong.
fn run(document: &str) -> (usize, Vec<String>) {
    let dir = workplace();
    let written = text(document);
    let steps = match steps(&written) {
        Ok(steps) => steps,
        Err(e) => return (0, vec![format!("{document}: {e}")]),
    };
    let mut wrong = Vec::new();
    let mut lines: Vec<String> = written.lines().map(str::to_owned).collect();
    let mut found: Vec<_> = steps.iter().map(|s| (s, check(s, dir.path()))).collect();
    // From the end, so that the numbers of the lines before stay what they were.
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

/// Runs the steps of all documents, as many documents at once as there are CPUs.
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
fn links_lead_somewhere() {
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
fn files_that_are_named_exist() {
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
fn findings_that_are_named_are_in_the_schema() {
    let (status, schema) = shell("fathom schema", workplace().path());
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
fn commands_that_are_named_exist() {
    let dir = workplace();
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
fn documents_are_short_and_their_blocks_are_closed() {
    for document in documents() {
        let text = text(&document);
        let most = if document == "README.md" { README } else { MAX_DOCUMENT_LINES };
        let lines = text.lines().count();
        assert!(lines <= most, "{document} has {lines} lines: more than {most} are not read");
        let fences = text.lines().filter(|line| line.starts_with("```")).count();
        assert!(fences % 2 == 0, "{document}: a fence is not closed");
    }
}

#[test]
fn the_committed_record_holds_nothing_private() {
    take_record();
    let kept = text(RECORD);
    assert!(kept.lines().count() > 500, "that is no survey");
    assert!(kept == record::published(&kept), "take it with FATHOM_RECORD");
}

#[test]
fn the_picture_is_that_of_the_committed_record() {
    let (status, json) = shell(&format!("fathom report {RECORD} --json"), workplace().path());
    assert!(matches!(status, 0 | 3), "{json}");
    let drawn = documents::picture::draw(&json).unwrap_or_else(|e| panic!("{RECORD}: {e}"));
    let file = root().join("docs/survey.svg");
    if blessing() {
        std::fs::write(&file, &drawn).expect("the picture can be written");
    }
    assert!(std::fs::read_to_string(&file).is_ok_and(|kept| kept == drawn), "draw it with scripts/picture");
    assert!(Path::new(&file).metadata().is_ok_and(|m| m.len() < 100_000), "a picture and no data file");
}
