//! The generalised Pareto distribution: maximum-likelihood fit, goodness of fit by a parametric bootstrap, and
//! extrapolation with the profile likelihood.

use super::SeededRng;

/// Shape and scale of the distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pareto {
    /// Shape: 0 exponential, above 0 heavier, below 0 with an end point.
    pub shape: f64,
    /// Scale, in the unit of the excesses.
    pub scale: f64,
}

/// Largest shape that is treated as 0, because the formulas divide by it.
const MAX_EXPONENTIAL_SHAPE: f64 = 1e-6;
/// Range of shapes. Below -0.5 the likelihood is not regular (Smith, Biometrika 72, 1985). Above 1 there is no mean;
/// the fit allows more, so that it can report it.
const SHAPE_RANGE: (f64, f64) = (-0.5, 2.0);

impl Pareto {
    /// Fits by maximum likelihood in one parameter, theta = shape / scale (Grimshaw, Technometrics 35, 1993): given
    /// theta, the shape is the mean of ln(1 + theta y). Excesses must be ascending, at least two.
    #[must_use]
    pub fn fit(ascending: &[f64]) -> Pareto {
        let n = ascending.len().max(1) as f64;
        let mean = ascending.iter().sum::<f64>() / n;
        let Some(&largest) = ascending.last().filter(|&&l| l > 0.0) else {
            return Pareto { shape: 0.0, scale: mean };
        };
        let shape = |theta: f64| ascending.iter().map(|y| (theta * y).ln_1p()).sum::<f64>() / n;
        let at = |theta: f64| -> (f64, Pareto) {
            if (theta * mean).abs() < MAX_EXPONENTIAL_SHAPE {
                return (-mean.ln() - 1.0, Pareto { shape: 0.0, scale: mean });
            }
            let shape = shape(theta);
            if !(SHAPE_RANGE.0..=SHAPE_RANGE.1).contains(&shape) {
                return (f64::NEG_INFINITY, Pareto { shape, scale: shape / theta });
            }
            (-(shape / theta).ln() - shape - 1.0, Pareto { shape, scale: shape / theta })
        };
        // The search is in theta times the mean, from just above the end of the support to far beyond any real tail. It
        // begins with a grid, because the likelihood has a second, infinite maximum at the end.
        let (low, high) = (-0.999 * mean / largest, 40.0f64);
        const GRID: usize = 30;
        let grid = |i: usize| low + (high - low) * (i as f64 / GRID as f64).powi(3);
        let best = (0..=GRID).max_by(|&i, &j| at(grid(i) / mean).0.total_cmp(&at(grid(j) / mean).0));
        let best = best.unwrap_or(0);
        let (from, to) = (grid(best.saturating_sub(1)), grid((best + 1).min(GRID)));
        at(golden(from, to, 18, |t| at(t / mean).0) / mean).1
    }

    /// Returns the standard error of the shape from `n` excesses (Smith): (1 + shape) / sqrt(n).
    #[must_use]
    pub fn shape_error(&self, n: usize) -> f64 {
        (1.0 + self.shape).max(0.5) / (n as f64).sqrt()
    }

    /// Returns the excess that is exceeded by one in `many`.
    #[must_use]
    pub fn beyond(&self, many: f64) -> f64 {
        if self.shape.abs() < MAX_EXPONENTIAL_SHAPE {
            self.scale * many.ln()
        } else {
            self.scale / self.shape * (many.powf(self.shape) - 1.0)
        }
    }

    /// Returns the mean excess over a threshold that is higher by `by`; infinite without a mean.
    #[must_use]
    pub fn mean_beyond(&self, by: f64) -> f64 {
        if self.shape >= 1.0 { f64::INFINITY } else { (self.scale + self.shape * by) / (1.0 - self.shape) }
    }

    /// Returns ln of the probability to exceed `y`.
    fn ln_survival(&self, y: f64) -> f64 {
        if self.shape.abs() < MAX_EXPONENTIAL_SHAPE {
            -y / self.scale
        } else {
            -(self.shape * y / self.scale).max(-1.0).ln_1p() / self.shape
        }
    }

    /// Returns the Anderson-Darling distance of ascending excesses from this distribution.
    fn distance(&self, ascending: &[f64]) -> f64 {
        let n = ascending.len();
        // A value at the very end of the support would be infinitely far, so the distance is limited.
        let tail = |y: f64| self.ln_survival(y).clamp(-700.0, -1e-15);
        let sum: f64 = (0..n)
            .map(|i| {
                let (up, down) = (tail(ascending[i]), tail(ascending[n - 1 - i]));
                (2 * i + 1) as f64 * ((-up.exp_m1()).ln() + down)
            })
            .sum();
        -(n as f64) - sum / n as f64
    }

