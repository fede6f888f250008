//! Commands in a document, and the comparison of their output with the shown output.

use std::ops::Range;

/// A command with its shown output.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// The command line, without its `$ `.
    pub command: String,
    /// Line of the command in the document, from 1.
    pub line: usize,
    /// Shown output, by lines.
    pub shown: Vec<String>,
    /// Lines of `shown` and of the status in the document, from 0.
    pub lines: Range<usize>,
    /// The exit status shown.
    pub status: Option<i32>,
}

/// Returns the steps of all `console` blocks.
pub fn steps(document: &str) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    let mut open = false;
    for (n, line) in document.lines().enumerate() {
        if line.starts_with("```") {
            inside = !inside && line == "```console";
            open = false;
            continue;
        }
        if !inside {
            continue;
        }
        if let Some(command) = line.strip_prefix("$ ") {
            open = true;
            let (shown, lines) = (Vec::new(), n + 1..n + 1);
            steps.push(Step { command: command.to_owned(), line: n + 1, shown, lines, status: None });
            continue;
        }
        let step = steps.last_mut().filter(|_| open);
        let step = step.ok_or_else(|| format!("line {}: a console block begins with '$ '", n + 1))?;
        if let Some(status) = line.strip_prefix("? ") {
            step.status =
                Some(status.parse().map_err(|_| format!("line {}: '{status}' is no status", n + 1))?);
        } else {
            step.shown.push(line.to_owned());
        }
        step.lines.end = n + 1;
    }
    Ok(steps)
}

/// Returns the first difference between `shown` and `printed`.
pub fn differs(shown: &[String], printed: &str) -> Option<String> {
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    let shown: Vec<&str> = shown.iter().map(|l| l.trim_end()).collect();
    if all(&shown, &printed) {
        return None;
    }
    let same = shown.iter().zip(&printed).take_while(|(s, p)| one(s, p)).count();
    let at = |list: &[&str]| list.get(same).map_or("(the end)".to_owned(), |l| format!("{l:?}"));
    Some(format!("line {} beneath it is shown as {}\nand printed as {}", same + 1, at(&shown), at(&printed)))
}

fn all(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"...", rest)) => (0..=printed.len()).any(|skip| all(rest, &printed[skip..])),
        Some((first, rest)) => {
            printed.split_first().is_some_and(|(p, others)| one(first, p) && all(rest, others))
        }
    }
}

/// Returns whether a line matches the shown one, in which `[..]` matches any text.
pub fn one(shown: &str, printed: &str) -> bool {
    let Some((head, rest)) = shown.split_once("[..]") else { return shown == printed };
    let Some(after) = printed.strip_prefix(head) else { return false };
    (0..=after.len()).any(|skip| after.is_char_boundary(skip) && one(rest, &after[skip..]))
}

#[test]
fn steps_has_commands_outputs_and_statuses() {
    let document = "a\n```console\n$ fathom x\nout\n...\n? 5\n$ fathom y\n```\n```toml\n$ no\n```\n";
    let found = steps(document).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].line, found[0].lines.clone(), found[0].status), (3, 3..6, Some(5)));
    assert_eq!(found[0].shown, ["out", "..."]);
    assert!(found[1].shown.is_empty());
    assert!(steps("```console\nout\n```\n").is_err());
}

#[test]
fn wildcards_match_and_everything_else_is_compared() {
    let shown = |lines: &[&str]| lines.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
    assert_eq!(differs(&shown(&["a", "...", "z"]), "a\nb\nc\nz\n"), None);
    assert_eq!(differs(&shown(&["a", "...", "z"]), "a\nz\n"), None);
    assert_eq!(differs(&shown(&["took [..] s"]), "took 1.5 s\n"), None);
    assert!(differs(&shown(&["took [..] s"]), "took 1.5 ms, no\n").is_some());
    assert!(differs(&shown(&["a"]), "a\nb\n").unwrap().contains("printed as \"b\""));
    assert!(differs(&shown(&["a", "b"]), "a\n").unwrap().contains("(the end)"));
}
