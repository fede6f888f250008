//! How each level is built: ways, sets, line, replacement; which lines leave a set; pairs of loads.

use fathom_analysis::findings::{Finding, Report, Value};

use super::notes;
use super::shelf::{Shelf, whole};
use crate::number;
use crate::page::{Chart, INTERVAL, Ink, Page, left, measured, right};

/// Columns of the longest bar.
const BAR: f64 = 20.0;

/// The nearest level, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nearest {
    /// Its ways.
    pub ways: Option<f64>,
    /// Bytes of one of its ways: its sets, a line each.
    pub way_bytes: Option<f64>,
}

/// The tables, where any level was taken apart; and what was found of the nearest one.
pub fn section(page: &mut Page, report: &Report, shelf: &mut Shelf) -> Nearest {
    let of_tiers = |f: &Finding| f.name.starts_with("tier.") || f.name == "line";
    let silent = report.refusals.is_empty() && !report.findings.iter().any(of_tiers);
    if report.experiment == "conflict" && silent && !report.findings.is_empty() {
        page.line(Ink::Plain, "");
        page.text(Ink::Warn, "No tiers were found, so nothing says how levels are built.", "", "  ");
    }
    let nearest = levels(page, shelf);
    evicted(page, shelf);
    pairs(page, shelf);
    nearest
}

/// A number or a word as it stands in a cell; a dash where it was not found.
fn cell(finding: Option<&&Finding>) -> String {
    finding.map_or_else(|| "-".to_owned(), |f| number::value(f).value)
}

fn levels(page: &mut Page, shelf: &mut Shelf) -> Nearest {
    let mut found = shelf.take_by(|parts| match parts {
        ["line"] => Some((1, "line".to_owned())),
        ["tier", n, what @ ("line" | "ways" | "sets" | "policies")] => Some((whole(n)?, what.to_string())),
        _ => None,
    });
    if found.is_empty() {
        return Nearest::default();
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
    let mut labelled = Vec::new();
    for ((n, what), f) in &found {
        let what = if what == "policies" { "replacement" } else { what.as_str() };
        let plain = f.notes.iter().filter(|note| deviance(note).is_none()).cloned().collect();
        labelled.push((format!("tier {n} {what}"), Finding { notes: plain, ..(*f).clone() }));
    }
    notes(page, &labelled.iter().map(|(label, f)| (label.clone(), f)).collect::<Vec<_>>());
    misfits(page, &found);
    let value = |what: &str| match of(1, what)?.value {
        Value::Number(v) if v.is_finite() && v > 0.0 => Some(v),
        _ => None,
    };
    Nearest {
        ways: value("ways"),
        way_bytes: value("sets").zip(value("line")).map(|(sets, line)| sets * line),
    }
}

/// What a note says of a policy's deviance: `lru: deviance 25.2 an ask`.
fn deviance(note: &str) -> Option<(&str, &str)> {
    note.strip_suffix(" an ask")?.split_once(": deviance ")
}

/// How far policies are from what was seen, a line a tier, and what the number means once.
fn misfits(page: &mut Page, found: &[((u64, String), &Finding)]) {
    let mut explained = false;
    for ((n, _), f) in found.iter().filter(|((_, what), _)| what == "policies") {
        let said: Vec<String> = f
            .notes
            .iter()
            .filter_map(|note| deviance(note))
            .map(|(policy, d)| format!("{policy} {d}"))
            .collect();
        if said.is_empty() {
            continue;
        }
        if !explained {
            let text = "deviance: how far a policy is from what the lines of a set did; about 1 or less where it \
                        explains that, and the larger the worse";
            page.text(Ink::Dim, text, "  ", "    ");
            explained = true;
        }
        page.text(Ink::Dim, &format!("tier {n} deviance: {}", said.join(", ")), "  ", "    ");
    }
}

fn evicted(page: &mut Page, shelf: &mut Shelf) {
    let found = shelf.take_by(|parts| match parts {
        ["evicted", n, behind, "share"] => Some((whole(n)?, whole(behind)?)),
        _ => None,
    });
    let mut tiers: Vec<u64> = found.iter().map(|(key, _)| key.0).collect();
    tiers.dedup();
    let block = if page.style().unicode { "\u{2588}" } else { "#" };
    for tier in tiers {
        page.heading(&format!("Tier {tier}: which line is gone after fresh ones were loaded"));
        let text = "Lines of one set were loaded, fresh ones and each once: so often was the line gone \
                    that was loaded so many loads before the last.";
        page.text(Ink::Plain, text, "", "  ");
        page.picture(Chart::Evicted(tier), Vec::new());
        let of = found.iter().filter(|(key, _)| key.0 == tier);
        let rows: Vec<Vec<String>> = of
            .map(|((_, behind), f)| {
                let share = match f.value {
                    Value::Number(v) if v.is_finite() => v.clamp(0.0, 1.0),
                    _ => 0.0,
                };
                let mut row = vec![behind.to_string()];
                row.extend(number::cells(Some(f)));
                row.extend([block.repeat((BAR * share).round() as usize), f.count.to_string()]);
                row
            })
            .collect();
        let columns =
            [right("loads ago"), measured("share gone"), INTERVAL, left("share to scale"), right("n")];
        page.table(&columns, &rows, &[]);
    }
}

/// Heads of columns; more tiers no machine here has.
const HEADS: [&str; 4] = ["tier 1, ns", "tier 2, ns", "tier 3, ns", "tier 4, ns"];

fn pairs(page: &mut Page, shelf: &mut Shelf) {
    // What no column is for stays on the shelf.
    let headed = |n: &str| whole(n).filter(|n| *n <= HEADS.len() as u64);
    let found = shelf.take_by(|parts| match parts {
        ["pair", n, bytes, "time"] => Some((headed(n)?, whole(bytes)?)),
        _ => None,
    });
    let reach = shelf.take_by(|parts| match parts {
        ["pair", n, "reach"] => Some(whole(n)?),
        _ => None,
    });
    if found.is_empty() && reach.is_empty() {
        return;
    }
    page.heading("Pairs of loads: time of the second by its distance from the first");
    let text =
        "In working sets beyond each tier. Where the second is fast, it finds what the first one brought.";
    page.text(Ink::Plain, text, "", "  ");
    page.picture(Chart::Pairs, Vec::new());
    let mut tiers: Vec<u64> = found.iter().map(|(key, _)| key.0).collect();
    tiers.dedup();
    let mut distances: Vec<u64> = found.iter().map(|(key, _)| key.1).collect();
    distances.sort_unstable();
    distances.dedup();
    let mut columns = vec![right("bytes apart")];
    columns.extend(tiers.iter().filter_map(|n| Some(right(HEADS.get(*n as usize - 1)?))));
    let mut rows: Vec<Vec<String>> = distances.iter().map(|bytes| vec![bytes.to_string()]).collect();
    for &n in &tiers {
        let at = |bytes: &u64| found.iter().find(|(key, _)| *key == (n, *bytes)).map(|(_, f)| *f);
        for (row, value) in rows.iter_mut().zip(number::column(distances.iter().map(at))) {
            row.push(value);
        }
    }
    page.table(&columns, &rows, &[]);
    for (n, f) in &reach {
        let text = format!("Tier {n}: a load brings {} along.", number::value(f).value);
        page.text(Ink::Plain, &text, "  ", "    ");
    }
    let labelled: Vec<(String, &Finding)> = reach.iter().map(|(n, f)| (format!("tier {n}"), *f)).collect();
    notes(page, &labelled);
}
