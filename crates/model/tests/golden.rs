//! Miss counts on which independent simulators agree exactly.
//!
//! dineroIV and pycachesim, 50 million 8-byte loads each: (a) 6,250,000 misses in both levels, (b)
//! 49,975,318 and 49,218,645, (c) and (r) 256 in both.

#[path = "common/golden.rs"]
mod golden;

use fathom_model::Model;
use fathom_probe::machine::Counters;
use golden::{LOADS, PLAIN, Pattern, machine};

fn refills(model: &mut Model, level: &str) -> u64 {
    let name = format!("refill.{level}");
    model.counters().unwrap().into_iter().find(|c| c.name == name).expect("a counter").value
}

/// Returns the misses of the first `loads` loads in L1 and L2.
fn misses(pattern: Pattern, loads: u64) -> (u64, u64) {
    let mut model = Model::new(&machine(PLAIN), 0);
    pattern.run(loads, |batch| model.count_loads(batch).expect("inside"));
    (refills(&mut model, "L1"), refills(&mut model, "L2"))
}

#[test]
fn sequential_over_64_mib_misses_once_a_line() {
    assert_eq!(misses(Pattern::A, LOADS), (6_250_000, 6_250_000));
}

#[test]
fn random_over_64_mib_misses_as_other_simulators_do() {
    assert_eq!(misses(Pattern::B, LOADS), (49_975_318, 49_218_645));
}

#[test]
fn sequential_and_random_in_16_kib_miss_each_line_once() {
    assert_eq!(misses(Pattern::C, LOADS), (256, 256));
    assert_eq!(misses(Pattern::R, LOADS), (256, 256));
}

#[test]
fn counting_and_timing_have_the_same_misses() {
    for pattern in Pattern::ALL {
        let (mut counted, mut timed) = (Model::new(&machine(PLAIN), 0), Model::new(&machine(PLAIN), 0));
        pattern.run(300_000, |batch| {
            counted.count_loads(batch).expect("inside");
            timed.loads(batch).expect("inside");
        });
        let seen = |m: &mut Model| (refills(m, "L1"), refills(m, "L2"));
        let (l1, l2) = seen(&mut counted);
        assert_eq!((l1, l2), seen(&mut timed), "{pattern:?}");
        // 4 cycles for L1, 14 for L2, and 100 ns at 1 GHz for memory.
        assert_eq!(timed.cycles(), (300_000 - l1) * 4 + (l1 - l2) * 14 + l2 * 100, "{pattern:?}");
    }
}
