//! Likelihood of a stack of levels in random frames, for a curve.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::Placed;
use super::colours::{Level, Misses};

/// Most levels of a stack.
pub(super) const MAX_LEVELS: usize = 5;
/// Parameters that are linear: the latencies of all tiers, and the part of the translation.
const LINEAR: usize = MAX_LEVELS + 2;
/// Relative error of the model at each point: lines that levels keep or pass on in other ways than a stack, rows of memory, refresh.
const MODEL_ERROR: f64 = 0.012;
/// Standard error of the translation, as a share: the pairs' lines and the curve's find other page tables in the caches.
const TRANSLATION_ERROR: f64 = 0.1;
/// Degrees of freedom of the points' errors (Student's t). Few pages of few colours overflow seldom and then much.
const FREEDOM: f64 = 5.0;
/// Repetitions of the weighted least squares.
const REWEIGHTED: usize = 3;
/// Smallest step between two tiers, as a share of the nearer one.
const MIN_STEP: f64 = 0.25;

/// A stack and how well it explains the points.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Explained {
    /// Nearest first.
    pub(super) levels: Vec<Level>,
    /// Latency of each tier, ns, and its standard error.
    pub(super) latencies: Vec<(f64, f64)>,
    /// Share of the translation that fits best.
    pub(super) translation: f64,
    /// Minus twice the logarithm of the likelihood, without constants.
    pub(super) cost: f64,
    /// Share of the loads that leave each level, by point.
    pub(super) leaving: Vec<Rc<Misses>>,
}

/// The points to explain.
pub(super) struct Stack<'a> {
    pub(super) points: &'a [Placed],
    pub(super) page: f64,
    translated: bool,
    known: RefCell<HashMap<(u64, super::Shape), Rc<Misses>>>,
}

/// How a point is explained.
struct Likely {
    /// Coefficients of the linear parameters.
    row: [f64; LINEAR],
    /// Its weight.
    weight: f64,
    /// Minus twice the logarithm of its likelihood.
    cost: f64,
}

fn product(row: &[f64; LINEAR], values: &[f64]) -> f64 {
    row.iter().zip(values).map(|(a, b)| a * b).sum()
}

/// Returns the weight of a point in the least squares, of which the squared distance in standard deviations is `square`.
fn weight(square: f64, variance: f64) -> f64 {
    (FREEDOM + 1.0) / (FREEDOM + square) / variance
}

/// Returns minus twice the logarithm of the density of Student's t there.
fn cost(square: f64, variance: f64) -> f64 {
    (FREEDOM + 1.0) * (square / FREEDOM).ln_1p() + variance.ln()
}

/// A solution of the least squares.
struct Solved {
    values: [f64; LINEAR],
    /// Inverse of the normal matrix.
    covariances: [[f64; LINEAR]; LINEAR],
}