    /// Returns the share of samples of this distribution that, fitted in the same way, are further from their fit than
    /// these excesses. Uses at most 199 samples, and stops early once at least ten of them and a fifth are further:
    /// then the fit is accepted.
    pub(super) fn worse(&self, ascending: &[f64], rng: &mut SeededRng) -> f64 {
        const MAX_RESAMPLES: usize = 199;
        let ours = self.distance(ascending);
        let mut further = 0;
        for done in 1..=MAX_RESAMPLES {
            let drawn = self.draw(ascending.len(), rng);
            further += usize::from(Pareto::fit(&drawn).distance(&drawn) >= ours);
            if further >= 10 && (further as f64) >= 0.2 * done as f64 {
                return further as f64 / done as f64;
            }
        }
        (further + 1) as f64 / (MAX_RESAMPLES + 1) as f64
    }

    /// Draws `n` ascending excesses. The spacings of ascending exponentials are exponentials (Renyi), so no sorting is
    /// needed.
    fn draw(&self, n: usize, rng: &mut SeededRng) -> Vec<f64> {
        let mut at = 0.0;
        (0..n)
            .map(|i| {
                at += rng.exponential() / (n - i) as f64;
                self.beyond(at.exp())
            })
            .collect()
    }
}

/// Finds the maximum of `f` between `from` and `to` by golden-section search, to 0.618^`steps` of their distance.
fn golden(from: f64, to: f64, steps: usize, f: impl Fn(f64) -> f64) -> f64 {
    const RATIO: f64 = 0.618_033_988_749_895;
    let (mut a, mut b) = (from, to);
    let (mut c, mut d) = (b - RATIO * (b - a), a + RATIO * (b - a));
    let (mut fc, mut fd) = (f(c), f(d));
    for _ in 0..steps {
        if fc >= fd {
            (b, d, fd) = (d, c, fc);
            c = b - RATIO * (b - a);
            fc = f(c);
        } else {
            (a, c, fc) = (c, d, fd);
            d = a + RATIO * (b - a);
            fd = f(d);
        }
    }
    f64::midpoint(a, b)
}

/// Returns the 95 % interval of the excess that is exceeded by one in `many`: where the profile likelihood falls by
/// half the upper 5 % of chi-squared with one degree of freedom, widened for small samples as t is wider than the
/// normal distribution.
pub(super) fn profile(ascending: &[f64], fit: Pareto, many: f64) -> (f64, f64) {
    let n = ascending.len() as f64;
    let drop = 1.9207 * (1.0 + 2.0 / (n - 2.0).max(1.0)).powi(2);
    let best = fit.beyond(many);
    let end = |best: f64, step: f64, min_shape: f64| -> f64 {
        let at = |level: f64| profiled(ascending, level, many, min_shape);
        let top = at(best);
        // Outwards until it is below, then by bisection.
        let (mut inside, mut outside) = (best, best * step);
        for _ in 0..40 {
            if at(outside) < top - drop {
                break;
            }
            (inside, outside) = (outside, outside * step);
        }
        for _ in 0..12 {
            let middle = (inside * outside).sqrt();
            if at(middle) < top - drop { outside = middle } else { inside = middle }
        }
        (inside * outside).sqrt()
    };
    // For the upper end a tail without an end point is assumed: a few dozen excesses often look like one with an end
    // point.
    let exponential = Pareto { shape: 0.0, scale: ascending.iter().sum::<f64>() / n };
    let upper = if fit.shape < 0.0 { exponential.beyond(many) } else { best };
    (end(best, 0.8, SHAPE_RANGE.0), end(upper.max(best), 1.25, 0.0))
}

fn likelihood(ascending: &[f64], p: Pareto) -> f64 {
    let n = ascending.len() as f64;
    if p.scale <= 0.0 || !p.scale.is_finite() {
        return f64::NEG_INFINITY;
    }
    if p.shape.abs() < MAX_EXPONENTIAL_SHAPE {
        return -n * p.scale.ln() - ascending.iter().sum::<f64>() / p.scale;
    }
    let theta = p.shape / p.scale;
    if ascending.last().is_some_and(|y| 1.0 + theta * y <= 0.0) {
        return f64::NEG_INFINITY;
    }
    let sum: f64 = ascending.iter().map(|y| (theta * y).ln_1p()).sum();
    -n * p.scale.ln() - (1.0 + 1.0 / p.shape) * sum
}

/// Returns the largest likelihood of any shape of at least `min_shape` with this level.
fn profiled(ascending: &[f64], level: f64, many: f64, min_shape: f64) -> f64 {
    let of = |shape: f64| {
        let unit = Pareto { shape, scale: 1.0 }.beyond(many);
        likelihood(ascending, Pareto { shape, scale: level / unit })
    };
    const MAX_SHAPE_FITTED: f64 = 1.0;
    const GRID: usize = 12;
    let grid = |i: usize| min_shape + (MAX_SHAPE_FITTED - min_shape) * i as f64 / GRID as f64;
    let best = (0..=GRID).max_by(|&i, &j| of(grid(i)).total_cmp(&of(grid(j)))).unwrap_or(0);
    of(golden(grid(best.saturating_sub(1)), grid((best + 1).min(GRID)), 12, of))
}
