//! View of `dma`: engine and memory attribute, CPU time by strategy, its parts at one size, crossovers, cache pollution,
//! and the comparison with study S2.

use std::collections::BTreeSet;

use fathom_analysis::findings::tokens::{DIRECTION, STRATEGY};
use fathom_analysis::findings::{Axis, Coordinate, Finding, Metric, Report};
use fathom_analysis::metrics::dma as metrics;
use fathom_report::chart::{Chart, Kind, Scale, Series};
use fathom_report::finding_index::{FindingIndex, Row};
use fathom_report::number;
use fathom_report::page::{Column, INTERVAL, Page, TextRole, left, measured, right};
use fathom_report::rows::show_rest;
use fathom_report::{fitted, notes};

use crate::claims;

/// Renders the report.
pub(crate) fn view(report: &Report, page: &mut Page) {
    let mut index = FindingIndex::new(report);
    engines(page, &mut index);
    times(page, &mut index);
    link(page, &mut index);
    crossovers(page, &mut index);
    pollution(page, &mut index);
    page.studies(|page| study(page, &mut index));
    claims::view::section(page, report, &mut index);
    show_rest(page, index, &[]);
}

/// Renders the link rate for which CPU utilisation is reported.
fn link(page: &mut Page, finding_index: &mut FindingIndex) {
    // The finding exists only if utilisation is reported.
    if let Some(f) = finding_index.one(&metrics::DMA_LINK) {
        let rate = number::value(f).value;
        page.text(
            TextRole::Dim,
            &format!("{} {rate} {}: {}", f.name(), f.unit, f.notes.join("; ")),
            "  ",
            "    ",
        );
    }
}

/// Columns of strategies in the order of [`STRATEGY`]. Headings have two lines.
const STRATEGIES: [Column; STRATEGY.values.len()] = [
    right("streaming\n+ copy"),
    right("uncached\n+ copy"),
    right("zero copy\n"),
    right("persistent\n+ copy"),
    right("coherent\n"),
];

/// Returns a direction as headings name it.
fn direction_name(direction: &str) -> String {
    direction.replace('-', " the ")
}

/// Comparison with study S2.
fn study(page: &mut Page, finding_index: &mut FindingIndex) {
    const ROWS: [(&Metric, &str); 4] = [
        (&metrics::DMA_STUDY_SAVED, "CPU time saved by uncached-copy per packet"),
        (&metrics::DMA_STUDY_PUBLISHED_SAVING, "in study S2, from its throughputs"),
        (&metrics::DMA_STUDY_GAIN, "throughput gain of uncached-copy"),
        (&metrics::DMA_STUDY_CPU_SAVED_PP, "CPU utilisation saved at the link's rate, points"),
    ];
    let labelled: Vec<(String, &Finding)> = ROWS
        .iter()
        .filter_map(|(metric, about)| Some(((*about).to_owned(), finding_index.one(*metric)?)))
        .collect();
    if labelled.is_empty() {
        return;
    }
    page.heading("Comparison with study S2: uncached buffer, streaming mapping");
    let rows: Vec<Vec<String>> = labelled
        .iter()
        .map(|(about, f)| {
            let mut row = vec![about.clone()];
            row.extend(number::cells(Some(f)));
            row.extend([f.unit.to_owned(), f.count.to_string()]);
            row
        })
        .collect();
    page.table(&[left("what"), measured("here"), INTERVAL, left("unit"), right("n")], &rows, &[]);
    fitted(page, labelled.iter().map(|(_, f)| *f));
    notes(page, &labelled);
}

