//! Comparison with the result of study S2, for the same two strategies.
//!
//! The study downloaded 8 MB through a WLAN module whose driver either mapped a cached buffer for every transfer or
//! copied through an uncached one. It published throughput and CPU utilisation; the difference per transfer follows from the
//! two rates.

use fathom_analysis::findings::{Basis, Key as FindingKey, Report};
use fathom_analysis::interval::Interval;
use fathom_analysis::metrics::dma as metrics;
use fathom_probe::machine::dma::{Direction, Strategy};

use fathom_units::facts::Study;

use super::STUDY_BYTES;
use super::points::{Key, Part, Point};
use crate::reading::{measured, number};

/// Mbit/s of the download: uncached, and streaming (study S2).
const UNCACHED_MBIT: f64 = 18.67;
const STREAMING_MBIT: f64 = 17.1;
/// CPU utilisation saved by the uncached variant of the download, percentage points: from 63 + 8 to 50 + 8 (study S2).
const CPU_SAVED_POINTS: f64 = 13.0;

/// Returns the study, for a finding that is compared with it.
pub(super) fn compared(key: &FindingKey) -> Option<Study> {
    let with = [&metrics::DMA_STUDY_SAVED, &metrics::DMA_STUDY_GAIN, &metrics::DMA_STUDY_CPU_SAVED_PP];
    with.iter().any(|metric| *key.metric == **metric).then_some(Study::S2)
}

/// Adds the findings, if both strategies were measured at the study's packet size.
pub(super) fn rows(points: &[Point], link: Option<f64>, report: &mut Report) {
    let of = |strategy| {
        let key = Key { route: (strategy, Direction::FromDevice), bytes: STUDY_BYTES };
        points.iter().find(|point| point.key == key)
    };
    let both = (of(Strategy::StreamingCopy), of(Strategy::UncachedCopy));
    let (Some(streaming), Some(uncached)) = both else { return };
    let count = streaming.count() + uncached.count();
    let ids = [streaming.ids.as_slice(), &uncached.ids].concat();
    let (Some(s), Some(u)) = (streaming.part(Part::Cpu), uncached.part(Part::Cpu)) else { return };
    let less = Interval { value: s.value - u.value, low: s.low - u.high, high: s.high - u.low };
    let mut row = measured(&metrics::DMA_STUDY_SAVED, less, "ns", count, &ids);
    row.basis = Basis::Derived;
    row.notes.push(format!(
        "CPU time saved by uncached-copy compared with streaming-copy for {STUDY_BYTES} bytes from the device"
    ));
    report.findings.push(row);
    let bits = STUDY_BYTES as f64 * 8.0;
    let needed = bits * (1e3 / STREAMING_MBIT - 1e3 / UNCACHED_MBIT);
    let mut row = number(&metrics::DMA_STUDY_PUBLISHED_SAVING, needed, "ns");
    row.basis = Basis::Assumed;
    row.notes.push(format!(
        "study S2, another machine: time saved per packet at {UNCACHED_MBIT} instead of {STREAMING_MBIT} Mbit/s, for \
         consecutive transfers"
    ));
    report.findings.push(row);
    if let (Some(a), Some(b)) = (streaming.throughput(), uncached.throughput()) {
        let gain = |a: f64, b: f64| 100.0 * (b / a - 1.0);
        let i =
            Interval { value: gain(a.value, b.value), low: gain(a.high, b.low), high: gain(a.low, b.high) };
        let mut row = measured(&metrics::DMA_STUDY_GAIN, i, "%", count, &ids);
        row.basis = Basis::Derived;
        row.notes.push(format!(
            "throughput gain of uncached-copy over streaming-copy; study S2, another machine: {:+.1} %",
            gain(STREAMING_MBIT, UNCACHED_MBIT)
        ));
        report.findings.push(row);
    }
    if let Some(link) = link {
        let ns = bits * 1e9 / link;
        let mut row = measured(&metrics::DMA_STUDY_CPU_SAVED_PP, less.scaled(100.0 / ns), "%", count, &ids);
        row.basis = Basis::Derived;
        row.notes.push(format!(
            "CPU utilisation saved by uncached-copy at {:.2} Mbit/s, percentage points; study S2, another machine, at \
             about 18: {CPU_SAVED_POINTS}",
            link / 1e6
        ));
        report.findings.push(row);
    }
}
