//! The sweep's rows: each cell, and where a curve breaks.

use fathom_analysis::findings::{Basis, Finding, Item, Report};
use fathom_analysis::interval::{median, median_interval};
use fathom_analysis::metrics::wakeup as metrics;
use fathom_analysis::wakeup::changepoint::{self, Kind};
use fathom_probe::pattern::PatternKind;
use fathom_units::size;

use super::options::Options;
use super::spot::{Unit, refuse, word};
use super::sweep::{self, Curve, Statistic};
use crate::reading::{measured, number, text};
use crate::record::{Record, TrialRun};

pub(super) fn rows(record: &Record, unit: Unit, report: &mut Report) {
    if !Options::of(record).sweep {
        return;
    }
    let mut number_of = 0;
    for curve in sweep::curves(record) {
        cases(record, &curve, unit, report);
        let before = number_of;
        match changepoints(record, &curve, &mut number_of, report) {
            Ok(()) => {
                let count = f64::from(number_of - before);
                report.findings.push(number(curve.key(&metrics::CHANGEPOINTS), count, ""));
            }
            Err(why) => refused(&curve, why, report),
        }
    }
}

/// The changepoints of a curve, numbered on from `number_of`; those found before a refusal stay.
fn changepoints(
    record: &Record,
    curve: &Curve,
    number_of: &mut u32,
    report: &mut Report,
) -> Result<(), changepoint::Refusal> {
    for statistic in Statistic::ALL {
        let found = match sweep::breaks(record, curve, statistic) {
            // A subject that does not count page faults has none here.
            Err(changepoint::Refusal::NotMeasured) if statistic == Statistic::Faults => Vec::new(),
            found => found?,
        };
        for changepoint in found {
            *number_of += 1;
            let mut rows = inflection_rows(*number_of, curve, statistic, &changepoint);
            if statistic == Statistic::Faults {
                rows.extend(across(*number_of, record, curve, &changepoint));
            }
            report.findings.extend(rows.into_iter().map(|row| on(curve, row)));
        }
    }
    Ok(())
}

/// A finding that is of this curve.
fn on(curve: &Curve, mut row: Finding) -> Finding {
    row.detail.set(metrics::STRESSOR, Item::Token(curve.kind.token().to_owned()));
    row.detail.set(metrics::MODE, Item::Token(curve.mode.to_string()));
    row.detail.set(metrics::STRIDE, Item::Number(curve.stride as f64));
    row
}

fn refused(curve: &Curve, why: changepoint::Refusal, report: &mut Report) {
    let what = format!("changepoints of {}", curve.token());
    match why {
        changepoint::Refusal::TooFew => refuse(
            report,
            &what,
            format!("fewer than three sizes, or than {} repeats at some of them", changepoint::MIN_SIZES),
            "give the sweep more time, or fewer cells (--bytes, --strides, --modes), or --resume it",
        ),
        changepoint::Refusal::NotMeasured => refuse(report, &what, "nobody was ever late".into(), ""),
    }
}

