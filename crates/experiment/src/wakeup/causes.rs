//! Causes of late activations: stages, tasks that ran, periodic causes, and the latency exceeded once an hour.

use fathom_analysis::findings::{Basis, Finding, Item, Metric, Report};
use fathom_analysis::interval::{Interval, quantile, sorted};
use fathom_analysis::metrics::wakeup as metrics;
use fathom_analysis::metrics::wakeup::condition;
use fathom_analysis::wakeup::cadence::{self, Candidate};
use fathom_analysis::wakeup::extremes::{self, Request};
use fathom_analysis::wakeup::stages::{self, StagedActivation};
use fathom_probe::rows::NearbyEvent;
use fathom_units::facts;

use super::conditions::{Case, State};
use super::series::{Due, Place, Series, staged};
use super::spot::{Spot, Unit, refuse, user};
use super::trials::{every_ns, seed_of, traced};
use crate::reading::{measured, number};
use crate::record::Record;

/// Number of worst activations that are reported.
const MAX_WORST: usize = 8;
/// Quantile of a condition above which an activation is late. At p99.5 a cadence of 100 ms is ten times as frequent as
/// random late activations at a period of 1 ms.
const LATE_QUANTILE: f64 = 0.995;
/// Share of the worst activations that must be delayed in the same stage to have a common cause.
const MIN_COMMON_SHARE: f64 = 0.75;
/// An hour, ns: the return period of the extrapolation.
const HOUR_NS: f64 = 3.6e12;

/// Adds the findings of all cases.
pub(super) fn rows(record: &Record, cases: &[Case], unit: Unit, report: &mut Report) {
    let traced = traced(record);
    // Latency that the task's own cache flushes add is not a cause to look for.
    let idle = cases.iter().filter(|case| case.state == State::Idle);
    let all: Vec<(&Case, Series)> = idle.map(|case| (case, Series::of(record, case, traced))).collect();
    worst(&all, unit, report);
    stage_rows(&all, unit, report);
    cadences(record, &all, report);
    for (case, series) in &all {
        if matches!(
            case.token.as_str(),
            condition::UNLOADED | condition::STRESS_MIX | condition::STRESS_MIX_VM
        ) && !series.runs.is_empty()
        {
            return_level(record, &case.token, series, unit, report);
        }
    }
}

/// Adds the worst activations of all cases, each with its stages and trace events.
fn worst(all: &[(&Case, Series)], unit: Unit, report: &mut Report) {
    let mut largest: Vec<(&str, Due)> = Vec::new();
    for (case, series) in all {
        largest.extend(series.due().into_iter().map(|due| (case.token.as_str(), due)));
        largest.sort_by_key(|(_, due)| std::cmp::Reverse(due.woke.user_ns));
        largest.truncate(MAX_WORST);
    }
    for (i, (condition, due)) in largest.iter().enumerate() {
        report.findings.push(one_of_the_worst(i + 1, condition, due, unit));
    }
}

/// Returns one of the worst activations: condition, stages, and trace events up to the task's run.
fn one_of_the_worst(rank: usize, condition: &str, due: &Due, unit: Unit) -> Finding {
    let us = due.woke.user_ns as f64 / 1000.0;
    let mut row = number(metrics::WORST_LATENCY.at([rank.into()]), us * unit.of_us, unit.name);
    (row.count, row.trials) = (1, vec![due.run.trial.id]);
    row.detail.set(metrics::CONDITION, Item::Token(condition.to_owned()));
    row.detail.set(metrics::SLEPT, Item::Number(due.woke.missed as f64));
    row.detail.set(metrics::PREEMPTED, Item::Number(due.woke.involuntary as f64));
    if let Some(staged) = staged(due) {
        let stages = staged.stages().into_iter();
        let stages = stages.map(|(stage, us)| (stage.token().to_owned(), us * unit.of_us));
        row.detail.set(metrics::STAGES, Item::Numbers(stages.collect()));
    }
    let around: Vec<&NearbyEvent> = due.run.wakeups.around.iter().filter(|a| a.nth == due.nth).collect();
    if !around.is_empty() {
        let events = around.iter().map(|a| (a.what.clone(), a.at_ns as f64 / 1000.0));
        row.detail.set(metrics::EVENTS, Item::Numbers(events.collect()));
    }
    if let Some(other) = ran_before(&around, due.woke.user_ns) {
        row.detail.set(metrics::RAN_BEFORE, Item::Token(other.to_owned()));
    }
    row
}

/// Returns the task on the CPU before the last switch before the task ran.
fn ran_before<'a>(around: &[&'a NearbyEvent], user_ns: u64) -> Option<&'a str> {
    let switches =
        around.iter().filter(|a| a.at_ns <= user_ns).filter_map(|a| a.what.strip_prefix("switch "));
    Some(switches.filter_map(|switch| switch.split_once(" -> ")).next_back()?.0)
}

/// Adds the time of each stage, over all activations and over the worst.
fn stage_rows(all: &[(&Case, Series)], unit: Unit, report: &mut Report) {
    let staged: Vec<StagedActivation> = all.iter().flat_map(|(_, series)| series.staged()).collect();
    let Some(reading) = stages::read(&staged, MAX_WORST) else { return };
    for row in &reading.rows {
        let of = |metric: &'static Metric, us: Interval, count: usize| {
            measured(metric.at([row.stage.token().into()]), us.scaled(unit.of_us), unit.name, count, &[])
        };
        let all = of(&metrics::STAGE_ALL, row.all, reading.count);
        let mut worst = of(&metrics::STAGE_WORST, row.worst, reading.worst.len());
        worst.detail.set(metrics::DOMINATES, Item::Number(row.dominates as f64));
        report.findings.extend([all, worst]);
    }
}

