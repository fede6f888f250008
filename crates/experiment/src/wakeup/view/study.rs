//! Comparison with study S3: three loads, three places, each measured value above the published one.

use fathom_analysis::import::Place;
use fathom_analysis::import::study::{self, Column as Published, Load};
use fathom_analysis::metrics::wakeup::condition;

use super::{MAX, MEAN, MIN, P50, P99, P999, STDDEV, Statistic, Wakeups};
use fathom_report::number;
use fathom_report::page::{Column, Page, TextRole, left, right};

/// Columns: condition, place, head.
const COLUMNS: [(&str, &str, &str); 9] = [
    (condition::UNLOADED, "user", "no load\nuser"),
    (condition::UNLOADED, "switch", "no load\nswitch"),
    (condition::UNLOADED, "irq", "no load\nIRQ"),
    (condition::STRESS_MIX, "user", "mix\nuser"),
    (condition::STRESS_MIX, "switch", "mix\nswitch"),
    (condition::STRESS_MIX, "irq", "mix\nIRQ"),
    (condition::STRESS_MIX_VM, "user", "mix+vm\nuser"),
    (condition::STRESS_MIX_VM, "switch", "mix+vm\nswitch"),
    (condition::STRESS_MIX_VM, "irq", "mix+vm\nIRQ"),
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

/// The table, if a load of the study was measured; then the rows of the study whose meaning is disputed.
pub(super) fn section(page: &mut Page, wakeups: &Wakeups) {
    if !wakeups.studied() {
        return;
    }
    let unit = wakeups.unit();
    page.heading(&format!("Comparison with study S3: wake-up latency by load and place, {unit}"));
    // Instructions are not times: the study's values are not comparable.
    let comparable = unit == "us";
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
        if comparable && published.iter().any(|cell| !cell.is_empty()) {
            rows.push(row(format!("S3 {label}"), published.into_iter()));
        }
    }
    let columns: Vec<Column> = std::iter::once(left("")).chain(COLUMNS.iter().map(|c| right(c.2))).collect();
    page.table(&columns, &rows, &[(" S3 ", TextRole::Dim)]);
    if comparable {
        page.text(
            TextRole::Dim,
            &format!(
                "S3: published values of another machine, {}; negative if its timer expired early; under switch, a \
                 Xenomai task inside the kernel",
                study::MACHINE
            ),
            "  ",
            "    ",
        );
        disputed(page);
    }
}

fn row(label: String, cells: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(label).chain(cells).collect()
}

/// The published value; empty if there is none.
fn published(condition: &str, place: &str, what: &str) -> String {
    let load = match condition {
        condition::STRESS_MIX => Load::CpuIoDisk,
        condition::STRESS_MIX_VM => Load::CpuIoDiskVm,
        _ => return String::new(),
    };
    let place = match place {
        "irq" => Place::Irq,
        "switch" => Place::Kernel,
        "user" => Place::User,
        _ => return String::new(),
    };
    let column = study::PLACES.iter().find(|c| c.load == load && c.place == place);
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

/// A published value, with the study's digits.
fn printed(us: f64) -> String {
    format!("{us:.3}")
}

/// The study's rows whose meaning is disputed: its L2 on and off.
fn disputed(page: &mut Page) {
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
    page.text(TextRole::Plain, "Published by study S3 for its L2 on and off, disputed:", "", "  ");
    let columns = [left("").key(), left("stress").key(), right("min"), right("mean"), right("max")];
    page.table(&columns, &rows, &[("disputed", TextRole::Dim)]);
    page.text(TextRole::Dim, &format!("disputed: {}", study::WHY_DISPUTED), "  ", "    ");
}
