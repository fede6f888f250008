//! Names that documents have in backquotes: files, findings, and verbs with options. Also checks the files that a
//! `cargo` command names.

use std::path::Path;

use super::links::prose;

/// Top-level names. A word in backquotes that begins with one is a path of the repository.
const TOPS: [&str; 14] = [
    "crates/",
    "machines/",
    "records/",
    "scripts/",
    "docs/",
    "driver/",
    "emulate/",
    "plugin/",
    "examples/",
    "benches/",
    ".ci/",
    ".cargo/",
    "fuzz/",
    "packages/",
];

/// Returns every text in backquotes, with its first line; wrapped ones are joined.
pub fn quoted(document: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    let mut before = 0;
    for (n, line) in prose(document) {
        // Quotes may continue over a line's end, but not over a blank line or a block.
        if line.trim().is_empty() || n != before + 1 {
            open = false;
        }
        before = n;
        for (i, part) in line.split('`').enumerate() {
            open = if i == 0 { open } else { !open };
            if !open {
                continue;
            }
            match found.last_mut() {
                Some((_, text)) if i == 0 => *text = format!("{} {}", text.trim_end(), part.trim_start()),
                _ => found.push((n, part.to_owned())),
            }
        }
    }
    found
}

/// Returns every file that `document` names in backquotes, relative to the root of the repository, with its line. Of a
/// pattern (`*`, `NAME`), returns the part before it.
pub fn files(document: &str) -> Vec<(usize, String)> {
    let path = |word: &String| TOPS.iter().any(|t| word.starts_with(t)) && !word.contains(' ');
    quoted(document).into_iter().filter(|(_, w)| path(w)).map(|(n, w)| (n, literal(&w))).collect()
}

/// First parts of names of findings; no fact begins with one.
const FINDINGS: [&str; 10] = [
    "tier.",
    "tlb.",
    "walk.",
    "bias.",
    "prefetch.",
    "claim.",
    "verdict.",
    "translation.",
    "latency.",
    "stride.",
];

/// Returns every finding that `document` names in backquotes, with its line.
pub fn findings(document: &str) -> Vec<(usize, String)> {
    let finding = |word: &String| FINDINGS.iter().any(|f| word.starts_with(f)) && !word.contains(' ');
    quoted(document).into_iter().filter(|(_, word)| finding(word)).collect()
}

/// Returns every verb that `document` names in backquotes (`fathom VERB ...`), with its options and its line.
pub fn verbs(document: &str) -> Vec<(usize, String, Vec<String>)> {
    let mut found = Vec::new();
    for (line, text) in quoted(document) {
        // Text after these characters belongs to another program.
        let command = text.split(['|', '>', '<', ';']).next().unwrap_or_default();
        let mut words = command.split_whitespace();
        if words.next() != Some("fathom") {
            continue;
        }
        let Some(verb) = words.next().filter(|w| w.starts_with(|c: char| c.is_ascii_lowercase())) else {
            continue;
        };
        let options = words.filter(|w| w.starts_with("--") && w.len() > 2);
        let options = options.map(|w| w.split('=').next().unwrap_or(w).to_owned());
        found.push((line, verb.to_owned(), options.collect()));
    }
    found
}

/// Returns a path up to its first part that is a pattern.
fn literal(path: &str) -> String {
    let pattern = |part: &&str| part.contains(['*', '<']) || part.chars().any(|c| c.is_ascii_uppercase());
    let known = |part: &&str| part.ends_with(".md") || part.starts_with("LICENSE") || *part == "Cargo.toml";
    path.split('/').take_while(|p| known(p) || !pattern(p)).collect::<Vec<_>>().join("/")
}

/// Returns the first file or package that a command of `cargo` or of `scripts` names and that does not exist.
pub fn unknown(root: &Path, command: &str) -> Option<String> {
    // Variables may precede the program, as in `A=1 cargo test`.
    let words: Vec<&str> = command.split_whitespace().skip_while(|w| w.contains('=')).collect();
    let program = words.first()?;
    if *program != "cargo" {
        return (!root.join(program).is_file()).then(|| format!("there is no {program}"));
    }
    let after = |flag: &str| words.iter().position(|w| *w == flag).and_then(|i| words.get(i + 1)).copied();
    let package = after("-p").map(|p| p.strip_prefix("fathom-").unwrap_or(p));
    if let Some(package) = package
        && !root.join("crates").join(package).is_dir()
    {
        return Some(format!("there is no package {package}"));
    }
    for (flag, folder) in [("--test", "tests"), ("--example", "examples"), ("--bench", "benches")] {
        let (Some(name), Some(package)) = (after(flag), package) else { continue };
        let base = root.join("crates").join(package).join(folder).join(name);
        if !base.with_extension("rs").is_file() && !base.join("main.rs").is_file() {
            return Some(format!("{package} has no {folder}/{name}"));
        }
    }
    None
}

#[test]
fn files_are_found_up_to_a_pattern() {
    let text = "see `crates/probe/src/chain.rs`, `machines/*.toml`, `records/NAME.fathom`\n\
                ```\n`crates/no`\n```\nand `fathom report`, `docs/bias.md`\n";
    let names: Vec<String> = files(text).into_iter().map(|f| f.1).collect();
    assert_eq!(names, ["crates/probe/src/chain.rs", "machines", "records", "docs/bias.md"]);
}

#[test]
fn verbs_are_found_with_their_options_also_over_a_line_end() {
    let text = "run `fathom survey --budget\n3s --record=a | cat --no` or `fathom VERB`\n\n`fathom` and `fathom doctor`\n";
    let found = verbs(text);
    let options = vec!["--budget".to_owned(), "--record".to_owned()];
    assert_eq!(found, [(1, "survey".to_owned(), options), (4, "doctor".to_owned(), vec![])]);
}

#[test]
fn unknown_packages_tests_and_scripts_are_found() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert_eq!(unknown(&root, "cargo bench -p fathom-model --bench speed"), None);
    assert_eq!(unknown(&root, "scripts/test --full"), None);
    assert!(unknown(&root, "cargo test -p fathom-nothing").is_some());
    assert!(unknown(&root, "cargo test -p fathom --test nothing").is_some());
    assert!(unknown(&root, "scripts/nothing").is_some());
}
