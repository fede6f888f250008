//! The sweep: the tail by block size, stride and what becomes of a block, and where it changes.

use fathom_analysis::findings::{Finding, Refused, Value};

use super::{column, finite, nth};
use crate::number::{self, Shown, short_size};
use crate::page::{Chart, INTERVAL, Ink, Page, Pieces, measured, right};
use crate::schema::{token, values, written};
use crate::sections::heat::Heat;
use crate::sections::notes;
use crate::sections::picture::{Plot, draw};
use crate::sections::shelf::{Shelf, whole};

/// Over the inflections.
const HEADING: &str = "Where wake-ups change with the size of the blocks";
/// Rows of text that a curve takes.
const ROWS: usize = 8;
/// What is known of a cell.
const CELL: [&str; 4] = ["p50", "tail", "max", "faults"];

/// What becomes of a block: which token it is, and its number.
type Mode = (usize, u64);

/// One block size of a curve.
#[derive(Default)]
struct Cell<'a> {
    /// Worker and mode as the schema numbers them; stride and size in bytes.
    key: (usize, Mode, u64, u64),
    p50: Option<&'a Finding>,
    tail: Option<&'a Finding>,
    max: Option<&'a Finding>,
    faults: Option<&'a Finding>,
}

/// Where a curve changes.
#[derive(Default)]
struct Break<'a> {
    nth: u64,
    bytes: Option<&'a Finding>,
    effect: Option<&'a Finding>,
    kind: Option<&'a Finding>,
    curve: Option<&'a Finding>,
    statistic: Option<&'a Finding>,
    /// Page faults, where those change.
    before: Option<&'a Finding>,
    behind: Option<&'a Finding>,
    /// What latencies do there: tail, 90 % and 50 %.
    across: [Option<&'a Finding>; 3],
}

/// Of those latencies, the names.
const ACROSS: [&str; 3] = ["tail", "p90", "p50"];

impl Break<'_> {
    /// What of the latencies changes: the tail, where nothing else is said.
    fn of(&self) -> &str {
        self.statistic.map_or("tail", |f| if let Value::Text(word) = &f.value { word } else { "tail" })
    }
}

/// All of it, where there is a sweep.
pub(super) fn section(page: &mut Page, refusals: &[Refused], shelf: &mut Shelf) {
    let cells = take_cells(shelf);
    let breaks = take_breaks(shelf);
    if !cells.is_empty() && breaks.is_empty() {
        page.heading(HEADING);
        let refused = refusals.iter().any(|r| r.what.starts_with("inflections of"));
        let text =
            if refused { "None was found where it could be told: see what is refused." } else { "Nowhere." };
        page.text(Ink::Plain, text, "", "  ");
    }
    inflections(page, &breaks);
    let mut groups: Vec<(usize, Mode)> = cells.iter().map(|c| (c.key.0, c.key.1)).collect();
    groups.dedup();
    for group in groups {
        let of: Vec<&Cell> = cells.iter().filter(|c| (c.key.0, c.key.1) == group).collect();
        mode(page, group, &of, &breaks);
    }
}

fn take_cells<'a>(shelf: &mut Shelf<'a>) -> Vec<Cell<'a>> {
    let found = shelf.take_by(|parts| match parts {
        ["sweep", stress, mode, step, bytes, what] if CELL.contains(what) => {
            let key = (nth("STRESS", stress)?, token("MODE", mode)?, whole(step)?, whole(bytes)?);
            Some((key, (*what).to_owned()))
        }
        _ => None,
    });
    let mut cells: Vec<Cell> = Vec::new();
    for ((key, what), f) in found {
        if cells.last().is_none_or(|cell| cell.key != key) {
            cells.push(Cell { key, ..Cell::default() });
        }
        let Some(cell) = cells.last_mut() else { continue };
        *(match what.as_str() {
            "p50" => &mut cell.p50,
            "tail" => &mut cell.tail,
            "max" => &mut cell.max,
            _ => &mut cell.faults,
        }) = Some(f);
    }
    cells
}

