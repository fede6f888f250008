//! The survey of every described machine must agree with the description.
//!
//! `crates/model/src/expected.rs` computes the expected values from the description alone. The findings must meet the
//! accuracy that the project promises:
//!
//! - as many tiers as levels, plus memory;
//! - every latency within 1 % or 0.2 cycle;
//! - every capacity inside its interval, and the interval at most 6 % wide if misses begin at the size (exclusive
//!   levels: the interval overlaps the range between their size and the sum of sizes);
//! - every TLB's entries inside its interval, its penalty within 3 % or 0.3 cycle; other steps of the translation curve
//!   must have the note that they may be page tables that leave a cache. A TLB whose reach is that of a level (within
//!   1.5) may be merged with it, if the step has the note;
//! - lines, ways and sets as described, if they are not refused (`geometry.rs` counts refusals).

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use fathom_analysis::findings::{Report, Value, WarningKind};
use fathom_experiment::budget::ACCESSES_PER_MS;
use fathom_model::description::Description;
use fathom_model::expected::{Expected, expected};

use crate::built::{self, Built};
use crate::comparison::{self, Verdict};
use crate::entries::number;
use crate::full::full;
use crate::machines::{committed, machine, randoms};
use crate::random::{self, Spacing};
use crate::sessions::{self, BUDGET_MS, Experiment, for_each, measured};

/// Returns the report of a survey.
pub fn report_of(d: &Description, seed: u64) -> Report {
    sessions::report_of(Experiment::Survey, d, seed)
}

/// Asserts that a numeric finding has an interval that holds the truth in two of three surveys of a machine: trials of other seeds move an end that is
/// near another one.
#[track_caller]
pub fn mostly_holds(d: &Description, name: &str, truth: f64) {
    let found: Vec<Option<(f64, f64)>> = (1..=3)
        .map(|seed| {
            let report = report_of(d, seed);
            number(&report, name).map(|(f, v)| (f.low.unwrap_or(v), f.high.unwrap_or(v)))
        })
        .collect();
    let held = found.iter().flatten().filter(|(low, high)| (*low..=*high).contains(&truth)).count();
    assert!(held >= 2, "{name}: {found:?}, expected {truth}");
}

/// Returns all errors of a report; none if it is right.
pub fn wrongs(d: &Description, report: &Report) -> Vec<String> {
    let mut wrong = latency_curve_wrongs(d, report);
    for (_, tally) in built::judge(d, report).kinds() {
        wrong.extend(tally.wrong.iter().cloned());
    }
    wrong
}

/// Returns the errors of the latency curve: tiers, and entries and penalties of TLBs, without geometry.
pub fn latency_curve_wrongs(d: &Description, report: &Report) -> Vec<String> {
    let rows = comparison::latency_curve(d, report).into_iter();
    let mut wrong: Vec<String> =
        rows.filter(|row| row.verdict != Verdict::Right).map(|row| row.text).collect();
    if report.findings.iter().any(|f| f.name() == "disturbed" && f.value != Value::Text("no".into())) {
        wrong.push("a model was called disturbed".into());
    }
    // What is right must not be doubted; what is wrong may be.
    let contradictions = report.warnings.iter().filter(|w| w.kind == WarningKind::CountsContradict);
    wrong.extend(contradictions.map(|warning| format!("counts contradict: {}", warning.text)));
    wrong
}

