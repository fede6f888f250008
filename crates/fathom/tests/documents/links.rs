//! Links between documents: target file and heading.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

/// A link of a document to a file of the repository.
#[derive(Debug, PartialEq, Eq)]
pub struct Link {
    /// Line of the link in the document, from 1.
    pub line: usize,
    /// Target file, relative to the root of the repository.
    pub file: PathBuf,
    /// Anchor after `#`, empty if there is none.
    pub anchor: String,
}

/// Returns every link of `document` into the repository. `path` is the document's path relative to the root.
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

/// Returns the anchors of all headings of `document` as Markdown renderers create them: lower case, without
/// punctuation, with `-` for a blank, and numbered if a heading is repeated.
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

/// Returns the lines outside of fenced blocks, numbered from 1.
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

/// Returns a path without `.` and `..`.
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
fn links_are_resolved_relative_to_the_document() {
    let text =
        "[a](../README.md#two-commands), [b](method/), [c](#x)\n```\n[no](no.md)\n```\n[d](https://e.f/g)\n";
    let found = links("docs/survey.md", text);
    let places: Vec<(String, &str)> =
        found.iter().map(|l| (l.file.display().to_string(), l.anchor.as_str())).collect();
    let expected = [("README.md", "two-commands"), ("docs/method", ""), ("docs/survey.md", "x")];
    assert_eq!(places, expected.map(|(file, anchor)| (file.to_owned(), anchor)));
}

#[test]
fn anchors_follow_from_headings() {
    let text = "# n and 2n\n```\n# no\n```\n## What it can't tell: `tier.N`\n## Again\n### Again\n#no\n";
    assert_eq!(anchors(text), ["n-and-2n", "what-it-cant-tell-tiern", "again", "again-1"]);
}
