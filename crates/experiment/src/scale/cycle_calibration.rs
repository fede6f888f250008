//! Ticks per core cycle, from the trials of the cycle calibration.

use std::collections::BTreeSet;

use fathom_analysis::interval::{median, quantile, sorted};
use fathom_probe::pattern::PatternKind;

use crate::record::{Record, TrialRun};

/// Relative distance from a trial's median within which its samples agree. On an idle Sapphire Rapids guest, samples of
/// undisturbed trials differ by 0.4 %, those of disturbed ones by 3 to 500 %.
const AGREEMENT: f64 = 0.015;

/// Returns the ticks per core cycle of each undisturbed sample, with its round and trial.
///
/// A chain of dependent operations always takes the same number of cycles. If the samples of a trial disagree, the task
/// or the CPU was interrupted, and the trial shows no clock. If that holds for every trial, all samples count.
///
/// A neighbour on the same core slows the chain too. A calibration is left out if loads of the first level beside it took less time
/// than its clock allows.
pub(super) fn samples(record: &Record, resolution: f64) -> Vec<(u64, u64, f64)> {
    let refuted = refuted(record, resolution);
    let runs = || record.of(PatternKind::Alu).filter(|run| !refuted.contains(&run.trial.id));
    let undisturbed: Vec<_> = runs().flat_map(|run| of(run, agreeing(run, resolution))).collect();
    if !undisturbed.is_empty() {
        return undisturbed;
    }
    runs().flat_map(|run| of(run, run.ticks_per_op().filter(|t| *t > 0.0).collect())).collect()
}

/// Largest working set of the loads that show the core's clock, bytes: less than every first level has.
const MAX_NEAREST: u64 = 8 << 10;
/// Relative excess over the fastest quarter of the calibrations from which on a calibration is checked.
const SLOWER: f64 = 0.03;
/// Part of a calibration's excess that loads must show.
const SHARE: f64 = 0.5;

/// Returns the calibrations that loads of the first level refute.
fn refuted(record: &Record, resolution: f64) -> BTreeSet<u64> {
    let time = |run: &TrialRun| median(&agreeing(run, resolution));
    let calibrations: Vec<(u64, f64)> =
        record.of(PatternKind::Alu).filter_map(|run| Some((run.trial.id, time(run)?))).collect();
    let is_nearest =
        |run: &&TrialRun| run.trial.memory.bytes <= MAX_NEAREST && run.trial.beside.streams.is_empty();
    let loads: Vec<(u64, f64)> = record
        .of(PatternKind::Chase)
        .filter(is_nearest)
        .filter_map(|run| Some((run.trial.id, time(run)?)))
        .collect();
    let fast = |all: &[(u64, f64)]| quantile(&sorted(&all.iter().map(|one| one.1).collect::<Vec<_>>()), 0.25);
    let (Some(cycle), Some(load)) = (fast(&calibrations), fast(&loads)) else { return BTreeSet::new() };
    let is_refuted = |n: usize| {
        let (id, ticks) = calibrations[n];
        let excess = ticks / cycle - 1.0;
        // The loads next to it, no farther than the calibrations before and after it.
        let from = n.checked_sub(1).map_or(0, |before| calibrations[before].0);
        let to = calibrations.get(n + 1).map_or(u64::MAX, |after| after.0);
        let before = loads.iter().rfind(|(at, _)| (from..id).contains(at));
        let after = loads.iter().find(|(at, _)| (id..to).contains(at));
        let mut beside = before.into_iter().chain(after).peekable();
        excess > SLOWER
            && beside.peek().is_some()
            && beside.all(|(_, time)| time / load - 1.0 < SHARE * excess)
    };
    (0..calibrations.len()).filter(|n| is_refuted(*n)).map(|n| calibrations[n].0).collect()
}

fn of(run: &TrialRun, ticks: Vec<f64>) -> impl Iterator<Item = (u64, u64, f64)> {
    let (round, id) = (run.trial.round, run.trial.id);
    ticks.into_iter().map(move |ticks| (round, id, ticks))
}

