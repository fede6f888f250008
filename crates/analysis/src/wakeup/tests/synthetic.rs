//! Latencies that were made up: a body, a tail, and rare spikes that have nothing to do with anything.

use super::super::random::SeededRng;
use crate::interval::{median, sorted};

/// Gamma of shape 2: 20 us and what a few queues in a row add.
pub fn body(chance: &mut SeededRng, scale: f64) -> f64 {
    20.0 + scale * (chance.exponential() + chance.exponential())
}

/// Generalised Pareto from 0.
pub fn pareto(chance: &mut SeededRng, shape: f64, scale: f64) -> f64 {
    let e = chance.exponential();
    if shape == 0.0 { scale * e } else { scale / shape * ((shape * e).exp() - 1.0) }
}

/// Roughly normal: the sum of twelve.
pub fn normal(chance: &mut SeededRng) -> f64 {
    (0..12).map(|_| chance.unit()).sum::<f64>() - 6.0
}

/// The chance of a spike, and how heavy its tail is (infinite variance): a host that runs something else.
pub const SPIKES: f64 = 1.5e-4;
const SPIKE: (f64, f64) = (1.0 / 1.2, 30.0 / 1.2);

/// p99.9 of `n` samples of a body of this scale, moved by `shift`, with spikes.
pub fn p999(chance: &mut SeededRng, n: usize, shift: f64, scale: f64) -> f64 {
    let mut samples: Vec<f64> = (0..n)
        .map(|_| {
            let x = body(chance, scale) + shift;
            if chance.unit() < SPIKES { x + 30.0 + pareto(chance, SPIKE.0, SPIKE.1) } else { x }
        })
        .collect();
    let place = n - 1 - n / 1000;
    *samples.select_nth_unstable_by(place, f64::total_cmp).1
}

/// What p99.9 of such samples is: the median of many.
pub fn true_p999(n: usize, shift: f64, scale: f64) -> f64 {
    let mut chance = SeededRng::new(0x7e57);
    let many: Vec<f64> = (0..400).map(|_| p999(&mut chance, n, shift, scale)).collect();
    median(&sorted(&many)).unwrap()
}
