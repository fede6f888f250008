//! TLBs: sets and ways of the model's machines come back from conflicts of pages, or are refused.
//!
//! What ought to come back is read from the description: the TLBs that hold base pages, nearest first, apart from
//! those whose misses cost nothing and so cannot be seen. `TLB_ONLY=haswell` runs one machine and prints its rows.

#[path = "oracle/random.rs"]
mod random;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fathom_analysis::findings::{Report, Value};
use fathom_experiment::conflict;
use fathom_experiment::record::Run;
use fathom_experiment::session::{InProcess, Session};
use fathom_model::description::{Description, Tlb};
use fathom_model::{Model, catalog};

/// Asks a described machine.
fn asked(d: &Description) -> Report {
    let run = Run {
        experiment: conflict::NAME.into(),
        subject: d.name.clone(),
        seed: 1,
        budget_ms: 10_000,
        ..Run::default()
    };
    let (_, record) = InProcess::new(Session::new(conflict::plan, run)).run(&mut Model::new(d, 1));
    conflict::read(&record)
}

fn number(report: &Report, name: &str) -> Option<f64> {
    match report.findings.iter().find(|f| f.name == name)?.value {
        Value::Number(value) => Some(value),
        Value::Text(_) => None,
    }
}

/// How often a machine's TLBs were decided rightly, wrongly, or refused; with a line for each.
#[derive(Default)]
struct Tally {
    /// Ways and sets that are right.
    ways: usize,
    /// All that is right, curves of huge pages included.
    right: usize,
    wrong: usize,
    refused: usize,
    lines: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.ways += other.ways;
        self.right += other.right;
        self.wrong += other.wrong;
        self.refused += other.refused;
        self.lines.extend(other.lines);
    }
}

/// The TLBs that can be seen for pages of a size: where the next one's hit costs nothing, a miss does not.
fn seen(d: &Description, page: u64) -> Vec<&Tlb> {
    let able: Vec<&Tlb> = d.tlbs.iter().filter(|t| t.pages.contains(&page)).collect();
    let costs = |next: Option<&&Tlb>| next.is_none_or(|next| next.latency.in_cycles(d.core.clock_hz) > 0.0);
    able.iter().enumerate().filter(|(i, _)| costs(able.get(i + 1))).map(|(_, t)| *t).collect()
}

fn judge(d: &Description, report: &Report) -> Tally {
    let mut tally = Tally::default();
    if std::env::var("TLB_ONLY").is_ok_and(|name| name == d.name) {
        for f in report.findings.iter().filter(|f| f.name.starts_with("tlb")) {
            println!("{} {:?} {:?}..{:?} {:?}", f.name, f.value, f.low, f.high, f.notes);
        }
    }
    let truth = seen(d, d.memory.pages[0]);
    for n in 1.. {
        let Some(entries) = number(report, &format!("tlb.{n}.entries")) else { break };
        let found = number(report, &format!("tlb.{n}.ways")).zip(number(report, &format!("tlb.{n}.sets")));
        let of = |t: &&&Tlb| (f64::from(t.entries) / entries - 1.0).abs() < 0.15;
        let is = truth.iter().find(of).map(|t| (f64::from(t.ways), f64::from(t.entries / t.ways)));
        let what = format!("tlb.{n}.ways");
        let reason = report.refusals.iter().find(|r| r.what == what).map(|r| r.reason.as_str());
        let kind = match (found, is) {
            (Some(found), Some(is)) if found == is => {
                tally.ways += 1;
                tally.right += 1;
                "right"
            }
            (Some(_), _) => {
                tally.wrong += 1;
                "WRONG"
            }
            (None, _) => {
                assert!(reason.is_some(), "{}: TLB {n} has neither ways nor a refusal", d.name);
                tally.refused += 1;
                "refused"
            }
        };
        tally.lines.push(format!(
            "{}: TLB {n}, {entries} entries: {kind}: {found:?} of {is:?} {}",
            d.name,
            reason.unwrap_or("")
        ));
    }
    huge(d, report, &mut tally);
    tally
}

