//! Reads a record of `fathom latency`: histograms, peaks, bias, and the tier and TLB hits of each working set.

use fathom_analysis::claims::decode;
use fathom_analysis::findings::{Histogram, Report, Warning, WarningKind};
use fathom_analysis::histogram::{Group, bars, groups, main_group};
use fathom_analysis::interval::{Interval, grouped_interval, median};
use fathom_analysis::metrics::{common, latency};
use fathom_probe::pattern::{OrderKind, PatternKind, Single};
use fathom_units::size;

use super::measure::{Bias, Measure, Set, by_trial, ids, joined, peak};
use super::{NAME, ladder};
use crate::clock::{loads_per_sample, resolution_ticks};
use crate::disturbance;
use crate::reading::{clocks, disturbance_rows, measured, new_report, refuse_all, text};
use crate::record::Record;
use crate::scale::{Scale, clock_is_usable};

/// Reads a record. The report depends on the record alone.
#[must_use]
pub fn read(record: &Record) -> Report {
    let mut report = new_report(record, NAME);
    if !clock_is_usable(record) {
        refuse_all(record, "histograms and every latency", &mut report);
        return report;
    }
    let scale = Scale::of(record);
    let measure = Measure::of(record, &scale);
    let sets: Vec<Set> = sets(&measure, record);
    let repeats: Vec<Vec<f64>> =
        sets.iter().map(|s| s.random.iter().filter_map(|t| median(&t.1)).collect()).collect();
    disturbance_rows(&disturbance::judge(record, &scale.cycle_ticks, &repeats), &mut report);
    clocks(record, &scale, &mut report);
    let bias = measure.bias(&sets);
    if let Some(bias) = &bias {
        report.findings.push(bias.row(&measure));
    }
    access_times(&sets, bias.as_ref(), &measure, &mut report);
    ladder::rows(record, bias.as_ref(), &measure, &mut report);
    if let Some(timed) = loads_per_sample(scale.cycle(), resolution_ticks(record)) {
        report.warnings.push(Warning {
            kind: WarningKind::CoarseClock,
            text: format!(
                "the clock's resolution is {:.0} core cycles: a sample is the mean of {timed} dependent loads, so the \
                 histogram does not show single loads",
                measure.resolution
            ),
            remedy: "use a cycle counter (on ARM: allow user-space access to the PMU)".into(),
        });
    }
    missing(record, &sets, &mut report);
    report.findings.extend(crate::claims::rows(&decode(&record.facts)));
    report
}

/// Returns the working sets, without the trials of ladders.
fn sets(measure: &Measure<'_>, record: &Record) -> Vec<Set> {
    let places = ladder::places(record);
    let mut sets: Vec<Set> = Vec::new();
    for run in &record.trials {
        let (single, chase) =
            (run.trial.kind() == PatternKind::Single, run.trial.kind() == PatternKind::Chase);
        if !(single || chase) || run.samples.is_empty() || ladder::ladder_step(&run.trial, &places).is_some()
        {
            continue;
        }
        let bytes = run.trial.memory.bytes;
        let at = sets.iter().position(|s| s.bytes == bytes).unwrap_or_else(|| {
            let (random, random_ns, window) = (Vec::new(), Vec::new(), Vec::new());
            sets.push(Set { bytes, spacing: 0, timed: 1, single: Vec::new(), random, random_ns, window });
            sets.len() - 1
        });
        let set = &mut sets[at];
        match (single, run.trial.pattern.walk().order) {
            (true, _) => {
                (set.spacing, set.timed) = (run.trial.loads, run.trial.or_default::<Single>().timed.max(1));
                set.single.push((run.trial.id, measure.raw(run)));
            }
            (false, OrderKind::Window) => set.window.push((run.trial.id, measure.times(run))),
            (false, _) => {
                set.random.push((run.trial.id, measure.times(run)));
                set.random_ns.push((run.trial.id, measure.nanoseconds(run)));
            }
        }
    }
    sets.sort_by_key(|s| s.bytes);
    sets
}

/// Ratio from which two working sets are in different tiers, as in the survey; and ratio from which random order is
/// said to miss in the TLB, a quarter of that.
const MIN_TIER_RATIO: f64 = 1.25;
const MIN_TLB_MISS_RATIO: f64 = 1.06;

