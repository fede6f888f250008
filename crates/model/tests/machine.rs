//! The model under the probe: maps, chains, clock, refusals, the batch chase.

mod common;

use common::{Draw, random_description};
use fathom_model::description::{Replacement, Time, Uncached};
use fathom_model::{Description, Kind, Model, catalog};
use fathom_probe::chain::{Chain, Layout, Order};
use fathom_probe::machine::batch::chase;
use fathom_probe::machine::batch::stride::{self, Sweep};
use fathom_probe::machine::{
    Attribute, Counters, Disturb, FactValue, Machine, MapRequest, Operation, Ops, Pages, Stream,
};
use proptest::prelude::*;

fn request(bytes: u64) -> MapRequest {
    MapRequest { bytes, pages: Pages::Base, attribute: Attribute::WriteBack, place: 1 }
}

fn bcm2837() -> Description {
    catalog::load("bcm2837").expect("embedded").expect("sound")
}

fn quiet(mut d: Description) -> Description {
    d.timer.jitter = Time::ZERO;
    d.memory.spread = Time::ZERO;
    d
}

/// Maps, lays a chain of whole lines over `bytes` and returns the model and the first cell.
fn with_chain(model: &mut Model, bytes: u64, pages: Pages, order: Order) -> fathom_model::Cell {
    let mapping = model.map(&MapRequest { pages, ..request(bytes) }).expect("fits");
    let chain = Chain::new(mapping.base, bytes / 64, 64, Layout::Packed, order, 5);
    model.initialise(&chain).expect("inside");
    model.cell(chain.at(0)).expect("mapped")
}

#[test]
fn an_empty_interval_reads_the_overhead_and_alu_costs_exactly_its_cycles() {
    let mut d = quiet(bcm2837());
    d.timer.clock_hz = d.core.clock_hz;
    d.timer.overhead = Time::cycles(6.0);
    d.timer.resolution = 1;
    let mut model = Model::new(&d, 1);
    let a = model.now();
    let b = model.now();
    model.alu(1000);
    let c = model.now();
    assert_eq!(b.since(a), 6);
    assert_eq!(c.since(b), 1006);
    let cycles = model.cycles();
    model.alu(12_345);
    assert_eq!(model.cycles() - cycles, 12_345);
}

#[test]
fn readings_never_run_backwards_whatever_the_jitter() {
    let mut d = bcm2837();
    d.timer.clock_hz = d.core.clock_hz;
    d.timer.resolution = 1;
    d.timer.jitter = Time::cycles(40.0);
    d.timer.overhead = Time::cycles(1.0);
    let mut model = Model::new(&d, 3);
    let readings: Vec<_> = (0..1000).map(|_| model.now()).collect();
    assert!(readings.is_sorted());
    assert!(readings.windows(2).any(|w| w[1].since(w[0]) > 1), "the jitter shows");
}

#[test]
fn a_chase_in_l1_costs_its_latency_and_beyond_it_more() {
    let d = quiet(bcm2837());
    let l1 = d.levels.iter().find(|l| l.holds.word() != "instructions").expect("a data level");
    let latency = l1.latency.in_cycles(d.core.clock_hz);
    let mut model = Model::new(&d, 1);
    let start = with_chain(&mut model, 4096, Pages::Base, Order::Random);
    let lap = model.chase(start, 64);
    assert_eq!(lap, start, "a lap of 64 cells comes home");
    let before = model.clock();
    let end = model.chase(start, 6400);
    assert_eq!(end, start);
    let loop_cost = 200.0 * (d.core.alu.cycles + d.core.branch.cycles);
    let cycles = (model.clock() - before) as f64 / fathom_model::UNITS_PER_CYCLE as f64;
    assert_eq!(cycles, 6400.0 * latency + loop_cost);
}

