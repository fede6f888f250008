//! Decision between a step and a ramp.

use super::{CHANGE_PENALTY, Curve, Group};

/// Smallest share of the difference of two plateaus that a step has between adjacent sizes. At the noise level at which
/// the partition finds a change, half a step is three standard errors.
const MIN_STEP_SHARE: f64 = 0.5;

/// Returns the first and last size of the ramp that explains a group of changes better than steps do; `None` for steps.
pub(super) fn better(curve: &Curve<'_>, group: &Group) -> Option<(usize, usize)> {
    let (from, to) = (group.before, group.after);
    let (ramp, cost) = best(curve, from, to)?;
    let ends = [&[from], &group.breaks[..], &[to]].concat();
    let steps: f64 = ends.windows(2).map(|w| flat(curve, w[0], w[1]).0).sum();
    let (breaks, price) = (group.breaks.len() as f64, CHANGE_PENALTY * (curve.rows.len() as f64).ln());
    // Noise turns a step curve into a ramp more easily than the reverse, so consecutive steps cost twice.
    let explains = cost < steps + 2.0 * (breaks - 1.0) * price;
    let sharp = ends.windows(3).all(|w| {
        let between = curve.medians[w[1]] - curve.medians[w[1] - 1];
        let (below, above) = (flat(curve, w[0], w[1]).1, flat(curve, w[1], w[2]).1);
        between / (above - below) >= MIN_STEP_SHARE
    });
    (explains || !sharp).then_some(ramp)
}

/// Returns chi-squared about the mean of the sizes `from..to`, and the mean.
fn flat(curve: &Curve<'_>, from: usize, to: usize) -> (f64, f64) {
    let of = &curve.medians[from..to];
    let mean = of.iter().sum::<f64>() / of.len() as f64;
    (of.iter().map(|y| ((y - mean) / curve.sigma).powi(2)).sum(), mean)
}

/// Returns the ramp with the least chi-squared: flat, straight over at least two gaps, flat.
fn best(curve: &Curve<'_>, from: usize, to: usize) -> Option<((usize, usize), f64)> {
    let x: Vec<f64> = curve.rows.iter().map(|r| (r.bytes as f64).ln()).collect();
    let mut best: Option<((usize, usize), f64)> = None;
    for i in from..to {
        for j in i + 2..to {
            let at: Vec<f64> = (from..to).map(|k| ((x[k] - x[i]) / (x[j] - x[i])).clamp(0.0, 1.0)).collect();
            let chi = straight(&at, &curve.medians[from..to]) / curve.sigma.powi(2);
            if best.is_none_or(|l| chi < l.1) {
                best = Some(((i, j), chi));
            }
        }
    }
    best
}

/// Returns the residual sum of squares of a linear fit of y over x.
fn straight(x: &[f64], y: &[f64]) -> f64 {
    let n = x.len() as f64;
    let (mx, my) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let sum = |f: &dyn Fn(f64, f64) -> f64| x.iter().zip(y).map(|(x, y)| f(x - mx, y - my)).sum::<f64>();
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    (yy - xy * xy / xx.max(1e-300)).max(0.0)
}
