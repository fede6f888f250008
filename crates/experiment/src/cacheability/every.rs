//! Every byte of MAIR_EL1, where it is asked for: what the tables then say, and how memory behaves.
//!
//! All 256, also those that the manual assigns to nothing: what a core makes of unlike halves, of transient lines and
//! of reserved values is what a driver writer cannot look up.

use fathom_analysis::attribute::Memory;
use fathom_analysis::findings::Report;
use fathom_probe::wire::Trial;

use super::Means;
use super::behaviour::{Times, behaves};
use super::plan::trial;
use super::reading::{TELLING, point, times};
use crate::common::scale::Scale;
use crate::reading::{measured, text};
use crate::record::Record;

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
    (0..=u8::MAX).flat_map(of).collect()
}

/// A row a byte of what it says and of how it behaves, with the times that say so.
pub(super) fn rows(record: &Record, scale: &Scale, cached: Option<Times>, report: &mut Report) {
    if !wanted(record) {
        return;
    }
    for byte in 0..=u8::MAX {
        let means = Means::Byte(byte);
        let key = |(op, bytes, step)| point(record, (means, op, bytes), step, scale);
        let all: Vec<_> = TELLING.into_iter().filter_map(key).collect();
        let name = |what: &str| format!("mair.{byte:02x}.{what}");
        let read_back = |id: &u64| {
            let run = record.trials.iter().find(|r| r.trial.id == *id)?;
            run.done?.translation?.mair
        };
        if let Some(mair) = all.iter().flat_map(|p| &p.ids).find_map(read_back) {
            let mut row = text(name("translated_as"), Memory::of(mair).token());
            row.count = 1;
            row.notes.extend((mair != byte).then(|| format!("it reads back as {mair:#04x}")));
            report.findings.push(row);
        }
        if let Some((own, cached)) = times(&all, means).zip(cached) {
            let mut row = text(name("behaves_as"), behaves(own, cached).token());
            row.count = all.len() as u64;
            row.trials = all.iter().flat_map(|p| p.ids.clone()).collect();
            report.findings.push(row);
        }
        for (point, what) in all.iter().zip(["read", "write", "write_apart"]) {
            report.findings.push(measured(name(what), point.time, "ns", point.count(), &point.ids));
        }
    }
}
