//! The oracle of geometry: for every machine description, run the experiment on the model and get back how each
//! level is built.
//!
//! Right is: the line, the ways and the sets of every level that the experiment says it can decide, and a set of
//! replacement policies with the described one in it. What it refuses is counted apart; it must not err.
//!
//! `ORACLE_FROM=2000` takes other seeds than the committed ones, `ORACLE_COUNT=50` another number of them.

#[path = "oracle/random.rs"]
mod random;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fathom_analysis::findings::{Report, Value};
use fathom_experiment::conflict;
use fathom_experiment::record::Run;
use fathom_experiment::session::{InProcess, Session};
use fathom_model::description::{Description, Level};
use fathom_model::{Model, catalog, expected};

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

/// What became of the questions to some machines.
#[derive(Debug, Default)]
struct Tally {
    right: usize,
    refused: usize,
    wrong: Vec<String>,
}

impl Tally {
    fn decided(&self) -> usize {
        self.right + self.wrong.len()
    }

    fn add(&mut self, what: &str, right: Option<bool>) {
        match right {
            None => self.refused += 1,
            Some(true) => self.right += 1,
            Some(false) => self.wrong.push(what.to_owned()),
        }
    }

    fn take(&mut self, other: Tally) {
        self.right += other.right;
        self.refused += other.refused;
        self.wrong.extend(other.wrong);
    }
}

/// The questions to one level: its sets and ways and its line, and its replacement.
fn judge(d: &Description, report: &Report, n: usize, level: &Level) -> (Tally, Tally) {
    let value = |name: &str| report.findings.iter().find(|f| f.name == name).map(|f| f.value.clone());
    let number = |name: &str| match value(name) {
        Some(Value::Number(v)) => Some(v as u64),
        _ => None,
    };
    let (mut built, mut policy) = (Tally::default(), Tally::default());
    let line = number(&if n == 1 { "line".to_owned() } else { format!("tier.{n}.line") });
    let rows = [
        ("line", line, level.line),
        ("ways", number(&format!("tier.{n}.ways")), level.ways.into()),
        ("sets", number(&format!("tier.{n}.sets")), level.sets()),
    ];
    for (what, found, truth) in rows {
        let said = format!("{} {}: {what} {found:?}, described {truth}", d.name, level.name);
        built.add(&said, found.map(|found| found == truth));
    }
    let found = value(&format!("tier.{n}.policies"));
    let truth = level.replacement.word();
    let right = found.as_ref().map(|found| match found {
        // With one way nothing is chosen, and with two several are one.
        Value::Text(names) => names.split(',').any(|name| name == truth) || level.ways == 1,
        Value::Number(_) => false,
    });
    policy.add(&format!("{} {}: {found:?}, described {truth}", d.name, level.name), right);
    (built, policy)
}

/// Runs all descriptions on two threads; prints and answers what became of sets and lines, and of policies.
fn oracle(what: &str, all: &[Description]) -> (Tally, Tally) {
    let next = AtomicUsize::new(0);
    let sum = Mutex::new((Tally::default(), Tally::default()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(d) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let report = measured(d);
                    for (i, level) in expected::data_levels(d).into_iter().enumerate() {
                        let (built, policy) = judge(d, &report, i + 1, level);
                        let mut sum = sum.lock().unwrap();
                        sum.0.take(built);
                        sum.1.take(policy);
                    }
                }
            });
        }
    });
    let (built, policy) = sum.into_inner().unwrap();
    for (of, tally) in [("lines, ways and sets", &built), ("replacement", &policy)] {
        println!(
            "oracle: {what}: {of}: {} decided, {} right, {} wrong, {} refused",
            tally.decided(),
            tally.right,
            tally.wrong.len(),
            tally.refused
        );
        tally.wrong.iter().for_each(|wrong| println!("  {wrong}"));
    }
    (built, policy)
}

fn committed(most: u64) -> Vec<Description> {
    catalog::names()
        .map(|name| catalog::load(name).unwrap().unwrap())
        .filter(|d| d.levels.iter().map(|l| l.size).max().unwrap_or(0) <= most)
        .collect()
}

fn randoms(count: u64) -> Vec<Description> {
    let of =
        |name: &str, otherwise: u64| std::env::var(name).map_or(otherwise, |n| n.parse().expect("a number"));
    let from = of("ORACLE_FROM", 1000);
    (0..of("ORACLE_COUNT", count)).map(|i| random::description(from + i, random::Spacing::Apart)).collect()
}

/// At least 97 % of what is decided is right, and more than half is decided.
fn assert_mostly(tally: &Tally) {
    assert!(tally.right * 100 >= tally.decided() * 97, "{:#?}", tally.wrong);
    assert!(tally.decided() > tally.refused, "{} decided, {} refused", tally.decided(), tally.refused);
}

#[test]
fn committed_machines_with_small_last_levels_come_back() {
    let (built, policy) = oracle("committed machines, last level up to 512 KiB", &committed(512 << 10));
    assert!(built.wrong.is_empty() && policy.wrong.is_empty(), "{:#?} {:#?}", built.wrong, policy.wrong);
    assert!(built.decided() > built.refused);
}

#[test]
#[ignore = "the big oracle: scripts/test --full"]
fn all_committed_machines_come_back() {
    let (built, policy) = oracle("all committed machines", &committed(u64::MAX));
    assert!(built.wrong.is_empty() && policy.wrong.is_empty(), "{:#?} {:#?}", built.wrong, policy.wrong);
}

#[test]
fn random_machines_come_back() {
    let (built, policy) = oracle("random machines", &randoms(12));
    assert_mostly(&built);
    assert!(policy.wrong.is_empty(), "{:#?}", policy.wrong);
}

#[test]
#[ignore = "the big oracle: scripts/test --full"]
fn two_hundred_random_machines_come_back() {
    let (built, policy) = oracle("random machines", &randoms(200));
    assert_mostly(&built);
    assert!(policy.right * 100 >= policy.decided() * 97, "{:#?}", policy.wrong);
}

#[test]
fn another_machines_truth_is_not_found() {
    // The check itself must be able to fail.
    let load = |name: &str| catalog::load(name).unwrap().unwrap();
    let report = measured(&load("s1-8way"));
    let other = load("bcm2837");
    assert!(!judge(&other, &report, 1, &other.levels[0]).0.wrong.is_empty());
}
