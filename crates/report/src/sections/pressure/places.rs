//! All conditions: how late the task is under each, every place by itself, and what the load really did.

use fathom_analysis::findings::{Finding, Histogram};

use super::ridge;
use super::{Wakeups, column, nth};
use crate::number;
use crate::page::{Chart, Column, INTERVAL, Ink, Page, left, measured, right};
use crate::schema::values;
use crate::sections::notes;
use crate::sections::shelf::Shelf;

/// What is known of the latencies at a place.
pub(super) const STATISTICS: [&str; 13] = [
    "min",
    "mean",
    "stddev",
    "p50",
    "p90",
    "p99",
    "p999",
    "p9999",
    "p99999",
    "max",
    "missed",
    "p999_corrected",
    "hourly",
];
/// Columns of a place's table, and their heads.
const MOMENTS: [(&str, &str); 9] = [
    ("min", "min"),
    ("mean", "mean"),
    ("stddev", "stddev"),
    ("p50", "p50"),
    ("p90", "p90"),
    ("p99", "p99"),
    ("p999", "p99.9"),
    ("max", "max"),
    ("missed", "missed"),
];
/// Those of the task, whose others stand in a table of their own.
const TASK: [(&str, &str); 4] = [("min", "min"), ("mean", "mean"), ("stddev", "stddev"), ("p90", "p90")];
/// What takes long series, with heads.
const RARE: [(&str, &str); 4] = [
    ("p9999", "p99.99"),
    ("p99999", "p99.999"),
    ("p999_corrected", "p99.9 corrected"),
    ("hourly", "once an hour"),
];

/// What a place is called in a heading.
fn called(place: &str) -> &str {
    match place {
        "irq" => "in the timer's interrupt",
        "wake" => "where the task is made runnable",
        "kernel" => "where the CPU is handed to the task",
        "user" => "in the task",
        _ => "where the task's work is done",
    }
}

/// The tables and figures.
pub(super) fn section(page: &mut Page, wakeups: &Wakeups, histograms: &[Histogram], shelf: &mut Shelf) {
    task(page, wakeups, histograms);
    did(page, shelf);
    for place in ["kernel", "wake", "irq", "work"] {
        let conditions = wakeups.conditions(place);
        let drawn = ridge::of(place, histograms);
        if conditions.is_empty() && drawn.is_empty() {
            continue;
        }
        page.heading(&format!("Wake-up latency {}, {}", called(place), wakeups.unit()));
        picture(page, place, &drawn);
        let mut heads = MOMENTS;
        // Before the task, a period without an activation is one that the trace did not see.
        heads[8].1 = if place == "work" { "missed" } else { "not seen" };
        moments(page, wakeups, place, &conditions, &heads);
    }
    rare(page, wakeups);
}

/// The task: percentiles with the interval of the furthest that is usual, and the largest of so many.
fn task(page: &mut Page, wakeups: &Wakeups, histograms: &[Histogram]) {
    let conditions = wakeups.conditions("user");
    let drawn = ridge::of("user", histograms);
    if conditions.is_empty() && drawn.is_empty() {
        return;
    }
    page.heading(&format!("Wake-up latency {} under each condition, {}", called("user"), wakeups.unit()));
    picture(page, "user", &drawn);
    let of = |what: &str| conditions.iter().map(|c| wakeups.at("user", c, what)).collect::<Vec<_>>();
    let all = |what: &str| column(&of(what));
    let (p50, p99, max, missed) = (all("p50"), all("p99"), all("max"), all("missed"));
    let rows: Vec<Vec<String>> = (0..conditions.len())
        .map(|at| {
            let mut row = vec![conditions[at].to_owned(), p50[at].clone(), p99[at].clone()];
            row.extend(number::cells(of("p999")[at]));
            let seen = of("max")[at].map(|f| f.count.to_string()).unwrap_or_default();
            row.extend([max[at].clone(), seen, missed[at].clone()]);
            row
        })
        .collect();
    let columns = [
        left(""),
        right("p50"),
        right("p99"),
        measured("p99.9"),
        INTERVAL,
        right("max"),
        right("seen in"),
        right("missed"),
    ];
    page.table(&columns, &rows, &[]);
    let labelled = |what: &str| -> Vec<(String, &Finding)> {
        conditions.iter().filter_map(|c| Some(((*c).to_owned(), wakeups.at("user", c, what)?))).collect()
    };
    notes(page, &labelled("min"));
    notes(page, &labelled("max"));
    moments(page, wakeups, "user", &conditions, &TASK);
}

