//! Table of events per load, a row per working set or tier.

use std::cell::RefCell;
use std::collections::BTreeSet;

use fathom_analysis::findings::{Axis, Finding, Metric};
use fathom_analysis::metrics::counted::EventMetrics;
use fathom_report::finding_index::FindingIndex;
use fathom_report::number;
use fathom_report::page::{Page, right};

/// A column: its heading, and its metric at a level or TLB.
struct Column {
    heading: &'static str,
    metric: &'static Metric,
    number: Option<(Axis, u64)>,
}

impl Column {
    fn has(&self, finding: &Finding) -> bool {
        finding.is(self.metric) && self.number.is_none_or(|(axis, n)| finding.key.number(axis) == Some(n))
    }
}

/// Headings of levels and TLBs. A machine counts events of 8 of each at most.
const LEVELS: [&str; 8] = ["L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8"];
const TLBS: [&str; 8] = ["TLB1", "TLB2", "TLB3", "TLB4", "TLB5", "TLB6", "TLB7", "TLB8"];

/// Returns the columns that these metrics may have.
fn columns(metrics: &EventMetrics) -> impl Iterator<Item = Column> {
    let single = |heading, metric| std::iter::once(Column { heading, metric, number: None });
    let numbered = |axis, headings: [&'static str; 8], metric| {
        let column = move |(n, heading)| Column { heading, metric, number: Some((axis, n)) };
        (1..).zip(headings).map(column)
    };
    single("instructions", metrics.instructions)
        .chain(single("accesses", metrics.accesses))
        .chain(numbered(Axis::Level, LEVELS, metrics.refills))
        .chain(single("memory", metrics.memory_reads))
        .chain(numbered(Axis::Tlb, TLBS, metrics.tlb_refills))
        .chain(single("TLB misses", metrics.tlb_misses))
        .chain(single("walks", metrics.walks))
        .chain(single("stalls", metrics.stalls))
}

/// Takes the first finding of each key that `selected` accepts.
fn each_once<'a>(
    finding_index: &mut FindingIndex<'a>,
    selected: impl Fn(&Finding) -> bool,
) -> Vec<&'a Finding> {
    let seen = RefCell::new(BTreeSet::new());
    finding_index.listed(|f| selected(f) && seen.borrow_mut().insert(f.key.name()))
}

/// Renders the table under a heading, if events were counted. `rows` is the heading of its first column, `name` names the
/// coordinates, and `last` is a further column: its heading and metric.
pub(crate) fn table(
    page: &mut Page,
    finding_index: &mut FindingIndex,
    metrics: &EventMetrics,
    heading: &str,
    (rows, name): (&'static str, impl Fn(u64) -> String),
    last: Option<(&'static str, &'static Metric)>,
) {
    let last = last.map(|(heading, metric)| Column { heading, metric, number: None });
    let mut all: Vec<Column> = columns(metrics).chain(last).collect();
    let findings = each_once(finding_index, |f| {
        f.key.number(metrics.axis).is_some() && all.iter().any(|column| column.has(f))
    });
    if findings.is_empty() {
        return;
    }
    all.retain(|column| findings.iter().any(|f| column.has(f)));
    let mut coordinates: Vec<u64> = findings.iter().filter_map(|f| f.key.number(metrics.axis)).collect();
    coordinates.sort_unstable();
    coordinates.dedup();
    let cells = |column: &Column| {
        let at = |at: &u64| {
            findings.iter().find(|f| column.has(f) && f.key.number(metrics.axis) == Some(*at)).copied()
        };
        number::column(coordinates.iter().map(at))
    };
    let cells: Vec<Vec<String>> = all.iter().map(cells).collect();
    let row = |(nth, at): (usize, &u64)| {
        let own = cells.iter().map(|column| column[nth].clone());
        std::iter::once(name(*at)).chain(own).collect::<Vec<_>>()
    };
    let lines: Vec<Vec<String>> = coordinates.iter().enumerate().map(row).collect();
    let headings: Vec<_> =
        std::iter::once(rows).chain(all.iter().map(|column| column.heading)).map(right).collect();
    page.heading(heading);
    page.table(&headings, &lines, &[]);
}