/// Median, tail and maximum of every size of a curve, and what the load did.
fn cases(record: &Record, curve: &Curve, unit: Unit, report: &mut Report) {
    let of = |run: &&TrialRun| run.done.is_some() && sweep::of(&run.trial).is_some_and(|(c, _)| c == *curve);
    let runs: Vec<&TrialRun> = record.of(PatternKind::Wake).filter(of).collect();
    let mut sizes: Vec<u64> = runs.iter().filter_map(|r| sweep::of(&r.trial)).map(|(_, b)| b).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for bytes in sizes {
        let here: Vec<&&TrialRun> =
            runs.iter().filter(|r| sweep::of(&r.trial).is_some_and(|(_, b)| b == bytes)).collect();
        let late: Vec<Vec<f64>> = here
            .iter()
            .map(|r| r.wakeups.woken.iter().map(|w| w.user_ns as f64 / 1000.0).collect())
            .collect();
        let trials: Vec<u64> = here.iter().map(|r| r.trial.id).collect();
        let all: Vec<f64> = late.concat();
        if let Some(us) = median_interval(&all) {
            let key = curve.at(&metrics::SWEEP_P50, bytes);
            report.findings.push(measured(key, us.scaled(unit.of_us), unit.name, all.len(), &trials));
        }
        let tails: Vec<f64> = here.iter().map(|r| Statistic::Tail.of(r)).collect();
        if let Some(us) = median_interval(&tails) {
            let key = curve.at(&metrics::SWEEP_TAIL, bytes);
            let mut row = measured(key, us.scaled(unit.of_us), unit.name, all.len(), &trials);
            let fewest = late.iter().map(Vec::len).min().unwrap_or(0);
            let tail = if fewest >= sweep::FOR_P999 { "p99.9" } else { "p99" };
            row.detail.set(metrics::QUANTILE, Item::Token(word(tail)));
            row.notes.push(format!("median over {} series of their {tail}", tails.len()));
            report.findings.push(row);
        }
        let latest = all.iter().fold(0.0, |a: f64, b| a.max(*b));
        let mut max = number(curve.at(&metrics::SWEEP_MAX, bytes), latest * unit.of_us, unit.name);
        (max.count, max.trials) = (all.len() as u64, trials.clone());
        report.findings.push(max);
        if let Some(faults) = median(&here.iter().filter_map(|run| sweep::faults(run)).collect::<Vec<_>>()) {
            let mut row = number(curve.at(&metrics::SWEEP_FAULTS, bytes), faults, "1/s");
            row.count = here.len() as u64;
            report.findings.push(row);
        }
    }
}

fn inflection_rows(
    nth: u32,
    curve: &Curve,
    statistic: Statistic,
    found: &changepoint::ChangePoint,
) -> Vec<Finding> {
    let nth = u64::from(nth);
    let kind = match found.kind {
        Kind::Step => "step",
        Kind::Ramp => "ramp",
    };
    let middle = (found.from as f64 * found.to as f64).sqrt();
    let mut place = number(metrics::CHANGEPOINT_BYTES.at([nth.into()]), middle, "bytes");
    (place.low, place.high) = (Some(found.from as f64), Some(found.to as f64));
    place.basis = Basis::Bounds;
    place.notes.push(format!(
        "a {kind} of {} between {} and {}; chance makes one as clear in {:.1} % of cases",
        curve.token(),
        size(found.from as f64),
        size(found.to as f64),
        100.0 * found.p
    ));
    let mut rows = vec![place];
    // By how much of nothing is no answer: a rate's own two values are told.
    if statistic != Statistic::Faults {
        let effect = measured(metrics::CHANGEPOINT_EFFECT.at([nth.into()]), found.effect, "", 0, &[]);
        rows.push(Finding { basis: Basis::Derived, ..effect });
    }
    rows.push(text(metrics::CHANGEPOINT_KIND.at([nth.into()]), kind));
    rows.push(text(metrics::CHANGEPOINT_STATISTIC.at([nth.into()]), statistic.token()));
    rows
}

/// The page faults on both sides of their changepoint, and what latencies do there: whatever it is, because the place
/// was not chosen by them.
fn across(nth: u32, record: &Record, curve: &Curve, found: &changepoint::ChangePoint) -> Vec<Finding> {
    let nth = u64::from(nth);
    let mut all = Vec::new();
    let faults = sweep::rows(record, curve, Statistic::Faults);
    for (metric, bytes) in
        [(&metrics::CHANGEPOINT_BEFORE, found.from), (&metrics::CHANGEPOINT_AFTER, found.to)]
    {
        let here = faults.iter().find(|row| row.bytes == bytes);
        let Some(rate) = here.and_then(|row| median_interval(&row.repeats)) else { continue };
        let count = here.map_or(0, |row| row.repeats.len());
        all.push(measured(metric.at([nth.into()]), rate, "1/s", count, &[]));
    }
    for statistic in Statistic::OF_LATENCY {
        let rows = sweep::rows(record, curve, statistic);
        if let Some((effect, count)) = changepoint::across(&rows, found) {
            let key = metrics::CHANGEPOINT_ACROSS.at([nth.into(), statistic.token().into()]);
            all.push(Finding { basis: Basis::Derived, ..measured(key, effect, "", count, &[]) });
        }
    }
    all
}
