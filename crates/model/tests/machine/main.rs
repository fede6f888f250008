//! The model as a machine of the probe: maps, chains, clock, refusals and the batch chase.

mod batches;
#[path = "../common/mod.rs"]
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

/// Maps memory and initialises a chain of whole lines over `bytes`. Returns the first cell.
fn with_chain(model: &mut Model, bytes: u64, pages: Pages, order: Order) -> fathom_model::Cell {
    let mapping = model.map(&MapRequest { pages, ..request(bytes) }).expect("fits");
    let chain = Chain::new(mapping.base, bytes / 64, 64, Layout::Packed, order, 5);
    model.initialise(&chain).expect("inside");
    model.cell(chain.at(0)).expect("mapped")
}

#[test]
fn empty_interval_reads_overhead_and_alu_exact_cycles() {
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
fn readings_never_decrease_with_jitter() {
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
fn chase_in_l1_costs_its_latency_and_outside_l1_more() {
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
fn initialising_a_chain_touches_no_cache_and_replaces_overlaps() {
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
fn equal_requests_get_equal_places_and_others_differ() {
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
fn impossible_requests_are_refused_with_remedy() {
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
fn facts_match_the_description() {
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
fn stream_on_another_cpu_slows_shared_levels_and_is_counted() {
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

/// Returns bcm2837 with one cache of 4 lines in 2 sets, LRU.
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
fn cached_copy_is_stale_after_uncached_write_until_evicted() {
    for levels in [1, 2] {
        let mut model = Model::new(&tiny(levels), 1);
        let line = model.description().levels[0].line;
        let load = |model: &mut Model, n: u64| model.access(0, n * line, Kind::Load).unwrap();
        assert!(!load(&mut model, 0).stale);
        model.written_behind(8, 8).unwrap();
        assert!(load(&mut model, 0).stale, "the copy is older than memory");
        assert!(!load(&mut model, 1).stale, "another line is not");
        // Two more lines of the set evict it from L1. With an L2, the stale copy comes back from there.
        load(&mut model, 2);
        load(&mut model, 4);
        let again = load(&mut model, 0);
        assert_eq!((again.level, again.stale), if levels == 1 { (None, false) } else { (Some(1), true) });
        // Twenty lines evict it from every level.
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
fn trial_starts_with_empty_caches() {
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

#[test]
fn checking_a_cell_changes_no_state() {
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
fn the_agent_with_the_smallest_clock_moves_next() {
    // Both chase in their own caches at the same cost per load: neither gets ahead by more than one.
    let mut model = Model::new(&quiet(bcm2837()), 1);
    let start = with_chain(&mut model, 4096, Pages::Huge, Order::Random);
    model.chase(start, 64);
    model.disturb(&[Stream { cpu: 1, bytes: 4096 }]).unwrap();
    // The first lap of the stream loads from memory, and CPU 0 gets ahead. After that both have the same rate.
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

/// Returns the observable state.
fn seen(model: &mut Model) -> (u64, Vec<(String, u64)>, u64) {
    let counts = model.counters().unwrap().into_iter().map(|c| (c.name.into_owned(), c.value)).collect();
    (model.clock(), counts, model.watch().accesses)
}
