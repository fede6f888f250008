//! The survey's sections: staircase, translation, prefetch; and what every report has.

use fathom_analysis::findings::{Finding, Histogram, Refused, Report, Value, Warning};

use super::notes;
use super::picture::{Plateau, Plot, draw};
use super::shelf::{Shelf, whole};
use crate::number::{self, Shown};
use crate::page::{Chart, INTERVAL, Ink, Page, left, measured, right};
use crate::schema::values;

/// Rows of text that the staircase takes.
const STAIRS: usize = 12;

/// Rows of text of the smaller curve of what translation adds.
const SMALL: usize = 6;

/// A finding's value where it is a finite number.
fn finite(f: &Finding) -> Option<f64> {
    match f.value {
        Value::Number(v) if v.is_finite() => Some(v),
        _ => None,
    }
}

fn count(f: Option<&Finding>) -> String {
    f.map(|f| f.count.to_string()).unwrap_or_default()
}

/// What is known of one tier.
#[derive(Default)]
struct Tier<'a> {
    n: u64,
    latency: Option<&'a Finding>,
    cycles: Option<&'a Finding>,
    capacity: Option<&'a Finding>,
}

fn take_tiers<'a>(shelf: &mut Shelf<'a>) -> Vec<Tier<'a>> {
    let key = |parts: &[&str]| match parts {
        ["tier", n, what @ ("latency" | "latency_cycles" | "capacity")] => {
            Some((whole(n)?, what.to_string()))
        }
        _ => None,
    };
    let mut tiers: Vec<Tier> = Vec::new();
    for ((n, what), f) in shelf.take_by(key) {
        if tiers.last().is_none_or(|t| t.n != n) {
            tiers.push(Tier { n, ..Tier::default() });
        }
        let Some(tier) = tiers.last_mut() else { continue };
        match what.as_str() {
            "latency" => tier.latency = Some(f),
            "capacity" => tier.capacity = Some(f),
            _ => tier.cycles = Some(f),
        }
    }
    tiers
}

/// The curve's points, of which at least two must differ in size for a picture; else none are taken.
fn take_points<'a>(shelf: &mut Shelf<'a>) -> Vec<(u64, &'a Finding)> {
    shelf.take_by(|parts| match parts {
        ["latency", bytes, "time"] => whole(bytes),
        _ => None,
    })
}

/// Can it stand on a logarithmic axis?
fn on_log_axis(f: &Finding) -> Option<f64> {
    // Outside of these a double's logarithm still is exact, but no time is meant.
    finite(f).filter(|v| (1e-12..1e15).contains(v))
}

/// The staircase and the table of tiers.
pub fn staircase(page: &mut Page, report: &Report, shelf: &mut Shelf) {
    let points = take_points(shelf);
    let cycles = shelf.take_by(|parts| match parts {
        ["latency", bytes, "cycles"] => whole(bytes),
        _ => None,
    });
    let tiers = take_tiers(shelf);
    let (drawn, other): (Vec<_>, Vec<_>) = points.iter().partition(|(_, f)| on_log_axis(f).is_some());
    if drawn.len() >= 2 {
        picture(page, &drawn, &tiers);
        let labelled: Vec<(String, &Finding)> =
            points.iter().chain(&cycles).map(|(bytes, f)| (label(*bytes), *f)).collect();
        notes(page, &labelled);
    }
    // What the picture cannot show is shown in rows.
    let few: Vec<&Finding> = if drawn.len() >= 2 { &other } else { &points }.iter().map(|p| p.1).collect();
    if !few.is_empty() {
        page.heading("Latency by working set");
        rows(page, &few);
    }
    if drawn.len() < 2 && !cycles.is_empty() {
        page.heading("Latency by working set, core cycles");
        rows(page, &cycles.iter().map(|p| p.1).collect::<Vec<_>>());
    }
    if !tiers.is_empty() {
        table_of_tiers(page, report, &tiers);
    }
}

fn label(bytes: u64) -> String {
    number::size(bytes as f64, None, None).value
}

