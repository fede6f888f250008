//! Planted curves that leave something open.

use super::*;
use crate::tiers::Capacity;
use crate::tiers::shape::Shape;

fn exactly(value: f64) -> Interval {
    Interval { value, low: value, high: value }
}

fn capacity(bytes: f64, explained: bool) -> Capacity {
    let shape = Shape::Lru(8);
    let (below, above) = (bytes, 1.01 * bytes);
    Capacity { onset: exactly(bytes), below, above, shape, explained, wide_rise: false, covered: 0 }
}

fn tier(latency: f64, capacity: Option<Capacity>, on_plateau: usize, begin: f64) -> Tier {
    Tier { latency: exactly(latency), capacity, points: on_plateau, on_plateau, begin }
}

/// Returns points at half octaves from 256 to 16384.
fn points(y: impl Fn(f64) -> f64) -> Vec<Point> {
    let sizes = (0..13).map(|i| 256.0 * 2f64.powf(f64::from(i) / 2.0));
    sizes.map(|x| Point { x, y: y(x), sigma: 0.001, shared: 0.0 }).collect()
}

/// Hits of a level of 256 KiB with random replacement vanish over two octaves, before which the next level of 1 MiB is full.
#[test]
fn tier_that_still_rises_is_extended_by_the_hits_of_random_replacement() {
    let misses =
        [(1.25, 0.381), (1.5, 0.591), (2.0, 0.801), (2.5, 0.896), (3.0, 0.945), (3.5, 0.966), (3.98, 0.978)];
    let at = |(ratio, share): (f64, f64)| Point {
        x: ratio * 262_144.0,
        y: 14.0 + 8.0 * share,
        sigma: 0.0002,
        shared: 0.0,
    };
    let points = misses.map(at);
    let mut tiers = [
        tier(14.0, Some(capacity(262_144.0, true)), 9, 64.0),
        tier(21.6, Some(capacity(1_048_576.0, true)), 1, f64::INFINITY),
        tier(58.0, None, 9, 2e6),
    ];
    extend_by_hits(&mut tiers, 1, &points);
    let Interval { low, high, .. } = tiers[1].latency;
    assert!(low == 21.6 && (21.95..22.05).contains(&high), "{low} {high}");
}

/// Measured on a described machine: huge pages in pieces, of which a TLB holds as many as 3 MiB have, and what a walk adds was not known.
#[test]
fn memory_that_is_slower_from_some_working_set_on_has_both_times() {
    let curve = points(|x| match x {
        ..=512.0 => 4.0,
        ..=4000.0 => 61.47,
        _ => 62.76,
    });
    let latency = |curve: &[Point]| {
        let mut tiers = [tier(4.0, Some(capacity(512.0, true)), 3, 256.0), tier(62.76, None, 4, 700.0)];
        widen(&mut tiers, curve);
        tiers[1].latency
    };
    assert!(latency(&curve).low < 61.4, "{:?}", latency(&curve));
    let level = points(|x| if x <= 512.0 { 4.0 } else { 62.76 });
    assert!(latency(&level).low > 62.2, "{:?}", latency(&level));
}

#[test]
fn latency_without_a_plateau_is_bounded_by_its_points() {
    let curve = points(|x| if x <= 512.0 { 4.0 } else { (4.0 + (x - 512.0) / 256.0).min(20.0) });
    let mut tiers = [
        tier(4.0, Some(capacity(512.0, false)), 3, 256.0),
        tier(9.0, Some(capacity(2048.0, false)), 0, f64::INFINITY),
        tier(20.0, None, 4, 5000.0),
    ];
    widen(&mut tiers, &curve);
    let found = tiers[1].latency;
    assert!(found.low <= 4.0 && found.high >= 10.0 && found.value == 9.0, "{found:?}");
}

#[test]
fn level_tiers_between_explained_rises_keep_their_intervals() {
    let curve = points(|x| {
        if x <= 512.0 {
            4.0
        } else if x <= 2048.0 {
            9.0
        } else {
            20.0
        }
    });
    let mut tiers = [
        tier(4.0, Some(capacity(512.0, true)), 3, 256.0),
        tier(9.0, Some(capacity(2048.0, true)), 4, 700.0),
        tier(20.0, None, 5, 2800.0),
    ];
    widen(&mut tiers, &curve);
    assert_eq!((tiers[0].latency, tiers[1].latency), (exactly(4.0), exactly(9.0)));
    assert_eq!(tiers[1].capacity.map(|c| c.onset.low), Some(2048.0));
    // Memory differs between working sets.
    assert!(tiers[2].latency.low < 20.0 && tiers[2].latency.high > 20.0);
}

/// Returns tiers of 4 and 20 with a capacity of 1448, and the curve of an LRU cache with the given rise at 2048 and 2896.
fn with_rise(rise: [f64; 2]) -> ([Tier; 2], Vec<Point>) {
    let curve = points(|x| match x as u64 {
        0..=1448 => 4.0,
        1449..=2048 => rise[0],
        2049..=2897 => rise[1],
        _ => 20.0,
    });
    let tiers = [tier(4.0, Some(capacity(1448.0, true)), 5, 256.0), tier(20.0, None, 5, 4096.0)];
    (tiers, curve)
}

