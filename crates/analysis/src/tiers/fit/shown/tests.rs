//! Curves of described machines, and planted ones.

use super::*;
use crate::tiers::Options;

fn points(curve: &[(f64, f64)]) -> Vec<Point> {
    curve.iter().map(|&(x, y)| Point { x, y, sigma: 0.0005, shared: 0.0 }).collect()
}

#[test]
fn plateaus_are_told_by_their_points() {
    // Measured on a described machine: an exclusive level of 11.4 MiB behind one of 8 MiB.
    let curve = [
        (5793.0, 23.66),
        (6889.0, 23.66),
        (8192.0, 23.66),
        (8319.0, 31.47),
        (8713.0, 54.29),
        (9268.0, 82.65),
        (9742.0, 82.65),
        (10190.0, 82.65),
        (11590.0, 82.65),
        (14390.0, 102.1),
        (22190.0, 211.8),
        (65540.0, 273.64),
        (262_100.0, 273.78),
        (524_300.0, 273.96),
    ];
    let between = between_plateaus(&points(&curve), 1.25);
    let expected = [(8192.0, 9268.0), (11590.0, 65540.0)].map(|(from, to)| Between { from, to });
    assert_eq!(between, expected);
    assert_eq!(between_plateaus(&points(&curve), 4.0), []);
    let noisy: Vec<Point> = points(&curve).iter().map(|p| Point { sigma: 0.01, ..*p }).collect();
    assert_eq!(between_plateaus(&noisy, 1.25), [], "errors of 1 % show no plateau");
}

/// Measured on a described machine: behind a level of 4 MB, an exclusive one of 4 MiB, whose plateau is a sixth of an octave long; one of its
/// working sets was measured in a placement in which lines conflict.
#[test]
fn short_plateau_of_several_points_may_have_a_point_with_conflicts() {
    let steps = [(1322.0, 62.03), (1888.0, 62.03), (3527.0, 62.03), (4002.0, 62.03), (4574.0, 111.68)];
    let short = [(6085.0, 194.03), (6243.0, 194.03), (6404.0, 194.82), (6851.0, 194.13), (7500.0, 219.3)];
    let last = [(8389.0, 266.6), (9976.0, 337.7), (16777.0, 392.7), (33554.0, 392.7), (67109.0, 392.7)];
    let mut curve = points(&[&steps[..], &short, &last].concat());
    curve[7].sigma = 0.004;
    let expected = [(4002.0, 6085.0), (6851.0, 16777.0)].map(|(from, to)| Between { from, to });
    assert_eq!(between_plateaus(&curve, 1.25), expected);
    curve[7].y = 196.5;
    assert_eq!(between_plateaus(&curve, 1.25), [Between { from: 4002.0, to: 16777.0 }], "not level");
}

/// Measured on a described machine: an exclusive level of 40 KiB behind one of 6 KiB, whose rise bends at 70 KiB.
const BENT: [(f64, f64); 16] = [
    (20.12, 4.33),
    (32.0, 4.33),
    (40.31, 4.33),
    (45.88, 4.33),
    (46.56, 10.04),
    (47.94, 23.16),
    (50.75, 28.37),
    (56.94, 36.40),
    (62.62, 39.91),
    (65.88, 42.03),
    (69.75, 45.0),
    (70.75, 60.59),
    (71.81, 82.4),
    (90.5, 85.6),
    (128.0, 85.6),
    (256.0, 85.6),
];

#[test]
fn bends_within_an_octave_are_one_rise_unless_a_plateau_is_between() {
    let boundaries = [46.0, 69.0].map(|onset| Boundary { onset, shape: Shape::Lru(8) });
    let joined = |curve: &[(f64, f64)], options: &Options| {
        let points = points(curve);
        Search::new(&points, options).joined(&boundaries).map(|rest| rest.len())
    };
    assert_eq!(joined(&BENT, &Options::default()), Some(1));
    assert_eq!(joined(&BENT, &Options { share: 0.04, ..Options::default() }), None, "others bend rises");
    let level = BENT.map(|(x, y)| (x, if (50.0..70.0).contains(&x) { 40.0 } else { y }));
    assert_eq!(joined(&level, &Options::default()), None);
}

