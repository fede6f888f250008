//! Levels of a draft, one per tier that has a capacity.

use fathom_units::exact;

use fathom_units::facts::ValueClass;

use super::{Grounds, Table, Written, claimed, roundest, time};
use crate::claims::Holds;
use crate::findings::Metric;
use crate::hierarchy::{Hierarchy, Tier, interval, value};
use crate::interval::Interval;
use crate::metrics::conflict;

/// Line size assumed if no source states one: that of nearly every machine of the last twenty years.
const DEFAULT_LINE: u64 = 64;

/// Smallest number of assumed ways: direct-mapped and two-way caches have become rare.
const MIN_WAYS: u64 = 4;

/// Largest number of assumed ways; beyond it, the number of sets need not be a power of two.
const MAX_WAYS: u64 = 32;

/// Number of ways assumed in that case.
const FALLBACK_WAYS: u64 = 16;

/// A geometry: size = line x ways x sets, with the source of each.
struct Geometry {
    size: u64,
    ways: u64,
    of_size: String,
    of_ways: Grounds,
}

/// Returns the levels, nearest first.
pub(super) fn levels(h: &Hierarchy, policies: &[&str]) -> Vec<Table> {
    let mut min_line = 0;
    let tiers = h.tiers.iter().enumerate();
    tiers
        .map(|(i, tier)| {
            let (table, line) = level(h, i + 1, tier, min_line, policies);
            min_line = line;
            table
        })
        .collect()
}

fn level(h: &Hierarchy, n: usize, tier: &Tier, min_line: u64, policies: &[&str]) -> (Table, u64) {
    let claims = claimed::of(h, n);
    let capacity = tier.capacity.map_or(Interval { value: 0.0, low: 0.0, high: 0.0 }, interval);
    let fitting = claimed::fitting(&claims, capacity);
    let mut table = Table::listed("level");
    let holds = match claims.iter().find_map(|c| Some((c.holds?, c.source))) {
        Some((holds, by)) => (holds, Grounds::claimed(format!("claimed by {by}, not measured"))),
        None if n == 1 => {
            (Holds::Data, Grounds::assumed("the nearest level usually has a separate cache for instructions"))
        }
        None => (Holds::Unified, Grounds::assumed("as levels beyond the nearest usually are")),
    };
    let name = if holds.0 == Holds::Data && n == 1 { "L1D".to_owned() } else { format!("L{n}") };
    table.word("name", &name, Grounds::name("a placeholder; rename it"));
    // What a level holds has no class in the format.
    table.word("holds", holds.0.token(), Grounds { class: None, ..holds.1 });
    let (line, of_line) = line(h, n, &claims, min_line);
    let g = geometry(h, n, line, capacity, &fitting);
    let agreement = claimed::agreement(&claims, |c| c.size, g.size, capacity, exact);
    let of_size = match tier.capacity {
        Some(f) => Grounds::found(f, format!("{}{agreement}", g.of_size)),
        None => Grounds::of(ValueClass::Assumed, g.of_size),
    };
    table.put("size", Written::Size(g.size), of_size);
    table.put("line", Written::Size(line), of_line);
    table.put("ways", Written::Count(g.ways), g.of_ways);
    table.put(
        "latency",
        time(h, interval(tier.latency)),
        Grounds::found(tier.cycles.unwrap_or(tier.latency), ""),
    );
    let (policy, of_policy) = replacement(h, n, policies);
    table.word("replacement", &policy, of_policy);
    table.word("write", "back", Grounds::assumed("a survey only loads"));
    table.put("allocate", Written::Flag(true), Grounds::assumed("a survey only loads"));
    let inclusion = if n == 1 { "nearest level" } else { "a survey cannot determine it" };
    table.word("inclusion", "neither", Grounds::assumed(inclusion));
    table.put("shared", Written::Flag(false), Grounds::assumed("one CPU was measured"));
    (table, line)
}

/// Returns the line: measured, claimed or assumed; not shorter than a nearer level's, because no machine has that.
fn line(h: &Hierarchy, n: usize, claims: &[claimed::Claim], min_line: u64) -> (u64, Grounds) {
    let sound = |line: u64| line.is_power_of_two() && (16..=4096).contains(&line);
    // Without a line per level, the line measured for the whole hierarchy is that of the nearest level.
    let measured = h.line(n);
    let (line, grounds) = if let Some(f) = measured.filter(|f| sound(value(f).max(0.0) as u64)) {
        let line = value(f) as u64;
        let agreement = claimed::agreement(claims, |c| c.line, line, interval(f), exact);
        (line, Grounds::found(f, agreement.trim_start_matches("; ")))
    } else if let Some((line, comment)) = claimed::unmeasured(claims, |c| c.line).filter(|c| sound(c.0)) {
        (line, Grounds::claimed(comment))
    } else if min_line > 0 {
        (min_line, Grounds::assumed("as the nearer level's; not measured"))
    } else {
        (DEFAULT_LINE, Grounds::assumed("not measured"))
    };
    if line < min_line {
        return (min_line, Grounds::assumed(&format!("as the nearer level's; {}", grounds.comment)));
    }
    (line, grounds)
}