impl<'a> Stack<'a> {
    pub(super) fn new(points: &'a [Placed], page: f64) -> Stack<'a> {
        let translated = points.iter().any(|p| p.translation > 0.0);
        Stack { points, page, translated, known: RefCell::default() }
    }

    /// Returns the misses of a level at all points, computed once.
    fn misses(&self, level: &Level) -> Rc<Misses> {
        let key = (level.capacity.to_bits(), level.shape);
        let mut known = self.known.borrow_mut();
        let compute = || Rc::new(level.misses(self.points.iter().map(|p| p.x), self.page));
        Rc::clone(known.entry(key).or_insert_with(compute))
    }

    /// Returns how well these levels (nearest first) explain the points; `None` if a tier is not slower than the one before.
    pub(super) fn explain(&self, levels: &[Level]) -> Option<Explained> {
        let leaving = nested(levels.iter().map(|level| self.misses(level)));
        let size = levels.len() + 1 + usize::from(self.translated);
        let start = |i: usize| Likely {
            row: self.row(&leaving, i),
            weight: 1.0 / self.points[i].variance(&[], &leaving, i),
            cost: 0.0,
        };
        let mut likely: Vec<Likely> = (0..self.points.len()).map(start).collect();
        let mut solved = None;
        for _ in 0..REWEIGHTED {
            let found = self.solve(&likely, size)?;
            likely =
                (0..self.points.len()).map(|i| self.likely(&leaving, i, &found.values[..size])).collect();
            solved = Some(found);
        }
        let mut cost: f64 = likely.iter().map(|point| point.cost).sum();
        let Solved { values, covariances } = solved?;
        let translation = if self.translated { values[size - 1] } else { 1.0 };
        cost += ((translation - 1.0) / TRANSLATION_ERROR).powi(2);
        let mut latencies = Vec::with_capacity(levels.len() + 1);
        let mut latency = 0.0;
        for i in 0..=levels.len() {
            if i > 0 && values[i] < MIN_STEP * latency || values[i] <= 0.0 {
                return None;
            }
            latency += values[i];
            let variance: f64 = covariances[..=i].iter().map(|row| row[..=i].iter().sum::<f64>()).sum();
            latencies.push((latency, variance.max(0.0).sqrt()));
        }
        Some(Explained { levels: levels.to_vec(), latencies, translation, cost, leaving })
    }

    /// Returns the coefficients of a point: one, the share that leaves each level, and the translation.
    fn row(&self, leaving: &[Rc<Misses>], i: usize) -> [f64; LINEAR] {
        let mut row = [0.0; LINEAR];
        row[0] = 1.0;
        for (j, level) in leaving.iter().enumerate() {
            row[j + 1] = level.shares[i];
        }
        row[leaving.len() + 1] = self.points[i].translation;
        row
    }

    /// Returns how point `i` is explained with these latencies.
    fn likely(&self, leaving: &[Rc<Misses>], i: usize, values: &[f64]) -> Likely {
        let p = &self.points[i];
        let row = self.row(leaving, i);
        let steps = &values[1..];
        let variance = p.variance(steps, leaving, i);
        let square = (p.y - product(&row, values)).powi(2) / variance;
        Likely { row, weight: weight(square, variance), cost: cost(square, variance / (p.y * p.y)) }
    }

    /// Solves the weighted least squares by Cholesky's decomposition; `None` if two columns are the same.
    fn solve(&self, likely: &[Likely], size: usize) -> Option<Solved> {
        let mut normal = [[0.0; LINEAR]; LINEAR];
        let mut right = [0.0; LINEAR];
        for (p, Likely { row, weight, .. }) in self.points.iter().zip(likely) {
            for a in 0..size {
                for b in 0..=a {
                    normal[a][b] += weight * row[a] * row[b];
                }
                right[a] += weight * row[a] * p.y;
            }
        }
        if self.translated {
            normal[size - 1][size - 1] += TRANSLATION_ERROR.powi(-2);
            right[size - 1] += TRANSLATION_ERROR.powi(-2);
        }
        let mut lower = [[0.0; LINEAR]; LINEAR];
        for a in 0..size {
            for b in 0..=a {
                let rest = normal[a][b] - (0..b).map(|c| lower[a][c] * lower[b][c]).sum::<f64>();
                lower[a][b] = match a == b {
                    true if rest <= 1e-10 * normal[a][a] => return None,
                    true => rest.sqrt(),
                    false => rest / lower[b][b],
                };
            }
        }
        let solve = |mut x: [f64; LINEAR]| {
            for a in 0..size {
                x[a] = (x[a] - (0..a).map(|c| lower[a][c] * x[c]).sum::<f64>()) / lower[a][a];
            }
            for a in (0..size).rev() {
                x[a] = (x[a] - (a + 1..size).map(|c| lower[c][a] * x[c]).sum::<f64>()) / lower[a][a];
            }
            x
        };
        let mut covariances = [[0.0; LINEAR]; LINEAR];
        for (a, row) in covariances.iter_mut().enumerate().take(size) {
            let mut unit = [0.0; LINEAR];
            unit[a] = 1.0;
            *row = solve(unit);
        }
        Some(Solved { values: solve(right), covariances })
    }
}

impl Placed {
    /// Returns the variance of this point, numbered `i`, if a load that leaves each level takes so much longer.
    fn variance(&self, steps: &[f64], leaving: &[Rc<Misses>], i: usize) -> f64 {
        let placed: f64 =
            steps.iter().zip(leaving).map(|(step, level)| step * step * level.variances[i]).sum();
        self.y * self.y * (self.sigma.powi(2) + MODEL_ERROR.powi(2)) + placed / self.placements
    }
}

/// Returns the share of loads that leave each level: those that miss in it and in all nearer ones. Where a way of the farther level is
/// the larger one, pages of one colour there have one colour here too, so they miss in both.
fn nested(levels: impl Iterator<Item = Rc<Misses>>) -> Vec<Rc<Misses>> {
    let mut all: Vec<Rc<Misses>> = Vec::new();
    for level in levels {
        let nearer = all.last().filter(|nearer| nearer.shares.iter().zip(&level.shares).any(|(a, b)| b > a));
        let both = nearer.map(|nearer| {
            let shares = nearer.shares.iter().zip(&level.shares).map(|(a, b)| a.min(*b)).collect();
            Rc::new(Misses { shares, ..Misses::clone(&level) })
        });
        all.push(both.unwrap_or(level));
    }
    all
}