/// Returns the samples of a trial that agree with their median; none if they are not more than half of them.
fn agreeing(run: &TrialRun, resolution: f64) -> Vec<f64> {
    let ticks: Vec<f64> = run.ticks_per_op().collect();
    let centre = median(&ticks).unwrap_or(0.0);
    // Each end of both timed intervals is off by up to one step of the clock.
    let steps = 2.0 * resolution / run.trial.loads.max(1) as f64;
    let agree = |t: &f64| *t > 0.0 && (t - centre).abs() <= AGREEMENT * centre + steps;
    let agreeing: Vec<f64> = ticks.iter().copied().filter(agree).collect();
    if 2 * agreeing.len() > ticks.len() { agreeing } else { Vec::new() }
}

/// Returns the median of each trial, ascending by trial.
pub(super) fn by_trial(cycle_ticks: &[(u64, u64, f64)]) -> Vec<(u64, f64)> {
    let mut sorted: Vec<(u64, f64)> = cycle_ticks.iter().map(|c| (c.1, c.2)).collect();
    sorted.sort_by_key(|c| c.0);
    let of = |one: &[(u64, f64)]| Some((one[0].0, median(&one.iter().map(|c| c.1).collect::<Vec<_>>())?));
    sorted.chunk_by(|a, b| a.0 == b.0).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use fathom_probe::pattern::{Alu, Memory, Trial};
    use fathom_probe::rows::{Done, Sample};

    use super::*;

    /// Returns a record of calibrations of 1000 cycles each, by the ticks of their samples.
    fn record(trials: &[&[i64]]) -> Record {
        let mut record = Record::default();
        for (id, ticks) in trials.iter().enumerate() {
            let trial = Trial { id: id as u64, round: 1, loads: 1000, ..Trial::of(Alu) };
            let done = Some(Done { trial: trial.id, ..Done::default() });
            let sample = |t: &i64| Sample { ticks: 5000, ticks2: (5000 + t) as u64, ..Sample::default() };
            record.trials.push(TrialRun {
                trial,
                samples: ticks.iter().map(sample).collect(),
                done,
                ..TrialRun::default()
            });
        }
        record
    }

    #[test]
    fn calibration_whose_samples_disagree_is_left_out() {
        // The second is that of a guest whose host took the CPU three times in one trial.
        let record = record(&[&[768, 768, 767, 768, 1234], &[2808, 788, -67, 769, 4132], &[770; 5]]);
        let trials = by_trial(&samples(&record, 1.0));
        assert_eq!(trials, [(0, 0.768), (2, 0.770)]);
    }

    #[test]
    fn slower_clock_during_a_whole_calibration_counts() {
        let record = record(&[&[768; 5], &[1536; 5]]);
        assert_eq!(by_trial(&samples(&record, 1.0)), [(0, 0.768), (1, 1.536)]);
    }

    /// Returns the calibrations that count, of three: the second took half as long again, with loads of this time on both sides of
    /// it. Loads beside the others take 4 cycles.
    fn with_loads(ticks: i64) -> Vec<u64> {
        let calibration = |id, ticks| {
            let mut run = record(&[&[ticks; 5]]).trials.remove(0);
            run.trial.id = id;
            run
        };
        let load = |id, ticks| {
            let run = calibration(id, ticks);
            let memory = Memory { bytes: 4096, ..Memory::default() };
            TrialRun { trial: Trial { id, loads: 1000, memory, ..Trial::default() }, ..run }
        };
        let trials = [
            load(0, 3072),
            calibration(1, 768),
            load(2, 3072),
            load(3, ticks),
            calibration(4, 1152),
            load(5, ticks),
            load(6, 3072),
            calibration(7, 768),
            load(8, 3072),
        ];
        let mut record = Record::default();
        record.trials.extend(trials);
        by_trial(&samples(&record, 1.0)).into_iter().map(|one| one.0).collect()
    }

    /// A neighbour on the same core slows the chain and not the loads; a slower clock slows both.
    #[test]
    fn calibration_is_refuted_by_faster_loads() {
        assert_eq!(with_loads(3072), [1, 7]);
        assert_eq!(with_loads(3200), [1, 7]);
        assert_eq!(with_loads(4608), [1, 4, 7]);
    }

    #[test]
    fn steps_of_a_coarse_clock_agree() {
        let record = record(&[&[20, 40, 20, 40, 20]]);
        assert_eq!(samples(&record, 20.0).len(), 5);
    }

    #[test]
    fn all_samples_count_if_none_is_undisturbed() {
        let record = record(&[&[768, 900, 1100, 1500, 2000]]);
        assert_eq!(samples(&record, 1.0).len(), 5);
    }
}
