//! Entries of TLBs, found and expected; used by every oracle of TLBs.

use fathom_analysis::findings::{Finding, Report, Value};
use fathom_analysis::metrics::survey as metrics;
use fathom_model::expected::{self, Expected};

/// Returns a numeric value of a report, with its row.
pub fn number<'a>(report: &'a Report, name: &str) -> Option<(&'a Finding, f64)> {
    let finding = report.findings.iter().find(|f| f.name() == name)?;
    match finding.value {
        Value::Number(v) => Some((finding, v)),
        Value::Text(_) => None,
    }
}

/// A TLB of a report, or of its description only.
pub enum Entry<'a> {
    /// Its entries are right: the finding, its number in the report, and the expected TLB.
    Right(&'a Finding, usize, expected::Tlb),
    /// They are not: the finding, the TLB expected in this place, and the error as text.
    Wrong(&'a Finding, Option<expected::Tlb>, String),
    /// It was not found.
    Missing(expected::Tlb),
}

/// Compares the TLBs of a report with the expected ones. Steps that the report takes for possible page tables are right if
/// they are, and left out if they are not.
pub fn entries<'a>(truth: &Expected, report: &'a Report) -> Vec<Entry<'a>> {
    let (mut all, mut noted) = (Vec::new(), Vec::new());
    let mut expected = truth.tlbs.iter();
    for n in 1.. {
        let Some((finding, v)) = number(report, &format!("tlb.{n}.entries")) else { break };
        let excused = finding.detail.flag(metrics::MAYBE_TABLES);
        let (low, high) = (finding.low.unwrap_or(v), finding.high.unwrap_or(v));
        noted.extend(excused.then_some(v));
        let mut rest = expected.clone();
        match rest.next() {
            Some(tlb) if low <= f64::from(tlb.entries) && f64::from(tlb.entries) <= high => {
                expected = rest;
                all.push(Entry::Right(finding, n, tlb.clone()));
            }
            _ if excused => {}
            other => {
                let what = other.map(|t| t.entries);
                let text = format!("TLB {n}: {low:.0}..{high:.0} entries, expected {what:?}");
                all.push(Entry::Wrong(finding, other.cloned(), text));
            }
        }
    }
    // A hidden TLB may be one rise with the page tables that leave the caches.
    let walk = report.findings.iter().find(|f| f.is(&metrics::WALK_LATENCY));
    noted.extend(walk.and_then(|walk| walk.detail.number(metrics::GROWS_BEYOND)));
    let near =
        |t: &&expected::Tlb| noted.iter().any(|v| (1.0 / 1.5..=1.5).contains(&(v / f64::from(t.entries))));
    all.extend(expected.filter(|t| !(t.hidden && near(t))).cloned().map(Entry::Missing));
    all
}
