//! The tables of a score.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::comparison::{Quantity, Row, Verdict};

/// The comparisons of one machine.
pub struct Machine {
    /// Its seed.
    pub seed: u64,
    /// All comparisons.
    pub rows: Vec<Row>,
    /// Accesses of its survey.
    pub accesses: u64,
}

/// The quantities with their names, in the order of the table.
const QUANTITIES: [(Quantity, &str); 12] = [
    (Quantity::TierCount, "tier count"),
    (Quantity::Latency, "latency of levels"),
    (Quantity::MemoryLatency, "latency of memory"),
    (Quantity::Capacity, "capacity"),
    (Quantity::Line, "line"),
    (Quantity::Ways, "ways"),
    (Quantity::Sets, "sets"),
    (Quantity::Policy, "policy"),
    (Quantity::TlbEntries, "TLB entries"),
    (Quantity::TlbPenalty, "TLB penalty"),
    (Quantity::TlbSets, "TLB ways and sets"),
    (Quantity::HugeEntries, "TLB entries, huge"),
];

/// Returns the Wilson interval of a share at 95 %, in percent.
fn wilson(hits: usize, of: usize) -> (f64, f64) {
    if of == 0 {
        return (0.0, 100.0);
    }
    let (z, n) = (1.959_964_f64, of as f64);
    let p = hits as f64 / n;
    let centre = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    (100.0 * (centre - half).max(0.0), 100.0 * (centre + half).min(1.0))
}

/// Returns a share as text: `95.0 % (90.1 to 97.6)`.
fn share(hits: usize, of: usize) -> String {
    let (low, high) = wilson(hits, of);
    match of {
        0 => "-".into(),
        _ => format!("{:.1} % ({low:.1} to {high:.1})", 100.0 * hits as f64 / of as f64),
    }
}

/// Returns whether a row is an error: a wrong value, or none where one is expected.
fn fails(row: &Row) -> bool {
    matches!(row.verdict, Verdict::Wrong | Verdict::Missing)
}

/// Notes that so many of the right values of a quantity have say nothing against a value.
const GENERIC_SHARE: f64 = 0.2;

/// Returns the words of a note without sizes and other numbers, so that equal notes of different machines are equal.
fn words(note: &str) -> String {
    let word = |word: &&str| {
        !word.contains(|c: char| c.is_ascii_digit())
            && !["B", "KiB", "MiB", "GiB"].contains(&word.trim_end_matches([',', ')']))
    };
    note.split_whitespace().filter(word).collect::<Vec<_>>().join(" ")
}

/// The notes that say nothing against a value: those that a fifth of the right values of its quantity have too.
struct Generic(BTreeSet<(Quantity, String)>);

impl Generic {
    fn of(machines: &[Machine]) -> Generic {
        let mut right: BTreeMap<Quantity, usize> = BTreeMap::new();
        let mut noted: BTreeMap<(Quantity, String), usize> = BTreeMap::new();
        for row in machines.iter().flat_map(|m| &m.rows).filter(|row| row.verdict == Verdict::Right) {
            *right.entry(row.quantity).or_default() += 1;
            let notes: BTreeSet<String> = row.notes.iter().map(|note| words(note)).collect();
            notes.into_iter().for_each(|note| *noted.entry((row.quantity, note)).or_default() += 1);
        }
        let common = |((quantity, _), count): &((Quantity, String), usize)| {
            *count as f64 >= GENERIC_SHARE * right.get(quantity).map_or(0.0, |right| *right as f64)
        };
        Generic(noted.into_iter().filter(common).map(|(note, _)| note).collect())
    }

    /// Returns whether a value has a note that doubts it.
    fn doubts(&self, row: &Row) -> bool {
        row.notes.iter().any(|note| !self.0.contains(&(row.quantity, words(note))))
    }

    fn silent(&self, row: &Row) -> bool {
        fails(row) && !self.doubts(row)
    }
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Returns one line of the table.
fn line(name: &str, rows: &[&Row], generic: &Generic) -> String {
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let decided: Vec<_> = rows.iter().filter_map(|row| row.covers()).collect();
    let covering = decided.iter().filter(|covers| **covers).count();
    let widths = rows.iter().filter_map(|row| {
        let (value, (low, high)) = row.found.and_then(|(value, interval)| Some((value, interval?)))?;
        (value.abs() > 0.0 && high.is_finite()).then(|| 100.0 * (high - low) / value.abs())
    });
    let width = median(&mut widths.collect::<Vec<_>>()).map_or("-".into(), |width| format!("{width:.2} %"));
    let doubted = rows.iter().filter(|r| r.verdict == Verdict::Right && generic.doubts(r)).count();
    format!(
        "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {width} |\n",
        count(Verdict::Right),
        count(Verdict::Wide),
        count(Verdict::Wrong),
        rows.iter().filter(|row| generic.silent(row)).count(),
        count(Verdict::Missing),
        count(Verdict::Refused),
        doubted,
        share(covering, decided.len()),
    )
}

/// Returns the whole score as text.
pub fn score(machines: &[Machine]) -> String {
    let mut text = String::from(
        "| quantity | right | wide | wrong | silent | missing | refused | right, but doubted | interval holds the truth | median width |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let generic = Generic::of(machines);
    for (quantity, name) in QUANTITIES {
        let rows: Vec<&Row> =
            machines.iter().flat_map(|m| &m.rows).filter(|row| row.quantity == quantity).collect();
        text += &line(name, &rows, &generic);
    }
    text += &totals(machines, &generic);
    list(&mut text, machines, "wrong or missing, and silent", |row| generic.silent(row));
    list(&mut text, machines, "wrong or missing, and doubted", |row| fails(row) && !generic.silent(row));
    let outside = "right, but the interval does not hold the truth";
    list(&mut text, machines, outside, |row| !fails(row) && row.covers() == Some(false));
    text
}

/// Returns the counts of whole machines.
fn totals(machines: &[Machine], generic: &Generic) -> String {
    let of = machines.len();
    let without =
        |error: &dyn Fn(&Row) -> bool| machines.iter().filter(|m| !m.rows.iter().any(error)).count();
    let accesses: u64 = machines.iter().map(|m| m.accesses).sum();
    let right = without(&fails);
    let narrow = without(&|row| fails(row) || row.verdict == Verdict::Wide);
    let silent = of - without(&|row| generic.silent(row));
    format!(
        "\nmachines with no value wrong or missing: {right} of {of}, {}\nand none wide: {narrow} of {of}, {}\nmachines with a \
         silent error: {silent} of {of}\naccesses: {:.1} million a machine\n",
        share(right, of),
        share(narrow, of),
        accesses as f64 / 1e6 / of.max(1) as f64
    )
}

/// Lists the rows that `listed` selects, with their notes.
fn list(text: &mut String, machines: &[Machine], title: &str, listed: impl Fn(&Row) -> bool) {
    let _ = writeln!(text, "\n{title}:");
    for machine in machines {
        for row in machine.rows.iter().filter(|row| listed(row)) {
            let interval = row.found.and_then(|(_, interval)| interval);
            let _ = write!(text, "  {}: {:?}: {}", machine.seed, row.quantity, row.text);
            let _ = match interval {
                Some((low, high)) => writeln!(text, "; interval {low:.3} to {high:.3}"),
                None => writeln!(text),
            };
            row.notes.iter().for_each(|note| *text += &format!("    note: {note}\n"));
        }
    }
}
