//! The oracle: for every machine description, run the survey on the model and get the description back.
//!
//! What ought to come back is worked out in `crates/model/src/expected.rs`, by a function of the description alone.
//! A finding is right when it is as good as the project promises:
//!
//! - as many tiers as levels, and memory;
//! - every latency within 1 % or 0.2 cycle;
//! - every capacity inside its interval, and the interval no wider than 6 %, where the onset of misses is
//!   the size (exclusive levels: the interval meets the range between their size and what they add up to);
//! - every TLB's entries inside its interval, its penalty within 3 % or 0.3 cycle; what else is found in
//!   the translation curve must carry the note that it may be page tables leaving a cache. A TLB whose reach
//!   coincides with a level's (within 1.5) may be merged with that, if the step found carries the note;
//! - lines, ways and sets as described, where they are not refused (`tests/geometry.rs` counts them).
//!
//! The default tests run the committed machines with small last levels and 12 random ones; the ignored
//! ones (`scripts/test --full`) all committed and 200.

mod built;
mod describe;
mod entries;
mod random;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use built::Built;
use entries::number;
use fathom_analysis::findings::{Report, Value};
use fathom_experiment::budget::ACCESSES_PER_MS;
use fathom_experiment::record::Run;
use fathom_experiment::session::{InProcess, Session};
use fathom_experiment::survey;
use fathom_model::description::Description;
use fathom_model::expected::{Expected, expected};
use fathom_model::{Model, catalog};
use random::Spacing;

/// Random machines of the default tests; the ignored ones take two hundred.
const FEW: u64 = 12;

/// The default budget of the command, ms: 40 million accesses.
const BUDGET_MS: u64 = 10_000;

/// A survey of a described machine.
struct Surveyed {
    report: Report,
    /// Accesses of all its trials.
    accesses: u64,
}

/// Surveys that more than one test needs: by description, as text, and seed.
type Kept = Mutex<HashMap<(String, u64), Arc<OnceLock<Surveyed>>>>;
static KEPT: LazyLock<Kept> = LazyLock::new(Kept::default);

/// The survey of a machine, made once: who comes while it is made waits for it.
fn surveyed(d: &Description, seed: u64) -> Arc<OnceLock<Surveyed>> {
    let place = Arc::clone(KEPT.lock().unwrap().entry((d.to_toml(), seed)).or_default());
    place.get_or_init(|| survey_of(d, seed));
    place
}

fn survey_of(d: &Description, seed: u64) -> Surveyed {
    let run = Run {
        experiment: survey::NAME.into(),
        subject: d.name.clone(),
        seed,
        budget_ms: BUDGET_MS,
        ..Run::default()
    };
    let (_, record) = InProcess::new(Session::new(survey::plan, run)).run(&mut Model::new(d, seed));
    let accesses = record.trials.iter().filter_map(|t| t.done).map(|d| d.watch.accesses).sum();
    Surveyed { report: survey::read(&record), accesses }
}

/// The report of [`surveyed`].
fn report_of(d: &Description, seed: u64) -> Report {
    surveyed(d, seed).get().expect("it was made").report.clone()
}

/// Everything that is wrong with a report; empty when it is right.
fn wrongs(d: &Description, report: &Report) -> Vec<String> {
    let mut wrong = latency_curve_wrongs(d, report);
    for (_, tally) in built::judge(d, report).kinds() {
        wrong.extend(tally.wrong.iter().cloned());
    }
    wrong
}

/// The same, of how levels and TLBs are built only what they reach and take.
fn latency_curve_wrongs(d: &Description, report: &Report) -> Vec<String> {
    let truth = expected(d);
    let mut wrong = entries::entries(&truth, report).1;
    tiers(&truth, report, &mut wrong);
    tlbs(d, &truth, report, &mut wrong);
    if report.findings.iter().any(|f| f.name() == "disturbed" && f.value != Value::Text("no".into())) {
        wrong.push("a model was called disturbed".into());
    }
    wrong
}

fn tiers(truth: &Expected, report: &Report, wrong: &mut Vec<String>) {
    let found = (1..).take_while(|n| number(report, &format!("tier.{n}.latency")).is_some()).count();
    if found != truth.tiers.len() {
        wrong.push(format!("{found} tiers, expected {}", truth.tiers.len()));
        return;
    }
    for (i, tier) in truth.tiers.iter().enumerate() {
        let n = i + 1;
        match number(report, &format!("tier.{n}.latency_cycles")) {
            Some((_, v)) if tier.cycles.holds(v, 0.01, 0.2) => {}
            got => wrong.push(format!("tier {n}: {:?} cycles, expected {:?}", got.map(|g| g.1), tier.cycles)),
        }
        let Some(capacity) = tier.capacity else { continue };
        let Some((finding, v)) = number(report, &format!("tier.{n}.capacity")) else {
            wrong.push(format!("tier {n}: no capacity"));
            continue;
        };
        let (low, high) = (finding.low.unwrap_or(v), finding.high.unwrap_or(v));
        if low > capacity.bytes.high || high < capacity.bytes.low {
            wrong.push(format!("tier {n}: capacity {low:.0}..{high:.0}, expected {:?}", capacity.bytes));
        }
        if capacity.exact && (high - low) / v > 0.06 {
            wrong.push(format!("tier {n}: capacity {low:.0}..{high:.0} is wider than 6 %"));
        }
    }
}

