//! Reads a record of `fathom conflict`: geometry of each level, and cost of a conflict.

use fathom_analysis::claims::decode;
use fathom_analysis::findings::{Refused, Report};

use super::{NAME, colours, study};
use crate::claims;
use crate::disturbance;
use crate::geometry::{self, Level};
use crate::latency_curve;
use crate::reading::{clocks, disturbance_rows, new_report, refuse_all};
use crate::record::Record;
use crate::scale::{Scale, clock_is_usable};
use crate::second_thread;

/// Reads a record. The report depends on the record alone.
#[must_use]
pub fn read(record: &Record) -> Report {
    let mut report = new_report(record, NAME);
    if !clock_is_usable(record) {
        refuse_all(record, "sets, ways, replacement and every conflict", &mut report);
        return report;
    }
    let scale = Scale::of(record);
    let mut curves = latency_curve::Curves::of(record, &scale);
    let is_divided = second_thread::extend(record, &scale, &mut curves);
    disturbance_rows(
        &disturbance::judge(record, &scale.cycle_ticks, &latency_curve::repeats(&curves.latency_curve)),
        &mut report,
    );
    clocks(record, &scale, &mut report);
    latency_curve::tier_rows(&curves, &scale, &mut report);
    if curves.steps().is_empty() {
        report.refusals.push(Refused {
            what: "sets, ways, lines and replacement".into(),
            reason: "the end of no tier was observed".into(),
            remedy: "give it a larger --budget".into(),
        });
    }
    let levels = geometry::read(record, &scale, &curves, true, &mut report);
    if is_divided {
        second_thread::rows(&mut report);
    }
    let steps = curves.steps();
    study::rows(record, &scale, &steps, levels.first().and_then(Level::geometry), &mut report);
    colours::read(record, &scale, &steps, &levels, &mut report);
    let decoded = decode(&record.facts);
    report.findings.extend(claims::rows(&decoded));
    report.findings.extend(geometry::rows::verdicts(&decoded, &levels, scale.base));
    report
}
