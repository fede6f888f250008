//! Memory that is not write-back: windows onto the same memory, costs, and attributes.

mod common;

use common::{Draw, random_description};
use fathom_model::description::{DeviceCosts, Gathering, Mixed, Through, Time, Uncached};
use fathom_model::{Cell, Description, GuestTranslation, Kind, Model, catalog};
use fathom_probe::chain::{Chain, Layout, Order};
use fathom_probe::machine::batch::copy::{self, Copying, EXTRA_SOURCE_CELLS};
use fathom_probe::machine::batch::stride::{self, Sweep, UNROLL};
use fathom_probe::machine::{
    Attribute, Control, Controls, Counters, Machine, Maintain, MapRequest, Mapping, Operation, Pages,
    Translate,
};
use proptest::prelude::*;

/// Returns a machine of 1 GHz with one level of 3 cycles, memory of 100 cycles and no TLB. Its costs can be computed by
/// hand.
fn plain() -> Description {
    let mut d = catalog::load("s1-8way").expect("embedded").expect("sound");
    d.core.clock_hz = 1e9;
    (d.core.alu, d.core.branch) = (Time::ZERO, Time::ZERO);
    d.levels.truncate(1);
    d.levels[0].latency = Time::cycles(3.0);
    (d.tlbs, d.walk) = (Vec::new(), None);
    (d.memory.latency, d.memory.spread) = (Time::cycles(100.0), Time::ZERO);
    (d.memory.rows, d.memory.refresh) = (None, None);
    d.core.maintain = Some(Time::cycles(7.0));
    d.uncached = Uncached {
        load: Some(Time::cycles(120.0)),
        gathering: Some(Gathering {
            store: Time::cycles(2.0),
            buffers: 2,
            gather: 32,
            drain: Time::cycles(40.0),
        }),
        device: Some(DeviceCosts { load: Time::cycles(130.0), store: Time::cycles(90.0) }),
        write_through: Some(Through::WriteThrough),
        mixed: Mixed::NormalNc,
    };
    d.check().unwrap_or_else(|flaw| panic!("{flaw}"));
    d
}

fn request(attribute: Attribute) -> MapRequest {
    MapRequest { bytes: 8192, pages: Pages::Base, attribute, place: 1 }
}

fn map(model: &mut Model, attribute: Attribute) -> Mapping {
    model.map(&request(attribute)).unwrap_or_else(|refusal| panic!("{refusal:?}"))
}

fn cell(model: &Model, offset: u64) -> Cell {
    model.cell(offset).expect("mapped")
}

/// Returns the time of an operation in whole cycles.
fn cycles<T>(model: &mut Model, what: impl FnOnce(&mut Model) -> T) -> u64 {
    let before = model.cycles();
    what(model);
    model.cycles() - before
}

fn load(model: &mut Model, at: u64) -> u64 {
    let at = cell(model, at);
    cycles(model, |m| m.follow(at))
}

fn store(model: &mut Model, at: u64) -> u64 {
    let at = cell(model, at);
    cycles(model, |m| m.link(at, at))
}

#[test]
fn equal_requests_share_memory_at_other_addresses() {
    let mut model = Model::new(&plain(), 1);
    let bases: Vec<u64> = Attribute::ALL.iter().map(|&a| map(&mut model, a).base).collect();
    let mut seen = Vec::new();
    for (&base, byte) in bases.iter().zip([0xff, 0xbb, 0x44, 0x00]) {
        let t = model.translated(base).expect("known");
        assert_eq!((t.va, t.mair), (base, Some(byte)));
        seen.push(t.pa);
    }
    assert!(seen.iter().all(|pa| pa.is_some() && *pa == seen[0]), "{seen:?}");
    // A value stored through one window is read through every other.
    for (n, &through) in bases.iter().enumerate() {
        let (at, to) = (cell(&model, through + 64), cell(&model, through + 8 * n as u64));
        model.link(at, to);
        for &other in &bases {
            let at = cell(&model, other + 64);
            assert_eq!(model.follow(at), to);
        }
    }
    assert_eq!(model.translated(1 << 39), None, "nothing is mapped there");
    assert_eq!(model.translated(7 << 40), None);
}

