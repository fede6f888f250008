//! The sweep over block sizes, strides and modes. A pilot round measures every combination. Then the most informative
//! curves are repeated, interleaved, until their change-points are significant, and then at sizes around each
//! change-point.

use fathom_analysis::findings::{Key, Metric};
use fathom_analysis::wakeup::changepoint::{self, ChangePoint, REPEATS, Row};
use fathom_probe::load::{BlockMode, Load, Stress, Stressor};
use fathom_probe::pattern::{PatternKind, Trial, Wake};

use super::conditions::{Case, State};
use super::options::Options;
use super::trials::{
    self, PILOT_ROUND, WARM, activation_cost, assemble, every_ns, limit_activations, seed_of, series, traced,
};
use crate::budget::Budget;
use crate::cost::WAKE_START_NS;
use crate::record::{Record, TrialRun};

/// Default sizes, bytes: those of the study's plot, doubling from 1 MiB to 256 MiB.
const SIZES: std::ops::RangeInclusive<u32> = 20..=28;
/// Workers per case, as in the study.
const WORKERS: u64 = 2;
/// Default stride, bytes: the study's default, a page.
const STRIDE: u64 = 4096;
/// Maximum length of a series of the pilot round, ns.
const MAX_PILOT_NS: u64 = 3_000_000_000;
/// Share of the budget for the pilot round.
const PILOT_SHARE: f64 = 0.4;
/// Number of curves that are repeated.
const MAX_CURVES: usize = 2;
/// Ratio of the sizes around a change-point below which it is located.
const MAX_SIZE_RATIO: f64 = 1.1;
/// Page faults per second that have no effect: a fault takes about a microsecond. Below a thousand per second, faults
/// take less than a thousandth of a worker's time, and even p99.9 is of wake-ups without a fault.
const NEGLIGIBLE_FAULT_RATE: f64 = 1000.0;
/// Minimum number of activations for p99.9 to be below the maximum; fewer give p99.
pub(super) const MIN_FOR_P999: usize = 2000;

/// One curve: everything but the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Curve {
    pub kind: Stress,
    pub stride: u64,
    pub mode: BlockMode,
}

impl Curve {
    /// Returns its name as text, without the size. Each hold time is a separate curve: `hold2` and `hold4` are different
    /// loads.
    pub(super) fn token(&self) -> String {
        format!("{}.{}.{}", self.kind.token(), self.mode, self.stride)
    }

    /// Returns the key of a metric of the whole curve.
    pub(super) fn key(&self, metric: &'static Metric) -> Key {
        metric.at([self.kind.token().into(), (&self.mode.to_string()).into(), self.stride.into()])
    }

    /// Returns the key of a metric at a size.
    pub(super) fn at(&self, metric: &'static Metric, bytes: u64) -> Key {
        let mode = self.mode.to_string();
        metric.at([self.kind.token().into(), (&mode).into(), self.stride.into(), bytes.into()])
    }

    fn case(&self, bytes: u64) -> Case {
        let stressor = Stressor {
            workers: WORKERS,
            bytes,
            stride: self.stride,
            mode: self.mode,
            ..Stressor::of(self.kind)
        };
        Case { token: String::new(), load: Load { stressors: vec![stressor] }, state: State::Idle }
    }
}

/// Returns the curve and size of a trial. Trials without blocks, which no sweep schedules but a record may contain,
/// belong to no curve.
pub(super) fn of(trial: &Trial) -> Option<(Curve, u64)> {
    let ([], [s]) = (&trial.beside.streams[..], &trial.beside.load.stressors[..]) else { return None };
    let (curve, bytes) = (Curve { kind: s.kind, stride: s.stride, mode: s.mode }, s.bytes);
    (curve.stride > 0 && bytes > 0).then_some((curve, bytes))
}

/// Returns the series of the sweep: all with a load, without those of the pilot round of wake-ups.
pub(super) fn all_series(record: &Record) -> impl Iterator<Item = &TrialRun> {
    record.of(PatternKind::Wake).filter(|run| run.trial.round > PILOT_ROUND)
}