/// Distributions, a line a condition.
fn picture(page: &mut Page, place: &str, drawn: &[ridge::Line]) {
    if drawn.is_empty() {
        return;
    }
    // A terminal shows the task's alone: the others' tables say enough.
    if place != "user" {
        return page.picture(Chart::Wakeups(place.to_owned()), Vec::new());
    }
    let lines = ridge::draw(drawn, page.style().width, page.style().unicode);
    page.picture(Chart::Wakeups(place.to_owned()), lines);
    page.line(Ink::Plain, "");
}

/// Statistics by condition.
fn moments(
    page: &mut Page,
    wakeups: &Wakeups,
    place: &str,
    conditions: &[&'static str],
    heads: &[(&str, &'static str)],
) {
    let cells: Vec<Vec<String>> = heads
        .iter()
        .map(|(what, _)| column(&conditions.iter().map(|c| wakeups.at(place, c, what)).collect::<Vec<_>>()))
        .collect();
    let row = |at: usize| {
        std::iter::once(conditions[at].to_owned()).chain(cells.iter().map(|c| c[at].clone())).collect()
    };
    let rows: Vec<Vec<String>> = (0..conditions.len()).map(row).collect();
    let rows: Vec<Vec<String>> =
        rows.into_iter().filter(|row| row[1..].iter().any(|cell| !cell.is_empty())).collect();
    if rows.is_empty() {
        return;
    }
    let columns: Vec<Column> =
        std::iter::once(left("")).chain(heads.iter().map(|(_, head)| right(head))).collect();
    page.table(&columns, &rows, &[]);
}

/// What takes long series: far percentiles, missed periods counted as late, once an hour.
fn rare(page: &mut Page, wakeups: &Wakeups) {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut labelled: Vec<(String, &Finding)> = Vec::new();
    for place in values("PLACE") {
        for condition in wakeups.conditions(place) {
            let label = format!("{place}, {condition}");
            for (what, head) in RARE {
                let Some(f) = wakeups.at(place, condition, what) else { continue };
                let [value, interval] = number::cells(Some(f));
                let max = wakeups.at(place, condition, "max").map(|f| f.count.to_string());
                rows.push(vec![label.clone(), head.to_owned(), value, interval, max.unwrap_or_default()]);
                labelled.push((label.clone(), f));
            }
        }
    }
    if rows.is_empty() {
        return;
    }
    page.heading(&format!("The rare ones, {}", wakeups.unit()));
    let columns = [left("place, condition"), left(""), measured("late"), INTERVAL, right("seen in")];
    page.table(&columns, &rows, &[]);
    notes(page, &labelled);
}

/// What the load did, and who waited.
fn did(page: &mut Page, shelf: &mut Shelf) {
    let rates = shelf.take_by(|parts| match parts {
        ["pressure", condition, what] => Some((nth("CONDITION", condition)?, nth("RATE", what)?)),
        _ => None,
    });
    let stalls = shelf.take_by(|parts| match parts {
        ["stall", condition, what] => Some((nth("CONDITION", condition)?, nth("RESOURCE", what)?)),
        _ => None,
    });
    let mut conditions: Vec<usize> = rates.iter().chain(&stalls).map(|(key, _)| key.0).collect();
    conditions.sort_unstable();
    conditions.dedup();
    if conditions.is_empty() {
        return;
    }
    page.heading("What the load did in a second, and what tasks waited for");
    let of = |all: &[((usize, usize), &'_ Finding)], condition: usize, what: usize| {
        all.iter().find(|(key, _)| *key == (condition, what)).map(|(_, f)| number::value(f).value)
    };
    let rows: Vec<Vec<String>> = conditions
        .iter()
        .map(|&condition| {
            let mut row = vec![values("CONDITION")[condition].to_owned()];
            row.extend((0..4).map(|what| of(&rates, condition, what).unwrap_or_default()));
            row.extend((0..3).map(|what| of(&stalls, condition, what).unwrap_or_default()));
            row
        })
        .collect();
    let columns = [
        left(""),
        right("passes"),
        right("lines"),
        right("faults"),
        right("bytes"),
        right("cpu"),
        right("memory"),
        right("io"),
    ];
    page.table(&columns, &rows, &[]);
    page.text(
        Ink::Dim,
        "cpu, memory, io: share of the time in which some task waited for it (PSI)",
        "  ",
        "    ",
    );
}
