//! Performance monitors: those of ARMv7 (DDI 0406C, C12), and those of ARM1176 (DDI 0301H, 3.2.51 to 3.2.54).

use fathom_loops::arm::flush_pipeline;
use fathom_probe::machine::CountedEvent;

use super::vectors::is_undefined;
use super::{IS_V7, Loops, cp15, mcr, mrc};
use crate::arm::registers;
use crate::hardware::{CoreCell, boot_state};
use crate::identification::{event_counters, has_event};

/// Events with their names: refills of the first and second level of data and of the first TLB for data, and accesses to
/// memory. ARM1176 has two counters: of the last two, the second is for a described machine, which counts them as its
/// budget.
pub(in crate::hardware) const EVENTS: [(u64, &str, CountedEvent); 4] = if IS_V7 {
    [
        (0x03, "refill.L1D", CountedEvent::Refill(1)),
        (0x17, "refill.L2", CountedEvent::Refill(2)),
        (0x05, "refill.tlb.1", CountedEvent::TlbRefill(1)),
        (0x13, "accesses", CountedEvent::Accesses),
    ]
} else {
    // Data cache miss; none, because there is no second level; Data MicroTLB miss; data cache access.
    [
        (0x0b, "refill.L1D", CountedEvent::Refill(1)),
        (0x00, "", CountedEvent::Refill(2)),
        (0x04, "refill.tlb.1", CountedEvent::TlbRefill(1)),
        (0x0a, "accesses", CountedEvent::Accesses),
    ]
};

/// Whether the cycle counter was started.
static STARTED: CoreCell<bool> = CoreCell::new(false);

/// Returns whether the cycle counter was started.
pub(super) fn is_started() -> bool {
    // SAFETY: there is one core, and no reference exists.
    unsafe { *STARTED.get() }
}

/// Returns whether there are performance monitors.
pub(super) fn is_present() -> bool {
    if IS_V7 {
        return registers::has_pmu(mrc!(ID_DFR0));
    }
    // No identification register of ARM1176 lists them.
    !is_undefined(|| {
        let _ = mrc!(CCNT);
    })
}

/// Reads `PMCEID0`; 0 if it does not exist (PMUv1, and every PMU of QEMU's 32-bit cores).
pub(super) fn event_list() -> u32 {
    let mut list = 0;
    if is_undefined(|| list = mrc!(PMCEID0)) { 0 } else { list }
}

/// Starts the cycle counter at zero. Returns whether there is a PMU.
pub(in crate::hardware) fn start() -> bool {
    if !is_present() {
        return false;
    }
    // Enabled (E), both kinds of counters at zero (P, C), every cycle (D at 0).
    let control = 1 | 1 << 1 | 1 << 2;
    // SAFETY: the PMU exists and belongs to PL1 (HDCR as `boot` sets it).
    unsafe {
        if IS_V7 {
            mcr!(PMCR, control);
            // The cycle counter's filter: it counts everywhere.
            mcr!(PMSELR, 31);
            flush_pipeline();
            mcr!(PMXEVTYPER, 0);
            mcr!(PMCNTENSET, 1u32 << 31);
        } else {
            mcr!(PMNC, control);
        }
        flush_pipeline();
        *STARTED.get() = true;
    }
    true
}

/// Returns whether the cycle counter of ARM1176 counts.
pub(super) fn counts() -> bool {
    if !start() {
        return false;
    }
    let before = mrc!(CCNT);
    fathom_loops::additions::<Loops>(100);
    mrc!(CCNT) != before
}

/// Returns the counter of ARM1176 for an event of [`EVENTS`].
fn counter_v6(nth: usize) -> Option<u32> {
    match (nth, boot_state().parameters.modelled()) {
        (0, _) => Some(0),
        (2, false) | (3, true) => Some(1),
        _ => None,
    }
}

/// Starts event counter `nth`. Returns whether it exists and the core knows the event.
pub(in crate::hardware) fn count_event(nth: usize, number: u64) -> bool {
    if !IS_V7 {
        let Some(counter) = counter_v6(nth) else { return false };
        // PMNC: the event of counter 0 in bits 27:20, of counter 1 in 19:12; no flags are cleared and no interrupts
        // enabled.
        let (shift, old) = (20 - 8 * counter, mrc!(PMNC));
        // SAFETY: the monitors exist (`start`).
        unsafe { mcr!(PMNC, old & !(0xff << shift) & !0x7f6 | (number as u32) << shift) };
        return true;
    }
    let (have, known) = (event_counters(mrc!(PMCR).into()), event_list().into());
    if nth as u64 >= have || !has_event(known, number) {
        return false;
    }
    // SAFETY: counter `nth` exists; PMSELR selects it for PMXEVTYPER after an ISB.
    unsafe {
        mcr!(PMSELR, nth as u32);
        flush_pipeline();
        mcr!(PMXEVTYPER, number as u32);
        mcr!(PMCNTENSET, 1u32 << nth);
    }
    flush_pipeline();
    true
}

/// Reads event counter `nth`, which [`count_event`] has started.
pub(in crate::hardware) fn read_event(nth: usize) -> u32 {
    if !IS_V7 {
        return if counter_v6(nth) == Some(0) { mrc!(PMN0) } else { mrc!(PMN1) };
    }
    // SAFETY: as in `count_event`.
    unsafe { mcr!(PMSELR, nth as u32) };
    flush_pipeline();
    mrc!(PMXEVCNTR)
}