/// The curve of huge pages: entries of TLBs that it went far enough beyond.
fn huge(d: &Description, report: &Report, tally: &mut Tally) {
    let page = *d.memory.pages.last().unwrap();
    if d.memory.pages.len() < 2 {
        return;
    }
    let truth = seen(d, page);
    for n in 1.. {
        let Some(f) = report.findings.iter().find(|f| f.name == format!("tlb.huge.{n}.entries")) else {
            break;
        };
        let (low, high) = (f.low.unwrap_or(0.0), f.high.unwrap_or(0.0));
        let right = truth.iter().any(|t| (low..=high).contains(&f64::from(t.entries)));
        let noted = f.notes.iter().any(|note| note.contains("not a TLB"));
        *(if right || noted { &mut tally.right } else { &mut tally.wrong }) += 1;
        let kind = if right {
            "right"
        } else if noted {
            "noted"
        } else {
            "WRONG"
        };
        tally.lines.push(format!("{}: huge TLB {n}: {kind}: {low}..{high}", d.name));
    }
    if let Some(quiet) = number(report, "tlb.huge.pages") {
        let smallest = truth.iter().map(|t| f64::from(t.entries)).fold(f64::INFINITY, f64::min);
        // Twice as many pages as entries show a rise, whatever the replacement.
        let right = quiet < 2.0 * smallest;
        *(if right { &mut tally.right } else { &mut tally.wrong }) += 1;
        let kind = if right { "right" } else { "WRONG" };
        tally.lines.push(format!("{}: no huge TLB: {kind}: up to {quiet} pages, {smallest} entries", d.name));
    }
}

/// Judges all on two threads.
fn all(what: &str, machines: &[Description]) -> Tally {
    let next = AtomicUsize::new(0);
    let sum = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(d) = machines.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let one = judge(d, &asked(d));
                    sum.lock().unwrap().add(one);
                }
            });
        }
    });
    let mut sum = sum.into_inner().unwrap();
    sum.lines.sort();
    for line in &sum.lines {
        println!("  {line}");
    }
    println!(
        "{what}: {} right, {} of them ways and sets, {} wrong, {} refused",
        sum.right, sum.ways, sum.wrong, sum.refused
    );
    sum
}

fn only(machines: impl Iterator<Item = Description>) -> Vec<Description> {
    let only = std::env::var("TLB_ONLY").ok();
    machines.filter(|d| only.as_ref().is_none_or(|name| *name == d.name)).collect()
}

/// The committed machines whose last level is at most `most` bytes.
fn committed(most: u64) -> Vec<Description> {
    let all = catalog::names().map(|name| catalog::load(name).unwrap().unwrap());
    only(all.filter(|d| d.levels.iter().map(|l| l.size).max().unwrap_or(0) <= most))
}

fn randoms(count: u64) -> Vec<Description> {
    // TLB_FROM=2000 takes other seeds than the committed ones.
    let from = std::env::var("TLB_FROM").map_or(1000, |n| n.parse().expect("TLB_FROM is a seed"));
    only((0..count).map(|i| random::description(from + i, random::Spacing::Apart)))
}

/// None may be wrong, and so many must be decided.
fn holds(what: &str, machines: &[Description], least: usize) {
    let sum = all(what, machines);
    assert_eq!(sum.wrong, 0, "{:#?}", sum.lines);
    if std::env::var_os("TLB_ONLY").is_none() {
        assert!(sum.ways >= least, "only {} ways were decided", sum.ways);
    }
}

#[test]
fn ways_of_committed_tlbs_with_small_last_levels_come_back() {
    holds("committed machines, last level up to 512 KiB", &committed(512 << 10), 5);
}

#[test]
fn ways_of_random_tlbs_come_back_or_are_refused() {
    holds("random machines", &randoms(6), 4);
}

#[test]
#[ignore = "the big oracle: scripts/test --full"]
fn ways_of_all_committed_tlbs_come_back() {
    holds("all committed machines", &committed(u64::MAX), 25);
}

#[test]
#[ignore = "the big oracle: scripts/test --full"]
fn ways_of_thirty_random_machines_come_back_or_are_refused() {
    holds("thirty random machines", &randoms(30), 18);
}

#[test]
fn a_wrong_description_is_not_given_back() {
    // The check itself must be able to fail: one machine's ways against the truth of another.
    let load = |name: &str| catalog::load(name).unwrap().unwrap();
    let (own, mut other) = (load("i486"), load("i486"));
    other.tlbs[0].ways = 8;
    let report = asked(&own);
    assert_eq!(judge(&own, &report).wrong, 0);
    assert!(judge(&other, &report).wrong > 0);
}
