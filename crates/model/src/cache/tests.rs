//! Tests of replacement policies on one set.

use super::replacement_state::{make_oldest, make_youngest, tree_use, tree_victim};
use super::*;
use crate::rng::Use;

/// Returns the misses per round of `lines` lines that are loaded cyclically in one set of `ways`, after warm-up.
fn misses_per_round(policy: Replacement, ways: u32, lines: u32) -> f64 {
    let mut cache = Cache::new(1, ways, policy, Index::Bits, Rng::new(7, Use::Level, 0));
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
    for _ in 0..100_000 {
        round(&mut cache);
    }
    (cache.refills - before) as f64 / 100_000.0
}

/// Misses per round of nine lines that are loaded cyclically in eight ways, from a prototype that shares no code with
/// this one, and the tolerance: for policies without randomness, the rounding to two decimals.
const NINE_IN_EIGHT: &[(Replacement, f64, f64)] = &[
    (Replacement::Lru, 9.0, 0.0),
    (Replacement::Fifo, 9.0, 0.0),
    (Replacement::TreePlru, 9.0, 0.0),
    (Replacement::Nru, 9.0, 0.0),
    (Replacement::Srrip, 9.0, 0.0),
    (Replacement::BitPlru, 5.14, 0.005),
    (Replacement::Qlru, 4.09, 0.005),
    (Replacement::NruRandom, 3.06, 0.02),
    (Replacement::NotMruRandom, 2.25, 0.02),
    (Replacement::Random, 2.0, 0.02),
];

#[test]
fn one_line_too_many_misses_as_published() {
    assert_eq!(NINE_IN_EIGHT.len(), Replacement::ALL.len());
    for &(policy, expected, within) in NINE_IN_EIGHT {
        assert_eq!(misses_per_round(policy, 8, 8), 0.0, "{policy:?}");
        let measured = misses_per_round(policy, 8, 9);
        println!("{policy:?} {measured}");
        assert!((measured - expected).abs() <= within, "{policy:?}: {measured}");
    }
}

#[test]
fn every_policy_works_with_any_number_of_ways() {
    for ways in 1..=64 {
        for policy in Replacement::ALL {
            assert_eq!(misses_per_round_short(*policy, ways), 0, "{policy:?} {ways}");
        }
    }
}

