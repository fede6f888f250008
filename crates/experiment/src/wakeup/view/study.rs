//! Study S3's table: three loads, three places, and what the study printed beside what was measured.

use fathom_analysis::import::Place;
use fathom_analysis::import::study::{self, Column as Published, Load};

use super::{MAX, MEAN, MIN, P50, P99, P999, STDDEV, Statistic, Wakeups};
use fathom_report::number;
use fathom_report::page::{Column, Page, TextRole, left, right};

/// Columns: condition, place, head.
const COLUMNS: [(&str, &str, &str); 9] = [
    ("none", "user", "none\nuser"),
    ("none", "kernel", "none\nkernel"),
    ("none", "irq", "none\nIRQ"),
    ("study", "user", "study\nuser"),
    ("study", "kernel", "study\nkernel"),
    ("study", "irq", "study\nIRQ"),
    ("study-vm", "user", "study-vm\nuser"),
    ("study-vm", "kernel", "study-vm\nkernel"),
    ("study-vm", "irq", "study-vm\nIRQ"),
];
/// Rows, in the study's order, with the percentiles that it did not have.
const ROWS: [(&str, Statistic); 7] = [
    ("min", MIN),
    ("mean", MEAN),
    ("stddev", STDDEV),
    ("p50", P50),
    ("p99", P99),
    ("p99.9", P999),
    ("max", MAX),
];

/// The table, where the study's load was measured.
pub(super) fn section(page: &mut Page, wakeups: &Wakeups) {
    if !wakeups.studied() {
        return;
    }
    let unit = wakeups.unit();
    page.heading(&format!("No load, study S3's load, and the same with its memory workers: {unit}"));
    // Instructions are no times: nothing of the study's stands beside them.
    let beside = unit == "us";
    let mut rows = Vec::new();
    for (label, what) in ROWS {
        let cell = |(condition, place, _): &(&str, &str, &str)| {
            wakeups.at(place, condition, what).map(|f| number::value(f).value).unwrap_or_default()
        };
        let cells: Vec<String> = COLUMNS.iter().map(cell).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            rows.push(row(label.to_owned(), cells.into_iter()));
        }
        let published: Vec<String> = COLUMNS.iter().map(|c| published(c.0, c.1, label)).collect();
        if beside && published.iter().any(|cell| !cell.is_empty()) {
            rows.push(row(format!("S3 {label}"), published.into_iter()));
        }
    }
    let columns: Vec<Column> = std::iter::once(left("")).chain(COLUMNS.iter().map(|c| right(c.2))).collect();
    page.table(&columns, &rows, &[(" S3 ", TextRole::Dim)]);
    if beside {
        page.text(
            TextRole::Dim,
            &format!(
                "S3: study S3 as reference, another machine: {}; negative where its timer was programmed early",
                study::MACHINE
            ),
            "  ",
            "    ",
        );
    }
}

fn row(label: String, cells: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(label).chain(cells).collect()
}

/// What the study printed of it; empty where it printed nothing.
fn published(condition: &str, place: &str, what: &str) -> String {
    let load = match condition {
        "study" => Load::CpuIoDisk,
        "study-vm" => Load::CpuIoDiskVm,
        _ => return String::new(),
    };
    let column = study::PLACES.iter().find(|c| c.load == load && c.place.word() == place);
    column.and_then(|c| value(c, what)).map(printed).unwrap_or_default()
}

fn value(column: &Published, what: &str) -> Option<f64> {
    match what {
        "min" => Some(column.min_us),
        "mean" => Some(column.mean_us),
        "max" => Some(column.max_us),
        "stddev" => column.stddev_us,
        _ => None,
    }
}

/// With the digits that the study gave.
fn printed(us: f64) -> String {
    format!("{us:.3}")
}

/// The study's rows whose meaning is disputed, for the comparison of warm and cold.
pub(super) fn disputed(page: &mut Page) {
    let rows: Vec<Vec<String>> = study::DISPUTED
        .iter()
        .filter(|row| row.column.place == Place::User)
        .map(|row| {
            let load = row.column.load.arguments();
            let c = &row.column;
            let named = format!("S3 L2 {} (disputed)", if row.l2_on { "on" } else { "off" });
            let cells = [c.min_us, c.mean_us, c.max_us].map(printed);
            [vec![named, if load.is_empty() { "none".to_owned() } else { load.to_owned() }], cells.to_vec()]
                .concat()
        })
        .collect();
    page.text(
        TextRole::Plain,
        "What study S3 printed for its L2 on and off, as reference, another machine, disputed:",
        "",
        "  ",
    );
    let columns = [left("").key(), left("stress").key(), right("min"), right("mean"), right("max")];
    page.table(&columns, &rows, &[("disputed", TextRole::Dim)]);
    page.text(TextRole::Dim, &format!("disputed: {}", study::WHY_DISPUTED), "  ", "    ");
}
