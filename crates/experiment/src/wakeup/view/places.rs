//! All conditions: how late the task is under each, every place by itself, and what the load really did.

use fathom_analysis::findings::{Axis, Coordinate, Finding, tokens};
use fathom_analysis::metrics::wakeup as metrics;
use fathom_analysis::metrics::wakeup::condition;

use super::ridge;
use super::{MAX, MEAN, MIN, P50, P90, P99, P999, STDDEV, Statistic, Wakeups, column};
use fathom_report::chart::{Chart, Kind, Scale, Series};
use fathom_report::finding_index::FindingIndex;
use fathom_report::notes;
use fathom_report::number;
use fathom_report::page::{Column, INTERVAL, Page, TextRole, left, measured, right};

/// Periods that had no activation, and activations in which the trace does not show a place.
const MISSED: (Statistic, &str) = (Statistic::Of(&metrics::WAKEUP_MISSED), "missed");
const UNTRACED: (Statistic, &str) = (Statistic::Of(&metrics::WAKEUP_UNTRACED), "not traced");
/// Columns of a place's table, and their heads.
const MOMENTS: [(Statistic, &str); 8] = [
    (MIN, "min"),
    (MEAN, "mean"),
    (STDDEV, "stddev"),
    (P50, "p50"),
    (P90, "p90"),
    (P99, "p99"),
    (P999, "p99.9"),
    (MAX, "max"),
];
/// Those of the task, whose others stand in a table of their own.
const TASK: [(Statistic, &str); 4] = [(MIN, "min"), (MEAN, "mean"), (STDDEV, "stddev"), (P90, "p90")];
/// What takes long series, with heads.
const RARE: [(Statistic, &str); 4] = [
    (Statistic::Quantile("p9999"), "p99.99"),
    (Statistic::Quantile("p99999"), "p99.999"),
    (Statistic::Of(&metrics::WAKEUP_P999_CORRECTED), "p99.9 corrected"),
    (Statistic::Of(&metrics::WAKEUP_RETURN_LEVEL_1H), "once an hour"),
];

/// What a place is called in a heading.
fn called(place: &str) -> &str {
    match place {
        "irq" => "in the timer's interrupt",
        "wake" => "where the task is made runnable",
        "switch" => "where the CPU is switched to the task",
        "kernel" => "of a task inside the kernel",
        "user" => "in the task",
        _ => "where the task's work is done",
    }
}

/// The tables and figures.
pub(super) fn section(page: &mut Page, wakeups: &Wakeups, finding_index: &mut FindingIndex) {
    task(page, wakeups, finding_index);
    did(page, finding_index);
    for place in ["kernel", "switch", "wake", "irq", "work"] {
        let conditions = wakeups.conditions(place);
        let drawn = ridge::of(place, finding_index);
        if conditions.is_empty() && drawn.is_empty() {
            continue;
        }
        page.heading(&format!("Wake-up latency {}, {}", called(place), wakeups.unit()));
        picture(page, wakeups, place, &drawn);
        moments(page, wakeups, place, &conditions, &MOMENTS, &[MISSED, UNTRACED]);
    }
    rare(page, wakeups);
}

