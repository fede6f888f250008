//! Likelihood of a stack of levels in random frames, for a curve.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::colours::{Level, Misses};
use super::{Placed, Placement};

/// Most levels of a stack.
pub(super) const MAX_LEVELS: usize = 5;
/// Parameters that are linear: the latencies of all tiers, and the part of the translation.
const LINEAR: usize = MAX_LEVELS + 2;
/// Relative error of the model at each placement: lines that levels keep or pass on in other ways than a stack, rows of memory, refresh. Of 68
/// described machines (wide generator, clean seeds 190004 to 570241), errors of 2.5 to 5 % gave 54 or 55 times the right number of levels.
const MODEL_ERROR: f64 = 0.04;
/// Standard error of the translation, as a share: the pairs' lines and the curve's find other page tables in the caches.
const TRANSLATION_ERROR: f64 = 0.1;
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

/// Highest probability that a level holds all pages: of some the index is a hash of more address bits than the page's colour.
const MAX_FITTING: f64 = 0.98;
/// Probability of a case from which on it counts.
const MIN_CASE: f64 = 1e-4;

/// One way in which the pages of a working set may lie: some miss in every level before the one that holds all of them.
#[derive(Clone, Copy)]
struct Case {
    /// The working set, numbered from 0.
    point: usize,
    /// Its probability.
    probability: f64,
    /// Coefficients of the linear parameters.
    row: [f64; LINEAR],
    /// Variances of the shares that leave each level.
    variances: [f64; MAX_LEVELS],
}

/// How a case explains a placement.
#[derive(Clone, Copy, Default)]
struct Likely {
    /// Weight of the case in the least squares.
    weight: f64,
    /// Its likelihood.
    likelihood: f64,
}

/// Cases of a working set: one level after the other holds all of its pages, or none does.
const MAX_CASES: usize = MAX_LEVELS + 1;

/// Placements of a case in the least squares: their weight, and their weighted latency, ns.
type Weighted = (f64, f64);

fn product(row: &[f64; LINEAR], values: &[f64]) -> f64 {
    row.iter().zip(values).map(|(a, b)| a * b).sum()
}

/// Returns the weight of a placement in the least squares, of which the squared distance in standard deviations is `square`, by Cauchy's
/// distribution. Exclusive and inclusive levels move whole parts of a rise; of the 68 machines, Student's t with five degrees of freedom found
/// the right number for 46, with three for 52, and Cauchy's for 55, each at the best of the errors and prices that were tried.
fn weight(square: f64, variance: f64) -> f64 {
    2.0 / (1.0 + square) / variance
}