#[test]
fn laying_a_chain_touches_nothing_and_replaces_what_it_overlaps() {
    let mut model = Model::new(&bcm2837(), 1);
    let mapping = model.map(&request(1 << 16)).unwrap();
    let at = |offset: u64| mapping.base + offset;
    let cell = |model: &Model, offset: u64| model.cell(at(offset)).unwrap();
    let first = Chain::new(at(0), 512, 64, Layout::Packed, Order::Sequential, 0);
    model.initialise(&first).unwrap();
    assert_eq!((model.watch().accesses, model.clock()), (0, 0));
    let zero = cell(&model, 0);
    assert_eq!(model.follow(zero), cell(&model, 64));
    let second = Chain::new(at(0), 4, 128, Layout::Packed, Order::Sequential, 0);
    model.initialise(&second).unwrap();
    assert_eq!(model.follow(zero), cell(&model, 128));
    let beyond = cell(&model, 64 * 300);
    assert_eq!(model.follow(beyond), zero, "what the new chain displaced reads as the first cell");
    let (two, odd) = (cell(&model, 256), cell(&model, 8));
    model.link(two, odd);
    assert_eq!(model.follow(two), odd, "the last write wins");
    assert_eq!(chase::body(&mut model, zero, 3), odd);
    assert_eq!(model.chase(zero, 3), odd, "and the batch form knows");
    model.initialise(&second).unwrap();
    assert_eq!(model.chase(zero, 3), cell(&model, 384), "a chain laid later wins in turn");
}

#[test]
fn a_link_is_a_store_with_its_cost() {
    let mut model = Model::new(&bcm2837(), 1);
    let base = model.map(&request(4096)).unwrap().base;
    let cell = model.cell(base).unwrap();
    model.link(cell, cell);
    assert_eq!(model.watch().accesses, 1);
    assert!(model.clock() > 0);
    assert_eq!(model.follow(cell), cell);
}

#[test]
fn cells_exist_only_where_memory_is_mapped() {
    let mut model = Model::new(&bcm2837(), 1);
    assert!(model.cell(0).is_none());
    let mapping = model.map(&request(100)).unwrap();
    assert_eq!((mapping.bytes, mapping.page_bytes), (4096, 4096));
    assert!(model.cell(mapping.base).is_some());
    assert!(model.cell(mapping.base + 4088).is_some());
    for outside in
        [mapping.base + 4, mapping.base + 4096, mapping.base.wrapping_sub(8), u64::MAX, u64::MAX - 7]
    {
        assert!(model.cell(outside).is_none(), "{outside}");
    }
}

#[test]
fn equal_wishes_get_equal_places_and_others_differ() {
    let mut model = Model::new(&bcm2837(), 1);
    let a = model.map(&request(1 << 20)).unwrap();
    let b = model.map(&request(1 << 20)).unwrap();
    let c = model.map(&MapRequest { place: 2, ..request(1 << 20) }).unwrap();
    assert_eq!(a, b);
    assert_ne!(a.base, c.base);
    let huge = model.map(&MapRequest { pages: Pages::Huge, ..request(1 << 20) }).unwrap();
    assert_eq!(huge.page_bytes, 2 << 20);
    assert!(huge.base.is_multiple_of(2 << 20) && huge.bytes == 2 << 20);
}

