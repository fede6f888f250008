//! Performance monitors: the cycle counter, and refill counters if the core supports them.

use fathom_probe::machine::{Count, CountedEvent, Refusal};

use super::arch::{self, pmu::EVENTS};
use super::clock;

/// An event counter: 32 bits in hardware, extended here.
#[derive(Clone, Copy)]
struct Event {
    name: &'static str,
    counted: CountedEvent,
    last: u32,
    total: u64,
}

/// Counters of this core.
pub(super) struct Pmu {
    /// Whether the cycle counter counts.
    pub(super) counts: bool,
    /// Events in the order of the hardware's counters.
    events: [Option<Event>; EVENTS.len()],
}

impl Pmu {
    /// Starts all counters.
    pub(super) fn open() -> Pmu {
        let mut pmu = Pmu { counts: false, events: [None; EVENTS.len()] };
        if !arch::pmu::start() {
            return pmu;
        }
        for (nth, (number, name, counted)) in EVENTS.into_iter().enumerate() {
            pmu.events[nth] =
                arch::pmu::count_event(nth, number).then_some(Event { name, counted, last: 0, total: 0 });
        }
        let before = clock::cycles();
        clock::alu(1000);
        pmu.counts = clock::cycles() != before;
        pmu
    }

    /// Returns the names of the event counters, for the record.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.events.iter().flatten().map(|event| event.name)
    }

    /// Returns the total of each event counter; 0 for those that do not exist.
    pub(super) fn totals(&mut self) -> [u64; EVENTS.len()] {
        self.advance();
        self.events.map(|event| event.map_or(0, |event| event.total))
    }

    /// Drops the event counters that have counted nothing since `before`, and returns the count of each.
    pub(super) fn keep_counting(
        &mut self,
        before: [u64; EVENTS.len()],
    ) -> alloc::vec::Vec<(&'static str, u64)> {
        let after = self.totals();
        let mut all = alloc::vec::Vec::new();
        for ((event, before), after) in self.events.iter_mut().zip(before).zip(after) {
            if let Some(Event { name, .. }) = *event {
                let counted = after.wrapping_sub(before);
                all.push((name, counted));
                if counted == 0 {
                    *event = None;
                }
            }
        }
        all
    }

    /// Updates the totals.
    fn advance(&mut self) {
        for (nth, event) in self.events.iter_mut().enumerate() {
            let Some(event) = event else { continue };
            let now = arch::pmu::read_event(nth);
            event.total += u64::from(now.wrapping_sub(event.last));
            event.last = now;
        }
    }

    /// Reads all counters.
    pub(super) fn read(&mut self) -> Result<alloc::vec::Vec<Count>, Refusal> {
        if !self.counts {
            return Err(Refusal::new("this core has no performance monitors that count", ""));
        }
        self.advance();
        let cycles = Count { name: "cycles".into(), event: None, value: clock::cycles() };
        let of = |e: &Event| Count { name: e.name.into(), event: Some(e.counted), value: e.total };
        let events = self.events.iter().flatten().map(of);
        Ok(core::iter::once(cycles).chain(events).collect())
    }

    /// Returns the total of an event, by its name.
    pub(super) fn count(&mut self, name: &str) -> Option<u64> {
        self.advance();
        self.events.iter().flatten().find(|e| e.name == name).map(|e| e.total)
    }
}
