//! Ladders: the same loads in other orders, pages and placements, and with prefetchers off.

use fathom_analysis::findings::{Axis, Finding, Metric};
use fathom_analysis::metrics::latency as metrics;

use fathom_report::finding_index::FindingIndex;
use fathom_report::notes;
use fathom_report::number;
use fathom_report::page::{INTERVAL, Page, measured, right};

/// A ladder: heading, axis of its steps, metric of their means, metric of their peaks if any.
type Ladder = (&'static str, Axis, &'static Metric, Option<&'static Metric>);

const LADDERS: [Ladder; 4] = [
    ("orders", Axis::Order, &metrics::LATENCY_ORDER_TIME, Some(&metrics::LATENCY_ORDER_PEAK)),
    ("pages", Axis::Page, &metrics::LATENCY_PAGE_TIME, Some(&metrics::LATENCY_PAGE_PEAK)),
    ("placements", Axis::Placement, &metrics::LATENCY_PLACEMENT_TIME, None),
    (
        "prefetch, ascending",
        Axis::Prefetch,
        &metrics::LATENCY_PREFETCH_TIME,
        Some(&metrics::LATENCY_PREFETCH_PEAK),
    ),
];

/// One ladder step: working set, word, mean and peak.
struct LadderStep<'a> {
    bytes: u64,
    word: String,
    time: Option<&'a Finding>,
    peak: Option<&'a Finding>,
}

/// Renders the tables of the requested ladders.
pub(super) fn section(page: &mut Page, finding_index: &mut FindingIndex) {
    for (what, axis, time, peak) in LADDERS {
        let ladder_steps = ladder_steps(finding_index, axis, time, peak);
        if !ladder_steps.is_empty() {
            page.heading(&format!("Ladder of {what}: mean of all loads, and main peak of single loads"));
            table(page, &ladder_steps);
        }
    }
}

/// Takes the steps of a ladder, in the order of the findings.
fn ladder_steps<'a>(
    finding_index: &mut FindingIndex<'a>,
    axis: Axis,
    time: &'static Metric,
    peak: Option<&'static Metric>,
) -> Vec<LadderStep<'a>> {
    let mut ladder_steps: Vec<LadderStep> = Vec::new();
    for f in finding_index.listed(|f| f.is(time) || peak.is_some_and(|peak| f.is(peak))) {
        let Some((bytes, word)) = f.key.number(Axis::Size).zip(f.key.word(axis)) else { continue };
        if !ladder_steps
            .last()
            .is_some_and(|ladder_step| ladder_step.bytes == bytes && ladder_step.word == word)
        {
            ladder_steps.push(LadderStep { bytes, word, time: None, peak: None });
        }
        let Some(ladder_step) = ladder_steps.last_mut() else { continue };
        if f.is(time) { ladder_step.time = Some(f) } else { ladder_step.peak = Some(f) }
    }
    ladder_steps
}

fn table(page: &mut Page, ladder_steps: &[LadderStep]) {
    let refused = |f: &Finding| f.detail.flag(metrics::REFUSED);
    let mut before = None;
    let mut rows = Vec::new();
    for ladder_step in ladder_steps {
        let size = number::size(ladder_step.bytes as f64, None, None).value;
        // The size only on the first row of a group.
        let mut row = vec![
            if before == Some(ladder_step.bytes) { String::new() } else { size },
            ladder_step.word.clone(),
        ];
        before = Some(ladder_step.bytes);
        row.extend(match ladder_step.time {
            Some(f) if refused(f) => ["refused".to_owned(), String::new()],
            f => number::cells(f),
        });
        row.extend(number::cells(ladder_step.peak));
        row.push(ladder_step.time.filter(|f| !refused(f)).map(|f| f.count.to_string()).unwrap_or_default());
        rows.push(row);
    }
    let peak = ladder_steps
        .iter()
        .find_map(|r| r.peak)
        .map_or("peak", |f| if f.unit == "ns" { "peak ns" } else { "peak cycles" });
    let columns = [
        right("working set").key(),
        right("ladder step").key(),
        measured("ns"),
        INTERVAL,
        measured(peak),
        INTERVAL,
        right("n"),
    ];
    page.table(&columns, &rows, &[]);
    let labelled: Vec<(String, &Finding)> = ladder_steps
        .iter()
        .flat_map(|r| {
            let label = format!("{}, {}", number::size(r.bytes as f64, None, None).value, r.word);
            [r.time, r.peak].into_iter().flatten().map(move |f| (label.clone(), f))
        })
        .collect();
    notes(page, &labelled);
}