#[test]
fn what_cannot_be_is_refused_with_a_remedy() {
    let mut d = bcm2837();
    d.uncached = Uncached::default();
    let mut model = Model::new(&d, 1);
    for bytes in [0, 1 << 40, u64::MAX] {
        let refusal = model.map(&request(bytes)).unwrap_err();
        assert!(refusal.remedy.contains("bytes"), "{refusal:?}");
    }
    for (attribute, key) in [
        (Attribute::Device, "device_load"),
        (Attribute::NormalNc, "`load`"),
        (Attribute::WriteThrough, "write_through"),
    ] {
        let refusal = model.map(&MapRequest { attribute, ..request(4096) }).unwrap_err();
        assert!(refusal.remedy.contains(key) && refusal.remedy.contains("[uncached]"), "{refusal:?}");
    }
    let base = model.map(&request(4096)).unwrap().base;
    for chain in [
        Chain::new(base, 65, 64, Layout::Packed, Order::Random, 1),
        Chain::new(base, u64::MAX, 64, Layout::Packed, Order::Sequential, 1),
        Chain::new(base + 1, 2, 64, Layout::Packed, Order::Random, 1),
        Chain::new(base, 2, 4, Layout::Packed, Order::Random, 1),
        Chain::new(base, 2, 0, Layout::Packed, Order::Random, 1),
        Chain::new(base, 1, 64, Layout::OnePerPage { page: 192 }, Order::Random, 1),
    ] {
        assert!(!model.initialise(&chain).unwrap_err().remedy.is_empty(), "{chain:?}");
    }
    assert!(model.disturb(&[Stream { cpu: 0, bytes: 4096 }]).is_err());
    assert!(model.disturb(&[Stream { cpu: 4, bytes: 4096 }]).is_err());
    assert!(model.disturb(&[Stream { cpu: 1, bytes: u64::MAX }]).is_err());
    assert!(model.disturb(&[]).is_ok());
    d.memory.pages.truncate(1);
    let refusal = Model::new(&d, 1).map(&MapRequest { pages: Pages::Huge, ..request(4096) }).unwrap_err();
    assert!(refusal.remedy.contains("base pages"), "{refusal:?}");
}

#[test]
fn the_facts_state_the_description() {
    let d = bcm2837();
    let mut facts = std::collections::HashMap::new();
    Model::new(&d, 1)
        .facts(&mut |f| assert!(facts.insert(f.name.clone(), f.value).is_none(), "{} twice", f.name));
    assert_eq!(facts["machine.name"], FactValue::Text("bcm2837".into()));
    assert_eq!(facts["core.hz"], FactValue::Int(600_000_000));
    assert_eq!(facts["page.huge"], FactValue::Int(2 << 20));
    assert_eq!(facts["described.level.1.size"], FactValue::Int(d.levels[0].size));
    let FactValue::Text(file) = &facts["described.file"] else { panic!("text") };
    assert_eq!(Description::parse("bcm2837.toml", file).unwrap(), d);
}

#[test]
fn a_co_running_stream_takes_a_share_of_what_is_shared() {
    let d = bcm2837();
    let shared = d.levels.iter().find(|l| l.shared).expect("a shared L2");
    let time_and_accesses = |streams: &[Stream]| {
        let mut model = Model::new(&d, 1);
        let start = with_chain(&mut model, shared.size / 2, Pages::Huge, Order::Random);
        model.disturb(streams).unwrap();
        let lap = shared.size / 128;
        let end = model.chase(start, lap * 4);
        let before = model.clock();
        model.chase(end, lap * 4);
        (model.clock() - before, model.watch().accesses)
    };
    let (alone, few) = time_and_accesses(&[]);
    let (beside, many) = time_and_accesses(&[Stream { cpu: 1, bytes: shared.size * 4 }]);
    assert!(beside > alone + alone / 10, "{alone} {beside}");
    assert!(many > few + few / 10, "its accesses are counted: {few} {many}");
    assert_eq!(
        time_and_accesses(&[Stream { cpu: 1, bytes: shared.size * 4 }]),
        (beside, many),
        "deterministic"
    );
}

/// bcm2837 with one cache only, of 4 lines in 2 sets, LRU.
fn tiny(levels: usize) -> Description {
    let mut d = quiet(bcm2837());
    let mut level = d.levels[0].clone();
    level.holds = fathom_model::description::Holds::Unified;
    level.replacement = Replacement::Lru;
    level.ways = 2;
    d.levels = (0..levels)
        .map(|n| {
            let mut level = level.clone();
            level.name = format!("L{}", n + 1);
            level.size = (level.line * 4) << n;
            level
        })
        .collect();
    (d.tlbs, d.walk) = (Vec::new(), None);
    d
}

