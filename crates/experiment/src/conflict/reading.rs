//! The reading: ways and sets of each tier, and what a conflict costs.

use fathom_analysis::findings::{Refused, Report};
use fathom_analysis::sets::{GRAIN, Verdict};

use super::NAME;
use crate::common::scale::{Scale, believable};
use crate::geometry;
use crate::reading::{begun, number, refuse_all};
use crate::record::Record;
use crate::survey;

/// Reads a record. Everything that is shown follows from the record alone.
#[must_use]
pub fn read(record: &Record) -> Report {
    let mut report = begun(record, NAME);
    if !believable(record) {
        refuse_all(record, "sets, ways and every conflict", &mut report);
        return report;
    }
    let scale = Scale::of(record);
    let steps = survey::steps(record, &scale);
    for (index, verdict) in geometry::levels(record, &scale, &steps).iter().enumerate() {
        let n = index + 1;
        if let Verdict::One(one) = verdict {
            report.findings.push(number(format!("tier.{n}.ways"), one.ways as f64, ""));
            report.findings.push(number(format!("tier.{n}.sets"), (one.way_bytes / GRAIN) as f64, ""));
        } else {
            report.refusals.push(Refused {
                what: format!("tier {n}"),
                reason: format!("{verdict:?}"),
                remedy: String::new(),
            });
        }
    }
    report
}