/// Surveys all descriptions on two threads; prints and returns the number of right ones, and the errors of the others.
fn judge(what: &str, all: &[Description]) -> (usize, Vec<String>) {
    let (failures, sum) = (Mutex::new(Vec::new()), Mutex::new(Built::default()));
    let accesses = AtomicU64::new(0);
    for_each(all, |d| {
        let wrong = measured(Experiment::Survey, d, 1, |survey| {
            accesses.fetch_add(survey.accesses, Ordering::Relaxed);
            sum.lock().unwrap().take(built::judge(d, &survey.report));
            let mut wrong = wrongs(d, &survey.report);
            if survey.accesses > BUDGET_MS * ACCESSES_PER_MS {
                wrong.push(format!("{} accesses are more than the budget", survey.accesses));
            }
            if std::env::var("ORACLE_SHOW").is_ok_and(|name| name == d.name) {
                let json = fathom_report::json(&survey.report, &fathom_experiment::survey::KIND);
                println!("{}\n{json}", d.to_toml());
            }
            wrong
        });
        if !wrong.is_empty() {
            failures.lock().unwrap().push(format!("{}: {}", d.name, wrong.join("; ")));
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    let right = all.len() - failures.len();
    println!(
        "oracle: {what}: {right} of {} right, {:.0} million accesses in all",
        all.len(),
        accesses.into_inner() as f64 / 1e6
    );
    for failure in &failures {
        println!("  {failure}");
    }
    sum.into_inner().unwrap().print(what);
    (right, failures)
}

#[test]
fn surveys_of_committed_machines_with_small_last_levels() {
    let mut machines = committed(768 << 10);
    // A board with the core of cortex-a8: a survey finds no difference.
    machines.retain(|d| full() || d.name != "omap3-sdio");
    let (_, failures) = judge("committed machines, last level up to 768 KiB", &machines);
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
#[ignore = "the big oracle: scripts/test --full"]
fn surveys_of_all_committed_machines() {
    let (_, failures) = judge("all committed machines", &committed(u64::MAX));
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The full tier requires 98 % of two hundred, the default tier all of a few.
#[test]
fn surveys_of_random_machines() {
    let all = randoms(if full() { 200 } else { 5 });
    let (right, failures) = judge("random machines", &all);
    let minimum = if full() { all.len() * 98 / 100 } else { all.len() };
    assert!(right >= minimum, "{failures:#?}");
}

#[test]
fn close_levels_are_separated_or_merged_with_a_note() {
    let all: Vec<Description> =
        (0..if full() { 24 } else { 3 }).map(|i| random::description(5000 + i, Spacing::Close)).collect();
    let mut failures = Vec::new();
    for d in &all {
        let report = report_of(d, 1);
        let truth = expected(d);
        let found = (1..).take_while(|n| number(&report, &format!("tier.{n}.latency")).is_some()).count();
        let last = number(&report, &format!("tier.{found}.latency_cycles"));
        let noted = (1..=found).any(|n| {
            number(&report, &format!("tier.{n}.latency")).is_some_and(|f| {
                f.0.notes.iter().any(|n| n.contains("merged") || n.contains("more than one"))
            })
        });
        let memory = truth.tiers.last().unwrap().cycles;
        let right = last.is_some_and(|l| memory.holds(l.1, 0.01, 0.2));
        if !(right && (found == truth.tiers.len() || noted)) {
            failures.push(format!(
                "{}: {found} tiers of {}, noted {noted}, last {:?} of {memory:?}",
                d.name,
                truth.tiers.len(),
                last.map(|l| l.1)
            ));
        }
    }
    println!(
        "oracle: close levels: {} of {} told apart or merged with a note",
        all.len() - failures.len(),
        all.len()
    );
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn committed_machines_have_different_expected_surveys() {
    let machines = committed(u64::MAX);
    assert!(machines.len() >= 10);
    let looks: Vec<Expected> = machines
        .iter()
        .map(|d| {
            let mut seen = expected(d);
            // A TLB that is not observable makes no difference.
            seen.tlbs.iter_mut().for_each(|t| t.nth = 0);
            seen
        })
        .collect();
    for (i, look) in looks.iter().enumerate() {
        let control = looks[..i].iter().position(|other| other == look).map(|j| machines[j].name.as_str());
        // omap3-sdio is a board with that core; its additional device has no effect on a survey.
        let core = (machines[i].name == "omap3-sdio").then_some("cortex-a8");
        assert_eq!(control, core, "{} and the other, as they look to a survey", machines[i].name);
    }
}

#[test]
fn survey_check_finds_a_wrong_description() {
    // Checks that the check can fail: the survey of one machine against the description of another.
    let report = report_of(&machine("bcm2837"), 1);
    let other = machine("bcm2711");
    assert!(wrongs(&machine("bcm2837"), &report).is_empty());
    assert!(!wrongs(&other, &report).is_empty());
}
