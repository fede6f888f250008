//! Tests with curves of known tiers: steps are found, noise and drift cause no tiers.
//!
//! The curves are computed independently of the shapes of the fit (lines counted set by set, or a plain ramp).

use super::*;
use crate::seeds::Seeds;
use proptest::prelude::*;
use rand_xoshiro::rand_core::SeedableRng as _;

/// Line of the test caches, bytes.
const LINE: f64 = 64.0;

/// Returns an approximately standard normal number, from twelve uniform ones.
fn normal(rng: &mut rand_xoshiro::Xoshiro256PlusPlus) -> f64 {
    (0..12).map(|_| (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64).sum::<f64>() - 6.0
}

/// A cache of a test: bytes, ways, latency beyond it.
#[derive(Clone, Copy, Debug)]
struct Step {
    size: f64,
    ways: u32,
    beyond: f64,
}

/// Miss curve of a test's cache.
type Misses = fn(f64, &Step) -> f64;

/// Returns the misses of an LRU cache on a cyclic walk: the lines of `x` are distributed to the sets in turn, and all
/// lines of a set with more lines than ways miss.
fn counted(x: f64, step: &Step) -> f64 {
    let ways = u64::from(step.ways);
    let sets = (step.size / LINE) as u64 / ways;
    let lines = (x / LINE) as u64;
    let (each, more) = (lines / sets, lines % sets);
    let missed = |in_a_set: u64| if in_a_set > ways { in_a_set } else { 0 };
    (more * missed(each + 1) + (sets - more) * missed(each)) as f64 / lines as f64
}

/// Returns the misses of a linear ramp as wide as one way: unlike any real cache, to test that the fit does not depend
/// on its shapes.
fn straight(x: f64, step: &Step) -> f64 {
    ((x / step.size - 1.0) * f64::from(step.ways)).clamp(0.0, 1.0)
}

/// Returns the misses of a ramp over a sixteenth of the size.
fn steep(x: f64, step: &Step) -> f64 {
    straight(x, &Step { ways: 16, ..*step })
}

fn curve_at(x: f64, first: f64, steps: &[Step], misses: Misses) -> f64 {
    let mut y = first;
    let mut before = first;
    for s in steps {
        y += (s.beyond - before) * misses(x, s);
        before = s.beyond;
    }
    y
}

/// Returns points on a grid of `per` per octave from 1 K to 64 M with relative noise.
fn grid(per: i32, noise: f64, seed: u64, f: impl Fn(f64) -> f64) -> Vec<Point> {
    let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..=16 * per)
        .map(|i| 1024.0 * (f64::from(i) / f64::from(per)).exp2())
        .map(|x: f64| (x / LINE).round() * LINE)
        .map(|x| Point { x, y: f(x) * (1.0 + noise * normal(&mut rng)), sigma: noise, shared: 0.0 })
        .collect()
}

/// Reads and refines as a plan does: three rounds of refinement points.
fn refined(mut points: Vec<Point>, noise: f64, seed: u64, f: impl Fn(f64) -> f64) -> Reading {
    let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(!seed);
    for _ in 0..4 {
        let reading = read(&points, &Options::default()).unwrap();
        for x in reading.refinement_points(0.01, 3) {
            let x = (x / LINE).round() * LINE;
            if points.iter().all(|p| p.x != x) {
                points.push(Point {
                    x,
                    y: f(x) * (1.0 + noise * normal(&mut rng)),
                    sigma: noise,
                    shared: 0.0,
                });
            }
        }
    }
    read(&points, &Options::default()).unwrap()
}

/// A random machine from `seed`: one to three caches of 2 to 16 ways, each at least 2.5 times the one before, steps of
/// at least 1.35, noise as in the model or on a host.
struct Drawn {
    first: f64,
    steps: Vec<Step>,
    noise: f64,
}

fn drawn(seed: u64) -> Drawn {
    let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut unit = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    loop {
        let first = 2.0 + 4.0 * unit();
        let (mut size, mut beyond) = (1024.0 * (1.0 + 3.0 * unit()).exp2(), first);
        let mut steps: Vec<Step> = Vec::new();
        for i in 0..1 + (3.0 * unit()) as usize {
            if i > 0 {
                size *= (1.3 + 3.7 * unit()).exp2();
            }
            let ways = 2 + (15.0 * unit()) as u32;
            let way = LINE * f64::from(ways);
            beyond *= 1.35 + 6.65 * unit().powi(2);
            steps.push(Step { size: (size / way).round() * way, ways, beyond });
        }
        let noise = if unit() < 0.5 { 0.0002 } else { 0.001 + 0.005 * unit() };
        if size < 16e6 {
            return Drawn { first, steps, noise };
        }
    }
}

