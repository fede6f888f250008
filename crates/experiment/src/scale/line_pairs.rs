//! Whether lines are longer than 128 bytes: a test that needs no curve.
//!
//! Two loads of a pair follow each other, and the pairs are in random order. In a line of 256 bytes, the second of two loads 128
//! bytes apart hits in the level that has such lines; the second of two loads 256 bytes apart does not. Nothing else differs: each pair
//! is in one page and in one row of memory, and its extent is the same. Other users of the machine slow down both.
//!
//! A model does not warm the caches while it initialises a chain, so all pairs of a walk come from memory there. A host does: what all of its
//! caches hold says nothing about lines of the last one, and only [`long_lines`](super::long_lines) can tell.

use fathom_analysis::interval::median;
use fathom_probe::pattern::{Chase, OrderKind, Pattern, PatternKind, Trial, Walk};

use super::{PAIR_STRIDE, Scale};
use crate::record::{Record, TrialRun};

/// Bytes between the two loads of a pair: in one line of 256 bytes, and never in one.
pub(crate) const DISTANCES: [u64; 2] = [PAIR_STRIDE, 2 * PAIR_STRIDE];
/// Extent of the pairs, bytes: beyond most caches, and more cells than a walk of [`plan`](crate::latency_curve) visits. A host takes 0.1 s
/// for both distances.
pub(crate) const EXTENT: u64 = 128 << 20;
/// Smallest extent, bytes: the pairs of one run on a model.
pub(crate) const MIN_EXTENT: u64 = 1 << 20;
/// Loads of a run on a model, in addition to those that the resolution of its clock needs: enough for all banks and rows of memory.
pub(crate) const MIN_LOADS: u64 = 2048;
/// Number of trials of each distance where others use the machine, in different rounds.
pub(crate) const TRIALS: usize = 3;
/// Largest ratio of the times of both distances that lines of 256 bytes have: successive levels are 1.3 apart at least
/// ([`Options::min_ratio`](fathom_analysis::tiers::Options)), so that half of the loads as hits make it 0.89. Half of the difference to
/// one is left for noise.
const MAX_RATIO: f64 = 0.94;
/// The same on hardware, where memory takes at least twice as long as the last cache: such lines make it 0.75. Without them, prefetchers
/// and open rows made it 0.95 on an EPYC guest.
const MAX_RATIO_HARDWARE: f64 = 0.85;
/// Ratio from which on both take as long: with translations that take three times as long as memory, such lines make it 0.97.
const EQUAL: f64 = 0.985;

/// Returns the pattern of the test.
pub(crate) fn pattern(scale: &Scale) -> Pattern {
    Chase::over(Walk { order: OrderKind::Pairs, window: scale.base }).into()
}

/// Returns whether this trial is one of the test.
pub(crate) fn is_of(trial: &Trial) -> bool {
    trial.kind() == PatternKind::Chase && trial.pattern.walk().order == OrderKind::Pairs
}

/// Returns the number of rounds that have both distances.
pub(crate) fn rounds(record: &Record) -> usize {
    ratios(record).len()
}

/// Returns the ratio of the times of both distances in each round that has them.
fn ratios(record: &Record) -> Vec<f64> {
    let times = |distance: u64| of(record, distance);
    let far = times(DISTANCES[1]);
    let ratio = |(round, near): (u64, f64)| {
        let (_, far) = far.iter().find(|far| far.0 == round && far.1 > 0.0)?;
        Some(near / far)
    };
    times(DISTANCES[0]).into_iter().filter_map(ratio).collect()
}

/// Returns round and time of every trial with this distance, ticks per load.
fn of(record: &Record, distance: u64) -> Vec<(u64, f64)> {
    let runs = record.of(PatternKind::Chase);
    let runs = runs.filter(|run| is_of(&run.trial) && run.trial.memory.stride == distance);
    let time = |run: &TrialRun| {
        let ticks: Vec<f64> = run.ticks_per_op().collect();
        Some((run.trial.round, median(&ticks)?))
    };
    runs.filter_map(time).collect()
}

/// Returns whether there are such lines; `None` without enough trials, or if they do not decide it.
pub(super) fn found(record: &Record) -> Option<bool> {
    let ratios = ratios(record);
    if ratios.len() < if record.is_exact() { 1 } else { TRIALS } {
        return None;
    }
    // A burst may meet one distance in each round: the shortest times have to agree.
    let shortest = |distance| of(record, distance).iter().map(|t| t.1).fold(f64::INFINITY, f64::min);
    let ratio = median(&ratios)?.max(shortest(DISTANCES[0]) / shortest(DISTANCES[1]));
    let modelled = record.is_modelled();
    let most = if modelled { MAX_RATIO } else { MAX_RATIO_HARDWARE };
    let equal = modelled && ratio >= EQUAL;
    (ratio < most || equal).then_some(!equal)
}

#[cfg(test)]
mod tests {
    use fathom_analysis::claims::FactValue;
    use fathom_probe::machine::ClockTrust;
    use fathom_probe::pattern::Memory;
    use fathom_probe::rows::{Done, Sample};
    use fathom_units::facts;

    use super::*;

    /// Returns a record of rounds with these times of both distances, in ticks per load.
    fn record(rounds: &[[u64; 2]], trust: ClockTrust) -> Record {
        let mut record = Record::default();
        record.trust = Some(trust);
        for (round, times) in (1..).zip(rounds) {
            for (stride, ticks) in DISTANCES.into_iter().zip(times) {
                let chase = Chase::over(Walk { order: OrderKind::Pairs, window: 4096 });
                let memory = Memory::of(EXTENT, stride);
                let trial = Trial { round, loads: 100, memory, ..Trial::of(Pattern::from(chase)) };
                let sample = Sample { ticks: 100 * ticks, ticks2: 200 * ticks, ..Sample::default() };
                let (samples, done) = (vec![sample; 3], Some(Done::default()));
                record.trials.push(TrialRun { trial, samples, done, ..TrialRun::default() });
            }
        }
        record
    }

    #[test]
    fn second_load_that_hits_is_in_the_same_line() {
        let exact = |times| found(&record(&[times], ClockTrust::Modelled));
        assert_eq!(exact([60, 100]), Some(true));
        assert_eq!(exact([100, 100]), Some(false));
        assert_eq!(exact([130, 100]), Some(false));
        assert_eq!(exact([96, 100]), None, "slow translations may hide it");
        assert_eq!(found(&Record::default()), None);
    }

    #[test]
    fn bursts_do_not_make_long_lines() {
        let mut beside = record(&[[60, 100], [60, 100]], ClockTrust::Modelled);
        beside.facts.extend([(facts::DESCRIBED_NEIGHBOURS.to_owned(), FactValue::Int(1))]);
        assert_eq!(found(&beside), None, "two rounds do not decide");
        let of = |rounds: &[[u64; 2]]| found(&record(rounds, ClockTrust::Virtual));
        assert_eq!(of(&[[100, 160], [150, 240], [61, 100]]), Some(true));
        // Bursts at two of the far trials, and at two of the near ones.
        assert_eq!(of(&[[100, 160], [100, 190], [100, 100]]), None);
        assert_eq!(of(&[[130, 100], [60, 160], [150, 100]]), None);
        assert_eq!(of(&[[90, 100], [89, 100], [88, 100]]), None, "a prefetcher");
        // A host warms its caches: equal times say nothing about a level that holds the extent.
        assert_eq!(of(&[[100, 100], [100, 100], [100, 100]]), None);
    }
}
