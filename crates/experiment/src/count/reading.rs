//! Findings of a counted program.

use fathom_analysis::findings::{Finding, Item, Key, Metric, Refused, Report, Warning, WarningKind};
use fathom_analysis::interval::{Interval, median_interval};
use fathom_analysis::metrics::count as metrics;
use fathom_probe::machine::ClockTrust;

use super::{NAME, explanation};
use crate::reading::{INVENTED, OF_THE_PROBE, measured, new_report, refuse_times};
use crate::record::{ProgramRun, ProgramRuns, Record, RefusedEvent};

mod regions;
mod simulated;
mod slices;

/// Events by which others are divided.
const INSTRUCTIONS: &str = "instructions";
const CYCLES: &str = "cycles";
/// Misses, with the loads of which they are a share.
const MISSES_OF: [(&str, &str); 2] =
    [("L1-dcache-load-misses", "L1-dcache-loads"), ("LLC-load-misses", "LLC-loads")];
/// Difference between the numbers of instructions of runs above which their work differs, relative. The start of a dynamic
/// program and its random addresses take some 0.01 % of a second's work.
const SAME_WORK: f64 = 0.01;
/// Why programs are not counted, and what to do then.
const MAY_NOT: &str = "the kernel does not let a program be counted that has more rights than its user (setuid, capabilities) or may not be \
                       read";
const AS_ROOT: &str = "count it as root, or a copy of the program without these rights";
/// What to do about counters that are shared.
const END_OTHERS: &str = "end other users of counters (perf; sysctl kernel.nmi_watchdog=0)";
/// Part of a run's CPU time in which events must have been counted, and what may be missing of a short run, us: its start before
/// exec(2), and the tick of kernels that account CPU time by ticks (10 ms at 100 Hz).
const COVERED: f64 = 0.8;
const START_US: f64 = 10_000.0;

/// Reads the report of a record.
#[must_use]
pub fn read(record: &Record) -> Report {
    let mut report = new_report(record, NAME);
    if let Some(program) = &record.simulated {
        simulated::read(program, &mut report);
        return report;
    }
    report.facts.retain(|(name, _)| !OF_THE_PROBE.contains(&name.as_str()));
    let has_any = |program: &&ProgramRuns| !program.runs.is_empty() || !program.slices.is_empty();
    let Some(program) = record.program.as_ref().filter(has_any) else {
        report.refusals.push(Refused {
            what: "the program".to_owned(),
            reason: "the record has no run of it".to_owned(),
            remedy: "count it again".to_owned(),
        });
        return report;
    };
    if let Some(every) = program.every_ms {
        let process = if program.process.is_some() { "of a running process, " } else { "" };
        report.facts.push(("counted".to_owned(), format!("{process}in slices of {every} ms")));
    }
    let emulated = record.trust == Some(ClockTrust::Emulated);
    if emulated {
        refuse_times(record, "times, cycles and stalls", "run it on the real machine", &mut report);
    } else {
        times(program, &mut report);
    }
    kernel(program, &mut report);
    for event in program.events.iter().filter(|event| !(emulated && INVENTED.contains(&&*event.name))) {
        counts(program, &event.name, event.tried, emulated, &mut report);
    }
    regions::add(program, emulated, &mut report);
    if !emulated {
        slices::add(program, &mut report);
        explanation::add(program, &mut report);
    }
    refused(&program.refused, &mut report);
    doubts(program, &mut report);
    report
}

/// Adds the median of a quantity over runs.
fn over_runs(
    key: impl Into<Key>,
    unit: &'static str,
    values: impl Iterator<Item = f64>,
    report: &mut Report,
) {
    let values: Vec<f64> = values.collect();
    if let Some(interval) = median_interval(&values) {
        report.findings.push(measured(key, interval, unit, values.len(), &[]));
    }
}

/// Returns the runs whose time is not that of counting, unless there are none.
fn undisturbed(program: &ProgramRuns) -> impl Iterator<Item = &ProgramRun> + Clone {
    let uncounted = program.runs.iter().any(|run| run.set.is_none());
    program.runs.iter().filter(move |run| run.set.is_none() || !uncounted)
}

