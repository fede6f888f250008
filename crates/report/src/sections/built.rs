//! How each level is built, and the rounds of reads that compete for a set.

use fathom_analysis::findings::{Finding, Value};

use super::notes;
use super::shelf::{Shelf, whole};
use crate::number;
use crate::page::{Ink, Page, left, measured, right};

/// Misses of study S1 in a million rounds, of eight reads and of nine, and its times in seconds.
const STUDY: [(u64, u64, f64); 2] = [(8, 37_103, 0.217_522_515), (9, 4_687_932, 0.248_132_105)];

/// The tables, where any level was taken apart.
pub fn section(page: &mut Page, shelf: &mut Shelf) {
    levels(page, shelf);
    evicted(page, shelf);
    pairs(page, shelf);
    rounds(page, shelf);
}

/// A number or a word as it stands in a cell; a dash where it was not found.
fn cell(finding: Option<&&Finding>) -> String {
    finding.map_or_else(|| "-".to_owned(), |f| number::value(f).value)
}

fn levels(page: &mut Page, shelf: &mut Shelf) {
    let mut found = shelf.take_by(|parts| match parts {
        ["line"] => Some((1, "line".to_owned())),
        ["tier", n, what @ ("line" | "ways" | "sets" | "policies")] => Some((whole(n)?, what.to_string())),
        _ => None,
    });
    if found.is_empty() {
        return;
    }
    found.sort_by_key(|(key, _)| key.0);
    page.heading("How each level is built, from what conflicts in it");
    let mut tiers: Vec<u64> = found.iter().map(|(key, _)| key.0).collect();
    tiers.dedup();
    let of = |n: u64, what: &str| found.iter().find(|(key, _)| key.0 == n && key.1 == what).map(|(_, f)| f);
    let rows: Vec<Vec<String>> = tiers
        .iter()
        .map(|&n| {
            let mut row = vec![n.to_string()];
            row.extend(["ways", "sets", "line", "policies"].map(|what| cell(of(n, what))));
            row
        })
        .collect();
    page.table(
        &[right("tier"), right("ways"), right("sets"), right("line"), left("replacement")],
        &rows,
        &[],
    );
    let labelled: Vec<(String, &Finding)> =
        found.iter().map(|((n, what), f)| (format!("tier {n} {what}"), *f)).collect();
    notes(page, &labelled);
}

fn evicted(page: &mut Page, shelf: &mut Shelf) {
    let found = shelf.take_by(|parts| match parts {
        ["evicted", n, behind, "share"] => Some((whole(n)?, whole(behind)?)),
        _ => None,
    });
    let mut tiers: Vec<u64> = found.iter().map(|(key, _)| key.0).collect();
    tiers.dedup();
    for tier in tiers {
        page.heading(&format!("Tier {tier}: which line is gone after fresh ones were loaded"));
        let of = found.iter().filter(|(key, _)| key.0 == tier);
        let rows: Vec<Vec<String>> = of
            .map(|((_, behind), f)| {
                let mut row = vec![behind.to_string()];
                row.extend(number::cells(Some(f)));
                row.push(f.count.to_string());
                row
            })
            .collect();
        page.table(&[right("loads ago"), measured("gone"), crate::page::INTERVAL, right("n")], &rows, &[]);
    }
}

fn pairs(page: &mut Page, shelf: &mut Shelf) {
    let found = shelf.take_by(|parts| match parts {
        ["pair", n, bytes, "time"] => Some((whole(n)?, whole(bytes)?)),
        _ => None,
    });
    let reach = shelf.take_by(|parts| match parts {
        ["pair", n, "reach"] => Some(whole(n)?),
        _ => None,
    });
    if found.is_empty() && reach.is_empty() {
        return;
    }
    page.heading("A load so many bytes after another, in working sets beyond each tier, ns");
    let mut tiers: Vec<u64> = found.iter().map(|(key, _)| key.0).collect();
    tiers.dedup();
    let mut distances: Vec<u64> = found.iter().map(|(key, _)| key.1).collect();
    distances.sort_unstable();
    distances.dedup();
    // More tiers than that no machine here has.
    let heads = ["tier 1", "tier 2", "tier 3", "tier 4"];
    let shown = || tiers.iter().copied().zip(heads);
    let mut columns = vec![right("bytes")];
    columns.extend(shown().map(|(_, head)| right(head)));
    let rows: Vec<Vec<String>> = distances
        .iter()
        .map(|&bytes| {
            let at = |n: u64| found.iter().find(|(key, _)| *key == (n, bytes)).map(|(_, f)| f);
            let mut row = vec![bytes.to_string()];
            row.extend(shown().map(|(n, _)| cell(at(n))));
            row
        })
        .collect();
    page.table(&columns, &rows, &[]);
    for (n, f) in &reach {
        page.text(
            Ink::Plain,
            &format!("Tier {n}: a load brings {} along.", number::value(f).value),
            "  ",
            "    ",
        );
    }
    let labelled: Vec<(String, &Finding)> = reach.iter().map(|(n, f)| (format!("tier {n}"), *f)).collect();
    notes(page, &labelled);
}

