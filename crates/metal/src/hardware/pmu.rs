//! Performance monitors (DDI 0487, "The Performance Monitors Extension"): the cycle counter, and refill counters if
//! the core supports them.

use core::arch::asm;

use fathom_probe::machine::{Count, Refusal};

use super::{mrs, msr};
use crate::registers;

/// Events by their architectural number ("PMU events and event numbers"), with their names: refills of the first and
/// second level of data and of the first TLB for data, and accesses to memory.
const EVENTS: [(u64, &str); 4] =
    [(0x03, "refill.L1D"), (0x17, "refill.L2"), (0x05, "refill.tlb.1"), (0x13, "accesses")];

/// An event counter: 32 bits in hardware, extended here.
#[derive(Clone, Copy)]
struct Event {
    name: &'static str,
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
        if !registers::has_pmu(mrs!("id_aa64dfr0_el1")) {
            return pmu;
        }
        let (have, named) = (registers::event_counters(mrs!("pmcr_el0")), mrs!("pmceid0_el0"));
        // SAFETY: the PMU exists (ID_AA64DFR0_EL1) and belongs to EL1 (MDCR_EL2, MDCR_EL3 as `boot` sets them).
        // Enabled (E), both kinds of counters at zero (P, C), the cycle counter with all its 64 bits (LC), counting
        // every cycle (D at 0) at EL1 (the filter at 0).
        unsafe {
            msr!("pmcr_el0", 1u64 | 1 << 1 | 1 << 2 | 1 << 6);
            msr!("pmccfiltr_el0", 0u64);
            msr!("pmcntenset_el0", 1u64 << 31);
            asm!("isb");
        }
        for (nth, (number, name)) in EVENTS.into_iter().enumerate() {
            if (nth as u64) < have && registers::has_event(named, number) {
                // SAFETY: counter `nth` exists; PMSELR selects it for PMXEVTYPER after an ISB.
                unsafe {
                    msr!("pmselr_el0", nth as u64);
                    asm!("isb");
                    msr!("pmxevtyper_el0", number);
                    msr!("pmcntenset_el0", 1u64 << nth);
                    asm!("isb");
                }
                pmu.events[nth] = Some(Event { name, last: 0, total: 0 });
            }
        }
        let before = super::clock::cycles();
        super::clock::alu(1000);
        pmu.counts = super::clock::cycles() != before;
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
            // SAFETY: as in `open`.
            unsafe {
                msr!("pmselr_el0", nth as u64);
                asm!("isb");
            }
            let now = mrs!("pmxevcntr_el0") as u32;
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
        let cycles = Count { name: "cycles".into(), value: super::clock::cycles() };
        let events = self.events.iter().flatten().map(|e| Count { name: e.name.into(), value: e.total });
        Ok(core::iter::once(cycles).chain(events).collect())
    }

    /// Returns the total of an event, by its name.
    pub(super) fn count(&mut self, name: &str) -> Option<u64> {
        self.advance();
        self.events.iter().flatten().find(|e| e.name == name).map(|e| e.total)
    }
}
