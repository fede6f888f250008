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

/// Compares the TLBs of a report. Returns those whose entries are right, as number in the report and expected TLB, and
/// the errors of the others.
pub fn entries(truth: &Expected, report: &Report) -> (Vec<(usize, expected::Tlb)>, Vec<String>) {
    let (mut right, mut wrong, mut noted) = (Vec::new(), Vec::new(), Vec::new());
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
                right.push((n, tlb.clone()));
            }
            _ if excused => {}
            other => wrong.push(format!(
                "TLB {n}: {low:.0}..{high:.0} entries, expected {:?}",
                other.map(|t| t.entries)
            )),
        }
    }
    let near =
        |t: &&expected::Tlb| noted.iter().any(|v| (1.0 / 1.5..=1.5).contains(&(v / f64::from(t.entries))));
    wrong.extend(
        expected
            .filter(|t| !(t.hidden && near(t)))
            .map(|missing| format!("no TLB of {} entries found", missing.entries)),
    );
    (right, wrong)
}