/// Renders engine, memory attribute and wrong bytes, one row per strategy and direction.
fn engines(page: &mut Page, finding_index: &mut FindingIndex) {
    let wanted = [&metrics::DMA_ATTRIBUTE, &metrics::DMA_ENGINE, &metrics::DMA_WRONG_BYTES];
    let all = finding_index.rows(wanted, &[Axis::Direction, Axis::Strategy]);
    if all.is_empty() {
        return;
    }
    page.heading("Engine, memory attribute and data verification");
    let mut rows = Vec::new();
    let mut labelled = Vec::new();
    for row in &all {
        let (direction, strategy) = (row.word(Axis::Direction), row.word(Axis::Strategy));
        let label = format!("{strategy} {direction}");
        labelled.extend(row.findings().map(|f| (label.clone(), f)));
        let [_, engine, wrong] = row.of;
        let mut cells = vec![direction, strategy];
        cells.extend(row.of.iter().map(|f| f.map(|f| number::value(f).value).unwrap_or_default()));
        cells.push(wrong.or(engine).map(|f| f.count.to_string()).unwrap_or_default());
        rows.push(cells);
    }
    let columns = [
        left("direction").key(),
        left("strategy").key(),
        left("device's memory"),
        left("engine"),
        right("wrong bytes"),
        right("n"),
    ];
    page.table(&columns, &rows, &[]);
    notes(page, &labelled);
}

/// Metrics of one strategy, direction and size, in the order of the table of parts. The first is CPU time.
const PARTS: [&Metric; 9] = [
    &metrics::DMA_CPU,
    &metrics::DMA_USE,
    &metrics::DMA_COPY,
    &metrics::DMA_MAP,
    &metrics::DMA_UNMAP,
    &metrics::DMA_SETUP,
    &metrics::DMA_TRANSFER_TIME,
    &metrics::DMA_THROUGHPUT,
    &metrics::DMA_UTILISATION,
];
type Parts<'a> = Row<'a, 9>;

/// Order of the points: one table per direction, one row per size, one column per strategy.
const BY: [Axis; 3] = [Axis::Direction, Axis::Size, Axis::Strategy];

/// Renders the times, one table per direction, each followed by the parts at one size.
fn times(page: &mut Page, finding_index: &mut FindingIndex) {
    let all = finding_index.rows(PARTS, &BY);
    for of in all.chunk_by(|a, b| a.at(Axis::Direction) == b.at(Axis::Direction)) {
        let direction = of[0].word(Axis::Direction);
        cpu(page, finding_index, of, &direction);
        parts(page, of, &direction);
    }
}

/// One number in a table of sizes by strategies.
struct Cell<'a> {
    size: u64,
    strategy: Option<&'a Coordinate>,
    finding: &'a Finding,
    /// Suffix of the number.
    mark: &'static str,
}

