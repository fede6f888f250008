//! Tests with known geometries and the conflicts that they cause.

use super::*;
use crate::seeds::Seeds;
use proptest::prelude::*;

/// Returns the offset of every cell.
fn offsets(c: &Conflict) -> Vec<u64> {
    (0..c.groups).flat_map(|q| (0..c.group).map(move |r| q * c.period + r * c.stride)).collect()
}

/// Returns the share of misses of a cycle of loads in a cache with LRU sets or with random replacement.
fn share(conflict: &Conflict, geometry: Geometry, random: bool) -> f64 {
    let mut sets: Vec<Vec<u64>> = vec![Vec::new(); (geometry.way_bytes / MIN_SEPARATION) as usize];
    let mut seed = 88_172_645_463_325_252u64;
    let (mut misses, mut loads) = (0, 0);
    for lap in 0..if random { 400 } else { 3 } {
        for offset in offsets(conflict) {
            let set = &mut sets[(offset % geometry.way_bytes / MIN_SEPARATION) as usize];
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let hit = set.iter().position(|&held| held == offset);
            if lap > 1 {
                loads += 1;
                misses += u64::from(hit.is_none());
            }
            match hit {
                Some(at) if !random => {
                    let held = set.remove(at);
                    set.push(held);
                }
                Some(_) => {}
                None => {
                    if set.len() as u64 == geometry.ways {
                        set.remove(if random { (seed % geometry.ways) as usize } else { 0 });
                    }
                    set.push(offset);
                }
            }
        }
    }
    misses as f64 / loads as f64
}

/// Returns the arrangements of a scan: the relevant numbers of groups at each period.
fn scan(capacity: u64) -> Vec<Conflict> {
    let mut all = Vec::new();
    for odd in ODD_FACTORS {
        let mut period = odd * 512;
        while period <= 2 * capacity {
            if period * 64 >= capacity {
                let one = |groups| Conflict {
                    groups,
                    group: 1,
                    stride: MIN_SEPARATION,
                    period,
                    share: 0.0,
                    error: 0.005,
                };
                all.extend((1..=24).chain([28, 32, 33, 40, 48, 64, 65]).map(one));
            }
            period *= 2;
        }
    }
    all
}

fn measured(geometry: Geometry, random: bool) -> Vec<Conflict> {
    let capacity = geometry.bytes();
    scan(capacity).into_iter().map(|c| Conflict { share: share(&c, geometry, random), ..c }).collect()
}

fn constraints(capacity: u64) -> SetConstraints {
    let capacity = (capacity as f64, 0.1 * capacity as f64);
    SetConstraints { grain: MIN_SEPARATION, capacity, full: None, nearer: None }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(Seeds::of(48, 16).count as u32))]
    #[test]
    fn powers_of_two_of_sets_are_inferred(ways in 1u64..=20, sets in 3u32..8, random: bool) {
        let geometry = Geometry { ways, way_bytes: MIN_SEPARATION << sets };
        let read = read(&measured(geometry, random), &constraints(geometry.bytes()));
        prop_assert_eq!(read, Verdict::One(geometry));
    }

    #[test]
    fn random_conflicts_do_not_panic(
        shares in prop::collection::vec((0u64..80, 0u64..9, any::<u32>(), any::<u32>(), any::<f64>(), any::<f64>()), 0..40),
        capacity in any::<f64>(),
    ) {
        let conflicts: Vec<Conflict> = shares
            .into_iter()
            .map(|(groups, group, step, period, share, error)| Conflict {
                groups, group, stride: step.into(), period: period.into(), share, error,
            })
            .collect();
        let _ = read(&conflicts, &SetConstraints { grain: MIN_SEPARATION, capacity: (capacity, 0.1), full: None, nearer: None });
    }
}

#[test]
fn odd_multiple_of_sets_is_separated_from_more_ways() {
    let geometry = Geometry { ways: 4, way_bytes: 3 * 2048 };
    assert_eq!(read(&measured(geometry, false), &constraints(geometry.bytes())), Verdict::One(geometry));
    // Without odd periods, sixteen sets of twelve ways conflict in the same way at every power of two.
    let mut even = measured(geometry, false);
    even.retain(|c| c.period.is_power_of_two());
    let Verdict::Several(left) = read(&even, &constraints(geometry.bytes())) else { panic!() };
    assert!(left.contains(&geometry) && left.contains(&Geometry { ways: 12, way_bytes: 2048 }), "{left:?}");
}

