//! Attributes: how each is translated and behaves; a table an operation, working sets by attributes; the study's own
//! sentence.

use fathom_analysis::findings::{Finding, Value};

use super::notes;
use super::shelf::{Shelf, whole};
use crate::number;
use crate::page::{Chart, INTERVAL, Ink, Page, left, measured, right};
use crate::schema::values;

/// All of it, where there are attributes.
pub fn section(page: &mut Page, shelf: &mut Shelf) {
    study(page, shelf);
    mappings(page, shelf);
    operations(page, shelf);
    bytes(page, shelf);
    walks(page, shelf);
}

/// The study's sentence.
fn study(page: &mut Page, shelf: &mut Shelf) {
    let all = shelf.take_by(|parts| match parts {
        ["cacheability", "study", bytes] => whole(bytes),
        _ => None,
    });
    for (nth, (_, f)) in all.into_iter().enumerate() {
        if nth == 0 {
            page.heading("Not cached against cached, as study S0 put it");
        }
        page.text(
            Ink::Plain,
            &format!("{} % faster: {}", number::value(f).value, f.notes.join("; ")),
            "- ",
            "  ",
        );
    }
}

/// What is known of one attribute's mappings, in the order of the table's columns.
const MAPPING: [&str; 6] = ["va", "pa", "mair", "translated_as", "behaves_as", "alias"];

/// One line an attribute.
fn mappings(page: &mut Page, shelf: &mut Shelf) {
    let all = shelf.take_by(|parts| match parts {
        ["cacheability", attribute, what] => {
            let at = values("ATTRIBUTE").iter().position(|a| a == attribute)?;
            Some((at, MAPPING.iter().position(|w| w == what)?))
        }
        _ => None,
    });
    if all.is_empty() {
        return;
    }
    page.heading("Attributes: what the tables say, and what the times say");
    let mut rows: Vec<(usize, Vec<String>)> = Vec::new();
    for &((attribute, what), f) in &all {
        if rows.last().is_none_or(|row| row.0 != attribute) {
            let mut row = vec![String::new(); 1 + MAPPING.len()];
            row[0] = values("ATTRIBUTE")[attribute].to_owned();
            rows.push((attribute, row));
        }
        let Some((_, row)) = rows.last_mut() else { continue };
        row[1 + what] = match &f.value {
            Value::Text(word) => word.clone(),
            Value::Number(_) => number::value(f).value,
        };
    }
    let columns = [
        left("asked for"),
        right("VA"),
        right("PA"),
        right("MAIR"),
        left("translated as"),
        left("behaves as"),
        left("alias"),
    ];
    page.table(&columns, &rows.into_iter().map(|row| row.1).collect::<Vec<_>>(), &[]);
    // That an address is one of several is nothing to read.
    let said = |f: &Finding| f.notes.iter().any(|note| !note.starts_with("of the first of"));
    let labelled: Vec<(String, &Finding)> = all
        .iter()
        .filter(|((_, what), f)| *what >= 3 || (*what == 0 && said(f)))
        .map(|((attribute, _), f)| (values("ATTRIBUTE")[*attribute].to_owned(), *f))
        .collect();
    notes(page, &labelled);
}

/// What is known of one working set through one attribute.
#[derive(Default)]
struct Point<'a> {
    /// Operation, working set, attribute by its place in the schema.
    key: (usize, u64, usize),
    time: Option<&'a Finding>,
    cycles: Option<&'a Finding>,
    total: Option<&'a Finding>,
    ratio: Option<&'a Finding>,
}

