//! One cache set: conflicts by count and by timed loads, and probes that identify the evicted line.

use fathom_model::description::Replacement::{
    self, BitPlru, Fifo, Lru, NotMruRandom, Nru, NruRandom, Qlru, Random, Srrip, TreePlru,
};
use fathom_model::description::{Description, Level, Time};
use fathom_model::{Model, catalog};
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{self, Conflict, EvictionSet, Groups, Memory, SideBySide, Single, Trial};
use fathom_probe::rows::Sample;
use fathom_probe::sequence::Sequence;

/// Returns bcm2837 with a clock in cycles.
fn fine_clock() -> Description {
    let mut d = catalog::load("bcm2837").expect("embedded").expect("sound");
    d.timer.jitter = Time::ZERO;
    d.timer.clock_hz = d.core.clock_hz;
    d.timer.resolution = 1;
    d
}

/// Returns the misses per round of `n` lines at a stride of 4 KiB in an L1 of 64 sets and 8 ways, from the counters and
/// from timed single loads.
fn misses_a_round(replacement: Replacement, n: u64) -> (f64, f64) {
    let mut d = fine_clock();
    d.levels[0] = Level { ways: 8, replacement, ..d.levels[0].clone() };
    let mut model = Model::new(&d, 5);
    let groups = Groups::apart(4096);
    let trial = Trial {
        memory: Memory { page: Pages::Huge, ..Memory::of(64 * n, 64) },
        loads: 10_000 * n + 1,
        samples: 3,
        counted: 1,
        ..Trial::of(Conflict::of(groups))
    };
    let run = |model: &mut Model, trial: &Trial| -> Vec<Sample> {
        let outcome = pattern::run(model, trial).unwrap();
        assert_eq!(outcome.unverified(trial), []);
        outcome.rows.samples().to_vec()
    };
    let counted = run(&mut model, &trial).iter().map(|s| s.misses.unwrap().1 as f64).sum::<f64>();
    let a_round = counted / 3.0 / (2.0 * trial.loads as f64 / n as f64);
    // 50 n - 1 loads between timed loads: coprime to n, so that every line is timed, and for nine lines coprime to
    // eight,
    // because NRU with random victims sets all bits again after as many loads as there are ways.
    let pattern = Single::of(groups).into();
    let single = Trial { pattern, loads: 50 * n - 2, samples: 1000, ..trial };
    // A timed load includes the overhead of reading the clock. A hit takes 3 cycles here and a miss 15.
    let slow = run(&mut model, &single).iter().filter(|s| s.ticks - s.ticks2 > 9).count();
    (a_round, slow as f64 / 1000.0 * n as f64)
}

#[test]
fn nine_lines_in_eight_ways_miss_at_the_rate_of_the_policy() {
    let figures = [(Lru, 9.0), (Fifo, 9.0), (TreePlru, 9.0), (Nru, 9.0), (Srrip, 9.0), (Random, 2.0)];
    let others = [(BitPlru, 5.14), (Qlru, 4.09), (NruRandom, 3.06), (NotMruRandom, 2.25)];
    for (policy, expected) in figures.into_iter().chain(others) {
        let (counted, reported) = misses_a_round(policy, 9);
        assert!((counted - expected).abs() < 0.05, "{policy:?}: {counted} counted");
        assert!((reported - expected).abs() < 0.5, "{policy:?}: {reported} told from single loads");
        let (counted, reported) = misses_a_round(policy, 8);
        assert!(counted < 0.001 && reported == 0.0, "{policy:?}: {counted} and {reported} where all fit");
    }
}

#[test]
fn probe_identifies_the_evicted_line() {
    let mut d = fine_clock();
    d.levels[0] = Level { ways: 4, replacement: Lru, ..d.levels[0].clone() };
    let mut model = Model::new(&d, 5);
    let mut left = |sequence: &str| {
        let sequence = Sequence::parse(sequence).unwrap();
        let memory = Memory { page: Pages::Huge, ..Memory::default() };
        let set = EvictionSet { sequence, period: 8192, offset: 0 };
        let trial = Trial { memory, samples: 20, ..Trial::of(set) };
        let outcome = pattern::run(&mut model, &trial).unwrap();
        assert_eq!(outcome.unverified(&trial), []);
        outcome.rows.samples().iter().filter(|s| s.ticks - s.ticks2 > 9).count()
    };
    // Of A to D, with A used again, the least recently used is B.
    assert_eq!(left("A-D A E A?"), 0);
    assert_eq!(left("A-D A E B?"), 20);
    assert_eq!(left("A-D A E C?"), 0);
    assert_eq!(left("A-D E A?"), 20);
}

/// A description may state how many misses overlap, but the model executes one access at a time: it does not answer a question that it
/// did not run.
#[test]
fn chains_side_by_side_are_refused_by_name() {
    let mut d = fine_clock();
    d.core.outstanding = Some(4);
    let trial = Trial {
        memory: Memory::of(1 << 20, 64),
        loads: 100,
        samples: 2,
        ..Trial::of(SideBySide { chains: vec![1, 4] })
    };
    let refusal = pattern::run(&mut Model::new(&d, 5), &trial).expect_err("one access at a time");
    assert!(refusal.reason.contains("one access at a time"), "{}", refusal.reason);
}