/// Result of reading one random machine.
struct Compared {
    /// Whether tiers, latencies and the flat end are right.
    found: bool,
    /// Number of capacities inside their intervals, and of all.
    covered: (usize, usize),
    /// Largest factor by which a capacity is outside its interval.
    off: f64,
}

fn compare(seed: u64, misses: Misses) -> Compared {
    let Drawn { first, steps, noise } = drawn(seed);
    let f = |x: f64| curve_at(x, first, &steps, misses);
    let reading = refined(grid(3, noise, seed, f), noise, seed, f);
    let mut compared = Compared { found: false, covered: (0, 0), off: 1.0 };
    if reading.tiers.len() == steps.len() + 1 {
        let latencies = core::iter::once(first).chain(steps.iter().map(|s| s.beyond));
        let near =
            |(tier, truth): (&Tier, f64)| (tier.latency.value / truth - 1.0).abs() < 0.012 + 3.0 * noise;
        compared.found = reading.flat_end && reading.tiers.iter().zip(latencies).all(near);
        for (tier, step) in reading.tiers.iter().zip(&steps) {
            let onset = tier.capacity.unwrap().onset;
            let off = (onset.low / step.size).max(step.size / onset.high).max(1.0);
            compared.covered.0 += usize::from(off == 1.0);
            compared.covered.1 += 1;
            compared.off = compared.off.max(off);
        }
    }
    if !compared.found || compared.off > 1.02 {
        println!("curve {seed}, noise {noise}: {first}, {steps:?}\n    read as {reading:#?}");
    }
    compared
}

/// Asserts that the tiers of 99 % of the curves are found, and that 95 % of the intervals include the capacity, as a 95
/// % interval must. The seeds begin at 0 and were not selected.
fn assert_curves_recovered(what: &str, misses: Misses, seeds: Seeds) {
    let curves = seeds.count;
    let all: Vec<Compared> = (0..curves).map(|seed| compare(seed, misses)).collect();
    let found = all.iter().filter(|c| c.found).count();
    let covered = all.iter().map(|c| c.covered.0).sum::<usize>();
    let capacities = all.iter().map(|c| c.covered.1).sum::<usize>();
    let off = all.iter().map(|c| c.off).fold(1.0, f64::max);
    println!(
        "tiers: {what}: {found} of {curves} curves right, {covered} of {capacities} capacities in their \
         interval, the farthest outside by {:.1} %",
        100.0 * (off - 1.0)
    );
    assert!(found >= seeds.least(0.99, curves as usize), "{found} of {curves}");
    assert!(covered >= seeds.least(0.95, capacities), "{covered} of {capacities}");
}

#[test]
fn steps_of_known_height_are_found() {
    assert_curves_recovered("LRU by counting", counted, Seeds::of(2000, 30));
    assert_curves_recovered("straight ramps", straight, Seeds::of(2000, 20));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn noise_alone_is_one_tier(noise in 0.0005f64..0.08, seed: u64) {
        let reading = read(&grid(3, noise, seed, |_| 5.0), &Options::default()).unwrap();
        prop_assert_eq!(reading.tiers.len(), 1, "{:?}", reading);
    }

    #[test]
    fn slow_drift_adds_no_tiers(total in 0.02f64..0.25, noise in 0.0005f64..0.01, up: bool, seed: u64) {
        // A frequency that drifts while the sizes are measured in order, which is the worst case; plans shuffle the
        // order. Less than 2 % per octave over 16 octaves.
        let f = |x: f64| {
            let share = (x / 1024.0).log2() / 16.0;
            5.0 * (1.0 + total * if up { share } else { 1.0 - share })
        };
        let reading = read(&grid(3, noise, seed, f), &Options::default()).unwrap();
        prop_assert_eq!(reading.tiers.len(), 1, "{:?}", reading);
    }

    #[test]
    fn two_close_steps_are_separated_or_merged_with_a_note(apart in 1.15f64..1.9, ratio in 1.2f64..2.0, seed: u64) {
        let steps = [
            Step { size: 65536.0, ways: 16, beyond: 4.0 * ratio },
            Step { size: 65536.0 * apart, ways: 16, beyond: 4.0 * ratio * ratio },
        ];
        let f = |x: f64| curve_at(x, 4.0, &steps, steep);
        let reading = refined(grid(3, 0.0005, seed, f), 0.0005, seed, f);
        let reported = reading.tiers.len() == 3;
        prop_assert!(reported || (reading.tiers.len() == 2 && !reading.notes.is_empty()), "{reading:?}");
        let last = reading.tiers.last().unwrap().latency.value;
        prop_assert!((last / (4.0 * ratio * ratio) - 1.0).abs() < 0.03, "{reading:?}");
    }

    #[test]
    fn any_points_are_read_without_a_panic(
        raw in prop::collection::vec((any::<f64>(), any::<f64>(), 0.0f64..1.0), 0..30)
    ) {
        let points: Vec<Point> = raw
            .into_iter()
            .filter(|(x, y, _)| x.is_finite() && y.is_finite())
            .map(|(x, y, sigma)| Point { x: x.abs(), y: y.abs(), sigma, shared: 0.0 })
            .collect();
        let _ = read(&points, &Options::default());
    }
}

