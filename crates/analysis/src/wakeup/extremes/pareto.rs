//! The generalised Pareto distribution: fitted by maximum likelihood, tested by a parametric bootstrap, extrapolated
//! with the profile of its likelihood.

use super::SeededRng;

/// Shape and scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pareto {
    /// 0 exponential, above 0 heavier, below 0 with an end.
    pub shape: f64,
    /// In the unit of the excesses.
    pub scale: f64,
}

/// Below this a shape is taken for 0, where the formulas divide by it.
const EXPONENTIAL: f64 = 1e-6;
/// Shapes below -0.5 have no regular likelihood (Smith, Biometrika 72, 1985). Above 1 there is no mean; a fit goes
/// further, so that it can say so.
const SHAPES: (f64, f64) = (-0.5, 2.0);

impl Pareto {
    /// Maximum likelihood in one parameter, theta = shape / scale (Grimshaw, Technometrics 35, 1993): given it, the
    /// shape is the mean of ln(1 + theta y). Excesses ascending, at least two.
    #[must_use]
    pub fn fit(ascending: &[f64]) -> Pareto {
        let n = ascending.len().max(1) as f64;
        let mean = ascending.iter().sum::<f64>() / n;
        let Some(&largest) = ascending.last().filter(|&&l| l > 0.0) else {
            return Pareto { shape: 0.0, scale: mean };
        };
        let shape = |theta: f64| ascending.iter().map(|y| (theta * y).ln_1p()).sum::<f64>() / n;
        let at = |theta: f64| -> (f64, Pareto) {
            if (theta * mean).abs() < EXPONENTIAL {
                return (-mean.ln() - 1.0, Pareto { shape: 0.0, scale: mean });
            }
            let shape = shape(theta);
            if !(SHAPES.0..=SHAPES.1).contains(&shape) {
                return (f64::NEG_INFINITY, Pareto { shape, scale: shape / theta });
            }
            (-(shape / theta).ln() - shape - 1.0, Pareto { shape, scale: shape / theta })
        };
        // The search runs in theta times the mean, from just above the end of the support to far beyond any tail
        // met here; first a grid, because the likelihood has a second, infinite maximum at the end.
        let (low, high) = (-0.999 * mean / largest, 40.0f64);
        const GRID: usize = 30;
        let grid = |i: usize| low + (high - low) * (i as f64 / GRID as f64).powi(3);
        let best = (0..=GRID).max_by(|&i, &j| at(grid(i) / mean).0.total_cmp(&at(grid(j) / mean).0));
        let best = best.unwrap_or(0);
        let (from, to) = (grid(best.saturating_sub(1)), grid((best + 1).min(GRID)));
        at(golden(from, to, 18, |t| at(t / mean).0) / mean).1
    }

    /// Standard error of the shape from `n` excesses (Smith): (1 + shape) / sqrt(n).
    #[must_use]
    pub fn shape_error(&self, n: usize) -> f64 {
        (1.0 + self.shape).max(0.5) / (n as f64).sqrt()
    }

    /// The excess that one in `many` goes beyond.
    #[must_use]
    pub fn beyond(&self, many: f64) -> f64 {
        if self.shape.abs() < EXPONENTIAL {
            self.scale * many.ln()
        } else {
            self.scale / self.shape * (many.powf(self.shape) - 1.0)
        }
    }

    /// The mean of what exceeds a threshold that lies `by` higher; infinite without a mean.
    #[must_use]
    pub fn mean_beyond(&self, by: f64) -> f64 {
        if self.shape >= 1.0 { f64::INFINITY } else { (self.scale + self.shape * by) / (1.0 - self.shape) }
    }

    /// ln of the chance to exceed `y`.
    fn ln_survival(&self, y: f64) -> f64 {
        if self.shape.abs() < EXPONENTIAL {
            -y / self.scale
        } else {
            -(self.shape * y / self.scale).max(-1.0).ln_1p() / self.shape
        }
    }

    /// Anderson and Darling's distance of ascending excesses from this distribution.
    fn distance(&self, ascending: &[f64]) -> f64 {
        let n = ascending.len();
        // What lies at the very end of the support would be infinitely far: as far as a double tells.
        let tail = |y: f64| self.ln_survival(y).clamp(-700.0, -1e-15);
        let sum: f64 = (0..n)
            .map(|i| {
                let (up, down) = (tail(ascending[i]), tail(ascending[n - 1 - i]));
                (2 * i + 1) as f64 * ((-up.exp_m1()).ln() + down)
            })
            .sum();
        -(n as f64) - sum / n as f64
    }

