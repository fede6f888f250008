//! The reading: what each condition does to each place of a wake-up, what that costs to know, and where it went.

use fathom_analysis::findings::words;
use fathom_analysis::findings::{Basis, Finding, Histogram, Metric, Report, Warning};
use fathom_analysis::interval::grouped_interval;
use fathom_analysis::metrics::wakeup as metrics;
use fathom_analysis::wakeup::summary::{self, Run, Summary};
use fathom_probe::machine::ClockTrust;
use fathom_probe::pattern::{PatternKind, Wake};
use fathom_units::facts;

use super::conditions::{self, Case};
use super::options::Options;
use super::series::{Place, Series};
use super::spot::{Spot, Unit, refuse};
use super::{NAME, attribution, causes, imported, sweep, sweep_rows};
use crate::reading::{begun, measured, number, refuse_all};
use crate::record::Record;

/// The report of a record.
#[must_use]
pub fn read(record: &Record) -> Report {
    let mut report = begun(record, NAME);
    imported::rows(record, &mut report);
    if record.trials.is_empty() && !record.imported.is_empty() {
        return report;
    }
    let Some(unit) = Unit::of(record) else {
        refuse_all(record, "every wake-up", &mut report);
        return report;
    };
    setup(record, unit, &mut report);
    not_run(record, &mut report);
    let sweep = Options::of(record).sweep;
    let cases = if sweep { Vec::new() } else { conditions::cases(record) };
    let traced = super::trials::traced(record);
    let (measured, lacking): (Vec<&Case>, Vec<&Case>) =
        cases.iter().partition(|case| !Series::of(record, case, traced).runs.is_empty());
    for case in &measured {
        condition(&case.token, &case.load.to_string(), &Series::of(record, case, traced), unit, &mut report);
    }
    // Where nothing was measured at all, another refusal says why.
    for case in lacking.into_iter().filter(|_| !measured.is_empty()) {
        not_reached(record, case, &mut report);
    }
    kernels(record, unit, &mut report);
    bias(record, unit, &mut report);
    attribution::rows(record, unit, &mut report);
    causes::rows(record, &cases, unit, &mut report);
    sweep_rows::rows(record, unit, &mut report);
    report
}

/// What a condition is called where it is refused: its word, and a load of the user's own in full.
fn called(case: &Case) -> String {
    match conditions::named(&case.token) {
        Some(_) => format!("condition {}", case.token),
        None => format!("condition {} ({})", case.token, case.load),
    }
}

/// The refusal of a condition that has no series: what the probe said of it, or that the session ended before.
fn not_reached(record: &Record, case: &Case, report: &mut Report) {
    let of = |run: &&crate::record::TrialRun| run.refusal.is_some() && case.is_of(&run.trial);
    let said = record.trials.iter().find(of).and_then(|run| run.refusal.clone());
    let (reason, remedy) = said.unwrap_or_else(|| {
        ("the session ended before it was measured".to_owned(), "give it more time: --budget".to_owned())
    });
    refuse(report, &called(case), reason, &remedy);
}

/// A refusal of each load that was asked for and that this machine does not run, by its name: nothing may be concluded
/// from what did not run.
fn not_run(record: &Record, report: &mut Report) {
    let sweep = Options::of(record).sweep;
    let mut refused: Vec<String> = Vec::new();
    if sweep {
        refused.extend(sweep::not_run(record).iter().map(|curve| format!("sweep {}", curve.token())));
    } else {
        refused.extend(conditions::not_run(record).iter().map(called));
        if conditions::design_wanted(record) && !conditions::design_runs(record) {
            refused.push("the factors' effects".to_owned());
        }
    }
    for what in refused {
        let reason = "a described machine does not run this load yet, so nothing of it was measured";
        let remedy =
            "measure it on a host or a board; a described machine has --conditions none,warm,flushed,evicted";
        refuse(report, &what, reason.to_owned(), remedy);
    }
}

/// A place before the task is told where the trace shows it in so many of the activations. Which ones it does not show
/// is no matter of chance: a timer that expires on another CPU, a thread that gives the CPU away without a trace.
const SEEN: f64 = 0.9;