fn geometry(h: &Hierarchy, n: usize, line: u64, capacity: Interval, fitting: &[claimed::Claim]) -> Geometry {
    let count = |metric: &'static Metric| {
        h.number(metric.at([n.into()])).filter(|f| (1.0..=65536.0).contains(&value(f).round()))
    };
    if let Some(f) = count(&conflict::TIER_WAYS) {
        let ways = value(f).round() as u64;
        let agreement = claimed::agreement(fitting, |c| c.ways, ways, interval(f), |v| v.to_string());
        let of_ways = Grounds::found(f, agreement.trim_start_matches("; "));
        let sets = count(&conflict::TIER_SETS).map(|f| value(f).round() as u64);
        return by_ways(line, ways, sets, capacity, of_ways);
    }
    if let Some((ways, comment)) = claimed::unmeasured(fitting, |c| c.ways).filter(|c| c.0 <= 65536) {
        return by_ways(line, ways, None, capacity, Grounds::claimed(comment));
    }
    by_size(line, capacity)
}

/// Computes a geometry with known ways: the roundest number of sets whose size is within the capacity's interval.
fn by_ways(line: u64, ways: u64, sets: Option<u64>, capacity: Interval, of_ways: Grounds) -> Geometry {
    let way = (line * ways) as f64;
    let inside = |sets: &u64| {
        let size = *sets as f64 * way;
        capacity.low <= size && size <= capacity.high
    };
    let (sets, of_size) = match (sets.filter(inside), roundest(capacity.scaled(1.0 / way))) {
        (Some(sets), _) => (sets, format!("{sets} sets, as measured")),
        (None, Some(sets)) => {
            (sets, format!("{sets} sets: the roundest number within the interval with these ways"))
        }
        (None, None) => {
            let sets = (capacity.value / way).round().clamp(1.0, 1e12) as u64;
            (
                sets,
                format!(
                    "{sets} sets: no whole number is within the interval with these ways; this is the nearest"
                ),
            )
        }
    };
    Geometry { size: line * ways * sets, ways, of_size, of_ways }
}

/// Computes a geometry with unknown ways: the roundest size, and the smallest number of ways that gives a power of two
/// of sets.
fn by_size(line: u64, capacity: Interval) -> Geometry {
    if let Some(size) = roundest(capacity).filter(|size| size.is_multiple_of(line)) {
        let lines = size / line;
        let odd = lines >> lines.trailing_zeros();
        let fits = |ways: &u64| lines.is_multiple_of(*ways) && (lines / ways).is_power_of_two();
        let ways = (0..6).map(|shift| odd << shift).filter(fits).find(|ways| *ways >= MIN_WAYS.min(lines));
        if let Some(ways) = ways.filter(|ways| *ways <= MAX_WAYS) {
            let of_size = match size >> size.trailing_zeros() {
                1 => "a power of two, the roundest size within the interval".to_owned(),
                odd => format!("{odd} x {}, the roundest size within the interval", exact(size / odd)),
            };
            let why = format!(
                "not measured; the smallest number from {MIN_WAYS} that gives a power of two of sets"
            );
            return Geometry { size, ways, of_size, of_ways: Grounds::assumed(&why) };
        }
    }
    let why = "not measured; no number up to 32 gives a power of two of sets inside the interval";
    by_ways(line, FALLBACK_WAYS, None, capacity, Grounds::assumed(why))
}

/// Returns the first policy that fits the measurement and that the format supports.
fn replacement(h: &Hierarchy, n: usize, policies: &[&str]) -> (String, Grounds) {
    let key = conflict::TIER_POLICIES.at([n.into()]);
    let name = key.name();
    let Some(found) = h.text(key) else {
        return ("lru".to_owned(), Grounds::assumed("not measured"));
    };
    let all: Vec<&str> = found.split(',').map(str::trim).filter(|p| !p.is_empty()).collect();
    let Some(first) = all.iter().find(|p| policies.contains(p)) else {
        let why = format!("{name} has {}, which the format does not support", all.join(", "));
        return ("lru".to_owned(), Grounds::assumed(&why));
    };
    let others: Vec<&str> = all.iter().copied().filter(|p| p != first).collect();
    let more = if others.is_empty() { String::new() } else { format!("; also fits {}", others.join(", ")) };
    ((*first).to_owned(), Grounds::of(ValueClass::Measured, format!("{name}{more}")))
}
