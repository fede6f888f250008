//! Strides: what serves loads at each size; a heat map and a table an operation, working sets by strides; first touches.

use fathom_analysis::findings::{Axis, Finding, Report};
use fathom_analysis::metrics::stride as metrics;
use fathom_report::chart::{Chart, Kind, Scale, Series};
use fathom_report::finding_index::{FindingIndex, Row};
use fathom_report::heat_map::HeatMap;
use fathom_report::notes;
use fathom_report::number::{self, Shown};
use fathom_report::page::{INTERVAL, Page, TextRole, measured, right};
use fathom_report::rows::show_rest;

use crate::{claims, latency_curve, prefetch};

/// One working set at one step with one operation: time an access, time a line, and the ratio.
type Point<'a> = Row<'a, 3>;

/// The same, touched for the first time: time an access, faults a page, and what they add.
type Touch<'a> = Row<'a, 3>;

/// In which order points are listed.
const BY: [Axis; 3] = [Axis::Operation, Axis::Size, Axis::Stride];

/// The operations' words for people.
fn spoken(operation: &str) -> &str {
    match operation {
        "read" => "Reads",
        "write" => "Writes",
        "rmw" => "Read-modify-writes",
        other => other,
    }
}

/// The whole report: sweeps, the curve of the coarse scan, prefetch, claims.
pub(crate) fn view(report: &Report, page: &mut Page) {
    let mut index = FindingIndex::new(report);
    answers(page, &mut index);
    sweeps(page, &mut index);
    fresh(page, &mut index);
    latency_curve::view::section(page, report, &mut index);
    prefetch::view::section(page, &mut index);
    claims::view::section(page, report, &mut index);
    show_rest(page, index, &[]);
}

/// What serves loads at each size, and the line: a sentence each.
fn answers(page: &mut Page, finding_index: &mut FindingIndex) {
    let answers = finding_index.of(&[&metrics::STRIDE_SERVED_BY]);
    let lines = finding_index.of(&[&metrics::STRIDE_LINE]);
    if !answers.is_empty() || !lines.is_empty() {
        page.heading("Serving level by working set");
    }
    for f in answers.into_iter().chain(lines) {
        let (value, note) = (number::value(f).value, f.notes.join("; "));
        let bytes = f.key.number(Axis::Size).map_or(f64::NAN, |bytes| bytes as f64);
        let size = number::size(bytes, None, None).value;
        let text = match f.is(&metrics::STRIDE_LINE) {
            true => format!("line {value}: {size}: {note}"),
            false if note.is_empty() => format!("{value}: {size}"),
            false => format!("{value}: {note}"),
        };
        page.text(TextRole::Plain, &text, "- ", "  ");
    }
}

/// The tables of sweeps.
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
        });
    }
}

/// The size of each row in words, once, so that the eye finds the groups.
fn sizes(rows: &[Row<3>]) -> Vec<String> {
    let mut before = None;
    let of = |row: &Row<3>| {
        let bytes = row.number(Axis::Size);
        let again = before.replace(bytes) == Some(bytes);
        if again { String::new() } else { number::size(bytes as f64, None, None).value }
    };
    rows.iter().map(of).collect()
}

/// The findings of rows, each with the size and the step that it is of.
fn labelled<'a>(rows: &[Row<'a, 3>]) -> Vec<(String, &'a Finding)> {
    let of = |row: &Row<'a, 3>| {
        let size = number::size(row.number(Axis::Size) as f64, None, None).value;
        let label = format!("{size} at {}", row.number(Axis::Stride));
        row.findings().map(|f| (label.clone(), f)).collect::<Vec<_>>()
    };
    rows.iter().flat_map(of).collect()
}

/// Time an access by stride, one curve a working set.
fn by_stride(operation: &str) -> Chart {
    let x = Scale::of(Axis::Stride, "step").log().sizes();
    let caption = "Time an access by step, one curve a working set; both axes logarithmic. It stops growing where each \
                   access brings a line of its own.";
    let y = Scale::values("ns an access").log();
    Chart::new(format!("stride.{operation}"), Kind::Lines, x, y, caption).with(
        Series::of(&metrics::STRIDE_TIME_PER_ACCESS, "{size}").at(Axis::Operation, operation).by(Axis::Size),
    )
}

