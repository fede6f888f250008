//! What a trial may ask for: bounds, and keys that go together.

use alloc::format;

use super::{PatternKind, Trial, Wakes};
use crate::machine::Operation;
use crate::transfer::Transfers;
use crate::wire::OrderKind;
use crate::wire::line::WireError;

/// Bounds that every trial keeps, so that no line from outside runs for ever: 2^40 bytes is more than
/// any machine here maps, 2^32 loads a run and 1000 samples are minutes.
const MAX_BYTES: u64 = 1 << 40;
const MAX_LOADS: u64 = 1 << 32;
const MAX_SAMPLES: u64 = 1000;
/// Activations of one trial: a quarter of an hour at 1 ms, and what a record of it takes is some 30 MB.
const MAX_WAKES: u64 = 1_000_000;
/// Periods from 10 us, which no kernel keeps, to 10 s.
const EVERY_NS: (u64, u64) = (10_000, 10_000_000_000);
/// Longest series, ns: whoever waits for its end must know that it comes.
const MAX_SERIES_NS: u64 = 1_000_000_000_000;
/// The real-time priorities of Linux (sched(7)).
const MAX_PRIORITY: u64 = 99;
/// Enough for a clock of one microsecond over an L1 hit of one nanosecond.
const MAX_TIMED: u64 = 1 << 16;
pub(super) const MAX_STREAMS: usize = 64;
const MAX_STRIDE: u64 = 1 << 20;
/// Blocks a gigabyte apart are more than any cache's way or any TLB's set asks for.
const MAX_PERIOD: u64 = 1 << 30;
const MAX_GROUP: u64 = 1 << 20;
/// Caches on the way of data.
const MAX_LEVELS: u64 = 8;

