//! Tests of intervals against known distributions.

use super::*;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

fn uniform(rng: &mut rand_xoshiro::Xoshiro256PlusPlus) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[test]
fn quantiles_lie_between_neighbours() {
    assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), Some(2.0));
    assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), Some(3.0));
    assert_eq!(median(&[5.0, f64::NAN, 1.0]), Some(3.0));
    assert_eq!(median(&[]), None);
    assert_eq!(robust_sigma(&[7.0]), 0.0);
}

#[test]
fn median_intervals_follow_order_statistics() {
    // n = 6: the extremes cover 1 - 2/64 = 96.9 %; n = 8: the second ones would cover 93 %, so still the
    // extremes; n = 9: the second ones cover 96.1 %.
    let v: Vec<f64> = (1..=9).map(f64::from).collect();
    let ends = |n: usize| median_interval(&v[..n]).map(|i| (i.low, i.high));
    assert_eq!(ends(6), Some((1.0, 6.0)));
    assert_eq!(ends(8), Some((1.0, 8.0)));
    assert_eq!(ends(9), Some((2.0, 8.0)));
    assert_eq!(ends(1), Some((1.0, 1.0)));
}

#[test]
fn median_interval_has_its_coverage() {
    let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
    for n in [9usize, 40, 1500] {
        let trials = 2000;
        let covered = (0..trials)
            .filter(|_| {
                // A skewed distribution with median 0.25.
                let v: Vec<f64> = (0..n).map(|_| uniform(&mut rng).powi(2)).collect();
                let i = median_interval(&v).unwrap();
                i.low <= 0.25 && 0.25 <= i.high
            })
            .count();
        // Four standard errors of 2000 draws at 95 % are 2 %.
        assert!(covered as f64 / f64::from(trials) > 0.93, "n {n}: {covered} of {trials}");
    }
}
