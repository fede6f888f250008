//! The sweep's rows: each cell, and where a curve breaks.

use fathom_analysis::findings::Report;
use fathom_analysis::interval::{median, median_interval};
use fathom_analysis::wakeup::inflection::{self, Kind};
use fathom_probe::wire::PatternKind;

use super::reading::{Unit, refuse};
use super::sweep::{self, Curve, Statistic};
use crate::reading::{measured, number, size, text};
use crate::record::{Record, TrialRun};

pub(super) fn rows(record: &Record, unit: Unit, report: &mut Report) {
    if !record.run.as_ref().is_some_and(|run| run.pressure.sweep) {
        return;
    }
    let mut number_of = 0;
    for curve in sweep::curves(record) {
        cells(record, &curve, unit, report);
        for statistic in Statistic::ALL {
            match sweep::breaks(record, &curve, statistic) {
                Ok(found) => {
                    for inflection in found {
                        number_of += 1;
                        inflection_rows(number_of, &curve, statistic, &inflection, report);
                        if statistic == Statistic::Faults {
                            across(number_of, record, &curve, &inflection, report);
                        }
                    }
                }
                // Streams of a described machine have no page faults.
                Err(inflection::Refusal::NotMeasured) if statistic == Statistic::Faults => {}
                Err(why) => {
                    refused(&curve, why, report);
                    break;
                }
            }
        }
    }
}

fn refused(curve: &Curve, why: inflection::Refusal, report: &mut Report) {
    let what = format!("inflections of {}", curve.token());
    match why {
        inflection::Refusal::TooFew => refuse(
            report,
            &what,
            format!("fewer than three sizes, or than {} repeats at some of them", inflection::FEWEST),
            "give the sweep more time, or fewer cells (--bytes, --strides, --modes), or --resume it",
        ),
        inflection::Refusal::NotMeasured => refuse(report, &what, "nobody was ever late".into(), ""),
    }
}

/// Median, tail and maximum of every size of a curve, and what the load did.
fn cells(record: &Record, curve: &Curve, unit: Unit, report: &mut Report) {
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
        let prefix = format!("sweep.{}.{bytes}", curve.token());
        if let Some(us) = median_interval(&all) {
            report.findings.push(measured(
                format!("{prefix}.p50"),
                us.scaled(unit.of_us),
                unit.name,
                all.len(),
                &trials,
            ));
        }
        let tails: Vec<f64> = here.iter().map(|r| Statistic::Tail.of(r)).collect();
        if let Some(us) = median_interval(&tails) {
            let mut row =
                measured(format!("{prefix}.tail"), us.scaled(unit.of_us), unit.name, all.len(), &trials);
            let fewest = late.iter().map(Vec::len).min().unwrap_or(0);
            let word = if fewest >= sweep::FOR_P999 { "p99.9" } else { "p99" };
            row.notes.push(format!("median over {} series of their {word}", tails.len()));
            report.findings.push(row);
        }
        let mut max = number(
            format!("{prefix}.max"),
            all.iter().fold(0.0, |a: f64, b| a.max(*b)) * unit.of_us,
            unit.name,
        );
        (max.count, max.trials) = (all.len() as u64, trials.clone());
        report.findings.push(max);
        if let Some(faults) = median(&here.iter().filter_map(|run| sweep::faults(run)).collect::<Vec<_>>()) {
            let mut row = number(format!("{prefix}.faults"), faults, "1/s");
            row.count = here.len() as u64;
            report.findings.push(row);
        }
    }
}

fn inflection_rows(
    nth: usize,
    curve: &Curve,
    statistic: Statistic,
    found: &inflection::Inflection,
    report: &mut Report,
) {
    let kind = match found.kind {
        Kind::Step => "step",
        Kind::Ramp => "ramp",
    };
    let middle = (found.from as f64 * found.to as f64).sqrt();
    let mut row = number(format!("inflection.{nth}.bytes"), middle, "bytes");
    (row.low, row.high) = (Some(found.from as f64), Some(found.to as f64));
    row.notes.push(format!(
        "a {kind} of {} between {} and {}; chance makes one as clear in {:.1} % of cases",
        curve.token(),
        size(found.from as f64),
        size(found.to as f64),
        100.0 * found.p
    ));
    report.findings.push(row);
    // By how much of nothing is no answer: a rate's own two values are told.
    if statistic != Statistic::Faults {
        report.findings.push(measured(format!("inflection.{nth}.effect"), found.effect, "", 0, &[]));
    }
    report.findings.push(text(format!("inflection.{nth}.kind"), kind));
    report.findings.push(text(format!("inflection.{nth}.curve"), &curve.token()));
    report.findings.push(text(format!("inflection.{nth}.statistic"), statistic.token()));
}

/// The page faults on both sides of their inflection, and what latencies do there: whatever it is, because the place
/// was not chosen by them.
fn across(nth: usize, record: &Record, curve: &Curve, found: &inflection::Inflection, report: &mut Report) {
    let faults = sweep::rows(record, curve, Statistic::Faults);
    for (side, bytes) in [("before", found.from), ("behind", found.to)] {
        let here = faults.iter().find(|row| row.bytes == bytes);
        let Some(rate) = here.and_then(|row| median_interval(&row.repeats)) else { continue };
        let count = here.map_or(0, |row| row.repeats.len());
        report.findings.push(measured(format!("inflection.{nth}.{side}"), rate, "1/s", count, &[]));
    }
    for statistic in Statistic::LATE {
        let rows = sweep::rows(record, curve, statistic);
        if let Some((effect, count)) = inflection::across(&rows, found) {
            let name = format!("inflection.{nth}.across.{}", statistic.token());
            report.findings.push(measured(name, effect, "", count, &[]));
        }
    }
}
