//! How observations differ from what happened: error rates from the calibration, and the terms that they give.

use super::observation::Observation;
use super::predict::Prediction;

/// An error rate is at least this: no few hundred calm laps prove less.
pub(super) const MIN_ERROR: f64 = 0.005;
/// And at most this: beyond, hits and misses were not told apart, or the blocks do not share a set.
const MAX_ERROR: f64 = 0.10;
/// Overdispersion (rho): at least what makes a share of a half uncertain by 2.7 points, which is what timing and the
/// neighbours leave however many laps are run; at most what makes it uncertain by 17.
pub(super) const MIN_RHO: f64 = 0.003;
pub(super) const MAX_RHO: f64 = 0.03;
/// Laps of each kind of calibration below which nothing is judged: an error of 10 % is then known to 4 points.
const MIN_LAPS: u32 = 50;
/// What the counted or classified misses of a lap may be off by, beyond their own error: 0.5 % of its accesses.
pub(super) const COUNT_FLOOR: f64 = 0.005;
/// No time of a lap is taken for surer than this, relative: trials run one after the other, and between the cycle calibrations
/// that they are held against a core's clock moves by a tenth of a percent or two, however calm each trial was.
pub(super) const TIME_FLOOR: f64 = 0.002;
/// Of so many totals one may be disturbed, and is left out of the absolute judgement of a policy: its worst. Fewer than of programs, because what a state does that the starts did not meet is in the time of its program whole,
/// and because of the policies that remember most (QLRU) no more than so many depend on nothing but the program.
pub(super) const TOTALS_FOR_ONE_OUTLIER: usize = 12;

/// How observations differ from what happened, under one policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise {
    /// Share of hits told as misses.
    stray: f64,
    /// Share of misses told as hits.
    lost: f64,
    /// Correlation of two laps.
    pub(super) rho: f64,
}

impl Noise {
    /// Of observations without asks: nothing is reported wrongly.
    pub(super) const NONE: Noise = Noise { stray: 0.0, lost: 0.0, rho: MIN_RHO };

    /// From the calibration; the reason where it contradicts itself or is not enough.
    pub(super) fn of(
        sure: &[(usize, usize, bool)],
        predicted: &[Prediction],
        observations: &[Observation],
    ) -> Result<Noise, String> {
        // Laps, misses told, misses predicted.
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
                "too few observations: {hits} laps of asks that hit under every policy and {misses} of asks that miss, of \
                 {MIN_LAPS} each"
            ));
        }
        let (stray, lost) = (false_misses / hits, 1.0 - reported / sure_misses);
        let most = |laps: f64| MAX_ERROR + 3.0 * (MAX_ERROR * (1.0 - MAX_ERROR) / laps).sqrt();
        if stray > most(hits) {
            return Err(format!(
                "contradictory observations: what hits under every policy missed in {:.0} % of laps; fewer ways are in \
                 use, or neighbours evict, or misses and hits were not told apart",
                100.0 * stray
            ));
        }
        if lost > most(misses) {
            return Err(format!(
                "contradictory observations: what misses under every policy hit in {:.0} % of laps; the blocks do not \
                 share one set, or there are more ways, or misses and hits were not told apart",
                100.0 * lost
            ));
        }
        let bounded = |e: f64| e.clamp(MIN_ERROR, MAX_ERROR);
        let mut noise = Noise { stray: bounded(stray), lost: bounded(lost), rho: MIN_RHO };
        noise.rho = noise.scatter(sure, predicted, observations).clamp(MIN_RHO, MAX_RHO);
        Ok(noise)
    }

    /// Rho from the scatter of the calibration's asks (Pearson's chi-squared a degree of freedom).
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
        // Two of the degrees went into the two rates.
        (chi / (queries - 2.0).max(1.0) - 1.0) / (laps / queries - 1.0).max(1.0)
    }

    /// Share of laps told as misses where this share misses.
    pub fn reported(&self, miss: f64) -> f64 {
        miss * (1.0 - self.lost) + (1.0 - miss) * self.stray
    }
}

/// One scored ask or total.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term {
    pub log_likelihood: f64,
    pub deviance: f64,
    pub predicted: f64,
    pub observed: f64,
}