#[test]
fn a_copy_is_stale_after_a_write_behind_the_caches_until_it_leaves() {
    for levels in [1, 2] {
        let mut model = Model::new(&tiny(levels), 1);
        let line = model.description().levels[0].line;
        let load = |model: &mut Model, n: u64| model.access(0, n * line, Kind::Load).unwrap();
        assert!(!load(&mut model, 0).stale);
        model.written_behind(8, 8).unwrap();
        assert!(load(&mut model, 0).stale, "the copy is older than memory");
        assert!(!load(&mut model, 1).stale, "another line is not");
        // Two more lines of L1's set push it out of L1; with an L2 the old copy comes back from there.
        load(&mut model, 2);
        load(&mut model, 4);
        let again = load(&mut model, 0);
        assert_eq!((again.level, again.stale), if levels == 1 { (None, false) } else { (Some(1), true) });
        // Twenty lines push it out of everything.
        for n in 20..40 {
            load(&mut model, n);
        }
        assert!(!load(&mut model, 0).stale);
    }
}

#[test]
fn memory_is_not_current_while_a_dirty_copy_is_cached() {
    let mut model = Model::new(&tiny(2), 1);
    let line = model.description().levels[0].line;
    model.access(0, 0, Kind::Store).unwrap();
    assert!(!model.memory_is_current(0, 1).unwrap());
    assert!(model.memory_is_current(line, 4096).unwrap());
    for n in 1..40 {
        model.access(0, n * line, Kind::Load).unwrap();
    }
    assert!(model.memory_is_current(0, 4096).unwrap());
    assert!(model.memory_is_current(u64::MAX, 2).is_err());
    assert!(model.written_behind(0, 0).is_err());
}

#[test]
fn a_trial_begins_with_empty_caches() {
    let mut model = Model::new(&quiet(bcm2837()), 1);
    let lap = |model: &mut Model| {
        let start = with_chain(model, 4096, Pages::Base, Order::Sequential);
        let before = model.clock();
        let home = model.chase(start, 64);
        assert_eq!(home, start);
        model.clock() - before
    };
    let (first, again) = (lap(&mut model), lap(&mut model));
    assert_eq!(first, again, "laying a chain forgets what was cached");
}

