//! The reading: ways and sets of each tier, and what a conflict costs.

use fathom_analysis::findings::{Refused, Report};
use fathom_analysis::sets::{GRAIN, Verdict};

use super::{NAME, colours};
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
    let levels = geometry::levels(record, &scale, &steps);
    for (index, r) in geometry::replacements(record, &scale, &steps, &levels).iter().enumerate() {
        let n = index + 1;
        match r {
            geometry::Replacement::Asked(verdict, _) if verdict.decided || !verdict.consistent.is_empty() => {
                let names: Vec<&str> = verdict.consistent.iter().map(|p| p.token()).collect();
                report.findings.push(crate::reading::text(format!("tier.{n}.policies"), &names.join(",")));
            }
            geometry::Replacement::Asked(verdict, _) => report.refusals.push(Refused {
                what: format!("tier.{n}.policies"),
                reason: verdict.reason.clone(),
                remedy: String::new(),
            }),
            geometry::Replacement::Refused(reason) => report.refusals.push(Refused {
                what: format!("tier.{n}.policies"),
                reason: reason.clone(),
                remedy: String::new(),
            }),
        }
    }
    for (index, level) in levels.iter().enumerate() {
        let n = index + 1;
        if let Verdict::One(one) = level.verdict {
            report.findings.push(number(format!("tier.{n}.ways"), one.ways as f64, ""));
            report.findings.push(number(
                format!("tier.{n}.sets"),
                (one.way_bytes / level.line().unwrap_or(GRAIN)) as f64,
                "",
            ));
            if let Some(line) = level.line() {
                report.findings.push(number(format!("tier.{n}.line"), line as f64, "bytes"));
            }
        } else {
            report.refusals.push(Refused {
                what: format!("tier {n}"),
                reason: format!("{:?}", level.verdict),
                remedy: String::new(),
            });
        }
    }
    colours::read(record, &scale, &steps, &levels, &mut report);
    report
}
