//! Comparison of the model with the reference model: every access, cost and counter, on random machines.

mod common;
#[path = "common/reference.rs"]
mod reference;

use common::{Draw, random_description};
use fathom_model::description::{
    DeviceCosts, Frames, Holds, Inclusion, Index, Level, Replacement, Through, Time, WalkFrom, Write,
};
use fathom_model::{Description, Kind, Model, Outcome, catalog};
use fathom_probe::machine::{Attribute, Counters, Machine, MapRequest, Pages};
use reference::{Reference, Seen};

const ACCESSES: u64 = 1500;

/// Addresses that a run accesses: a few pages, some of them huge, each with its attribute.
struct Places {
    ranges: Vec<(u64, u64, Attribute)>,
    huge: std::ops::Range<u64>,
}

/// Mask from an address in any window to the offset in the arena.
const PLACE: u64 = (1 << 40) - 1;

fn map(model: &mut Model, draw: &mut Draw) -> Places {
    let page = model.description().memory.pages[0];
    let mut ranges = Vec::new();
    for n in 0..6 {
        let attribute = if n < 3 { Attribute::WriteBack } else { draw.one_of(Attribute::ALL) };
        let request = MapRequest {
            bytes: page * (1 + draw.below(12)),
            pages: Pages::Base,
            attribute,
            place: draw.next(),
        };
        let Ok(mapping) = model.map(&request) else { continue };
        // Memory used with two attributes at once has undefined contents.
        let (start, end) = (mapping.base & PLACE, (mapping.base & PLACE) + mapping.bytes);
        let apart = |r: &(u64, u64, Attribute)| (r.0 & PLACE) >= end || (r.0 & PLACE) + r.1 <= start;
        if ranges.iter().all(apart) {
            ranges.push((mapping.base, request.bytes, attribute));
        }
    }
    let mut huge = 0..0;
    let all = MapRequest { bytes: 1, pages: Pages::Huge, attribute: Attribute::WriteBack, place: 0 };
    for place in 0..3 {
        let Ok(mapping) = model.map(&MapRequest { place, ..all }) else { break };
        ranges.push((mapping.base, 1 << (12 + draw.below(8)), Attribute::WriteBack));
        huge = if huge.is_empty() { mapping.base..mapping.base } else { huge };
        huge.start = huge.start.min(mapping.base);
        huge.end = huge.end.max(mapping.base + mapping.bytes);
    }
    let far = MapRequest { attribute: Attribute::NormalNc, place: 77, ..all };
    if let Ok(mapping) = model.map(&far)
        && ranges
            .iter()
            .all(|r| r.0 + r.1 <= mapping.base & PLACE || r.0 >= (mapping.base & PLACE) + (1 << 19))
    {
        ranges.push((mapping.base, 1 << (12 + draw.below(8)), far.attribute));
        let start = mapping.base & PLACE;
        huge = huge.start.min(start)..huge.end.max(start + mapping.bytes);
    }
    Places { ranges, huge }
}

/// Runs the model on `machine` and the reference model on `other`. Returns the first difference.
fn differ(machine: &Description, other: &Description, seed: u64, accesses: u64) -> Option<String> {
    let draw = &mut Draw::new(seed ^ 0xacce55);
    let mut model = Model::new(machine, seed);
    let places = map(&mut model, draw);
    let mut naive = Reference::new(other, seed, model.arena_bytes(), places.huge.clone());
    if draw.chance(2) {
        // Tracking of stale copies uses another code path through the levels, with the same results.
        model.written_behind(model.arena_bytes() - 8, 8).expect("inside");
    }
    let cpus = machine.core.cpus.min(2);
    let one_cpu = draw.chance(3);
    let spots: Vec<u64> = (0..1 + draw.below(300))
        .map(|_| {
            let (start, bytes, _) = draw.one_of(&places.ranges);
            start + draw.below(bytes) / 8 * 8
        })
        .collect();
    let (stores, fetches) = (draw.below(6), draw.below(3));
    let (mut at, mut straight) = (0, 0);
    for n in 0..accesses {
        // Runs of consecutive words, and jumps between a few hundred addresses.
        if straight == 0 {
            at = draw.one_of(&spots);
            straight = if draw.chance(8) { draw.below(20) } else { 1 };
        }
        straight -= u64::from(straight > 0);
        let kind = match draw.below(10) {
            roll if roll < stores => Kind::Store,
            roll if roll >= 10 - fetches => Kind::Fetch,
            _ => Kind::Load,
        };
        let cpu = if one_cpu { 0 } else { draw.below(u64::from(cpus)) as u32 };
        let range = places.ranges.iter().find(|(start, bytes, _)| (*start..start + bytes).contains(&at));
        let attribute = range.map_or(Attribute::WriteBack, |range| range.2);
        // Runs do not continue into memory with another attribute.
        let kind = if attribute == Attribute::WriteBack || kind != Kind::Fetch { kind } else { Kind::Load };
        let expected = naive.access(cpu, attribute, at & PLACE, kind);
        let outcome = model.access(cpu, at, kind).expect("inside");
        let Outcome { level, cost, walked, tlb_missed, .. } = outcome;
        let seen = Seen { level, cost, walked, tlb_missed };
        if seen != expected {
            return Some(format!("access {n}: CPU {cpu} {kind:?} {at:#x}: {seen:?}, naive {expected:?}"));
        }
        at += 8 << draw.below(4);
        if !places.ranges.iter().any(|&(start, bytes, _)| (start..start + bytes).contains(&at)) {
            straight = 0;
        }
    }
    if model.stalled() != naive.stalled() {
        return Some(format!("stalled {}, naive {}", model.stalled(), naive.stalled()));
    }
    if let Some(difference) = naive.differs_in_sharing(&model) {
        return Some(difference);
    }
    let counted: Vec<(String, u64)> =
        model.counters().unwrap().into_iter().map(|c| (c.name.into_owned(), c.value)).collect();
    let missing = |expected: &(String, u64)| (!counted.contains(expected)).then(|| format!("{expected:?}"));
    naive.counters().iter().find_map(missing).map(|first| format!("counted {counted:?}, naive {first}"))
}

