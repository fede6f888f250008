//! Access times: table of single loads, and a histogram per working set.

use fathom_analysis::findings::{Axis, Finding, Histogram, Report};
use fathom_analysis::metrics::common::BIAS_SAMPLE;
use fathom_analysis::metrics::latency::{
    LATENCY_CYCLES, LATENCY_PEAK, LATENCY_SINGLE, LATENCY_TIME, LATENCY_TLB,
};

use fathom_report::chart::{Chart, Kind, Mark, Scale, Series};
use fathom_report::finding_index::FindingIndex;
use fathom_report::notes;
use fathom_report::number;
use fathom_report::page::{INTERVAL, Page, TextRole, measured, right};
use fathom_report::plot;
use unicode_width::UnicodeWidthStr as _;

/// Rows of one histogram, at most; further bars are joined into wider ones.
const MAX_BARS: usize = 16;
/// Smallest share of a separate bar; smaller bars are part of the row "the rest".
const MIN_BAR_SHARE: f64 = 0.005;

/// Columns of the longest bar, below which bars are not drawn.
const MIN_BAR_COLUMNS: usize = 6;
/// Smallest share of the samples that the rows show.
const MIN_SHOWN_SHARE: f64 = 0.95;

/// Returns whether this histogram is drawn here.
fn is_shown(h: &Histogram) -> bool {
    h.is(&LATENCY_SINGLE) && h.key.number(Axis::Size) == Some(h.bytes)
}

/// Findings of one working set.
#[derive(Default)]
struct Set<'a> {
    bytes: u64,
    time: Option<&'a Finding>,
    cycles: Option<&'a Finding>,
    peak: Option<&'a Finding>,
    tlb: Option<&'a Finding>,
}

/// Renders the table and the histograms, if there are peaks of single loads.
pub(super) fn section(page: &mut Page, report: &Report, finding_index: &mut FindingIndex) {
    let peaks = finding_index.along(&LATENCY_PEAK, Axis::Size);
    if peaks.is_empty() {
        return;
    }
    let mut sets: Vec<Set> =
        peaks.iter().map(|(bytes, f)| Set { bytes: *bytes, peak: Some(f), ..Set::default() }).collect();
    for f in finding_index.of(&[&LATENCY_TIME, &LATENCY_CYCLES, &LATENCY_TLB]) {
        let Some(bytes) = f.key.number(Axis::Size) else { continue };
        let at = sets.iter().position(|s| s.bytes == bytes).unwrap_or_else(|| {
            sets.push(Set { bytes, ..Set::default() });
            sets.len() - 1
        });
        if f.is(&LATENCY_TIME) {
            sets[at].time = Some(f);
        } else if f.is(&LATENCY_CYCLES) {
            sets[at].cycles = Some(f);
        } else {
            sets[at].tlb = Some(f);
        }
    }
    sets.sort_by_key(|s| s.bytes);
    let unit = sets.iter().find_map(|s| s.peak).map_or("", |f| f.unit);
    page.heading("Access time: mean of all loads (n/2n), and main peak of single loads");
    table(page, &sets);
    for h in finding_index.histograms(is_shown) {
        draw(page, report, h, unit);
    }
}

fn table(page: &mut Page, sets: &[Set]) {
    let row = |s: &Set| {
        let tlb = s.tlb.and_then(Finding::word).unwrap_or_default().to_owned();
        let mut row = vec![number::size(s.bytes as f64, None, None).value, tlb];
        row.extend(number::cells(s.time));
        row.push(number::cells(s.cycles)[0].clone());
        row.extend(number::cells(s.peak));
        row.push(s.peak.map(|f| f.count.to_string()).unwrap_or_default());
        row
    };
    let peak = sets
        .iter()
        .find_map(|s| s.peak)
        .map_or("peak", |f| if f.unit == "ns" { "peak ns" } else { "peak cycles" });
    let columns = [
        right("working set"),
        right("TLB"),
        measured("ns"),
        INTERVAL,
        right("cycles"),
        measured(peak),
        INTERVAL,
        right("n"),
    ];
    page.table(&columns, &sets.iter().map(row).collect::<Vec<_>>(), &[]);
    let labelled: Vec<(String, &Finding)> = sets
        .iter()
        .flat_map(|s| {
            let label = number::size(s.bytes as f64, None, None).value;
            [s.time, s.peak].into_iter().flatten().map(move |f| (label.clone(), f))
        })
        .collect();
    notes(page, &labelled);
}

