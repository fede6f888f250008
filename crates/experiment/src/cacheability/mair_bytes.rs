//! All bytes of MAIR_EL1, if requested: their translation, and the behaviour of memory.
//!
//! All 256, on a real core including the reserved ones: documentation does not cover how a core treats different
//! halves, transient lines and reserved values.

use fathom_analysis::attribute::Memory;
use fathom_analysis::findings::{Basis, Item, Key, Metric, Report};
use fathom_analysis::metrics::cacheability as metrics;
use fathom_probe::machine::Operation;
use fathom_probe::pattern::Trial;

use super::behaviour::{Times, behaves};
use super::points::{BEHAVIOUR_POINTS, point, times};
use super::trials::{strided, trial};
use super::{SEPARATE_LINES, UncachedMethod};
use crate::reading::{measured, text};
use crate::record::{Record, TrialRun};
use crate::scale::Scale;

/// The round that measures them: one suffices to detect a factor of two.
const ROUND: u64 = 2;
/// n: twice a prime. Some tenths of a millisecond if nothing is cached.
const LOADS: u64 = 2 * 1031;

fn is_requested(record: &Record) -> bool {
    super::options::Options::of(record).all_mair
}

/// Returns the trials of all bytes, if requested and if this is their round.
pub(super) fn trials(record: &Record, round: u64) -> Vec<Trial> {
    if !is_requested(record) || round != ROUND {
        return Vec::new();
    }
    let of = |byte: u8| {
        BEHAVIOUR_POINTS
            .map(|(op, bytes, step)| strided(step, trial(UncachedMethod::Byte(byte), op, bytes, LOADS)))
    };
    requested(record).flat_map(of).collect()
}

/// Returns the bytes to test. Descriptions do not define reserved bytes, so these are tested on real cores only.
fn requested(record: &Record) -> impl Iterator<Item = u8> + use<> {
    let modelled = record.is_modelled();
    (0..=u8::MAX).filter(move |byte| !(modelled && Memory::of(*byte) == Memory::Reserved))
}

/// Returns the number of bytes that were not measured, as text for a warning.
pub(super) fn missing(record: &Record) -> Option<String> {
    let of = |byte: u8, (op, bytes, step): (Operation, u64, u64)| {
        record.trials.iter().any(|r| {
            let t = &r.trial;
            (t.controls.mair, t.pattern.operation(), t.memory.bytes, t.memory.stride)
                == (Some(byte), op, bytes, step)
                && (r.done.is_some() || r.refusal.is_some())
        })
    };
    let lost = requested(record)
        .filter(|byte| !BEHAVIOUR_POINTS.into_iter().all(|informative| of(*byte, informative)))
        .count();
    (is_requested(record) && lost > 0).then(|| format!("{lost} bytes of MAIR_EL1"))
}

/// Returns the key of a finding of a byte.
fn key(metric: &'static Metric, byte: u8) -> Key {
    metric.at([(&format!("{byte:02x}")).into()])
}

/// Adds a finding per byte with its translation in the machine's tables, which needs no clock.
pub(super) fn translations(record: &Record, report: &mut Report) {
    if !is_requested(record) {
        return;
    }
    for byte in 0..=u8::MAX {
        let read_back = |r: &TrialRun| Some((r.trial.id, r.done?.translation?.mair?));
        let mut of = record.trials.iter().filter(|r| r.trial.controls.mair == Some(byte));
        let Some((id, mair)) = of.find_map(read_back) else { continue };
        let mut row = text(key(&metrics::MAIR_TRANSLATED_AS, byte), Memory::of(mair).token());
        (row.count, row.trials) = (1, vec![id]);
        if mair != byte {
            row.detail.set(metrics::READ_BACK, Item::Number(f64::from(mair)));
            row.notes.push(format!("it reads back as {mair:#04x}"));
        }
        report.findings.push(row);
    }
}

/// Adds a finding per byte with its behaviour, and the times that it is derived from.
pub(super) fn rows(record: &Record, scale: &Scale, cached: Option<Times>, report: &mut Report) {
    translations(record, report);
    if !is_requested(record) {
        return;
    }
    for byte in 0..=u8::MAX {
        let method = UncachedMethod::Byte(byte);
        let of = |(op, bytes, step)| point(record, (method, op, bytes), step, scale);
        let all: Vec<_> = BEHAVIOUR_POINTS.into_iter().filter_map(of).collect();
        if let Some((own, cached)) = times(&all, method).zip(cached) {
            let mut row = text(key(&metrics::MAIR_BEHAVES_AS, byte), behaves(own, cached).token());
            row.basis = Basis::Derived;
            row.count = all.len() as u64;
            row.trials = all.iter().flat_map(|p| p.ids.clone()).collect();
            report.findings.push(row);
        }
        for point in &all {
            let metric = match (point.key.1, point.stride) {
                (Operation::Read, _) => &metrics::MAIR_READ,
                (_, SEPARATE_LINES) => &metrics::MAIR_WRITE_APART,
                _ => &metrics::MAIR_WRITE,
            };
            report.findings.push(measured(key(metric, byte), point.time, "ns", point.count(), &point.ids));
        }
    }
}
