//! Links between documents: the file that one leads to, and the heading in it.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

/// A link of a document to a file of the repository.
#[derive(Debug, PartialEq, Eq)]
pub struct Link {
    /// Line of the document that it stands on, from 1.
    pub line: usize,
    /// The file, from the root of the repository.
    pub file: PathBuf,
    /// The anchor behind `#`, empty where there is none.
    pub anchor: String,
}

/// Every link of `document`, which lies at `path` from the root, that does not lead out of the repository.
pub fn links(path: &str, document: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (n, line) in prose(document) {
        for part in line.split("](").skip(1) {
            let to = part.split(')').next().unwrap_or_default();
            if to.contains("://") {
                continue;
            }
            let (file, anchor) = to.split_once('#').unwrap_or((to, ""));
            let file = match file {
                "" => PathBuf::from(path),
                _ => flat(&Path::new(path).parent().unwrap_or(Path::new("")).join(file)),
            };
            found.push(Link { line: n, file, anchor: anchor.to_owned() });
        }
    }
    found
}

/// The anchors of all headings of `document`, as the places that show Markdown make them: lower case, without
/// punctuation, with `-` for a blank, and numbered where a heading comes again.
pub fn anchors(document: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut all = Vec::new();
    for (_, line) in prose(document) {
        let text = line.trim_start_matches('#');
        if text.len() == line.len() || !text.starts_with(' ') {
            continue;
        }
        let mut anchor = String::new();
        for c in text.trim().chars() {
            match c {
                ' ' => anchor.push('-'),
                '-' | '_' => anchor.push(c),
                c if c.is_alphanumeric() => anchor.extend(c.to_lowercase()),
                _ => {}
            }
        }
        let count = seen.entry(anchor.clone()).or_default();
        all.push(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    all
}

/// The lines outside of fenced blocks, numbered from 1.
pub fn prose(document: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (n, line) in document.lines().enumerate() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((n + 1, line));
        }
    }
    lines
}

/// A path without `.` and `..`.
fn flat(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

#[test]
fn links_are_taken_from_where_the_document_lies() {
    let text =
        "[a](../README.md#two-commands), [b](method/), [c](#x)\n```\n[no](no.md)\n```\n[d](https://e.f/g)\n";
    let found = links("docs/survey.md", text);
    let places: Vec<(String, &str)> =
        found.iter().map(|l| (l.file.display().to_string(), l.anchor.as_str())).collect();
    let want = [("README.md", "two-commands"), ("docs/method", ""), ("docs/survey.md", "x")];
    assert_eq!(places, want.map(|(file, anchor)| (file.to_owned(), anchor)));
}

#[test]
fn anchors_are_those_of_headings() {
    let text = "# n and 2n\n```\n# no\n```\n## What it can't tell: `tier.N`\n## Again\n### Again\n#no\n";
    assert_eq!(anchors(text), ["n-and-2n", "what-it-cant-tell-tiern", "again", "again-1"]);
}
