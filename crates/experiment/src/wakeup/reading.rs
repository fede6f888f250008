//! Reads a record of `fathom wakeup`: latency at each place under each condition, overhead of tracing, effects, causes.

use fathom_analysis::findings::tokens;
use fathom_analysis::findings::{Basis, Finding, Histogram, Metric, Refused, Report, Warning, WarningKind};
use fathom_analysis::interval::grouped_interval;
use fathom_analysis::metrics::wakeup as metrics;
use fathom_analysis::metrics::wakeup::condition;
use fathom_analysis::wakeup::summary::{self, Run, Summary};
use fathom_probe::machine::ClockTrust;
use fathom_probe::pattern::{PatternKind, Wake};
use fathom_units::facts;

use super::conditions::{self, Case};
use super::options::Options;
use super::series::{Place, Series};
use super::spot::{Spot, Unit, refuse};
use super::{NAME, attribution, causes, equal, imported, sweep_rows, trials};
use crate::disturbance;
use crate::reading::{measured, new_report, number, refuse_all, state_row};
use crate::record::Record;
use crate::trial_name::trial_name;

/// Reads a record.
#[must_use]
pub fn read(record: &Record) -> Report {
    let mut report = new_report(record, NAME);
    imported::rows(record, &mut report);
    if record.trials.is_empty() && !record.imported.is_empty() {
        return report;
    }
    let Some(unit) = Unit::of(record) else {
        refuse_all(record, "every wake-up", &mut report);
        return report;
    };
    state_row(&disturbance::judge(record, &[], &[]), &mut report);
    setup(record, unit, &mut report);
    let sweep = Options::of(record).sweep;
    let cases = if sweep { Vec::new() } else { conditions::cases(record) };
    let traced = trials::traced(record);
    let (measured, missing): (Vec<&Case>, Vec<&Case>) =
        cases.iter().partition(|case| !Series::of(record, case, traced).runs.is_empty());
    for case in &measured {
        condition(&case.token, &case.load.to_string(), &Series::of(record, case, traced), unit, &mut report);
    }
    for case in &missing {
        refuse_missing(record, case, !measured.is_empty(), &mut report);
    }
    report.warnings.extend(no_load(record, &measured, &missing));
    timerlat_rows(record, unit, &mut report);
    bias(record, unit, &mut report);
    attribution::rows(record, unit, &mut report);
    causes::rows(record, &cases, unit, &mut report);
    sweep_rows::rows(record, unit, &mut report);
    equal::notes(record, &measured, traced, &mut report);
    name_refusals_once(record, &mut report);
    report
}

/// Removes the refusals of single trials under a load, if their reason is given with a condition's name.
fn name_refusals_once(record: &Record, report: &mut Report) {
    let loaded = record.trials.iter().filter(|run| run.refusal.is_some() && !run.trial.beside.load.is_none());
    let trials: Vec<String> = loaded.map(|run| trial_name(&run.trial)).collect();
    let (single, named): (Vec<Refused>, Vec<Refused>) =
        std::mem::take(&mut report.refusals).into_iter().partition(|r| trials.contains(&r.what));
    let told = |single: &Refused| named.iter().any(|r| r.reason == single.reason);
    report.refusals.extend(single.into_iter().filter(|r| !told(r)));
    report.refusals.extend(named);
}

/// Returns the name of a condition in refusals: its token, and for a user-defined load the whole load.
fn name_in_refusals(case: &Case) -> String {
    match conditions::named(&case.token) {
        Some(_) => format!("condition {}", case.token),
        None => format!("condition {} ({})", case.token, case.load),
    }
}

/// Refuses a condition without series: with the probe's reason, or because the session ended before. If nothing was
/// measured at all (`others` is false), another refusal gives the reason of the session's end.
fn refuse_missing(record: &Record, case: &Case, others: bool, report: &mut Report) {
    let ended =
        ("the session ended before it was measured".to_owned(), "give it a larger --budget".to_owned());
    let refusal = trials::refusal(record, case).or_else(|| others.then_some(&ended));
    if let Some((reason, remedy)) = refusal {
        refuse(report, &name_in_refusals(case), reason.clone(), remedy);
    }
}