impl Trial {
    /// Why it is none that a machine may be asked.
    pub(super) fn check(&self) -> Result<(), WireError> {
        let within = |key: &str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(WireError::new(format!("trial: {key}={value} must be from {low} to {high}")))
            }
        };
        within("stride", self.stride, 8, MAX_PERIOD)?;
        self.check_layout()?;
        within("bytes", self.bytes, self.stride, MAX_BYTES)?;
        if self.order == OrderKind::Window {
            within("window", self.window, self.stride, MAX_BYTES)?;
        }
        within("loads", self.loads, 1, MAX_LOADS)?;
        within("timed", self.timed, 1, MAX_TIMED)?;
        within("warm", self.warm, 0, MAX_LOADS)?;
        let most = if self.pattern == PatternKind::Wake { MAX_WAKES } else { MAX_SAMPLES };
        within("samples", self.samples, 1, most)?;
        self.check_wakes()?;
        self.check_transfers()?;
        within("counted", self.counted, 0, MAX_LEVELS)?;
        if self.frames > 0 && (self.pattern, self.operation) != (PatternKind::Stride, Operation::Read) {
            return Err(WireError::new(format!(
                "trial: frames={} is for pattern=stride op=read",
                self.frames
            )));
        }
        self.check_operation()?;
        self.check_once()
    }

    fn check_wakes(&self) -> Result<(), WireError> {
        let wakes = &self.wakes;
        let wrong = |what: alloc::string::String| Err(WireError::new(format!("trial: {what}")));
        if self.pattern != PatternKind::Wake {
            return match *wakes == Wakes::default() {
                true => Ok(()),
                false => wrong(format!(
                    "every_ns=, priority=, traced=, flushed=, timerlat=, evict= and confined= are for pattern=wake, not {}",
                    self.pattern.token()
                )),
            };
        }
        let (least, most) = EVERY_NS;
        if !(least..=most).contains(&wakes.every_ns) {
            return wrong(format!("every_ns={} must be from {least} to {most}", wakes.every_ns));
        }
        if wakes.priority > MAX_PRIORITY {
            return wrong(format!("priority={} must be from 0 to {MAX_PRIORITY}", wakes.priority));
        }
        if wakes.timerlat && (wakes.traced || wakes.flushed || wakes.evict > 0) {
            return wrong(
                "timerlat=1 is a thread of the kernel's: without traced=, flushed= and evict=".into(),
            );
        }
        if wakes.confined && self.load.is_none() {
            return wrong("confined=1 is for the workers of a load=".into());
        }
        if wakes.evict > MAX_BYTES || !wakes.evict.is_multiple_of(self.stride) {
            return wrong(format!(
                "evict={} must be strides of {} up to {MAX_BYTES}",
                wakes.evict, self.stride
            ));
        }
        // Each number is below 2^64 by the checks before, but not their product.
        let series = (self.samples + self.warm).checked_mul(wakes.every_ns);
        if series.is_none_or(|ns| ns > MAX_SERIES_NS) {
            return wrong(format!(
                "samples={} and warm={} with every_ns={} take more than {} s",
                self.samples,
                self.warm,
                wakes.every_ns,
                MAX_SERIES_NS / 1_000_000_000
            ));
        }
        Ok(())
    }

    fn check_transfers(&self) -> Result<(), WireError> {
        if self.pattern == PatternKind::Transfer {
            return self.transfers.check(self.bytes, self.samples.saturating_add(self.warm));
        }
        if self.transfers == Transfers::default() {
            return Ok(());
        }
        Err(WireError::new(format!(
            "trial: strategy=, direction=, engine=, maintenance=, mistake= and victim= are for pattern=transfer, not {}",
            self.pattern.token()
        )))
    }

    fn check_operation(&self) -> Result<(), WireError> {
        let (op, pattern) = (self.operation.token(), self.pattern.token());
        if self.controls.flush && !matches!(self.pattern, PatternKind::Stride | PatternKind::Transfer) {
            return Err(WireError::new(format!(
                "trial: flush=1 is for pattern=stride and pattern=transfer, not for {pattern}"
            )));
        }
        // Of fewer words there is no sum that proves anything.
        if self.pattern == PatternKind::Alias && (self.stride != 8 || self.bytes < 64) {
            return Err(WireError::new(format!(
                "trial: pattern=alias needs stride=8 and 64 bytes or more, not stride={} bytes={}",
                self.stride, self.bytes
            )));
        }
        let wrong = match (self.pattern, self.operation) {
            (PatternKind::Copy, op) if op.copies() => self.stride != 8,
            (PatternKind::Copy, _) => true,
            (PatternKind::Stride, op) => op.copies(),
            (_, op) => op != Operation::Read,
        };
        if wrong {
            return Err(WireError::new(format!(
                "trial: op={op} stride={} does not go with pattern={pattern}: a stride reads, writes, modifies or \
                 sets, a copy has op=copy_to or copy_from and stride=8, the others only load",
                self.stride
            )));
        }
        Ok(())
    }

    /// What is touched once, or walked once, ends before it comes round again.
    fn check_once(&self) -> Result<(), WireError> {
        let (what, pattern, needs) = match (self.first_touch, self.order) {
            (true, _) => ("first_touch=1", PatternKind::Stride, 0),
            (_, OrderKind::Repermuted) => ("order=repermuted", PatternKind::Chase, self.warm),
            _ => return Ok(()),
        };
        if self.pattern != pattern {
            return Err(WireError::new(format!("trial: {what} is for pattern={}", pattern.token())));
        }
        let needs = needs + 3 * self.loads;
        if needs > self.cells() {
            return Err(WireError::new(format!(
                "trial: {what} takes {needs} cells, warm and three times loads, and there are {}",
                self.cells()
            )));
        }
        Ok(())
    }

    /// Where cells lie: the patterns that place them a period apart, and the others.
    fn check_layout(&self) -> Result<(), WireError> {
        let wrong = |what: alloc::string::String| Err(WireError::new(format!("trial: {what}")));
        let pattern = self.pattern.token();
        let apart =
            matches!(self.pattern, PatternKind::Conflict | PatternKind::Pair | PatternKind::EvictionSet);
        if (self.pattern == PatternKind::EvictionSet) == self.sequence.accesses().is_empty() {
            return wrong(format!(
                "pattern=eviction-set and sequence= go together; the pattern is {pattern}"
            ));
        }
        let apart = apart || (self.pattern == PatternKind::Single && self.period > 0);
        if !apart {
            if (self.period, self.group, self.offset) != (0, 1, 0) {
                return wrong(format!("period=, group= and offset= are not for pattern={pattern}"));
            }
            if !self.stride.is_power_of_two() || self.stride > MAX_STRIDE {
                return wrong(format!("stride={} must be a power of two up to {MAX_STRIDE}", self.stride));
            }
            return Ok(());
        }
        for (key, value, least) in
            [("stride", self.stride, 8), ("period", self.period, 8), ("offset", self.offset, 0)]
        {
            if !(least..=MAX_PERIOD).contains(&value) || !value.is_multiple_of(8) {
                return wrong(format!("{key}={value} must be a multiple of 8 from {least} to {MAX_PERIOD}"));
            }
        }
        let grouped = matches!(self.pattern, PatternKind::Conflict | PatternKind::Single);
        if !(1..=MAX_GROUP).contains(&self.group) || (self.group > 1 && !grouped) {
            return wrong(format!(
                "group={} must be 1, or up to {MAX_GROUP} with pattern=conflict or single",
                self.group
            ));
        }
        let group = self.cells_in_group();
        if (group - 1) * self.stride + 8 > self.period {
            return wrong(format!(
                "{group} cells at a stride of {} are more than a period of {}",
                self.stride, self.period
            ));
        }
        if self.pattern == PatternKind::Pair && !self.cells().is_multiple_of(2) {
            return wrong(format!("bytes={} must be pairs of cells, each of stride bytes", self.bytes));
        }
        if self.pattern == PatternKind::EvictionSet
            && self.sequence.places(self.period, self.stride, self.seed).is_none()
        {
            return wrong(format!(
                "the blocks of a-z need a period of two strides or more; they are {} and {}",
                self.period, self.stride
            ));
        }
        Ok(())
    }
}