    /// The share of samples of this distribution that, fitted in the same way, lie further from their fit than
    /// these do; at most 199, and no more once ten and a tenth of them do: then the fit stands.
    pub(super) fn worse(&self, ascending: &[f64], chance: &mut SeededRng) -> f64 {
        const MAX_RESAMPLES: usize = 199;
        let ours = self.distance(ascending);
        let mut further = 0;
        for done in 1..=MAX_RESAMPLES {
            let drawn = self.draw(ascending.len(), chance);
            further += usize::from(Pareto::fit(&drawn).distance(&drawn) >= ours);
            if further >= 10 && (further as f64) >= 0.2 * done as f64 {
                return further as f64 / done as f64;
            }
        }
        (further + 1) as f64 / (MAX_RESAMPLES + 1) as f64
    }

    /// `n` ascending excesses: the spacings of ascending exponentials are exponentials (Renyi), so nothing is sorted.
    fn draw(&self, n: usize, chance: &mut SeededRng) -> Vec<f64> {
        let mut at = 0.0;
        (0..n)
            .map(|i| {
                at += chance.exponential() / (n - i) as f64;
                self.beyond(at.exp())
            })
            .collect()
    }
}

/// Where `f` is largest between `from` and `to`, to 0.618^`steps` of their distance.
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

/// The 95 % interval of the excess that one in `many` goes beyond: where the profile of the likelihood falls by
/// half the upper 5 % of chi-square with one degree of freedom, widened for small samples as a t is wider than a
/// normal distribution.
pub(super) fn profile(ascending: &[f64], fit: Pareto, many: f64) -> (f64, f64) {
    let n = ascending.len() as f64;
    let drop = 1.9207 * (1.0 + 2.0 / (n - 2.0).max(1.0)).powi(2);
    let best = fit.beyond(many);
    let end = |best: f64, step: f64, least: f64| -> f64 {
        let at = |level: f64| profiled(ascending, level, many, least);
        let top = at(best);
        // Outwards until it is below, then halved between.
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
    // The upper end rests on no tail that ends: a few dozen excesses often look like one.
    let exponential = Pareto { shape: 0.0, scale: ascending.iter().sum::<f64>() / n };
    let upper = if fit.shape < 0.0 { exponential.beyond(many) } else { best };
    (end(best, 0.8, SHAPES.0), end(upper.max(best), 1.25, 0.0))
}

fn likelihood(ascending: &[f64], p: Pareto) -> f64 {
    let n = ascending.len() as f64;
    if p.scale <= 0.0 || !p.scale.is_finite() {
        return f64::NEG_INFINITY;
    }
    if p.shape.abs() < EXPONENTIAL {
        return -n * p.scale.ln() - ascending.iter().sum::<f64>() / p.scale;
    }
    let theta = p.shape / p.scale;
    if ascending.last().is_some_and(|y| 1.0 + theta * y <= 0.0) {
        return f64::NEG_INFINITY;
    }
    let sum: f64 = ascending.iter().map(|y| (theta * y).ln_1p()).sum();
    -n * p.scale.ln() - (1.0 + 1.0 / p.shape) * sum
}

/// The largest likelihood of any shape of at least `least` whose level is this one.
fn profiled(ascending: &[f64], level: f64, many: f64, least: f64) -> f64 {
    let of = |shape: f64| {
        let unit = Pareto { shape, scale: 1.0 }.beyond(many);
        likelihood(ascending, Pareto { shape, scale: level / unit })
    };
    const MAX_SHAPE_FITTED: f64 = 1.0;
    const GRID: usize = 12;
    let grid = |i: usize| least + (MAX_SHAPE_FITTED - least) * i as f64 / GRID as f64;
    let best = (0..=GRID).max_by(|&i, &j| of(grid(i)).total_cmp(&of(grid(j)))).unwrap_or(0);
    of(golden(grid(best.saturating_sub(1)), grid((best + 1).min(GRID)), 12, of))
}
