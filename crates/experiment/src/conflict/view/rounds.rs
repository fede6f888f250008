//! View of rounds of reads that compete for a set, as in study S1: misses, time, and expected misses per policy.

use fathom_analysis::findings::{Axis, Finding, Metric, Value};
use fathom_analysis::metrics::conflict::{
    CONFLICT_BASE_MISSES_PER_ROUND, CONFLICT_BASE_TIME_PER_ROUND, CONFLICT_EXPECTED,
    CONFLICT_MISSES_PER_ROUND, CONFLICT_TIME_PER_ROUND,
};

use crate::geometry::view::Nearest;
use fathom_report::chart::{Chart, Kind, Level, Scale, Series};
use fathom_report::finding_index::FindingIndex;
use fathom_report::number;
use fathom_report::page::{Column, Page, TextRole, right};
use fathom_report::plot::{Plot, draw};
use fathom_report::{fitted, notes};

/// Figures of study S1 for a million rounds of eight and of nine reads: reads, misses, seconds.
const STUDY: [(u64, u64, f64); 2] = [(8, 37_103, 0.217_522_515), (9, 4_687_932, 0.248_132_105)];
/// Distance between reads, bytes, as in the study.
const DISTANCE: f64 = 4096.0;
/// Height of the plot of misses, rows of text.
const PLOT_ROWS: usize = 6;

/// Findings for one number of reads per round.
#[derive(Default)]
struct Round<'a> {
    reads: u64,
    misses: Option<&'a Finding>,
    time: Option<&'a Finding>,
    base_misses: Option<&'a Finding>,
    base_time: Option<&'a Finding>,
}

fn take_rounds<'a>(finding_index: &mut FindingIndex<'a>) -> Vec<Round<'a>> {
    let found = finding_index.of(&[
        &CONFLICT_MISSES_PER_ROUND,
        &CONFLICT_TIME_PER_ROUND,
        &CONFLICT_BASE_MISSES_PER_ROUND,
        &CONFLICT_BASE_TIME_PER_ROUND,
    ]);
    let mut all: Vec<Round> = Vec::new();
    for f in found {
        let Some(reads) = f.key.number(Axis::Lines) else { continue };
        if all.last().is_none_or(|last| last.reads != reads) {
            all.push(Round { reads, ..Round::default() });
        }
        let Some(round) = all.last_mut() else { continue };
        *(match f.key.metric {
            m if *m == CONFLICT_MISSES_PER_ROUND => &mut round.misses,
            m if *m == CONFLICT_TIME_PER_ROUND => &mut round.time,
            m if *m == CONFLICT_BASE_MISSES_PER_ROUND => &mut round.base_misses,
            _ => &mut round.base_time,
        }) = Some(f);
    }
    all
}

/// Renders the rounds, if measured. `nearest`: geometry of the nearest level, as far as known.
pub(super) fn section(page: &mut Page, nearest: Nearest, finding_index: &mut FindingIndex) {
    let rounds = take_rounds(finding_index);
    let expected = finding_index.along(&CONFLICT_EXPECTED, Axis::Lines);
    if rounds.is_empty() && expected.is_empty() {
        return;
    }
    page.heading("Rounds of independent reads 4 KiB apart: misses of the nearest level, and time");
    // If a way is larger than the distance, the reads fall into this number of sets.
    let sets_used = nearest.way_bytes.map_or(1.0, |way| way / DISTANCE);
    figures(page, nearest, &rounds, (&expected, sets_used));
    if !rounds.is_empty() {
        table(page, &rounds);
    }
    if sets_used > 1.0 {
        let way = number::size(sets_used * DISTANCE, None, None).value;
        let sets = number::shown(sets_used, None, None).value;
        let text =
            format!("A way is {way}: these reads fall into {sets} sets in turn, so that more of them fit.");
        page.text(TextRole::Plain, &text, "", "  ");
    }
    by_policy(page, &rounds, &expected, sets_used <= 1.0);
}