/// All rows of one condition.
fn condition(token: &str, load: &str, series: &Series, unit: Unit, report: &mut Report) {
    let every_us = series.runs[0].trial.or_default::<Wake>().wakes.every_ns as f64 / 1000.0;
    let trials = series.trials();
    let works = series.runs[0].trial.memory.bytes > conditions::NO_WORK;
    for place in Place::ALL.into_iter().filter(|place| works || *place != Place::Work) {
        let latencies = series.at(place);
        let early = !matches!(place, Place::User | Place::Work);
        if early && !series.runs[0].trial.is::<Wake>(|wake| wake.wakes.traced) {
            continue;
        }
        let spot = Spot { place: place.token(), condition: token };
        let (seen, all) = (latencies.len(), series.due().len());
        if (seen as f64) < SEEN * all as f64 {
            let reason =
                format!("the trace shows this place in only {seen} of {all} activations, no fair sample");
            refuse(
                report,
                &spot.name(),
                reason,
                "look from another CPU (--cpu): a kernel may hide it on some only",
            );
            continue;
        }
        let Some(run) = summary::summarise(&latencies, every_us) else { continue };
        let unseen = early.then(|| (all - seen) as u64);
        report.findings.extend(place_rows(spot, load, &run, &trials, unit, unseen));
        report.histograms.push(histogram(spot, series.runs[0].trial.memory.bytes, &run, unit));
    }
    load_rows(token, series, report);
}

/// The distribution at a place of a task that walks so many bytes.
fn histogram(spot: Spot, bytes: u64, run: &Run, unit: Unit) -> Histogram {
    let bars = run.seen.histogram.bars.iter();
    Histogram {
        key: spot.key(&metrics::WAKEUPS),
        bytes,
        unit: unit.name,
        loads_per_sample: 1,
        counts: bars.map(|(us, count)| (us * unit.of_us, *count)).collect(),
    }
}

/// The rows of one place under one condition. A place before the task has its `unseen` activations: a trace tells of
/// no missed ones.
fn place_rows(
    spot: Spot,
    load: &str,
    run: &Run,
    trials: &[u64],
    unit: Unit,
    unseen: Option<u64>,
) -> Vec<Finding> {
    let seen = &run.seen;
    let plain = |metric: &'static Metric, us: f64| {
        let row = number(spot.key(metric), us * unit.of_us, unit.name);
        Finding { count: seen.count, trials: trials.to_vec(), ..row }
    };
    let mut rows = vec![
        plain(&metrics::WAKEUP_MIN, seen.min),
        plain(&metrics::WAKEUP_MEAN, seen.mean),
        plain(&metrics::WAKEUP_STDDEV, seen.stddev),
    ];
    rows[0].notes.push(format!("load: {load}"));
    rows.extend(percentile_rows(spot, seen, trials, unit));
    let mut max = plain(&metrics::WAKEUP_MAX, seen.max.us);
    max.notes.push(format!(
        "the largest of {}: as many again exceed it with a chance of {:.0} %",
        seen.max.seen_in,
        100.0 * seen.max.exceedance_probability(seen.max.seen_in)
    ));
    rows.push(max);
    let (metric, lacking) =
        unseen.map_or((&metrics::WAKEUP_MISSED, run.missed), |unseen| (&metrics::WAKEUP_UNSEEN, unseen));
    let lacking = number(spot.key(metric), lacking as f64, "activations");
    rows.push(Finding { count: seen.count, ..lacking });
    if run.explained > 0 && unseen.is_none() {
        let named = run.corrected.percentiles.iter().find(|p| p.token == "p99.9");
        if let Some(us) = named.and_then(|p| p.us.ok()) {
            let n = run.corrected.count as usize;
            let key = spot.key(&metrics::WAKEUP_P999_CORRECTED);
            let mut row = measured(key, unit.interval(us), unit.name, n, trials);
            row.basis = Basis::Derived;
            row.notes.push(format!(
                "with {} periods that were slept through, each as late as it would have been",
                run.explained
            ));
            rows.push(row);
        }
    }
    rows
}

fn percentile_rows(spot: Spot, seen: &Summary, trials: &[u64], unit: Unit) -> Vec<Finding> {
    let reported = seen.percentiles.iter().filter_map(|p| Some((spot.percentile(p), p.us.ok()?)));
    reported
        .map(|(key, us)| measured(key, unit.interval(us), unit.name, seen.count as usize, trials))
        .collect()
}

/// Rows of the kernel's own tracer: its thread is inside the kernel, and there is no later place.
fn kernels(record: &Record, unit: Unit, report: &mut Report) {
    let series = Series::of_kernel(record);
    let Some(first) = series.runs.first() else { return };
    let every_us = first.trial.or_default::<Wake>().wakes.every_ns as f64 / 1000.0;
    for (token, place) in [("irq", Place::Irq), ("kernel", Place::User)] {
        let Some(run) = summary::summarise(&series.at(place), every_us) else { continue };
        let spot = Spot { place: token, condition: "timerlat" };
        let whose = record.text("wake.after.kernel").unwrap_or("SCHED_FIFO 95");
        let thread = format!("none; other wake-ups than the task's: a thread of the kernel's, {whose}");
        report.findings.extend(place_rows(spot, &thread, &run, &series.trials(), unit, None));
        report.histograms.push(histogram(spot, first.trial.memory.bytes, &run, unit));
    }
}

