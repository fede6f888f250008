//! Wake-up latency on a simulated machine whose wake-ups are drawn from known distributions: every planted effect must
//! be found, and no other.

#[path = "../common/asked.rs"]
mod asked;
mod described;
mod effects;
mod paper;
mod plans;
mod sweep;

use asked::asked;
use fathom_analysis::findings::{Report, Value};
use fathom_analysis::metrics::wakeup as metrics;
use fathom_experiment::record::{Record, Run};
use fathom_experiment::session::{InProcess, Session};
use fathom_experiment::wakeup;
use fathom_experiment::wakeup::conditions::NAMED;
use fathom_model::{Model, catalog};
use fathom_probe::load::Stress;
use fathom_probe::machine::Machine;
use fathom_probe::wire::Line;
use paper::Paper;

fn session<M: Machine>(machine: &mut M, run: Run) -> (Vec<String>, Record) {
    let run = Run { experiment: wakeup::NAME.into(), subject: "paper".into(), seed: 1, ..run };
    InProcess::new(Session::new(wakeup::plan, run)).run(machine)
}

fn measure(machine: &mut Paper, run: Run) -> Report {
    let (transcript, record) = session(machine, run);
    assert_eq!(record.problems, Vec::<String>::new());
    assert!(record.trials.iter().all(|r| r.unverified == 0), "an activation proves nothing");
    // The record gives the same report when read from text.
    let again = Record::parse(&transcript.join("\n")).expect("a record");
    let report = wakeup::read(&record);
    assert_eq!(wakeup::read(&again), report);
    report
}

/// Returns a run with these options and this budget.
fn run(budget_ms: u64, typed: &[(&str, &str)]) -> Run {
    Run { asked: asked(wakeup::options::ALL, typed), budget_ms, ..Run::default() }
}

fn minute() -> Run {
    run(60_000, &[])
}

fn row<'a>(report: &'a Report, name: &str) -> Option<&'a fathom_analysis::findings::Finding> {
    report.findings.iter().find(|f| f.name() == name)
}

fn number(report: &Report, name: &str) -> f64 {
    match row(report, name).map(|f| &f.value) {
        Some(Value::Number(v)) => *v,
        other => panic!("{name}: {other:?}"),
    }
}

/// Returns a sweep with this budget.
fn sweep(budget_ms: u64) -> Run {
    run(budget_ms, &[("sweep", ""), ("modes", "free")])
}

/// Adds a step of 2 us at 32 MiB.
fn step_at_32_mib(s: &fathom_probe::load::Stressor) -> u64 {
    if s.bytes >= 32 << 20 { 2000 } else { 0 }
}
