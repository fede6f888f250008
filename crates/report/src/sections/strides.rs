//! Strides: what answers at each size; a heat map and a table an operation, working sets by steps; first touches.

use fathom_analysis::findings::{Finding, Value};

use super::heat::Heat;
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

/// All of it, where there are strides.
pub fn section(page: &mut Page, shelf: &mut Shelf) {
    answers(page, shelf);
    sweeps(page, shelf);
    fresh(page, shelf);
}

/// What answers at each size, and the line: a sentence each.
fn answers(page: &mut Page, shelf: &mut Shelf) {
    let all = shelf.take_by(|parts| match parts {
        ["stride", bytes, what @ ("answer" | "line")] => Some((what.to_string(), whole(bytes)?)),
        _ => None,
    });
    if !all.is_empty() {
        page.heading("What answers at each size, and the line");
    }
    for ((what, bytes), f) in all {
        let (value, note) = (number::value(f).value, f.notes.join("; "));
        let text = match what.as_str() {
            "line" => format!("line {value}: {}: {note}", number::size(bytes as f64, None, None).value),
            _ if note.is_empty() => format!("{value}: {}", number::size(bytes as f64, None, None).value),
            _ => format!("{value}: {note}"),
        };
        page.text(Ink::Plain, &text, "- ", "  ");
    }
}

/// The tables of sweeps.
fn sweeps(page: &mut Page, shelf: &mut Shelf) {
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
    // The map and the table are the pictures that characters can give.
    page.picture(Chart::Stride(operation.to_string()), Vec::new());
    let map = heat(points).draw(page.style().width, page.style().unicode);
    if !map.is_empty() {
        page.text(Ink::Plain, "ns a line touched, sizes by steps; shades are logarithmic:", "", "  ");
        page.picture(Chart::Heat(operation.to_string()), map);
        page.line(Ink::Plain, "");
    }
    let mut before = None;
    let mut rows = Vec::new();
    // Their intervals follow from those beside them.
    let ratios = number::column(points.iter().map(|p| p.ratio));
    let lines = number::column(points.iter().map(|p| p.line));
    for (at, point) in points.iter().enumerate() {
        let (_, bytes, step) = point.key;
        // The size once, so that the eye finds the groups.
        let size =
            if before == Some(bytes) { String::new() } else { number::size(bytes as f64, None, None).value };
        before = Some(bytes);
        let mut row = vec![size, step.to_string()];
        row.extend(number::cells(point.access));
        row.extend([(point.ratio, &ratios), (point.line, &lines)].map(|(f, shown)| match f {
            Some(_) => shown[at].clone(),
            None => String::new(),
        }));
        row.push(point.access.map(|f| f.count.to_string()).unwrap_or_default());
        rows.push(row);
    }
    let columns = [
        right("size"),
        right("step"),
        measured("ns"),
        INTERVAL,
        right("ratio"),
        right("ns a line"),
        right("n"),
    ];
    page.table(&columns, &rows, &[]);
    if points.iter().any(|p| p.ratio.is_some()) {
        page.text(Ink::Dim, "ratio: time an access over that at the smallest step", "  ", "    ");
    }
    let labelled: Vec<(String, &Finding)> = points
        .iter()
        .flat_map(|p| {
            let label = format!("{} at {}", number::size(p.key.1 as f64, None, None).value, p.key.2);
            [p.access, p.line, p.ratio].into_iter().flatten().map(move |f| (label.clone(), f))
        })
        .collect();
    notes(page, &labelled);
}

/// Time a line by size and step.
fn heat(points: &[&Point]) -> Heat {
    let ascending = |of: fn(&Point) -> u64| {
        let all: std::collections::BTreeSet<u64> = points.iter().map(|p| of(p)).collect();
        all.into_iter().collect::<Vec<u64>>()
    };
    let (rows, columns) = (ascending(|p| p.key.1), ascending(|p| p.key.2));
    let cell = |bytes: u64, step: u64| {
        let of = |p: &&&Point| (p.key.1, p.key.2) == (bytes, step);
        match points.iter().find(of)?.line?.value {
            Value::Number(v) if v.is_finite() && v > 0.0 => Some(v),
            _ => None,
        }
    };
    let cells = rows.iter().map(|b| columns.iter().map(|s| cell(*b, *s)).collect()).collect();
    Heat { rows, columns, cells }
}

/// One working set at one step with one operation, touched for the first time.
#[derive(Default)]
struct Touch<'a> {
    key: (String, u64, u64),
    access: Option<&'a Finding>,
    faults: Option<&'a Finding>,
    added: Option<&'a Finding>,
}

/// First touches, where they were asked for.
fn fresh(page: &mut Page, shelf: &mut Shelf) {
    let all = shelf.take_by(|parts| match parts {
        [
            "stride",
            bytes,
            step,
            op,
            "unfaulted",
            what @ ("time_per_access" | "faults_per_page" | "added_per_page"),
        ] => Some((op.to_string(), whole(bytes)?, whole(step)?, what.to_string())),
        _ => None,
    });
    let mut touches: Vec<Touch> = Vec::new();
    for ((op, bytes, step, what), finding) in all {
        let key = (op, bytes, step);
        if touches.last().is_none_or(|t| t.key != key) {
            touches.push(Touch { key, ..Touch::default() });
        }
        let Some(touch) = touches.last_mut() else { continue };
        match what.as_str() {
            "time_per_access" => touch.access = Some(finding),
            "faults_per_page" => touch.faults = Some(finding),
            _ => touch.added = Some(finding),
        }
    }
    for operation in values("OP") {
        let of: Vec<&Touch> = touches.iter().filter(|t| t.key.0 == *operation).collect();
        if !of.is_empty() {
            page.heading(&format!("{} of fresh memory: what page faults add", spoken(operation)));
            touched(page, &of);
        }
    }
}

fn touched(page: &mut Page, touches: &[&Touch]) {
    let mut before = None;
    let mut rows = Vec::new();
    for touch in touches {
        let (_, bytes, step) = touch.key;
        let size =
            if before == Some(bytes) { String::new() } else { number::size(bytes as f64, None, None).value };
        before = Some(bytes);
        let mut row = vec![size, step.to_string()];
        row.extend(number::cells(touch.access));
        row.push(touch.faults.map(|f| number::value(f).value).unwrap_or_default());
        // Its interval follows from that of the access.
        row.push(touch.added.map(|f| number::value(f).value).unwrap_or_default());
        row.push(touch.access.map(|f| f.count.to_string()).unwrap_or_default());
        rows.push(row);
    }
    let columns = [
        right("size"),
        right("step"),
        measured("ns"),
        INTERVAL,
        right("faults a page"),
        right("ns more a page"),
        right("n"),
    ];
    page.table(&columns, &rows, &[]);
    let labelled: Vec<(String, &Finding)> = touches
        .iter()
        .flat_map(|t| {
            let label = format!("{} at {}", number::size(t.key.1 as f64, None, None).value, t.key.2);
            [t.access, t.faults, t.added].into_iter().flatten().map(move |f| (label.clone(), f))
        })
        .collect();
    notes(page, &labelled);
}
