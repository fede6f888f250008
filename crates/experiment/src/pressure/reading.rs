//! The reading: what each condition does to each place of a wake-up, what that costs to know, and where it went.

use fathom_analysis::findings::{Finding, Histogram, Refused, Report, Warning};
use fathom_analysis::interval::{Interval, grouped_interval};
use fathom_analysis::wakeup::Activation;
use fathom_analysis::wakeup::summary::{self, Percentile, Run, Summary};
use fathom_probe::machine::Worth;
use fathom_probe::wire::PatternKind;

use super::conditions::{self, Cell};
use super::series::{Place, Series};
use super::{NAME, attribution, causes, imported, sweep_rows};
use crate::reading::{begun, measured, number, refuse_all};
use crate::record::Record;

/// Percentiles as findings name them, beside the words of the analysis.
pub(super) fn word(percentile: &Percentile) -> String {
    percentile.token.replace('.', "")
}

/// What latencies are told in: time, or instructions where a clock counts those.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub name: &'static str,
    /// How many of it are a microsecond.
    pub of_us: f64,
}

impl Unit {
    /// On an emulator times mean nothing; where the guest's clock is known to count instructions (QEMU's -icount, told
    /// on the kernel's command line as `fathom.instruction_ns=N`), their number does.
    fn of(record: &Record) -> Option<Unit> {
        if record.worth != Some(Worth::Emulated) {
            return Some(Unit { name: "us", of_us: 1.0 });
        }
        let line = record.text("env.cmdline")?;
        let ns = line.split_ascii_whitespace().find_map(|w| w.strip_prefix("fathom.instruction_ns="))?;
        let ns = ns.parse::<f64>().ok().filter(|ns| *ns > 0.0)?;
        Some(Unit { name: "instructions", of_us: 1000.0 / ns })
    }

    fn interval(self, us: Interval) -> Interval {
        us.scaled(self.of_us)
    }
}

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
    let sweep = record.run.as_ref().is_some_and(|run| run.pressure.sweep);
    let cells = if sweep { Vec::new() } else { conditions::cells(record) };
    for cell in &cells {
        let traced = super::plan::traced(record);
        let series = Series::of(record, cell, traced);
        if !series.runs.is_empty() {
            condition(&cell.token, &cell.load.to_string(), &series, unit, &mut report);
        }
    }
    kernels(record, unit, &mut report);
    bias(record, unit, &mut report);
    attribution::rows(record, unit, &mut report);
    causes::rows(record, &cells, unit, &mut report);
    sweep_rows::rows(record, unit, &mut report);
    report
}

/// A place before the task is told where the trace shows it in so many of the activations. Which ones it does not show
/// is no matter of chance: a timer that expires on another CPU, a thread that gives the CPU away without a trace.
const SEEN: f64 = 0.9;

/// All rows of one condition.
fn condition(token: &str, load: &str, series: &Series, unit: Unit, report: &mut Report) {
    let every_us = series.runs[0].trial.wakes.every_ns as f64 / 1000.0;
    let trials = series.trials();
    let works = series.runs[0].trial.bytes > conditions::NO_WORK;
    for place in Place::ALL.into_iter().filter(|place| works || *place != Place::Work) {
        let latencies = series.at(place);
        let early = !matches!(place, Place::User | Place::Work);
        if early && !series.runs[0].trial.wakes.traced {
            continue;
        }
        let prefix = format!("wakeup.{}.{token}", place.token());
        let (seen, all) = (latencies.len(), series.due().len());
        if (seen as f64) < SEEN * all as f64 {
            let reason =
                format!("the trace shows this place in only {seen} of {all} activations, no fair sample");
            refuse(
                report,
                &prefix,
                reason,
                "look from another CPU (--cpu): a kernel may hide it on some only",
            );
            continue;
        }
        let Some(run) = summary::summarise(&latencies, every_us) else { continue };
        let unseen = early.then(|| (all - seen) as u64);
        report.findings.extend(place_rows(&prefix, load, &run, &trials, unit, unseen));
        report.histograms.push(Histogram {
            name: prefix,
            bytes: series.runs[0].trial.bytes,
            unit: unit.name,
            loads_per_sample: 1,
            counts: scaled(&run.seen.histogram.bars, unit),
        });
    }
    pressure_rows(token, series, report);
}

fn scaled(bars: &[(f64, u64)], unit: Unit) -> Vec<(f64, u64)> {
    bars.iter().map(|(us, count)| (us * unit.of_us, *count)).collect()
}

/// The rows of one place under one condition. A place before the task has its `unseen` activations: a trace tells of
/// no missed ones.
fn place_rows(
    prefix: &str,
    load: &str,
    run: &Run,
    trials: &[u64],
    unit: Unit,
    unseen: Option<u64>,
) -> Vec<Finding> {
    let seen = &run.seen;
    let plain = |name: &str, us: f64| {
        let row = number(format!("{prefix}.{name}"), us * unit.of_us, unit.name);
        Finding { count: seen.count, trials: trials.to_vec(), ..row }
    };
    let mut rows = vec![plain("min", seen.min), plain("mean", seen.mean), plain("stddev", seen.stddev)];
    rows[0].notes.push(format!("load: {load}"));
    rows.extend(percentile_rows(prefix, seen, trials, unit));
    let mut max = plain("max", seen.max.us);
    max.notes.push(format!(
        "the largest of {}: as many again exceed it with a chance of {:.0} %",
        seen.max.seen_in,
        100.0 * seen.max.beaten_within(seen.max.seen_in)
    ));
    rows.push(max);
    let (word, lacking) = unseen.map_or(("missed", run.missed), |unseen| ("unseen", unseen));
    let lacking = number(format!("{prefix}.{word}"), lacking as f64, "activations");
    rows.push(Finding { count: seen.count, ..lacking });
    if run.explained > 0 && unseen.is_none() {
        let named = run.corrected.percentiles.iter().find(|p| p.token == "p99.9");
        if let Some(us) = named.and_then(|p| p.us.ok()) {
            let n = run.corrected.count as usize;
            let mut row =
                measured(format!("{prefix}.p999_corrected"), unit.interval(us), unit.name, n, trials);
            row.notes.push(format!(
                "with {} periods that were slept through, each as late as it would have been",
                run.explained
            ));
            rows.push(row);
        }
    }
    rows
}

