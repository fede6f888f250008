//! Performance monitors (DDI 0487, "The Performance Monitors Extension").

use core::arch::asm;

use fathom_probe::machine::CountedEvent;

use super::{mrs, msr};
use crate::aarch64::registers;
use crate::identification::{event_counters, has_event};

/// Events by their architectural number ("PMU events and event numbers"), with their names: refills of the first and
/// second level of data and of the first TLB for data, and accesses to memory.
pub(in crate::hardware) const EVENTS: [(u64, &str, CountedEvent); 4] = [
    (0x03, "refill.L1D", CountedEvent::Refill(1)),
    (0x17, "refill.L2", CountedEvent::Refill(2)),
    (0x05, "refill.tlb.1", CountedEvent::TlbRefill(1)),
    (0x13, "accesses", CountedEvent::Accesses),
];

/// Starts the cycle counter at zero. Returns whether there is a PMU.
pub(in crate::hardware) fn start() -> bool {
    if !registers::has_pmu(mrs!("id_aa64dfr0_el1")) {
        return false;
    }
    // SAFETY: the PMU exists (ID_AA64DFR0_EL1) and belongs to EL1 (MDCR_EL2, MDCR_EL3 as `boot` sets them).
    // Enabled (E), both kinds of counters at zero (P, C), the cycle counter with all its 64 bits (LC), counting
    // every cycle (D at 0) at EL1 (the filter at 0).
    unsafe {
        msr!("pmcr_el0", 1u64 | 1 << 1 | 1 << 2 | 1 << 6);
        msr!("pmccfiltr_el0", 0u64);
        msr!("pmcntenset_el0", 1u64 << 31);
        asm!("isb");
    }
    true
}

/// Starts event counter `nth`. Returns whether it exists and the core knows the event.
pub(in crate::hardware) fn count_event(nth: usize, number: u64) -> bool {
    let (have, known) = (event_counters(mrs!("pmcr_el0")), mrs!("pmceid0_el0"));
    if nth as u64 >= have || !has_event(known, number) {
        return false;
    }
    // SAFETY: counter `nth` exists; PMSELR selects it for PMXEVTYPER after an ISB.
    unsafe {
        msr!("pmselr_el0", nth as u64);
        asm!("isb");
        msr!("pmxevtyper_el0", number);
        msr!("pmcntenset_el0", 1u64 << nth);
        asm!("isb");
    }
    true
}

/// Reads event counter `nth`, which [`count_event`] has started.
pub(in crate::hardware) fn read_event(nth: usize) -> u32 {
    // SAFETY: as in `count_event`.
    unsafe {
        msr!("pmselr_el0", nth as u64);
        asm!("isb");
    }
    mrs!("pmxevcntr_el0") as u32
}