/// Renders one histogram: a line per bar, with its share of the samples.
fn draw(page: &mut Page, report: &Report, h: &Histogram, unit: &str) {
    let total: u64 = h.counts.iter().map(|c| c.1).fold(0, u64::saturating_add);
    if total == 0 {
        return;
    }
    let what = if h.loads_per_sample > 1 {
        format!("means of {} loads", h.loads_per_sample)
    } else {
        "single loads".into()
    };
    page.heading(&format!(
        "{}: {total} {what}, {unit} with the bias",
        number::size(h.bytes as f64, None, None).value
    ));
    let (bars, rest) = joined(&h.counts, total);
    let longest = bars.iter().map(|b| b.2).max().unwrap_or(1);
    let rows: Vec<(String, u64)> = bars
        .iter()
        .map(|(low, high, n)| {
            let label = if high > low { format!("{} to {}", short(*low), short(*high)) } else { short(*low) };
            let share = format!("{:5.1} %", 100.0 * *n as f64 / total as f64);
            (format!("{label:>14} {n:>6} {share}  "), *n)
        })
        .collect();
    // All bars start in one column, or none is drawn.
    let head = rows.iter().map(|r| r.0.width()).max().unwrap_or(0);
    let room = page.style().width.saturating_sub(head + 1);
    let mut lines = Vec::new();
    for (text, n) in &rows {
        lines.push(if room < MIN_BAR_COLUMNS {
            vec![(TextRole::Plain, format!("  {}", text.trim()))]
        } else {
            let bar = plot::bar(room as f64 * *n as f64 / longest as f64, page.style().unicode);
            vec![(TextRole::Plain, format!("{text:<head$}")), (TextRole::Bold, bar)]
        });
    }
    if rest > 0 {
        lines.push(vec![(TextRole::Dim, format!("{:>14} {rest:>6}", "the rest"))]);
    }
    page.picture(chart(report, h, &format!("{total} {what}, {unit} with the bias")), lines);
}

/// Returns the histogram, with the main peak at its position in the samples, which include the bias.
fn chart(report: &Report, h: &Histogram, caption: &str) -> Chart {
    let peak = report.find(LATENCY_PEAK.at([h.bytes.into()])).and_then(Finding::finite);
    let bias = report.find(&BIAS_SAMPLE).and_then(Finding::finite).unwrap_or(0.0);
    let mark = peak.map(|peak| {
        let shared =
            if h.loads_per_sample > 1 { format!(" / {}", h.loads_per_sample) } else { String::new() };
        let shown = number::shown(peak, None, None).value;
        Mark { x: peak + bias / h.loads_per_sample.max(1) as f64, label: format!("{shown} + bias{shared}") }
    });
    let series = Series::of(&LATENCY_SINGLE, "samples").at(Axis::Size, h.bytes);
    let (x, y) = (Scale::values(h.unit), Scale::values("samples"));
    Chart::new(format!("histogram.{}", h.bytes), Kind::Histogram, x, y, caption)
        .small()
        .with(series)
        .marks("main peak", mark.into_iter().collect())
}

fn short(v: f64) -> String {
    match v {
        v if v.abs() < 1e6 && (v - v.round()).abs() < 0.005 => format!("{v:.0}"),
        v if v.abs() < 1e6 => format!("{v:.1}"),
        v => number::shown(v, None, None).value,
    }
}

/// Joins bars until at most [`MAX_BARS`] with a separate row remain. Returns them and the count of the others.
fn joined(counts: &[(f64, u64)], total: u64) -> (Vec<(f64, f64, u64)>, u64) {
    let mut width = 0.0;
    loop {
        let mut bars: Vec<(f64, f64, u64)> = Vec::new();
        for &(v, n) in counts {
            match bars.last_mut() {
                Some(bar) if v - bar.0 < width * bar.0.abs() => (bar.1, bar.2) = (v, bar.2.saturating_add(n)),
                _ => bars.push((v, v, n)),
            }
        }
        let separate: Vec<_> =
            bars.into_iter().filter(|b| b.2 as f64 >= MIN_BAR_SHARE * total as f64).collect();
        let shown = separate.iter().map(|b| b.2).fold(0, u64::saturating_add);
        if separate.len() <= MAX_BARS && shown as f64 >= MIN_SHOWN_SHARE * total as f64 {
            return (separate, total.saturating_sub(shown));
        }
        width = if width == 0.0 { 0.005 } else { width * 1.5 };
        if width > 1e6 {
            return (separate, 0);
        }
    }
}
