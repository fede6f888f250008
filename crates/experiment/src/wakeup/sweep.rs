//! The sweep: sizes by strides by what becomes of a block. Everything is seen once; then the curves that say most are
//! repeated, interleaved, until their breaks can be told, and then between the sizes round a break.

use fathom_analysis::findings::{Key, Metric};
use fathom_analysis::wakeup::inflection::{self, Inflection, REPEATS, Row};
use fathom_probe::load::{BlockMode, Load, Stress, Stressor};
use fathom_probe::machine::ClockTrust;
use fathom_probe::pattern::{PatternKind, Trial, Wake};

use super::conditions::{Case, State};
use super::options::Options;
use super::trials::{WARM, an_activation, close, every_ns, seed_of, series, traced, within};
use crate::budget::Budget;
use crate::cost::WAKE_START_NS;
use crate::record::{Record, TrialRun};

/// Sizes where none are asked for, bytes: those of the study's plot, doubling from 1 MiB to 256 MiB.
const SIZES: std::ops::RangeInclusive<u32> = 20..=28;
/// Workers of a cell: the study's.
const WORKERS: u64 = 2;
/// The stride where none is asked for, bytes: the study's default, a page.
const STRIDE: u64 = 4096;
/// Series of the first look at all cells, ns, at most.
const SCREEN_NS: u64 = 3_000_000_000;
/// Share of the budget that this look may take.
const SCREEN: f64 = 0.4;
/// Curves that are repeated.
const CURVES: usize = 2;
/// A break is known well enough where the sizes round it differ by less than this factor.
const CLOSE: f64 = 1.1;
/// Page faults a second that are as good as none: a fault takes about a microsecond, so below a thousand a second less
/// than a thousandth of a worker's time is faults, and even p99.9 is of wake-ups that meet none.
const PERIODS_PER_FAULT: f64 = 1000.0;
/// Activations a repeat, at least, for p99.9 to lie below the maximum; fewer give p99.
pub(super) const FOR_P999: usize = 2000;

/// One curve: everything but the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Curve {
    pub kind: Stress,
    pub stride: u64,
    pub mode: BlockMode,
}

impl Curve {
    /// Its words for people, without the size. Every hang is a curve of its own: `hang2` and `hang4` are other loads.
    pub(super) fn token(&self) -> String {
        format!("{}.{}.{}", self.kind.token(), self.mode, self.stride)
    }

    /// The key of a metric of the whole curve.
    pub(super) fn key(&self, metric: &'static Metric) -> Key {
        metric.at([self.kind.token().into(), (&self.mode.to_string()).into(), self.stride.into()])
    }

    /// The key of a metric at a size.
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

/// The curve and size that a trial belongs to. A record may have trials that no sweep asks for: what has no blocks, and
/// so neither size nor stride, is on no curve.
pub(super) fn of(trial: &Trial) -> Option<(Curve, u64)> {
    let ([], [s]) = (&trial.beside.streams[..], &trial.beside.load.stressors[..]) else { return None };
    let (curve, bytes) = (Curve { kind: s.kind, stride: s.stride, mode: s.mode }, s.bytes);
    (curve.stride > 0 && bytes > 0).then_some((curve, bytes))
}

/// The curves that a record asks for and the machine of the record does not run: a described one runs no worker yet.
pub(super) fn not_run(record: &Record) -> Vec<Curve> {
    if runs(record) { Vec::new() } else { requested(record).0 }
}

fn runs(record: &Record) -> bool {
    record.trust != Some(ClockTrust::Modelled)
}

/// Curves and sizes that a record asks for.
fn requested(record: &Record) -> (Vec<Curve>, Vec<u64>) {
    let asked = Options::of(record);
    let mut sizes =
        if asked.bytes.is_empty() { SIZES.map(|shift| 1 << shift).collect() } else { asked.bytes };
    sizes.sort_unstable();
    sizes.dedup();
    let kind = if asked.like_stress { Stress::Malloc } else { Stress::Vm };
    let strides = if asked.strides.is_empty() { vec![STRIDE] } else { asked.strides };
    let all = vec![BlockMode::Free, BlockMode::Kept, BlockMode::Hang(2)];
    let modes = if asked.modes.is_empty() { all } else { asked.modes };
    let curves =
        strides.iter().flat_map(|&stride| modes.iter().map(move |&keep| Curve { kind, stride, mode: keep }));
    (curves.collect(), sizes)
}

/// Series of a curve at a size behind the first, which is the look at it and shorter, in the order of the record.
fn repeats<'a>(record: &'a Record, curve: &Curve, bytes: u64) -> Vec<&'a TrialRun> {
    record.of(PatternKind::Wake).filter(|run| of(&run.trial) == Some((*curve, bytes))).skip(1).collect()
}

