//! View of `stride`: the serving level of each working set, one heat map and one table per operation (working sets by
//! strides), and first touches.

use fathom_analysis::findings::{Axis, Finding, Report};
use fathom_analysis::metrics::stride as metrics;
use fathom_report::chart::{Chart, Kind, Scale, Series};
use fathom_report::finding_index::{FindingIndex, Row};
use fathom_report::heat_map::HeatMap;
use fathom_report::number::{self, Shown};
use fathom_report::page::{INTERVAL, Page, TextRole, left, measured, right};
use fathom_report::rows::show_rest;
use fathom_report::{fitted, notes};

use crate::{claims, latency_curve, prefetch};

/// One working set at one stride with one operation: time per access, time per line, and the ratio.
type Point<'a> = Row<'a, 3>;

/// The same at first touch: time per access, faults per page, and added time per page.
type Touch<'a> = Row<'a, 3>;

/// Order of the points.
const BY: [Axis; 3] = [Axis::Operation, Axis::Size, Axis::Stride];

/// Returns an operation as headings name it.
fn operation_name(operation: &str) -> &str {
    match operation {
        "read" => "Reads",
        "write" => "Writes",
        "rmw" => "Read-modify-writes",
        other => other,
    }
}

/// Renders the report: serving levels, sweeps, first touches, the curve of the coarse scan, prefetch, claims.
pub(crate) fn view(report: &Report, page: &mut Page) {
    let mut index = FindingIndex::new(report);
    serving_levels(page, &mut index);
    sweeps(page, &mut index);
    first_touches(page, &mut index);
    latency_curve::view::section(page, report, &mut index);
    prefetch::view::section(page, &mut index);
    claims::view::section(page, report, &mut index);
    show_rest(page, index, &[]);
}

/// Renders the level that serves each working set, and the line size seen there.
fn serving_levels(page: &mut Page, finding_index: &mut FindingIndex) {
    let levels = finding_index.of(&[&metrics::STRIDE_SERVED_BY]);
    let lines = finding_index.of(&[&metrics::STRIDE_LINE]);
    if levels.is_empty() && lines.is_empty() {
        return;
    }
    page.heading("Serving level by working set");
    let size = |f: &Finding| {
        let bytes = f.key.number(Axis::Size).map_or(f64::NAN, |bytes| bytes as f64);
        number::size(bytes, None, None).value
    };
    let level = |f: &&Finding| vec![size(f), number::value(f).value, f.notes.join("; ")];
    let rows: Vec<Vec<String>> = levels.iter().map(level).collect();
    if !rows.is_empty() {
        page.table(&[right("size").key(), left("served by").key(), left("evidence")], &rows, &[]);
    }
    for f in lines {
        let text = format!("{}: line {}: {}", size(f), number::value(f).value, f.notes.join("; "));
        page.text(TextRole::Plain, &text, "- ", "  ");
    }
}

/// Renders the tables of sweeps.
fn sweeps(page: &mut Page, finding_index: &mut FindingIndex) {
    let wanted = [&metrics::STRIDE_TIME_PER_ACCESS, &metrics::STRIDE_TIME_PER_LINE, &metrics::STRIDE_RATIO];
    let points = finding_index.rows(wanted, &BY);
    for of in points.chunk_by(|a, b| a.at(Axis::Operation) == b.at(Axis::Operation)) {
        table(page, &of[0].word(Axis::Operation), of);
    }
    if points.is_empty() {
        return;
    }
    if let Some(f) = finding_index.one(&metrics::STRIDE_LAPS_RATIO) {
        page.studies(|page| {
            let Shown { value, interval } = number::value(f);
            page.line(TextRole::Plain, "");
            let text = format!("{} {value} {interval}: {}", f.name(), f.notes.join("; "));
            page.text(TextRole::Plain, &text, "", "  ");
            fitted(page, [f]);
        });
    }
}

/// Returns the size cell of each row: empty where the row above has the same size.
fn sizes(rows: &[Row<3>]) -> Vec<String> {
    let mut before = None;
    let of = |row: &Row<3>| {
        let bytes = row.number(Axis::Size);
        let again = before.replace(bytes) == Some(bytes);
        if again { String::new() } else { number::size(bytes as f64, None, None).value }
    };
    rows.iter().map(of).collect()
}

/// Returns the findings of rows, each labelled with its size and stride.
fn labelled<'a>(rows: &[Row<'a, 3>]) -> Vec<(String, &'a Finding)> {
    let of = |row: &Row<'a, 3>| {
        let size = number::size(row.number(Axis::Size) as f64, None, None).value;
        let label = format!("{size} at {}", row.number(Axis::Stride));
        row.findings().map(|f| (label.clone(), f)).collect::<Vec<_>>()
    };
    rows.iter().flat_map(of).collect()
}

/// Returns the chart of time per access by stride, one curve per working set.
fn by_stride(operation: &str) -> Chart {
    let x = Scale::of(Axis::Stride, "stride").log().sizes();
    let caption = "Time per access by stride, one curve per working set; both axes logarithmic. It stops growing where each \
                   access is to a separate line.";
    let y = Scale::values("ns/access").log();
    Chart::new(format!("stride.{operation}"), Kind::Lines, x, y, caption).with(
        Series::of(&metrics::STRIDE_TIME_PER_ACCESS, "{size}").at(Axis::Operation, operation).by(Axis::Size),
    )
}

