//! The time of a single trial under noise in bursts.
//!
//! Neighbours only add time to a load, and unevenly. A trial whose samples agree was left alone; if most of its samples
//! disagree, only its fastest ones are an upper bound. If the core's clock may have changed beside a trial, its time at the typical clock is
//! not known, but it is with the faster clock at most.

use fathom_analysis::interval::median;

use crate::record::TrialRun;

/// Relative distance from the median within which samples agree. On an EPYC guest, samples of undisturbed trials differ
/// by less than 1 %, those of disturbed ones by 5 to 200 %.
const AGREEMENT: f64 = 0.015;
/// Smallest number of samples that can agree.
const MIN_SAMPLES: usize = 5;
/// Relative distance above the fastest undisturbed trial within which other trials count as undisturbed too.
const SAME: f64 = 1.05;
/// Relative standard error of a point without an undisturbed trial: its time is an upper bound and shows no rise.
pub(super) const UPPER_BOUND_SIGMA: f64 = 0.5;

/// The time of one trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Single {
    /// The trial.
    pub(crate) trial: u64,
    /// Time per load, ns: the median of samples that agree; else the smallest that the samples allow.
    pub(crate) time: f64,
    /// Whether most of its samples agree.
    pub(crate) quiet: bool,
    /// Factor by which the time is longer with the faster one of the clocks before and after it.
    clock: f64,
}

impl Single {
    /// Returns the time of a trial with these times per load in ns, one per sample, which may be longer by the factor `clock`.
    pub(super) fn of(run: &TrialRun, steady: &[f64], clock: f64) -> Single {
        let centre = median(steady).unwrap_or(0.0);
        let agree = steady.iter().filter(|v| (**v - centre).abs() <= AGREEMENT * centre).count();
        let quiet = steady.len() >= MIN_SAMPLES && 2 * agree > steady.len();
        let time = if quiet { centre } else { floor(run, centre).unwrap_or(centre).min(centre) };
        Single { trial: run.trial.id, time, quiet, clock }
    }

    /// Returns its time at most, ns.
    pub(crate) fn at_most(&self) -> f64 {
        self.time * self.clock
    }

    /// Returns whether its samples agree and its clock is known.
    pub(crate) fn is_sure(&self) -> bool {
        self.quiet && self.clock <= 1.0 + AGREEMENT
    }
}

/// Returns the time per load of the fastest runs, ns: that of the shortest n run and the shortest 2n run, in the unit of the median.
fn floor(run: &TrialRun, centre: f64) -> Option<f64> {
    let shortest = |of: &dyn Fn(&fathom_probe::rows::Sample) -> u64| run.samples.iter().map(of).min();
    let (once, twice) = (shortest(&|s| s.ticks)?, shortest(&|s| s.ticks2)?);
    let ticks = median(&run.ticks_per_op().collect::<Vec<_>>()).filter(|ticks| *ticks > 0.0)?;
    let floor = run.per_op(once as f64, twice as f64);
    (floor > 0.0).then_some(floor / ticks * centre)
}

/// Returns which trials of a point are undisturbed: those whose clock is known, if there are any.
pub(super) fn undisturbed(singles: &[Single]) -> impl Fn(&Single) -> bool {
    let any_sure = singles.iter().any(Single::is_sure);
    move |single| if any_sure { single.is_sure() } else { single.quiet }
}

/// Returns the time of a point, ns: the median of its undisturbed trials; without any, the smallest time.
pub(super) fn time(singles: &[Single]) -> f64 {
    let fastest = |of: &mut dyn Iterator<Item = f64>| of.fold(f64::INFINITY, f64::min);
    let is_undisturbed = undisturbed(singles);
    let quiet: Vec<f64> = singles.iter().filter(|s| is_undisturbed(s)).map(|s| s.time).collect();
    let lowest = fastest(&mut quiet.iter().copied());
    let alike: Vec<f64> = quiet.into_iter().filter(|time| *time <= SAME * lowest).collect();
    median(&alike).unwrap_or_else(|| fastest(&mut singles.iter().map(|s| s.time)))
}

#[cfg(test)]
mod tests {
    use fathom_probe::pattern::Trial;
    use fathom_probe::rows::Sample;

    use super::*;

    /// Returns a trial of 1000 loads with these ticks of the n and 2n runs.
    fn run(samples: &[(u64, u64)]) -> TrialRun {
        TrialRun {
            trial: Trial { loads: 1000, ..Trial::default() },
            samples: samples
                .iter()
                .map(|&(ticks, ticks2)| Sample { ticks, ticks2, ..Sample::default() })
                .collect(),
            ..TrialRun::default()
        }
    }

    fn single(samples: &[(u64, u64)]) -> Single {
        let run = run(samples);
        let steady: Vec<f64> = run.ticks_per_op().collect();
        Single::of(&run, &steady, 1.0)
    }

    #[test]
    fn trial_with_agreeing_samples_is_quiet() {
        let quiet = single(&[(5000, 9000), (5000, 9010), (5000, 9000), (5000, 14_000), (5000, 9000)]);
        assert!(quiet.quiet && (quiet.time - 4.0).abs() < 1e-9, "{quiet:?}");
    }

    #[test]
    fn trial_whose_clock_may_have_changed_has_an_upper_bound() {
        let run = run(&[(5000, 9000); 5]);
        let with = |clock| Single::of(&run, &[4.0; 5], clock);
        assert_eq!((with(1.01).is_sure(), with(1.01).at_most()), (true, 4.04));
        assert_eq!((with(1.2).is_sure(), with(1.2).at_most()), (false, 4.8));
        let sure = Single { time: 4.5, ..with(1.0) };
        assert_eq!(time(&[with(1.2), sure]), 4.5, "the other may seem too fast");
        assert_eq!(time(&[with(1.2)]), 4.0);
    }

    #[test]
    fn time_of_a_disturbed_trial_is_that_of_its_fastest_runs() {
        let noisy = single(&[(5000, 12_000), (6000, 14_500), (7000, 9000), (5100, 17_000), (9000, 15_000)]);
        assert!(!noisy.quiet && (noisy.time - 4.0).abs() < 1e-9, "{noisy:?}");
    }

    #[test]
    fn undisturbed_trials_decide_the_time_of_a_point() {
        let one = |time, quiet| Single { trial: 0, time, quiet, clock: 1.0 };
        assert_eq!(time(&[one(4.1, true), one(4.0, true), one(7.0, true), one(3.0, false)]), 4.05);
        assert_eq!(time(&[one(9.0, false), one(6.0, false)]), 6.0);
    }
}
