//! The definitions of the policies, and the notation of programs.

use super::*;

/// Returns the blocks that miss on a walk from an empty set.
fn misses(policy: Policy, ways: usize, walk: &str) -> String {
    let mut set = Set::new(policy, ways, 1);
    let program: Program = walk.parse().unwrap();
    let missed = program.accesses.iter().filter(|a| match a.block {
        Block::Tested(n) | Block::Evictors(n) => !set.visit(n),
    });
    missed.map(|a| a.block.to_string()).collect()
}

#[test]
fn published_misses_of_nine_lines_in_eight_ways() {
    // Published for this project with two decimals, from an independent prototype.
    let published = [9.00, 9.00, 2.00, 9.00, 5.14, 9.00, 3.06, 2.25, 9.00, 4.09];
    for (policy, expected) in Policy::ALL.iter().zip(published) {
        let got = misses_per_round(*policy, 8, 9);
        // Results of random policies are means of many rounds.
        let tolerance = if policy.is_random() { 0.03 } else { 0.0051 };
        assert!((got - expected).abs() < tolerance, "{policy}: {got} for {expected}");
    }
    for policy in Policy::ALL {
        assert_eq!(misses_per_round(*policy, 8, 8), 0.0, "{policy}");
        assert!(misses_per_round(*policy, 8, 32) > 31.0, "{policy}");
        assert_eq!(misses_per_round(*policy, 1, 2), 2.0, "{policy}");
    }
    assert_eq!(misses_per_round(Policy::Lru, 8, 0), 0.0);
}

#[test]
fn each_policy_evicts_according_to_its_definition() {
    // Four ways have A to D, A is used again, then E is loaded; later misses show which block was evicted.
    assert_eq!(misses(Policy::Lru, 4, "A-D A E A C D B"), "ABCDEB");
    assert_eq!(misses(Policy::Fifo, 4, "A-D A E B C D A"), "ABCDEA");
    // The tree points away from A, to C's half, and in that half away from D.
    assert_eq!(misses(Policy::TreePlru, 4, "A-D A E A B D C"), "ABCDEC");
    // The use of D cleared A to C; the use of A set its bit again; B is the lowest with a clear bit.
    assert_eq!(misses(Policy::BitPlru, 4, "A-D A E A C D B"), "ABCDEB");
    // All four are set; the replacement clears them, and A is the lowest.
    assert_eq!(misses(Policy::Nru, 4, "A-D A E B C D A"), "ABCDEA");
    // A has age 0, the others age from 2 to 3; B is the lowest.
    assert_eq!(misses(Policy::Srrip, 4, "A-D A E A C D B"), "ABCDEB");
    // SRRIP keeps a hit block for twice as many fills as there are other ways; LRU does not.
    assert_eq!(misses(Policy::Srrip, 4, "A-D A E-J A"), "ABCDEFGHIJ");
    assert_eq!(misses(Policy::Lru, 4, "A-D A E-J A"), "ABCDEFGHIJA");
    // A has age 0, B to D have age 3 (each fill aged the others): B is evicted, then C.
    assert_eq!(misses(Policy::QlruH00M1R2U1, 4, "A-D A E F A D"), "ABCDEF");
    // Three ways: the right half has one way, and is the older one after two fills of the left.
    assert_eq!(misses(Policy::TreePlru, 3, "A-C A D A B C"), "ABCDC");
}

#[test]
fn random_policies_spare_protected_blocks() {
    let mut evicted = [[0u32; 4]; 3];
    for (row, policy) in [Policy::Random, Policy::NotMruRandom, Policy::NruRandom].into_iter().enumerate() {
        for seed in 0..4000 {
            let mut set = Set::new(policy, 4, seed);
            // NRU: E clears all bits and takes one way; its bit and that of A (if A is still present) are set.
            for block in [0, 1, 2, 3, 0, 4] {
                set.visit(block);
            }
            for block in 0..4 {
                let mut later = set.clone();
                evicted[row][usize::from(block)] += u32::from(!later.visit(block));
            }
        }
    }
    let near = |count: u32, share: f64| (f64::from(count) - 4000.0 * share).abs() < 4.5 * 32.0;
    assert!(evicted[0].iter().all(|n| near(*n, 0.25)), "{evicted:?}");
    assert!(evicted[1][0] == 0 && evicted[1][1..].iter().all(|n| near(*n, 1.0 / 3.0)), "{evicted:?}");
    assert!(evicted[2].iter().all(|n| near(*n, 0.25)), "{evicted:?}");
}

#[test]
fn tokens_name_every_policy() {
    for policy in Policy::ALL {
        assert_eq!(Policy::from_token(policy.token()), Some(*policy));
        assert_eq!(policy.to_string(), policy.token());
    }
    assert_eq!(Policy::from_token("plru"), None);
}

#[test]
fn program_notation_round_trips_and_errors_name_the_word() {
    for text in ["A B D A?", "A-L B? a-d C?", "Y-B1 Z99", "", "a b A? A?"] {
        let program: Program = text.parse().unwrap();
        assert_eq!(program.to_string(), text);
    }
    let long: Program = "  A-F1\tA1? ".parse().unwrap();
    assert_eq!(long.accesses.len(), 33);
    assert_eq!(long.accesses[32], Access { block: Block::Tested(26), timed: true });
    assert_eq!((long.blocks(), long.visits(), long.queries()), ((32, 0), 2, 1));
    for (text, word) in [
        ("A ?", "`?`"),
        ("A B- C", "`B-`"),
        ("A C-A", "`C-A`"),
        ("A-c", "`A-c`"),
        ("A-C?", "`A-C?`"),
        ("A0", "`A0`"),
        ("A B01", "`B01`"),
        ("A100", "`A100`"),
        ("A+1", "`A+1`"),
        ("AB", "`AB`"),
        ("\u{c4}", "`\u{c4}`"),
    ] {
        let error = text.parse::<Program>().unwrap_err().to_string();
        assert!(error.starts_with(word), "{text}: {error}");
    }
    assert!("A-Z99 ".repeat(7).parse::<Program>().is_err());
}

proptest::proptest! {
    #[test]
    fn any_program_reads_back(blocks in proptest::collection::vec((0u16..2600, 0u8..2, 0u8..3), 0..40)) {
        let accesses = blocks.iter().flat_map(|(n, evictors, kind)| {
            let block = |n: u16| if *evictors == 1 { Block::Evictors(n) } else { Block::Tested(n) };
            let run = if *kind == 2 { 5 } else { 1 };
            (0..run).map(move |i| Access { block: block((n + i).min(2599)), timed: *kind == 1 })
        });
        let program = Program { accesses: accesses.collect() };
        assert_eq!(program.to_string().parse::<Program>().unwrap(), program);
    }
}
