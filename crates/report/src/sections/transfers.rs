//! Transfers: who moves what through which memory, CPU time by strategy, where strategies change places, the parts of
//! one size, what others lose, and study S2 beside.

use fathom_analysis::findings::{Finding, Value};

use super::notes;
use super::shelf::{Shelf, whole};
use crate::number;
use crate::page::{Chart, Column, INTERVAL, Ink, Page, left, measured, right};
use crate::schema::values;

/// All of it, where there are transfers.
pub fn section(page: &mut Page, shelf: &mut Shelf) {
    study(page, shelf);
    ways(page, shelf);
    times(page, shelf);
    crossovers(page, shelf);
    pollution(page, shelf);
    // It is said where it was used.
    if let Some(f) = shelf.take("dma.link") {
        let rate = number::value(f).value;
        page.text(Ink::Dim, &format!("dma.link {rate} {}: {}", f.unit, f.notes.join("; ")), "  ", "    ");
    }
}

fn place(kind: &str, part: &str) -> Option<usize> {
    values(kind).iter().position(|value| *value == part)
}

/// Columns of strategies, two words under one another.
const STRATEGIES: [Column; 5] = [
    right("streaming\n+ copy"),
    right("uncached\n+ copy"),
    right("zero copy\n"),
    right("persistent\n+ copy"),
    right("coherent\n"),
];

/// The study's result, and what is like it here.
fn study(page: &mut Page, shelf: &mut Shelf) {
    const ROWS: [(&str, &str); 4] = [
        ("saved", "CPU time saved by uncached-copy, a packet"),
        ("needed", "the same in study S2, by its rates"),
        ("gain", "throughput of uncached-copy, more"),
        ("points", "points of a CPU saved at the link's rate"),
    ];
    let all = shelf.take_by(|parts| match parts {
        ["dma", "study", what] => ROWS.iter().position(|row| row.0 == *what),
        _ => None,
    });
    if all.is_empty() {
        return;
    }
    page.heading("Study S2: uncached buffer against streaming mapping, packets that come in");
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|(at, f)| {
            let mut row = vec![ROWS[*at].1.to_owned()];
            row.extend(number::cells(Some(f)));
            row.extend([f.unit.to_owned(), f.count.to_string()]);
            row
        })
        .collect();
    page.table(&[left("what"), measured("here"), INTERVAL, left("unit"), right("n")], &rows, &[]);
    let labelled: Vec<(String, &Finding)> = all.iter().map(|(at, f)| (ROWS[*at].0.to_owned(), *f)).collect();
    notes(page, &labelled);
}

/// One line a strategy and direction: what moved the data, through which memory, and whether they arrived.
fn ways(page: &mut Page, shelf: &mut Shelf) {
    const WHAT: [&str; 3] = ["attribute", "engine", "wrong"];
    let all = shelf.take_by(|parts| match parts {
        ["dma", strategy, direction, what] => {
            let at = WHAT.iter().position(|w| w == what)?;
            Some((place("DIRECTION", direction)?, place("STRATEGY", strategy)?, at))
        }
        _ => None,
    });
    if all.is_empty() {
        return;
    }
    page.heading("What moved the data, and did they arrive");
    let mut rows = Vec::new();
    let mut labelled = Vec::new();
    for of in all.chunk_by(|a, b| (a.0.0, a.0.1) == (b.0.0, b.0.1)) {
        let (direction, strategy, _) = of[0].0;
        let cell = |what: usize| of.iter().find(|(key, _)| key.2 == what);
        let shown = |what: usize| match cell(what).map(|(_, f)| &f.value) {
            Some(Value::Text(word)) => word.clone(),
            Some(Value::Number(_)) => cell(what).map(|(_, f)| number::value(f).value).unwrap_or_default(),
            None => String::new(),
        };
        let label = format!("{} {}", values("STRATEGY")[strategy], values("DIRECTION")[direction]);
        labelled.extend(of.iter().map(|(_, f)| (label.clone(), *f)));
        let counted = cell(2).or(cell(1)).map(|(_, f)| f.count.to_string()).unwrap_or_default();
        rows.push(vec![
            values("DIRECTION")[direction].to_owned(),
            values("STRATEGY")[strategy].to_owned(),
            shown(0),
            shown(1),
            shown(2),
            counted,
        ]);
    }
    let columns = [
        left("direction"),
        left("strategy"),
        left("device's memory"),
        left("engine"),
        right("wrong bytes"),
        right("n"),
    ];
    page.table(&columns, &rows, &[]);
    notes(page, &labelled);
}

/// What is known of one strategy, direction and size.
type Key = (usize, u64, usize);

/// The last words of a cell's names, in the order of the parts' table.
const PARTS: [&str; 9] =
    ["cpu", "use", "copy", "map", "unmap", "setup", "engine", "throughput", "utilisation"];

