//! The generators of random machines: the first one is unchanged, and machines of the wide one keep its rules.

use fathom_analysis::findings::{Basis, Value};
use fathom_model::description::{Description, Frames, Holds, Inclusion, Index};
use fathom_model::expected::data_levels;
use fathom_probe::splitmix::mix;

use crate::comparison::{Quantity, compare};
use crate::random::{self, Spacing};
use crate::sessions::{Experiment, run};
use crate::wide::{clean, noisy};

/// Returns a number that depends on every byte of a description.
fn digest(d: &Description) -> u64 {
    d.to_toml().bytes().fold(0, |sum, byte| mix(sum ^ u64::from(byte)))
}

/// Published figures name seeds of this generator.
#[test]
fn machines_of_the_first_generator_are_unchanged() {
    let digests: Vec<u64> = [1000, 1092, 2000, 5000]
        .iter()
        .map(|&seed| digest(&random::description(seed, Spacing::Apart)))
        .collect();
    assert_eq!(digests, FIRST);
}

const FIRST: [u64; 4] = [
    9_365_617_311_458_118_633,
    2_737_209_118_470_050_005,
    5_220_693_612_781_552_032,
    12_389_242_277_890_008_921,
];

#[test]
fn machines_keep_the_rules_of_the_wide_generator() {
    for seed in 0..400 {
        let d = clean(seed);
        assert_eq!(d.check(), Ok(()), "{}", d.to_toml());
        assert_eq!(digest(&d), digest(&clean(seed)));
        let (hz, levels) = (d.core.clock_hz, data_levels(&d));
        assert!((512..=64 << 10).contains(&levels[0].size) || levels[0].size <= 128 << 10, "{}", d.to_toml());
        for pair in levels.windows(2) {
            let ratio = pair[1].latency.in_cycles(hz) / pair[0].latency.in_cycles(hz);
            let line = pair[1].line / pair[0].line;
            assert!(ratio >= 1.3 && (1..=2).contains(&line) && pair[1].line <= 256, "{}", d.to_toml());
        }
        let last = levels.last().unwrap();
        let memory = d.memory.latency.in_ns(hz);
        assert!(memory >= 1.3 * last.latency.in_ns(hz) && memory >= 50.0, "{}", d.to_toml());
        assert!(last.size <= 768 << 20, "{}", d.to_toml());
        for page in [d.memory.pages.first(), d.memory.pages.last()].into_iter().flatten() {
            assert!(d.tlbs.is_empty() || d.tlbs.iter().any(|t| t.pages.contains(page)), "{}", d.to_toml());
        }
    }
}

/// Returns how many of the machines have a property.
fn share(machines: &[Description], has: impl Fn(&Description) -> bool) -> usize {
    machines.iter().filter(|d| has(d)).count()
}

#[test]
fn the_wide_generator_draws_every_feature() {
    let all: Vec<Description> = (0..400).map(clean).collect();
    let any_level =
        |has: fn(&fathom_model::description::Level) -> bool| share(&all, |d| d.levels.iter().any(has));
    let huge_only = |d: &Description| d.tlbs.iter().any(|t| !t.pages.contains(&d.memory.pages[0]));
    let base_only = |d: &Description| d.tlbs.iter().any(|t| t.pages.len() < d.memory.pages.len());
    let features = [
        ("TLBs for huge pages only", share(&all, huge_only)),
        ("TLBs for some pages", share(&all, base_only)),
        ("TLBs that split", share(&all, |d| d.tlbs.iter().any(|t| t.splits.is_some()))),
        ("all TLBs split", share(&all, |d| !d.tlbs.is_empty() && d.tlbs.iter().all(|t| t.splits.is_some()))),
        ("scattered frames", share(&all, |d| d.memory.frames == Frames::Scattered)),
        ("hashes", any_level(|l| l.index == Index::Hashed)),
        ("four levels", share(&all, |d| data_levels(d).len() == 4)),
        ("five levels", share(&all, |d| data_levels(d).len() == 5)),
        ("more than 64 MiB", any_level(|l| l.size > 64 << 20)),
        ("coarse clocks", share(&all, |d| d.timer.clock_hz <= 25e6)),
        ("a clock of 1 MHz", share(&all, |d| d.timer.clock_hz <= 1e6)),
        ("exclusive levels", any_level(|l| l.inclusion == Inclusion::Exclusive)),
        ("victim buffers", any_level(|l| l.inclusion == Inclusion::Exclusive && l.sets() == 1)),
        ("odd numbers of sets", any_level(|l| l.sets() > 1 && !l.sets().is_multiple_of(2))),
        ("lines of 256 bytes", any_level(|l| l.line == 256)),
        ("first levels below 4 KiB", share(&all, |d| d.levels[0].size < 4096)),
        ("levels for instructions", any_level(|l| l.holds == Holds::Instructions)),
    ];
    println!("{features:?}");
    let rare: Vec<_> = features.iter().filter(|(_, count)| *count < 5).collect();
    assert!(rare.is_empty(), "{rare:?} of {}", all.len());
}

#[test]
fn noisy_machines_are_the_clean_ones_with_neighbours() {
    let mut takes = [0; 3];
    for seed in 0..200 {
        let (mut d, clean) = (noisy(seed), clean(seed));
        for neighbour in &d.neighbours {
            assert!(neighbour.pauses.least >= neighbour.bursts.least, "{}", d.to_toml());
            assert!(neighbour.pauses.most >= neighbour.bursts.most, "{}", d.to_toml());
            takes[0] += usize::from(neighbour.ways_taken.is_some());
            takes[1] += usize::from(neighbour.memory_slower.is_some());
            takes[2] += usize::from(neighbour.clock_slower.is_some());
        }
        assert!(!std::mem::take(&mut d.neighbours).is_empty());
        d.name.clone_from(&clean.name);
        assert_eq!(d, clean);
    }
    assert!(takes.iter().all(|&count| count > 50), "{takes:?}");
}

#[test]
fn a_survey_of_a_noisy_machine_is_not_exact() {
    let (quiet, loud) = (clean(2), noisy(2));
    let [quiet, again, loud] = [&quiet, &loud, &loud].map(|d| run(Experiment::Survey, d, 1, 1000).report);
    assert_eq!(again, loud);
    let exact = |report: &fathom_analysis::findings::Report| {
        report.findings.iter().filter(|finding| finding.basis == Basis::Exact).count()
    };
    assert!(exact(&quiet) > 0 && exact(&loud) == 0);
    let neighbours = |report: &fathom_analysis::findings::Report| {
        report.facts.iter().any(|(name, count)| name == "described.neighbours" && count != "0")
    };
    assert!(!neighbours(&quiet) && neighbours(&loud));
    assert!(quiet.findings.iter().any(|f| matches!(f.value, Value::Number(_))));
    let rows = compare(&clean(2), &quiet);
    let counts = rows.iter().filter(|row| row.quantity == Quantity::TierCount).count();
    assert!(counts == 1 && rows.iter().any(|row| row.covers() == Some(true)), "{rows:?}");
}
