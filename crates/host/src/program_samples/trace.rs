//! The trace that a processor writes beside the records of a ring (perf_event_open(2), "AUX"): samples of Arm's SPE.

use std::io;
use std::sync::atomic::Ordering;

use super::records::Part;
use super::shared::{Shared, map_locked};
use super::{Gap, Sampled, SampledEvent};
use crate::perf::Counter;
use crate::spe::{SpeClock, read_spe};

/// Bytes of a trace, a power of two: 4096 records. With the ring's it is below the kernel's limit for each CPU without privileges
/// (`perf_event_mlock_kb`, 516 KiB).
const BYTES: usize = 256 << 10;
/// Pages of a trace at least (drivers/perf/arm_spe_pmu.c, `arm_spe_pmu_setup_aux`).
const LEAST_PAGES: usize = 2;
/// A record tells of each so many bytes: 256 records.
pub(super) const TOLD_BYTES: u32 = 16 << 10;

/// `struct perf_event_mmap_page`: offsets of the words.
pub(super) const LOCK: usize = 8;
pub(super) const CAPABILITIES: usize = 40;
/// `pmc_width`, `time_shift` and `time_mult`.
pub(super) const TIME: usize = 48;
pub(super) const TIME_ZERO: usize = 64;
const TIME_CYCLES: usize = 80;
pub(super) const TIME_MASK: usize = 88;
pub(super) const TRACE_HEAD: usize = 1056;
pub(super) const TRACE_TAIL: usize = 1064;
const TRACE_OFFSET: usize = 1072;
const TRACE_SIZE: usize = 1080;
/// `cap_user_time_zero` and `cap_user_time_short`.
pub(super) const HAS_ZERO: u64 = 1 << 4;
pub(super) const IS_SHORT: u64 = 1 << 5;
/// Readings of a page that the kernel writes at the same time, at most.
const TRIES: usize = 1000;

/// What samples of a trace have that it does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Traced {
    /// Operations of a sample.
    pub(super) weight: u64,
    /// MIDR_EL1 of its CPU.
    pub(super) midr: Option<u64>,
    /// A process whose samples are left out: this one, whose thread has the event for its children.
    pub(super) without: Option<u32>,
}

/// A mapped trace.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) shared: Shared,
    clock: Option<SpeClock>,
    traced: Traced,
    /// Position up to which it was read.
    tail: u64,
    /// Whether the kernel has stopped it, as there was no room.
    is_stopped: bool,
}

impl Trace {
    /// Maps the trace of an event behind its ring.
    pub(super) fn map(event: &Counter, ring: &Shared, traced: Traced) -> io::Result<Trace> {
        let least = LEAST_PAGES * rustix::param::page_size();
        let shared = map_locked(BYTES.max(least), least, |bytes| {
            ring.word(TRACE_OFFSET).store(ring.end() as u64, Ordering::Relaxed);
            ring.word(TRACE_SIZE).store(bytes as u64, Ordering::Relaxed);
            Shared::map(event, ring.end(), 0, bytes)
        })?;
        Ok(Trace::of(shared, clock(ring), traced))
    }

    pub(super) fn of(shared: Shared, clock: Option<SpeClock>, traced: Traced) -> Trace {
        Trace { shared, clock, traced, tail: 0, is_stopped: false }
    }

    /// Returns the samples of a part that a record tells, and what is missing there.
    pub(super) fn take(&mut self, part: &Part) -> Vec<SampledEvent> {
        self.tail = part.offset.wrapping_add(part.bytes);
        self.is_stopped |= part.is_cut_short;
        let of_part = |what| SampledEvent { time: part.time, what };
        let gaps = [(part.is_cut_short, Gap::CutShort), (part.has_collided, Gap::Collided)];
        let gaps =
            gaps.into_iter().filter(|(is_there, _)| *is_there).map(|(_, gap)| of_part(Sampled::Gap(gap)));
        let mut events: Vec<SampledEvent> = gaps.collect();
        if Some(part.process) == self.traced.without {
            return Vec::new();
        }
        // What does not fit was overwritten.
        let bytes = part.bytes.min(self.shared.bytes());
        let begin = self.tail.wrapping_sub(bytes);
        let read = read_spe(&self.shared.copy(begin, bytes as usize), begin);
        let unreadable = read.unreadable + u64::from(bytes < part.bytes);
        events.extend((unreadable > 0).then(|| of_part(Sampled::Gap(Gap::Unreadable(unreadable)))));
        events.extend(read.records.iter().filter_map(|record| {
            let told = self.clock.zip(record.time).map(|(clock, ticks)| clock.ns(ticks));
            // None is later than the record that tells it.
            let time = told.map_or(part.time, |time| time.min(part.time));
            let what = record.sample(part.process, self.traced.weight, self.traced.midr)?;
            Some(SampledEvent { time, what })
        }));
        events
    }

    /// Gives the kernel back what was read. Returns whether it has stopped the event, which has to be enabled again.
    pub(super) fn release(&mut self, ring: &Shared) -> bool {
        let head = ring.word(TRACE_HEAD).load(Ordering::Acquire);
        let before = ring.word(TRACE_TAIL).load(Ordering::Relaxed);
        let room = (2 * rustix::param::page_size() as u64).min(self.shared.bytes() / 4);
        // The kernel leaves its last bytes free, and does not tell if it stops at the begin of a part.
        let is_full = head.wrapping_sub(before).saturating_add(room) >= self.shared.bytes();
        ring.word(TRACE_TAIL).store(self.tail, Ordering::Release);
        std::mem::take(&mut self.is_stopped) || is_full
    }
}

/// Reads how the kernel computes its clock, if it tells.
pub(super) fn clock(ring: &Shared) -> Option<SpeClock> {
    let word = |offset: usize| ring.word(offset).load(Ordering::Acquire);
    let lock = || word(LOCK) as u32;
    // The kernel counts the lock up before and after it writes.
    (0..TRIES).find_map(|_| {
        let begin = lock();
        let (has, time) = (word(CAPABILITIES), word(TIME));
        let short = (has & IS_SHORT != 0).then(|| (word(TIME_CYCLES), word(TIME_MASK)));
        let (shift, factor) = ((time >> 16) as u16, (time >> 32) as u32);
        let clock = SpeClock { shift, factor, zero: word(TIME_ZERO), short };
        (begin.is_multiple_of(2) && begin == lock()).then(|| (has & HAS_ZERO != 0).then_some(clock))
    })?
}