fn times(program: &ProgramRuns, report: &mut Report) {
    let runs = undisturbed(program);
    over_runs(&metrics::WALL, "ms", runs.clone().map(|run| run.wall_ns as f64 / 1e6), report);
    over_runs(&metrics::CPU, "ms", runs.clone().map(|run| cpu_us(run) / 1e3), report);
    for (metric, nth) in [(&metrics::USER, 0), (&metrics::SYSTEM, 1)] {
        over_runs(metric, "ms", runs.clone().map(|run| run.cpu_us[nth] as f64 / 1e3), report);
    }
    if let Some(cost) = cost(program) {
        let count = program.runs.len();
        report.findings.push(measured(&metrics::COUNTING_COST, cost, "", count, &[]));
    }
}

/// Returns a run's CPU time, us.
fn cpu_us(run: &ProgramRun) -> f64 {
    run.cpu_us.iter().map(|us| *us as f64).sum()
}

/// Returns whether the kernel let the whole run be counted.
fn is_covered(run: &ProgramRun) -> bool {
    run.counted_us.is_none_or(|counted| counted as f64 >= COVERED * cpu_us(run) - START_US)
}

/// Returns by how much counting lengthens the CPU time, relative. Its part in user space alone is coarse on many kernels.
fn cost(program: &ProgramRuns) -> Option<Interval> {
    let (with, without): (Vec<&ProgramRun>, Vec<&ProgramRun>) = program
        .runs
        .iter()
        .filter(|run| run.set.is_none() || !run.in_regions)
        .partition(|run| run.set.is_some());
    let time =
        |runs: &[&ProgramRun]| median_interval(&runs.iter().map(|run| cpu_us(run)).collect::<Vec<_>>());
    let ratio = time(&with)?.ratio_to(time(&without)?)?;
    Some(Interval { value: ratio.value - 1.0, low: ratio.low - 1.0, high: ratio.high - 1.0 })
}

fn kernel(program: &ProgramRuns, report: &mut Report) {
    type Of = fn(&ProgramRun) -> u64;
    let all: [(&'static Metric, Of); 4] = [
        (&metrics::MINOR_FAULTS, |run| run.faults[0]),
        (&metrics::MAJOR_FAULTS, |run| run.faults[1]),
        (&metrics::VOLUNTARY, |run| run.switches[0]),
        (&metrics::INVOLUNTARY, |run| run.switches[1]),
    ];
    for (metric, of) in all {
        over_runs(metric, "", undisturbed(program).map(|run| of(run) as f64), report);
    }
}

/// Returns the counts of an event in the runs of which all was counted all the time, each with that run's count of another event.
fn counted<'a>(
    program: &'a ProgramRuns,
    event: &'a str,
    other: &'a str,
) -> impl Iterator<Item = (f64, Option<f64>)> + 'a {
    program.runs.iter().filter(|run| !run.shared && is_covered(run)).filter_map(move |run| {
        let set = program.set_of(run);
        let of = |name: &str| Some(run.counts[set.iter().position(|own| own == name)?] as f64);
        Some((of(event)?, of(other)))
    })
}

/// Returns the ratios of two events in the runs that counted both.
fn ratios<'a>(program: &'a ProgramRuns, event: &'a str, of: &'a str) -> impl Iterator<Item = f64> + 'a {
    counted(program, event, of).filter_map(|(count, all)| Some(count / all.filter(|all| *all > 0.0)?))
}

fn counts(program: &ProgramRuns, event: &str, tried: Option<u64>, emulated: bool, report: &mut Report) {
    let at = |metric: &'static Metric| metric.at([event.into()]);
    let before = report.findings.len();
    over_runs(at(&metrics::COUNT), "", counted(program, event, event).map(|(count, _)| count), report);
    if let Some(tried) = tried {
        let added = report.findings.iter_mut().skip(before);
        added
            .for_each(|finding: &mut Finding| finding.detail.set(metrics::TRIED, Item::Number(tried as f64)));
    }
    if event == INSTRUCTIONS {
        if !emulated {
            over_runs(&metrics::PER_CYCLE, "", ratios(program, event, CYCLES), report);
        }
        return;
    }
    let per_thousand = ratios(program, event, INSTRUCTIONS).map(|ratio| 1000.0 * ratio);
    over_runs(at(&metrics::PER_THOUSAND), "", per_thousand, report);
    if let Some((_, loads)) = MISSES_OF.iter().find(|(misses, _)| *misses == event) {
        // The kernel may translate both into events that do not count the same accesses.
        let shares: Vec<f64> = ratios(program, event, loads).collect();
        if shares.iter().all(|share| *share <= 1.0) {
            over_runs(at(&metrics::SHARE), "", shares.into_iter(), report);
        }
    }
}