/// Returns the smallest and the largest case of each requested curve.
pub(super) fn pilot(record: &Record) -> Vec<Case> {
    let (curves, sizes) = requested(record);
    let mut ends: Vec<u64> = sizes.first().into_iter().chain(sizes.last()).copied().collect();
    ends.dedup();
    curves.iter().flat_map(|curve| ends.iter().map(|&bytes| curve.case(bytes))).collect()
}

/// Returns each requested curve and size that the machine refused, with reason and remedy.
pub(super) fn refusals(record: &Record) -> Vec<(Curve, u64, &(String, String))> {
    let (curves, sizes) = requested(record);
    let of = |curve: Curve, bytes: u64| {
        trials::refusal(record, &curve.case(bytes)).map(|refusal| (curve, bytes, refusal))
    };
    curves.iter().flat_map(|&curve| sizes.iter().filter_map(move |&bytes| of(curve, bytes))).collect()
}

/// Returns the requested curves and sizes of a record.
fn requested(record: &Record) -> (Vec<Curve>, Vec<u64>) {
    let asked = Options::of(record);
    let mut sizes =
        if asked.bytes.is_empty() { SIZES.map(|shift| 1 << shift).collect() } else { asked.bytes };
    sizes.sort_unstable();
    sizes.dedup();
    let kind = if asked.like_stress { Stress::Malloc } else { Stress::Vm };
    let strides = if asked.strides.is_empty() { vec![STRIDE] } else { asked.strides };
    let all = vec![BlockMode::Free, BlockMode::Kept, BlockMode::Hold(2)];
    let modes = if asked.modes.is_empty() { all } else { asked.modes };
    let curves =
        strides.iter().flat_map(|&stride| modes.iter().map(move |&mode| Curve { kind, stride, mode }));
    (curves.collect(), sizes)
}

/// Returns the series of a curve at a size, in the order of the record, without the first, which is the shorter pilot
/// series.
fn repeats<'a>(record: &'a Record, curve: &Curve, bytes: u64) -> Vec<&'a TrialRun> {
    all_series(record).filter(|run| of(&run.trial) == Some((*curve, bytes))).skip(1).collect()
}

/// A statistic of a series. A longer path shifts the median; rare events affect only the tail; page faults show another
/// behaviour of the load, regardless of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statistic {
    /// p99.9, or p99 if a series is too short for that.
    Tail,
    P90,
    P50,
    /// Page faults per worker and second.
    Faults,
}

impl Statistic {
    /// The statistics of latencies.
    pub(super) const OF_LATENCY: [Statistic; 3] = [Statistic::Tail, Statistic::P90, Statistic::P50];
    pub(super) const ALL: [Statistic; 4] =
        [Statistic::Tail, Statistic::P90, Statistic::P50, Statistic::Faults];

    pub(super) fn token(self) -> &'static str {
        match self {
            Statistic::Tail => "tail",
            Statistic::P90 => "p90",
            Statistic::P50 => "p50",
            Statistic::Faults => "faults",
        }
    }

    /// Returns it for one series, us or 1/s; NaN if it was not counted.
    pub(super) fn of(self, run: &TrialRun) -> f64 {
        let mut late: Vec<u64> = run.wakeups.woken.iter().map(|w| w.user_ns).collect();
        late.sort_unstable();
        let share = match self {
            Statistic::Tail if late.len() >= MIN_FOR_P999 => 0.999,
            Statistic::Tail => 0.99,
            Statistic::P90 => 0.9,
            Statistic::P50 => 0.5,
            Statistic::Faults => return faults(run).unwrap_or(f64::NAN),
        };
        let at = ((late.len() as f64 * share) as usize).min(late.len().saturating_sub(1));
        late.get(at).map_or(0.0, |ns| *ns as f64 / 1000.0)
    }
}

/// Returns the page faults per worker and second, if counted.
pub(super) fn faults(run: &TrialRun) -> Option<f64> {
    let workers = run.trial.beside.load.stressors.first()?.workers.max(1);
    let load_stats = run.wakeups.load_stats.first().filter(|p| p.ns > 0)?;
    Some(load_stats.faults as f64 / workers as f64 / (load_stats.ns as f64 / 1e9))
}

