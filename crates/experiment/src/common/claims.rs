//! What sources claim, as rows of any report.

use fathom_analysis::claims::Decoded;
use fathom_analysis::findings::Finding;

use crate::reading::number;

/// The claims' own rows, data and unified levels only, and the sources' complaints as rows of notes.
pub(crate) fn rows(decoded: &Decoded) -> Vec<Finding> {
    let mut rows = Vec::new();
    for claim in decoded.claims.iter().filter(|c| c.holds.data()) {
        let name = |key: &str| format!("claim.{}.level.{}.{key}", claim.source.token(), claim.level);
        let mut row = |key: &str, value: Option<f64>, unit: &'static str| {
            if let Some(value) = value {
                let mut finding = number(name(key), value, unit);
                finding.notes.push(format!("holds {}", claim.holds));
                rows.push(finding);
            }
        };
        row("size", claim.size.map(|v| v as f64), "bytes");
        row("line", claim.line.map(|v| v as f64), "bytes");
        row("ways", claim.ways.map(f64::from), "");
        row("sets", claim.sets.map(|v| v as f64), "");
    }
    rows
}
