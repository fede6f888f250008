//! Every byte of MAIR_EL1, where it is asked for: what the tables then say, and how memory behaves.
//!
//! All 256, on a core also those that the manual assigns to nothing: what it makes of unlike halves, of transient lines
//! and of reserved values is what a driver writer cannot look up.

use fathom_analysis::attribute::Memory;
use fathom_analysis::findings::Report;
use fathom_probe::machine::{Operation, Worth};
use fathom_probe::wire::Trial;

use super::behaviour::{Times, behaves};
use super::plan::trial;
use super::reading::{TELLING, point, times};
use super::{APART, Means};
use crate::common::scale::Scale;
use crate::reading::{measured, text};
use crate::record::{Record, TrialRun};

/// The round in which they are measured: once is enough to tell a factor of two.
const ROUND: u64 = 2;
/// n: twice a prime. Some tenths of a millisecond where nothing is cached.
const LOADS: u64 = 2 * 1031;

fn wanted(record: &Record) -> bool {
    record.run.as_ref().is_some_and(|run| run.every_mair)
}

/// The trials of all bytes, where they are asked for and this is their round.
pub(super) fn trials(record: &Record, round: u64) -> Vec<Trial> {
    if !wanted(record) || round != ROUND {
        return Vec::new();
    }
    let of = |byte: u8| {
        TELLING.map(|(op, bytes, step)| Trial { step, ..trial(Means::Byte(byte), op, bytes, LOADS) })
    };
    asked(record).flat_map(of).collect()
}

/// The bytes. No description says what a core makes of those that the manual assigns to nothing; a core answers for
/// itself.
fn asked(record: &Record) -> impl Iterator<Item = u8> + use<> {
    let modelled = record.worth == Some(Worth::Modelled);
    (0..=u8::MAX).filter(move |byte| !(modelled && Memory::of(*byte) == Memory::Reserved))
}

/// How many of them were not measured, as a word for what is missing.
pub(super) fn missing(record: &Record) -> Option<String> {
    let of = |byte: u8, (op, bytes, step): (Operation, u64, u64)| {
        record.trials.iter().any(|r| {
            let t = &r.trial;
            (t.controls.mair, t.operation, t.bytes, t.step) == (Some(byte), op, bytes, step)
                && (r.done.is_some() || r.refusal.is_some())
        })
    };
    let lost = asked(record).filter(|byte| !TELLING.into_iter().all(|telling| of(*byte, telling))).count();
    (wanted(record) && lost > 0).then(|| format!("{lost} bytes of MAIR_EL1"))
}

fn name(byte: u8, what: &str) -> String {
    format!("mair.{byte:02x}.{what}")
}

/// A row a byte of what the machine's tables then say, which needs no clock.
pub(super) fn translations(record: &Record, report: &mut Report) {
    if !wanted(record) {
        return;
    }
    for byte in 0..=u8::MAX {
        let read_back = |r: &TrialRun| Some((r.trial.id, r.done?.translation?.mair?));
        let mut of = record.trials.iter().filter(|r| r.trial.controls.mair == Some(byte));
        let Some((id, mair)) = of.find_map(read_back) else { continue };
        let mut row = text(name(byte, "translated_as"), Memory::of(mair).token());
        (row.count, row.trials) = (1, vec![id]);
        row.notes.extend((mair != byte).then(|| format!("it reads back as {mair:#04x}")));
        report.findings.push(row);
    }
}

/// A row a byte of how it behaves, beside what it says, with the times that say so.
pub(super) fn rows(record: &Record, scale: &Scale, cached: Option<Times>, report: &mut Report) {
    translations(record, report);
    if !wanted(record) {
        return;
    }
    for byte in 0..=u8::MAX {
        let means = Means::Byte(byte);
        let key = |(op, bytes, step)| point(record, (means, op, bytes), step, scale);
        let all: Vec<_> = TELLING.into_iter().filter_map(key).collect();
        if let Some((own, cached)) = times(&all, means).zip(cached) {
            let mut row = text(name(byte, "behaves_as"), behaves(own, cached).token());
            row.count = all.len() as u64;
            row.trials = all.iter().flat_map(|p| p.ids.clone()).collect();
            report.findings.push(row);
        }
        for point in &all {
            let what = match (point.key.1, point.step) {
                (Operation::Read, _) => "read",
                (_, APART) => "write_apart",
                _ => "write",
            };
            report.findings.push(measured(name(byte, what), point.time, "ns", point.count(), &point.ids));
        }
    }
}
