//! The clocks: the PMU's cycle counter where it counts, the system counter; and the cycle calibration.

use core::arch::asm;

use fathom_loops::aarch64::Aarch64;
use fathom_probe::calibration::{Bracket, Rate, Reference};

use super::mrs;

/// The system counter, ordered: after every earlier access that a DSB waits for, before every later one. `CNTPCT`
/// may be read early unless an ISB precedes it (DDI 0487, CNTPCT_EL0).
#[inline(always)]
pub(super) fn system() -> u64 {
    let count: u64;
    // SAFETY: barriers and the read of a counter that nobody traps (CNTHCTL_EL2 as `boot` sets it).
    unsafe {
        asm!("dsb ishld", "isb", "mrs {}, cntpct_el0", "isb", out(reg) count, options(nostack, preserves_flags));
    }
    count
}

/// The cycle counter, ordered likewise.
#[inline(always)]
pub(super) fn cycles() -> u64 {
    // SAFETY: the PMU exists and counts where this is called (`super::pmu`), and belongs to EL1; where it does not, the
    // exception is reported and never comes back here.
    unsafe { Aarch64::cycles() }
}

/// Rate of the system counter, Hz.
pub(super) fn system_hz() -> u64 {
    match mrs!("cntfrq_el0") {
        0 => super::found().board.counter_hz(),
        hz => hz,
    }
}

/// The system counter `ms` from now.
pub(super) fn deadline(ms: u32) -> u64 {
    system().wrapping_add(u64::from(ms) * system_hz() / 1000)
}

/// The rate of the cycle counter, by the system counter over 10 ms.
pub(super) fn calibrate() -> Rate {
    let begin = Bracket::take(system, cycles);
    let until = deadline(10);
    while system() < until {}
    let end = Bracket::take(system, cycles);
    Bracket::rate(&begin, &end, Reference { hz: system_hz(), max_early_ticks: 1 })
}

/// `n` dependent additions of registers.
#[inline(never)]
pub(super) fn alu(n: u64) {
    fathom_loops::additions::<Aarch64>(n);
}