#[test]
fn scan_without_conflicts_has_no_modulo() {
    let quiet: Vec<Conflict> = scan(1 << 20).into_iter().map(|c| Conflict { share: 0.001, ..c }).collect();
    assert_eq!(read(&quiet, &constraints(1 << 20)), Verdict::NoModulo);
}

#[test]
fn contradicting_conflicts_give_no_geometry() {
    let mut odd = measured(Geometry { ways: 8, way_bytes: 4096 }, false);
    odd.iter_mut().filter(|c| c.groups % 3 == 0).for_each(|c| c.share = 1.0 - c.share.min(1.0));
    assert_eq!(read(&odd, &constraints(32 << 10)), Verdict::None);
    assert_eq!(read(&[], &constraints(32 << 10)), Verdict::Insufficient);
    // A capacity far beyond all conflicts.
    assert_eq!(read(&scan(1 << 10), &constraints(1 << 30)), Verdict::Insufficient);
}

#[test]
fn large_errors_give_insufficient_evidence() {
    let mut loud = measured(Geometry { ways: 8, way_bytes: 4096 }, false);
    loud.iter_mut().for_each(|c| c.error = 0.6);
    assert_eq!(read(&loud, &constraints(32 << 10)), Verdict::Insufficient);
}

/// Lines left in a nearer level serve a part of the misses: with two fifths of the fewest possible misses the geometry
/// is still found, with a quarter the conflicts contradict it.
#[test]
fn two_fifths_of_the_predicted_misses_are_enough() {
    let geometry = Geometry { ways: 8, way_bytes: 4096 };
    let found = |seen: f64| {
        let mut counter = Counter::new(geometry.way_bytes, MIN_SEPARATION);
        let mut conflicts = scan(geometry.bytes());
        for c in &mut conflicts {
            if let Predicted::Misses(share) = predict(&counter.counts(c), geometry.ways, None) {
                c.share = seen * share;
            }
        }
        read(&conflicts, &constraints(geometry.bytes()))
    };
    assert_eq!(found(0.4), Verdict::One(geometry));
    assert_ne!(found(0.25), Verdict::One(geometry));
}

#[test]
fn only_misses_of_the_nearer_cache_give_evidence() {
    let nearer = Geometry { ways: 12, way_bytes: 4096 };
    let geometry = Geometry { ways: 8, way_bytes: 65536 };
    let both = |c: &Conflict| {
        // Full LRU sets: accesses that hit the nearer cache never reach this one.
        let most = Counter::new(nearer.way_bytes, MIN_SEPARATION).counts(c).last().unwrap().cells;
        if most <= nearer.ways { 0.0 } else { share(c, geometry, false) }
    };
    let mut conflicts = Vec::new();
    for period in [8192, 16384, 32768, 65536, 131_072, 262_144, 3 * 65536, 5 * 65536] {
        let group = period / 2 / nearer.way_bytes;
        for groups in 1..=24 {
            let c = Conflict { groups, group, stride: nearer.way_bytes, period, share: 0.0, error: 0.005 };
            conflicts.push(Conflict { share: both(&c), ..c });
        }
    }
    let constraints = SetConstraints { nearer: Some(nearer), ..constraints(geometry.bytes()) };
    assert_eq!(read(&conflicts, &constraints), Verdict::One(geometry));
}

/// Returns the cells of every set that has some, ascending, counted one by one.
fn cells_of_sets(c: &Conflict, way_bytes: u64) -> Vec<u64> {
    let mut sets: Vec<u64> = offsets(c).iter().map(|at| at % way_bytes / MIN_SEPARATION).collect();
    sets.sort_unstable();
    let mut cells: Vec<u64> = sets.chunk_by(|a, b| a == b).map(|one| one.len() as u64).collect();
    cells.sort_unstable();
    cells
}

/// Returns the same of counts.
fn cells_of(counts: &[Filled]) -> Vec<u64> {
    counts.iter().flat_map(|f| (0..f.sets).map(|_| f.cells)).collect()
}

