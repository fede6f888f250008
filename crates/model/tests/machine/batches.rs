//! Batches compared with single accesses: equal times, counters and memory.

use super::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Compares the batch chase with the generic body: time, counters and end cell, with and without streams.
    #[test]
    fn batch_and_generic_chase_are_equal(seed: u64, n in 0u64..3000, kind in 0u64..4, more in 0u64..500) {
        let d = random_description(seed);
        let draw = &mut Draw::new(seed ^ 77);
        let (mut a, mut b) = (Model::new(&d, seed), Model::new(&d, seed));
        let step = d.one_step(draw);
        let bytes = (d.memory.size / 8).min(1 << (12 + draw.below(8)));
        let pages = if draw.chance(2) { Pages::Huge } else { Pages::Base };
        let request = MapRequest { pages, ..request(bytes) };
        let Ok(mapping) = a.map(&request) else { return Ok(()) };
        b.map(&request).unwrap();
        let order = [Order::Random, Order::Sequential, Order::Window(d.memory.pages[0]), Order::Random][kind as usize];
        let page = d.memory.pages[0];
        let chain = if kind == 3 {
            Chain::new(mapping.base, (bytes / page).max(1), 64, Layout::OnePerPage { page }, order, seed)
        } else {
            Chain::new(mapping.base, bytes / step, step, Layout::Packed, order, seed)
        };
        a.initialise(&chain).unwrap();
        b.initialise(&chain).unwrap();
        if d.core.cpus > 1 && draw.chance(2) {
            let streams = [Stream { cpu: 1, bytes: 1 << (10 + draw.below(5)) }];
            a.disturb(&streams).unwrap();
            b.disturb(&streams).unwrap();
        }
        let start = a.cell(chain.at(seed)).unwrap();
        let (mid_a, mid_b) = (a.chase(start, n), chase::body(&mut b, start, n));
        prop_assert_eq!(a.offset(mid_a), chain.at((seed % chain.cells()) + n));
        prop_assert_eq!((mid_a, seen(&mut a)), (mid_b, seen(&mut b)));
        a.charge(Ops { alu: 3, branch: 1 });
        b.charge(Ops { alu: 3, branch: 1 });
        prop_assert_eq!(a.now(), b.now());
        let (end_a, end_b) = (chase::body(&mut a, mid_a, more), b.chase(mid_b, more));
        prop_assert_eq!((end_a, seen(&mut a)), (end_b, seen(&mut b)));
    }
}

/// The first level of this machine answers in no time, and its loops take none: the stream never caught up.
#[test]
fn loads_that_take_no_time_end() {
    let d = random_description(10_392_102_811_751_584_189);
    assert!(d.core.cpus > 1 && d.levels[0].latency.cycles == 0.0 && d.core.alu.cycles == 0.0);
    let mut model = Model::new(&d, 1);
    let mapping = model.map(&request(32_768)).unwrap();
    let chain = Chain::new(mapping.base, 512, 64, Layout::Packed, Order::Random, 1);
    model.initialise(&chain).unwrap();
    model.disturb(&[Stream { cpu: 1, bytes: 1024 }]).unwrap();
    let start = model.cell(chain.at(1)).unwrap();
    let end = model.chase(start, 1000);
    assert_eq!(model.offset(end), chain.at(1 + 1000));
}

