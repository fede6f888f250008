//! The oracle of geometry: for every machine description, run the experiment on the model and get back how each
//! level and each TLB is built.
//!
//! Right is: the line, the ways and the sets of every level that the experiment says it can decide, a set of
//! replacement policies with the described one in it, and the entries, ways and sets of the TLBs. What it refuses is
//! counted apart; it must not err.
//!
//! `ORACLE_FROM=2000` takes other seeds than the committed ones, `ORACLE_COUNT=50` another number of them,
//! `ORACLE_ONLY=haswell` one machine, `ORACLE_REFUSED=1` prints what was refused.

#[path = "oracle/built.rs"]
mod built;
#[path = "oracle/entries.rs"]
mod entries;
#[path = "oracle/random.rs"]
mod random;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use built::{Built, judge};
use fathom_analysis::findings::Report;
use fathom_experiment::conflict;
use fathom_experiment::record::Run;
use fathom_experiment::session::{InProcess, Session};
use fathom_model::description::Description;
use fathom_model::{Model, catalog};

/// As much as a survey takes by default, ms: 40 million accesses.
const BUDGET_MS: u64 = 10_000;

fn measured(d: &Description) -> Report {
    let run = Run {
        experiment: conflict::NAME.into(),
        subject: d.name.clone(),
        seed: 1,
        budget_ms: BUDGET_MS,
        ..Run::default()
    };
    let (_, record) = InProcess::new(Session::new(conflict::plan, run)).run(&mut Model::new(d, 1));
    conflict::read(&record)
}

/// Runs all descriptions on two threads; prints and returns what became of the questions.
fn oracle(what: &str, all: &[Description]) -> Built {
    let next = AtomicUsize::new(0);
    let sum = Mutex::new(Built::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(d) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let one = judge(d, &measured(d));
                    sum.lock().unwrap().take(one);
                }
            });
        }
    });
    let sum = sum.into_inner().unwrap();
    sum.print(what);
    sum
}

fn only(machines: impl Iterator<Item = Description>) -> Vec<Description> {
    let only = std::env::var("ORACLE_ONLY").ok();
    machines.filter(|d| only.as_ref().is_none_or(|name| *name == d.name)).collect()
}

fn committed(most: u64) -> Vec<Description> {
    let all = catalog::names().map(|name| catalog::load(name).unwrap().unwrap());
    only(all.filter(|d| d.levels.iter().map(|l| l.size).max().unwrap_or(0) <= most))
}

fn randoms(count: u64) -> Vec<Description> {
    let of =
        |name: &str, otherwise: u64| std::env::var(name).map_or(otherwise, |n| n.parse().expect("a number"));
    let from = of("ORACLE_FROM", 1000);
    only((0..of("ORACLE_COUNT", count)).map(|i| random::description(from + i, random::Spacing::Apart)))
}

/// At least `percent` of what is decided is right, and more than half is decided; of replacement, which only the two
/// nearest levels are asked for and that not behind an undecided one, a fifth (of 200 machines it was 39 %).
/// Of TLBs' ways and sets none may be wrong, and at least `ways` are decided.
fn assert_right(built: &Built, percent: usize, ways: usize) {
    assert!(built.tlbs.wrong.is_empty(), "{:#?}", built.tlbs.wrong);
    let only = std::env::var_os("ORACLE_ONLY").is_some();
    assert!(built.tlbs.right >= ways || only, "only {} TLBs' ways were decided", built.tlbs.right);
    for (of, tally) in built.kinds() {
        assert!(tally.right * 100 >= tally.decided() * percent, "{of}: {:#?}", tally.wrong);
        let (decided, refused) = (tally.decided(), tally.refused.len());
        let least = if of == "replacement" { 5 } else { 2 };
        let enough = least * decided >= decided + refused;
        assert!(enough || only, "{of}: {decided} decided, {refused} refused");
    }
}

#[test]
fn committed_machines_with_small_last_levels_come_back() {
    let built = oracle("committed machines, last level up to 512 KiB", &committed(512 << 10));
    assert_right(&built, 100, 5);
}

#[test]
#[ignore = "the big oracle: scripts/test --full"]
fn all_committed_machines_come_back() {
    let built = oracle("all committed machines", &committed(u64::MAX));
    assert_right(&built, 100, 20);
}

#[test]
fn random_machines_come_back() {
    let built = oracle("random machines", &randoms(12));
    assert_right(&built, 97, 8);
}

#[test]
#[ignore = "the big oracle: scripts/test --full"]
fn two_hundred_random_machines_come_back() {
    let built = oracle("random machines", &randoms(200));
    assert_right(&built, 97, 100);
}

#[test]
fn another_machines_truth_is_not_found() {
    // The check itself must be able to fail.
    let load = |name: &str| catalog::load(name).unwrap().unwrap();
    let report = measured(&load("s1-8way"));
    assert!(!judge(&load("bcm2837"), &report).caches.wrong.is_empty());
    let mut other = load("i486");
    let report = measured(&other);
    assert!(judge(&other, &report).tlbs.wrong.is_empty());
    other.tlbs[0].ways = 8;
    assert!(!judge(&other, &report).tlbs.wrong.is_empty());
}

#[test]
fn what_does_not_fit_into_memory_takes_nothing_else_away() {
    // Arrangements and huge pages are refused for their size; that there are huge pages stays known.
    let mut d = catalog::load("cortex-a8").unwrap().unwrap();
    d.memory.size = 8 << 20;
    let report = measured(&d);
    assert!(report.refusals.iter().any(|r| r.reason.contains("do not fit")), "{:?}", report.refusals);
    let built = judge(&d, &report);
    assert!(built.caches.right >= 4 && built.caches.wrong.is_empty(), "{built:?}");
}