/// Returns the rows of a curve, each size with as many repeats as the size with the fewest. Sizes with too few repeats,
/// such as those between two others, are left out if others have enough.
pub(super) fn rows(record: &Record, curve: &Curve, statistic: Statistic) -> Vec<Row> {
    let mut sizes: Vec<u64> = all_series(record)
        .filter_map(|run| of(&run.trial))
        .filter(|(c, _)| c == curve)
        .map(|(_, bytes)| bytes)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    // Pilot series are shorter: if there are enough repeats, only these count.
    let all: Vec<(u64, Vec<f64>)> = sizes
        .into_iter()
        .map(|bytes| {
            let runs = repeats(record, curve, bytes);
            (bytes, runs.iter().map(|run| statistic.of(run)).collect())
        })
        .collect();
    let fewest_of = |min: usize| all.iter().map(|(_, tails)| tails.len()).filter(|n| *n >= min).min();
    let fewest = fewest_of(changepoint::MIN_SIZES).or_else(|| fewest_of(1)).unwrap_or(0);
    let kept = all.into_iter().filter(|(_, tails)| tails.len() >= fewest.max(1));
    kept.map(|(bytes, mut tails)| {
        tails.truncate(fewest);
        Row { bytes, repeats: tails }
    })
    .collect()
}

/// Returns the change-points of a curve.
pub(super) fn change_points(
    record: &Record,
    curve: &Curve,
    statistic: Statistic,
) -> Result<Vec<ChangePoint>, changepoint::Refusal> {
    let (rows, seed) = (rows(record, curve, statistic), seed_of(record, 0x5eeb));
    match statistic {
        Statistic::Faults => changepoint::rates(&rows, NEGLIGIBLE_FAULT_RATE, seed),
        _ => changepoint::read(&rows, seed),
    }
}

/// Returns the curves that were begun, in the order of the pilot round.
pub(super) fn curves(record: &Record) -> Vec<Curve> {
    let mut all = Vec::new();
    for (curve, _) in all_series(record).filter_map(|run| of(&run.trial)) {
        if !all.contains(&curve) {
            all.push(curve);
        }
    }
    all
}

/// Returns the next round of the sweep.
pub(super) fn round(record: &Record, budget: &Budget, seed: u64) -> Vec<Trial> {
    let (all, sizes) = requested(record);
    let refused = |case: &Case| trials::refusal(record, case).is_some();
    let cases = |curves: &[Curve], sizes: &[u64]| -> Vec<Case> {
        let of = |curve: &Curve| sizes.iter().map(|&bytes| curve.case(bytes)).collect::<Vec<_>>();
        curves.iter().flat_map(of).filter(|case| !refused(case)).collect()
    };
    // A case that has not been measured, also if a record was interrupted in the pilot round.
    let unseen = |case: &Case| !all_series(record).any(|run| case.is_of(&run.trial));
    let first: Vec<Case> = cases(&all, &sizes).into_iter().filter(unseen).collect();
    // The pilot round selects the curves. If all curves are repeated anyway, it is just one more repeat.
    let rounds = REPEATS + REPEATS / 2;
    let pilot = match all.len() > MAX_CURVES {
        true => budget.share(PILOT_SHARE),
        false => budget.total / (rounds + 1) as u64,
    };
    let (trials, n) = if first.is_empty() {
        let curves = informative(record, &all);
        let missing = |curve: &Curve| cases(&[*curve], &missing_sizes(record, curve, &sizes));
        // All repeats have the same length, so that their tails are of one percentile. The budget after the pilot round
        // is for the repeats at all sizes, and for half as many at sizes in between.
        let share = (budget.total - pilot) / rounds as u64;
        let n = activations(record, budget, share, sizes.len() * curves.len());
        (curves.iter().flat_map(missing).collect(), n)
    } else {
        let n = activations(record, budget, pilot, all.len() * sizes.len());
        (first, limit_activations(record, n.min(MAX_PILOT_NS / every_ns(record))))
    };
    let trials = trials.iter().map(|case| series(record, case, n, traced(record))).collect();
    assemble(record, budget, trials, |_| 0, (seed, 0x5eeb))
}