fn tlbs(d: &Description, truth: &Expected, report: &Report, wrong: &mut Vec<String>) {
    let cycle_ns = 1e9 / d.core.clock_hz;
    for (n, tlb) in entries::entries(truth, report).0 {
        let penalty = number(report, &format!("tlb.{n}.penalty")).map_or(0.0, |p| p.1 / cycle_ns);
        if !tlb.penalty.holds(penalty, 0.03, 0.3) {
            wrong.push(format!("TLB {n}: penalty {penalty:.2} cycles, expected {:?}", tlb.penalty));
        }
    }
}

/// Surveys all descriptions on two threads; prints and returns how many are right, and the wrong ones.
fn judge(what: &str, all: &[Description]) -> (usize, Vec<String>) {
    let next = AtomicUsize::new(0);
    let (failures, sum) = (Mutex::new(Vec::new()), Mutex::new(Built::default()));
    let accesses = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(d) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let kept = surveyed(d, 1);
                    let Surveyed { report, accesses: spent } = kept.get().expect("it was made");
                    let (report, spent) = (report, *spent);
                    accesses.fetch_add(spent as usize, Ordering::Relaxed);
                    let mut wrong = wrongs(d, report);
                    sum.lock().unwrap().take(built::judge(d, report));
                    if spent > BUDGET_MS * ACCESSES_PER_MS {
                        wrong.push(format!("{spent} accesses are more than the budget"));
                    }
                    if std::env::var("ORACLE_SHOW").is_ok_and(|name| name == d.name) {
                        println!(
                            "{}\n{}",
                            d.to_toml(),
                            fathom_report::json(report, &fathom_experiment::survey::KIND)
                        );
                    }
                    if !wrong.is_empty() {
                        failures.lock().unwrap().push(format!("{}: {}", d.name, wrong.join("; ")));
                    }
                }
            });
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

/// The committed machines whose last level is at most `most` bytes.
fn committed(most: u64) -> Vec<Description> {
    catalog::names()
        .map(|name| catalog::load(name).unwrap().unwrap())
        .filter(|d| d.levels.iter().map(|l| l.size).max().unwrap_or(0) <= most)
        .collect()
}

fn randoms(count: u64) -> Vec<Description> {
    // ORACLE_ONLY=random-1007,random-1008 surveys these alone, ORACLE_SHOW=random-1007 prints all it found,
    // ORACLE_FROM=2000 takes other seeds than the committed ones.
    let only = std::env::var("ORACLE_ONLY").ok();
    let from = std::env::var("ORACLE_FROM").map_or(1000, |n| n.parse().expect("ORACLE_FROM is a seed"));
    (0..count)
        .map(|i| random::description(from + i, Spacing::Apart))
        .filter(|d| only.as_ref().is_none_or(|names| names.split(',').any(|name| name == d.name)))
        .collect()
}

#[test]
fn committed_machines_with_small_last_levels_come_back() {
    let (_, failures) = judge("committed machines, last level up to 2 MiB", &committed(2 << 20));
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
#[ignore = "the big oracle: scripts/test --full"]
fn all_committed_machines_come_back() {
    let (_, failures) = judge("all committed machines", &committed(u64::MAX));
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn random_machines_come_back() {
    let all = randoms(FEW);
    let (right, failures) = judge("random machines", &all);
    // Of many at least 98 % are (the ignored test below); of these few all.
    assert_eq!(right, all.len(), "{failures:#?}");
}

#[test]
#[ignore = "the big oracle: scripts/test --full"]
fn two_hundred_random_machines_come_back() {
    let all = randoms(200);
    let (right, failures) = judge("random machines", &all);
    assert!(right * 100 >= all.len() * 98, "{failures:#?}");
}

#[test]
fn close_levels_are_told_or_merged_with_a_note() {
    close_levels(FEW / 2);
}

#[test]
#[ignore = "the big oracle: scripts/test --full"]
fn many_close_levels_are_told_or_merged_with_a_note() {
    close_levels(24);
}

fn close_levels(count: u64) {
    let all: Vec<Description> = (0..count).map(|i| random::description(5000 + i, Spacing::Close)).collect();
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
fn every_committed_machine_differs_in_what_a_survey_finds() {
    let machines = committed(u64::MAX);
    assert!(machines.len() >= 10);
    let looks: Vec<Expected> = machines
        .iter()
        .map(|d| {
            let mut seen = expected(d);
            // A TLB that cannot be seen is no difference.
            seen.tlbs.iter_mut().for_each(|t| t.nth = 0);
            seen
        })
        .collect();
    for (i, look) in looks.iter().enumerate() {
        let control = looks[..i].iter().position(|other| other == look).map(|j| machines[j].name.as_str());
        // A board with that core: what it has besides, a device, is nothing to a survey.
        let core = (machines[i].name == "omap3-sdio").then_some("cortex-a8");
        assert_eq!(control, core, "{} and the other, as they look to a survey", machines[i].name);
    }
}

#[test]
fn a_wrong_description_is_not_given_back() {
    // The check itself must be able to fail: the survey of one machine against the truth of another.
    let load = |name: &str| catalog::load(name).unwrap().unwrap();
    let report = report_of(&load("bcm2837"), 1);
    let other = load("bcm2711");
    assert!(wrongs(&load("bcm2837"), &report).is_empty());
    assert!(!wrongs(&other, &report).is_empty());
}