/// The tables of times, one a direction, each with the parts of one size under it.
fn times(page: &mut Page, shelf: &mut Shelf) {
    let all = shelf.take_by(|parts| match parts {
        ["dma", strategy, direction, bytes, what] => {
            let what = PARTS.iter().position(|w| w == what)?;
            let key = (place("DIRECTION", direction)?, whole(bytes)?, place("STRATEGY", strategy)?);
            Some((key, what))
        }
        _ => None,
    });
    // A winner is a mark at its time.
    let timed = |direction: usize, bytes: u64| {
        all.iter().any(|((key, what), _)| (key.0, key.1) == (direction, bytes) && *what == 0)
    };
    let winners = shelf.take_by(|parts| match parts {
        ["dma", "winner", direction, bytes] => {
            Some((place("DIRECTION", direction)?, whole(bytes)?)).filter(|key| timed(key.0, key.1))
        }
        _ => None,
    });
    for of in all.chunk_by(|a, b| a.0.0.0 == b.0.0.0) {
        let token = values("DIRECTION")[of[0].0.0.0];
        cpu(page, of, &winners, token);
        parts(page, of, token);
    }
}

type Cells<'a> = [((Key, usize), &'a Finding)];

/// CPU time, a line a size.
fn cpu(page: &mut Page, of: &Cells, winners: &[((usize, u64), &Finding)], token: &str) {
    let cells: Vec<(Key, &Finding)> =
        of.iter().filter(|((_, what), _)| *what == 0).map(|((key, _), f)| (*key, *f)).collect();
    if cells.is_empty() {
        return;
    }
    page.heading(&format!("Transfers {}: ns of CPU time, by strategy", token.replace('-', " the ")));
    page.picture(Chart::Transfers(token.to_owned()), Vec::new());
    let mark = |key: &Key| {
        let winner = winners.iter().find(|(of, _)| *of == (key.0, key.1)).map(|(_, f)| *f);
        let strategy = values("STRATEGY")[key.2];
        let ties = winner.and_then(|f| f.notes.iter().find_map(|n| n.strip_prefix("not surely ahead of ")));
        match winner.map(|f| &f.value) {
            Some(Value::Text(word)) if word == strategy => "*",
            _ if ties.is_some_and(|ties| ties.split(", ").any(|tie| tie == strategy)) => "=",
            _ => " ",
        }
    };
    table(page, &cells, mark);
    page.text(Ink::Dim, "*: the least; =: not surely more. Intervals: --json, --html.", "  ", "    ");
}

/// A line a size, a column a strategy, a mark behind each number; and the notes below.
fn table(page: &mut Page, cells: &[(Key, &Finding)], mark: impl Fn(&Key) -> &'static str) {
    let mut sizes: Vec<u64> = cells.iter().map(|(key, _)| key.1).collect();
    sizes.dedup();
    let mut rows: Vec<Vec<String>> =
        sizes.iter().map(|&bytes| vec![number::size(bytes as f64, None, None).value]).collect();
    for nth in 0..STRATEGIES.len() {
        let of = |bytes: &u64| cells.iter().find(|(key, _)| (key.1, key.2) == (*bytes, nth));
        let found: Vec<Option<&(Key, &Finding)>> = sizes.iter().map(of).collect();
        let shown = number::column(found.iter().map(|cell| cell.map(|(_, f)| *f)));
        for ((row, cell), shown) in rows.iter_mut().zip(&found).zip(shown) {
            row.push(cell.map(|(key, _)| format!("{shown}{}", mark(key))).unwrap_or_default());
        }
    }
    let mut columns = vec![right("size")];
    columns.extend(STRATEGIES);
    page.table(&columns, &rows, &[]);
    let label = |key: &Key| values("STRATEGY")[key.2].to_owned();
    let labelled: Vec<(String, &Finding)> = cells.iter().map(|(key, f)| (label(key), *f)).collect();
    notes(page, &labelled);
}