fn percentile_rows(prefix: &str, seen: &Summary, trials: &[u64], unit: Unit) -> Vec<Finding> {
    let told = seen.percentiles.iter().filter_map(|p| Some((word(p), p.us.ok()?)));
    told.map(|(word, us)| {
        measured(format!("{prefix}.{word}"), unit.interval(us), unit.name, seen.count as usize, trials)
    })
    .collect()
}

/// Rows of the kernel's own tracer: its thread is inside the kernel, and there is no later place.
fn kernels(record: &Record, unit: Unit, report: &mut Report) {
    let series = Series::of_kernel(record);
    let Some(first) = series.runs.first() else { return };
    let every_us = first.trial.wakes.every_ns as f64 / 1000.0;
    for (token, place) in [("irq", Place::Irq), ("kernel", Place::User)] {
        let Some(run) = summary::summarise(&series.at(place), every_us) else { continue };
        let prefix = format!("wakeup.{token}.timerlat");
        let whose = record.text("wake.after.kernel").unwrap_or("SCHED_FIFO 95");
        let thread = format!("none; other wake-ups than the task's: a thread of the kernel's, {whose}");
        report.findings.extend(place_rows(&prefix, &thread, &run, &series.trials(), unit, None));
        report.histograms.push(Histogram {
            name: prefix,
            bytes: first.trial.bytes,
            unit: unit.name,
            loads_per_sample: 1,
            counts: scaled(&run.seen.histogram.bars, unit),
        });
    }
}

/// What the load really did, and who waited.
fn pressure_rows(token: &str, series: &Series, report: &mut Report) {
    if series.runs.iter().all(|run| run.wakeups.pressed.is_empty()) {
        return;
    }
    let trials = series.trials();
    for (what, rate) in ["passes", "lines", "faults", "bytes"].into_iter().zip(series.rates()) {
        let mut row = number(format!("pressure.{token}.{what}"), rate, "1/s");
        (row.count, row.trials) = (series.runs.len() as u64, trials.clone());
        report.findings.push(row);
    }
    let Some(stalls) = series.stalls() else { return };
    for (what, share) in ["cpu", "memory", "io"].into_iter().zip(stalls) {
        let mut row = number(format!("stall.{token}.{what}"), share, "");
        row.count = series.runs.len() as u64;
        row.notes.push("share of the time in which some task waited (PSI)".into());
        report.findings.push(row);
    }
}

/// What looking at the earlier places costs the task: its median with, less its median without, by rounds.
fn bias(record: &Record, unit: Unit, report: &mut Report) {
    let Some(none) = conditions::named("none").map(|none| Cell::of(none, record)) else { return };
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
        let mut row = measured("bias.trace", unit.interval(us), unit.name, count, &[]);
        row.notes.push("in every place of every traced activation; not subtracted".into());
        report.findings.push(row);
    }
}

/// What of the set-up makes wake-ups other than the task's own would be.
fn setup(record: &Record, unit: Unit, report: &mut Report) {
    let mut warn = |text: String, remedy: &str| {
        report.warnings.push(Warning { token: "wakeup-setup", text, remedy: remedy.to_owned() });
    };
    let first = record.of(PatternKind::Wake).next().map(|run| run.trial.wakes);
    if first.is_some_and(|wakes| wakes.priority == 0) {
        warn("the task is an ordinary one: it waits for its turn".into(), "leave --priority out, as root");
    }
    if let Some(locked) = record.text("wake.after.locked").filter(|how| !how.starts_with("yes")) {
        warn(
            format!("not all memory of the task is locked: {locked}"),
            "run as root, or with ulimit -l unlimited",
        );
    }
    let throttle = record.int("throttle.runtime.ns").zip(record.int("throttle.period.ns"));
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
    let governor = record.text("env.freq.governor").filter(|governor| *governor != "performance");
    if let Some(governor) = governor {
        warn(
            format!("the governor {governor} changes the core clock, and a slower core wakes later"),
            "choose the governor performance while it is measured",
        );
    }
    if record.worth == Some(Worth::Virtual) {
        warn("this is a guest: its host may stop it at any time, and steals are wake-up latency".into(), "");
    }
    if unit.name == "instructions" {
        warn("times are instructions of an emulated guest: paths, and no caches".into(), "");
    }
}

/// A refusal of one finding.
pub(super) fn refuse(report: &mut Report, what: &str, reason: String, remedy: &str) {
    report.refusals.push(Refused { what: what.to_owned(), reason, remedy: remedy.to_owned() });
}

/// Latencies of the task alone, us.
pub(super) fn user(series: &Series) -> Vec<Activation> {
    series.at(Place::User)
}