/// Returns the density of Cauchy's distribution there, without its constant.
fn density(square: f64, variance: f64) -> f64 {
    1.0 / ((1.0 + square) * variance.sqrt())
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
        let mut cases = Vec::with_capacity(2 * self.points.len());
        (0..self.points.len()).for_each(|i| self.add_cases(&leaving, i, &mut cases));
        let mut weights = Vec::with_capacity(cases.len());
        let mut solved: Option<Solved> = None;
        for _ in 0..=REWEIGHTED {
            weights.clear();
            let values = solved.as_ref().map(|found| &found.values[..size]);
            self.by_point(&cases).for_each(|(p, cases)| p.add_weights(cases, values, &mut weights));
            solved = Some(self.solve(&cases, &weights, size)?);
        }
        let Solved { values, covariances } = solved?;
        let mut cost: f64 = self.by_point(&cases).map(|(p, cases)| p.cost(cases, &values[..size])).sum();
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

    /// Returns each working set with its cases, which follow one another.
    fn by_point<'c>(&self, cases: &'c [Case]) -> impl Iterator<Item = (&'a Placed, &'c [Case])> {
        let points = self.points;
        cases.chunk_by(|a, b| a.point == b.point).map(move |cases| (&points[cases[0].point], cases))
    }

    /// Adds the cases of working set `i`. A level that holds all pages lets no load through to the farther ones.
    fn add_cases(&self, leaving: &[Rc<Misses>], i: usize, cases: &mut Vec<Case>) {
        let mut row = [0.0; LINEAR];
        row[0] = 1.0;
        row[leaving.len() + 1] = self.points[i].translation;
        let mut case = Case { point: i, probability: 1.0, row, variances: [0.0; MAX_LEVELS] };
        for (j, level) in leaving.iter().enumerate() {
            let fitting = level.fitting[i].min(MAX_FITTING);
            let fits = case.probability * fitting;
            if fits > MIN_CASE {
                cases.push(Case { probability: fits, ..case });
            }
            // The mean and the variance of the others.
            let (share, square) = (level.shares[i], level.variances[i] + level.shares[i].powi(2));
            let (share, square) = (share / (1.0 - fitting), square / (1.0 - fitting));
            case.probability -= fits;
            case.row[j + 1] = share;
            case.variances[j] = (square - share * share).max(0.0);
        }
        if case.probability > MIN_CASE {
            cases.push(case);
        }
    }

    /// Solves the weighted least squares by Cholesky's decomposition; `None` if two columns are the same.
    fn solve(&self, cases: &[Case], weights: &[Weighted], size: usize) -> Option<Solved> {
        let mut normal = [[0.0; LINEAR]; LINEAR];
        let mut right = [0.0; LINEAR];
        for (Case { row, .. }, (weight, weighted)) in cases.iter().zip(weights) {
            for a in 0..size {
                for b in 0..=a {
                    normal[a][b] += weight * row[a] * row[b];
                }
                right[a] += weighted * row[a];
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

impl Placement {
    /// Returns the variance of this latency in a case, if a load that leaves each level takes so much longer.
    fn variance(&self, steps: &[f64], case: &Case) -> f64 {
        let placed: f64 =
            steps.iter().zip(&case.variances).map(|(step, variance)| step * step * variance).sum();
        self.y * self.y * (self.sigma.powi(2) + MODEL_ERROR.powi(2)) + placed
    }

    /// Returns how a case explains the latency with these values.
    fn likely(&self, case: &Case, values: &[f64]) -> Likely {
        let variance = self.variance(&values[1..], case);
        let square = (self.y - product(&case.row, values)).powi(2) / variance;
        let likelihood = case.probability * density(square, variance / (self.y * self.y));
        Likely { weight: weight(square, variance), likelihood }
    }
}

impl Placed {
    /// Adds the weights of its cases, each by its share of the likelihood; without latencies by its probability.
    fn add_weights(&self, cases: &[Case], values: Option<&[f64]>, weights: &mut Vec<Weighted>) {
        let begin = weights.len();
        weights.resize(begin + cases.len(), (0.0, 0.0));
        for placement in &self.placements {
            let mut likely = [Likely::default(); MAX_CASES];
            for (likely, case) in likely.iter_mut().zip(cases) {
                *likely = match values {
                    Some(values) => placement.likely(case, values),
                    None => {
                        Likely { weight: 1.0 / placement.variance(&[], case), likelihood: case.probability }
                    }
                };
            }
            let sum: f64 = likely.iter().map(|likely| likely.likelihood).sum();
            for (held, likely) in weights[begin..].iter_mut().zip(&likely) {
                let weight = likely.weight * likely.likelihood / sum;
                *held = (held.0 + weight, held.1 + weight * placement.y);
            }
        }
    }

    /// Returns minus twice the logarithm of the likelihood of its placements.
    fn cost(&self, cases: &[Case], values: &[f64]) -> f64 {
        let likelihood = |placement: &Placement| -> f64 {
            cases.iter().map(|case| placement.likely(case, values).likelihood).sum()
        };
        -2.0 * self.placements.iter().map(|placement| likelihood(placement).ln()).sum::<f64>()
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