/// Adds the events that cannot be counted: those with the same reason together.
fn refused(events: &[RefusedEvent], report: &mut Report) {
    let mut left: Vec<&RefusedEvent> = events.iter().collect();
    while let Some(first) = left.first().copied() {
        let (same, others): (Vec<&RefusedEvent>, Vec<&RefusedEvent>) =
            left.into_iter().partition(|event| event.reason == first.reason);
        let names: Vec<&str> = same.iter().map(|event| event.name.as_str()).collect();
        report.refusals.push(Refused {
            what: names.join(", "),
            reason: first.reason.clone(),
            remedy: format!(
                "{}; or count them on a described machine: fathom count --simulated --on MACHINE -- PROGRAM",
                first.remedy
            ),
        });
        left = others;
    }
}

/// Adds what limits the results.
fn doubts(program: &ProgramRuns, report: &mut Report) {
    if program.runs.iter().any(|run| !run.ended.is_empty()) {
        report.warnings.push(failed(program));
    }
    if program.with_kernel {
        let text = "this PMU cannot leave out the kernel: counts have its work for the program too";
        let remedy = "see the CPU time in the kernel for its part";
        report.warnings.push(Warning::new(WarningKind::KernelCounted, text, remedy));
    }
    let all = program.runs.len();
    let of = |which: fn(&ProgramRun) -> bool| program.runs.iter().filter(|run| which(run)).count();
    type Which = fn(&ProgramRun) -> bool;
    let uncounted = format!(
        "events were counted in less than the CPU time: {MAY_NOT}; counts of these runs are left out"
    );
    let counts: [(WarningKind, Which, &str, &str); 3] = [
        (
            WarningKind::CountersShared,
            |run| run.shared,
            "others used the processor's counters: counts of these runs are left out",
            END_OTHERS,
        ),
        (WarningKind::Uncounted, |run| !is_covered(run), &uncounted, AS_ROOT),
        (
            WarningKind::ProcessesLeft,
            |run| run.left,
            "the program left processes that were still running: their later work is not in its times, and disturbs later runs",
            "make the program wait for what it starts, or count once: --once",
        ),
    ];
    for (kind, which, text, remedy) in counts {
        let some = of(which);
        if some > 0 {
            report.warnings.push(Warning::new(kind, format!("in {some} of {all} runs {text}"), remedy));
        }
    }
    report.warnings.extend(different_work(program));
    report.warnings.extend(slices::doubts(program));
    report.warnings.extend(regions::doubts(program));
}

fn failed(program: &ProgramRuns) -> Warning {
    let all = program.runs.len();
    let failed: Vec<&str> =
        program.runs.iter().map(|run| run.ended.as_str()).filter(|how| !how.is_empty()).collect();
    let first = failed.first().copied().unwrap_or_default();
    let text = format!("{} of {all} runs did not end with status 0; the first: {first}", failed.len());
    Warning::new(
        WarningKind::ProgramFailed,
        text,
        "if that is unexpected, run the program without fathom to see why",
    )
}

/// Tells if runs did not execute the same number of instructions.
fn different_work(program: &ProgramRuns) -> Option<Warning> {
    let instructions: Vec<f64> =
        counted(program, INSTRUCTIONS, INSTRUCTIONS).map(|(count, _)| count).collect();
    let least = instructions.iter().copied().fold(f64::INFINITY, f64::min);
    let most = instructions.iter().copied().fold(0.0, f64::max);
    let text = format!(
        "the program executed {least:.0} to {most:.0} instructions: its runs did not do the same work"
    );
    let remedy = "give each run the same input; events of different runs cannot be divided by one another";
    (most > least * (1.0 + SAME_WORK)).then(|| Warning::new(WarningKind::RunsDiffer, text, remedy))
}

#[cfg(test)]
mod tests;