/// Everything that can be seen from outside.
fn seen(model: &mut Model) -> (u64, Vec<(String, u64)>, u64) {
    let counts = model.counters().unwrap().into_iter().map(|c| (c.name, c.value)).collect();
    (model.clock(), counts, model.watch().accesses)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The batch chase against the generic body: time, counters and end cell, with streams or not.
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

/// One thing done to two models in two ways that must come out alike.
fn one_chunk(draw: &mut Draw, a: &mut Model, b: &mut Model, spots: &[u64]) {
    let run: Vec<u64> = (0..draw.below(40))
        .flat_map(|_| {
            // The same word again, its neighbours in the line, and other lines.
            let spot = draw.one_of(spots);
            (0..1 + draw.below(5)).map(move |n| spot + 8 * (n / 2)).collect::<Vec<_>>()
        })
        .collect();
    match draw.below(6) {
        0 => {
            let (cpu, kind) = (draw.below(2) as u32, draw.one_of(&[Kind::Store, Kind::Fetch, Kind::Load]));
            let at = draw.one_of(spots);
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

    /// The shortcut for a line loaded twice in a row changes nothing but the speed.
    #[test]
    fn loads_in_batches_and_one_by_one_are_equal(seed: u64) {
        let d = random_description(seed);
        let draw = &mut Draw::new(seed ^ 99);
        let (mut a, mut b) = (Model::new(&d, seed), Model::new(&d, seed));
        let arena = a.arena_bytes();
        let reach = 1 << (8 + draw.below(10));
        let starts = [0, arena / 2, arena / 4 * 3];
        let spots: Vec<u64> =
            (0..60).map(|_| (draw.one_of(&starts) + draw.below(reach) / 8 * 8).min(arena - 64)).collect();
        for chunk in 0..40 {
            one_chunk(draw, &mut a, &mut b, &spots);
            prop_assert_eq!(seen(&mut a), seen(&mut b), "chunk {}", chunk);
        }
    }
}

/// What a machine has gone through, and what its buffer holds.
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

/// Two models of a random machine with the same sweep laid, where it fits.
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

    /// The batch sweep against the generic body over real links: sums, time, counters and contents, with
    /// streams or not.
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

    /// A warm-up leaves what the accesses that it stands for would have left: from there on all costs the same.
    #[test]
    fn a_warm_up_line_by_line_leaves_what_every_access_leaves(seed: u64) {
        let mut d = random_description(seed);
        // These depend on when an access comes.
        d.memory.refresh = None;
        d.memory.spread = Time::ZERO;
        let draw = &mut Draw::new(seed ^ 98);
        let Some((mut a, mut b, sweep)) = with_sweep(&d, draw, seed) else { return Ok(()) };
        let cells = sweep.cells;
        for _ in 0..1 + draw.below(2) {
            a.warm(&sweep, 0, cells).unwrap();
            b.sweep(&sweep, 0, cells).unwrap();
        }
        // Other lines than the sweep's show which of its lines would leave first.
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
fn looking_at_a_cell_moves_nothing() {
    let mut model = Model::new(&bcm2837(), 1);
    let base = model.map(&request(4096)).expect("fits").base;
    let sweep = Sweep { base, stride: 64, cells: 64, operation: Operation::Write };
    model.initialise_sweep(&sweep, 1).expect("inside");
    model.sweep(&sweep, 64, 40).expect("inside");
    let before = seen(&mut model);
    let cell = model.cell(base).expect("mapped");
    let held = model.peek(cell);
    // The key of lap 1.
    assert_eq!(model.offset(held), base + 8);
    assert_eq!(seen(&mut model), before);
    model.follow(cell);
    assert_ne!(seen(&mut model), before);
}

#[test]
fn a_sweep_that_is_laid_replaces_what_it_overlaps_and_is_replaced() {
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
fn the_agent_with_the_smallest_clock_moves_next() {
    // Both chase in caches of their own at the same cost a load: neither gets ahead by more than one.
    let mut model = Model::new(&quiet(bcm2837()), 1);
    let start = with_chain(&mut model, 4096, Pages::Huge, Order::Random);
    model.chase(start, 64);
    model.disturb(&[Stream { cpu: 1, bytes: 4096 }]).unwrap();
    // The stream's first lap comes from memory, during which CPU 0 gets ahead; then they run level.
    let warm = model.chase(start, 20_000);
    let before = model.watch().accesses;
    model.chase(warm, 32_000);
    let others = model.watch().accesses - before - 32_000;
    assert!(others.abs_diff(32_000) <= 2, "{others}");
    model.disturb(&[]).unwrap();
    let before = model.watch().accesses;
    model.chase(warm, 1000);
    assert_eq!(model.watch().accesses - before, 1000, "stopped");
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
        // Two more lines of the first one's set: the one that was used after its fill stays.
        let mut load = |n: u64| model.access(0, base + n * line, Kind::Load).unwrap().level;
        (load(2), load(4), load(0))
    };
    assert_eq!(after(false), (None, None, Some(0)));
    assert_eq!(after(true), after(false));
}

/// A step between cells that suits the description.
trait Step {
    fn one_step(&self, draw: &mut Draw) -> u64;
}

impl Step for Description {
    fn one_step(&self, draw: &mut Draw) -> u64 {
        draw.one_of(&[8, 16, 64, 64, 128, 192, self.memory.pages[0]])
    }
}
