//! Where the late ones went: stages, what ran then, what comes back periodically, and how late once an hour.

use fathom_analysis::findings::Report;
use fathom_analysis::interval::{quantile, sorted};
use fathom_analysis::wakeup::cadence::{self, Candidate};
use fathom_analysis::wakeup::extremes::{self, Ask};
use fathom_analysis::wakeup::stages::{self, Staged};

use super::conditions::{Cell, State};
use super::plan::{every_ns, seed_of, traced};
use super::reading::{Unit, refuse, user};
use super::series::{Due, Series, staged};
use crate::reading::{measured, number};
use crate::record::Record;

/// The worst ones that are told.
const WORST: usize = 8;
/// Late is what fewer than one in so many activations of the same condition is: p99.5, so that a cadence of 100 ms is
/// ten times as frequent as what chance leaves at 1 ms.
const LATE: f64 = 0.995;
/// The worst have one cause where so many of them were held up in one stage.
const COMMON: f64 = 0.75;
/// An hour, ns: a return level is of the activations that it has.
const HOUR_NS: f64 = 3.6e12;

/// The rows of all cells.
pub(super) fn rows(record: &Record, cells: &[Cell], unit: Unit, report: &mut Report) {
    let traced = traced(record);
    // What the task's own spoiling adds is no cause to look for.
    let idle = cells.iter().filter(|cell| cell.state == State::Idle);
    let all: Vec<(&Cell, Series)> = idle.map(|cell| (cell, Series::of(record, cell, traced))).collect();
    worst(&all, unit, report);
    stage_rows(&all, unit, report);
    cadences(record, &all, report);
    for (cell, series) in &all {
        if matches!(cell.token.as_str(), "none" | "study" | "study-vm") && !series.runs.is_empty() {
            hourly(record, &cell.token, series, unit, report);
        }
    }
}

/// The latest activations of all, each with its stages and what ran.
fn worst(all: &[(&Cell, Series)], unit: Unit, report: &mut Report) {
    let mut latest: Vec<(&str, Due)> = Vec::new();
    for (cell, series) in all {
        latest.extend(series.due().into_iter().map(|due| (cell.token.as_str(), due)));
        latest.sort_by_key(|(_, due)| std::cmp::Reverse(due.woke.user_ns));
        latest.truncate(WORST);
    }
    for (i, (condition, due)) in latest.iter().enumerate() {
        let us = due.woke.user_ns as f64 / 1000.0;
        let mut row = number(format!("worst.{}.latency", i + 1), us * unit.of_us, unit.name);
        (row.count, row.trials) = (1, vec![due.run.trial.id]);
        row.notes.push(format!("under {condition}"));
        if due.woke.missed > 0 || due.woke.involuntary > 0 {
            row.notes.push(format!(
                "{} periods slept through before it, {} involuntary switches",
                due.woke.missed, due.woke.involuntary
            ));
        }
        if let Some(staged) = staged(due) {
            row.notes.push(parts(&staged, unit));
        }
        let around = due.run.wakeups.around.iter().filter(|around| around.nth == due.nth);
        row.notes.extend(around.map(|a| format!("+{:.1} us {}", a.at_ns as f64 / 1000.0, a.what)));
        report.findings.push(row);
    }
}

/// The stages of one activation in words.
fn parts(staged: &Staged, unit: Unit) -> String {
    let stages = staged.stages();
    let parts = stages.iter().map(|(stage, us)| format!("{} {:.1}", stage.token(), us * unit.of_us));
    format!("{}, in {}", parts.collect::<Vec<_>>().join(", "), unit.name)
}

/// What a stage takes, of all activations and of the worst.
fn stage_rows(all: &[(&Cell, Series)], unit: Unit, report: &mut Report) {
    let staged: Vec<Staged> = all.iter().flat_map(|(_, series)| series.staged()).collect();
    let Some(reading) = stages::read(&staged, WORST) else { return };
    for row in &reading.rows {
        let mut of = |name: &str, us: fathom_analysis::interval::Interval, count: usize, note: String| {
            let name = format!("stage.{}.{name}", row.stage.token());
            let mut row = measured(name, us.scaled(unit.of_us), unit.name, count, &[]);
            row.notes.push(note);
            report.findings.push(row);
        };
        of("all", row.all, reading.count, "median over all activations".into());
        let note = format!("median over the {WORST} worst; it dominates {} of them", row.dominates);
        of("worst", row.worst, reading.worst.len(), note);
    }
}

