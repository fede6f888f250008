//! Which pure factor costs how much: a randomised two-level design, the effects of its factors, and how much of an
//! increase they explain.
//!
//! Every cell runs some factors and not the others; half of all cells have a factor on, and each other factor is on
//! in half of those, so the difference of the two halves is the effect of that factor and of no other. Repeats are
//! blocks: what moves a whole repeat moves both halves.

mod design;

pub use design::{Design, MAX_FACTORS};

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::interval::Interval;

/// Chance that an interval of a family misses: 5 % for the whole family.
const MISS: f64 = 0.05;

/// What was measured in one cell of one block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Which repeat.
    pub block: usize,
    /// Which cell of the design.
    pub case: usize,
    /// The statistic, us (p99.9, say).
    pub us: f64,
}

/// What two-factor interactions add: with a fraction of all cells, some of them cannot be told apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Pairs of factors; their sum is what was seen. One pair in a full design.
    pub pairs: Vec<(usize, usize)>,
    /// us that come on top when both of a pair are on, less what each adds alone: half of it is in each effect.
    pub us: Interval,
}

/// The estimates.
#[derive(Clone, Debug, PartialEq)]
pub struct Effects {
    /// One a factor: us more with it than without, over all the rest. The intervals hold all true effects together
    /// with 95 % (Bonferroni).
    pub factors: Vec<Interval>,
    /// The interactions, likewise.
    pub groups: Vec<Group>,
    /// us with every factor off, as the effects say; 95 %.
    pub none: Interval,
    /// Standard deviation of one cell of one block, us.
    pub noise: f64,
    /// Blocks that were complete, and so counted.
    pub blocks: usize,
    /// Blocks in which a cell was missing.
    pub incomplete: usize,
}

/// Why nothing is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Fewer than two complete blocks: no noise is known.
    TooFew {
        /// Complete ones.
        blocks: usize,
    },
}

/// The effects, by least squares over the complete blocks. The noise is what cells do differently from block to
/// block, so that no interaction is taken for it.
///
/// # Errors
/// Fewer than two complete blocks.
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
    let left = |block: &Vec<f64>| -> f64 {
        let off = mean(block) - all;
        block.iter().zip(&cases).map(|(y, case)| (y - case - off).powi(2)).sum()
    };
    let free = ((blocks - 1) * (design.cases() - 1)) as f64;
    let noise = (complete.iter().map(left).sum::<f64>() / free).sqrt();
    let n = (blocks * design.cases()) as f64;
    let contrast =
        |signs: &[f64]| 2.0 * signs.iter().zip(&cases).map(|(s, y)| s * y).sum::<f64>() / cases.len() as f64;
    let around = |value: f64, error: f64, family: usize| {
        let off = error * t(1.0 - MISS / 2.0 / family.max(1) as f64, free);
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
    Ok(Effects { none: around(all - halves, base_error, 1), factors, groups, noise, blocks, incomplete })
}

/// The complete blocks, a value a cell, and how many were not. Of a cell that was measured twice the last counts.
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

/// The quantile of Student's t with `free` degrees of freedom.
fn t(q: f64, free: f64) -> f64 {
    StudentsT::new(0.0, 1.0, free).map_or(f64::INFINITY, |t| t.inverse_cdf(q))
}

/// How much of a factor a load contains: lines, faults or bytes per second of the load, and of the factor alone when it
/// was on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dose {
    /// Of the load whose increase is to be explained.
    pub load: f64,
    /// Of the factor alone.
    pub alone: f64,
}

impl Dose {
    /// The part of the factor's effect that the load can have: at most all of it, because beyond what was measured
    /// nothing is known. `None` where the factor did nothing that was counted.
    #[must_use]
    pub fn part(&self) -> Option<f64> {
        (self.alone > 0.0 && self.load >= 0.0 && self.load.is_finite())
            .then(|| (self.load / self.alone).min(1.0))
    }
}

/// What a factor explains of an increase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Explained {
    /// us; `None` where the dose is not known.
    pub us: Option<Interval>,
    /// Does the load have more of it than the factor alone had? Then it explains at least so much.
    pub at_least: bool,
}

/// An increase and its causes.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribution {
    /// One a factor.
    pub factors: Vec<Explained>,
    /// What they leave, us: interactions, and what no factor is.
    pub unexplained: Interval,
}

/// Of an increase of `delta` us, how much each factor explains: its effect times the load's dose of it. Effects and
/// doses in the same order; a factor without a dose (`None`) explains nothing.
///
/// The interval of what is left comes from those of all that goes into it (Zou and Donner, Statistics in Medicine 27,
/// 2008): what each lacks on the side that matters, in quadrature.
#[must_use]
pub fn attribute(delta: Interval, effects: &[Interval], doses: &[Option<Dose>]) -> Attribution {
    let explained = |(effect, dose): (&Interval, &Option<Dose>)| Explained {
        us: dose.and_then(|d| d.part()).map(|part| effect.scaled(part)),
        at_least: dose.is_some_and(|d| d.alone > 0.0 && d.load > d.alone),
    };
    let factors: Vec<Explained> = effects.iter().zip(doses).map(explained).collect();
    let reported = || factors.iter().filter_map(|f| f.us);
    let value = delta.value - reported().map(|e| e.value).sum::<f64>();
    let below = reported().fold(delta.value - delta.low, |sum, e| sum.hypot(e.high - e.value));
    let above = reported().fold(delta.high - delta.value, |sum, e| sum.hypot(e.value - e.low));
    Attribution { factors, unexplained: Interval { value, low: value - below, high: value + above } }
}
