//! Reads a record of `fathom latency`: histograms, peaks, bias, and the tier and TLB hits of each working set.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fathom_analysis::claims::decode;
use fathom_analysis::findings::{Histogram, Report, Warning, WarningKind};
use fathom_analysis::histogram::{Group, bars, groups, main_group};
use fathom_analysis::interval::{Interval, grouped_interval, median};
use fathom_analysis::metrics::{common, latency};
use fathom_probe::pattern::{OrderKind, PatternKind, Single};
use fathom_units::size;

use super::events::ByTime;
use super::measure::{Bias, MIN_TLB_MISS_RATIO, Measure, Set, by_trial, ids, joined, nearest, peak};
use super::{NAME, events, ladder};
use crate::clock::{loads_per_sample, resolution_ticks};
use crate::counted::TrialEvents;
use crate::disturbance;
use crate::reading::{clocks, disturbance_rows, measured, new_report, refuse_all, text};
use crate::record::{Record, TrialRun};
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
    let by_time = access_times(&sets, bias.as_ref(), &measure, &mut report);
    events::rows(&sets, &by_time, &measure, &mut report);
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
            let (random, random_ns, window, events) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            let timed = loads_timed(record, bytes);
            sets.push(Set {
                bytes,
                spacing: 0,
                timed,
                single: Vec::new(),
                random,
                random_ns,
                window,
                events,
            });
            sets.len() - 1
        });
        let set = &mut sets[at];
        match (single, run.trial.pattern.walk().order) {
            (true, _) if timed_loads(run) == set.timed => {
                set.spacing = run.trial.loads;
                set.single.push((run.trial.id, measure.raw(run)));
            }
            (true, _) => {}
            (false, OrderKind::Window) => set.window.push((run.trial.id, measure.times(run))),
            (false, _) => {
                set.random.push((run.trial.id, measure.times(run)));
                set.random_ns.push((run.trial.id, measure.nanoseconds(run)));
                set.events.extend(TrialEvents::of(run));
            }
        }
    }
    sets.sort_by_key(|s| s.bytes);
    sets
}

/// Returns the loads that each sample of a trial of single loads timed.
fn timed_loads(run: &TrialRun) -> u64 {
    run.trial.or_default::<Single>().timed.max(1)
}

/// Returns the loads per sample of most trials at a working set; of the fewest loads if equally many have them. The number
/// follows the clock's resolution, of which later rounds know more, and samples of different numbers of loads have no
/// common histogram.
fn loads_timed(record: &Record, bytes: u64) -> u64 {
    let mut trials: BTreeMap<u64, usize> = BTreeMap::new();
    for run in record.of(PatternKind::Single).filter(|run| run.trial.memory.bytes == bytes) {
        *trials.entry(timed_loads(run)).or_default() += 1;
    }
    trials.into_iter().max_by_key(|(timed, count)| (*count, Reverse(*timed))).map_or(1, |(timed, _)| timed)
}

/// Ratio from which two working sets are in different tiers, as in the survey.
const MIN_TIER_RATIO: f64 = 1.25;

/// Adds the findings on time, and returns what time says of each working set.
fn access_times(
    sets: &[Set],
    bias: Option<&Bias>,
    measure: &Measure<'_>,
    report: &mut Report,
) -> Vec<ByTime> {
    let mut by_time = Vec::new();
    let nearest = nearest(sets);
    let mut tier = 0;
    let mut level = 0.0;
    for set in sets {
        let random = joined(&set.random);
        let mean = set.mean();
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
        let tlb_misses = misses(set, mean);
        if let Some(missed) = tlb_misses {
            let mut row = text(latency::LATENCY_TLB.at(at), if missed { "miss" } else { "hit" });
            row.count = random.len() as u64;
            row.trials = [ids(&set.random), ids(&set.window)].concat();
            report.findings.push(row);
        }
        report.histograms.extend(histogram(set, measure));
        let slower = mean.zip(nearest).map_or(f64::INFINITY, |(mean, nearest)| mean.value / nearest.value);
        by_time.push(ByTime { bytes: set.bytes, tier, tlb_misses, slower });
    }
    by_time
}

/// Returns the histogram of a working set's single loads, if there are any.
fn histogram(set: &Set, measure: &Measure<'_>) -> Option<Histogram> {
    let per_load = |v: &f64| (set.per_load(*v) * 100.0).round() / 100.0;
    (!set.single.is_empty()).then(|| Histogram {
        key: latency::LATENCY_SINGLE.at([set.bytes.into()]),
        bytes: set.bytes,
        unit: measure.unit,
        loads_per_sample: set.timed,
        counts: bars(&joined(&set.single).iter().map(per_load).collect::<Vec<_>>()),
    })
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

#[cfg(test)]
mod tests {
    use fathom_probe::pattern::{Alu, Clock, Memory, Trial};
    use fathom_probe::rows::{Done, Sample};

    use super::*;

    /// Returns a trial with these samples (ticks).
    fn run(id: u64, trial: Trial, ticks: u64, ticks2: u64) -> TrialRun {
        let sample = Sample { ticks, ticks2, ..Sample::default() };
        TrialRun {
            trial: Trial { id, ..trial },
            samples: vec![sample; 20],
            done: Some(Done { trial: id, ..Done::default() }),
            ..TrialRun::default()
        }
    }

    /// Samples of different numbers of loads are not mixed: a sum is not a mean.
    #[test]
    fn each_histogram_has_one_number_of_loads_per_sample() {
        let mut record = Record::default();
        let memory = || Memory::of(16 << 10, 64);
        let single = |timed| Trial {
            memory: memory(),
            loads: 300,
            ..Trial::of(Single { timed, ..Single::default() })
        };
        record.trials.extend([
            run(1, Trial { loads: 1000, ..Trial::of(Clock) }, 26, 26 * 40),
            run(2, Trial { loads: 1000, ..Trial::of(Alu) }, 26 * 40, 26 * 80),
            // 197 loads of 4 cycles and an overhead of 60.
            run(3, single(197), 848, 60),
            run(4, single(197), 848, 60),
            // Later rounds know a finer clock.
            run(5, single(1), 64, 60),
            run(6, Trial { memory: memory(), loads: 1000, ..Trial::default() }, 0, 4160),
        ]);
        let scale = Scale::of(&record);
        let measure = Measure::of(&record, &scale);
        let sets = sets(&measure, &record);
        let set = sets.first().expect("a set");
        assert_eq!((set.timed, ids(&set.single)), (197, vec![3, 4]));
        let mean = set.per_load(median(&joined(&set.single)).expect("samples"));
        let cycles = 848.0 / 197.0 / measure.ticks;
        assert!((mean - cycles).abs() < 0.01, "{mean} {cycles}");
    }
}