/// Returns the known periodic causes on this machine.
fn candidates(record: &Record) -> Vec<Candidate> {
    let named = |name: &str, period_ns: u64| Candidate { name: name.to_owned(), period_ns };
    // CONFIG_HZ is one of 100, 250, 300 and 1000 (kernel/Kconfig.hz); the kernel need not report which.
    let mut all = vec![named("tick", 1_000_000), named("tick", 4_000_000), named("tick", 10_000_000)];
    all.push(named("tick", 3_333_333));
    // The default period of a bandwidth quota (Documentation/scheduler/sched-bwc.rst), in this system or on a guest's
    // host.
    all.push(named("quota", 100_000_000));
    // The period of the RT throttle, and the default period of the fair server that replaces it since Linux 6.8
    // (kernel/sched/fair.c: 50 ms of every second).
    all.push(named("throttle", record.int(facts::THROTTLE_PERIOD_NS).unwrap_or(1_000_000_000)));
    all.push(named("fair-server", 1_000_000_000));
    all
}

/// Adds the periods in real time among the late activations of all conditions.
fn cadences(record: &Record, all: &[(&Case, Series)], report: &mut Report) {
    let mut times: Vec<u64> = Vec::new();
    for (_, series) in all {
        let due = series.due();
        let late = sorted(&due.iter().map(|d| d.woke.user_ns as f64).collect::<Vec<_>>());
        let Some(limit) = quantile(&late, LATE_QUANTILE) else { continue };
        times.extend(due.iter().filter(|d| d.woke.user_ns as f64 > limit).map(|d| d.at_ns));
    }
    times.sort_unstable();
    for found in cadence::find(&times, every_ns(record), &candidates(record)) {
        let period = found.period_ns.scaled(1e-6);
        let name = match found.names.first() {
            Some(name) => name.clone(),
            None => "unknown".to_owned(),
        };
        let [period_key, share_key] =
            [&metrics::CAUSE_PERIOD, &metrics::CAUSE_SHARE].map(|metric| metric.at([(&name).into()]));
        if report.find(share_key.clone()).is_some() {
            continue;
        }
        let count = found.count;
        report.findings.push(measured(period_key, period, "ms", count, &[]));
        let mut row = measured(share_key, found.share, "", count, &[]);
        let others: Vec<String> =
            found.names.iter().skip(1).filter(|other| **other != name).cloned().collect();
        row.notes.push("share of the activations above p99.5 of their condition with this period".into());
        row.notes.extend(others.iter().map(|other| format!("or {other} (same period)")));
        if !others.is_empty() {
            row.detail.set(metrics::OTHERS, Item::Tokens(others));
        }
        report.findings.push(row);
    }
}

/// Adds the latency exceeded once an hour, if the extrapolation is valid.
fn return_level(record: &Record, token: &str, series: &Series, unit: Unit, report: &mut Report) {
    let reading = stages::read(&series.staged(), MAX_WORST);
    let request = Request {
        period_ns: every_ns(record),
        tick_ns: 4_000_000,
        once_in: HOUR_NS / every_ns(record).max(1) as f64,
        mixed_causes: reading.is_some_and(|reading| reading.common(MIN_COMMON_SHARE).is_none()),
        candidates: candidates(record),
        seed: seed_of(record, 0xe0f),
    };
    let key = Spot { place: Place::User.token(), condition: token }.key(&metrics::WAKEUP_RETURN_LEVEL_1H);
    let latencies = user(series);
    match extremes::level(&latencies, &request) {
        Ok(level) => {
            let mut row =
                measured(key, level.us.scaled(unit.of_us), unit.name, latencies.len(), &series.trials());
            row.basis = Basis::Fitted;
            row.notes.push(format!(
                "exceeded once an hour (extrapolated from {} clusters above {:.1} us, shape {:.2})",
                level.clusters, level.threshold, level.shape
            ));
            report.findings.push(row);
        }
        Err(refusal) => {
            let remedy = match refusal {
                extremes::Refusal::TooFew { .. } | extremes::Refusal::TooWide { .. } => {
                    "give it a larger --budget: 5m or more"
                }
                extremes::Refusal::Periodic(_) | extremes::Refusal::MixedCauses => {
                    "remove the causes first: no single tail describes several causes"
                }
                _ => "",
            };
            refuse(report, &key.name(), reason(&refusal, unit), remedy);
        }
    }
}

fn reason(refusal: &extremes::Refusal, unit: Unit) -> String {
    use extremes::Refusal;
    match refusal {
        Refusal::TooFew { clusters } => {
            format!("{clusters} clusters of late activations; at least {} needed", extremes::MIN_CLUSTERS)
        }
        Refusal::MixedCauses => "the worst activations were delayed in different stages".into(),
        Refusal::Periodic(cadence) => format!(
            "late activations are periodic ({:.1} ms), so extreme-value extrapolation does not apply",
            cadence.period_ns.value / 1e6
        ),
        Refusal::NotStationary => "the rate of late activations changed during the measurement".into(),
        Refusal::Unstable => "the shape of the tail depends on the threshold".into(),
        Refusal::NoFit => "no generalised Pareto tail fits the data".into(),
        Refusal::TooHeavy { shape } => format!("the tail is too heavy to extrapolate: shape {shape:.2}"),
        Refusal::Within => "it is exceeded more often than once an hour: see the percentiles".into(),
        Refusal::TooWide { low, high } => format!(
            "interval {:.0} to {:.0} {} spans more than a decade: not reported",
            low * unit.of_us,
            high * unit.of_us,
            unit.name
        ),
    }
}
