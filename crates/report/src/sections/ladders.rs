//! Ladders: the same loads under other orders, pages and placements, and with prefetchers off.

use fathom_analysis::findings::Finding;

use super::notes;
use super::shelf::{Shelf, whole};
use crate::number;
use crate::page::{INTERVAL, Page, measured, right};

/// One rung: its place in the table, its word, the mean and the peak.
struct Rung<'a> {
    ladder: String,
    bytes: u64,
    word: String,
    time: Option<&'a Finding>,
    peak: Option<&'a Finding>,
}

/// The table, where ladders were asked for.
pub fn section(page: &mut Page, shelf: &mut Shelf) {
    // In the order of the findings, which is that of the rungs.
    let mut rungs: Vec<Rung> = Vec::new();
    for (_, finding) in shelf.take_all(|parts| match parts {
        ["latency", bytes, "order" | "page" | "placement" | "prefetch", _, "time" | "peak"] => {
            whole(bytes).map(|_| ())
        }
        _ => None,
    }) {
        let parts: Vec<&str> = finding.name.split('.').collect();
        let [_, bytes, ladder, word, what] = parts.as_slice() else { continue };
        let Some(bytes) = whole(bytes) else { continue };
        // A second finding of one name is a row of its own.
        let same = |r: &Rung| {
            let taken = if *what == "time" { r.time } else { r.peak };
            taken.is_none() && (r.bytes, r.ladder.as_str(), r.word.as_str()) == (bytes, *ladder, *word)
        };
        if !rungs.last().is_some_and(same) {
            let (ladder, word) = (ladder.to_string(), word.to_string());
            rungs.push(Rung { ladder, bytes, word, time: None, peak: None });
        }
        let Some(rung) = rungs.last_mut() else { continue };
        if *what == "time" { rung.time = Some(finding) } else { rung.peak = Some(finding) }
    }
    if rungs.is_empty() {
        return;
    }
    for (ladder, what) in [
        ("order", "orders"),
        ("page", "pages"),
        ("placement", "placements"),
        ("prefetch", "prefetch, ascending"),
    ] {
        let of: Vec<&Rung> = rungs.iter().filter(|r| r.ladder == ladder).collect();
        if !of.is_empty() {
            page.heading(&format!("Ladder of {what}: mean of all loads, and the main peak of single ones"));
            table(page, &of);
        }
    }
}

fn table(page: &mut Page, rungs: &[&Rung]) {
    let refused = |f: &Finding| f.notes.iter().any(|note| note.starts_with("refused"));
    let mut before = None;
    let mut rows = Vec::new();
    for rung in rungs {
        let size = number::size(rung.bytes as f64, None, None).value;
        // The size once, so that the eye finds the groups.
        let mut row = vec![if before == Some(rung.bytes) { String::new() } else { size }, rung.word.clone()];
        before = Some(rung.bytes);
        row.extend(match rung.time {
            Some(f) if refused(f) => ["refused".to_owned(), String::new()],
            f => number::cells(f),
        });
        row.extend(number::cells(rung.peak));
        row.push(rung.time.filter(|f| !refused(f)).map(|f| f.count.to_string()).unwrap_or_default());
        rows.push(row);
    }
    let peak =
        rungs.iter().find_map(|r| r.peak).map_or("peak", |f| if f.unit == "ns" { "peak ns" } else { "peak" });
    let columns =
        [right("working set"), right("rung"), measured("ns"), INTERVAL, measured(peak), INTERVAL, right("n")];
    page.table(&columns, &rows, &[]);
    let labelled: Vec<(String, &Finding)> = rungs
        .iter()
        .flat_map(|r| {
            let label = format!("{}, {}", number::size(r.bytes as f64, None, None).value, r.word);
            [r.time, r.peak].into_iter().flatten().map(move |f| (label.clone(), f))
        })
        .collect();
    notes(page, &labelled);
}