#[test]
fn a_chain_laid_through_a_window_is_read_through_another() {
    let mut model = Model::new(&plain(), 1);
    let [nc, wb] = [Attribute::NormalNc, Attribute::WriteBack].map(|a| map(&mut model, a).base);
    let chain = Chain::new(nc, 64, 64, Layout::Packed, Order::Random, 5);
    model.initialise(&chain).expect("inside");
    let (start, other) = (cell(&model, chain.at(0)), cell(&model, wb + chain.at(0) - nc));
    assert_eq!(model.chase(start, 640), start, "ten laps");
    assert_eq!(model.offset(model.clone().chase(start, 3)), chain.at(3));
    // A link holds an address of the window in which it was made: the second load is through the first window again.
    assert_eq!(model.offset(model.clone().chase(other, 3)), chain.at(3));
    assert_eq!(cycles(&mut model, |m| m.chase(start, 64)), 64 * 120);
}

#[test]
fn normal_nc_stores_gather_and_loads_wait_for_them() {
    let mut model = Model::new(&plain(), 1);
    let base = map(&mut model, Attribute::NormalNc).base;
    assert_eq!(load(&mut model, base), 120);
    assert_eq!(load(&mut model, base), 120, "nothing is kept");
    assert_eq!([0, 8, 16, 24, 0].map(|at| store(&mut model, base + at)), [2; 5], "one block of 32 bytes");
    assert_eq!(store(&mut model, base + 32), 2, "a second buffer");
    assert_eq!(store(&mut model, base + 64), 42, "the block that began first leaves");
    assert_eq!(store(&mut model, base + 32), 2, "that one still gathers");
    assert_eq!(load(&mut model, base + 128), 120, "no load waits for others' blocks");
    assert_eq!(load(&mut model, base + 40), 160, "but for its own");
    assert_eq!(load(&mut model, base + 40), 120);
    let count = |m: &mut Model, name: &str| {
        m.counters().unwrap().into_iter().find(|c| c.name == name).map(|c| c.value)
    };
    assert_eq!(count(&mut model, "memory.writes"), Some(2));
    assert_eq!(count(&mut model, "memory.reads"), Some(5));
    assert_eq!(count(&mut model, "refill.L1D"), Some(0));
}

#[test]
fn device_accesses_pay_one_by_one() {
    let mut model = Model::new(&plain(), 1);
    let base = map(&mut model, Attribute::Device).base;
    assert_eq!([0, 8, 0].map(|at| store(&mut model, base + at)), [90; 3]);
    assert_eq!([0, 0, 512].map(|at| load(&mut model, base + at)), [130; 3]);
}

#[test]
fn write_through_is_read_from_caches_and_stored_to_memory() {
    let mut d = plain();
    let mut model = Model::new(&d, 1);
    let base = map(&mut model, Attribute::WriteThrough).base;
    assert_eq!([load(&mut model, base), load(&mut model, base + 8)], [100, 3]);
    assert_eq!(
        [store(&mut model, base), load(&mut model, base)],
        [2, 3],
        "the level's copy is kept, and current"
    );
    assert_eq!(store(&mut model, base + 512), 2, "no line is read for a store");
    assert_eq!(load(&mut model, base + 512), 140, "memory answers, once the store has come there");
    map(&mut model, Attribute::WriteBack);
    let writebacks = |m: &mut Model| m.counters().unwrap().into_iter().find(|c| c.name == "writeback.L1D");
    assert_eq!(writebacks(&mut model).map(|c| c.value), Some(0), "nothing was dirty");
    d.uncached.write_through = Some(Through::NormalNc);
    let mut model = Model::new(&d, 1);
    let base = map(&mut model, Attribute::WriteThrough).base;
    assert_eq!([load(&mut model, base), load(&mut model, base)], [120; 2], "as normal-nc");
}

#[test]
fn memory_is_cleaned_before_its_attribute_changes() {
    let mut model = Model::new(&plain(), 1);
    let base = map(&mut model, Attribute::WriteBack).base;
    store(&mut model, base);
    assert_eq!(load(&mut model, base), 3);
    let before = model.clock();
    assert_eq!(map(&mut model, Attribute::WriteBack).base, base);
    assert_eq!(load(&mut model, base), 3, "the same attribute leaves everything");
    map(&mut model, Attribute::NormalNc);
    assert!(model.memory_is_current(base, 8).unwrap());
    map(&mut model, Attribute::WriteBack);
    assert_eq!(load(&mut model, base), 100, "the line is gone");
    assert_eq!(model.clock() - before, 103 << 12, "mapping takes no time");
    // Gathering stores are written out before the attribute of the memory changes.
    let nc = map(&mut model, Attribute::NormalNc).base;
    store(&mut model, nc);
    map(&mut model, Attribute::Device);
    map(&mut model, Attribute::NormalNc);
    assert_eq!(load(&mut model, nc), 120);
}