/// The tables of operations.
fn operations(page: &mut Page, shelf: &mut Shelf) {
    let all = shelf.take_by(|parts| match parts {
        ["cacheability", op, attribute, bytes, what @ ("time" | "cycles" | "total" | "ratio")] => {
            let op = values("OPERATION").iter().position(|o| o == op)?;
            let attribute = values("ATTRIBUTE").iter().position(|a| a == attribute)?;
            Some((op, whole(bytes)?, attribute, what.to_string()))
        }
        _ => None,
    });
    let mut points: Vec<Point> = Vec::new();
    for ((op, bytes, attribute, what), finding) in all {
        let key = (op, bytes, attribute);
        if points.last().is_none_or(|p| p.key != key) {
            points.push(Point { key, ..Point::default() });
        }
        let Some(point) = points.last_mut() else { continue };
        match what.as_str() {
            "time" => point.time = Some(finding),
            "cycles" => point.cycles = Some(finding),
            "total" => point.total = Some(finding),
            _ => point.ratio = Some(finding),
        }
    }
    for operation in points.chunk_by(|a, b| a.key.0 == b.key.0) {
        table(page, operation);
    }
}

/// The operations' words for people.
fn spoken(operation: &str) -> &str {
    match operation {
        "read" => "Reads",
        "write" => "Writes",
        "rmw" => "Read-modify-writes",
        "set" => "Sets, as memset",
        "copy_to" => "Copies to it, from write-back memory",
        "copy_from" => "Copies from it, to write-back memory",
        other => other,
    }
}

fn table(page: &mut Page, points: &[Point]) {
    let operation = values("OPERATION")[points[0].key.0];
    page.heading(&format!("{}: time of 8 bytes", spoken(operation)));
    page.picture(Chart::Attributes(operation.to_owned()), Vec::new());
    let ratios = number::column(points.iter().map(|p| p.ratio));
    let cycles = number::column(points.iter().map(|p| p.cycles));
    let mut before = None;
    let mut rows = Vec::new();
    for (at, point) in points.iter().enumerate() {
        let (_, bytes, attribute) = point.key;
        let size =
            if before == Some(bytes) { String::new() } else { number::size(bytes as f64, None, None).value };
        before = Some(bytes);
        let mut row = vec![size, values("ATTRIBUTE")[attribute].to_owned()];
        row.extend(number::cells(point.time));
        row.extend([(point.cycles, &cycles), (point.ratio, &ratios)].map(|(f, shown)| match f {
            Some(_) => shown[at].clone(),
            None => String::new(),
        }));
        let total = point.total.map(number::value).unwrap_or_default();
        row.push(total.value);
        row.push(point.time.map(|f| f.count.to_string()).unwrap_or_default());
        rows.push(row);
    }
    let columns = [
        right("size"),
        left("attribute"),
        measured("ns"),
        INTERVAL,
        right("cycles"),
        right("ratio"),
        right("total ms"),
        right("n"),
    ];
    page.table(&columns, &rows, &[]);
    if points.iter().any(|p| p.ratio.is_some()) {
        page.text(Ink::Dim, "ratio: time over that of write-back memory", "  ", "    ");
    }
    let labelled: Vec<(String, &Finding)> = points
        .iter()
        .flat_map(|p| {
            let size = number::size(p.key.1 as f64, None, None).value;
            let label = format!("{size} {}", values("ATTRIBUTE")[p.key.2]);
            [p.time, p.cycles, p.total, p.ratio].into_iter().flatten().map(move |f| (label.clone(), f))
        })
        .collect();
    notes(page, &labelled);
}