fn picture(page: &mut Page, drawn: &[(u64, &Finding)], tiers: &[Tier]) {
    let capacity = |t: &Tier| t.capacity.and_then(finite).filter(|v| *v >= 1.0);
    let mut plateaus = Vec::new();
    let mut from = None;
    for t in tiers {
        if let Some(f) = t.latency
            && let Some(y) = on_log_axis(f)
        {
            plateaus.push(Plateau { y, label: number::value(f).value, from, to: capacity(t) });
        }
        from = capacity(t);
    }
    let marks = tiers
        .iter()
        .filter_map(|t| Some((capacity(t)?, t.capacity.map(|f| number::value(f).value).unwrap_or_default())));
    let plot = Plot {
        points: drawn.iter().filter_map(|(bytes, f)| Some((*bytes as f64, finite(f)?))).collect(),
        plateaus,
        marks: marks.collect(),
        log_y: true,
        rows: STAIRS,
        x_label: number::short_size,
        y_label: |v| number::shown(v, None, None).value,
    };
    page.heading(&format!(
        "Latency of one load (ns) by working set, {} points, both axes logarithmic",
        drawn.len()
    ));
    page.picture(Chart::Staircase, draw(&plot, page.style().width, page.style().unicode));
}

fn table_of_tiers(page: &mut Page, report: &Report, tiers: &[Tier]) {
    page.heading(match report.worth.as_str() {
        "virtual" => "Tiers: the machine behaves like one with these",
        _ => "Tiers",
    });
    let row = |t: &Tier| {
        let mut row = vec![t.n.to_string()];
        row.extend(number::cells(t.capacity));
        if t.capacity.is_none() {
            row[1] = "-".to_string();
        }
        row.extend(number::cells(t.latency));
        row.extend(number::cells(t.cycles));
        row.push(count(t.latency.or(t.capacity).or(t.cycles)));
        row
    };
    let columns = [
        right("tier"),
        measured("capacity"),
        INTERVAL,
        measured("ns"),
        INTERVAL,
        measured("cycles"),
        INTERVAL,
        right("n"),
    ];
    page.table(&columns, &tiers.iter().map(row).collect::<Vec<_>>(), &[]);
    let mut labelled = Vec::new();
    for t in tiers {
        labelled.extend(
            [t.capacity, t.latency, t.cycles].into_iter().flatten().map(|f| (format!("tier {}", t.n), f)),
        );
    }
    notes(page, &labelled);
}

/// The TLBs, the walk, and the curve that they come from.
pub fn translation(page: &mut Page, shelf: &mut Shelf) {
    // Those for base pages first.
    let found = shelf.take_by(|parts| match parts {
        ["tlb", n, what @ ("entries" | "penalty" | "ways" | "sets")] => {
            Some((false, whole(n)?, what.to_string()))
        }
        ["tlb", "huge", n, what @ ("entries" | "penalty")] => Some((true, whole(n)?, what.to_string())),
        _ => None,
    });
    let none_huge = shelf.take("tlb.huge.pages");
    let walk = shelf.take("walk.latency");
    let share = shelf.take("walk.share");
    let pages = shelf.take_by(|parts| match parts {
        ["pages", n, "extra"] => whole(n),
        _ => None,
    });
    let alone = [walk, share, none_huge].iter().all(Option::is_none);
    if found.is_empty() && pages.is_empty() && alone {
        return;
    }
    page.heading("Translation: what the TLBs reach, and what a load pays beyond");
    let Tlbs { mut table, mut labelled, marks } = tlbs(&found);
    if let Some(walk) = walk {
        let [cost, cost_95] = number::cells(Some(walk));
        let mut row = vec!["walk".to_string()];
        row.resize(5, String::new());
        row.extend([cost, cost_95, count(Some(walk))]);
        table.push(row);
        labelled.push(("walk".to_string(), walk));
    }
    if !table.is_empty() {
        let columns = [
            left(""),
            measured("entries"),
            INTERVAL,
            right("ways"),
            right("sets"),
            measured("penalty ns"),
            INTERVAL,
            right("n"),
        ];
        page.table(&columns, &table, &[]);
    }
    if let Some(f) = none_huge {
        let text = format!("No rise was seen up to {} huge pages.", number::value(f).value);
        page.text(Ink::Plain, &text, "", "  ");
        labelled.push(("huge pages".to_string(), f));
    }
    if let Some(share) = share {
        let [value, interval] = number::cells(Some(share));
        let text = format!("Share of a far random load that is translation: {value} {interval}");
        page.text(Ink::Plain, &text, "", "  ");
        labelled.push(("share".to_string(), share));
    }
    notes(page, &labelled);
    curve_of_pages(page, &pages, marks);
}

/// Rows of the TLBs, what their notes are about, and where they end on the curve of pages.
struct Tlbs<'a> {
    table: Vec<Vec<String>>,
    labelled: Vec<(String, &'a Finding)>,
    marks: Vec<(f64, String)>,
}

