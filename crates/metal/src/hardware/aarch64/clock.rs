//! The system counter, the cycle counter, and the generic timer.

use core::arch::asm;

use fathom_loops::aarch64::Aarch64;

use super::{mrs, msr};
use crate::hardware::boot_state;

/// Name of the cycle counter, and of the system counter.
pub(in crate::hardware) const NAMES: [&str; 2] = ["pmccntr", "cntpct"];

/// Reads the system counter, ordered: after every earlier access that a DSB waits for, before every later one.
/// `CNTPCT` may be read early unless an ISB precedes it (DDI 0487, CNTPCT_EL0).
#[inline(always)]
pub(in crate::hardware) fn system() -> u64 {
    let count: u64;
    // SAFETY: barriers and the read of a counter that is not trapped (CNTHCTL_EL2 as `boot` sets it).
    unsafe {
        asm!("dsb ishld", "isb", "mrs {}, cntpct_el0", "isb", out(reg) count, options(nostack, preserves_flags));
    }
    count
}

/// Reads the cycle counter, ordered likewise.
#[inline(always)]
pub(in crate::hardware) fn cycles() -> u64 {
    // SAFETY: the PMU exists, counts (`super::pmu`) and belongs to EL1 when this is called. Otherwise the exception
    // is reported and never returns here.
    unsafe { Aarch64::cycles() }
}

/// Returns the rate of the system counter, Hz.
pub(in crate::hardware) fn system_hz() -> u64 {
    match mrs!("cntfrq_el0") {
        0 => boot_state().board.counter_hz(),
        hz => hz,
    }
}

/// Returns whether the cycle counter was read often enough since [`begin`]: it has 64 bits.
pub(in crate::hardware) fn is_continuous(_cycles_hz: u64) -> bool {
    true
}

/// Begins a trial, in which the cycle counter has to be read often enough.
pub(in crate::hardware) fn begin() {}

/// Starts the timer: it interrupts when the system counter reaches `at`. Interrupts are unmasked; their handler must be
/// installed (`super::vectors`).
pub(in crate::hardware) fn start_timer(at: u64) {
    // SAFETY: the timer of EL1 ("The Generic Timer in AArch64 state"), compared with the counter; then interrupts are
    // unmasked.
    unsafe {
        msr!("cntp_cval_el0", at);
        msr!("cntp_ctl_el0", 1u64);
        asm!("isb", "msr daifclr, #2", options(nostack));
    }
}

/// Masks interrupts and stops the timer.
pub(in crate::hardware) fn stop_timer() {
    // SAFETY: interrupts are masked and the timer is off.
    unsafe {
        asm!("msr daifset, #2", options(nostack));
        msr!("cntp_ctl_el0", 0u64);
        asm!("isb", options(nostack));
    }
}

/// Returns whether the timer has reached its time (`CNTP_CTL_EL0.ISTATUS`).
pub(in crate::hardware) fn timer_reached() -> bool {
    mrs!("cntp_ctl_el0") & 1 << 2 != 0
}
