//! View of `cacheability`: translation and behaviour of each attribute, one table per operation (working sets by
//! attributes), bytes of MAIR_EL1, page walks, and the comparison with study S0.

use fathom_analysis::findings::tokens::{BEHAVIOUR, BYTE, MEMORY};
use fathom_analysis::findings::{Axis, Finding, Report};
use fathom_analysis::metrics::cacheability as metrics;
use fathom_report::chart::{Chart, Kind, Scale, Series};
use fathom_report::finding_index::{FindingIndex, Row};
use fathom_report::number;
use fathom_report::page::{INTERVAL, Page, TextRole, left, measured, right};
use fathom_report::rows::show_rest;
use fathom_report::{fitted, notes};

use crate::claims;

/// Renders the report.
pub(crate) fn view(report: &Report, page: &mut Page) {
    let mut index = FindingIndex::new(report);
    mappings(page, &mut index);
    operations(page, &mut index);
    bytes(page, &mut index);
    walks(page, &mut index);
    page.studies(|page| study(page, &mut index));
    claims::view::section(page, report, &mut index);
    show_rest(page, index, &[]);
}

/// Renders the comparison with study S0.
fn study(page: &mut Page, finding_index: &mut FindingIndex) {
    let all = finding_index.of(&[&metrics::CACHEABILITY_STUDY]);
    for (nth, f) in all.iter().enumerate() {
        if nth == 0 {
            page.heading("Comparison with study S0: speed-up by caching");
        }
        page.text(
            TextRole::Plain,
            &format!("{} % faster: {}", number::value(f).value, f.notes.join("; ")),
            "- ",
            "  ",
        );
    }
    fitted(page, all);
}

/// Renders one row per attribute: addresses, byte of MAIR_EL1, translation, behaviour, alias.
fn mappings(page: &mut Page, finding_index: &mut FindingIndex) {
    let wanted = [
        &metrics::CACHEABILITY_VA,
        &metrics::CACHEABILITY_PA,
        &metrics::CACHEABILITY_MAIR,
        &metrics::CACHEABILITY_TRANSLATED_AS,
        &metrics::CACHEABILITY_BEHAVES_AS,
        &metrics::CACHEABILITY_ALIAS,
    ];
    let all = finding_index.rows(wanted, &[Axis::Attribute]);
    if all.is_empty() {
        return;
    }
    page.heading("Attributes: requested, in the page tables, by behaviour");
    let row = |row: &Row<6>| {
        let cells = row.of.iter().map(|f| f.map(|f| number::value(f).value).unwrap_or_default());
        [row.word(Axis::Attribute)].into_iter().chain(cells).collect()
    };
    let columns = [
        left("requested"),
        right("VA"),
        right("PA"),
        right("MAIR"),
        left("translated as"),
        left("behaves as"),
        left("alias"),
    ];
    page.table(&columns, &all.iter().map(row).collect::<Vec<_>>(), &[]);
    if all.iter().any(|row| row.of[4].and_then(Finding::word).is_some_and(|word| word == "gathered")) {
        let text = "gathered: not cached, neighbouring stores are combined (write-combining)";
        page.text(TextRole::Dim, text, "  ", "    ");
    }
    // Notes on addresses are left out, except for the provider of the memory: they only count the mappings.
    let addresses = [&metrics::CACHEABILITY_VA, &metrics::CACHEABILITY_PA, &metrics::CACHEABILITY_MAIR];
    let reported = |f: &Finding| match addresses.iter().any(|metric| f.is(metric)) {
        true => f.is(&metrics::CACHEABILITY_VA) && f.detail.word(metrics::PROVIDER).is_some(),
        false => true,
    };
    let labelled: Vec<(String, &Finding)> = all
        .iter()
        .flat_map(|row| row.findings().map(|f| (row.word(Axis::Attribute), f)))
        .filter(|(_, f)| reported(f))
        .collect();
    notes(page, &labelled);
}

/// One working set with one attribute and one operation: time, cycles, total and ratio.
type Point<'a> = Row<'a, 4>;

