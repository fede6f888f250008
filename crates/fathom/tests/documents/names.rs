//! What documents name: files, and the parts of a `cargo` command.

use std::path::Path;

/// Top-level names that make a word in backquotes a path of the repository.
const TOPS: [&str; 7] = ["crates/", "machines/", "records/", "scripts/", ".ci/", ".cargo/", "fuzz/"];

/// Every file that `document` names, with its line: links, and paths in backquotes. A pattern (`*`, `NAME`)
/// names the part before it.
pub fn files(document: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (n, line) in document.lines().enumerate() {
        fenced ^= line.starts_with("```");
        if fenced {
            continue;
        }
        for (i, word) in line.split('`').enumerate() {
            let path = i % 2 == 1 && TOPS.iter().any(|t| word.starts_with(t)) && !word.contains(' ');
            let document = i % 2 == 1 && word.ends_with(".md") && !word.contains(['/', ' ']);
            if path || document {
                found.push((n + 1, literal(word)));
            }
        }
        for part in line.split("](").skip(1) {
            let to = part.split(')').next().unwrap_or_default();
            if !to.contains("://") && !to.starts_with('#') {
                found.push((n + 1, literal(to.split('#').next().unwrap_or_default())));
            }
        }
    }
    found
}

/// First parts of the names of findings that no fact shares.
const FINDINGS: [&str; 10] =
    ["tier.", "tlb.", "walk.", "bias.", "prefetch.", "claim.", "verdict.", "pages.", "latency.", "stride."];

/// Every finding that `document` names in backquotes, with its line.
pub fn findings(document: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (n, line) in document.lines().enumerate() {
        let words = line.split('`').enumerate().filter(|(i, _)| i % 2 == 1).map(|(_, word)| word);
        let names = words.filter(|w| FINDINGS.iter().any(|f| w.starts_with(f)) && !w.contains(' '));
        found.extend(names.map(|name| (n + 1, name.to_owned())));
    }
    found
}

/// A path up to its first part that is a pattern.
fn literal(path: &str) -> String {
    let pattern = |part: &&str| part.contains(['*', '<']) || part.chars().any(|c| c.is_ascii_uppercase());
    let known = |part: &&str| part.ends_with(".md") || part.starts_with("LICENSE") || *part == "Cargo.toml";
    path.split('/').take_while(|p| known(p) || !pattern(p)).collect::<Vec<_>>().join("/")
}

/// What a command of `cargo` or of `scripts` names that is not there.
pub fn unknown(root: &Path, command: &str) -> Option<String> {
    // Variables before the program, as in `A=1 cargo test`.
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
fn files_are_found_and_patterns_end_them() {
    let text = "see [x](METHOD.md#a), `crates/probe/src/chain.rs`, `machines/*.toml`, `records/NAME.fathom`\n\
                ```\n`crates/no`\n```\nand `fathom report`, https://a.example/(b), `BIAS.md`\n";
    let names: Vec<String> = files(text).into_iter().map(|f| f.1).collect();
    assert_eq!(names, ["crates/probe/src/chain.rs", "machines", "records", "METHOD.md", "BIAS.md"]);
}

#[test]
fn commands_that_name_nothing_real_are_found() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert_eq!(unknown(&root, "cargo bench -p fathom-model --bench speed"), None);
    assert_eq!(unknown(&root, "scripts/test --full"), None);
    assert!(unknown(&root, "cargo test -p fathom-nothing").is_some());
    assert!(unknown(&root, "cargo test -p fathom --test nothing").is_some());
    assert!(unknown(&root, "scripts/nothing").is_some());
}
