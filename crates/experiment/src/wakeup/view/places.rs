//! Sections by place and condition: latency in the task, latency at each earlier place, activity of the load.

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

/// Periods without activation, and activations in which the trace does not show a place.
const MISSED: (Statistic, &str) = (Statistic::Of(&metrics::WAKEUP_MISSED), "missed");
const UNTRACED: (Statistic, &str) = (Statistic::Of(&metrics::WAKEUP_UNTRACED), "untraced");
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
/// Additional statistics of the task; its main ones are in a separate table.
const TASK: [(Statistic, &str); 4] = [(MIN, "min"), (MEAN, "mean"), (STDDEV, "stddev"), (P90, "p90")];
/// Statistics that need long series, with heads.
const RARE: [(Statistic, &str); 4] = [
    (Statistic::Quantile("p9999"), "p99.99"),
    (Statistic::Quantile("p99999"), "p99.999"),
    (Statistic::Of(&metrics::WAKEUP_P999_CORRECTED), "p99.9 corrected"),
    (Statistic::Of(&metrics::WAKEUP_RETURN_LEVEL_1H), "once an hour"),
];

/// Returns a place's name in a heading.
fn place_phrase(place: &str) -> &str {
    match place {
        "irq" => "at the timer interrupt",
        "wake" => "when the task becomes runnable",
        "switch" => "at the switch to the task",
        "kernel" => "of a task inside the kernel",
        "user" => "in the task",
        _ => "after the task's work",
    }
}

/// Renders the tables and figures.
pub(super) fn section(page: &mut Page, wakeups: &Wakeups, finding_index: &mut FindingIndex) {
    task(page, wakeups, finding_index);
    load(page, finding_index);
    for place in ["kernel", "switch", "wake", "irq", "work"] {
        let conditions = wakeups.conditions(place);
        let drawn = ridge::of(place, finding_index);
        if conditions.is_empty() && drawn.is_empty() {
            continue;
        }
        page.heading(&format!("Wake-up latency {}, {}", place_phrase(place), wakeups.unit()));
        picture(page, wakeups, place, &drawn);
        moments(page, wakeups, place, &conditions, &MOMENTS, &[MISSED, UNTRACED]);
    }
    rare(page, wakeups);
}

/// Renders the task's latencies: percentiles, the interval of p99.9, and the maximum.
fn task(page: &mut Page, wakeups: &Wakeups, finding_index: &mut FindingIndex) {
    let conditions = wakeups.conditions("user");
    let drawn = ridge::of("user", finding_index);
    if conditions.is_empty() && drawn.is_empty() {
        return;
    }
    page.heading(&format!(
        "Wake-up latency {} under each condition, {}",
        place_phrase("user"),
        wakeups.unit()
    ));
    picture(page, wakeups, "user", &drawn);
    let of = |what: Statistic| conditions.iter().map(|c| wakeups.at("user", c, what)).collect::<Vec<_>>();
    let all = |what: Statistic| column(&of(what));
    let (p50, p99, max, missed) = (all(P50), all(P99), all(MAX), all(MISSED.0));
    let rows: Vec<Vec<String>> = (0..conditions.len())
        .map(|at| {
            let mut row = vec![conditions[at].clone(), p50[at].clone(), p99[at].clone()];
            row.extend(number::cells(of(P999)[at]));
            let activations = of(MAX)[at].map(|f| f.count.to_string()).unwrap_or_default();
            row.extend([max[at].clone(), activations, missed[at].clone()]);
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
        right("activations"),
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

/// Conditions that the chart shows at first; the others are enabled in its legend.
const SHOWN_AT_FIRST: [&str; 3] = [condition::UNLOADED, condition::STRESS_MIX, condition::STRESS_MIX_VM];

/// Returns the chart of the distributions at a place, one curve per condition.
fn distributions(place: &str, unit: &'static str) -> Chart {
    let caption = "Activations by wake-up latency, one curve per condition; both axes logarithmic. Click a name in the legend to show \
                   or hide its condition.";
    let series = Series::of(&metrics::WAKEUPS, "{condition}").at(Axis::Place, place).by(Axis::Condition);
    let (x, y) = (Scale::values(unit).log(), Scale::values("activations").log());
    Chart::new(format!("wakeups.{place}"), Kind::Distributions, x, y, caption)
        .with(series)
        .shown(SHOWN_AT_FIRST.map(str::to_owned))
}

/// Renders the distributions, a line per condition.
fn picture(page: &mut Page, wakeups: &Wakeups, place: &str, drawn: &[ridge::Line]) {
    if drawn.is_empty() {
        return;
    }
    // A terminal shows the distribution in the task only; the tables cover the others.
    if place != "user" {
        return page.picture(distributions(place, wakeups.unit()), Vec::new());
    }
    let lines = ridge::draw(drawn, page.style().width, page.style().unicode);
    page.picture(distributions(place, wakeups.unit()), lines);
    page.line(TextRole::Plain, "");
}

/// Renders a table of statistics by condition, with those of the `lacking` columns that the place has.
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

/// Renders the statistics that need long series: far percentiles, the correction for missed periods, the hourly level.
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
    page.heading(&format!("Rare latencies, {}", wakeups.unit()));
    let columns =
        [left("place, condition").key(), left("").key(), measured("latency"), INTERVAL, right("activations")];
    page.table(&columns, &rows, &[]);
    notes(page, &labelled);
}

/// Renders the activity of the load, and the stalls.
fn load(page: &mut Page, finding_index: &mut FindingIndex) {
    let rates = finding_index.of(&[&metrics::LOAD_RATE]);
    let stalls = finding_index.of(&[&metrics::STALL]);
    let mut conditions: Vec<&Coordinate> =
        rates.iter().chain(&stalls).filter_map(|f| f.at(Axis::Condition)).collect();
    conditions.sort_unstable();
    conditions.dedup();
    if conditions.is_empty() {
        return;
    }
    // One cell per token, empty if unknown.
    let cells = |all: &[&Finding], condition: &Coordinate, axis: Axis| -> Vec<String> {
        let here: Vec<&&Finding> = all.iter().filter(|f| f.at(Axis::Condition) == Some(condition)).collect();
        let of = |word: &&str| here.iter().find(|f| f.key.word(axis).is_some_and(|of| of == *word));
        let words = axis.tokens().map_or(&[][..], |words| words.values);
        words.iter().map(|word| of(word).map(|f| number::value(f).value).unwrap_or_default()).collect()
    };
    let rows = |all: &[&Finding], axis: Axis| -> Vec<Vec<String>> {
        let of = |condition: &&&Coordinate| all.iter().any(|f| f.at(Axis::Condition) == Some(**condition));
        let row = |condition: &&Coordinate| {
            let mut row = vec![condition.write(Axis::Condition)];
            row.extend(cells(all, condition, axis));
            row
        };
        conditions.iter().filter(of).map(row).collect()
    };
    if !rates.is_empty() {
        page.heading("Work of the load, per second");
        let columns = [left(""), right("passes"), right("lines"), right("faults"), right("bytes")];
        page.table(&columns, &rows(&rates, Axis::Rate), &[]);
    }
    if !stalls.is_empty() {
        page.heading("Share of the time in which some task waited (PSI)");
        let columns = [left(""), right("cpu"), right("memory"), right("io")];
        page.table(&columns, &rows(&stalls, Axis::Resource), &[]);
    }
}