/// All of 10,000 cases with `FATHOM_FULL`.
#[test]
fn model_equals_reference_on_random_machines() {
    let cases = if std::env::var_os("FATHOM_FULL").is_some() { 10_000 } else { 600 };
    for seed in 0..cases {
        let machine = random_description(seed);
        if let Some(difference) = differ(&machine, &machine, seed, ACCESSES) {
            panic!("seed {seed}: {difference}\n{}", machine.to_toml());
        }
    }
}

#[test]
fn model_equals_reference_on_committed_machines() {
    for name in catalog::names() {
        let machine = catalog::load(name).expect("listed").unwrap_or_else(|e| panic!("{e}"));
        if let Some(difference) = differ(&machine, &machine, 7, 2 * ACCESSES) {
            panic!("{name}: {difference}");
        }
    }
}

/// Change to a machine that plants a bug. Returns whether there was anything to change.
type Mutation = fn(&mut Description) -> bool;

fn levels(d: &mut Description, change: fn(&mut fathom_model::description::Level) -> bool) -> bool {
    d.levels.iter_mut().map(change).fold(false, |any, one| any | one)
}

/// Changes the policy of levels that have enough ways to show the difference.
fn replaced(d: &mut Description, from: Replacement, to: Replacement) -> bool {
    let mut any = false;
    for level in d.levels.iter_mut().filter(|l| l.replacement == from && l.ways > 2) {
        (level.replacement, any) = (to, true);
    }
    any
}

