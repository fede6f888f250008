//! Findings of claims, for any report.

pub(crate) mod view;

use fathom_analysis::claims::Decoded;
use fathom_analysis::findings::{Basis, Finding, Metric};
use fathom_analysis::metrics::claims;

/// Returns the claims of data and unified levels.
pub(crate) fn rows(decoded: &Decoded) -> Vec<Finding> {
    let mut rows = Vec::new();
    for claim in decoded.claims.iter().filter(|c| c.holds.data()) {
        let level = u64::from(claim.level);
        let at = [claim.source.token().into(), level.into(), claim.holds.token().into()];
        let mut row = |metric: &'static Metric, value: Option<f64>| {
            if let Some(value) = value {
                rows.push(Finding { basis: Basis::Assumed, ..Finding::number(metric.at(at), value) });
            }
        };
        row(&claims::CLAIM_LEVEL_SIZE, claim.size.map(|v| v as f64));
        row(&claims::CLAIM_LEVEL_LINE, claim.line.map(|v| v as f64));
        row(&claims::CLAIM_LEVEL_WAYS, claim.ways.map(f64::from));
        row(&claims::CLAIM_LEVEL_SETS, claim.sets.map(|v| v as f64));
    }
    rows
}