#[test]
fn closed_form_counts_equal_counted_cells() {
    let mut checked = 0;
    for odd in ODD_FACTORS {
        for power in 0..8 {
            let way_bytes = (odd * MIN_SEPARATION) << power;
            let counter = Counter::new(way_bytes, MIN_SEPARATION);
            for (groups, period) in (1..40).flat_map(|groups| (0..70).map(move |lines| (groups, lines * 64)))
            {
                let c = Conflict { groups, group: 1, stride: 64, period, share: 0.0, error: 0.0 };
                let found = counter.regular_counts(&c).expect("single cells at whole lines");
                assert_eq!(cells_of(&found), cells_of_sets(&c, way_bytes), "{c:?} in ways of {way_bytes}");
                checked += 1;
            }
        }
    }
    assert!(checked > 100_000);
    let pairs = Conflict { groups: 3, group: 2, stride: 64, period: 4096, share: 0.0, error: 0.0 };
    let counter = Counter::new(4096, MIN_SEPARATION);
    assert_eq!(counter.regular_counts(&pairs), None);
    assert_eq!(counter.regular_counts(&Conflict { group: 1, period: 96, ..pairs }), None);
}

/// Arrangements without a closed form are counted one by one, with a table and by sorting; a counter keeps what it
/// counted if the next arrangement only adds groups.
#[test]
fn counts_are_independent_of_the_arrangements_before() {
    let of = |group, period| {
        [1, 2, 2, 9, 50, 8].map(|groups| Conflict {
            groups,
            group,
            stride: 4096 + 64,
            period,
            share: 0.0,
            error: 0.0,
        })
    };
    let all = [of(7, 40960), of(6, 40960), of(7, 40960), of(7, 3 * 4096), of(1, 96)].concat();
    for way_bytes in [4096, 3 * 4096, 1 << 25] {
        let mut counter = Counter::new(way_bytes, MIN_SEPARATION);
        for c in &all {
            assert_eq!(
                cells_of(&counter.counts(c)),
                cells_of_sets(c, way_bytes),
                "{c:?} in ways of {way_bytes}"
            );
        }
    }
}

#[test]
fn exact_machine_has_no_geometry_that_is_not_full_at_the_capacity() {
    let nearer = Some(Geometry { ways: 8, way_bytes: 1 << 10 });
    let constraints = SetConstraints { full: Some((47e3, 50e3)), nearer, ..constraints(48_640) };
    let full = |ways, way_bytes| constraints.is_full(Geometry { ways, way_bytes });
    assert!(full(5, 9728) && full(10, 4 << 10), "inclusive, and exclusive with the nearer 8 KiB");
    assert!(!full(29, 1536), "neither 43.5 KiB nor 51.5 KiB");
    assert!(!full(17, 3 << 10), "51 KiB are not full at 48.6 KiB");
    assert!(full(11, 4 << 10), "an exclusive cache with a power of two of sets, full in between");
}

/// As many lines as ways fit, and one more misses: each contradicts another number of ways, however many other conflicts agree.
#[test]
fn one_conflict_contradicts_another_number_of_ways() {
    let of = |groups: u64, share: f64| Conflict {
        groups,
        group: 1,
        stride: MIN_SEPARATION,
        period: 4096,
        share,
        error: 0.005,
    };
    let constraints =
        SetConstraints { grain: MIN_SEPARATION, capacity: (32768.0, 4096.0), full: None, nearer: None };
    let ways = |ways: u64| Geometry { ways, way_bytes: 4096 };
    assert_eq!(contradicts(&of(8, 0.0), ways(8), &constraints), Some(false));
    assert_eq!(contradicts(&of(9, 1.0), ways(8), &constraints), Some(false));
    assert_eq!(contradicts(&of(8, 0.0), ways(7), &constraints), Some(true));
    assert_eq!(contradicts(&of(9, 1.0), ways(9), &constraints), Some(true));
    // Beyond a nearer cache of as many ways in one set, random replacement hides what misses.
    let nearer = SetConstraints { nearer: Some(ways(8)), ..constraints };
    assert_eq!(contradicts(&of(9, 0.0), ways(8), &nearer), None);
}
