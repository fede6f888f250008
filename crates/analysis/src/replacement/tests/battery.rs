//! The programs of the battery: their number, their order, and the policies that they distinguish.

use super::*;
use crate::seeds::full;

#[test]
fn battery_is_small_and_begins_with_calibration_programs() {
    for ways in 1..=20 {
        for (visits, evictors) in VISITS.iter().flat_map(|v| [(*v, false), (*v, true)]) {
            let evictors = evictors.then_some(Evictors { ways: 8, random: visits == 4 });
            let programs = programs(ways, visits, evictors);
            assert!(programs.len() <= 60, "{ways} {visits}: {}", programs.len());
            for program in &programs {
                assert!(program.visits() <= visits && program.queries() > 0, "{program}");
                assert!(program.accesses.len() <= 512, "{program}");
                assert!(program.blocks().0 <= 4 * ways.max(6), "{program}");
                assert!(evictors.is_none() || program.blocks().1 >= 16);
            }
            if evictors.is_none() {
                for policy in Policy::ALL {
                    let miss = |i: usize| predict(*policy, ways, &programs[i], None);
                    let (fits, last, never) = (miss(0), miss(1), miss(2));
                    assert!(fits.steady && last.steady && never.steady);
                    assert!(fits.miss.iter().chain(&last.miss).all(|m| *m == 0.0), "{ways} {policy}");
                    assert!(never.miss.iter().all(|m| *m > 0.93), "{ways} {policy} {never:?}");
                }
            }
        }
    }
}

#[test]
fn timed_positions_are_ends_middle_and_neighbours() {
    for ways in [8, 20] {
        let h = ways / 2;
        for position in [0, 1, h - 1, h, h + 1, ways - 2, ways - 1] {
            let last = 3 * ways;
            let expected =
                format!("A-{} {}?", Block::Tested(last as u16), Block::Tested((2 * ways + position) as u16));
            assert!(programs(ways, 2, None).iter().any(|p| p.to_string() == expected), "{expected}");
        }
    }
}

/// Returns the separation of two predictions of a battery: twice the expected log-likelihood ratio of 200 laps, with 3
/// % of errors and an overdispersion that halves the effective number of laps.
fn separation(a: &[Prediction], b: &[Prediction]) -> f64 {
    let reported = |p: f64| p * 0.97 + (1.0 - p) * 0.03;
    let steady = a.iter().zip(b).filter(|(a, b)| a.steady && b.steady);
    let queries = steady.flat_map(|(a, b)| a.miss.iter().zip(&b.miss));
    queries
        .map(|(p, q)| {
            let (p, q) = (reported(*p), reported(*q));
            200.0 * (p * (p / q).ln() + (1.0 - p) * ((1.0 - p) / (1.0 - q)).ln())
        })
        .sum()
}

#[test]
fn battery_separates_all_distinguishable_policies() {
    // The default tier leaves out most of the larger ones, which take longest.
    for ways in (1..=20).filter(|ways| full() || [1, 2, 3, 4, 6, 8, 13].contains(ways)) {
        for visits in VISITS {
            let programs = programs(ways, visits, None);
            let of = |p: &Policy| programs.iter().map(|program| predict(*p, ways, program, None)).collect();
            let predicted: Vec<Vec<Prediction>> = Policy::ALL.iter().map(of).collect();
            let groups = indistinguishable(ways, visits);
            assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), Policy::ALL.len());
            for (i, a) in Policy::ALL.iter().enumerate() {
                for (j, b) in Policy::ALL.iter().enumerate().filter(|(j, _)| *j != i) {
                    let together = groups.iter().any(|g| g.contains(a) && g.contains(b));
                    let separation = separation(&predicted[i], &predicted[j]);
                    // A likelihood ratio of a thousand corresponds to 14; twice that leaves margin for noise.
                    let reported = if together { separation < 1e-3 } else { separation > 28.0 };
                    assert!(reported, "{ways} ways, {visits} visits, {a} and {b}: {separation}");
                }
            }
        }
    }
}

#[test]
fn random_programs_do_not_separate_equivalent_policies() {
    let mut rng = Rng::new(7);
    for ways in [1, 2] {
        let group = indistinguishable(ways, 8).remove(0);
        for _ in 0..300 {
            let blocks = 1 + rng.below(7);
            let accesses = (0..2 + rng.below(20))
                .map(|_| Access { block: Block::Tested(rng.below(blocks) as u16), timed: true })
                .collect();
            let program = Program { accesses };
            let first = predict(group[0], ways, &program, None).miss;
            for policy in &group[1..] {
                let other = predict(*policy, ways, &program, None).miss;
                let same = first.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-9);
                assert!(same, "{ways} ways, {policy}: {program}");
            }
        }
    }
}

#[test]
fn steady_predictions_hold_from_any_start() {
    for ways in [4, 7, 8, 20] {
        for program in programs(ways, 4, None) {
            for policy in Policy::ALL.iter().filter(|p| !p.is_random()) {
                let predicted = predict(*policy, ways, &program, None);
                if !predicted.steady {
                    continue;
                }
                for seed in 100..104 {
                    // 192 laps are whole cycles for most cycle lengths; for the longest the mean is within a fifth.
                    let seen =
                        observe(&mut KnownPolicy::start(*policy, ways, seed), &program, None, 192, 0.0, seed);
                    for (k, p) in seen.missed.iter().zip(&predicted.miss) {
                        assert!((f64::from(*k) / 192.0 - p).abs() < 0.2, "{ways} {policy} {program}");
                    }
                }
            }
        }
    }
    // Nine lines in turn in eight ways: FIFO keeps any initial order.
    let cycle: Program = "A? B? C? D? E? F? G? H? I?".parse().unwrap();
    assert!(!predict(Policy::Fifo, 8, &cycle, None).steady);
    assert!(predict(Policy::Lru, 8, &cycle, None).steady);
}
