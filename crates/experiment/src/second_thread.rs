//! A second thread of the measured core (SMT) that may run for a whole session where nobody sees it.
//!
//! The core divides what it has between two threads: the places for instructions and misses, the first level, the first TLB. A session beside a
//! second thread then shows half, in every trial. So upper ends hold twice of what was measured, with a note.

use fathom_analysis::findings::{Finding, Report};
use fathom_analysis::metrics::survey::{TIER_CAPACITY, TLB_ENTRIES, TLB_HUGE_ENTRIES};
use fathom_analysis::tiers::Reading;
use fathom_probe::machine::ClockTrust;

use crate::environment::threads_of_the_core;
use crate::latency_curve::Curves;
use crate::record::Record;
use crate::scale::Scale;

/// Parts into which a core divides what it has while two of its threads run. Ten sessions of an idle guest of an EPYC server (family 25, model 1) found
/// 255 or 127 instructions in flight, and 14 to 20 or 11 misses under way.
const PARTS: f64 = 2.0;
/// Relative excess of the first level's latency over a whole number of cycles from which on a second thread ran in most trials: it takes cycles from
/// the loads. Of twenty sessions of that guest, which has 32 KiB and 64 entries in 4 cycles, ten had 4.09 to 4.36, and among them were the two whose upper ends were too low (26 KiB; 57
/// entries). Of ten others, eight had 4.00 to 4.04.
const RAN: f64 = 0.02;
/// Part of a cycle by which a calibration may be too long, so that a latency is that much less than a whole number.
const LESS: f64 = 0.1;

/// Returns why a second thread may have run unseen; `None` if it cannot have.
fn unseen(record: &Record) -> Option<String> {
    if record.trust == Some(ClockTrust::Virtual) {
        return Some("a guest does not see one that belongs to another guest".to_owned());
    }
    threads_of_the_core(record).map(|cpus| format!("CPUs {cpus} are one core"))
}

/// Extends the upper end of a number of which each thread has half, if a second one may have run in all trials.
pub(crate) fn add(row: &mut Finding, record: &Record) {
    let (Some(high), Some(why)) = (row.high, unseen(record)) else { return };
    row.high = Some(PARTS * high);
    row.notes
        .push(format!("if a second thread of the core ran all the time, the core has twice as many: {why}"));
}

/// Extends the upper ends of the first level and of the first TLB, if a second thread may have run and the first level's latency shows that it did in
/// most trials. Returns whether it did.
pub(crate) fn extend(record: &Record, scale: &Scale, curves: &mut Curves) -> bool {
    let ran = unseen(record).is_some() && excess(scale, curves).is_some_and(|excess| excess > RAN);
    let first = |reading: &mut Option<Reading>| {
        let capacity = reading.as_mut().and_then(|reading| reading.tiers[0].capacity.as_mut());
        if let Some(capacity) = capacity.filter(|_| ran) {
            capacity.onset.high *= PARTS;
        }
    };
    first(&mut curves.reading);
    first(&mut curves.translated);
    ran
}

/// Returns the relative excess of the first level's latency over a whole number of cycles.
fn excess(scale: &Scale, curves: &Curves) -> Option<f64> {
    let first = curves.reading.as_ref()?.tiers.first()?.latency.value;
    let cycles = first / (scale.cycle()? * scale.tick_ns);
    let whole = (cycles + LESS).floor();
    (whole >= 1.0).then(|| cycles / whole - 1.0)
}

/// Extends the first TLB for huge pages too, and says so at all findings that are extended.
pub(crate) fn rows(report: &mut Report) {
    let huge = TLB_HUGE_ENTRIES.at([1_u64.into()]);
    let all = [TIER_CAPACITY.at([1_u64.into()]), TLB_ENTRIES.at([1_u64.into()]), huge.clone()];
    for row in report.findings.iter_mut().filter(|row| all.contains(&row.key)) {
        if row.key == huge {
            row.high = row.high.map(|high| PARTS * high);
        }
        row.notes.push(
            "the upper end is twice the measured one: loads of the first level take no whole number of cycles, as beside a second thread of the core, which has a part of it"
                .to_owned(),
        );
    }
}

#[cfg(test)]
mod tests;
