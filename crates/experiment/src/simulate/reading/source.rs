//! Findings about the source of a program.

use fathom_analysis::findings::{Finding, Item};
use fathom_analysis::metrics::simulate as metrics;

use crate::record::{Simulated, SimulatedSource};

/// Returns the lines of the source.
pub(super) fn source(simulated: &Simulated) -> Vec<Finding> {
    simulated.source.iter().zip(1u64..).map(|(line, rank)| of_line(line, rank, simulated)).collect()
}

fn of_line(line: &SimulatedSource, rank: u64, simulated: &Simulated) -> Finding {
    let mut finding = Finding::number(metrics::SOURCE_CYCLES.at([rank.into()]), super::cycles(line.units));
    let detail = &mut finding.detail;
    detail.set(metrics::SOURCE_FILE, Item::Token(line.file.clone()));
    detail.set(metrics::LINE_NUMBER, Item::Number(line.number as f64));
    if !line.text.is_empty() {
        detail.set(metrics::TEXT, Item::Token(line.text.clone()));
    }
    detail.set(metrics::EXECUTED, Item::Number(line.executed as f64));
    detail.set(metrics::ACCESSES, Item::Number(line.accesses as f64));
    detail.set(metrics::MISSES, super::by_level(simulated, &line.misses));
    detail.set(metrics::WALKS, Item::Number(line.walks as f64));
    super::overlap::set_overlapped(detail, line.overlapped);
    finding
}