#[test]
fn mair_bytes_map_to_attributes() {
    let mut d = plain();
    let with = |d: &Description, mair: u8| {
        let mut model = Model::new(d, 1);
        model.control(&Controls { mair: Some(mair), ..Controls::default() }).map_err(|r| r.reason)?;
        let base = map(&mut model, Attribute::WriteBack).base;
        model.control(&Controls::default()).expect("as always");
        assert_eq!(model.translated(base).and_then(|t| t.mair), Some(mair));
        let first = load(&mut model, base);
        Ok::<_, std::borrow::Cow<'static, str>>([first, load(&mut model, base), store(&mut model, base)])
    };
    assert_eq!(with(&d, 0xff), Ok([100, 3, 3]));
    assert_eq!(with(&d, 0x77), Ok([100, 3, 3]), "hints aside");
    assert_eq!(with(&d, 0xbb), Ok([100, 3, 2]));
    assert_eq!(with(&d, 0x44), Ok([120, 120, 2]));
    assert_eq!(with(&d, 0x00), Ok([130, 130, 90]));
    assert_eq!(with(&d, 0x0c), Ok([130, 130, 90]), "all kinds of device memory are alike");
    assert_eq!(with(&d, 0x4f), Ok([120, 120, 2]), "unlike halves");
    assert!(with(&d, 0x40).unwrap_err().contains("reserved"));
    d.uncached.mixed = Mixed::Inner;
    assert_eq!(with(&d, 0x4f), Ok([100, 3, 3]));
    d.uncached.device = None;
    assert!(with(&d, 0x00).is_err());
}

#[test]
fn described_walks_bypass_the_caches() {
    let mut d = catalog::load("bcm2837").unwrap().unwrap();
    (d.memory.spread, d.core.clock_hz) = (Time::ZERO, 1e9);
    let nc = Controls { tables: Attribute::NormalNc, ..Controls::default() };
    let mut model = Model::new(&d, 1);
    model.control(&nc).expect("described");
    let base = map(&mut model, Attribute::WriteBack).base;
    let first = load(&mut model, base);
    let walked = |table: u64| 7 + table + 140;
    assert_eq!(first, walked(150));
    model.control(&Controls::default()).expect("as always");
    let mut model = Model::new(&d, 1);
    let base = map(&mut model, Attribute::WriteBack).base;
    assert_eq!(load(&mut model, base), walked(140), "through an empty L2");
    for tables in [Attribute::Device, Attribute::NormalNc] {
        d.walk.as_mut().unwrap().fetches = 0;
        d.walk.as_mut().unwrap().from = fathom_model::description::WalkFrom::Nowhere;
        let refusal = Model::new(&d, 1).control(&Controls { tables, ..Controls::default() }).unwrap_err();
        assert!(!refusal.remedy.is_empty());
    }
    assert!(model.control(&Controls { prefetch: false, ..Controls::default() }).is_ok());
}

#[test]
fn maintenance_costs_per_line_and_needs_a_description() {
    let mut d = plain();
    let mut model = Model::new(&d, 1);
    let base = map(&mut model, Attribute::WriteBack).base;
    store(&mut model, base);
    assert_eq!(cycles(&mut model, |m| m.clean_invalidate(base, 256).unwrap()), 4 * 7);
    assert!(model.memory_is_current(base, 8).unwrap());
    assert_eq!(load(&mut model, base), 100);
    assert!(model.clean_invalidate(base + 8192, 8).is_err());
    d.core.maintain = None;
    let mut model = Model::new(&d, 1);
    let base = map(&mut model, Attribute::WriteBack).base;
    assert!(model.clean_invalidate(base, 8).unwrap_err().remedy.contains("`maintain`"));
    assert!(model.control(&Controls { flush: true, ..Controls::default() }).is_err());
}

