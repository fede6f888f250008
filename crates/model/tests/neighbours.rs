//! Neighbours: a machine under a burst equals a smaller or slower machine without one, and a burst never makes an access
//! faster.

mod common;

use common::{Draw, random_description};
use fathom_model::description::{Between, Inclusion, Neighbour, Replacement};
use fathom_model::{Description, Model};
use fathom_probe::machine::{Attribute, Counters, Machine, MapRequest, Pages};

/// Returns a neighbour with one burst that begins after 1 us and outlasts every test, and takes nothing yet.
fn permanent() -> Neighbour {
    let always = |ns| Between { least: ns, most: ns };
    Neighbour {
        name: "other".into(),
        bursts: always(1_000_000_000_000),
        pauses: always(1_000),
        levels: Vec::new(),
        tlbs: Vec::new(),
        ways_taken: None,
        memory_slower: None,
        clock_slower: None,
    }
}

fn percent(n: u64) -> Option<Between> {
    Some(Between { least: n, most: n })
}

/// Returns the costs of following a lap through some cells, of a machine in its first trial.
fn costs(d: &Description, seed: u64, loads: usize) -> Vec<u64> {
    let mut model = Model::new(d, seed);
    model.quiet_begin();
    let draw = &mut Draw::new(seed ^ 0x1ab);
    let bytes = d.memory.pages[0] * 24;
    let request = MapRequest { bytes, pages: Pages::Base, attribute: Attribute::WriteBack, place: 3 };
    let base = model.map(&request).expect("a small mapping").base;
    let mut offsets: Vec<u64> = (0..400).map(|_| base + draw.below(bytes) / 64 * 64).collect();
    offsets.sort_unstable();
    offsets.dedup();
    let cells: Vec<_> = offsets.iter().map(|&at| model.cell(at).expect("mapped")).collect();
    model.initialise_cells(&cells);
    let mut at = cells[0];
    (0..loads)
        .map(|_| {
            let before = model.clock();
            at = model.follow(at);
            model.clock() - before
        })
        .collect()
}

/// Returns a random machine whose costs do not depend on the time of day.
fn machine(seed: u64) -> Description {
    let mut d = random_description(seed);
    d.memory.refresh = None;
    d
}

#[test]
fn a_machine_under_a_burst_equals_one_with_fewer_ways() {
    let mut compared = 0;
    for seed in 0..200 {
        let d = machine(seed);
        let (mut noisy, mut smaller) = (d.clone(), d.clone());
        let mut neighbour = permanent();
        let share = 50 + seed % 45;
        let taken = |ways: u32| ways.min((u64::from(ways) * share / 100) as u32);
        neighbour.ways_taken = percent(share);
        for (index, level) in d.levels.iter().enumerate().filter(|(_, l)| taken(l.ways) > 0) {
            neighbour.levels.push(level.name.clone());
            let left = (level.ways - taken(level.ways)).max(1);
            smaller.levels[index].ways = left;
            smaller.levels[index].size = level.sets() * level.line * u64::from(left);
        }
        for (index, tlb) in d.tlbs.iter().enumerate().filter(|(_, t)| taken(t.ways) > 0) {
            neighbour.tlbs.push(tlb.name.clone());
            let left = (tlb.ways - taken(tlb.ways)).max(1);
            smaller.tlbs[index].ways = left;
            smaller.tlbs[index].entries = tlb.entries / tlb.ways * left;
        }
        if neighbour.levels.is_empty() && neighbour.tlbs.is_empty() {
            continue;
        }
        compared += 1;
        noisy.neighbours.push(neighbour);
        assert!(noisy.check().is_ok(), "{}", noisy.to_toml());
        assert_eq!(costs(&noisy, seed, 3000), costs(&smaller, seed, 3000), "{}", noisy.to_toml());
    }
    assert!(compared > 120, "{compared}");
}

#[test]
fn slower_memory_equals_a_description_of_it() {
    for seed in 0..60 {
        let d = machine(seed);
        let (mut noisy, mut slower) = (d.clone(), d.clone());
        let mut neighbour = permanent();
        neighbour.memory_slower = percent(100);
        noisy.neighbours.push(neighbour);
        let memory = &mut slower.memory;
        let open = memory.rows.as_mut().map(|rows| &mut rows.open);
        for time in [Some(&mut memory.latency), Some(&mut memory.spread), open].into_iter().flatten() {
            (time.cycles, time.ns) = (2.0 * time.cycles, 2.0 * time.ns);
        }
        let fetches = u64::from(d.walk.as_ref().map_or(0, |walk| walk.fetches));
        for (a, b) in costs(&noisy, seed, 2000).into_iter().zip(costs(&slower, seed, 2000)) {
            // Each of the costs is rounded before it is doubled, and the draws of the spread with it.
            assert!(a.abs_diff(b) <= 8 * (1 + fetches), "seed {seed}: {a} of {b}");
        }
    }
}