/// By whether it is for huge pages, number and what is known of it.
fn tlbs<'a>(found: &[((bool, u64, String), &'a Finding)]) -> Tlbs<'a> {
    let mut table: Vec<Vec<String>> = Vec::new();
    let mut labelled: Vec<(String, &Finding)> = Vec::new();
    let mut marks = Vec::new();
    let mut numbers: Vec<(bool, u64)> = found.iter().map(|((huge, n, _), _)| (*huge, *n)).collect();
    numbers.dedup();
    for (huge, n) in numbers {
        let of = |key: &(bool, u64, String), what: &str| (key.0, key.1, key.2.as_str()) == (huge, n, what);
        let get = |what: &str| found.iter().find(|(key, _)| of(key, what)).map(|(_, f)| *f);
        let [entries, ways, sets, penalty] = ["entries", "ways", "sets", "penalty"].map(get);
        let name = if huge { format!("huge TLB {n}") } else { format!("TLB {n}") };
        let [[reach, reach_95], [cost, cost_95]] = [number::cells(entries), number::cells(penalty)];
        let [by, sets_of] = [ways, sets].map(|f| number::cells(f)[0].clone());
        let n = count(penalty.or(entries));
        table.push(vec![name.clone(), reach.clone(), reach_95, by, sets_of, cost, cost_95, n]);
        labelled.extend([entries, penalty].into_iter().flatten().map(|f| (name.clone(), f)));
        labelled.extend([ways, sets].into_iter().flatten().map(|f| (format!("{name} ways"), f)));
        marks.extend(entries.and_then(finite).filter(|v| *v >= 1.0 && !huge).map(|v| (v, reach)));
    }
    Tlbs { table, labelled, marks }
}

fn curve_of_pages(page: &mut Page, pages: &[(u64, &Finding)], marks: Vec<(f64, String)>) {
    let drawn: Vec<(f64, f64)> =
        pages.iter().filter_map(|(n, f)| Some((*n as f64, finite(f).filter(|v| v.abs() < 1e15)?))).collect();
    if drawn.len() < 2 || drawn.len() < pages.len() {
        if !pages.is_empty() {
            rows(page, &pages.iter().map(|p| p.1).collect::<Vec<_>>());
        }
        return;
    }
    let within = |x: f64| drawn[0].0 <= x && drawn.last().is_some_and(|last| x <= last.0);
    let plot = Plot {
        marks: marks.into_iter().filter(|(x, _)| within(*x)).collect(),
        points: drawn,
        plateaus: Vec::new(),
        log_y: false,
        rows: SMALL,
        x_label: |v| number::shown(v.round(), None, None).value,
        y_label: number::height,
    };
    page.text(Ink::Plain, "Added to a load (ns) by the number of pages it is spread over:", "", "  ");
    page.picture(Chart::Pages, draw(&plot, page.style().width, page.style().unicode));
    let labelled: Vec<(String, &Finding)> = pages.iter().map(|(n, f)| (format!("{n} pages"), *f)).collect();
    notes(page, &labelled);
}

/// Columns of the longest bar.
const BAR: f64 = 20.0;

/// The ladder of orders.
pub fn prefetch(page: &mut Page, shelf: &mut Shelf) {
    let steps = shelf.take_by(|parts| match parts {
        ["prefetch", order, "time"] => {
            // The schema's order is from the kindest to the hardest; words that it does not know follow.
            let rank = values("ORDER").iter().position(|o| o == order).unwrap_or(usize::MAX);
            Some((rank, order.to_string()))
        }
        _ => None,
    });
    if steps.is_empty() {
        return;
    }
    let positive = |f: &Finding| finite(f).filter(|v| *v > 0.0);
    let random = steps.iter().find(|((_, order), _)| order == "random").and_then(|(_, f)| positive(f));
    let most = steps.iter().filter_map(|(_, f)| positive(f)).fold(0.0, f64::max);
    let block = if page.style().unicode { "\u{2588}" } else { "#" };
    let row = |((_, order), f): &((usize, String), &Finding)| {
        let [value, interval] = number::cells(Some(f));
        let ratio = match (random, positive(f)) {
            (Some(random), Some(own)) => format!("{}x", number::shown_ratio(random / own)),
            _ => String::new(),
        };
        let bar = positive(f).map_or(0.0, |v| (BAR * (v / most)).round().max(1.0));
        vec![order.clone(), value, interval, ratio, block.repeat(bar as usize), count(Some(f))]
    };
    page.heading("What prefetch is worth: time of one load by order");
    let columns =
        [left("order"), measured("ns"), INTERVAL, right("random takes"), left("ns to scale"), right("n")];
    page.table(&columns, &steps.iter().map(row).collect::<Vec<_>>(), &[]);
    let labelled: Vec<(String, &Finding)> = steps.iter().map(|((_, order), f)| (order.clone(), *f)).collect();
    notes(page, &labelled);
    // What follows from them: a sentence each.
    for (name, says) in [
        ("prefetch.worth", "Random over ascending"),
        ("prefetch.reach.forward", "Reach forward, lines"),
        ("prefetch.reach.backward", "Reach backward, lines"),
        ("prefetch.temporal", "A new order each lap over one that comes again"),
    ] {
        if let Some(f) = shelf.take(name) {
            let Shown { value, interval } = number::value(f);
            let text = format!("{says}: {}", format!("{value} {interval}").trim());
            page.text(Ink::Plain, &format!("{text}; {}", f.notes.join("; ")), "", "  ");
        }
    }
}