/// What of a series a curve is of. Where the path is longer, the middle moves; where something is met now and then, the
/// tail alone; and where the load does another thing, its page faults, whatever latencies make of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statistic {
    /// p99.9, or p99 where a series is too short for that.
    Tail,
    P90,
    P50,
    /// Page faults of one worker in a second.
    Faults,
}

impl Statistic {
    /// Those of latencies.
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

    /// Of one series, us or 1/s; not a number where it was not counted.
    pub(super) fn of(self, run: &TrialRun) -> f64 {
        let mut late: Vec<u64> = run.wakeups.woken.iter().map(|w| w.user_ns).collect();
        late.sort_unstable();
        let share = match self {
            Statistic::Tail if late.len() >= FOR_P999 => 0.999,
            Statistic::Tail => 0.99,
            Statistic::P90 => 0.9,
            Statistic::P50 => 0.5,
            Statistic::Faults => return faults(run).unwrap_or(f64::NAN),
        };
        let at = ((late.len() as f64 * share) as usize).min(late.len().saturating_sub(1));
        late.get(at).map_or(0.0, |ns| *ns as f64 / 1000.0)
    }
}

/// Page faults of one worker in a second, where they were counted.
pub(super) fn faults(run: &TrialRun) -> Option<f64> {
    let workers = run.trial.beside.load.stressors.first()?.workers.max(1);
    let load_stats = run.wakeups.load_stats.first().filter(|p| p.ns > 0)?;
    Some(load_stats.faults as f64 / workers as f64 / (load_stats.ns as f64 / 1e9))
}

/// A curve as rows, each size with as many repeats as the size that has fewest. Sizes that the budget left too few for,
/// as those between two others may be, say nothing where others have enough.
pub(super) fn rows(record: &Record, curve: &Curve, statistic: Statistic) -> Vec<Row> {
    let mut sizes: Vec<u64> = record
        .of(PatternKind::Wake)
        .filter_map(|run| of(&run.trial))
        .filter(|(c, _)| c == curve)
        .map(|(_, bytes)| bytes)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    // The first look has shorter series: what is repeated counts where there is enough of it.
    let all: Vec<(u64, Vec<f64>)> = sizes
        .into_iter()
        .map(|bytes| {
            let runs = repeats(record, curve, bytes);
            (bytes, runs.iter().map(|run| statistic.of(run)).collect())
        })
        .collect();
    let fewest_of = |least: usize| all.iter().map(|(_, tails)| tails.len()).filter(|n| *n >= least).min();
    let fewest = fewest_of(inflection::MIN_SIZES).or_else(|| fewest_of(1)).unwrap_or(0);
    let kept = all.into_iter().filter(|(_, tails)| tails.len() >= fewest.max(1));
    kept.map(|(bytes, mut tails)| {
        tails.truncate(fewest);
        Row { bytes, repeats: tails }
    })
    .collect()
}

/// The breaks of a curve.
pub(super) fn breaks(
    record: &Record,
    curve: &Curve,
    statistic: Statistic,
) -> Result<Vec<Inflection>, inflection::Refusal> {
    let (rows, seed) = (rows(record, curve, statistic), seed_of(record, 0x5eeb));
    match statistic {
        Statistic::Faults => inflection::rates(&rows, PERIODS_PER_FAULT, seed),
        _ => inflection::read(&rows, seed),
    }
}

/// Curves that were begun, in the order of the first look.
pub(super) fn curves(record: &Record) -> Vec<Curve> {
    let mut all = Vec::new();
    for (curve, _) in record.of(PatternKind::Wake).filter_map(|run| of(&run.trial)) {
        if !all.contains(&curve) {
            all.push(curve);
        }
    }
    all
}

