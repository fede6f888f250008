//! A draft made from a machine's survey must give the same survey: the survey of the draft must pass the check of the
//! described machine.

use std::sync::Mutex;

use fathom_analysis::draft::{Options, draft};
use fathom_analysis::findings::Report;
use fathom_analysis::hierarchy::Hierarchy;
use fathom_model::Description;
use fathom_model::description::Replacement;

use crate::entries::number;
use crate::machines::{committed, randoms};
use crate::sessions::for_each;
use crate::survey::{latency_curve_wrongs, report_of, wrongs};

/// Returns the draft of a report, as text and parsed.
fn drafted(name: &str, report: &Report) -> (String, Description) {
    let policies: Vec<&str> = Replacement::ALL.iter().map(|p| p.word()).collect();
    let hierarchy = Hierarchy::of(report).expect("a survey has tiers");
    let text = fathom_report::draft(&draft(&hierarchy, &Options { name, policies: &policies }));
    let read = Description::parse(&format!("{name}.toml"), &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    (text, read)
}

/// Returns a report without claims, so that lines and ways that were not measured have to be assumed.
fn without_claims(report: &Report) -> Report {
    let mut without_claims = report.clone();
    without_claims.findings.retain(|f| !f.name().starts_with("claim."));
    without_claims
}

/// Returns the lines, ways and sets that were measured and that differ in the draft. Values that were not measured are
/// assumed in the draft and may differ.
fn different_geometry(machine: &Report, draft: &Report) -> Vec<String> {
    let is = |name: &str| [".line", ".ways", ".sets"].iter().any(|end| name.ends_with(end));
    let first = machine.findings.iter().filter(|f| !f.name().starts_with("claim.") && is(&f.name()));
    first
        .filter_map(|f| {
            let (a, b) = (number(machine, &f.name())?.1, number(draft, &f.name())?.1);
            (a != b).then(|| format!("{}: {a} of the machine, {b} of the draft", f.name()))
        })
        .collect()
}

/// Returns the number of drafts with the survey of their machine, the number of drafts, and the errors of the others.
/// Machines whose own survey is wrong are left out: their drafts cannot be right.
fn reproduced(what: &str, all: &[Description]) -> (usize, usize, Vec<String>) {
    let results: Mutex<Vec<Result<(), String>>> = Mutex::default();
    for_each(all, |d| {
        let report = report_of(d, 1);
        if wrongs(d, &report).is_empty() {
            let result = check_draft(d, &report);
            results.lock().unwrap().push(result);
        }
    });
    let results = results.into_inner().unwrap();
    let requested = results.len();
    let failures: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    println!(
        "oracle: drafts of {what} surveyed like the machine: {} of {requested}",
        requested - failures.len()
    );
    (requested - failures.len(), requested, failures)
}

/// Returns an error if the survey of the draft differs from that of the machine.
fn check_draft(d: &Description, report: &Report) -> Result<(), String> {
    let (text, draft) = drafted(&d.name, &without_claims(report));
    // A value that is only claimed is a claim in the draft, and only if there are claims.
    assert!(!text.contains("claimed by"), "{text}");
    assert!(drafted(&d.name, report).0.contains("claimed by description, not measured"));
    let again = report_of(&draft, 2);
    let mut wrong = latency_curve_wrongs(d, &again);
    wrong.extend(different_geometry(report, &again));
    if wrong.is_empty() {
        return Ok(());
    }
    println!("  draft of {}: {}", d.name, wrong.join("; "));
    Err(format!("{}: {wrong:#?}\n{text}", d.name))
}

/// The machines whose last level has up to 2 MiB. In the default tier, the tests of the command draft one machine.
#[test]
#[ignore = "the big oracle: scripts/test --full"]
fn drafts_of_committed_machines_are_surveyed_like_them() {
    let all = committed(2 << 20);
    assert!(all.len() >= 10);
    let (_, requested, failures) = reproduced("committed machines with small last levels", &all);
    assert_eq!(requested, all.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
#[ignore = "the big oracle: scripts/test --full"]
fn drafts_of_random_machines_are_surveyed_like_them() {
    let (right, requested, failures) = reproduced("random machines", &randoms(40));
    // 2 % of surveys of random machines may be wrong (docs/method/oracle.md), and so may the second survey.
    assert!(right * 100 >= requested * 90, "{}", failures.join("\n"));
}