/// What is known of so many reads a round.
#[derive(Default)]
struct Round<'a> {
    misses: Option<&'a Finding>,
    time: Option<&'a Finding>,
    base_misses: Option<&'a Finding>,
    base_time: Option<&'a Finding>,
}

fn rounds(page: &mut Page, shelf: &mut Shelf) {
    let found = shelf.take_by(|parts| match parts {
        ["conflict", n, what @ ("misses_per_round" | "time_per_round")] => {
            Some((whole(n)?, false, what.to_string()))
        }
        ["conflict", n, "base", what @ ("misses_per_round" | "time_per_round")] => {
            Some((whole(n)?, true, what.to_string()))
        }
        _ => None,
    });
    let expected = shelf.take_all(|parts| match parts {
        ["conflict", n, "expected", _] => Some(whole(n)?),
        _ => None,
    });
    if found.is_empty() && expected.is_empty() {
        return;
    }
    let mut all: Vec<(u64, Round)> = Vec::new();
    for ((n, base, what), f) in found {
        if all.last().is_none_or(|(last, _)| *last != n) {
            all.push((n, Round::default()));
        }
        let Some((_, round)) = all.last_mut() else { continue };
        *(match (base, what == "time_per_round") {
            (false, false) => &mut round.misses,
            (false, true) => &mut round.time,
            (true, false) => &mut round.base_misses,
            (true, true) => &mut round.base_time,
        }) = Some(f);
    }
    page.heading("Rounds of independent reads 4 KiB apart: misses of the nearest level, and time");
    let per_read = |n: u64, f: Option<&Finding>| match f.map(|f| &f.value) {
        Some(Value::Number(ns)) => number::shown(ns / n as f64, None, None).value,
        _ => "-".to_owned(),
    };
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|(n, r)| {
            let mut row =
                vec![n.to_string(), cell(r.misses.as_ref()), cell(r.time.as_ref()), per_read(*n, r.time)];
            row.extend([cell(r.base_misses.as_ref()), cell(r.base_time.as_ref())]);
            row
        })
        .collect();
    let columns = [
        right("reads"),
        right("misses"),
        right("ns a round"),
        right("ns a read"),
        right("base: misses"),
        right("ns a round"),
    ];
    if !rows.is_empty() {
        page.table(&columns, &rows, &[]);
    }
    let labelled: Vec<(String, &Finding)> =
        all.iter().filter_map(|(n, r)| Some((format!("{n} reads"), r.misses?))).collect();
    notes(page, &labelled);
    by_policy(page, &all, &expected);
}

/// One line more than ways: what policies would do, and what the study printed.
fn by_policy(page: &mut Page, all: &[(u64, Round)], expected: &[(u64, &Finding)]) {
    let Some(&(n, _)) = expected.first() else { return };
    let policies: Vec<String> = expected
        .iter()
        .filter_map(|(_, f)| Some(format!("{} {}", f.name.rsplit('.').next()?, number::value(f).value)))
        .collect();
    page.text(
        Ink::Plain,
        &format!("{n} lines in {} ways, misses a round: {}.", n - 1, policies.join(", ")),
        "",
        "  ",
    );
    let time = |n: u64| match all.iter().find(|(m, _)| *m == n)?.1.time?.value {
        Value::Number(ns) => Some(ns),
        Value::Text(_) => None,
    };
    if let (Some(fits), Some(over)) = (time(n - 1), time(n))
        && n > 1
    {
        let text = format!(
            "A round of {n} takes {:+.1} % more than one of {}; the read more is {:+.1} % by itself.",
            100.0 * (over / fits - 1.0),
            n - 1,
            100.0 / (n - 1) as f64
        );
        page.text(Ink::Plain, &text, "", "  ");
    }
    if n == STUDY[1].0 {
        let [(_, few, short), (_, many, long)] = STUDY;
        let text = format!(
            "Study S1, on an L1 of 8 ways and 64 sets, a million rounds: {few} misses of 8 reads and {many} of 9 ({:.0} times), {:+.1} % time (published as +14.2 %); {:.2} misses a round, which no textbook policy gives.",
            many as f64 / few as f64,
            100.0 * (long / short - 1.0),
            many as f64 / 1e6
        );
        page.text(Ink::Dim, &text, "", "  ");
    }
}