#[test]
fn a_slower_clock_stretches_cycles_and_not_memory() {
    let mut d = machine(1);
    let mut neighbour = permanent();
    neighbour.clock_slower = percent(25);
    d.neighbours.push(neighbour);
    let mut model = Model::new(&d, 1);
    model.quiet_begin();
    model.now();
    let (clock, cycles) = (model.clock(), model.cycles());
    model.alu(3_000_000);
    model.now();
    let took = (model.clock() - clock) as f64 / 4096.0;
    assert!((took / 4_000_000.0 - 1.0).abs() < 1e-4, "{took}");
    let counted = model.cycles() - cycles;
    assert!(counted.abs_diff(3_000_000) < 500, "{counted}");
    assert_eq!(model.counters().expect("counted")[0].value, model.cycles());
    // Every load of these is served by memory, in the time that the description gives.
    d.levels.clear();
    d.core.streams = None;
    (d.tlbs, d.walk, d.memory.rows) = (Vec::new(), None, None);
    let quiet = Description { neighbours: Vec::new(), ..d.clone() };
    let sum = |d: &Description| costs(d, 7, 5000).iter().sum::<u64>() as f64;
    assert!((sum(&d) / sum(&quiet) - 1.0).abs() < 1e-3, "{} of {}", sum(&d), sum(&quiet));
}

/// Returns a neighbour with many short bursts that takes everything.
fn everything(d: &Description, draw: &mut Draw) -> Neighbour {
    let most = 40 + draw.below(55);
    let named = |ways: u32| u64::from(ways) * most >= 100;
    let mut all = Neighbour {
        bursts: Between { least: 1_000, most: 40_000 },
        pauses: Between { least: 1_000, most: 60_000 },
        levels: d.levels.iter().filter(|l| named(l.ways)).map(|l| l.name.clone()).collect(),
        tlbs: d.tlbs.iter().filter(|t| named(t.ways)).map(|t| t.name.clone()).collect(),
        memory_slower: Some(Between { least: 10, most: 200 }),
        clock_slower: Some(Between { least: 3, most: 30 }),
        ..permanent()
    };
    let some = !(all.levels.is_empty() && all.tlbs.is_empty());
    all.ways_taken = some.then_some(Between { least: 1, most });
    all
}

/// Under LRU without exclusive levels and without rows, fewer ways never have more hits. Bursts may begin anywhere.
#[test]
fn bursts_never_make_a_run_faster_and_are_the_same_for_a_seed() {
    let (mut compared, mut slower) = (0, 0);
    for seed in 0..400 {
        let mut d = machine(seed);
        let lru = |r: Replacement| r == Replacement::Lru;
        d.levels.iter_mut().for_each(|l| l.replacement = Replacement::Lru);
        d.tlbs.iter_mut().for_each(|t| t.replacement = Replacement::Lru);
        assert!(d.levels.iter().all(|l| lru(l.replacement)));
        (d.memory.rows, d.memory.spread) = (None, fathom_model::description::Time::ZERO);
        let rising = d.levels.windows(2).all(|pair| {
            pair[0].latency.in_cycles(d.core.clock_hz) <= pair[1].latency.in_cycles(d.core.clock_hz)
        });
        if d.levels.iter().any(|l| l.inclusion == Inclusion::Exclusive) || !rising {
            continue;
        }
        let mut noisy = d.clone();
        noisy.neighbours.push(everything(&d, &mut Draw::new(seed ^ 0xbeef)));
        let (quiet, disturbed) = (costs(&d, seed, 4000), costs(&noisy, seed, 4000));
        assert_eq!(disturbed, costs(&noisy, seed, 4000));
        let (quiet, disturbed) = (quiet.iter().sum::<u64>(), disturbed.iter().sum::<u64>());
        assert!(disturbed >= quiet, "seed {seed}: {disturbed} of {quiet}\n{}", noisy.to_toml());
        compared += 1;
        slower += u32::from(disturbed > quiet);
    }
    assert!(compared > 60 && slower * 10 > compared * 9, "{slower} of {compared}");
}