fn take_breaks<'a>(shelf: &mut Shelf<'a>) -> Vec<Break<'a>> {
    let found = shelf.take_by(|parts| match parts {
        ["inflection", n, "across", what] if ACROSS.contains(what) => Some((whole(n)?, (*what).to_owned())),
        [
            "inflection",
            n,
            what @ ("bytes" | "effect" | "kind" | "curve" | "statistic" | "before" | "behind"),
        ] => Some((whole(n)?, (*what).to_owned())),
        _ => None,
    });
    let mut breaks: Vec<Break> = Vec::new();
    for ((nth, what), f) in found {
        if breaks.last().is_none_or(|b| b.nth != nth) {
            breaks.push(Break { nth, ..Break::default() });
        }
        let Some(b) = breaks.last_mut() else { continue };
        *(match what.as_str() {
            "bytes" => &mut b.bytes,
            "effect" => &mut b.effect,
            "kind" => &mut b.kind,
            "curve" => &mut b.curve,
            "before" => &mut b.before,
            "behind" => &mut b.behind,
            "tail" => &mut b.across[0],
            "p90" => &mut b.across[1],
            "p50" => &mut b.across[2],
            _ => &mut b.statistic,
        }) = Some(f);
    }
    breaks
}

/// A sentence each.
fn inflections(page: &mut Page, breaks: &[Break]) {
    if breaks.is_empty() {
        return;
    }
    page.heading(HEADING);
    let value = |f: &Finding| {
        let Shown { value, interval } = number::value(f);
        format!("{value} {interval}").trim_end().to_owned()
    };
    for b in breaks {
        let mut text = format!("{}:", b.nth);
        if let Some(f) = b.curve {
            text += &format!(" {}:", value(f));
        }
        if let Some(f) = b.statistic {
            text += &format!(" {}:", value(f));
        }
        text += &format!(" a {}", b.kind.map_or_else(|| "change".to_owned(), value));
        if let Some(f) = b.bytes {
            text += &format!(" at {}", value(f));
        }
        if let Some(f) = b.effect {
            text += &format!(", by {} of what it was before", value(f));
        }
        if let Some(f) = b.before {
            text += &format!(", from {} a second", value(f));
        }
        if let Some(f) = b.behind {
            text += &format!(", to {} a second", value(f));
        }
        let latencies: Vec<String> = ACROSS
            .iter()
            .zip(b.across)
            .filter_map(|(word, f)| Some(format!("{word} by {}", value(f?))))
            .collect();
        if !latencies.is_empty() {
            text += &format!("; there latencies change, of what they were: {}", latencies.join(", "));
        }
        let all = [b.bytes, b.effect, b.kind, b.curve, b.statistic].into_iter().flatten();
        for note in all.flat_map(|f| &f.notes) {
            text += &format!("; {note}");
        }
        page.text(Ink::Plain, &text, "- ", "  ");
    }
}

/// A worker and a mode: its map, its curves that change, its table.
fn mode(page: &mut Page, (stress, mode): (usize, Mode), cells: &[&Cell], breaks: &[Break]) {
    let name = format!("{}.{}", values("STRESS")[stress], written("MODE", mode));
    let Some(unit) = cells.iter().find_map(|c| c.tail.or(c.p50).or(c.max)).map(|f| f.unit) else {
        return table(page, cells);
    };
    page.heading(&format!("Sweep of {name}: wake-up latency by block size and stride, {unit}"));
    let mut strides: Vec<u64> = cells.iter().map(|c| c.key.2).collect();
    strides.dedup();
    let mut curves: Vec<Pieces> = Vec::new();
    for stride in strides {
        let of: Vec<&Cell> = cells.iter().copied().filter(|c| c.key.2 == stride).collect();
        for (tail, what) in [(true, "the tail"), (false, "p50")] {
            let Some(plot) = curve(&format!("{name}.{stride}"), &of, breaks, tail) else { continue };
            let stride = short_size(stride as f64);
            curves.push(vec![(
                Ink::Plain,
                format!("Stride {stride}: {what} by block size, both axes logarithmic:"),
            )]);
            curves.extend(draw(&plot, page.style().width, page.style().unicode));
            curves.push(Vec::new());
        }
    }
    page.picture(Chart::Sweep(name.clone()), curves);
    let map = heat(cells).draw(page.style().width, page.style().unicode);
    if !map.is_empty() {
        page.text(
            Ink::Plain,
            &format!("The tail ({unit}), sizes by strides; shades are logarithmic:"),
            "",
            "  ",
        );
        page.picture(Chart::SweepHeat(name.clone()), map);
        page.line(Ink::Plain, "");
    }
    table(page, cells);
}

