//! A draft made from the survey of a machine has to be surveyed like that machine: the check that the survey
//! itself has to pass, of the machine that was described, on the survey of its draft.

use std::sync::atomic::{AtomicUsize, Ordering};

use fathom_analysis::draft::{Options, draft};
use fathom_analysis::findings::Report;
use fathom_analysis::hierarchy::Hierarchy;
use fathom_model::Description;
use fathom_model::description::Replacement;

use crate::entries::number;
use crate::{committed, latency_curve_wrongs, randoms, report_of, wrongs};

/// The draft of a report, read back.
fn drafted(name: &str, report: &Report) -> (String, Description) {
    let policies: Vec<&str> = Replacement::ALL.iter().map(|p| p.word()).collect();
    let hierarchy = Hierarchy::of(report).expect("a survey has tiers");
    let text = fathom_report::draft(&draft(&hierarchy, &Options { name, policies: &policies }));
    let read = Description::parse(&format!("{name}.toml"), &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    (text, read)
}

/// The report of a machine that claims nothing, as most do little: lines and ways have to be assumed.
fn silent(report: &Report) -> Report {
    let mut silent = report.clone();
    silent.findings.retain(|f| !f.name().starts_with("claim."));
    silent
}

/// Lines, ways and sets that were measured of the machine and are others in the draft. What was not measured is
/// assumed in the draft, and may well be another number.
fn built_otherwise(machine: &Report, draft: &Report) -> Vec<String> {
    let is = |name: &str| [".line", ".ways", ".sets"].iter().any(|end| name.ends_with(end));
    let first = machine.findings.iter().filter(|f| !f.name().starts_with("claim.") && is(&f.name()));
    first
        .filter_map(|f| {
            let (a, b) = (number(machine, &f.name())?.1, number(draft, &f.name())?.1);
            (a != b).then(|| format!("{}: {a} of the machine, {b} of the draft", f.name()))
        })
        .collect()
}

/// How many drafts are surveyed like their machines, and what is wrong with the others. Machines whose own survey is
/// wrong are left out: their drafts cannot be right.
fn reproduced(what: &str, all: &[Description]) -> (usize, usize, Vec<String>) {
    let (next, requested, right) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let failures = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(d) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let report = report_of(d, 1);
                    if !wrongs(d, &report).is_empty() {
                        continue;
                    }
                    requested.fetch_add(1, Ordering::Relaxed);
                    let (text, draft) = drafted(&d.name, &silent(&report));
                    // What a claim alone knows is in the draft as a claim, and only where there are claims.
                    assert!(!text.contains("claimed by"), "{text}");
                    assert!(drafted(&d.name, &report).0.contains("claimed by description, not measured"));
                    let again = report_of(&draft, 2);
                    let mut wrong = latency_curve_wrongs(d, &again);
                    wrong.extend(built_otherwise(&report, &again));
                    match wrong {
                        none if none.is_empty() => drop(right.fetch_add(1, Ordering::Relaxed)),
                        some => {
                            println!("  draft of {}: {}", d.name, some.join("; "));
                            failures.lock().unwrap().push(format!("{}: {some:#?}\n{text}", d.name));
                        }
                    }
                }
            });
        }
    });
    let (requested, right) = (requested.into_inner(), right.into_inner());
    println!("oracle: drafts of {what} surveyed like the machine: {right} of {requested}");
    (right, requested, failures.into_inner().unwrap())
}

#[test]
fn a_draft_is_surveyed_like_the_machine_that_it_was_made_from() {
    let all = committed(2 << 20);
    assert!(all.len() >= 10);
    let (_, requested, failures) = reproduced("committed machines, last level up to 2 MiB", &all);
    assert_eq!(requested, all.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
#[ignore = "the big oracle: scripts/test --full"]
fn drafts_of_random_machines_are_surveyed_like_them() {
    let (right, requested, failures) = reproduced("random machines", &randoms(40));
    // What the survey itself may get wrong of machines that nobody has seen (docs/method/oracle.md), once more.
    assert!(right * 100 >= requested * 90, "{}", failures.join("\n"));
}