/// Returns the heat map of time per line, working sets by strides.
fn heat_chart(operation: &str) -> Chart {
    let x = Scale::of(Axis::Stride, "stride").sizes();
    let y = Scale::of(Axis::Size, "ns/line").sizes();
    let caption =
        "Time per touched line (ns), working sets by strides: darker is slower; colours are logarithmic.";
    Chart::new(format!("heat.{operation}"), Kind::HeatMap, x, y, caption)
        .label("{size} at a stride of {stride} B")
        .with(Series::of(&metrics::STRIDE_TIME_PER_LINE, "time per line").at(Axis::Operation, operation))
}

fn table(page: &mut Page, operation: &str, points: &[Point]) {
    page.heading(&format!("{} at a stride: time per access and per line", operation_name(operation)));
    // As text, the heat map and the table replace this chart.
    page.picture(by_stride(operation), Vec::new());
    let map = heat(points).draw(page.style().width, page.style().unicode);
    if !map.is_empty() {
        page.text(
            TextRole::Plain,
            "ns per touched line, working sets by strides; darker is slower (logarithmic):",
            "",
            "  ",
        );
        page.picture(heat_chart(operation), map);
        page.line(TextRole::Plain, "");
    }
    let mut rows = Vec::new();
    // Without intervals: these follow from the interval of the time per access.
    let ratios = number::column(points.iter().map(|p| p.of[2]));
    let lines = number::column(points.iter().map(|p| p.of[1]));
    for ((at, point), size) in points.iter().enumerate().zip(sizes(points)) {
        let [access, line, ratio] = point.of;
        let mut row = vec![size, point.number(Axis::Stride).to_string()];
        row.extend(number::cells(access));
        row.extend([(ratio, &ratios), (line, &lines)].map(|(f, shown)| match f {
            Some(_) => shown[at].clone(),
            None => String::new(),
        }));
        row.push(access.map(|f| f.count.to_string()).unwrap_or_default());
        rows.push(row);
    }
    let columns = [
        right("size").key(),
        right("stride").key(),
        measured("ns"),
        INTERVAL,
        right("ratio"),
        right("ns/line"),
        right("n"),
    ];
    page.table(&columns, &rows, &[]);
    if points.iter().any(|p| p.of[2].is_some()) {
        page.text(TextRole::Dim, "ratio: time per access, relative to the smallest stride", "  ", "    ");
    }
    notes(page, &labelled(points));
}

/// Returns the times per line by size and stride, for text.
fn heat(points: &[Point]) -> HeatMap {
    let ascending = |axis: Axis| {
        let all: std::collections::BTreeSet<u64> = points.iter().map(|p| p.number(axis)).collect();
        all.into_iter().collect::<Vec<u64>>()
    };
    let (rows, columns) = (ascending(Axis::Size), ascending(Axis::Stride));
    let cell = |bytes: u64, stride: u64| {
        let of = |p: &&Point| (p.number(Axis::Size), p.number(Axis::Stride)) == (bytes, stride);
        points.iter().find(of)?.of[1]?.finite().filter(|v| *v > 0.0)
    };
    let cells = rows.iter().map(|b| columns.iter().map(|s| cell(*b, *s)).collect()).collect();
    HeatMap { rows, columns, cells }
}

/// Renders the first touches, if measured.
fn first_touches(page: &mut Page, finding_index: &mut FindingIndex) {
    let wanted = [
        &metrics::STRIDE_FIRST_TOUCH_TIME_PER_ACCESS,
        &metrics::STRIDE_FIRST_TOUCH_FAULTS_PER_PAGE,
        &metrics::STRIDE_FIRST_TOUCH_ADDED_PER_PAGE,
    ];
    let touches = finding_index.rows(wanted, &BY);
    for of in touches.chunk_by(|a, b| a.at(Axis::Operation) == b.at(Axis::Operation)) {
        let operation = of[0].word(Axis::Operation);
        page.heading(&format!("{} at first touch: cost of page faults", operation_name(&operation)));
        first_touch_table(page, of);
    }
}

fn first_touch_table(page: &mut Page, touches: &[Touch]) {
    let mut rows = Vec::new();
    for (touch, size) in touches.iter().zip(sizes(touches)) {
        let [access, faults, added] = touch.of;
        let mut row = vec![size, touch.number(Axis::Stride).to_string()];
        row.extend(number::cells(access));
        row.push(faults.map(|f| number::value(f).value).unwrap_or_default());
        // Without interval: it follows from the interval of the time per access.
        row.push(added.map(|f| number::value(f).value).unwrap_or_default());
        row.push(access.map(|f| f.count.to_string()).unwrap_or_default());
        rows.push(row);
    }
    let columns = [
        right("size").key(),
        right("stride").key(),
        measured("ns"),
        INTERVAL,
        right("faults/page"),
        right("added ns/page"),
        right("n"),
    ];
    page.table(&columns, &rows, &[]);
    notes(page, &labelled(touches));
}