#[test]
fn a_flush_after_each_access_makes_each_a_miss() {
    let mut model = Model::new(&plain(), 1);
    model.control(&Controls { flush: true, ..Controls::default() }).expect("described");
    let base = map(&mut model, Attribute::WriteBack).base;
    let sweep = Sweep { base, stride: 8, cells: 100, operation: Operation::Rmw };
    model.initialise_sweep(&sweep, 1).unwrap();
    assert_eq!(cycles(&mut model, |m| m.sweep(&sweep, 100, 500)), 500 * (100 + 3 + 7));
    assert_eq!(model.clone().control(&Controls::default()), Ok(()));
}

#[test]
fn accesses_of_a_guest_cost_the_same_as_those_of_the_model() {
    let d = catalog::load("bcm2837").unwrap().unwrap();
    let (mut own, mut guest) = (Model::new(&d, 3), Model::new(&d, 3));
    let bases = Attribute::ALL.iter().map(|&a| own.map(&request(a)).unwrap().base).collect::<Vec<u64>>();
    let draw = &mut Draw::new(5);
    // The tables of the model are after its arena, those of each window after the previous ones. A walk reads one
    // descriptor.
    let tables = |va: u64| vec![(1 << 33) + (va >> 40 << 24) + ((va % (1 << 40)) >> 12) * 8];
    for _ in 0..5000 {
        let (n, at) = (draw.below(4) as usize, draw.below(1024) * 8);
        let kind = if draw.chance(3) { Kind::Store } else { Kind::Load };
        let va = bases[n] + at;
        let pa = va % (1 << 40);
        let mair = [0xff, 0xbb, 0x44, 0x00][n];
        // As page numbers, the windows of the guest have other places, but the same distances.
        let there = pa + (n as u64) * (own.arena_bytes().next_power_of_two());
        let descriptors = tables(va);
        let t = GuestTranslation { va: there, pa, page_bytes: 4096, mair, descriptors: &descriptors };
        let theirs = guest.issue(0, kind, &t, 8).expect("inside");
        let ours = own.access(0, va, kind).expect("inside");
        let of = |outcome: fathom_model::Outcome| (outcome.level, outcome.walked, outcome.tlb_missed);
        assert_eq!(of(theirs), of(ours));
    }
    assert!(own.cycles() > 0 && guest.cycles().abs_diff(own.cycles()) * 100 < own.cycles());
    let far = GuestTranslation { va: 1 << 60, pa: 0, page_bytes: 4096, mair: 0xff, descriptors: &[0] };
    assert!(guest.issue(0, Kind::Load, &far, 8).is_err());
    assert!(guest.issue(9, Kind::Load, &GuestTranslation { va: 0, ..far }, 8).is_err());
    assert!(guest.issue(0, Kind::Load, &GuestTranslation { va: 0, pa: 1 << 50, ..far }, 8).is_err());
    assert!(guest.issue(0, Kind::Load, &GuestTranslation { va: 0, mair: 0x40, ..far }, 8).is_err());
}

/// Returns the state of a model that a trial can observe.
fn state(model: &mut Model, range: std::ops::Range<u64>) -> (u64, Vec<(String, u64)>, Vec<u64>) {
    let counters = model.counters().unwrap().into_iter().map(|c| (c.name.into_owned(), c.value)).collect();
    let mut held = Vec::new();
    for at in range.step_by(8) {
        let cell = cell(model, at);
        let to = model.peek(cell);
        held.push(model.offset(to));
    }
    (model.clock(), counters, held)
}

/// Accesses 8 or 16 bytes by accesses of 8. An aligned access of 16 is in one line and one block and costs as much as
/// its first half. An unaligned one is two accesses.
fn wide(model: &mut Model, at: u64, bytes: u64, kind: Kind) {
    model.access(0, at, kind).unwrap();
    if bytes == 16 && at % 16 == 8 {
        model.access(0, at + 8, kind).unwrap();
    }
}