/// What the load really did, and who waited.
fn load_rows(token: &str, series: &Series, report: &mut Report) {
    if series.runs.iter().all(|run| run.wakeups.load_stats.is_empty()) {
        return;
    }
    let trials = series.trials();
    for (what, rate) in words::RATE.values.iter().copied().zip(series.rates()) {
        let mut row = number(metrics::LOAD_RATE.at([token.into(), what.into()]), rate, "1/s");
        (row.count, row.trials) = (series.runs.len() as u64, trials.clone());
        report.findings.push(row);
    }
    let Some(stalls) = series.stalls() else { return };
    for (what, share) in words::RESOURCE.values.iter().copied().zip(stalls) {
        let mut row = number(metrics::STALL.at([token.into(), what.into()]), share, "");
        row.count = series.runs.len() as u64;
        row.notes.push("share of the time in which some task waited (PSI)".into());
        report.findings.push(row);
    }
}

/// What looking at the earlier places costs the task: its median with, less its median without, by rounds.
fn bias(record: &Record, unit: Unit, report: &mut Report) {
    let Some(none) = conditions::named("none").map(|none| Case::of(none, record)) else { return };
    let medians = |traced| -> Vec<(u64, f64)> {
        let series = Series::of(record, &none, traced);
        let of = |run: &&crate::record::TrialRun| {
            let late: Vec<f64> = run.wakeups.woken.iter().map(|w| w.user_ns as f64 / 1000.0).collect();
            Some((run.trial.round, fathom_analysis::interval::median(&late)?))
        };
        series.runs.iter().filter_map(of).collect()
    };
    let (with, without) = (medians(true), medians(false));
    let differences: Vec<Vec<f64>> = without
        .iter()
        .map(|(round, plain)| with.iter().filter(|(r, _)| r == round).map(|(_, us)| us - plain).collect())
        .filter(|one: &Vec<f64>| !one.is_empty())
        .collect();
    if let Some(us) = grouped_interval(&differences) {
        let count = differences.iter().map(Vec::len).sum();
        let mut row = measured(&metrics::BIAS_TRACE, unit.interval(us), unit.name, count, &[]);
        row.basis = Basis::Derived;
        row.notes.push("in every place of every traced activation; not subtracted".into());
        report.findings.push(row);
    }
}

/// What of the set-up makes wake-ups other than the task's own would be.
fn setup(record: &Record, unit: Unit, report: &mut Report) {
    let mut warn = |text: String, remedy: &str| {
        report.warnings.push(Warning { token: "wakeup-setup", text, remedy: remedy.to_owned() });
    };
    let first = record.of(PatternKind::Wake).next().map(|run| run.trial.or_default::<Wake>().wakes);
    if first.is_some_and(|wakes| wakes.priority == 0) {
        warn("the task is an ordinary one: it waits for its turn".into(), "leave --priority out, as root");
    }
    if let Some(locked) = record.text("wake.after.locked").filter(|how| !how.starts_with("yes")) {
        warn(
            format!("not all memory of the task is locked: {locked}"),
            "run as root, or with ulimit -l unlimited",
        );
    }
    let throttle = record.int(facts::THROTTLE_RUNTIME_NS).zip(record.int(facts::THROTTLE_PERIOD_NS));
    if let Some((runtime, period)) = throttle.filter(|_| first.is_some_and(|wakes| wakes.priority > 0)) {
        warn(
            format!(
                "the kernel takes {} ms of every {} ms from real-time tasks (throttle)",
                (period - runtime.min(period)) / 1_000_000,
                period / 1_000_000
            ),
            "sysctl kernel.sched_rt_runtime_us=-1 while it is measured, where nothing can run away",
        );
    }
    let lost: u64 = record.of(PatternKind::Wake).map(|run| run.wakeups.lost).fold(0, u64::saturating_add);
    if lost > 0 {
        let what =
            format!("the kernel's trace had no room for {lost} events: places behind them are missing");
        warn(what, "shorter series: --budget, or a longer --period");
    }
    let governor = record.text(facts::FREQ_GOVERNOR).filter(|governor| *governor != "performance");
    if let Some(governor) = governor {
        warn(
            format!("the governor {governor} changes the core clock, and a slower core wakes later"),
            "choose the governor performance while it is measured",
        );
    }
    if record.trust == Some(ClockTrust::Virtual) {
        warn("this is a guest: its host may stop it at any time, and steals are wake-up latency".into(), "");
    }
    if unit.name == "instructions" {
        warn("times are instructions of an emulated guest: paths, and no caches".into(), "");
    }
}
