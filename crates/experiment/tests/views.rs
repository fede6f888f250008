//! Views depend on findings only: not on records, samples or readings, so that a view cannot judge.
//!
//! Checked by their source text: a view may name metrics, the toolkit of reports, and other views.

use std::path::{Path, PathBuf};

/// Allowed beginnings of paths in a view, in addition to `super` and `self`.
const ALLOWED: [&str; 9] = [
    "std::",
    "unicode_width::",
    "fathom_report::",
    "fathom_analysis::findings",
    "fathom_analysis::metrics",
    "fathom_analysis::facts",
    // Constants: what events of processors are evidence of.
    "fathom_events::",
    // Constants: published values of another tool or a study.
    "fathom_analysis::import::study",
    "fathom_analysis::import::Place",
];

/// Modules of this crate whose views are used by several views.
const SHARED: [&str; 8] =
    ["claims", "counted", "geometry", "latency_curve", "overlap", "prefetch", "set_fill", "window"];

/// Crate names with which paths may begin.
const CRATES: [&str; 9] = [
    "crate",
    "std",
    "unicode_width",
    "fathom_analysis",
    "fathom_events",
    "fathom_experiment",
    "fathom_probe",
    "fathom_report",
    "fathom_units",
];

/// Finds every source file of a view below `directory`: `view.rs`, and all files in a folder `view`.
fn views(directory: &Path, inside: bool, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let is_view = path.file_stem().is_some_and(|stem| stem == "view");
        if path.is_dir() {
            views(&path, inside || is_view, found);
        } else if inside || is_view {
            found.push(path);
        }
    }
}

/// Returns the paths in a text that begin with a crate's name; a `use` with a group gives one path per item.
fn paths(text: &str) -> Vec<String> {
    let code: String =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join(" ");
    let in_a_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut found = Vec::new();
    for name in CRATES {
        for (at, _) in code.match_indices(&format!("{name}::")) {
            if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let rest = &code[at..];
            let path = &rest[..rest.find(|c| !in_a_path(c)).unwrap_or(rest.len())];
            let group = rest[path.len()..].strip_prefix('{').filter(|_| path.ends_with("::"));
            match group.and_then(|group| group.split_once('}')) {
                None => found.push(path.to_owned()),
                Some((group, _)) => {
                    found.extend(
                        group
                            .split([',', '{'])
                            .map(|one| format!("{path}{}", one.trim()))
                            .filter(|one| one != path),
                    );
                }
            }
        }
    }
    found
}

/// Returns the reason why a path is not allowed in the view of `of`.
fn wrong(of: &str, path: &str) -> Option<String> {
    if let Some(metrics) = path.strip_prefix("fathom_analysis::metrics::") {
        let used = metrics.split([':', ' ']).next().unwrap_or_default();
        let shared = ["common", of].contains(&used) || SHARED.contains(&of);
        // The geometry of levels uses the findings of a survey.
        return (!shared && (of, used) != ("conflict", "survey"))
            .then(|| format!("{path} is another experiment's"));
    }
    if let Some(used) = path.strip_prefix("crate::") {
        let module = used.split("::").next().unwrap_or_default();
        let view =
            used.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::view"));
        return (!SHARED.contains(&module) || !view).then(|| format!("{path} is no view"));
    }
    (!ALLOWED.iter().any(|allowed| path.starts_with(allowed)))
        .then(|| format!("{path} is neither metrics nor toolkit"))
}

#[test]
fn a_view_imports_metrics_and_the_toolkit_only() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    views(&sources, false, &mut files);
    assert!(files.len() > 20, "{files:?}");
    for file in files {
        let of = file.strip_prefix(&sources).expect("below").components().next().expect("a module");
        let of = of.as_os_str().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).expect("a source");
        let paths = paths(&text);
        assert!(!paths.is_empty(), "{}", file.display());
        let wrong: Vec<String> = paths.iter().filter_map(|path| wrong(&of, path)).collect();
        assert!(wrong.is_empty(), "{}: {wrong:?}", file.display());
    }
}

#[test]
fn forbidden_paths_in_views_are_found() {
    let text = "use crate::record::{Record, Run};\nuse fathom_probe::wire;\nuse fathom_analysis::{findings::Axis, tiers};\n\
                fn f(a: &crate::survey::reading::A) { crate::claims::rows(a) }\nuse fathom_analysis::metrics::{common, dma};\n\
                use crate::{claims, latency_curve, session};\nuse fathom_report::{notes, number};";
    let found: Vec<String> = paths(text).iter().filter_map(|path| wrong("survey", path)).collect();
    for name in [
        "crate::record::Record",
        "crate::record::Run",
        "fathom_probe::wire",
        "fathom_analysis::tiers",
        "crate::survey::reading::A",
        "crate::claims::rows",
        "fathom_analysis::metrics::dma",
        "crate::session",
    ] {
        assert!(found.iter().any(|wrong| wrong.split(' ').next() == Some(name)), "{name} in {found:?}");
    }
    assert_eq!(found.len(), 8, "{found:?}");
}