/// Returns a warning if loads were asked for, and each was refused.
fn no_load(record: &Record, measured: &[&Case], missing: &[&Case]) -> Option<Warning> {
    let is_loaded = |case: &&&Case| !case.load.is_none();
    let refused = |case: &&Case| trials::refusal(record, case).is_some();
    let mut loads = missing.iter().filter(is_loaded).peekable();
    (loads.peek().is_some() && loads.all(refused) && !measured.iter().any(|case| is_loaded(&case))).then(
        || {
            Warning::new(
                WarningKind::LoadsRefused,
                "no load that was asked for could be run",
                "see the refusals for the reason of each",
            )
        },
    )
}

/// Minimum share of activations in which the trace shows a place before the task. Missing ones are not random: a timer
/// that expires on another CPU, a thread that yields the CPU without a trace event.
const MIN_TRACED_SHARE: f64 = 0.9;

/// Adds all findings of one condition.
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
        if (seen as f64) < MIN_TRACED_SHARE * all as f64 {
            let reason = format!(
                "the trace shows this place in only {seen} of {all} activations, which may be a biased sample"
            );
            refuse(
                report,
                &spot.name(),
                reason,
                "measure on another CPU (--cpu): tracing may differ between CPUs",
            );
            continue;
        }
        let Some(run) = summary::summarise(&latencies, every_us) else { continue };
        let untraced = early.then(|| (all - seen) as u64);
        report.findings.extend(place_rows(spot, load, &run, &trials, unit, untraced));
        report.histograms.push(histogram(spot, series.runs[0].trial.memory.bytes, &run, unit));
    }
    load_rows(token, series, report);
}

/// Returns the distribution at a place, for a task that walks this many bytes.
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