#[test]
fn plateau_that_rises_throughout_is_none() {
    let curve = points(|x| if x <= 512.0 { 4.0 } else { (4.0 + (x - 512.0) / 256.0).min(20.0) });
    let mut tiers = [
        tier(4.0, Some(capacity(512.0, false)), 3, 256.0),
        tier(9.0, Some(capacity(2897.0, false)), 3, 1448.0),
        tier(20.0, None, 4, 5000.0),
    ];
    assert!(rises_throughout(&tiers[1], &curve) && !rises_throughout(&tiers[0], &curve));
    widen(&mut tiers, &curve);
    let found = tiers[1].latency;
    assert!(found.low <= 4.0 && found.high >= 10.0, "{found:?}");
}

#[test]
fn high_wide_and_unmeasured_rises_may_hide_a_level() {
    let (tiers, curve) = with_rise([7.0, 9.0]);
    assert!(may_hide_a_level(&tiers, &curve));
    let low = [tier(4.0, Some(capacity(1448.0, true)), 5, 256.0), tier(6.2, None, 5, 4096.0)];
    assert!(!may_hide_a_level(&low, &curve), "less than two steps of 1.25");
    let (tiers, curve) = with_rise([20.0, 20.0]);
    assert!(!may_hide_a_level(&tiers, &curve), "half an octave");
    // From 1448 to 16384 nothing was measured: a level of twice the size and more may end there.
    let sparse: Vec<Point> = curve.iter().copied().filter(|p| p.x < 1500.0 || p.x > 16_000.0).collect();
    assert_eq!(unmeasured(&tiers, &curve), None);
    let gap = unmeasured(&tiers, &sparse).map(|(from, to)| (from as u64, to as u64));
    assert_eq!(gap, Some((2896, 16_384)));
}

/// Part of a lap met what the level had kept: less than 0.99 of the plateau's time beyond its end. Seen on a level of 80 MiB with 20 ways.
#[test]
fn working_set_that_is_faster_than_the_plateau_does_not_fit() {
    let curve = points(|x| match x {
        1448.0.. => 20.0,
        1024.0.. => 3.95,
        _ => 4.0,
    });
    let mut tiers = [tier(4.0, Some(capacity(1024.0, true)), 4, 256.0), tier(20.0, None, 4, 2000.0)];
    widen(&mut tiers, &curve);
    let onset = tiers[0].capacity.unwrap().onset;
    assert!((700.0..800.0).contains(&onset.low), "{onset:?}");
}

#[test]
fn crossing_is_between_points() {
    let curve = points(|x| x);
    assert_eq!(crossing(&curve, 512.0, 900.0), Some(900.0));
    // The point before is not on the rise.
    assert_eq!(crossing(&curve, 1024.0, 900.0), Some(1024.0));
    assert_eq!(crossing(&curve, 512.0, 1e9), None);
    let sparse: Vec<Point> = curve.into_iter().step_by(2).collect();
    assert_eq!(crossing(&sparse, 512.0, 900.0), Some(1024.0), "an octave apart");
    let two = [(1000.0, 4.0), (1004.0, 5.0)].map(|(x, y)| Point { x, y, sigma: 0.001, shared: 0.0 });
    assert_eq!(crossing(&two, 1000.0, 4.5), Some(1004.0), "a few lines apart");
}

/// Measured on a described machine: a direct-mapped level of 16 MiB behind one of 8 MiB that replaces at random, which has hits there.
#[test]
fn end_without_a_plateau_may_begin_where_a_smaller_set_takes_as_long() {
    let sizes = [(9.0, 46.0), (11.9, 70.7), (16.78, 89.6), (16.96, 88.9), (17.1, 90.6), (17.5, 94.5)];
    let curve = sizes.map(|(x, y)| Point { x, y, sigma: 0.0002, shared: 0.0 });
    let on: Vec<&Point> = curve.iter().collect();
    assert_eq!(first_as_slow(&on, 17.0), 16.78);
    assert_eq!(first_as_slow(&on, 17.2), 17.1);
    assert_eq!(first_as_slow(&on[..0], 17.0), f64::INFINITY);
}

#[test]
fn capacity_of_a_hashed_level_goes_to_half_of_its_step() {
    let ends = |rise| {
        let (mut tiers, curve) = with_rise(rise);
        widen(&mut tiers, &curve);
        tiers[0].capacity.unwrap().onset.high
    };
    assert_eq!(ends([7.0, 9.0]), 2048.0);
    // A larger working set misses less.
    assert_eq!(ends([9.0, 7.0]), 4096.0);
}

#[test]
fn working_set_above_the_plateau_does_not_show_that_it_fits() {
    let (mut tiers, mut curve) = with_rise([7.0, 9.0]);
    let risen = curve.iter().position(|p| p.x > 2000.0).unwrap();
    curve[risen].sigma = 0.5;
    tiers[0].capacity.as_mut().unwrap().below = 2048.0;
    tiers[0].capacity.as_mut().unwrap().onset.low = 2048.0;
    widen(&mut tiers, &curve);
    let found = tiers[0].capacity.unwrap();
    assert!(found.onset.low < 1449.0 && found.explained, "{found:?}");
}

#[test]
fn plateau_that_still_rises_is_extended_by_its_rise() {
    let curve = points(|x| if x <= 512.0 { 4.0 } else { 9.0 + (x / 724.0).log2() * 0.2 });
    let mut tiers = [
        tier(4.0, Some(capacity(512.0, true)), 3, 256.0),
        tier(9.3, Some(capacity(4096.0, true)), 5, 700.0),
        tier(20.0, None, 0, f64::INFINITY),
    ];
    widen(&mut tiers, &curve);
    assert!(tiers[1].latency.high > 9.9, "{:?}", tiers[1].latency);
}