/// Bugs that the comparison must detect, each planted in the description of the reference model.
const BUGS: &[(&str, Mutation)] = &[
    ("lru levels replace as fifo", |d| replaced(d, Replacement::Lru, Replacement::Fifo)),
    ("nru levels replace as tree-plru", |d| replaced(d, Replacement::Nru, Replacement::TreePlru)),
    ("bit-plru levels replace as nru", |d| replaced(d, Replacement::BitPlru, Replacement::Nru)),
    ("nru-random levels replace as nru", |d| replaced(d, Replacement::NruRandom, Replacement::Nru)),
    ("not-mru-random levels replace as random", |d| {
        replaced(d, Replacement::NotMruRandom, Replacement::Random)
    }),
    ("srrip levels replace as qlru", |d| replaced(d, Replacement::Srrip, Replacement::Qlru)),
    ("qlru levels replace as srrip", |d| replaced(d, Replacement::Qlru, Replacement::Srrip)),
    ("hashed levels are indexed by bits", |d| {
        levels(d, |l| {
            l.size > l.line * u64::from(l.ways)
                && std::mem::replace(&mut l.index, Index::Bits) == Index::Hashed
        })
    }),
    ("frames are contiguous", |d| {
        !d.levels.is_empty()
            && std::mem::replace(&mut d.memory.frames, Frames::Contiguous) == Frames::Scattered
    }),
    ("lru TLBs replace as fifo", |d| {
        let hit = |t: &mut fathom_model::description::Tlb| {
            let hit = t.replacement == Replacement::Lru && t.ways > 1;
            t.replacement = if hit { Replacement::Fifo } else { t.replacement };
            hit
        };
        d.tlbs.iter_mut().map(hit).fold(false, |any, one| any | one)
    }),
    ("large pages are held whole", |d| {
        let split = |t: &mut fathom_model::description::Tlb| t.splits.take().is_some();
        d.tlbs.iter_mut().map(split).fold(false, |any, one| any | one)
    }),
    ("inclusion is not kept", |d| {
        levels(d, |l| std::mem::replace(&mut l.inclusion, Inclusion::Neither) == Inclusion::Inclusive)
    }),
    ("what includes data includes nothing", |d| {
        levels(d, |l| std::mem::replace(&mut l.inclusion, Inclusion::Neither) == Inclusion::InclusiveData)
    }),
    ("what includes data includes instructions", |d| {
        let split = d.levels.iter().any(|l| l.holds == Holds::Instructions);
        let change = |l: &mut Level| {
            let hit = l.inclusion == Inclusion::InclusiveData && l.holds == Holds::Unified;
            l.inclusion = if hit { Inclusion::Inclusive } else { l.inclusion };
            hit
        };
        split && levels(d, change)
    }),
    ("exclusive levels are filled", |d| {
        levels(d, |l| std::mem::replace(&mut l.inclusion, Inclusion::Neither) == Inclusion::Exclusive)
    }),
    ("write-back levels write through", |d| {
        levels(d, |l| std::mem::replace(&mut l.write, Write::Through) == Write::Back)
    }),
    ("every store allocates", |d| levels(d, |l| !std::mem::replace(&mut l.allocate, true))),
    ("walks go past the caches", |d| {
        let Some(walk) = &mut d.walk else { return false };
        let hit = matches!(walk.from, WalkFrom::Level(_));
        walk.from = if hit { WalkFrom::Memory } else { walk.from.clone() };
        hit
    }),
    ("a walk fetches one descriptor more", |d| {
        let Some(walk) = &mut d.walk else { return false };
        walk.fetches += u32::from(walk.fetches > 0);
        walk.fetches > 0
    }),
    ("rows are never open", |d| d.memory.rows.take().is_some()),
    ("memory is never refreshed", |d| d.memory.refresh.take().is_some()),
    ("nothing gathers", |d| {
        let Some(gathering) = &mut d.uncached.gathering else { return false };
        let hit = gathering.gather > 8;
        gathering.gather = 8;
        hit
    }),
    ("a buffer too many", |d| {
        d.uncached.gathering.as_mut().is_some_and(|g| {
            g.buffers += 1;
            g.drain != Time::ZERO
        })
    }),
    ("write-through is cached where it is not", |d| {
        let was = d.uncached.write_through;
        d.uncached.write_through = was.map(|_| Through::WriteThrough);
        was == Some(Through::NormalNc)
    }),
    ("a store costs what a load does", |d| {
        let nearest = d.levels.iter().find(|l| l.holds != Holds::Instructions).map(|l| l.latency);
        nearest.is_some() && d.core.store.take().is_some_and(|store| Some(store) != nearest)
    }),
    ("a device answers a store early", |d| {
        let hit = |device: &mut DeviceCosts| std::mem::take(&mut device.store) != Time::ZERO;
        d.uncached.device.as_mut().is_some_and(hit)
    }),
    ("nothing is prefetched", |d| d.core.streams.take().is_some()),
    ("runs of half as many streams are followed", |d| {
        let Some(streams) = &mut d.core.streams else { return false };
        let several = streams.number > 1;
        streams.number = streams.number.div_ceil(2);
        several
    }),
    ("private levels are shared", |d| {
        d.core.cpus > 1 && levels(d, |l| !std::mem::replace(&mut l.shared, true))
    }),
];

/// Machines with a planted bug after which a clear result ends the search for more.
const ENOUGH: u32 = 16;

#[test]
fn planted_bugs_are_detected() {
    for (bug, plant) in BUGS {
        let (mut planted, mut caught) = (0, 0);
        for seed in 0..240 {
            let machine = random_description(seed);
            let mut wrong = machine.clone();
            if plant(&mut wrong) {
                planted += 1;
                caught += u32::from(differ(&machine, &wrong, seed, ACCESSES).is_some());
            }
            // Twice the required share on enough machines: the others would not change the result.
            if planted >= ENOUGH && caught * 2 >= planted {
                break;
            }
        }
        println!("{bug}: caught in {caught} of {planted}");
        // Not on all machines: a policy matters only where a set overflows, and a row only where memory is accessed.
        assert!(planted >= 8 && caught * 4 >= planted, "{bug}: caught in {caught} of {planted}");
    }
}