#[test]
fn segments_are_contiguous_and_end_at_the_step() {
    let long: Misses = |x, s| ((x / s.size - 1.0) / 7.0).clamp(0.0, 1.0);
    // Two plateaus and one ramp.
    let f = |x: f64| curve_at(x, 4.0, &[Step { size: 30e3, ways: 1, beyond: 60.0 }], long);
    let points = grid(2, 0.001, 5, f);
    let segments = segment::segment(&points, 0.005);
    assert_eq!(segments.first().unwrap().kind, segment::Kind::Plateau);
    assert_eq!(segments.last().unwrap().kind, segment::Kind::Plateau);
    assert!(segments.windows(2).all(|w| w[0].last + 1 == w[1].first));
    let end_of_first = points[segments[0].last].x;
    assert!((20e3..=32e3).contains(&end_of_first), "{end_of_first}");
}

/// Two TLBs of 96 and 820 pages, beyond which page tables leave the caches: no stack of two fits the slow rise.
#[test]
fn slow_rise_beyond_a_jump_hides_no_tier() {
    let steps = [
        Step { size: 96.0 * LINE, ways: 2, beyond: 8.0 },
        Step { size: 820.0 * LINE, ways: 820, beyond: 60.0 },
    ];
    let curve = |x: f64| {
        let slow = (x / (820.0 * LINE)).max(1.0).log2() / 3.3;
        curve_at(x, 4.0, &steps, counted) * (1.0 + 0.75 * slow)
    };
    let points: Vec<Point> = grid(6, 0.002, 3, curve).into_iter().filter(|p| p.x <= 8192.0 * LINE).collect();
    let options = Options { floor: 0.01, rise: 0.01, span: 1.5, ..Options::default() };
    let reading = read(&points, &options).unwrap();
    let ends: Vec<Interval> = reading.tiers.iter().filter_map(|t| Some(t.capacity?.onset)).collect();
    for (end, step) in ends.iter().zip(steps) {
        assert!(end.low <= step.size && step.size <= end.high, "{ends:?}");
    }
    assert!(ends.len() >= 2, "{reading:?}");
    let segments = segment::segment(&points, options.floor);
    let slow = segment::slow_rises(&points, &segments, options.min_ratio, 1.35);
    assert!(matches!(slow[..], [x] if (1100.0 * LINE..1500.0 * LINE).contains(&x)), "{slow:?}");
}

#[test]
fn sizes_of_caches_with_a_power_of_two_of_sets_are_round() {
    let one_percent = |value: f64| Interval { value, low: value * 0.995, high: value * 1.005 };
    for kib in [32.0, 48.0, 640.0, 1280.0, 1536.0, 2048.0, 36864.0] {
        assert!(has_round_size(&one_percent(kib * 1024.0)), "{kib}");
    }
    // 5508 sets of 4 lines, and 16028 sets of 4 lines of 32 bytes.
    for kib in [1377.0, 2003.5] {
        assert!(!has_round_size(&one_percent(kib * 1024.0)), "{kib}");
    }
}

#[test]
fn too_few_points_give_no_reading() {
    assert_eq!(read(&grid(1, 0.0, 1, |_| 1.0)[..2], &Options::default()), None);
}

#[test]
fn onsets_closer_than_a_third_are_one_end() {
    let tiers = |ratio: f64| {
        let steps = [
            Step { size: 65536.0, ways: 16, beyond: 15.0 },
            Step { size: 65536.0 * ratio, ways: 16, beyond: 60.0 },
        ];
        let points = grid(12, 0.0002, 1, |x| curve_at(x, 10.0, &steps, steep));
        read(&points, &Options::default()).unwrap().tiers.len()
    };
    assert_eq!((tiers(1.25), tiers(1.5)), (2, 3));
}

