//! Replacement, one set at a time.

use super::*;
use crate::rng::Use;

/// Misses a round, after warming, of `lines` lines cycling in one set of `ways`.
fn misses_a_round(policy: Replacement, ways: u32, lines: u32) -> f64 {
    let mut cache = Cache::new(1, ways, policy, Rng::new(7, Use::Level, 0));
    let round = |cache: &mut Cache| {
        for line in 0..lines {
            if !cache.touch(line) {
                cache.fill(line, 0);
            }
        }
    };
    for _ in 0..100 {
        round(&mut cache);
    }
    let before = cache.refills;
    for _ in 0..20_000 {
        round(&mut cache);
    }
    (cache.refills - before) as f64 / 20_000.0
}

#[test]
fn one_line_too_many_costs_what_the_policies_are_known_for() {
    for policy in [Replacement::Lru, Replacement::Fifo, Replacement::TreePlru, Replacement::Nru] {
        assert_eq!(misses_a_round(policy, 8, 8), 0.0, "{policy:?}");
    }
    for policy in [Replacement::Lru, Replacement::Fifo, Replacement::TreePlru, Replacement::Nru] {
        assert_eq!(misses_a_round(policy, 8, 9), 9.0, "{policy:?}");
    }
    let random = misses_a_round(Replacement::Random, 8, 9);
    assert!((random - 2.0).abs() < 0.05, "{random}");
}

#[test]
fn every_policy_works_with_any_number_of_ways() {
    for ways in 1..=64 {
        for policy in Replacement::ALL {
            assert_eq!(misses_a_round_short(*policy, ways), 0, "{policy:?} {ways}");
        }
    }
}

/// Refills in a round over as many lines as there are ways, once they are in.
fn misses_a_round_short(policy: Replacement, ways: u32) -> u64 {
    let mut cache = Cache::new(1, ways, policy, Rng::new(7, Use::Level, 0));
    for _ in 0..3 {
        for line in 0..ways {
            if !cache.touch(line) {
                cache.fill(line, 0);
            }
        }
    }
    cache.refills - u64::from(ways)
}

#[test]
fn a_free_way_is_taken_before_any_victim() {
    for policy in Replacement::ALL {
        let mut cache = Cache::new(1, 5, *policy, Rng::new(3, Use::Level, 0));
        for line in 0..5 {
            assert_eq!(cache.fill(line, 0), None);
        }
        assert_eq!(cache.remove(2), Some(0), "{policy:?}");
        assert_eq!(cache.fill(9, DIRTY), None, "{policy:?}");
        assert!(cache.fill(10, 0).is_some(), "{policy:?}");
        assert_eq!(cache.refills, 7);
    }
}

#[test]
fn a_tree_of_three_ways_never_points_into_the_void() {
    let mut word = 0;
    for step in 0..1000usize {
        let victim = tree_victim(word, 3);
        assert!(victim < 3);
        word = tree_use(word, 3, if step % 7 == 0 { step % 3 } else { victim });
    }
}

#[test]
fn a_dirty_victim_is_counted_and_carries_its_flag() {
    let mut cache = Cache::new(1, 1, Replacement::Lru, Rng::new(3, Use::Level, 0));
    cache.fill(1, 0);
    cache.mark(1, DIRTY);
    assert_eq!(cache.fill(2, 0), Some(Evicted { number: 1, flags: DIRTY }));
    assert_eq!(cache.writebacks, 1);
    assert_eq!(cache.fill(3, 0), Some(Evicted { number: 2, flags: 0 }));
    assert_eq!(cache.writebacks, 1);
}

#[test]
fn ages_in_nibbles_are_ages_in_a_list() {
    for ways in 1..=16usize {
        let mut word = 0xfedc_ba98_7654_3210u64;
        let mut list: Vec<u64> = (0..ways as u64).collect();
        let mut rng = Rng::new(ways as u64, Use::Level, 9);
        for _ in 0..500 {
            let way = rng.below(ways as u64);
            list.retain(|&w| w != way);
            if rng.below(3) == 0 {
                list.push(way);
                word = eldest(word, way, ways);
            } else {
                list.insert(0, way);
                word = youngest(word, way);
            }
            let ages: Vec<u64> = (0..ways).map(|age| word >> (4 * age) & 15).collect();
            assert_eq!(ages, list, "{ways} ways");
        }
    }
}

#[test]
fn ages_kept_in_words_and_in_the_order_of_entries_are_the_same() {
    // 16 and 17 ways are kept differently; with a line that never leaves they must act alike.
    for policy in [Replacement::Lru, Replacement::Fifo] {
        for ways in [15, 16, 17, 18, 40] {
            assert_eq!(misses_a_round(policy, ways, ways), 0.0, "{policy:?} {ways}");
            assert_eq!(misses_a_round(policy, ways, ways + 1), f64::from(ways + 1), "{policy:?} {ways}");
        }
    }
}