/// The parts of the size that most strategies were measured at, nearest to an Ethernet frame.
fn parts(page: &mut Page, of: &Cells, direction: &str) {
    const FRAME: f64 = 1536.0;
    let strategies = |bytes: u64| of.iter().filter(|((key, what), _)| key.1 == bytes && *what == 0).count();
    let mut sizes: Vec<u64> = of.iter().map(|((key, _), _)| key.1).collect();
    sizes.dedup();
    let off = |bytes: u64| (bytes as f64 / FRAME).ln().abs();
    let nearer = |a: u64, b: u64| off(b).total_cmp(&off(a));
    let best =
        sizes.into_iter().max_by(|&a, &b| strategies(a).cmp(&strategies(b)).then_with(|| nearer(a, b)));
    let Some(bytes) = best else { return };
    let cell = |nth: usize, what: usize| {
        of.iter().find(|((key, w), _)| (key.1, key.2, *w) == (bytes, nth, what)).map(|(_, f)| *f)
    };
    let drawn: Vec<usize> =
        (0..STRATEGIES.len()).filter(|&nth| (0..PARTS.len()).any(|what| cell(nth, what).is_some())).collect();
    page.heading(&format!(
        "Parts of {} {}, ns",
        number::size(bytes as f64, None, None).value,
        direction.replace('-', " the ")
    ));
    page.picture(Chart::TransferParts(format!("{direction}.{bytes}")), Vec::new());
    let mut rows: Vec<Vec<String>> =
        drawn.iter().map(|&nth| vec![values("STRATEGY")[nth].to_owned()]).collect();
    for what in 0..PARTS.len() {
        let shown = number::column(drawn.iter().map(|&nth| cell(nth, what)));
        for ((row, &nth), shown) in rows.iter_mut().zip(&drawn).zip(shown) {
            row.push(if cell(nth, what).is_some() { shown } else { String::new() });
        }
    }
    let columns = [
        left("strategy"),
        right("CPU"),
        right("use"),
        right("copy"),
        right("map"),
        right("unmap"),
        right("setup"),
        right("engine"),
        right("MB/s"),
        right("CPU %"),
    ];
    page.table(&columns, &rows, &[]);
    // What is said of CPU time stands under the table of all sizes.
    let said =
        drawn.iter().flat_map(|&nth| (1..PARTS.len()).filter_map(move |what| Some((nth, cell(nth, what)?))));
    let labelled: Vec<(String, &Finding)> =
        said.map(|(nth, f)| (values("STRATEGY")[nth].to_owned(), f)).collect();
    notes(page, &labelled);
}

/// Where two strategies change places.
fn crossovers(page: &mut Page, shelf: &mut Shelf) {
    let all = shelf.take_by(|parts| match parts {
        ["dma", "crossover", direction, a, b] => {
            Some((place("DIRECTION", direction)?, place("STRATEGY", a)?, place("STRATEGY", b)?))
        }
        _ => None,
    });
    if all.is_empty() {
        return;
    }
    page.heading("Where two strategies change places, by CPU time");
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|((direction, below, beyond), f)| {
            let mut row =
                vec![values("DIRECTION")[*direction].to_owned(), values("STRATEGY")[*below].to_owned()];
            row.extend(number::cells(Some(f)));
            row.extend([values("STRATEGY")[*beyond].to_owned(), f.count.to_string()]);
            row
        })
        .collect();
    let columns = [
        left("direction"),
        left("cheaper below"),
        measured("size"),
        left("between"),
        left("cheaper beyond"),
        right("n"),
    ];
    page.table(&columns, &rows, &[]);
}

/// The note of a loss that may be none.
const UNSURE: &str = "not surely a loss";

/// What a victim's walk took longer after a transfer.
fn pollution(page: &mut Page, shelf: &mut Shelf) {
    let all = shelf.take_by(|parts| match parts {
        ["pollution", strategy, direction, bytes] => {
            Some((place("DIRECTION", direction)?, whole(bytes)?, place("STRATEGY", strategy)?))
        }
        _ => None,
    });
    for of in all.chunk_by(|a, b| a.0.0 == b.0.0) {
        let direction = values("DIRECTION")[of[0].0.0];
        page.heading(&format!(
            "What another working set lost by a transfer {}, ns",
            direction.replace('-', " the ")
        ));
        page.picture(Chart::Pollution(direction.to_owned()), Vec::new());
        let unsure = |key: &Key| {
            let found = of.iter().find(|(of, _)| of == key).map(|(_, f)| *f);
            let said = |f: &Finding| f.notes.iter().any(|note| note == UNSURE);
            if found.is_some_and(said) { "~" } else { " " }
        };
        // What the mark says need not be said again.
        let plain: Vec<Finding> = of
            .iter()
            .map(|(_, f)| Finding {
                notes: f.notes.iter().filter(|n| *n != UNSURE).cloned().collect(),
                ..(*f).clone()
            })
            .collect();
        let of: Vec<(Key, &Finding)> = of.iter().map(|(key, _)| *key).zip(&plain).collect();
        table(page, &of, unsure);
    }
    // The sums of both tables have names of their own, for scripts.
    let shown = |strategy: usize, bytes: u64| {
        (0..values("DIRECTION").len()).all(|d| all.iter().any(|(key, _)| *key == (d, bytes, strategy)))
    };
    let sums = shelf.take_by(|parts| match parts {
        ["pollution", strategy, bytes] => {
            Some((whole(bytes)?, place("STRATEGY", strategy)?)).filter(|key| shown(key.1, key.0))
        }
        _ => None,
    });
    if !all.is_empty() {
        let both = if sums.is_empty() { "" } else { "; of a transfer each way: the sum of both tables" };
        page.text(Ink::Dim, &format!("~: not surely a loss{both}"), "  ", "    ");
    }
}