/// Every byte of MAIR_EL1: a letter each of how it behaves, and under it what the letters stand for, which bytes
/// translate to something else than they behave as, and times, all of them.
fn bytes(page: &mut Page, shelf: &mut Shelf) {
    let all = shelf.take_by(|parts| match parts {
        ["mair", byte, what @ ("translated_as" | "behaves_as" | "read" | "write" | "write_apart")] => {
            Some((values("BYTE").iter().position(|b| b == byte)?, what.to_string()))
        }
        _ => None,
    });
    if all.is_empty() {
        return;
    }
    page.heading("Every byte of MAIR_EL1: how memory behaves with it");
    let word = |byte: usize, what: &str| {
        let found = all.iter().find(|((b, w), _)| *b == byte && w == what)?;
        match &found.1.value {
            Value::Text(word) => Some(word.as_str()),
            Value::Number(_) => None,
        }
    };
    page.line(Ink::Dim, "high  low half");
    page.line(Ink::Dim, "half  0 1 2 3 4 5 6 7 8 9 a b c d e f");
    for high in 0..16 {
        let letters = (0..16).map(|low| match word(16 * high + low, "behaves_as") {
            Some(word) => word[..1].to_uppercase(),
            None => ".".to_owned(),
        });
        page.line(Ink::Plain, &format!("   {high:x}  {}", letters.collect::<Vec<_>>().join(" ")));
    }
    let told: Vec<String> =
        values("BEHAVIOUR").iter().map(|word| format!("{} {word}", word[..1].to_uppercase())).collect();
    page.text(Ink::Dim, &format!("{}; . not measured", told.join(", ")), "  ", "    ");
    // What is translated as one thing and behaves as several, or as another one.
    for kind in values("MEMORY") {
        let of: Vec<usize> = (0..256).filter(|b| word(*b, "translated_as") == Some(kind)).collect();
        let behaved: Vec<String> = values("BEHAVIOUR")
            .iter()
            .filter_map(|as_| {
                let n = of.iter().filter(|b| word(**b, "behaves_as") == Some(as_)).count();
                (n > 0).then(|| format!("{n} as {as_}"))
            })
            .collect();
        if !of.is_empty() {
            let text = format!("{kind}: {} bytes, behave {}", of.len(), behaved.join(", "));
            page.text(Ink::Plain, &text, "- ", "  ");
        }
    }
    times(page, &all);
}

/// The times of each byte.
fn times(page: &mut Page, all: &[((usize, String), &Finding)]) {
    let of = |byte: usize, what: &str| all.iter().find(|((b, w), _)| *b == byte && w == what).map(|f| f.1);
    let mut rows = Vec::new();
    for byte in 0..values("BYTE").len() {
        let times = ["read", "write", "write_apart"].map(|what| of(byte, what));
        if times.iter().all(Option::is_none) {
            continue;
        }
        let mut row = vec![format!("0x{}", values("BYTE")[byte])];
        row.extend(times.iter().map(|f| f.map(|f| number::value(f).value).unwrap_or_default()));
        row.push(of(byte, "translated_as").map(|f| number::value(f).value).unwrap_or_default());
        row.push(of(byte, "behaves_as").map(|f| number::value(f).value).unwrap_or_default());
        rows.push(row);
    }
    let columns = [
        right("MAIR"),
        right("load ns"),
        right("store ns"),
        right("apart ns"),
        left("translated as"),
        left("behaves as"),
    ];
    page.table(&columns, &rows, &[]);
    let labelled: Vec<(String, &Finding)> =
        all.iter().map(|((byte, _), f)| (format!("0x{}", values("BYTE")[*byte]), *f)).collect();
    notes(page, &labelled);
}

/// What a walk costs by the tables' own attribute.
fn walks(page: &mut Page, shelf: &mut Shelf) {
    let all = shelf.take_by(|parts| match parts {
        ["walk", tables, what @ ("time" | "cycles")] => {
            Some((values("TABLES").iter().position(|t| t == tables)?, what.to_string()))
        }
        _ => None,
    });
    let ratio = shelf.take("walk.ratio");
    if all.is_empty() && ratio.is_none() {
        return;
    }
    page.heading("Page walks, by how they fetch descriptors");
    let mut rows = Vec::new();
    let mut labelled: Vec<(String, &Finding)> = Vec::new();
    for ((tables, what), f) in &all {
        let tables = values("TABLES")[*tables];
        let mut row = vec![tables.to_owned()];
        row.extend(number::cells(Some(f)));
        row.push(if what == "time" { "ns" } else { "cycles" }.to_owned());
        row.push(f.count.to_string());
        rows.push(row);
        labelled.push((tables.to_owned(), f));
    }
    if !rows.is_empty() {
        page.table(&[left("tables"), measured("a walk"), INTERVAL, left("unit"), right("n")], &rows, &[]);
    }
    if let Some(f) = ratio {
        let shown = number::value(f);
        page.text(Ink::Plain, &format!("walk.ratio {} {}", shown.value, shown.interval), "", "  ");
    }
    notes(page, &labelled);
}
