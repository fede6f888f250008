//! Simulated latencies: a body, a tail, and rare unrelated spikes.

use super::super::random::SeededRng;
use crate::interval::{median, sorted};

/// Returns a body sample: 20 us plus queueing delays, gamma-distributed with shape 2.
pub fn body(rng: &mut SeededRng, scale: f64) -> f64 {
    20.0 + scale * (rng.exponential() + rng.exponential())
}

/// Returns a generalised Pareto sample, from 0.
pub fn pareto(rng: &mut SeededRng, shape: f64, scale: f64) -> f64 {
    let e = rng.exponential();
    if shape == 0.0 { scale * e } else { scale / shape * ((shape * e).exp() - 1.0) }
}

/// Returns an approximately standard normal number: the sum of twelve uniform ones.
pub fn normal(rng: &mut SeededRng) -> f64 {
    (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0
}

/// Probability of a spike, and the shape and scale of its tail (infinite variance), as of other work on a host.
pub const SPIKES: f64 = 1.5e-4;
const SPIKE: (f64, f64) = (1.0 / 1.2, 30.0 / 1.2);

/// Returns p99.9 of `n` samples of a body of this scale, moved by `shift`, with spikes.
pub fn p999(rng: &mut SeededRng, n: usize, shift: f64, scale: f64) -> f64 {
    let mut samples: Vec<f64> = (0..n)
        .map(|_| {
            let x = body(rng, scale) + shift;
            if rng.unit() < SPIKES { x + 30.0 + pareto(rng, SPIKE.0, SPIKE.1) } else { x }
        })
        .collect();
    let place = n - 1 - n / 1000;
    *samples.select_nth_unstable_by(place, f64::total_cmp).1
}

/// Returns the expected p99.9 of such samples: the median of 400 simulations.
pub fn true_p999(n: usize, shift: f64, scale: f64) -> f64 {
    let mut rng = SeededRng::new(0x7e57);
    let many: Vec<f64> = (0..400).map(|_| p999(&mut rng, n, shift, scale)).collect();
    median(&sorted(&many)).unwrap()
}