/// Periods that have a name on this machine.
fn candidates(record: &Record) -> Vec<Candidate> {
    let named = |name: &str, period_ns: u64| Candidate { name: name.to_owned(), period_ns };
    // CONFIG_HZ is one of 100, 250, 300 and 1000 (kernel/Kconfig.hz); which one, a kernel need not say.
    let mut all = vec![named("tick", 1_000_000), named("tick", 4_000_000), named("tick", 10_000_000)];
    all.push(named("tick", 3_333_333));
    // The default period of a bandwidth quota (Documentation/scheduler/sched-bwc.rst), here or at a guest's host.
    all.push(named("quota", 100_000_000));
    // The throttle's, and the default period of the fair server that has taken its place since Linux 6.8
    // (kernel/sched/fair.c: 50 ms of every second).
    all.push(named("throttle", record.int("throttle.period.ns").unwrap_or(1_000_000_000)));
    all.push(named("fair-server", 1_000_000_000));
    all
}

/// What comes back periodically among the late activations of every condition, in real time.
fn cadences(record: &Record, all: &[(&Cell, Series)], report: &mut Report) {
    let mut times: Vec<u64> = Vec::new();
    for (_, series) in all {
        let due = series.due();
        let late = sorted(&due.iter().map(|d| d.woke.user_ns as f64).collect::<Vec<_>>());
        let Some(limit) = quantile(&late, LATE) else { continue };
        times.extend(due.iter().filter(|d| d.woke.user_ns as f64 > limit).map(|d| d.at_ns));
    }
    times.sort_unstable();
    for found in cadence::find(&times, every_ns(record), &candidates(record)) {
        let period = found.period_ns.scaled(1e-6);
        let name = match found.names.first() {
            Some(name) => name.clone(),
            None => "unknown".to_owned(),
        };
        if report.findings.iter().any(|f| f.name == format!("cause.{name}.share")) {
            continue;
        }
        let count = found.count;
        report.findings.push(measured(format!("cause.{name}.period"), period, "ms", count, &[]));
        let mut row = measured(format!("cause.{name}.share"), found.share, "", count, &[]);
        let others = found.names.iter().skip(1).filter(|other| **other != name);
        row.notes.push("share of the activations beyond p99.5 of their condition that come back so".into());
        row.notes.extend(others.map(|other| format!("or {other}, which has the same period")));
        report.findings.push(row);
    }
}

/// How late once an hour, where that may be said.
fn hourly(record: &Record, token: &str, series: &Series, unit: Unit, report: &mut Report) {
    let reading = stages::read(&series.staged(), WORST);
    let ask = Ask {
        period_ns: every_ns(record),
        tick_ns: 4_000_000,
        once_in: HOUR_NS / every_ns(record).max(1) as f64,
        mixed_causes: reading.is_some_and(|reading| reading.common(COMMON).is_none()),
        candidates: candidates(record),
        seed: seed_of(record, 0xe0f),
    };
    let name = format!("wakeup.user.{token}.hourly");
    let latencies = user(series);
    match extremes::level(&latencies, &ask) {
        Ok(level) => {
            let mut row =
                measured(name, level.us.scaled(unit.of_us), unit.name, latencies.len(), &series.trials());
            row.notes.push(format!(
                "exceeded once an hour, extrapolated: {} clusters above {:.1} us, shape {:.2}",
                level.clusters, level.threshold, level.shape
            ));
            report.findings.push(row);
        }
        Err(refusal) => {
            let remedy = match refusal {
                extremes::Refusal::TooFew { .. } | extremes::Refusal::TooWide { .. } => {
                    "give it more time: --budget 5m"
                }
                extremes::Refusal::Periodic(_) | extremes::Refusal::MixedCauses => {
                    "look at the causes first: no tail describes several"
                }
                _ => "",
            };
            refuse(report, &name, why(&refusal, unit), remedy);
        }
    }
}

fn why(refusal: &extremes::Refusal, unit: Unit) -> String {
    use extremes::Refusal;
    match refusal {
        Refusal::TooFew { clusters } => {
            format!("only {clusters} clusters of late activations, and {} are needed", extremes::FEWEST)
        }
        Refusal::MixedCauses => "the worst activations were held up in different stages".into(),
        Refusal::Periodic(cadence) => format!(
            "late activations come back every {:.1} ms: that is no chance",
            cadence.period_ns.value / 1e6
        ),
        Refusal::NotStationary => "late activations were more frequent at one time than at another".into(),
        Refusal::Unstable => "the tail has another shape at each threshold".into(),
        Refusal::NoFit => "no generalised Pareto tail fits what was seen".into(),
        Refusal::TooHeavy { shape } => format!("the tail is too heavy to extrapolate: shape {shape:.2}"),
        Refusal::Within => "it was exceeded more often than that: read it off the percentiles".into(),
        Refusal::TooWide { low, high } => format!(
            "anything from {:.0} to {:.0} {}: more than a decade is no answer",
            low * unit.of_us,
            high * unit.of_us,
            unit.name
        ),
    }
}