/// Renders misses and time: a plot in text, charts in HTML.
fn figures(
    page: &mut Page,
    nearest: Nearest,
    rounds: &[Round],
    (expected, sets_used): (&[(u64, &Finding)], f64),
) {
    let finite = |f: Option<&Finding>| match f?.value {
        Value::Number(v) if v.is_finite() && v.abs() < 1e15 => Some(v),
        _ => None,
    };
    let points: Vec<(f64, f64)> =
        rounds.iter().filter_map(|r| Some((r.reads as f64, finite(r.misses)?))).collect();
    if let [first, .., last] = points.as_slice() {
        let within = |(reads, _): &(f64, String)| (first.0..=last.0).contains(reads);
        let plain = |v: f64| number::shown(v, None, None).value;
        let marks = nearest.ways.map(|ways| match sets_used {
            sets_used if sets_used > 1.0 => {
                (sets_used * ways, format!("{} sets of {} ways", plain(sets_used), plain(ways)))
            }
            _ => (ways, format!("{} ways", plain(ways))),
        });
        let plot = Plot {
            marks: marks.into_iter().filter(within).collect(),
            points,
            plateaus: Vec::new(),
            log_x: true,
            log_y: false,
            from_zero: false,
            rows: PLOT_ROWS,
            x_label: |v| number::shown(v.round(), None, None).value,
            y_label: number::height,
        };
        page.text(TextRole::Plain, "Misses per round, by number of reads:", "", "  ");
        let drawn = draw(&plot, page.style().width, page.style().unicode);
        let comparison = if sets_used <= 1.0 { expected } else { &[] };
        page.picture(misses_chart(comparison), drawn);
        page.line(TextRole::Plain, "");
    }
    if rounds.iter().filter(|r| finite(r.time).is_some()).count() > 1 {
        let caption =
            "Time per round. It grows with each read, and more steeply beyond the ways, where reads miss.";
        let series = [&CONFLICT_TIME_PER_ROUND, &CONFLICT_BASE_TIME_PER_ROUND];
        page.picture(chart("rounds.time", series, "ns per round", caption), Vec::new());
    }
}

/// Returns the chart of a quantity by reads per round, in huge pages and in base pages.
fn chart(name: &str, [huge, base]: [&'static Metric; 2], unit: &'static str, caption: &str) -> Chart {
    let x = Scale::of(Axis::Lines, "reads per round").whole();
    Chart::new(name, Kind::Nested, x, Scale::values(unit).zero(), caption)
        .with(Series::of(huge, "measured"))
        .with(Series::of(base, "in base pages"))
}

/// Returns the chart of misses, with the expected misses per policy.
fn misses_chart(expected: &[(u64, &Finding)]) -> Chart {
    let reads = expected.iter().map(|(reads, _)| *reads).min().unwrap_or_default();
    let mut levels: Vec<Level> = Vec::new();
    for (_, f) in expected.iter().filter(|(of, _)| *of == reads) {
        let (Some(y), Some(policy)) = (f.finite(), f.key.word(Axis::Policy)) else { continue };
        match levels.iter_mut().find(|level| (level.y - y).abs() < 0.005) {
            Some(level) => level.names.push(policy),
            None => levels.push(Level { x: reads as f64, y, names: vec![policy], text: String::new() }),
        }
    }
    levels.sort_by(|a, b| a.y.total_cmp(&b.y));
    for level in &mut levels {
        let misses = number::shown(level.y, None, None).value;
        level.text =
            format!("{reads} reads with {}: {misses} expected misses per round", level.names.join(", "));
    }
    let mut caption = "Misses of the nearest level per round".to_owned();
    if !levels.is_empty() {
        caption += &format!("; levels at {reads} reads: expected under textbook policies");
    }
    let series = [&CONFLICT_MISSES_PER_ROUND, &CONFLICT_BASE_MISSES_PER_ROUND];
    chart("rounds.misses", series, "misses per round", &format!("{caption}."))
        .levels("textbook policies", levels)
}

fn table(page: &mut Page, rounds: &[Round]) {
    let per_read: Vec<Option<Finding>> = rounds
        .iter()
        .map(|r| match r.time?.value {
            Value::Number(ns) => {
                Some(Finding { value: Value::Number(ns / r.reads as f64), ..r.time?.clone() })
            }
            Value::Text(_) => None,
        })
        .collect();
    let mut columns: Vec<Column> = vec![right("reads")];
    let mut cells: Vec<Vec<String>> = Vec::new();
    let mut add = |head: &'static str, values: Vec<Option<&Finding>>| {
        if values.iter().any(Option::is_some) {
            columns.push(right(head));
            cells.push(number::column(values.into_iter()));
        }
    };
    let both = rounds.iter().any(|r| r.base_misses.or(r.base_time).is_some());
    add(if both { "misses (huge)" } else { "misses" }, rounds.iter().map(|r| r.misses).collect());
    add(if both { "(base)" } else { "" }, rounds.iter().map(|r| r.base_misses).collect());
    add(if both { "ns/round (huge)" } else { "ns/round" }, rounds.iter().map(|r| r.time).collect());
    add(if both { "(base)" } else { "" }, rounds.iter().map(|r| r.base_time).collect());
    add(if both { "ns/read (huge)" } else { "ns/read" }, per_read.iter().map(Option::as_ref).collect());
    let rows: Vec<Vec<String>> = rounds
        .iter()
        .enumerate()
        .map(|(at, r)| {
            std::iter::once(r.reads.to_string()).chain(cells.iter().map(|c| c[at].clone())).collect()
        })
        .collect();
    page.table(&columns, &rows, &[]);
    if both {
        page.text(TextRole::Dim, "(huge), (base): page size of the memory", "  ", "    ");
    }
    let label = |r: &Round| format!("misses of {} reads", r.reads);
    let labelled: Vec<(String, &Finding)> = rounds
        .iter()
        .flat_map(|r| [r.misses, r.base_misses].map(|f| Some((label(r), f?))))
        .flatten()
        .collect();
    // Usually all misses have the same note on how they were detected: it is printed once.
    match labelled.first().map(|(_, f)| f.notes.as_slice()) {
        None => {
            page.text(TextRole::Dim, "misses: not counted, and not derived from single loads", "  ", "    ")
        }
        Some([note]) if labelled.iter().all(|(_, f)| f.notes == [note.as_str()]) => {
            page.text(TextRole::Dim, &format!("misses: {note}"), "  ", "    ");
        }
        _ => notes(page, &labelled),
    }
}