/// Renders one table per operation.
fn operations(page: &mut Page, finding_index: &mut FindingIndex) {
    let wanted = [
        &metrics::CACHEABILITY_TIME,
        &metrics::CACHEABILITY_CYCLES,
        &metrics::CACHEABILITY_TOTAL,
        &metrics::CACHEABILITY_RATIO,
    ];
    let points = finding_index.rows(wanted, &[Axis::Operation, Axis::Size, Axis::Attribute]);
    for operation in points.chunk_by(|a, b| a.at(Axis::Operation) == b.at(Axis::Operation)) {
        table(page, operation);
    }
}

/// Returns an operation as headings name it.
fn operation_name(operation: &str) -> &str {
    match operation {
        "read" => "Reads",
        "write" => "Writes",
        "rmw" => "Read-modify-writes",
        "set" => "Fills (memset)",
        "copy_to" => "Copies from write-back memory",
        "copy_from" => "Copies to write-back memory",
        other => other,
    }
}

fn table(page: &mut Page, points: &[Point]) {
    let operation = points[0].word(Axis::Operation);
    page.heading(&format!("{}: time per 8 bytes", operation_name(&operation)));
    let x = Scale::of(Axis::Size, "working set").log().sizes();
    let y = Scale::values("ns per 8 bytes").log();
    let caption = "Time per 8 bytes by working set, one curve per attribute; both axes logarithmic.";
    let series = Series::of(&metrics::CACHEABILITY_TIME, "{attribute}")
        .at(Axis::Operation, &operation)
        .by(Axis::Attribute);
    let chart = Chart::new(format!("attributes.{operation}"), Kind::Lines, x, y, caption).with(series);
    page.picture(chart, Vec::new());
    let ratios = number::column(points.iter().map(|p| p.of[3]));
    let cycles = number::column(points.iter().map(|p| p.of[1]));
    let mut before = None;
    let mut rows = Vec::new();
    for (at, point) in points.iter().enumerate() {
        let [time, point_cycles, total, ratio] = point.of;
        let bytes = point.number(Axis::Size);
        let again = before.replace(bytes) == Some(bytes);
        let size = if again { String::new() } else { number::size(bytes as f64, None, None).value };
        let mut row = vec![size, point.word(Axis::Attribute)];
        row.extend(number::cells(time));
        row.extend([(point_cycles, &cycles), (ratio, &ratios)].map(|(f, shown)| match f {
            Some(_) => shown[at].clone(),
            None => String::new(),
        }));
        row.push(total.map(number::value).unwrap_or_default().value);
        row.push(time.map(|f| f.count.to_string()).unwrap_or_default());
        rows.push(row);
    }
    let columns = [
        right("size").key(),
        left("attribute").key(),
        measured("ns"),
        INTERVAL,
        right("cycles"),
        right("ratio"),
        right("total ms"),
        right("n"),
    ];
    page.table(&columns, &rows, &[]);
    if points.iter().any(|p| p.of[3].is_some()) {
        page.text(TextRole::Dim, "ratio: time relative to write-back memory", "  ", "    ");
    }
    let labelled: Vec<(String, &Finding)> = points
        .iter()
        .flat_map(|p| {
            let size = number::size(p.number(Axis::Size) as f64, None, None).value;
            let label = format!("{size} {}", p.word(Axis::Attribute));
            p.findings().map(move |f| (label.clone(), f))
        })
        .collect();
    notes(page, &labelled);
}

/// One byte of MAIR_EL1: translation, behaviour, and the times of a load, a store, and a store to a separate line.
type Byte<'a> = Row<'a, 5>;

