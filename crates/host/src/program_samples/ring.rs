//! Rings that the kernel fills with records, and what they share with the trace of a processor.

use std::io;
use std::sync::atomic::Ordering;

use super::records::{self, Format};
use super::shared::{Shared, map_locked};
use super::trace::{Trace, Traced};
use super::{Callers, STACK_BYTES, Sampled, SampledEvent};
use crate::perf::Counter;

/// Data of a ring at least, if more memory may not be locked, bytes.
const LEAST_DATA_BYTES: usize = 32 << 10;
/// Bytes of a record without the stack, at most: a mapping of a file with the longest path (4096), rounded up.
const MAX_RECORD: u64 = 8 << 10;
/// `struct perf_event_mmap_page`: offsets of `data_head` and `data_tail`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// A mapped ring. The kernel writes records and advances the head; this side advances the tail.
#[derive(Debug)]
pub(super) struct Ring {
    /// Events that lead the groups of others, as long as these are open.
    pub(super) leaders: Vec<Counter>,
    /// Number of the CPU's PMU, where there are several.
    pub(super) pmu: Option<usize>,
    /// Samples that were taken.
    pub(super) samples: u64,
    /// The events whose samples it has: of each thread. The first one's is mapped.
    pub(super) counters: Vec<Counter>,
    /// What samples have.
    pub(super) format: Format,
    pub(super) shared: Shared,
    /// What the processor writes, of an event that has its samples there.
    pub(super) trace: Option<Trace>,
}

impl Ring {
    /// Maps so many bytes of data, a power of two; fewer if they may not be locked. `None` without an event.
    pub(super) fn map(
        counters: Vec<Counter>,
        format: Format,
        bytes: usize,
        traced: Option<Traced>,
    ) -> io::Result<Option<Ring>> {
        let Some(first) = counters.first() else { return Ok(None) };
        let page = rustix::param::page_size();
        let least = LEAST_DATA_BYTES.max(page);
        let shared = map_locked(bytes.max(page), least, |bytes| Shared::map(first, 0, page, bytes))?;
        let trace = traced.map(|traced| Trace::map(first, &shared, traced)).transpose()?;
        for other in &counters[1..] {
            other.send_to(first)?;
        }
        Ok(Some(Ring { leaders: Vec::new(), pmu: None, samples: 0, counters, format, shared, trace }))
    }

    /// Returns the ring of a CPU of this PMU.
    pub(super) fn of_pmu(mut self, pmu: Option<usize>) -> Ring {
        self.pmu = pmu;
        self
    }

    /// Takes what the kernel has added.
    pub(super) fn take(&mut self) -> Vec<SampledEvent> {
        // Pairs with the kernel's barrier before it advances the head.
        let head = self.shared.word(HEAD).load(Ordering::Acquire);
        let mut tail = self.shared.word(TAIL).load(Ordering::Relaxed);
        let mut events: Vec<SampledEvent> = Vec::new();
        // The kernel tells what it lost only with a record that comes later, and there may be none. Without room for a record, one may
        // have been lost.
        let room =
            MAX_RECORD + if self.format.callers == Callers::Tables { u64::from(STACK_BYTES) } else { 0 };
        let is_full = head - tail + room > self.shared.bytes();
        while tail < head {
            let header = self.shared.copy(tail, records::HEADER);
            let bytes = u16::from_ne_bytes([header[6], header[7]]);
            // The kernel writes none that is shorter than its header, or reaches beyond the head.
            if usize::from(bytes) < records::HEADER || u64::from(bytes) > head - tail {
                tail = head;
                break;
            }
            let record = self.shared.copy(tail, bytes.into());
            match (records::part(&record), &mut self.trace) {
                (Some(part), Some(trace)) => events.extend(trace.take(&part)),
                _ => events.extend(records::read(&record, self.format)),
            }
            tail += u64::from(bytes);
        }
        let samples = events.iter().filter(|event| matches!(event.what, Sampled::Sample { .. })).count();
        self.samples += samples as u64;
        if let Some(time) = events.last().map(|event| event.time).filter(|_| is_full) {
            events.push(SampledEvent { time, what: Sampled::Lost(1) });
        }
        // Everything has been copied before the kernel may write there again.
        self.shared.word(TAIL).store(tail, Ordering::Release);
        if self.trace.as_mut().is_some_and(|trace| trace.release(&self.shared)) {
            // A thread that has ended needs none.
            self.counters.iter().for_each(|counter| drop(counter.enable()));
        }
        events
    }
}

#[cfg(test)]
mod tests;
