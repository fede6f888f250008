//! TLBs and page walk of a draft.
//!
//! A step of the translation curve is a TLB, unless it may be caused by page tables that leave a cache and the numbers
//! agree with that. A walk that fetches one descriptor from a level costs at least that level's latency before the
//! step, and at most the extra latency of the next level more after it.

use fathom_units::facts::ValueClass;

use super::{Grounds, Table, Written, pages, roundest, shortest, time};
use crate::findings::Finding;
use crate::hierarchy::{Hierarchy, Tlb, interval, value};
use crate::interval::Interval;
use crate::metrics::survey;

/// Bytes per page in a pair: a line of 64 bytes and a descriptor of eight.
const BYTES_PER_PAGE: f64 = 72.0;

/// Largest TLB that is assumed to be fully associative, entries.
const MAX_FULLY_ASSOCIATIVE: u64 = 64;

/// Smallest number of ways assumed for larger TLBs.
const MIN_WAYS: u64 = 4;

/// Factor that noise may add to a step.
const NOISE_FACTOR: f64 = 1.1;

/// Returns the tables of TLBs, nearest first, and that of the walk; none if no TLB was observed.
pub(super) fn tables(h: &Hierarchy, levels: &[Table]) -> (Vec<Table>, Option<Table>) {
    let leaving = (0..h.tlbs.len()).find_map(|at| Some((at, tier_left(h, at)?)));
    let steps = leaving.map_or(h.tlbs.len(), |(at, _)| at);
    let mut before: Option<&Tlb> = None;
    let mut tlbs = Vec::new();
    for (i, step) in h.tlbs[..steps].iter().enumerate() {
        tlbs.push(tlb(h, i + 1, step, before.map(|b| b.penalty)));
        before = Some(step);
    }
    let walk = before.map(|last| match leaving {
        Some((at, tier)) => walk_from(h, last, at, tier, levels),
        None => walk(h, last),
    });
    (tlbs, walk)
}

/// Returns the tier (from 0) that the page tables leave at this step. The step must be the last one, follow a TLB, and
/// be the only step that may be of that tier.
fn tier_left(h: &Hierarchy, at: usize) -> Option<usize> {
    let step = &h.tlbs[at];
    let before = &h.tlbs[at.checked_sub(1)?];
    if !step.maybe_tables || at + 1 < h.tlbs.len() {
        return None;
    }
    let tier = filled(h, step)?;
    // Page tables leave a cache once. If two steps may be that, either may be a TLB.
    if before.maybe_tables && filled(h, before) == Some(tier) {
        return None;
    }
    let here = value(h.tiers[tier].latency);
    let beyond = h.tiers.get(tier + 1).map_or(value(h.memory.latency), |t| value(t.latency));
    let (low, high) = (value(before.penalty), value(step.penalty));
    (low >= here && high - low <= NOISE_FACTOR * (beyond - here)).then_some(tier)
}

/// Returns the tier (from 0) whose capacity is nearest to the footprint of a step's pages.
fn filled(h: &Hierarchy, step: &Tlb) -> Option<usize> {
    let footprint = value(step.entries) * BYTES_PER_PAGE;
    let off = |i: &usize| {
        let capacity = h.tiers[*i].capacity.map_or(1.0, value);
        (footprint / capacity.max(1.0)).ln().abs()
    };
    (0..h.tiers.len()).min_by(|a, b| off(a).total_cmp(&off(b)))
}