/// Returns the findings of one place under one condition. A place before the task has the number of untraced
/// activations (`untraced`) instead of missed ones.
fn place_rows(
    spot: Spot,
    load: &str,
    run: &Run,
    trials: &[u64],
    unit: Unit,
    untraced: Option<u64>,
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
        "largest of {0}; another {0} activations would exceed it with probability {1:.0} %",
        seen.max.seen_in,
        100.0 * seen.max.exceedance_probability(seen.max.seen_in)
    ));
    rows.push(max);
    let (metric, lacking) = untraced
        .map_or((&metrics::WAKEUP_MISSED, run.missed), |untraced| (&metrics::WAKEUP_UNTRACED, untraced));
    let lacking = number(spot.key(metric), lacking as f64, "activations");
    rows.push(Finding { count: seen.count, ..lacking });
    if run.explained > 0 && untraced.is_none() {
        let named = run.corrected.percentiles.iter().find(|p| p.token == "p99.9");
        if let Some(us) = named.and_then(|p| p.us.ok()) {
            let n = run.corrected.count as usize;
            let key = spot.key(&metrics::WAKEUP_P999_CORRECTED);
            let mut row = measured(key, unit.interval(us), unit.name, n, trials);
            row.basis = Basis::Derived;
            row.notes.push(format!(
                "including {} missed periods, each with the latency it would have had",
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

/// Adds the findings of the kernel's timerlat tracer. Its thread is inside the kernel, so there is no later place.
fn timerlat_rows(record: &Record, unit: Unit, report: &mut Report) {
    let series = Series::of_kernel(record);
    let Some(first) = series.runs.first() else { return };
    let every_us = first.trial.or_default::<Wake>().wakes.every_ns as f64 / 1000.0;
    for (token, place) in [("irq", Place::Irq), ("kernel", Place::User)] {
        let Some(run) = summary::summarise(&series.at(place), every_us) else { continue };
        let spot = Spot { place: token, condition: "timerlat" };
        let whose = record.text("wake.after.kernel").unwrap_or("SCHED_FIFO 95");
        let thread = format!("none; not of the task, but of a kernel thread, {whose}");
        report.findings.extend(place_rows(spot, &thread, &run, &series.trials(), unit, None));
        report.histograms.push(histogram(spot, first.trial.memory.bytes, &run, unit));
    }
}

/// Adds the activity of the load, and the stalls.
fn load_rows(token: &str, series: &Series, report: &mut Report) {
    if series.runs.iter().all(|run| run.wakeups.load_stats.is_empty()) {
        return;
    }
    let trials = series.trials();
    for (what, rate) in tokens::RATE.values.iter().copied().zip(series.rates()) {
        let mut row = number(metrics::LOAD_RATE.at([token.into(), what.into()]), rate, "1/s");
        (row.count, row.trials) = (series.runs.len() as u64, trials.clone());
        report.findings.push(row);
    }
    let Some(stalls) = series.stalls() else { return };
    for (what, share) in tokens::RESOURCE.values.iter().copied().zip(stalls) {
        let mut row = number(metrics::STALL.at([token.into(), what.into()]), share, "");
        row.count = series.runs.len() as u64;
        row.notes.push("share of the time in which some task waited (PSI)".into());
        report.findings.push(row);
    }
}

/// Adds the overhead of tracing for the task: its median with tracing less its median without, by rounds.
fn bias(record: &Record, unit: Unit, report: &mut Report) {
    let Some(none) = conditions::named(condition::UNLOADED).map(|none| Case::of(none, record)) else {
        return;
    };
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
        row.notes.push("included in all latencies of traced activations; not subtracted".into());
        report.findings.push(row);
    }
}

/// Warns of configuration that changes the wake-up latency.
fn setup(record: &Record, unit: Unit, report: &mut Report) {
    let mut warn = |text: String, remedy: &str| {
        report.warnings.push(Warning { kind: WarningKind::WakeupConfig, text, remedy: remedy.to_owned() });
    };
    let first = record.of(PatternKind::Wake).next().map(|run| run.trial.or_default::<Wake>().wakes);
    if first.is_some_and(|wakes| wakes.priority == 0) {
        warn("the task has no real-time priority".into(), "leave --priority out, as root");
    }
    if let Some(locked) = record.text("wake.after.locked").filter(|how| !how.starts_with("yes")) {
        warn(
            format!("the task's memory is not completely locked: {locked}"),
            "run as root, or with ulimit -l unlimited",
        );
    }
    let throttle = record.int(facts::THROTTLE_RUNTIME_NS).zip(record.int(facts::THROTTLE_PERIOD_NS));
    if let Some((runtime, period)) = throttle.filter(|_| first.is_some_and(|wakes| wakes.priority > 0)) {
        warn(
            format!(
                "the kernel stops real-time tasks for {} ms of every {} ms (throttle)",
                (period - runtime.min(period)) / 1_000_000,
                period / 1_000_000
            ),
            "set sysctl kernel.sched_rt_runtime_us=-1 during the measurement (a runaway real-time task would then hang the machine)",
        );
    }
    let lost: u64 = record.of(PatternKind::Wake).map(|run| run.wakeups.lost).fold(0, u64::saturating_add);
    if lost > 0 {
        let what =
            format!("the trace buffer overflowed by {lost} events: places that depend on them are missing");
        warn(what, "use shorter series (--budget) or a longer --period");
    }
    let governor = record.text(facts::FREQ_GOVERNOR).filter(|governor| *governor != "performance");
    if let Some(governor) = governor {
        warn(
            format!("the governor {governor} changes the core clock; a slower clock increases latency"),
            "use the governor performance during the measurement",
        );
    }
    if record.trust == Some(ClockTrust::Virtual) {
        warn("this is a guest: its host may stop it at any time, which counts as wake-up latency".into(), "");
    }
    if unit.name == "instructions" {
        warn("times are instructions of an emulated guest: path lengths, without cache effects".into(), "");
    }
}