/// Renders the bytes of MAIR_EL1: one letter per byte for its behaviour, with a legend; then behaviours by translation,
/// and the times of each byte.
fn bytes(page: &mut Page, finding_index: &mut FindingIndex) {
    let wanted = [
        &metrics::MAIR_TRANSLATED_AS,
        &metrics::MAIR_BEHAVES_AS,
        &metrics::MAIR_READ,
        &metrics::MAIR_WRITE,
        &metrics::MAIR_WRITE_APART,
    ];
    let all = finding_index.rows(wanted, &[Axis::Mair]);
    if all.is_empty() {
        return;
    }
    page.heading("Every byte of MAIR_EL1: how memory behaves with it");
    page.line(TextRole::Dim, "high  low half");
    page.line(TextRole::Dim, "half  0 1 2 3 4 5 6 7 8 9 a b c d e f");
    let behaves = |byte: &Byte| byte.of[1].and_then(Finding::word).map(str::to_owned);
    let letter = |byte: &&str| {
        let row = all.iter().find(|row| row.word(Axis::Mair) == *byte);
        row.and_then(behaves).map_or_else(|| ".".to_owned(), |word| word[..1].to_uppercase())
    };
    for (high, bytes) in BYTE.values.chunks(16).enumerate() {
        let letters: Vec<String> = bytes.iter().map(letter).collect();
        page.line(TextRole::Plain, &format!("   {high:x}  {}", letters.join(" ")));
    }
    let legend: Vec<String> =
        BEHAVIOUR.values.iter().map(|word| format!("{} {word}", word[..1].to_uppercase())).collect();
    page.text(TextRole::Dim, &format!("{}; . not measured", legend.join(", ")), "  ", "    ");
    // Bytes of one translation may differ in behaviour.
    for kind in MEMORY.values {
        let translated = |row: &&Byte| row.of[0].and_then(Finding::word) == Some(kind);
        let of: Vec<&Byte> = all.iter().filter(translated).collect();
        let behaved: Vec<String> = BEHAVIOUR
            .values
            .iter()
            .filter_map(|as_| {
                let n = of.iter().filter(|byte| behaves(byte).as_deref() == Some(as_)).count();
                (n > 0).then(|| format!("{n} as {as_}"))
            })
            .collect();
        if !of.is_empty() {
            let text = format!("{kind}: {} bytes, behave {}", of.len(), behaved.join(", "));
            page.text(TextRole::Plain, &text, "- ", "  ");
        }
    }
    times(page, &all);
}

/// Renders the times of each byte.
fn times(page: &mut Page, all: &[Byte]) {
    let byte = |row: &Byte| format!("0x{}", row.word(Axis::Mair));
    let shown = |f: Option<&Finding>| f.map(|f| number::value(f).value).unwrap_or_default();
    let timed = all.iter().filter(|row| row.of[2..].iter().any(Option::is_some));
    let rows: Vec<Vec<String>> = timed
        .map(|row| {
            let [translated, behaves, read, write, apart] = row.of;
            let cells = [read, write, apart, translated, behaves].map(shown);
            [byte(row)].into_iter().chain(cells).collect()
        })
        .collect();
    let columns = [
        right("MAIR"),
        right("load ns"),
        right("store ns"),
        right("separate-line store ns"),
        left("translated as"),
        left("behaves as"),
    ];
    page.table(&columns, &rows, &[]);
    let labelled: Vec<(String, &Finding)> =
        all.iter().flat_map(|row| row.findings().map(|f| (byte(row), f))).collect();
    notes(page, &labelled);
}

/// Renders the cost of a page walk by the attribute of the page tables.
fn walks(page: &mut Page, finding_index: &mut FindingIndex) {
    let all = finding_index.rows([&metrics::WALK_CYCLES, &metrics::WALK_LATENCY], &[Axis::Tables]);
    let ratio = finding_index.one(&metrics::WALK_RATIO);
    if all.is_empty() && ratio.is_none() {
        return;
    }
    page.heading("Page walks, by how they fetch descriptors");
    let labelled: Vec<(String, &Finding)> =
        all.iter().flat_map(|row| row.findings().map(|f| (row.word(Axis::Tables), f))).collect();
    let row = |(tables, f): &(String, &Finding)| {
        let mut row = vec![tables.clone()];
        row.extend(number::cells(Some(f)));
        row.extend([f.unit.to_owned(), f.count.to_string()]);
        row
    };
    let rows: Vec<Vec<String>> = labelled.iter().map(row).collect();
    if !rows.is_empty() {
        page.table(&[left("tables"), measured("per walk"), INTERVAL, left("unit"), right("n")], &rows, &[]);
    }
    if let Some(f) = ratio {
        let shown = number::value(f);
        page.text(TextRole::Plain, &format!("{} {} {}", f.name(), shown.value, shown.interval), "", "  ");
    }
    notes(page, &labelled);
}
