use super::*;

const MIB: u64 = 1 << 20;

#[test]
fn placements_are_inside_aligned_and_stable() {
    for page in [4096, 16 << 10, 64 << 10, 2 * MIB, 32 * MIB, 512 * MIB] {
        for bytes in [page, 3 * page, 7 * page] {
            for half in [bytes, bytes + page, bytes + 1, 4096 * MIB] {
                for seed in 0..40 {
                    let at = place(bytes, page, half, seed).expect("it fits");
                    assert_eq!(at.end - at.start, bytes);
                    assert!(at.end <= half && at.start.is_multiple_of(page));
                    assert_eq!(place(bytes, page, half, seed), Some(at));
                }
            }
        }
    }
    assert_eq!(place(8192, 4096, 4096, 0), None);
    assert_eq!(place(!4095, 4096, 4096, 0), None);
}

#[test]
fn places_spread_over_the_window_and_smtwo_sets_are_nested() {
    let starts: Vec<u64> =
        (0..64).filter_map(|seed| place(8192, 4096, 4096 * MIB, seed)).map(|r| r.start).collect();
    assert!(starts.iter().any(|s| *s < 12 * MIB) && starts.iter().any(|s| *s > 36 * MIB));
    for seed in 0..64 {
        let start = |bytes| place(bytes, 4096, 4096 * MIB, seed).map(|r| r.start);
        assert_eq!(start(4096), start(64 * MIB), "one place, one start, for all small sizes");
    }
}

#[test]
fn widening_stays_within_its_limit() {
    assert_eq!(widen(&(5000..6000), 4096, 1 << 20), 4096..8192);
    assert_eq!(widen(&(5000..6000), 4096, 7000), 4096..7000);
    assert_eq!(widen(&(5000..u64::MAX), 4096, u64::MAX), 4096..u64::MAX);
}

#[test]
fn removing_an_empty_range_changes_nothing() {
    let mut ranges = Ranges::default();
    ranges.insert(5..50);
    ranges.remove(&(11..11));
    assert!(ranges.contains(&(5..50)));
}

proptest::proptest! {
    #![proptest_config(crate::cases::fixed())]

    /// Compares the ranges with a set of bits.
    #[test]
    fn ranges_agree_with_a_naive_set(steps in proptest::collection::vec((0u64..64, 0u64..16, proptest::bool::ANY), 1..40)) {
        let mut ranges = Ranges::default();
        let mut naive = [false; 96];
        for (start, length, insert) in steps {
            let range = start..start + length;
            if insert { ranges.insert(range.clone()) } else { ranges.remove(&range) }
            naive[start as usize..(start + length) as usize].fill(insert);
            proptest::prop_assert_eq!(ranges.total(), naive.iter().filter(|b| **b).count() as u64);
            let probe = 10..50u64;
            let missing: u64 = ranges.missing(&probe).iter().map(|r| r.end - r.start).sum();
            proptest::prop_assert_eq!(missing, naive[10..50].iter().filter(|b| !**b).count() as u64);
            proptest::prop_assert_eq!(ranges.total_in(&probe), 40 - missing);
            proptest::prop_assert_eq!(ranges.contains(&probe), missing == 0);
            let outside: u64 = ranges.outside(&probe).iter().map(|r| r.end - r.start).sum();
            proptest::prop_assert_eq!(outside, ranges.total() - (40 - missing));
            for r in ranges.missing(&probe) {
                proptest::prop_assert!(naive[r.start as usize..r.end as usize].iter().all(|b| !b));
            }
        }
    }
}