/// One point on the rise of a cache of gigabytes: any single rise explains it, and two more tiers are none.
#[test]
fn single_point_in_a_wide_gap_is_no_tier() {
    let plateau = (16..=56).map(|i| (f64::from(i) / 2.0).exp2());
    let near =
        plateau.map(|x| Point { x, y: if x <= 65536.0 { 4.0 } else { 50.0 }, sigma: 0.0005, shared: 0.0 });
    let far = [(5.6e8, 112.5), (1.2e9, 328.0), (1.4e9, 328.0), (1.6e9, 328.0), (3.2e9, 328.0)];
    let far = far.map(|(x, y)| Point { x, y, sigma: 0.0005, shared: 0.0 });
    let points: Vec<Point> = near.chain(far).collect();
    let reading = read(&points, &Options::default()).expect("a curve");
    let latencies: Vec<f64> = reading.tiers.iter().map(|tier| tier.latency.value.round()).collect();
    assert_eq!(latencies, [4.0, 50.0, 328.0]);
}

/// Returns points of a cache of 64 KiB between 4 and 40, and of one of 1 MiB below 200.
fn two_levels(xs: impl Iterator<Item = f64>) -> Vec<Point> {
    let steps =
        [Step { size: 65_536.0, ways: 8, beyond: 40.0 }, Step { size: 1_048_576.0, ways: 16, beyond: 200.0 }];
    xs.map(|x| Point { x, y: curve_at(x, 4.0, &steps, counted), sigma: 0.0005, shared: 0.0 }).collect()
}

#[test]
fn first_loads_miss_whatever_the_shape_of_the_rise() {
    // Under random replacement a fifth of 2 MiB would hit. From there on no lap was walked, so nothing hits.
    let slow = |x: f64| shape::Shape::Random(8).misses(x / 1_048_576.0);
    let y = |x: f64| if x >= 2_097_152.0 { 200.0 } else { 40.0 + 160.0 * slow(x) };
    let xs = (0..44).map(|i| 65_536.0 * 2f64.powf(f64::from(i) / 4.0));
    let points: Vec<Point> = xs.map(|x| Point { x, y: y(x), sigma: 0.0005, shared: 0.0 }).collect();
    let read_with = |first_loads: f64| read(&points, &Options { first_loads, ..Options::default() }).unwrap();
    let reading = read_with(2_097_152.0);
    let [near, _] = &reading.tiers[..] else { panic!("{:#?}", reading.tiers) };
    let found = near.capacity.unwrap();
    assert!(matches!(found.shape, shape::Shape::Random(6..=12)) && found.explained, "{found:?}");
    let walked = read_with(f64::INFINITY).tiers[0].capacity.unwrap();
    assert!(!matches!(walked.shape, shape::Shape::Random(6..=12)) || !walked.explained, "{walked:?}");
}

#[test]
fn working_set_whose_samples_differ_does_not_show_that_it_fits() {
    let xs = (0..44).map(|i| 16_384.0 * 2f64.powf(f64::from(i) / 4.0));
    let mut points = two_levels(xs);
    let risen = points.iter().position(|p| p.x > 1_100_000.0).unwrap();
    points[risen].sigma = 0.6;
    let reading = read(&points, &Options::default()).unwrap();
    let found = reading.tiers[1].capacity.unwrap();
    assert!(found.below <= 1_048_576.0 && found.onset.low <= 1_048_576.0, "{found:?}");
}

#[test]
fn small_rises_of_pairs_before_a_tlb_ends_leave_its_end_open() {
    let options = Options { floor: 0.01, rise: 0.01, span: 1.5, ..Options::default() };
    // 100 entries. From 80 pages on page tables leave a cache: 4 % of the step.
    let y = |x: f64| match x {
        101.0.. => 24.0,
        80.0.. => 4.8,
        _ => 4.0,
    };
    let xs =
        [2.0, 4.0, 8.0, 16.0, 32.0, 45.0, 64.0, 70.0, 76.0, 83.0, 90.0, 98.0, 107.0, 128.0, 181.0, 256.0];
    let points: Vec<Point> = xs.iter().map(|&x| Point { x, y: y(x), sigma: 0.001, shared: 0.0 }).collect();
    let found = read(&points, &options).unwrap().tiers[0].capacity.unwrap();
    assert!(found.onset.low <= 100.0 && found.onset.high >= 100.0, "{found:?}");
    // A rise that does not last is one of conflicts.
    let wave = |x: f64| if x == 83.0 { 8.0 } else { y(x) };
    let points: Vec<Point> = xs.iter().map(|&x| Point { x, y: wave(x), sigma: 0.001, shared: 0.0 }).collect();
    let found = read(&points, &options).unwrap().tiers[0].capacity.unwrap();
    assert!(found.onset.low <= 100.0 && found.onset.high >= 100.0, "{found:?}");
}