/// Findings as they are: numbers as rows (name, value, interval, unit, count), texts as lines,
/// notes below.
pub fn rows(page: &mut Page, findings: &[&Finding]) {
    let (texts, numbers): (Vec<&Finding>, Vec<&Finding>) =
        findings.iter().partition(|f| matches!(f.value, Value::Text(_)));
    let row = |f: &&Finding| {
        let (Shown { value, interval }, unit) = number::in_cells(f);
        vec![f.name.clone(), value, interval, unit.to_string(), f.count.to_string()]
    };
    if !numbers.is_empty() {
        let columns = [left("finding"), measured("value"), INTERVAL, left("unit"), right("n")];
        page.table(&columns, &numbers.iter().map(row).collect::<Vec<_>>(), &[]);
    }
    for f in texts {
        let (Shown { value, interval }, unit) = number::in_cells(f);
        let all = format!("{}: {value} {interval} {unit}", f.name);
        page.text(Ink::Plain, &format!("{} (n {})", all.trim_end(), f.count), "", "  ");
    }
    let labelled: Vec<(String, &Finding)> = findings.iter().map(|f| (f.name.clone(), *f)).collect();
    notes(page, &labelled);
}

/// Whatever no section took: clocks, bias, and names that this renderer does not know.
pub fn rest(page: &mut Page, findings: &[&Finding]) {
    if findings.is_empty() {
        return;
    }
    let known = |f: &&Finding| f.name.starts_with("clock.") || f.name.starts_with("bias.");
    page.heading(if findings.iter().all(known) { "Clocks and bias" } else { "Other findings" });
    rows(page, findings);
}

/// Histograms by their ends; the counts themselves are in the JSON.
pub fn histograms(page: &mut Page, histograms: &[&Histogram]) {
    if histograms.is_empty() {
        return;
    }
    page.heading("Histograms (every count with --json)");
    let row = |h: &&Histogram| {
        let end = |at: Option<&(f64, u64)>| {
            at.map(|(v, _)| number::shown(*v, None, None).value).unwrap_or_default()
        };
        vec![
            h.name.clone(),
            number::size(h.bytes as f64, None, None).value,
            end(h.counts.first()),
            end(h.counts.last()),
            h.unit.to_string(),
            h.loads_per_sample.to_string(),
            h.counts.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n)).to_string(),
        ]
    };
    let columns = [
        left("histogram"),
        right("working set"),
        right("least"),
        right("most"),
        left("unit"),
        right("loads a sample"),
        right("n"),
    ];
    page.table(&columns, &histograms.iter().map(row).collect::<Vec<_>>(), &[]);
}

/// A statement and, on a line of its own, what to do about it.
fn item(page: &mut Page, mark: &str, text: &str, remedy: &str) {
    page.text(Ink::Warn, &format!("{mark}: {text}"), "- ", "  ");
    if !remedy.is_empty() {
        page.text(Ink::Plain, &format!("remedy: {remedy}"), "  ", "    ");
    }
}

/// Warnings with their remedies.
pub fn warnings(page: &mut Page, warnings: &[Warning]) {
    if warnings.is_empty() {
        return;
    }
    page.heading("Warnings");
    for w in warnings {
        item(page, w.token, &w.text, &w.remedy);
    }
}

/// What was refused, why, and what would help.
pub fn refusals(page: &mut Page, refusals: &[Refused]) {
    if refusals.is_empty() {
        return;
    }
    page.heading("Refused");
    for r in refusals {
        item(page, &r.what, &r.reason, &r.remedy);
    }
}