/// The tail by size, or p50, where it changes; what changes p90 is marked on p50.
fn curve(token: &str, cells: &[&Cell], breaks: &[Break], tail: bool) -> Option<Plot> {
    let is_its = |b: &&Break| {
        b.curve.is_some_and(|f| matches!(&f.value, Value::Text(text) if text == token))
            && tail == (b.of() == "tail")
    };
    let marks: Vec<(f64, String)> = breaks
        .iter()
        .filter(is_its)
        .filter_map(|b| Some((finite(b.bytes?)?, format!("{}: {}", b.nth, b.of()))))
        .collect();
    let late = |c: &&Cell| finite(if tail { c.tail } else { c.p50 }?).filter(|us| *us > 0.0);
    let points: Vec<(f64, f64)> = cells.iter().filter_map(|c| Some((c.key.3 as f64, late(c)?))).collect();
    let [first, .., last] = points.as_slice() else { return None };
    let within: Vec<(f64, String)> =
        marks.into_iter().filter(|(bytes, _)| (first.0..=last.0).contains(bytes)).collect();
    if within.is_empty() || points.iter().any(|(_, us)| *us > 1e15) {
        return None;
    }
    Some(Plot {
        marks: within,
        points,
        plateaus: Vec::new(),
        log_y: true,
        rows: ROWS,
        x_label: short_size,
        y_label: number::height,
    })
}

/// The tail by size and stride.
fn heat(cells: &[&Cell]) -> Heat {
    let ascending = |of: fn(&Cell) -> u64| {
        let all: std::collections::BTreeSet<u64> = cells.iter().map(|c| of(c)).collect();
        all.into_iter().collect::<Vec<u64>>()
    };
    let (rows, columns) = (ascending(|c| c.key.3), ascending(|c| c.key.2));
    let cell = |bytes: u64, stride: u64| {
        let of = |c: &&&Cell| (c.key.3, c.key.2) == (bytes, stride);
        finite(cells.iter().find(of)?.tail?).filter(|us| *us > 0.0)
    };
    let cells = rows.iter().map(|b| columns.iter().map(|s| cell(*b, *s)).collect()).collect();
    Heat { rows, columns, cells }
}

fn table(page: &mut Page, cells: &[&Cell]) {
    let mut before = None;
    let mut rows = Vec::new();
    let p50 = column(&cells.iter().map(|c| c.p50).collect::<Vec<_>>());
    let max = column(&cells.iter().map(|c| c.max).collect::<Vec<_>>());
    let faults = column(&cells.iter().map(|c| c.faults).collect::<Vec<_>>());
    for (at, cell) in cells.iter().enumerate() {
        let (_, _, stride, bytes) = cell.key;
        // The stride once, so that the eye finds the groups.
        let named = if before == Some(stride) { String::new() } else { stride.to_string() };
        before = Some(stride);
        let mut row = vec![named, number::size(bytes as f64, None, None).value, p50[at].clone()];
        row.extend(number::cells(cell.tail));
        let seen = cell.max.map(|f| f.count.to_string()).unwrap_or_default();
        row.extend([max[at].clone(), seen, faults[at].clone()]);
        rows.push(row);
    }
    let columns = [
        right("stride"),
        right("size"),
        right("p50"),
        measured("tail"),
        INTERVAL,
        right("max"),
        right("seen in"),
        right("faults/s"),
    ];
    page.table(&columns, &rows, &[]);
    let labelled: Vec<(String, &Finding)> = cells
        .iter()
        .filter_map(|c| {
            let label = format!("{} at {}", number::size(c.key.3 as f64, None, None).value, c.key.2);
            Some((label, c.tail?))
        })
        .collect();
    notes(page, &labelled);
}