fn access_times(sets: &[Set], bias: Option<&Bias>, measure: &Measure<'_>, report: &mut Report) {
    let mut tier = 0;
    let mut level = 0.0;
    for set in sets {
        let random = joined(&set.random);
        let mean = grouped_interval(&by_trial(&set.random));
        let found = groups(&joined(&set.single), measure.resolution);
        // Without the bias a peak would be wrong by its whole amount.
        let main = main_group(&found).zip(bias).map(|(g, bias)| peak(g, set.timed, bias, measure));
        // The tier follows from the loads that any TLB holds, so that page walks do not count as a tier.
        let hit_time = median(&joined(&set.window)).or(mean.map(|m| m.value));
        if let Some(hit_time) = hit_time.filter(|g| *g >= MIN_TIER_RATIO * level) {
            tier += 1;
            level = hit_time;
        }
        let at = [set.bytes.into()];
        let condition = condition(tier, set, mean);
        if let Some((mean, ns)) = mean.zip(grouped_interval(&by_trial(&set.random_ns))) {
            let mut row = measured(latency::LATENCY_TIME.at(at), ns, "ns", random.len(), &ids(&set.random));
            row.notes.push(condition.clone());
            report.findings.push(row);
            if measure.unit == "cycles" {
                report.findings.push(measured(
                    latency::LATENCY_CYCLES.at(at),
                    mean,
                    "cycles",
                    random.len(),
                    &ids(&set.random),
                ));
            }
        }
        if let Some(main) = main {
            let count = joined(&set.single).len();
            let mut row =
                measured(latency::LATENCY_PEAK.at(at), main, measure.unit, count, &ids(&set.single));
            row.notes.push(shape(&found, count, set, measure));
            report.findings.push(row);
        }
        if let Some(missed) = misses(set, mean) {
            let mut row = text(latency::LATENCY_TLB.at(at), if missed { "miss" } else { "hit" });
            row.count = random.len() as u64;
            row.trials = [ids(&set.random), ids(&set.window)].concat();
            report.findings.push(row);
        }
        if !set.single.is_empty() {
            report.histograms.push(Histogram {
                key: latency::LATENCY_SINGLE.at(at),
                bytes: set.bytes,
                unit: measure.unit,
                loads_per_sample: set.timed,
                counts: bars(
                    &joined(&set.single)
                        .iter()
                        .map(|v| (set.per_load(*v) * 100.0).round() / 100.0)
                        .collect::<Vec<_>>(),
                ),
            });
        }
    }
}

/// Returns whether random loads miss in the TLB; `None` if one of the orders was not measured.
fn misses(set: &Set, mean: Option<Interval>) -> Option<bool> {
    let window = median(&joined(&set.window))?;
    Some(mean?.value > MIN_TLB_MISS_RATIO * window)
}

fn condition(tier: u64, set: &Set, mean: Option<Interval>) -> String {
    match (misses(set, mean), median(&joined(&set.window)), mean) {
        (Some(true), Some(window), Some(mean)) => format!(
            "tier {tier}, TLB miss: {:.0} % is translation, compared with an order that stays in few pages",
            100.0 * (1.0 - window / mean.value)
        ),
        (Some(false), ..) => format!("tier {tier}, TLB hit"),
        _ => format!("tier {tier}"),
    }
}

/// Formats the groups of a histogram, per load and including the bias, the largest first.
fn shape(found: &[Group], count: usize, set: &Set, measure: &Measure<'_>) -> String {
    let mut by_count: Vec<&Group> = found.iter().collect();
    by_count.sort_by_key(|g| core::cmp::Reverse(g.count));
    let parts: Vec<String> = by_count
        .iter()
        .take(4)
        .map(|g| {
            let share = 100.0 * g.count as f64 / count as f64;
            let (low, high) = (set.per_load(g.range.0), set.per_load(g.range.1));
            // A mean of several loads may be between two units of the clock.
            let digits = usize::from(set.timed > 1);
            let range = if high > low {
                format!("{low:.digits$} to {high:.digits$}")
            } else {
                format!("{low:.digits$}")
            };
            format!("{share:.1} % at {range}")
        })
        .collect();
    let more = found.len().saturating_sub(4);
    let rest = if more > 0 { format!(", {more} more groups") } else { String::new() };
    let spaced = format!("one sample of {} in {} loads", set.timed, set.spacing + set.timed);
    format!("raw {}: {}{rest}; {spaced}", measure.unit, parts.join(", "))
}

/// Warns of requested sizes that were not measured.
fn missing(record: &Record, sets: &[Set], report: &mut Report) {
    if record.run.is_none() {
        return;
    }
    let lost: Vec<String> = super::sizes::requested(record)
        .into_iter()
        .filter(|b| sets.iter().all(|s| s.bytes != *b || s.single.is_empty()))
        .map(|b| size(b as f64))
        .collect();
    if !report.findings.iter().any(|f| f.is(&common::BIAS_SAMPLE))
        && sets.iter().any(|s| !s.single.is_empty())
    {
        report.warnings.push(Warning {
            kind: WarningKind::BudgetExhausted,
            text: "the bias was not measured, so there are no peaks".into(),
            remedy: "give it a larger --budget".into(),
        });
    }
    if !lost.is_empty() {
        report.warnings.push(Warning {
            kind: WarningKind::BudgetExhausted,
            text: format!("not measured within the budget or the memory: {}", lost.join(", ")),
            remedy: "give it a larger --budget or smaller sizes".into(),
        });
    }
}
