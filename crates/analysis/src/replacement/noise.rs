//! Error rates of observations from the calibration, and the terms of a fit.

use super::observation::Observation;
use super::predict::Prediction;

/// Smallest error rate: a few hundred undisturbed laps prove no less.
pub(super) const MIN_ERROR: f64 = 0.005;
/// Largest error rate. Beyond it, hits and misses cannot be distinguished, or the blocks do not share a set.
const MAX_ERROR: f64 = 0.10;
/// Overdispersion (rho). At least a standard error of 2.7 percentage points for a share of one half, which timing and
/// interference leave for any number of laps; at most 17 points.
pub(super) const MIN_RHO: f64 = 0.003;
pub(super) const MAX_RHO: f64 = 0.03;
/// Smallest number of laps of each kind of calibration: an error of 10 % is then known to 4 points.
const MIN_LAPS: u32 = 50;
/// Smallest error of the counted or classified misses of a lap, in addition to their own error: 0.5 % of its accesses.
pub(super) const COUNT_FLOOR: f64 = 0.005;
/// Smallest relative error of a lap's time: trials run one after another, and between cycle calibrations the core's
/// clock moves by a tenth of a percent or two, even in undisturbed trials.
pub(super) const TIME_FLOOR: f64 = 0.002;
/// Smallest number of totals for which a policy's worst total is ignored in its absolute test. Smaller than for
/// programs: a state that no simulated start reached affects the whole time of its program, and few programs are
/// independent of the start under the policies with the most state (QLRU).
pub(super) const MIN_TOTALS_FOR_OUTLIER: usize = 12;

/// Errors of observations under one policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise {
    /// Share of hits classified as misses.
    stray: f64,
    /// Share of misses classified as hits.
    lost: f64,
    /// Correlation of two laps.
    pub(super) rho: f64,
}

impl Noise {
    /// For observations without timed loads: no classification errors.
    pub(super) const NONE: Noise = Noise { stray: 0.0, lost: 0.0, rho: MIN_RHO };

    /// Computes the error rates from the calibration; returns the reason if it contradicts itself or is insufficient.
    pub(super) fn of(
        sure: &[(usize, usize, bool)],
        predicted: &[Prediction],
        observations: &[Observation],
    ) -> Result<Noise, String> {
        // Laps, classified misses, predicted misses.
        let sum = |miss: bool| {
            sure.iter().filter(|s| s.2 == miss).fold((0.0, 0.0, 0.0), |(n, k, p), (i, query, _)| {
                let laps = f64::from(observations[*i].of[*query]);
                let reported = f64::from(observations[*i].missed[*query]);
                (n + laps, k + reported, p + laps * predicted[*i].miss[*query])
            })
        };
        let ((hits, false_misses, _), (misses, reported, sure_misses)) = (sum(false), sum(true));
        if hits.min(misses) < f64::from(MIN_LAPS) {
            return Err(format!(
                "too few observations: {hits} laps of timed loads that hit under every policy and {misses} of timed loads that miss; \
                 {MIN_LAPS} of each are needed"
            ));
        }
        let (stray, lost) = (false_misses / hits, 1.0 - reported / sure_misses);
        let limit = |laps: f64| MAX_ERROR + 3.0 * (MAX_ERROR * (1.0 - MAX_ERROR) / laps).sqrt();
        if stray > limit(hits) {
            return Err(format!(
                "contradictory observations: loads that hit under every policy missed in {:.0} % of laps; fewer ways are in \
                 use, or other software evicts lines, or misses and hits were not distinguished",
                100.0 * stray
            ));
        }
        if lost > limit(misses) {
            return Err(format!(
                "contradictory observations: loads that miss under every policy hit in {:.0} % of laps; the blocks do not \
                 share one set, or there are more ways, or misses and hits were not distinguished",
                100.0 * lost
            ));
        }
        let bounded = |e: f64| e.clamp(MIN_ERROR, MAX_ERROR);
        let mut noise = Noise { stray: bounded(stray), lost: bounded(lost), rho: MIN_RHO };
        noise.rho = noise.scatter(sure, predicted, observations).clamp(MIN_RHO, MAX_RHO);
        Ok(noise)
    }

    /// Returns rho from the scatter of the calibration's timed loads (Pearson's chi-squared per degree of freedom).
    fn scatter(
        &self,
        sure: &[(usize, usize, bool)],
        predicted: &[Prediction],
        observations: &[Observation],
    ) -> f64 {
        let (mut chi, mut laps) = (0.0, 0.0);
        for (i, query, _) in sure {
            let n = f64::from(observations[*i].of[*query]);
            let q = self.reported(predicted[*i].miss[*query]);
            chi +=
                (f64::from(observations[*i].missed[*query]) - n * q).powi(2) / (n * q * (1.0 - q)).max(1e-9);
            laps += n;
        }
        let queries = sure.len() as f64;
        // Two degrees of freedom were used for the two rates.
        (chi / (queries - 2.0).max(1.0) - 1.0) / (laps / queries - 1.0).max(1.0)
    }

    /// Returns the share of laps classified as misses if a share `miss` misses.
    pub fn reported(&self, miss: f64) -> f64 {
        miss * (1.0 - self.lost) + (1.0 - miss) * self.stray
    }
}

/// Term of one scored timed load or total.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term {
    pub log_likelihood: f64,
    pub deviance: f64,
    pub predicted: f64,
    pub observed: f64,
}
