//! Planted curves: pages in random frames, counted colour by colour.

use super::*;
use crate::tiers::{Options, Point, read as read_steps};

const PAGE: f64 = 4096.0;

/// An LRU level: bytes, ways, and the latency of a load that it does not serve.
type Planted = (f64, u32, f64);

/// Returns a random number, by Knuth's MMIX generator.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Returns the mean latency of a cyclic walk over `pages` pages in random frames.
fn walk(levels: &[Planted], first: f64, pages: usize, state: &mut u64) -> f64 {
    let frames: Vec<u64> = (0..pages).map(|_| next(state)).collect();
    let colours = |level: &Planted| (level.0 / (f64::from(level.1) * PAGE)).max(1.0) as u64;
    let held: Vec<Vec<u32>> = levels
        .iter()
        .map(|level| {
            let mut held = vec![0; colours(level) as usize];
            frames.iter().for_each(|frame| held[(frame % colours(level)) as usize] += 1);
            held
        })
        .collect();
    let latency = |frame: &u64| {
        let misses = |(level, held): (&Planted, &Vec<u32>)| {
            (held[(frame % colours(level)) as usize] > level.1).then_some(level.2)
        };
        levels.iter().zip(&held).map_while(misses).last().unwrap_or(first)
    };
    frames.iter().map(latency).sum::<f64>() / pages as f64
}

/// Returns the curve from one page to `most` pages, four points in an octave, in several placements.
fn planted(levels: &[Planted], first: f64, most: f64, seed: u64) -> Vec<Placed> {
    let mut state = seed;
    let octaves = (4.0 * most.log2()) as i32;
    let mut sizes: Vec<usize> = (0..=octaves).map(|i| (f64::from(i) / 4.0).exp2() as usize).collect();
    sizes.dedup();
    let mut point = |pages: &usize| {
        let placed = |_| Placement { y: walk(levels, first, *pages, &mut state), sigma: 0.001 };
        let placements = (0..(1400 / pages).clamp(1, 12)).map(placed).collect();
        Placed { x: *pages as f64 * PAGE, placements, translation: 0.0 }
    };
    sizes.iter().map(&mut point).collect()
}

fn reading(points: &[Placed]) -> Reading {
    let steps: Vec<Point> = points.iter().map(|p| p.point(1.0)).collect();
    read(points, PAGE, &read_steps(&steps, &Options::default()).unwrap()).unwrap()
}

/// Asserts that the levels are found: their number, and capacities and latencies in their intervals.
#[track_caller]
fn assert_found(levels: &[Planted], first: f64, most: f64, seed: u64) {
    let reading = reading(&planted(levels, first, most, seed));
    assert_eq!(reading.tiers.len(), levels.len() + 1, "{reading:#?}");
    for (tier, level) in reading.tiers.iter().zip(levels) {
        let Interval { low, high, .. } = tier.capacity.unwrap().onset;
        assert!((low..=high).contains(&level.0), "{level:?}: {low} to {high}");
    }
    let latencies = core::iter::once(first).chain(levels.iter().map(|level| level.2));
    for (tier, latency) in reading.tiers.iter().zip(latencies) {
        let Interval { low, high, .. } = tier.latency;
        assert!((low..=high).contains(&latency), "{latency}: {low} to {high}");
    }
}

const KIB: f64 = 1024.0;

/// The rise of the direct-mapped level goes over into that of the next one.
#[test]
fn levels_without_a_plateau_are_counted() {
    for seed in 1..3 {
        let levels = [(48.0 * KIB, 3, 2.0), (1024.0 * KIB, 1, 4.5), (16384.0 * KIB, 16, 56.0)];
        assert_found(&levels, 1.3, 65536.0, seed);
    }
}

/// Where a colour of the farther level overflows, loads take forty times as long as in the nearer tiers: on average nothing is seen of these.
#[test]
fn level_is_seen_where_all_pages_fit_in_the_farther_one() {
    for seed in 1..4 {
        assert_found(&[(24.0 * KIB, 3, 8.0), (512.0 * KIB, 4, 337.0)], 5.0, 8192.0, seed);
    }
}

#[test]
fn one_level_of_few_colours_is_one() {
    for seed in 1..3 {
        assert_found(&[(128.0 * KIB, 4, 30.0)], 2.0, 8192.0, seed);
    }
}

#[test]
fn levels_of_many_ways_are_counted() {
    for seed in 1..3 {
        let levels = [(32.0 * KIB, 8, 4.0), (512.0 * KIB, 8, 13.0), (4096.0 * KIB, 16, 80.0)];
        assert_found(&levels, 1.1, 16384.0, seed);
    }
}

/// Two levels whose latencies differ little: their number is right, or told to be unsure.
#[test]
fn levels_that_differ_little_are_counted_or_doubted() {
    let mut right = 0;
    for seed in 1..4 {
        let levels = [(64.0 * KIB, 2, 4.0), (256.0 * KIB, 4, 9.0), (2048.0 * KIB, 8, 60.0)];
        let reading = reading(&planted(&levels, 1.9, 16384.0, seed));
        let counted = reading.tiers.len() == levels.len() + 1;
        right += u32::from(counted);
        assert!(counted || reading.notes.iter().any(|note| note.contains("not sure")), "{reading:#?}");
    }
    assert!(right > 0);
}

#[test]
fn curve_without_points_has_no_tiers() {
    let flat = [1.0, 2.0].map(|x| Placed {
        x,
        placements: vec![Placement { y: 1.0, sigma: 0.0 }],
        translation: 0.0,
    });
    let steps = Reading { tiers: Vec::new(), scatter: 0.0, flat_end: true, notes: Vec::new() };
    assert_eq!(read(&flat, PAGE, &steps), None);
}