/// Returns the refills of a round over as many lines as there are ways, after they have been filled.
fn misses_per_round_short(policy: Replacement, ways: u32) -> u64 {
    let mut cache = Cache::new(1, ways, policy, Index::Bits, Rng::new(7, Use::Level, 0));
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
        let mut cache = Cache::new(1, 5, *policy, Index::Bits, Rng::new(3, Use::Level, 0));
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
fn tree_plru_of_three_ways_selects_only_existing_ways() {
    let mut word = 0;
    for step in 0..1000usize {
        let victim = tree_victim(word, 3);
        assert!(victim < 3);
        word = tree_use(word, 3, if step % 7 == 0 { step % 3 } else { victim });
    }
}

#[test]
fn a_dirty_victim_is_counted_and_carries_its_flag() {
    let mut cache = Cache::new(1, 1, Replacement::Lru, Index::Bits, Rng::new(3, Use::Level, 0));
    cache.fill(1, 0);
    cache.mark(1, DIRTY);
    assert_eq!(cache.fill(2, 0), Some(Evicted { number: 1, flags: DIRTY }));
    assert_eq!(cache.writebacks, 1);
    assert_eq!(cache.fill(3, 0), Some(Evicted { number: 2, flags: 0 }));
    assert_eq!(cache.writebacks, 1);
}

#[test]
fn packed_ages_and_listed_ages_behave_the_same() {
    for ways in 1..=16usize {
        let mut word = 0xfedc_ba98_7654_3210u64;
        let mut list: Vec<u64> = (0..ways as u64).collect();
        let mut rng = Rng::new(ways as u64, Use::Level, 9);
        for _ in 0..500 {
            let way = rng.below(ways as u64);
            list.retain(|&w| w != way);
            if rng.below(3) == 0 {
                list.push(way);
                word = make_oldest(word, way, ways);
            } else {
                list.insert(0, way);
                word = make_youngest(word, way);
            }
            let ages: Vec<u64> = (0..ways).map(|age| word >> (4 * age) & 15).collect();
            assert_eq!(ages, list, "{ways} ways");
        }
    }
}

#[test]
fn packed_lru_order_and_entry_order_behave_the_same() {
    // 16 and 17 ways have different representations, which must behave the same.
    for policy in [Replacement::Lru, Replacement::Fifo] {
        for ways in [15, 16, 17, 18, 40] {
            assert_eq!(misses_per_round(policy, ways, ways), 0.0, "{policy:?} {ways}");
            assert_eq!(misses_per_round(policy, ways, ways + 1), f64::from(ways + 1), "{policy:?} {ways}");
        }
    }
}

#[test]
fn repeated_use_changes_nothing_except_after_fills_of_some_policies() {
    for &policy in Replacement::ALL {
        let mut moved_after_a_fill = false;
        for ways in 1..=20 {
            let mut cache = Cache::new(1, ways, policy, Index::Bits, Rng::new(7, Use::Level, 0));
            let mut rng = Rng::new(u64::from(ways), Use::Level, 1);
            for _ in 0..2000 {
                let line = rng.below(u64::from(ways) * 2) as u32;
                if rng.below(20) == 0 {
                    cache.remove(line);
                    continue;
                }
                let hit = cache.touch(line);
                if !hit {
                    cache.fill(line, 0);
                }
                let (words, groups) = (cache.words.clone(), cache.groups.clone());
                assert!(cache.touch(line));
                let moved = (words, groups) != (cache.words.clone(), cache.groups.clone());
                assert!(!moved || !hit && !policy.use_after_fill_is_idempotent(), "{policy:?} {ways}");
                moved_after_a_fill |= moved;
            }
        }
        assert_eq!(moved_after_a_fill, !policy.use_after_fill_is_idempotent(), "{policy:?}");
    }
}

/// Returns the ages of four ways after a sequence: a letter uses or fills a line, a letter and `!` removes it.
fn ages_after(policy: Replacement, text: &str) -> (String, Vec<u64>) {
    let mut cache = Cache::new(1, 4, policy, Index::Bits, Rng::new(7, Use::Level, 0));
    for word in text.split_whitespace() {
        let line = u32::from(word.as_bytes()[0]);
        if word.ends_with('!') {
            cache.remove(line);
        } else if !cache.touch(line) {
            cache.fill(line, 0);
        }
    }
    let lines: Vec<u32> = cache.set(0).to_vec();
    let name = |&entry: &u32| if entry == FREE { '.' } else { char::from((entry >> FLAG_BITS) as u8) };
    let [low, high] = *cache.ages(0);
    (lines.iter().map(name).collect(), (0..4).map(|way| (low >> way & 1) + 2 * (high >> way & 1)).collect())
}

#[test]
fn ages_match_values_computed_by_hand() {
    // Computed by hand from the definitions.
    let cases = [
        (Replacement::Srrip, "A B C D", "ABCD", [2, 2, 2, 2]),
        (Replacement::Srrip, "A B C D B", "ABCD", [2, 0, 2, 2]),
        (Replacement::Srrip, "A B C D B E", "EBCD", [2, 1, 3, 3]),
        (Replacement::Srrip, "A B C D A B C D E", "EBCD", [2, 3, 3, 3]),
        (Replacement::Srrip, "A B C D B! E", "AECD", [2, 2, 2, 2]),
        // The last free way is filled first; an empty way has age 3.
        (Replacement::Qlru, "A B", "..BA", [3, 3, 1, 1]),
        (Replacement::Qlru, "A B C D", "DCBA", [1, 3, 3, 3]),
        (Replacement::Qlru, "A B C D E", "DEBA", [1, 1, 3, 3]),
        (Replacement::Qlru, "A B C D E B", "DEBA", [1, 1, 0, 3]),
        (Replacement::Qlru, "A B C D E B A", "DEBA", [3, 3, 2, 0]),
        (Replacement::Qlru, "A B C D E B! F G", "DEFG", [3, 3, 3, 1]),
    ];
    for (policy, text, lines, ages) in cases {
        assert_eq!(ages_after(policy, text), (lines.to_string(), ages.to_vec()), "{policy:?}: {text}");
    }
}

#[test]
fn bit_plru_clears_the_others_when_no_bit_would_be_clear() {
    let mut cache = Cache::new(1, 4, Replacement::BitPlru, Index::Bits, Rng::new(7, Use::Level, 0));
    for (line, bits) in [(0, 0b0001), (1, 0b0011), (2, 0b0111), (3, 0b1000), (1, 0b1010), (4, 0b1011)] {
        if !cache.touch(line) {
            cache.fill(line, 0);
        }
        assert_eq!(cache.words[0], bits, "{line}");
    }
    assert_eq!(cache.fill(5, 0), Some(Evicted { number: 2, flags: 0 }));
    assert_eq!(cache.words[0], 0b0100);
}