/// Measured on a described machine: beyond a hashed level of 2560 KiB some working sets overfill more sets than larger ones.
const FALLING: [(f64, f64); 16] = [
    (512.0, 24.0),
    (1024.0, 24.0),
    (2048.0, 24.0),
    (2540.0, 24.0),
    (2568.0, 39.33),
    (2597.0, 84.99),
    (2654.0, 170.97),
    (2896.0, 165.67),
    (2919.0, 182.93),
    (3247.0, 120.27),
    (3277.0, 130.02),
    (3678.0, 169.27),
    (4128.0, 247.1),
    (4634.0, 409.16),
    (8192.0, 409.45),
    (16384.0, 409.45),
];

#[test]
fn times_that_fall_between_near_capacities_are_no_plateau() {
    let boundaries = [2550.0, 4000.0].map(|onset| Boundary { onset, shape: Shape::Lru(8) });
    let search = |curve: &[(f64, f64)]| {
        let points = points(curve);
        Search::new(&points, &Options::default()).without_dips(&boundaries).map(|rest| rest.len())
    };
    assert_eq!(search(&FALLING), Some(1));
    let level = FALLING.map(|(x, y)| (x, if (2600.0..4000.0).contains(&x) { 170.0 } else { y }));
    assert_eq!(search(&level), None);
    let far = FALLING.map(|(x, y)| (if x > 4000.0 { 2.0 * x } else { x }, y));
    let boundaries = [2550.0, 8000.0].map(|onset| Boundary { onset, shape: Shape::Lru(8) });
    let points = points(&far);
    assert_eq!(Search::new(&points, &Options::default()).without_dips(&boundaries), None);
}

#[test]
fn plateaus_that_no_boundary_separates_get_one() {
    let curve =
        [(1.0, 4.0), (1.3, 4.0), (2.0, 4.0), (3.0, 9.0), (4.0, 9.0), (6.0, 9.0), (8.0, 9.0), (8.3, 30.0)];
    let end = [(9.0, 90.0), (12.0, 90.0), (16.0, 90.0), (32.0, 90.0)];
    let points = points(&[&curve[..], &end].concat());
    let search = Search::new(&points, &Options::default());
    let first = [Boundary { onset: 2.0, shape: Shape::Lru(8) }];
    let chi = search.solve(&search.columns(&first)).0;
    assert_eq!(search.missing(&first), 1);
    let (more, better) = search.separated(&first, chi, 1.25).expect("one more");
    assert!(more.len() == 2 && (7.8..9.0).contains(&more[1].onset) && better < chi, "{more:?}");
    assert!(search.separated(&more, better, 1.25).is_none());
}

/// Measured on a described machine, KiB and ns: an exclusive level of 4 KiB in few lines, whose rise no shape explains, before one of 48 KiB that
/// replaces at random and one of 490 KiB.
const UNUSUAL: [(f64, f64); 69] = [
    (4.000, 4.67),
    (5.000, 4.67),
    (6.312, 4.68),
    (8.000, 4.67),
    (8.062, 4.73),
    (8.125, 4.81),
    (8.250, 4.95),
    (8.375, 5.09),
    (8.500, 5.21),
    (9.000, 5.69),
    (9.500, 6.12),
    (10.062, 6.57),
    (10.375, 6.79),
    (11.250, 7.33),
    (11.938, 7.71),
    (12.000, 7.75),
    (12.125, 9.88),
    (12.188, 9.91),
    (12.312, 10.93),
    (12.688, 11.90),
    (14.188, 14.62),
    (16.000, 16.22),
    (17.938, 17.89),
    (20.125, 19.63),
    (22.562, 21.48),
    (25.375, 22.33),
    (28.438, 22.36),
    (32.000, 23.04),
    (35.875, 23.09),
    (40.312, 23.05),
    (45.188, 23.14),
    (50.750, 25.44),
    (51.500, 26.02),
    (53.000, 27.38),
    (53.750, 27.82),
    (57.000, 30.12),
    (60.375, 31.88),
    (64.000, 33.79),
    (71.812, 36.61),
    (80.625, 38.77),
    (90.438, 40.53),
    (101.562, 41.55),
    (114.000, 42.72),
    (128.000, 43.32),
    (143.625, 43.59),
    (161.250, 43.96),
    (180.938, 44.48),
    (203.125, 44.49),
    (228.000, 44.54),
    (256.000, 44.67),
    (322.500, 44.70),
    (406.312, 44.70),
    (430.500, 44.70),
    (456.125, 44.70),
    (483.250, 44.70),
    (490.312, 44.70),
    (493.875, 45.75),
    (495.625, 46.60),
    (498.500, 47.48),
    (505.000, 50.72),
    (511.625, 52.88),
    (512.000, 53.40),
    (645.062, 105.64),
    (812.688, 111.74),
    (1024.000, 113.83),
    (1290.125, 115.82),
    (1625.438, 115.99),
    (2048.000, 115.92),
    (2896.250, 115.91),
];

