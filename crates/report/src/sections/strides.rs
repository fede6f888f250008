//! Strides: a table an operation, working sets by steps.

use fathom_analysis::findings::Finding;

use super::notes;
use super::shelf::{Shelf, whole};
use crate::number::{self, Shown};
use crate::page::{Chart, INTERVAL, Ink, Page, measured, right};
use crate::schema::values;

/// What is known of one working set at one step with one operation.
#[derive(Default)]
struct Point<'a> {
    /// Operation, working set, step.
    key: (String, u64, u64),
    access: Option<&'a Finding>,
    line: Option<&'a Finding>,
    ratio: Option<&'a Finding>,
}

/// The operations' words for people.
fn spoken(operation: &str) -> &str {
    match operation {
        "read" => "Reads",
        "write" => "Writes",
        "rmw" => "Read-modify-writes",
        other => other,
    }
}

/// The tables, where there are strides.
pub fn section(page: &mut Page, shelf: &mut Shelf) {
    let all = shelf.take_by(|parts| match parts {
        ["stride", bytes, step, op, what @ ("time_per_access" | "time_per_line" | "ratio")] => {
            Some((op.to_string(), whole(bytes)?, whole(step)?, what.to_string()))
        }
        _ => None,
    });
    if all.is_empty() {
        return;
    }
    let mut points: Vec<Point> = Vec::new();
    for ((op, bytes, step, what), finding) in all {
        let key = (op, bytes, step);
        if points.last().is_none_or(|p| p.key != key) {
            points.push(Point { key, ..Point::default() });
        }
        let Some(point) = points.last_mut() else { continue };
        match what.as_str() {
            "time_per_access" => point.access = Some(finding),
            "time_per_line" => point.line = Some(finding),
            _ => point.ratio = Some(finding),
        }
    }
    // The schema's order; the shelf sorts words by their letters.
    for operation in values("OP") {
        let of: Vec<&Point> = points.iter().filter(|p| p.key.0 == *operation).collect();
        if !of.is_empty() {
            table(page, operation, &of);
        }
    }
    if let Some(f) = shelf.take("stride.ratio") {
        let Shown { value, interval } = number::value(f);
        page.line(Ink::Plain, "");
        page.text(Ink::Plain, &format!("stride.ratio {value} {interval}: {}", f.notes.join("; ")), "", "  ");
    }
}

fn table(page: &mut Page, operation: &str, points: &[&Point]) {
    page.heading(&format!("{} at a step: time an access, and all accesses to a line", spoken(operation)));
    // The table is the picture that characters can give.
    page.picture(Chart::Stride(operation.to_string()), Vec::new());
    let mut before = None;
    let mut rows = Vec::new();
    for point in points {
        let (_, bytes, step) = point.key;
        // The size once, so that the eye finds the groups.
        let size =
            if before == Some(bytes) { String::new() } else { number::size(bytes as f64, None, None).value };
        before = Some(bytes);
        let mut row = vec![size, step.to_string()];
        row.extend(number::cells(point.access));
        // Its interval follows from those beside it.
        row.push(point.ratio.map(|f| number::value(f).value).unwrap_or_default());
        row.extend(number::cells(point.line));
        row.push(point.access.map(|f| f.count.to_string()).unwrap_or_default());
        rows.push(row);
    }
    let columns = [
        right("size"),
        right("step"),
        measured("ns"),
        INTERVAL,
        right("ratio"),
        measured("ns a line"),
        INTERVAL,
        right("n"),
    ];
    page.table(&columns, &rows, &[]);
    let labelled: Vec<(String, &Finding)> = points
        .iter()
        .flat_map(|p| {
            let label = format!("{} at {}", number::size(p.key.1 as f64, None, None).value, p.key.2);
            [p.access, p.line, p.ratio].into_iter().flatten().map(move |f| (label.clone(), f))
        })
        .collect();
    notes(page, &labelled);
}
