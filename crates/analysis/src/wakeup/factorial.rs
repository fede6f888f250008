//! Costs of single factors: a randomised two-level design, the effects of its factors, and the share of an increase
//! that they explain.
//!
//! Each case of the design has some factors on and the others off. A factor is on in half of all cases, and each other
//! factor is on in half of those, so the difference of the two halves is the effect of that factor alone. Repeats are
//! blocks: an effect on a whole repeat affects both halves equally.

mod design;

pub use design::{Design, MAX_FACTORS};

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::interval::Interval;

/// Error rate of a family of intervals: 5 % for the whole family.
const ERROR_RATE: f64 = 0.05;

/// Value measured in one case of one block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Number of the repeat.
    pub block: usize,
    /// Number of the case in the design.
    pub case: usize,
    /// Value of the statistic, us (for instance p99.9).
    pub us: f64,
}

/// Effect of two-factor interactions. A fractional design cannot separate some of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Pairs of factors whose sum was measured; one pair in a full design.
    pub pairs: Vec<(usize, usize)>,
    /// Added latency, us, if both factors of a pair are on, beyond the sum of their single effects; half of it is in
    /// each effect.
    pub us: Interval,
}

/// Estimated effects.
#[derive(Clone, Debug, PartialEq)]
pub struct Effects {
    /// Effect of each factor, us: difference with and without it, averaged over the other factors. The intervals hold
    /// simultaneously with 95 % (Bonferroni).
    pub factors: Vec<Interval>,
    /// Interactions, likewise.
    pub groups: Vec<Group>,
    /// Latency with every factor off, us, from the effects; 95 %.
    pub baseline: Interval,
    /// Standard deviation of one case of one block, us.
    pub noise: f64,
    /// Number of complete blocks; only these are used.
    pub blocks: usize,
    /// Number of blocks with a missing case.
    pub incomplete: usize,
}

/// Reason why nothing is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Fewer than two complete blocks, so the noise is unknown.
    TooFew {
        /// Number of complete blocks.
        blocks: usize,
    },
}

/// Estimates the effects by least squares over the complete blocks. The noise is the variation of the cases between
/// blocks, so that interactions do not count as noise.
///
/// # Errors
/// If there are fewer than two complete blocks.
pub fn effects(design: &Design, measured: &[Measured]) -> Result<Effects, Refusal> {
    let (complete, incomplete) = complete(design.cases(), measured);
    let blocks = complete.len();
    if blocks < 2 {
        return Err(Refusal::TooFew { blocks });
    }
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let cases: Vec<f64> =
        (0..design.cases()).map(|c| mean(&complete.iter().map(|b| b[c]).collect::<Vec<_>>())).collect();
    let all = mean(&cases);
    let residual = |block: &Vec<f64>| -> f64 {
        let off = mean(block) - all;
        block.iter().zip(&cases).map(|(y, case)| (y - case - off).powi(2)).sum()
    };
    let degrees_of_freedom = ((blocks - 1) * (design.cases() - 1)) as f64;
    let noise = (complete.iter().map(residual).sum::<f64>() / degrees_of_freedom).sqrt();
    let n = (blocks * design.cases()) as f64;
    let contrast =
        |signs: &[f64]| 2.0 * signs.iter().zip(&cases).map(|(s, y)| s * y).sum::<f64>() / cases.len() as f64;
    let around = |value: f64, error: f64, family: usize| {
        let off = error * t(1.0 - ERROR_RATE / 2.0 / family.max(1) as f64, degrees_of_freedom);
        Interval { value, low: value - off, high: value + off }
    };
    let error = 2.0 * noise / n.sqrt();
    let groups = design.groups();
    let factors: Vec<Interval> = (0..design.factors())
        .map(|f| around(contrast(&design.signs(&[f])), error, design.factors()))
        .collect();
    let groups: Vec<Group> = groups
        .iter()
        .map(|pairs| Group {
            us: around(2.0 * contrast(&design.signs(&[pairs[0].0, pairs[0].1])), 2.0 * error, groups.len()),
            pairs: pairs.clone(),
        })
        .collect();
    let halves: f64 = factors.iter().map(|f| f.value / 2.0).sum();
    let means: Vec<f64> = complete.iter().map(|b| mean(b)).collect();
    let between =
        means.iter().map(|m| (m - all).powi(2)).sum::<f64>() / (blocks as f64 - 1.0) / blocks as f64;
    let base_error = (between + noise * noise * design.factors() as f64 / n).sqrt();
    Ok(Effects { baseline: around(all - halves, base_error, 1), factors, groups, noise, blocks, incomplete })
}