/// Renders the rounds of one line more than ways: expected misses per policy, the time, and the study's figures.
fn by_policy(page: &mut Page, rounds: &[Round], expected: &[(u64, &Finding)], comparable: bool) {
    let Some(&(n, _)) = expected.first() else { return };
    let of = |n: u64| rounds.iter().find(|r| r.reads == n);
    let measured = of(n).and_then(|r| r.misses).filter(|_| comparable);
    let text = format!(
        "Expected misses per round for {n} lines in a set of {} ways: {}{}.",
        n - 1,
        policies(expected),
        measured.map(|f| format!("; measured {}", number::value(f).value)).unwrap_or_default()
    );
    page.text(TextRole::Plain, &text, "", "  ");
    if !comparable {
        return;
    }
    let time = |n: u64| match of(n)?.time?.value {
        Value::Number(ns) => Some(ns),
        Value::Text(_) => None,
    };
    if let (Some(fits), Some(over)) = (time(n - 1), time(n))
        && n > 1
    {
        let text = format!(
            "A round of {n} reads takes {:+.1} % compared with one of {}; one additional read alone accounts for {:+.1} %.",
            100.0 * (over / fits - 1.0),
            n - 1,
            100.0 / (n - 1) as f64
        );
        page.text(TextRole::Plain, &text, "", "  ");
    }
    if n == STUDY[1].0 {
        let compared = [n - 1, n].into_iter().filter_map(of).flat_map(|r| r.misses.into_iter().chain(r.time));
        page.studies(|page| study(page, compared));
    }
}

/// Returns the policies by expected misses, fewest first; policies of equal number share an entry.
fn policies(expected: &[(u64, &Finding)]) -> String {
    let mut groups: Vec<(f64, String, Vec<String>)> = Vec::new();
    for (_, f) in expected {
        let name = f.key.word(Axis::Policy).unwrap_or_default();
        let shown = number::value(f).value;
        let at = groups.iter().position(|g| g.1 == shown).unwrap_or_else(|| {
            let value = if let Value::Number(v) = f.value { v } else { f64::INFINITY };
            groups.push((value, shown, Vec::new()));
            groups.len() - 1
        });
        groups[at].2.push(name);
    }
    groups.sort_by(|a, b| a.0.total_cmp(&b.0));
    let entries: Vec<String> =
        groups.iter().map(|(_, value, names)| format!("{} {value}", names.join(", "))).collect();
    entries.join("; ")
}

fn study<'a>(page: &mut Page, compared: impl Iterator<Item = &'a Finding>) {
    let [(_, few, short), (_, many, long)] = STUDY;
    let text = format!(
        "Study S1, on an L1 of 8 ways and 64 sets, a million rounds: {few} misses with 8 reads and {many} with 9 ({:.0} times), {:+.1} % time (published as +14.2 %); {:.2} misses per round, which no textbook policy gives.",
        many as f64 / few as f64,
        100.0 * (long / short - 1.0),
        many as f64 / 1e6
    );
    page.text(TextRole::Dim, &text, "", "  ");
    fitted(page, compared);
}