fn tlb(h: &Hierarchy, n: usize, step: &Tlb, nearer: Option<&Finding>) -> Table {
    let mut table = Table::listed("tlb");
    table.word("name", &format!("TLB{n}"), Grounds::name("a placeholder; rename it"));
    let measured = interval(step.entries);
    let ways =
        h.number(survey::TLB_WAYS.at([n.into()])).filter(|f| (1.0..=65536.0).contains(&value(f).round()));
    let (entries, ways, of_entries, of_ways) = match ways {
        Some(f) => {
            let ways = value(f).round() as u64;
            let sets = roundest(measured.scaled(1.0 / ways as f64));
            let sets = sets.unwrap_or((measured.value / ways as f64).round().max(1.0) as u64);
            (sets * ways, ways, format!("{sets} sets of these ways"), Grounds::found(f, ""))
        }
        None => {
            let entries = roundest(measured).unwrap_or(measured.value.round().max(1.0) as u64);
            let (ways, of_ways) = assumed_ways(entries);
            (entries, ways, "the roundest number within the interval".to_owned(), of_ways)
        }
    };
    let doubt =
        if step.maybe_tables { "; it may be page tables leaving a cache instead of a TLB" } else { "" };
    table.put(
        "entries",
        Written::Count(entries),
        Grounds::found(step.entries, format!("{of_entries}{doubt}")),
    );
    table.put("ways", Written::Count(ways), of_ways);
    let held = "all; only the first was measured";
    table.put("pages", Written::Sizes(pages(h).0), Grounds::assumed(held));
    match nearer {
        Some(f) => table.put("latency", time(h, interval(f)), Grounds::found(f, "")),
        None => {
            let why = "the cost of the nearest TLB is included in the latencies here";
            table.put("latency", Written::Cycles(0.0), Grounds::assumed(why));
        }
    }
    table.word("replacement", "lru", Grounds::assumed("not measured"));
    table
}

/// Returns full associativity for a small TLB, else the smallest number of ways that gives a power of two of sets.
fn assumed_ways(entries: u64) -> (u64, Grounds) {
    if entries <= MAX_FULLY_ASSOCIATIVE {
        return (entries, Grounds::assumed("not measured; fully associative, as small ones are"));
    }
    let odd = entries >> entries.trailing_zeros();
    let ways = (0..=entries.trailing_zeros()).map(|shift| odd << shift).find(|ways| *ways >= MIN_WAYS);
    let why = format!("not measured; the smallest number from {MIN_WAYS} that gives a power of two of sets");
    (ways.unwrap_or(entries), Grounds::assumed(&why))
}

fn walk(h: &Hierarchy, last: &Tlb) -> Table {
    let mut table = Table::new("walk");
    table.put("fetches", Written::Count(0), Grounds::assumed("no step shows where tables are fetched from"));
    table.word("from", "none", Grounds::assumed("the whole cost is fixed"));
    table.put(
        "latency",
        time(h, interval(last.penalty)),
        Grounds::found(last.penalty, "cost of a miss of the last TLB"),
    );
    table
}

/// Returns the walk for page tables that leave `tier` at step `at`.
fn walk_from(h: &Hierarchy, last: &Tlb, at: usize, tier: usize, levels: &[Table]) -> Table {
    let name = levels.get(tier).and_then(|t| t.keys.first()).map(|k| k.value.clone());
    let mut table = Table::new("walk");
    table.put(
        "fetches",
        Written::Count(1),
        Grounds::assumed("the smallest number that explains the step below"),
    );
    let step = h.tlbs[at].entries;
    let why = "assumed to be page tables that leave this level; if it is a TLB, describe one";
    table.put(
        "from",
        name.unwrap_or(Written::Text("none".to_owned())),
        Grounds { class: Some(ValueClass::Assumed), ..Grounds::found(step, why) },
    );
    let (all, fetch) = (interval(last.penalty), value(h.tiers[tier].latency));
    let fixed = Interval { value: all.value - fetch, low: all.low - fetch, high: all.high - fetch };
    let fixed = Interval { low: fixed.low.max(0.0), ..fixed };
    let comment = "cost of a miss of the last TLB, less the fetch from that level";
    let value = match h.core_hz() {
        Some(hz) => Written::Cycles(shortest(fixed.scaled(value(hz) / 1e9))),
        None => Written::Ns(shortest(fixed)),
    };
    table.put("latency", value, Grounds::found(last.penalty, comment));
    table
}
