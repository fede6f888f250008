//! Machines of the tests: committed descriptions and random ones.
//!
//! `ORACLE_ONLY=random-1007,haswell` selects machines, `ORACLE_FROM=2000` the first seed of random ones,
//! `ORACLE_COUNT=50` their number.

use fathom_model::catalog;
use fathom_model::description::Description;

use crate::random::{Spacing, description};

/// Returns the committed machine with this name.
pub fn machine(name: &str) -> Description {
    catalog::load(name).expect("it is committed").expect("and sound")
}

fn only(machines: impl Iterator<Item = Description>) -> Vec<Description> {
    let only = std::env::var("ORACLE_ONLY").ok();
    machines
        .filter(|d| only.as_ref().is_none_or(|names| names.split(',').any(|name| name == d.name)))
        .collect()
}

/// Returns the committed machines whose last level has at most `most` bytes.
pub fn committed(most: u64) -> Vec<Description> {
    let last = |d: &Description| d.levels.iter().map(|l| l.size).max().unwrap_or(0);
    only(catalog::names().map(machine).filter(|d| last(d) <= most))
}

/// Returns `count` random machines with clearly different levels.
pub fn randoms(count: u64) -> Vec<Description> {
    let of = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |n| n.parse().expect("ORACLE_FROM and ORACLE_COUNT are numbers"))
    };
    let from = of("ORACLE_FROM", 1000);
    only((0..of("ORACLE_COUNT", count)).map(|i| description(from + i, Spacing::Apart)))
}