impl<'a> Cell<'a> {
    fn new<const N: usize>(row: &Row<'a, N>, finding: &'a Finding, mark: &'static str) -> Cell<'a> {
        Cell { size: row.number(Axis::Size), strategy: row.at(Axis::Strategy), finding, mark }
    }

    fn label(&self) -> String {
        self.strategy.map(|strategy| strategy.write(Axis::Strategy)).unwrap_or_default()
    }
}

/// Renders CPU time, one row per size; the cheapest strategy of a row is marked.
fn cpu(page: &mut Page, finding_index: &mut FindingIndex, of: &[Parts], direction: &str) {
    let timed: Vec<(&Parts, &Finding)> = of.iter().filter_map(|row| Some((row, row.of[0]?))).collect();
    if timed.is_empty() {
        return;
    }
    page.heading(&format!("Transfers {}: ns of CPU time, by strategy", direction_name(direction)));
    let caption = "CPU time of a transfer by its size, one curve per strategy; both axes logarithmic.";
    let y = Scale::values("ns of CPU").log();
    page.picture(by_size("transfers", &metrics::DMA_CPU, direction, y, caption), Vec::new());
    let mut cells = Vec::new();
    for same in timed.chunk_by(|a, b| a.0.at(Axis::Size) == b.0.at(Axis::Size)) {
        let size = same[0].0.number(Axis::Size);
        let winner = finding_index.one(metrics::DMA_WINNER.at([direction.into(), size.into()]));
        cells.extend(same.iter().map(|(row, finding)| {
            let strategy = row.word(Axis::Strategy);
            let mark = match winner {
                Some(f) if f.word() == Some(&strategy) => "*",
                Some(f) if f.detail.words(metrics::TIES).contains(&strategy) => "=",
                _ => " ",
            };
            Cell::new(row, finding, mark)
        }));
    }
    table(page, &cells);
    page.text(
        TextRole::Dim,
        "*: minimum; =: not significantly more. Intervals: --json, --html.",
        "  ",
        "    ",
    );
}

/// Renders a table: one row per size, one column per strategy, a mark after each number; then the notes.
fn table(page: &mut Page, cells: &[Cell]) {
    let mut sizes: Vec<u64> = cells.iter().map(|cell| cell.size).collect();
    sizes.dedup();
    let mut rows: Vec<Vec<String>> =
        sizes.iter().map(|&bytes| vec![number::size(bytes as f64, None, None).value]).collect();
    for nth in 0..STRATEGIES.len() {
        let strategy = Coordinate::Word(nth, 0);
        let of =
            |bytes: &u64| cells.iter().find(|cell| cell.size == *bytes && cell.strategy == Some(&strategy));
        let found: Vec<Option<&Cell>> = sizes.iter().map(of).collect();
        let shown = number::column(found.iter().map(|cell| cell.map(|cell| cell.finding)));
        for ((row, cell), shown) in rows.iter_mut().zip(&found).zip(shown) {
            row.push(cell.map(|cell| format!("{shown}{}", cell.mark)).unwrap_or_default());
        }
    }
    let mut columns = vec![right("size")];
    columns.extend(STRATEGIES);
    page.table(&columns, &rows, &[]);
    let labelled: Vec<(String, &Finding)> = cells.iter().map(|cell| (cell.label(), cell.finding)).collect();
    notes(page, &labelled);
}

/// Returns the chart of a metric by the size of transfers in a direction, one curve per strategy.
fn by_size(name: &str, metric: &'static Metric, direction: &str, y: Scale, caption: &str) -> Chart {
    let x = Scale::of(Axis::Size, "transfer").log().sizes();
    let series = Series::of(metric, "{strategy}").at(Axis::Direction, direction).by(Axis::Strategy);
    Chart::new(format!("{name}.{direction}"), Kind::Lines, x, y, caption).with(series)
}

/// Returns the chart of CPU time at one size, by its parts, one row per strategy.
fn parts_chart(direction: &str, bytes: u64) -> Chart {
    let caption =
        format!("CPU time of {} {direction}, by its parts.", number::size(bytes as f64, None, None).value);
    let parts: [(&str, &'static Metric); 5] = [
        ("use", &metrics::DMA_USE),
        ("copy", &metrics::DMA_COPY),
        ("map", &metrics::DMA_MAP),
        ("unmap", &metrics::DMA_UNMAP),
        ("setup", &metrics::DMA_SETUP),
    ];
    let x = Scale::values("ns").zero();
    let chart = Chart::new(format!("transferparts.{direction}"), Kind::Stacked, x.clone(), x, caption);
    parts.into_iter().fold(chart.rows(Axis::Strategy, "{strategy}"), |chart, (name, metric)| {
        chart.with(Series::of(metric, name).at(Axis::Direction, direction).at(Axis::Size, bytes))
    })
}

/// Renders the parts at the size at which most strategies were measured; of several, the one nearest to an Ethernet
/// frame.
fn parts(page: &mut Page, of: &[Parts], direction: &str) {
    const FRAME: f64 = 1536.0;
    let at = |row: &&Parts, bytes: u64| row.number(Axis::Size) == bytes;
    let timed = |bytes: u64| of.iter().filter(|row| at(row, bytes) && row.of[0].is_some()).count();
    let sizes: BTreeSet<u64> = of.iter().map(|row| row.number(Axis::Size)).collect();
    let off = |bytes: u64| (bytes as f64 / FRAME).ln().abs();
    let nearer = |a: u64, b: u64| off(b).total_cmp(&off(a));
    let best = sizes.into_iter().max_by(|&a, &b| timed(a).cmp(&timed(b)).then_with(|| nearer(a, b)));
    let Some(bytes) = best else { return };
    let drawn: Vec<&Parts> = of.iter().filter(|row| at(row, bytes)).collect();
    page.heading(&format!(
        "Parts of {} {}, ns",
        number::size(bytes as f64, None, None).value,
        direction_name(direction)
    ));
    page.picture(parts_chart(direction, bytes), Vec::new());
    let mut rows: Vec<Vec<String>> = drawn.iter().map(|row| vec![row.word(Axis::Strategy)]).collect();
    for part in 0..PARTS.len() {
        let shown = number::column(drawn.iter().map(|row| row.of[part]));
        for ((row, parts), shown) in rows.iter_mut().zip(&drawn).zip(shown) {
            row.push(if parts.of[part].is_some() { shown } else { String::new() });
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
    // The notes on CPU time are below the table of all sizes.
    let labelled = drawn.iter().flat_map(|row| {
        row.of[1..].iter().flatten().map(|f| (row.word(Axis::Strategy), *f)).collect::<Vec<_>>()
    });
    notes(page, &labelled.collect::<Vec<_>>());
}

/// Renders the sizes at which the cheapest strategy changes.
fn crossovers(page: &mut Page, finding_index: &mut FindingIndex) {
    let all = finding_index.of(&[&metrics::DMA_CROSSOVER]);
    if all.is_empty() {
        return;
    }
    page.heading("Crossovers, by CPU time");
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|f| {
            let word = |axis| f.key.word(axis).unwrap_or_default();
            let mut row = vec![word(Axis::Direction), word(Axis::Strategy)];
            row.extend(number::cells(Some(f)));
            row.extend([word(Axis::Versus), f.count.to_string()]);
            row
        })
        .collect();
    let columns = [
        left("direction").key(),
        left("cheaper below").key(),
        measured("size"),
        left("between"),
        left("cheaper above"),
        right("n"),
    ];
    page.table(&columns, &rows, &[]);
}

/// Renders the added walk time of another working set after a transfer.
fn pollution(page: &mut Page, finding_index: &mut FindingIndex) {
    let all = finding_index.rows([&metrics::POLLUTION], &BY);
    for of in all.chunk_by(|a, b| a.at(Axis::Direction) == b.at(Axis::Direction)) {
        let direction = of[0].word(Axis::Direction);
        page.heading(&format!(
            "Cache pollution by transfers {}: added walk time of another working set, ns",
            direction_name(&direction)
        ));
        let caption = "Added time of a walk of the pollution set after a transfer, by the transfer's size.";
        let y = Scale::values("ns lost").zero();
        page.picture(by_size("pollution", &metrics::POLLUTION, &direction, y, caption), Vec::new());
        let mark = |f: &Finding| if f.detail.flag(metrics::UNSURE) { "~" } else { " " };
        let cells: Vec<Cell> =
            of.iter().flat_map(|row| row.findings().map(|f| Cell::new(row, f, mark(f)))).collect();
        table(page, &cells);
    }
    if all.is_empty() {
        return;
    }
    // The sums of both directions are separate findings. They are not printed: this sentence defines them.
    let mut both = "";
    for row in &all {
        let same = |other: &&Row<1>| [Axis::Strategy, Axis::Size].iter().all(|a| other.at(*a) == row.at(*a));
        let each = all.iter().filter(same).count();
        let strategy = row.word(Axis::Strategy);
        let sum = metrics::POLLUTION_ROUND_TRIP.at([(&strategy).into(), row.number(Axis::Size).into()]);
        if each == DIRECTION.values.len() && finding_index.one(sum).is_some() {
            both = "; the cost of one transfer in each direction is the sum of both tables";
        }
    }
    page.text(TextRole::Dim, &format!("~: not significant{both}"), "  ", "    ");
}
