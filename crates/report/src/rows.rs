//! Generic table of the findings and histograms that no view has taken.

use fathom_analysis::findings::{Finding, Histogram, Metric, Value};
use fathom_analysis::metrics::common;

use crate::finding_index::FindingIndex;
use crate::notes;
use crate::number::{self, Shown};
use crate::page::{INTERVAL, Page, TextRole, left, measured, right};

/// Shows findings generically: numbers as rows (name, value, interval, unit, count), texts as lines, notes below.
pub fn show_rows(page: &mut Page, findings: &[&Finding]) {
    let (texts, numbers): (Vec<&Finding>, Vec<&Finding>) =
        findings.iter().partition(|f| matches!(f.value, Value::Text(_)));
    let row = |f: &&Finding| {
        let (Shown { value, interval }, unit) = number::in_cells(f);
        vec![f.name().clone(), value, interval, unit.to_string(), f.count.to_string()]
    };
    if !numbers.is_empty() {
        let columns = [left("finding"), measured("value"), INTERVAL, left("unit"), right("n")];
        page.table(&columns, &numbers.iter().map(row).collect::<Vec<_>>(), &[]);
    }
    for f in texts {
        let (Shown { value, interval }, unit) = number::in_cells(f);
        let all = format!("{}: {value} {interval} {unit}", f.name());
        page.text(TextRole::Plain, &format!("{} (n {})", all.trim_end(), f.count), "", "  ");
    }
    let labelled: Vec<(String, &Finding)> = findings.iter().map(|f| (f.name().clone(), *f)).collect();
    notes(page, &labelled);
}

/// Metrics of clocks and of measurement bias.
const CLOCKS: [&Metric; 5] = [
    &common::BIAS_TIMER,
    &common::BIAS_WALK,
    &common::BIAS_SAMPLE,
    &common::CLOCK_CORE_HZ,
    &common::CLOCK_TICK_HZ,
];

/// Shows everything that a view did not take: clocks, bias, other findings, histograms. Every view ends with it, so
/// that no finding is lost. `biases` are the experiment's own metrics of measurement bias.
pub fn show_rest(page: &mut Page, index: FindingIndex, biases: &[&'static Metric]) {
    let (findings, histograms) = index.rest();
    if !findings.is_empty() {
        let known = |f: &&Finding| CLOCKS.contains(&f.key.metric) || biases.contains(&f.key.metric);
        page.heading(if findings.iter().all(known) { "Clocks and bias" } else { "Other findings" });
        show_rows(page, &findings);
    }
    show_histograms(page, &histograms);
}

/// Shows the ends of histograms; the counts themselves are in the JSON.
fn show_histograms(page: &mut Page, histograms: &[&Histogram]) {
    if histograms.is_empty() {
        return;
    }
    page.heading("Histograms (every count with --json)");
    let row = |h: &&Histogram| {
        let end = |at: Option<&(f64, u64)>| {
            at.map(|(v, _)| number::shown(*v, None, None).value).unwrap_or_default()
        };
        vec![
            h.name(),
            number::size(h.bytes as f64, None, None).value,
            end(h.counts.first()),
            end(h.counts.last()),
            h.unit.to_string(),
            h.loads_per_sample.to_string(),
            h.counts.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n)).to_string(),
        ]
    };
    let columns = [
        left("histogram"),
        right("working set"),
        right("least"),
        right("most"),
        left("unit"),
        right("loads per sample"),
        right("n"),
    ];
    page.table(&columns, &histograms.iter().map(row).collect::<Vec<_>>(), &[]);
}