#[test]
fn boundary_that_alone_separates_two_plateaus_stays_between_them() {
    let points = points(&UNUSUAL);
    let fit = super::super::Fit::new(&points, &[8.0, 12.0, 28.44, 45.19, 490.3], &Options::default());
    let onsets: Vec<f64> = fit.boundaries.iter().map(|b| b.onset).collect();
    assert!(onsets.iter().any(|onset| (40.0..60.0).contains(onset)), "{onsets:?}");
}

#[test]
fn error_that_points_share_hides_no_plateau() {
    let level = |from: f64, y: f64| (0..5).map(move |i| (from * 1.06f64.powi(i), y));
    let curve: Vec<(f64, f64)> = level(1.0, 4.0).chain(level(2.0, 8.0)).collect();
    let with = |sigma, shared| -> Vec<Point> {
        points(&curve).into_iter().map(|p| Point { sigma, shared, ..p }).collect()
    };
    assert_eq!(between_plateaus(&with(0.03, 0.03), 1.25).len(), 1);
    assert_eq!(between_plateaus(&with(0.03, 0.0), 1.25).len(), 0);
}

/// Pairs of a described machine (wide generator, seed 571176): TLBs of 32 and 252 entries, and pairs between that conflict in a cache.
const PAIRS: [(f64, f64); 24] = [
    (8.0, 5.32),
    (11.0, 5.32),
    (16.0, 5.33),
    (22.0, 5.3),
    (32.0, 5.32),
    (33.0, 6.29),
    (34.0, 7.18),
    (35.0, 8.11),
    (38.0, 10.48),
    (41.0, 11.85),
    (45.0, 11.86),
    (52.0, 11.81),
    (64.0, 11.81),
    (90.0, 11.85),
    (128.0, 11.87),
    (140.0, 20.27),
    (152.0, 24.16),
    (166.0, 27.78),
    (181.0, 28.63),
    (256.0, 175.3),
    (298.0, 175.25),
    (362.0, 175.27),
    (512.0, 175.28),
    (1024.0, 175.27),
];

#[test]
fn plateaus_of_pairs_have_a_capacity_of_their_own() {
    let between = between_pairs(&points(&PAIRS), 1.25);
    assert_eq!(between, [(32.0, 41.0), (128.0, 256.0)].map(|(from, to)| Between { from, to }));
    let options = Options { floor: 0.01, rise: 0.01, span: 1.5, ..Options::default() };
    let tiers = crate::tiers::read(&points(&PAIRS), &options).unwrap().tiers;
    let ends = tiers.iter().filter_map(|tier| Some(tier.capacity?.onset.value.round()));
    let found: Vec<f64> = ends.collect();
    assert!(found[0] == 32.0 && (128.0..=256.0).contains(&found[1]), "{found:?}");
    assert_eq!(between_pairs(&points(&[&PAIRS[..9], &PAIRS[19..]].concat()), 1.25).len(), 1);
}