/// Returns the most informative curves by the pilot round: those whose tail differs most between sizes.
fn informative(record: &Record, all: &[Curve]) -> Vec<Curve> {
    let contrast = |curve: &Curve| {
        let tails: Vec<f64> = all_series(record)
            .filter(|run| of(&run.trial).is_some_and(|(c, _)| c == *curve))
            .filter(|run| is_pilot_series(record, run))
            .map(|run| {
                // p90 of a short series is more certain than its tail, and correlates with it.
                let mut late: Vec<u64> = run.wakeups.woken.iter().map(|w| w.user_ns).collect();
                late.sort_unstable();
                late.get(late.len() * 9 / 10).map_or(0.0, |ns| *ns as f64)
            })
            .filter(|late| *late > 0.0)
            .collect();
        let (low, high) = tails.iter().fold((f64::MAX, 0.0f64), |(l, h), t| (l.min(*t), h.max(*t)));
        if low < f64::MAX { high / low } else { 0.0 }
    };
    let mut ranked: Vec<(f64, Curve)> = all.iter().map(|c| (contrast(c), *c)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.into_iter().take(MAX_CURVES).map(|(_, curve)| curve).collect()
}

/// Returns whether it is the pilot series of its case.
fn is_pilot_series(record: &Record, run: &TrialRun) -> bool {
    let first = all_series(record).find(|other| of(&other.trial) == of(&run.trial));
    first.is_some_and(|first| first.trial.id == run.trial.id)
}

/// Returns the sizes of a curve that need one more repeat: all, until they have enough; then those around a
/// change-point.
fn missing_sizes(record: &Record, curve: &Curve, sizes: &[u64]) -> Vec<u64> {
    let count = |bytes: u64| repeats(record, curve, bytes).len();
    let missing: Vec<u64> = sizes.iter().copied().filter(|&bytes| count(bytes) < REPEATS).collect();
    if !missing.is_empty() {
        return missing;
    }
    let begun: Vec<u64> = all_series(record)
        .filter_map(|run| of(&run.trial))
        .filter(|(c, _)| c == curve)
        .map(|(_, b)| b)
        .collect();
    let mut unfinished: Vec<u64> =
        begun.into_iter().filter(|b| !sizes.contains(b) && count(*b) < REPEATS).collect();
    unfinished.sort_unstable();
    unfinished.dedup();
    if !unfinished.is_empty() {
        return unfinished;
    }
    let mut trials: Vec<u64> = Vec::new();
    for statistic in Statistic::ALL {
        let found = change_points(record, curve, statistic).unwrap_or_default();
        // Sizes are in whole MiB: blocks consist of pages, and nothing in a worker's path has a finer granularity.
        trials.extend(changepoint::next_sizes(
            &rows(record, curve, statistic),
            &found,
            MAX_SIZE_RATIO,
            1 << 20,
        ));
    }
    trials.sort_unstable();
    trials.dedup();
    trials
}

/// Returns the activations per series if `count` series use a `share` of the budget, ns.
fn activations(record: &Record, budget: &Budget, share: u64, count: usize) -> u64 {
    let each = activation_cost(record, budget).unwrap_or(1);
    let start = if budget.modelled { 0 } else { start_cost(record) };
    let one = share / count.max(1) as u64;
    let n = one.saturating_sub(start) / each;
    limit_activations(record, n.saturating_sub(WARM))
}

/// Returns the time to start and end the load of a series, ns: the mean so far. Large blocks that settle before the
/// measurement take seconds on a slow machine; otherwise the sweep would exceed its budget before its repeats.
fn start_cost(record: &Record) -> u64 {
    let of = |run: &TrialRun| {
        let done = run.done.as_ref().filter(|_| !run.trial.beside.load.is_none())?;
        let wakes = run.trial.samples.saturating_add(run.trial.warm);
        Some(
            done.spent_ns.saturating_sub(wakes.saturating_mul(run.trial.or_default::<Wake>().wakes.every_ns)),
        )
    };
    let seen: Vec<u64> = all_series(record).filter_map(of).collect();
    let sum = seen.iter().fold(0, |sum: u64, ns| sum.saturating_add(*ns));
    sum.checked_div(seen.len() as u64).map_or(WAKE_START_NS, |mean| mean.max(WAKE_START_NS))
}

#[cfg(test)]
mod tests;
