//! Tests with pages placed at random and every set simulated, independent of the expectation formula.

use super::*;
use crate::replacement::{Set, rng::Rng};

/// Returns the share of misses of one placement.
fn placed(policy: Policy, geometry: Geometry, pages: usize, rng: &mut Rng) -> f64 {
    let mut sets: Vec<Set> =
        (0..geometry.colours).map(|_| Set::new(policy, geometry.ways, rng.next())).collect();
    let colours: Vec<usize> = (0..pages).map(|_| rng.below(geometry.colours)).collect();
    let mut missed = 0;
    for round in 0..40 {
        for (page, colour) in colours.iter().enumerate() {
            missed += u32::from(!sets[*colour].visit(page as u16) && round >= 20);
        }
    }
    f64::from(missed) / (20 * pages) as f64
}

/// Returns a measured point: mean of several placements, with noise, and the error from their variance.
fn point(policy: Policy, geometry: Geometry, pages: usize, noise: f64, rng: &mut Rng) -> Point {
    let placements = 12;
    let shares: Vec<f64> = (0..placements)
        .map(|_| {
            let normal = (0..12).map(|_| rng.below(1 << 20) as f64 / f64::from(1 << 20)).sum::<f64>() - 6.0;
            placed(policy, geometry, pages, rng) + noise * normal
        })
        .collect();
    let share = shares.iter().sum::<f64>() / f64::from(placements);
    let scatter = shares.iter().map(|s| (s - share).powi(2)).sum::<f64>() / f64::from(placements - 1);
    // A hit takes 20, a miss 100 more.
    let error = 100.0 * (scatter / f64::from(placements)).sqrt();
    Point { pages, time: 20.0 + 100.0 * share, error }
}

/// Returns points from a quarter of the cache's pages to three times as many.
fn measured(policy: Policy, geometry: Geometry, noise: f64, seed: u64) -> Vec<Point> {
    let mut rng = Rng::new(seed);
    let at = |i: usize| (geometry.pages() * i).div_ceil(8);
    (2..=24).map(|i| point(policy, geometry, at(i).max(1), noise, &mut rng)).collect()
}

/// Returns common numbers of ways with powers of two of page sets.
fn candidates() -> Vec<Geometry> {
    let ways = [2, 4, 8, 12, 16];
    ways.iter().flat_map(|w| (1..=7).map(|c| Geometry { ways: *w, colours: 1 << c })).collect()
}

#[test]
fn the_expectation_is_the_mean_of_placements() {
    let mut rng = Rng::new(3);
    for (policy, ways, colours) in
        [(Policy::Lru, 8, 16), (Policy::Random, 4, 8), (Policy::TreePlru, 16, 4), (Policy::Lru, 2, 3)]
    {
        let geometry = Geometry { ways, colours };
        for pages in [geometry.pages() / 2, geometry.pages(), 2 * geometry.pages()] {
            let shares: Vec<f64> = (0..150).map(|_| placed(policy, geometry, pages, &mut rng)).collect();
            let mean = shares.iter().sum::<f64>() / 150.0;
            let scatter = shares.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / 149.0;
            let expected = Curve::new(policy, ways).share(colours, pages);
            let deviation = (mean - expected).abs();
            assert!(
                deviation < 4.0 * (scatter / 150.0).sqrt() + 0.005,
                "{policy} {geometry:?} {pages}: {mean} {expected}"
            );
        }
    }
}

#[test]
fn expected_shares_are_exact_at_both_ends() {
    let curve = Curve::new(Policy::Lru, 8);
    assert_eq!(curve.share(16, 0), 0.0);
    assert_eq!(curve.share(16, 8), 0.0);
    assert_eq!((curve.share(1, 8), curve.share(1, 9)), (0.0, 1.0));
    assert!(curve.share(16, 100_000) > 0.999_999 && curve.share(16, 100_000) <= 1.0);
    let rising: Vec<f64> = (1..600).map(|n| curve.share(16, n)).collect();
    assert!(rising.windows(2).all(|w| w[1] >= w[0] - 1e-12));
}

#[test]
fn ways_and_page_sets_are_found_from_noisy_curves() {
    let (mut all, mut right, mut kept) = (0, 0, 0);
    for (policy, seed) in [(Policy::Lru, 1), (Policy::Lru, 2), (Policy::TreePlru, 3), (Policy::Random, 4)] {
        for (ways, colours) in [(4, 16), (8, 32), (16, 16), (8, 8), (16, 2)] {
            let truth = Geometry { ways, colours };
            let points = measured(policy, truth, 0.01, 100 * seed + ways as u64);
            let fit = fit(&points, &candidates(), &[policy]).unwrap();
            all += 1;
            kept += u32::from(fit.consistent.iter().any(|c| c.0 == truth));
            right += u32::from(fit.decided && fit.best.0 == truth);
            assert!(!fit.decided || fit.best.0 == truth, "{truth:?} {policy}: {fit:?}");
            assert!(fit.pages.low <= fit.pages.value && fit.pages.value <= fit.pages.high);
        }
    }
    println!("of {all} curves {kept} keep the truth, {right} are decided and right");
    assert!(kept == all && right * 10 >= all * 9, "{all} {kept} {right}");
}

#[test]
fn ambiguous_candidates_are_refused() {
    let truth = Geometry { ways: 8, colours: 32 };
    // Errors so large that the neighbours fit too.
    let mut points = measured(Policy::Lru, truth, 0.0, 9);
    points.iter_mut().for_each(|p| p.error = 50.0);
    let wide = fit(&points, &candidates(), &[Policy::Lru]).unwrap();
    assert!(!wide.decided && wide.consistent.len() > 1 && wide.pages.low < wide.pages.high, "{wide:?}");
    assert!(wide.consistent.iter().any(|c| c.0 == truth));
    // All points beyond the rise.
    let mut rng = Rng::new(5);
    let far: Vec<Point> = [2000, 3000, 4000].map(|n| point(Policy::Lru, truth, n, 0.0, &mut rng)).to_vec();
    assert!(!fit(&far, &candidates(), &[Policy::Lru]).unwrap().decided);
    // A curve that rises and falls again is not that of a cache.
    let hump = (1..20_i32).map(|i| {
        let time = f64::from(100 - (i - 10).pow(2));
        Point { pages: 40 * i as usize, time, error: 0.3 }
    });
    let hump = fit(&hump.collect::<Vec<_>>(), &candidates(), &[Policy::Lru]).unwrap();
    assert!(!hump.decided && hump.reason.starts_with("no candidate"), "{}", hump.reason);
    assert!(fit(&[], &candidates(), &[Policy::Lru]).is_none());
    assert!(fit(&points, &[], &[Policy::Lru]).is_none());
}
