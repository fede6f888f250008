//! Findings of the sweep: each case, and the change-points of each curve.

use fathom_analysis::findings::{Basis, Finding, Item, Report};
use fathom_analysis::interval::{median, median_interval};
use fathom_analysis::metrics::wakeup as metrics;
use fathom_analysis::wakeup::changepoint::{self, Kind};

use super::options::Options;
use super::spot::{Unit, refuse, word};
use super::sweep::{self, Curve, Statistic};
use crate::reading::{measured, number, text};
use crate::record::{Record, TrialRun};

pub(super) fn rows(record: &Record, unit: Unit, report: &mut Report) {
    if !Options::of(record).sweep {
        return;
    }
    for (curve, bytes, (reason, remedy)) in sweep::refusals(record) {
        let what = format!("sweep {} of {}", curve.token(), fathom_units::exact(bytes));
        refuse(report, &what, reason.clone(), remedy);
    }
    let mut number_of = 0;
    for curve in sweep::curves(record) {
        case_rows(record, &curve, unit, report);
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

/// Adds the change-points of a curve, numbered from `number_of`. Those found before a refusal are kept.
fn changepoints(
    record: &Record,
    curve: &Curve,
    number_of: &mut u32,
    report: &mut Report,
) -> Result<(), changepoint::Refusal> {
    for statistic in Statistic::ALL {
        let found = match sweep::change_points(record, curve, statistic) {
            // Without counted page faults there are no change-points of them.
            Err(changepoint::Refusal::NotMeasured) if statistic == Statistic::Faults => Vec::new(),
            found => found?,
        };
        for changepoint in found {
            *number_of += 1;
            let mut rows = inflection_rows(*number_of, statistic, &changepoint);
            if statistic == Statistic::Faults {
                rows.extend(across(*number_of, record, curve, &changepoint));
            }
            report.findings.extend(rows.into_iter().map(|row| with_curve(curve, row)));
        }
    }
    Ok(())
}

/// Adds the curve to a finding.
fn with_curve(curve: &Curve, mut row: Finding) -> Finding {
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
            format!(
                "fewer than three sizes, or fewer than {} repeats at some of them",
                changepoint::MIN_SIZES
            ),
            "give the sweep a larger --budget or fewer --bytes, --strides or --modes, or --resume it",
        ),
        changepoint::Refusal::NotMeasured => refuse(report, &what, "all latencies are zero".into(), ""),
    }
}

/// Adds median, tail and maximum of every size of a curve, and the activity of the load.
fn case_rows(record: &Record, curve: &Curve, unit: Unit, report: &mut Report) {
    let of = |run: &&TrialRun| run.done.is_some() && sweep::of(&run.trial).is_some_and(|(c, _)| c == *curve);
    let runs: Vec<&TrialRun> = sweep::all_series(record).filter(of).collect();
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
            let tail = if fewest >= sweep::MIN_FOR_P999 { "p99.9" } else { "p99" };
            row.detail.set(metrics::QUANTILE, Item::Token(word(tail)));
            row.notes.push(format!("median of {tail} over {} series", tails.len()));
            report.findings.push(row);
        }
        let largest = all.iter().fold(0.0, |a: f64, b| a.max(*b));
        let mut max = number(curve.at(&metrics::SWEEP_MAX, bytes), largest * unit.of_us, unit.name);
        (max.count, max.trials) = (all.len() as u64, trials.clone());
        report.findings.push(max);
        if let Some(faults) = median(&here.iter().filter_map(|run| sweep::faults(run)).collect::<Vec<_>>()) {
            let mut row = number(curve.at(&metrics::SWEEP_FAULTS, bytes), faults, "1/s");
            row.count = here.len() as u64;
            report.findings.push(row);
        }
    }
}

fn inflection_rows(nth: u32, statistic: Statistic, found: &changepoint::ChangePoint) -> Vec<Finding> {
    let nth = u64::from(nth);
    let kind = match found.kind {
        Kind::Step => "step",
        Kind::Ramp => "ramp",
    };
    let middle = (found.from as f64 * found.to as f64).sqrt();
    let mut place = number(metrics::CHANGEPOINT_BYTES.at([nth.into()]), middle, "bytes");
    (place.low, place.high) = (Some(found.from as f64), Some(found.to as f64));
    place.basis = Basis::Bounds;
    place.notes.push(p_value(found.p));
    let mut rows = vec![place];
    // A relative change from zero is meaningless: rates are reported as two values.
    if statistic != Statistic::Faults {
        let effect = measured(metrics::CHANGEPOINT_EFFECT.at([nth.into()]), found.effect, "", 0, &[]);
        rows.push(Finding { basis: Basis::Derived, ..effect });
    }
    rows.push(text(metrics::CHANGEPOINT_KIND.at([nth.into()]), kind));
    rows.push(text(metrics::CHANGEPOINT_STATISTIC.at([nth.into()]), statistic.token()));
    rows
}

/// Returns a p-value as text.
fn p_value(p: f64) -> String {
    let percent = 100.0 * p;
    let value = if percent < 0.1 { "< 0.1".to_owned() } else { format!("= {percent:.1}") };
    format!("p {value} % (permutation test)")
}

/// Returns the page faults on both sides of their change-point, and the changes of latencies there. These are reported
/// in any case, because the position was not chosen by latencies.
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