/// The task: percentiles with the interval of the furthest that is usual, and the largest of so many.
fn task(page: &mut Page, wakeups: &Wakeups, finding_index: &mut FindingIndex) {
    let conditions = wakeups.conditions("user");
    let drawn = ridge::of("user", finding_index);
    if conditions.is_empty() && drawn.is_empty() {
        return;
    }
    page.heading(&format!("Wake-up latency {} under each condition, {}", called("user"), wakeups.unit()));
    picture(page, wakeups, "user", &drawn);
    let of = |what: Statistic| conditions.iter().map(|c| wakeups.at("user", c, what)).collect::<Vec<_>>();
    let all = |what: Statistic| column(&of(what));
    let (p50, p99, max, missed) = (all(P50), all(P99), all(MAX), all(MISSED.0));
    let rows: Vec<Vec<String>> = (0..conditions.len())
        .map(|at| {
            let mut row = vec![conditions[at].clone(), p50[at].clone(), p99[at].clone()];
            row.extend(number::cells(of(P999)[at]));
            let seen = of(MAX)[at].map(|f| f.count.to_string()).unwrap_or_default();
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
    let labelled = |what: Statistic| -> Vec<(String, &Finding)> {
        conditions.iter().filter_map(|c| Some((c.clone(), wakeups.at("user", c, what)?))).collect()
    };
    notes(page, &labelled(MIN));
    notes(page, &labelled(MAX));
    moments(page, wakeups, "user", &conditions, &TASK, &[UNTRACED]);
}

/// Conditions that are compared first; the others are behind their names.
const FIRST_SEEN: [&str; 3] = [condition::UNLOADED, condition::STRESS_MIX, condition::STRESS_MIX_VM];

/// Distributions at a place, one curve a condition.
fn distributions(place: &str, unit: &'static str) -> Chart {
    let caption = "Activations by wake-up latency, one curve a condition; both axes logarithmic. A name in the legend shows \
                   or hides its condition.";
    let series = Series::of(&metrics::WAKEUPS, "{condition}").at(Axis::Place, place).by(Axis::Condition);
    let (x, y) = (Scale::values(unit).log(), Scale::values("activations").log());
    Chart::new(format!("wakeups.{place}"), Kind::Distributions, x, y, caption)
        .with(series)
        .shown(FIRST_SEEN.map(str::to_owned))
}

/// Distributions, a line a condition.
fn picture(page: &mut Page, wakeups: &Wakeups, place: &str, drawn: &[ridge::Line]) {
    if drawn.is_empty() {
        return;
    }
    // A terminal shows the task's alone: the others' tables say enough.
    if place != "user" {
        return page.picture(distributions(place, wakeups.unit()), Vec::new());
    }
    let lines = ridge::draw(drawn, page.style().width, page.style().unicode);
    page.picture(distributions(place, wakeups.unit()), lines);
    page.line(TextRole::Plain, "");
}

/// Statistics by condition, and what of `lacking` a place has: periods that were missed, or not seen.
fn moments(
    page: &mut Page,
    wakeups: &Wakeups,
    place: &str,
    conditions: &[String],
    heads: &[(Statistic, &'static str)],
    lacking: &[(Statistic, &'static str)],
) {
    let has =
        |(what, _): &&(Statistic, &str)| conditions.iter().any(|c| wakeups.at(place, c, *what).is_some());
    let heads: Vec<(Statistic, &'static str)> =
        heads.iter().chain(lacking.iter().filter(has)).copied().collect();
    let cells: Vec<Vec<String>> = heads
        .iter()
        .map(|(what, _)| column(&conditions.iter().map(|c| wakeups.at(place, c, *what)).collect::<Vec<_>>()))
        .collect();
    let row = |at: usize| {
        std::iter::once(conditions[at].clone()).chain(cells.iter().map(|c| c[at].clone())).collect()
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
    for place in tokens::PLACE.values {
        for condition in wakeups.conditions(place) {
            let label = format!("{place}, {condition}");
            for (what, head) in RARE {
                let Some(f) = wakeups.at(place, &condition, what) else { continue };
                let [value, interval] = number::cells(Some(f));
                let max = wakeups.at(place, &condition, MAX).map(|f| f.count.to_string());
                rows.push(vec![label.clone(), head.to_owned(), value, interval, max.unwrap_or_default()]);
                labelled.push((label.clone(), f));
            }
        }
    }
    if rows.is_empty() {
        return;
    }
    page.heading(&format!("The rare ones, {}", wakeups.unit()));
    let columns =
        [left("place, condition").key(), left("").key(), measured("late"), INTERVAL, right("seen in")];
    page.table(&columns, &rows, &[]);
    notes(page, &labelled);
}

/// What the load did, and who waited.
fn did(page: &mut Page, finding_index: &mut FindingIndex) {
    let rates = finding_index.of(&[&metrics::LOAD_RATE]);
    let stalls = finding_index.of(&[&metrics::STALL]);
    let mut conditions: Vec<&Coordinate> =
        rates.iter().chain(&stalls).filter_map(|f| f.at(Axis::Condition)).collect();
    conditions.sort_unstable();
    conditions.dedup();
    if conditions.is_empty() {
        return;
    }
    page.heading("What the load did in a second, and what tasks waited for");
    // One cell a word, empty where it is not known.
    let cells = |all: &[&Finding], condition: &Coordinate, axis: Axis| -> Vec<String> {
        let here: Vec<&&Finding> = all.iter().filter(|f| f.at(Axis::Condition) == Some(condition)).collect();
        let of = |word: &&str| here.iter().find(|f| f.key.word(axis).is_some_and(|of| of == *word));
        let words = axis.tokens().map_or(&[][..], |words| words.values);
        words.iter().map(|word| of(word).map(|f| number::value(f).value).unwrap_or_default()).collect()
    };
    let rows: Vec<Vec<String>> = conditions
        .iter()
        .map(|condition| {
            let mut row = vec![condition.write(Axis::Condition)];
            row.extend(cells(&rates, condition, Axis::Rate));
            row.extend(cells(&stalls, condition, Axis::Resource));
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
        TextRole::Dim,
        "cpu, memory, io: share of the time in which some task waited for it (PSI)",
        "  ",
        "    ",
    );
}