/// Returns the complete blocks, with one value per case, and the number of incomplete ones. The last of repeated
/// measurements of a case is used.
fn complete(cases: usize, measured: &[Measured]) -> (Vec<Vec<f64>>, usize) {
    let mut blocks: Vec<usize> = measured.iter().map(|m| m.block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    let of = |block: &usize| -> Option<Vec<f64>> {
        let value =
            |case| measured.iter().rev().find(|m| m.block == *block && m.case == case && m.us.is_finite());
        (0..cases).map(|case| value(case).map(|m| m.us)).collect()
    };
    let kept: Vec<Vec<f64>> = blocks.iter().filter_map(of).collect();
    let incomplete = blocks.len() - kept.len();
    (kept, incomplete)
}

/// Returns the quantile of Student's t with `free` degrees of freedom.
fn t(q: f64, degrees_of_freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees_of_freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(q))
}

/// Amount of a factor in a load: lines, faults or bytes per second, under the load and under the factor alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dose {
    /// Amount under the load whose increase is to be explained.
    pub load: f64,
    /// Amount under the factor alone.
    pub alone: f64,
}

impl Dose {
    /// Returns the share of the factor's effect attributed to the load: at most all of it, because there is no
    /// measurement beyond. `None` if the amount under the factor alone is 0.
    #[must_use]
    pub fn part(&self) -> Option<f64> {
        (self.alone > 0.0 && self.load >= 0.0 && self.load.is_finite())
            .then(|| (self.load / self.alone).min(1.0))
    }
}

/// Part of an increase that a factor explains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Explained {
    /// Explained part, us; `None` if the dose is unknown.
    pub us: Option<Interval>,
    /// Whether the load has more of the factor than the factor alone. Then this is a lower bound.
    pub at_least: bool,
}

/// An increase and its causes.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribution {
    /// Part explained by each factor.
    pub factors: Vec<Explained>,
    /// Unexplained rest, us: interactions and other causes.
    pub unexplained: Interval,
}

/// Attributes an increase of `delta` us to factors: each factor explains its effect times the load's dose. Effects and
/// doses are in the same order; a factor without a dose (`None`) explains nothing.
///
/// The interval of the rest is computed from those of all terms (Zou and Donner, Statistics in Medicine 27, 2008): the
/// distances on the relevant side, added in quadrature.
#[must_use]
pub fn attribute(delta: Interval, effects: &[Interval], doses: &[Option<Dose>]) -> Attribution {
    let explained = |(effect, dose): (&Interval, &Option<Dose>)| Explained {
        us: dose.and_then(|d| d.part()).map(|part| effect.scaled(part)),
        at_least: dose.is_some_and(|d| d.alone > 0.0 && d.load > d.alone),
    };
    let factors: Vec<Explained> = effects.iter().zip(doses).map(explained).collect();
    let known = || factors.iter().filter_map(|f| f.us);
    let value = delta.value - known().map(|e| e.value).sum::<f64>();
    let below = known().fold(delta.value - delta.low, |sum, e| sum.hypot(e.high - e.value));
    let above = known().fold(delta.high - delta.value, |sum, e| sum.hypot(e.value - e.low));
    Attribution { factors, unexplained: Interval { value, low: value - below, high: value + above } }
}