/// Returns two models of a random machine with all attributes and blocks of at least 16 bytes, and two mappings.
fn copied(seed: u64) -> Option<(Model, Model, Copying, Sweep)> {
    let mut d = random_description(seed);
    let draw = &mut Draw::new(seed ^ 0xc0b1);
    d.uncached = plain().uncached;
    let (mut a, mut b) = (Model::new(&d, seed), Model::new(&d, seed));
    let attribute = draw.one_of(Attribute::ALL);
    let cells = 1 + draw.below(700);
    let plain = MapRequest { bytes: (cells + EXTRA_SOURCE_CELLS) * 16, ..request(Attribute::WriteBack) };
    let other = MapRequest { attribute, ..plain };
    let (wb, un) = (a.map(&plain).ok()?.base, a.map(&other).ok()?.base);
    b.map(&plain).ok()?;
    b.map(&other).ok()?;
    let second = wb + (cells + EXTRA_SOURCE_CELLS) * 8;
    let (from, to) = if draw.chance(2) { (un, second) } else { (second, un) };
    let copying = Copying { from, to, cells };
    let step = if draw.chance(2) { 8 } else { 16 };
    let sweep = Sweep { base: un, stride: step, cells: 1 + cells * 8 / step / 2, operation: Operation::Set };
    Some((a, b, copying, sweep))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    /// Compares the batch copy with single accesses of 16 and 8 bytes and with links without cost.
    #[test]
    fn batch_and_plain_copies_are_equal(seed: u64) {
        let Some((mut a, mut b, copying, _)) = copied(seed) else { return Ok(()) };
        for model in [&mut a, &mut b] {
            model.initialise_sweep(&copying.source(), seed).unwrap();
        }
        let draw = &mut Draw::new(seed);
        // Compares the contents by the generic body.
        let mut contents = b.clone();
        let mut reached = 0;
        for _ in 0..4 {
            let n = draw.below(900);
            prop_assert_eq!(a.copy(&copying, reached, n), Some(()));
            for piece in copying.pieces(reached, n) {
                let mut nth = 0;
                while nth < piece.count {
                    let bytes = if (piece.count - nth) % 2 == 1 { 8 } else { 16 };
                    wide(&mut b, piece.from + 8 * nth, bytes, Kind::Load);
                    wide(&mut b, piece.to + 8 * nth, bytes, Kind::Store);
                    nth += bytes / 8;
                }
                b.charge(copy::loop_ops(piece.count));
            }
            prop_assert_eq!(copy::body(&mut contents, &copying, reached, n), Some(()));
            let all = copying.to..copying.to + 8 * copying.cells;
            prop_assert_eq!(state(&mut a, all.clone()).2, state(&mut contents, all).2);
            let (ours, theirs) = (state(&mut a, 0..0), state(&mut b, 0..0));
            prop_assert_eq!((ours.0, ours.1), (theirs.0, theirs.1));
            reached += n;
        }
    }

    /// Compares sets of two cells per store with single accesses. Charges are those of the generic loop.
    #[test]
    fn batch_and_plain_sets_are_equal(seed: u64) {
        let Some((mut a, mut b, _, sweep)) = copied(seed) else { return Ok(()) };
        for model in [&mut a, &mut b] {
            model.initialise_sweep(&sweep, seed).unwrap();
        }
        let n = 3 * sweep.cells + 7;
        prop_assert_eq!(a.sweep(&sweep, sweep.cells, n), Some(0));
        for part in sweep.parts(sweep.cells, n) {
            let odd = part.count % UNROLL;
            for nth in 0..part.count {
                // Cells are stored in pairs. An odd first cell is stored alone.
                let after = nth.checked_sub(part.count % 2);
                let bytes = match after {
                    Some(after) if sweep.stride == 8 && after % 2 == 1 => 0,
                    Some(_) if sweep.stride == 8 => 16,
                    _ => 8,
                };
                if bytes > 0 {
                    wide(&mut b, part.offset + nth * sweep.stride, bytes, Kind::Store);
                }
                if nth < odd {
                    b.charge(stride::loop_ops(&sweep, 1));
                } else if (nth + 1 - odd).is_multiple_of(UNROLL) {
                    b.charge(stride::loop_ops(&sweep, UNROLL));
                }
            }
        }
        let end = sweep.base + sweep.cells * sweep.stride;
        let held = state(&mut a, sweep.base..end).2;
        prop_assert_eq!((state(&mut a, 0..0).0, state(&mut a, 0..0).1), (b.clock(), state(&mut b, 0..0).1));
        let expected = (0..sweep.cells).map(|i| sweep.base + 8 * sweep.expected_word(i, sweep.cells + n));
        let found = held.into_iter().step_by(sweep.stride as usize / 8);
        prop_assert!(found.zip(expected).all(|(found, expected)| found == expected));
    }
}