/// Runs one random operation on two models in two ways that must have the same effect.
fn one_chunk(draw: &mut Draw, a: &mut Model, b: &mut Model, addresses: &[u64]) {
    let run: Vec<u64> = (0..draw.below(40))
        .flat_map(|_| {
            // The same word again, its neighbours in the line, or other lines.
            let spot = draw.one_of(addresses);
            (0..1 + draw.below(5)).map(move |n| spot + 8 * (n / 2)).collect::<Vec<_>>()
        })
        .collect();
    match draw.below(6) {
        0 => {
            let (cpu, kind) = (draw.below(2) as u32, draw.one_of(&[Kind::Store, Kind::Fetch, Kind::Load]));
            let at = draw.one_of(addresses);
            assert_eq!(a.access(cpu, at, kind), b.access(cpu, at, kind));
        }
        1 => {
            a.count_loads(&run).unwrap();
            run.iter().for_each(|&at| b.count_loads(&[at]).unwrap());
        }
        _ => {
            a.loads(&run).unwrap();
            run.iter().for_each(|&at| assert!(b.access(0, at, Kind::Load).is_ok()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The shortcut for repeated loads of a line affects only the speed.
    #[test]
    fn loads_in_batches_and_one_by_one_are_equal(seed: u64) {
        let d = random_description(seed);
        let draw = &mut Draw::new(seed ^ 99);
        let (mut a, mut b) = (Model::new(&d, seed), Model::new(&d, seed));
        let arena = a.arena_bytes();
        let reach = 1 << (8 + draw.below(10));
        let starts = [0, arena / 2, arena / 4 * 3];
        let addresses: Vec<u64> =
            (0..60).map(|_| (draw.one_of(&starts) + draw.below(reach) / 8 * 8).min(arena - 64)).collect();
        for chunk in 0..40 {
            one_chunk(draw, &mut a, &mut b, &addresses);
            prop_assert_eq!(seen(&mut a), seen(&mut b), "chunk {}", chunk);
        }
    }
}

/// Returns the clock, the counters and the contents of the buffer.
fn state(model: &mut Model, sweep: &Sweep) -> (u64, Vec<(String, u64)>, Vec<u64>) {
    let (time, counts, _) = seen(model);
    let mut held = Vec::new();
    for number in 0..sweep.cells {
        let cell = model.cell(sweep.base + number * sweep.stride).unwrap();
        let next = model.peek(cell);
        held.push(model.offset(next));
    }
    (time, counts, held)
}

/// Returns two models of a random machine with the same sweep, if it fits.
fn with_sweep(d: &Description, draw: &mut Draw, seed: u64) -> Option<(Model, Model, Sweep)> {
    let (mut a, mut b) = (Model::new(d, seed), Model::new(d, seed));
    let (step, cells) = (8 << draw.below(7), 1 + draw.below(600));
    let operation = Operation::ALL[draw.below(3) as usize];
    let base = a.map(&request(cells * step)).ok()?.base;
    b.map(&request(cells * step)).ok()?;
    let sweep = Sweep { base, stride: step, cells, operation };
    a.initialise_sweep(&sweep, seed).unwrap();
    b.initialise_sweep(&sweep, seed).unwrap();
    Some((a, b, sweep))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// Compares the batch sweep with the generic body over real links: sums, time, counters and contents, with and
    /// without
    /// streams.
    #[test]
    fn batch_and_generic_sweep_are_equal(seed: u64) {
        let d = random_description(seed);
        let draw = &mut Draw::new(seed ^ 99);
        let Some((mut a, mut b, sweep)) = with_sweep(&d, draw, seed) else { return Ok(()) };
        if d.core.cpus > 1 && draw.chance(2) {
            let streams = [Stream { cpu: 1, bytes: 1 << (10 + draw.below(5)) }];
            a.disturb(&streams).unwrap();
            b.disturb(&streams).unwrap();
        }
        let mut position = sweep.cells;
        for _ in 0..3 {
            let n = draw.below(3 * sweep.cells + 100);
            let sums = (a.sweep(&sweep, position, n), stride::body(&mut b, &sweep, position, n));
            prop_assert_eq!(sums.0, sums.1);
            position += n;
            prop_assert!(state(&mut a, &sweep) == state(&mut b, &sweep), "{:?} {}", sweep, position);
        }
    }

    /// A warm-up leaves the state of the accesses that it replaces: all later accesses cost the same.
    #[test]
    fn warm_up_by_lines_leaves_the_state_of_all_accesses(seed: u64) {
        let mut d = random_description(seed);
        // Their effect depends on the time of an access.
        d.memory.refresh = None;
        d.memory.spread = Time::ZERO;
        let draw = &mut Draw::new(seed ^ 98);
        let Some((mut a, mut b, sweep)) = with_sweep(&d, draw, seed) else { return Ok(()) };
        let cells = sweep.cells;
        for _ in 0..1 + draw.below(2) {
            a.warm(&sweep, 0, cells).unwrap();
            b.sweep(&sweep, 0, cells).unwrap();
        }
        // Lines outside the sweep show which of its lines is the next victim.
        let others: Vec<u64> =
            (0..draw.below(300)).map(|_| (sweep.base + draw.below(1 << 15) / 8 * 8).min(a.arena_bytes() - 8)).collect();
        let run = |model: &mut Model| {
            let before = model.clock();
            model.loads(&others).unwrap();
            let sum = model.sweep(&sweep, cells, cells / 2 + 50);
            (sum, model.clock() - before)
        };
        prop_assert_eq!(run(&mut a), run(&mut b));
    }
}

#[test]
fn initialised_sweep_replaces_overlaps_and_is_replaced() {
    let mut model = Model::new(&bcm2837(), 1);
    let base = model.map(&request(8192)).expect("fits").base;
    let sweep = Sweep { base, stride: 64, cells: 128, operation: Operation::Rmw };
    let chain = Chain::new(base, 128, 64, Layout::Packed, Order::Sequential, 0);
    let second = model.cell(base).expect("mapped");
    let next = |model: &mut Model| {
        let held = model.peek(second);
        model.offset(held) - base
    };
    model.initialise(&chain).expect("inside");
    assert_eq!(next(&mut model), 64);
    model.initialise_sweep(&sweep, 1).expect("inside");
    assert_eq!(next(&mut model), 0);
    model.sweep(&sweep, 128, 1).expect("inside");
    assert_eq!(next(&mut model), 8);
    model.initialise(&chain).expect("inside");
    assert_eq!(next(&mut model), 64);
    for bad in [
        Sweep { cells: 129, ..sweep },
        Sweep { cells: 0, ..sweep },
        Sweep { stride: 0, ..sweep },
        Sweep { base: base + 8, cells: 1, ..sweep },
        Sweep { cells: u64::MAX, ..sweep },
    ] {
        assert!(model.initialise_sweep(&bad, 1).is_err(), "{bad:?}");
    }
}

#[test]
fn a_warm_up_counts_the_use_after_a_fill() {
    let mut d = tiny(1);
    d.levels[0].replacement = Replacement::Srrip;
    let line = d.levels[0].line;
    let after = |warm: bool| {
        let mut model = Model::new(&d, 1);
        let base = model.map(&request(4096)).unwrap().base;
        let sweep = Sweep { base, stride: 8, cells: 2 * line / 8, operation: Operation::Read };
        model.initialise_sweep(&sweep, 1).unwrap();
        if warm {
            model.warm(&sweep, 0, sweep.cells).unwrap();
        } else {
            model.sweep(&sweep, 0, sweep.cells).unwrap();
        }
        // Two more lines of the first line's set: the line used after its fill stays.
        let mut load = |n: u64| model.access(0, base + n * line, Kind::Load).unwrap().level;
        (load(2), load(4), load(0))
    };
    assert_eq!(after(false), (None, None, Some(0)));
    assert_eq!(after(true), after(false));
}

/// Returns a step between cells that suits the description.
trait Step {
    fn one_step(&self, draw: &mut Draw) -> u64;
}

impl Step for Description {
    fn one_step(&self, draw: &mut Draw) -> u64 {
        draw.one_of(&[8, 16, 64, 64, 128, 192, self.memory.pages[0]])
    }
}
