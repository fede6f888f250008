//! Clocks: the PMU's cycle counter if it counts, the system counter, and the cycle calibration.

use core::arch::asm;

use fathom_loops::aarch64::Aarch64;
use fathom_probe::calibration::{Bracket, Rate, Reference};

use super::mrs;

/// Reads the system counter, ordered: after every earlier access that a DSB waits for, before every later one.
/// `CNTPCT` may be read early unless an ISB precedes it (DDI 0487, CNTPCT_EL0).
#[inline(always)]
pub(super) fn system() -> u64 {
    let count: u64;
    // SAFETY: barriers and the read of a counter that is not trapped (CNTHCTL_EL2 as `boot` sets it).
    unsafe {
        asm!("dsb ishld", "isb", "mrs {}, cntpct_el0", "isb", out(reg) count, options(nostack, preserves_flags));
    }
    count
}

/// Reads the cycle counter, ordered likewise.
#[inline(always)]
pub(super) fn cycles() -> u64 {
    // SAFETY: the PMU exists, counts (`super::pmu`) and belongs to EL1 when this is called. Otherwise the exception
    // is reported and never returns here.
    unsafe { Aarch64::cycles() }
}

/// Returns the rate of the system counter, Hz.
pub(super) fn system_hz() -> u64 {
    match mrs!("cntfrq_el0") {
        0 => super::boot_state().board.counter_hz(),
        hz => hz,
    }
}

/// Returns the system counter's value `ms` from now.
pub(super) fn deadline(ms: u32) -> u64 {
    system().wrapping_add(u64::from(ms) * system_hz() / 1000)
}

/// Returns the rate of the cycle counter, measured by the system counter over 10 ms.
pub(super) fn calibrate() -> Rate {
    let begin = Bracket::take(system, cycles);
    let until = deadline(10);
    while system() < until {}
    let end = Bracket::take(system, cycles);
    Bracket::rate(&begin, &end, Reference { hz: system_hz(), max_early_ticks: 1 })
}

/// Executes `n` dependent additions of registers.
#[inline(never)]
pub(super) fn alu(n: u64) {
    fathom_loops::additions::<Aarch64>(n);
}
