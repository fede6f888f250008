//! How many misses to memory a core has under way at the same time, from the times of loads along several chains side by side.
//!
//! Loads of different chains do not depend on each other. With k chains a load takes 1/k of the time with one, until the core has no
//! more misses under way: from there on more chains do not help. The ratio of both times is their number. It is an effective one:
//! what limits it may be the core's buffers for misses, its window, or the bandwidth behind them. (The method of parallel pointer chases,
//! as in multichase.)

use crate::interval::{Interval, grouped_interval, median};

/// Times of loads with one number of chains, of one trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// The number of chains.
    pub chains: u64,
    /// Time per load, ns: the time of a step by its loads.
    pub ns: Vec<f64>,
}

/// Number of misses under way, from all trials.
#[derive(Clone, Debug, PartialEq)]
pub struct Overlap {
    /// Time of a load of one chain by the time of one where more chains do not help.
    pub number: Interval,
    /// Smallest number of chains with which loads take that least time.
    pub from: u64,
    /// Whether more chains than were measured may help: only the most of them reach the least time.
    pub open: bool,
}

/// Relative distance from the least time within which numbers of chains are alike.
const ALIKE: f64 = 0.05;

/// Returns the number of misses under way; `None` without times of one chain and of several in a trial.
///
/// Which numbers of chains are alike is decided by the medians of all trials. Each trial then gives a ratio, and the interval is that of
/// the ratios: loads of one trial share their placement and the load of the machine by others.
#[must_use]
pub fn read(trials: &[Vec<Times>]) -> Option<Overlap> {
    let means = by_chains(trials);
    let least = means.iter().map(|(_, ns)| *ns).min_by(f64::total_cmp)?;
    let alike: Vec<u64> =
        means.iter().filter(|(_, ns)| *ns <= (1.0 + ALIKE) * least).map(|(chains, _)| *chains).collect();
    let ratios: Vec<Vec<f64>> = trials.iter().filter_map(|trial| ratios(trial, &alike)).collect();
    let most = means.iter().map(|(chains, _)| *chains).max()?;
    let from = alike.iter().copied().min()?;
    Some(Overlap { number: grouped_interval(&ratios)?, from, open: most > 1 && from == most })
}

/// Returns the median time of a load over the trials for each number of chains, ascending.
fn by_chains(trials: &[Vec<Times>]) -> Vec<(u64, f64)> {
    let mut numbers: Vec<u64> = trials.iter().flatten().map(|times| times.chains).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let of = |chains: u64| {
        let same = trials.iter().flatten().filter(|times| times.chains == chains);
        median(&same.filter_map(|times| median(&times.ns)).collect::<Vec<_>>())
    };
    numbers.into_iter().filter_map(|chains| Some((chains, of(chains)?))).filter(|(_, ns)| *ns > 0.0).collect()
}

/// Returns the time of each load of one chain by the median of those with as many chains as in `alike`.
fn ratios(trial: &[Times], alike: &[u64]) -> Option<Vec<f64>> {
    let times = |with: &dyn Fn(u64) -> bool| -> Vec<f64> {
        trial.iter().filter(|times| with(times.chains)).flat_map(|times| times.ns.iter().copied()).collect()
    };
    let least = median(&times(&|chains| alike.contains(&chains))).filter(|ns| *ns > 0.0)?;
    let one = times(&|chains| chains == 1);
    (!one.is_empty()).then(|| one.iter().map(|ns| ns / least).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

    const CHAINS: [u64; 10] = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64];

    /// Trials of a machine whose loads take 100 ns, of which `overlap` are under way at most. Each trial and each sample has a
    /// relative error of up to these.
    fn trials(overlap: f64, count: usize, (of_trial, of_sample): (f64, f64), seed: u64) -> Vec<Vec<Times>> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut error = |most: f64| 1.0 + most * ((rng.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0);
        let mut trial = || {
            let common = error(of_trial);
            let mut times = |chains: u64| {
                let ns = 100.0 / overlap.min(chains as f64) * common;
                Times { chains, ns: (0..3).map(|_| ns * error(of_sample)).collect() }
            };
            CHAINS.iter().map(|chains| times(*chains)).collect()
        };
        (0..count).map(|_| trial()).collect()
    }

    #[test]
    fn planted_overlap_comes_back() {
        for (overlap, from) in [(1.0, 1), (3.0, 4), (10.0, 12), (16.0, 16), (28.5, 32)] {
            let found = read(&trials(overlap, 6, (0.0, 0.0), 1)).expect("times");
            assert!((found.number.value - overlap).abs() < 1e-9, "{overlap}: {found:?}");
            assert_eq!((found.from, found.open), (from, false), "{overlap}");
        }
    }

    #[test]
    fn machine_that_waits_for_each_load_has_one() {
        let found = read(&trials(1.0, 6, (0.1, 0.02), 7)).expect("times");
        assert!(found.number.low <= 1.0 && 1.0 <= found.number.high, "{found:?}");
        assert!((found.number.value - 1.0).abs() < 0.02, "{found:?}");
        assert_eq!((found.from, found.open), (1, false));
    }

    #[test]
    fn more_than_the_most_chains_is_open() {
        let found = read(&trials(80.0, 6, (0.0, 0.0), 1)).expect("times");
        assert_eq!((found.from, found.open), (64, true));
        assert!((found.number.value - 64.0).abs() < 1e-9);
    }

    #[test]
    fn intervals_hold_the_truth_under_noise() {
        let held = |overlap: f64, noise| {
            let holds = |seed: &u64| {
                let found = read(&trials(overlap, 6, noise, *seed)).expect("times");
                found.number.low <= overlap && overlap <= found.number.high
            };
            (0..200).filter(holds).count()
        };
        // 95 % of 200, less four standard errors.
        for overlap in [1.0, 5.0, 12.0, 20.0] {
            let held = held(overlap, (0.2, 0.04));
            assert!(held >= 178, "{overlap}: {held} of 200");
        }
    }

    #[test]
    fn one_slow_trial_does_not_count() {
        let mut all = trials(12.0, 7, (0.0, 0.0), 3);
        for times in &mut all[2] {
            let slower = if times.chains == 1 { 1.0 } else { 3.0 };
            times.ns.iter_mut().for_each(|ns| *ns *= slower);
        }
        let found = read(&all).expect("times");
        assert!((found.number.value - 12.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn nothing_without_one_chain_or_times() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[vec![Times { chains: 1, ns: vec![] }]]), None);
        assert_eq!(read(&[vec![Times { chains: 4, ns: vec![3.0] }]]), None);
        assert_eq!(read(&[vec![Times { chains: 1, ns: vec![0.0, -2.0] }]]), None);
    }
}