/// Time a line, working sets by strides.
fn heat_chart(operation: &str) -> Chart {
    let x = Scale::of(Axis::Stride, "step").sizes();
    let y = Scale::of(Axis::Size, "ns a line").sizes();
    let caption =
        "Time a line touched (ns), working sets by strides: darker is slower; colours are logarithmic.";
    Chart::new(format!("heat.{operation}"), Kind::HeatMap, x, y, caption)
        .label("{size} at a stride of {stride} B")
        .with(Series::of(&metrics::STRIDE_TIME_PER_LINE, "time a line").at(Axis::Operation, operation))
}

fn table(page: &mut Page, operation: &str, points: &[Point]) {
    page.heading(&format!("{} at a stride: time an access, and all accesses to a line", spoken(operation)));
    // The map and the table are the pictures that characters can give.
    page.picture(by_stride(operation), Vec::new());
    let map = heat(points).draw(page.style().width, page.style().unicode);
    if !map.is_empty() {
        page.text(
            TextRole::Plain,
            "ns per touched line, sizes by strides; shades are logarithmic:",
            "",
            "  ",
        );
        page.picture(heat_chart(operation), map);
        page.line(TextRole::Plain, "");
    }
    let mut rows = Vec::new();
    // Their intervals follow from those beside them.
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
        right("ns a line"),
        right("n"),
    ];
    page.table(&columns, &rows, &[]);
    if points.iter().any(|p| p.of[2].is_some()) {
        page.text(TextRole::Dim, "ratio: time an access over that at the smallest stride", "  ", "    ");
    }
    notes(page, &labelled(points));
}

/// Time a line by size and step.
fn heat(points: &[Point]) -> HeatMap {
    let ascending = |axis: Axis| {
        let all: std::collections::BTreeSet<u64> = points.iter().map(|p| p.number(axis)).collect();
        all.into_iter().collect::<Vec<u64>>()
    };
    let (rows, columns) = (ascending(Axis::Size), ascending(Axis::Stride));
    let cell = |bytes: u64, step: u64| {
        let of = |p: &&Point| (p.number(Axis::Size), p.number(Axis::Stride)) == (bytes, step);
        points.iter().find(of)?.of[1]?.finite().filter(|v| *v > 0.0)
    };
    let cells = rows.iter().map(|b| columns.iter().map(|s| cell(*b, *s)).collect()).collect();
    HeatMap { rows, columns, cells }
}

/// First touches, where they were asked for.
fn fresh(page: &mut Page, finding_index: &mut FindingIndex) {
    let wanted = [
        &metrics::STRIDE_FIRST_TOUCH_TIME_PER_ACCESS,
        &metrics::STRIDE_FIRST_TOUCH_FAULTS_PER_PAGE,
        &metrics::STRIDE_FIRST_TOUCH_ADDED_PER_PAGE,
    ];
    let touches = finding_index.rows(wanted, &BY);
    for of in touches.chunk_by(|a, b| a.at(Axis::Operation) == b.at(Axis::Operation)) {
        let operation = of[0].word(Axis::Operation);
        page.heading(&format!("{} of fresh memory: what page faults add", spoken(&operation)));
        touched(page, of);
    }
}

fn touched(page: &mut Page, touches: &[Touch]) {
    let mut rows = Vec::new();
    for (touch, size) in touches.iter().zip(sizes(touches)) {
        let [access, faults, added] = touch.of;
        let mut row = vec![size, touch.number(Axis::Stride).to_string()];
        row.extend(number::cells(access));
        row.push(faults.map(|f| number::value(f).value).unwrap_or_default());
        // Its interval follows from that of the access.
        row.push(added.map(|f| number::value(f).value).unwrap_or_default());
        row.push(access.map(|f| f.count.to_string()).unwrap_or_default());
        rows.push(row);
    }
    let columns = [
        right("size").key(),
        right("stride").key(),
        measured("ns"),
        INTERVAL,
        right("faults a page"),
        right("ns more a page"),
        right("n"),
    ];
    page.table(&columns, &rows, &[]);
    notes(page, &labelled(touches));
}