/// The next round of the sweep.
pub(super) fn round(record: &Record, budget: &Budget, seed: u64) -> Vec<Trial> {
    if !runs(record) {
        return Vec::new();
    }
    let (all, sizes) = requested(record);
    let refused = |case: &Case| record.trials.iter().any(|r| r.refusal.is_some() && case.is_of(&r.trial));
    let cases = |curves: &[Curve], sizes: &[u64]| -> Vec<Case> {
        let of = |curve: &Curve| sizes.iter().map(|&bytes| curve.case(bytes)).collect::<Vec<_>>();
        curves.iter().flat_map(of).filter(|case| !refused(case)).collect()
    };
    // A cell that nobody has looked at, also where a record was cut off in the first look.
    let unseen = |case: &Case| !record.of(PatternKind::Wake).any(|run| case.is_of(&run.trial));
    let first: Vec<Case> = cases(&all, &sizes).into_iter().filter(unseen).collect();
    // The look is for the choice of curves. Where all are repeated anyway, it is no more than another repeat.
    let rounds = REPEATS + REPEATS / 2;
    let look = match all.len() > CURVES {
        true => budget.share(SCREEN),
        false => budget.total / (rounds + 1) as u64,
    };
    let (wanted, n) = if first.is_empty() {
        let curves = informative(record, &all);
        let missing = |curve: &Curve| cases(&[*curve], &short(record, curve, &sizes));
        // One length for all repeats, so that their tails are of one percentile: what the look leaves is for the
        // repeats of all sizes, and for half as many of those between.
        let share = (budget.total - look) / rounds as u64;
        let n = activations(record, budget, share, sizes.len() * curves.len());
        (curves.iter().flat_map(missing).collect(), n)
    } else {
        let n = activations(record, budget, look, all.len() * sizes.len());
        (first, within(record, n.min(SCREEN_NS / every_ns(record))))
    };
    let wanted = wanted.iter().map(|case| series(record, case, n, traced(record))).collect();
    close(record, budget, wanted, |_| 0, (seed, 0x5eeb))
}

/// The curves that say most, by the look at all of them: where the tail differs most between sizes.
fn informative(record: &Record, all: &[Curve]) -> Vec<Curve> {
    let contrast = |curve: &Curve| {
        let tails: Vec<f64> = record
            .of(PatternKind::Wake)
            .filter(|run| of(&run.trial).is_some_and(|(c, _)| c == *curve))
            .filter(|run| first_of_its_cell(record, run))
            .map(|run| {
                // p90 of a short series is surer than its tail, and what moves the one moves the other.
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
    ranked.into_iter().take(CURVES).map(|(_, curve)| curve).collect()
}

/// Is it the look at its cell?
fn first_of_its_cell(record: &Record, run: &TrialRun) -> bool {
    let first = record.of(PatternKind::Wake).find(|other| of(&other.trial) == of(&run.trial));
    first.is_some_and(|first| first.trial.id == run.trial.id)
}

/// Sizes of a curve that want one more repeat: all, until they have enough; then those between the sizes round a break.
fn short(record: &Record, curve: &Curve, sizes: &[u64]) -> Vec<u64> {
    let count = |bytes: u64| repeats(record, curve, bytes).len();
    let short: Vec<u64> = sizes.iter().copied().filter(|&bytes| count(bytes) < REPEATS).collect();
    if !short.is_empty() {
        return short;
    }
    let begun: Vec<u64> = record
        .of(PatternKind::Wake)
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
    let mut wanted: Vec<u64> = Vec::new();
    for statistic in Statistic::ALL {
        let found = breaks(record, curve, statistic).unwrap_or_default();
        // Sizes are told in MiB: a block is pages, and nothing of a worker's path knows less than that.
        wanted.extend(inflection::next_sizes(&rows(record, curve, statistic), &found, CLOSE, 1 << 20));
    }
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

/// Activations of each of so many series that share `ns` of the budget.
fn activations(record: &Record, budget: &Budget, share: u64, count: usize) -> u64 {
    let each = an_activation(record, budget).unwrap_or(1);
    let start = if budget.modelled { 0 } else { starting(record) };
    let one = share / count.max(1) as u64;
    let n = one.saturating_sub(start) / each;
    within(record, n.saturating_sub(WARM))
}

/// What starting and ending the load of a series takes here, ns: the mean of what it took so far. Large blocks that
/// settle before they count take seconds on a slow machine, and the sweep would run out of budget before its repeats.
fn starting(record: &Record) -> u64 {
    let of = |run: &TrialRun| {
        let done = run.done.as_ref().filter(|_| !run.trial.beside.load.is_none())?;
        let wakes = run.trial.samples.saturating_add(run.trial.warm);
        Some(
            done.spent_ns.saturating_sub(wakes.saturating_mul(run.trial.or_default::<Wake>().wakes.every_ns)),
        )
    };
    let seen: Vec<u64> = record.of(PatternKind::Wake).filter_map(of).collect();
    let sum = seen.iter().fold(0, |sum: u64, ns| sum.saturating_add(*ns));
    sum.checked_div(seen.len() as u64).map_or(WAKE_START_NS, |mean| mean.max(WAKE_START_NS))
}

#[cfg(test)]
mod tests;
