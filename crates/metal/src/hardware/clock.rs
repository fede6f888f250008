//! Clocks: the PMU's cycle counter if it counts, the system counter, and the cycle calibration.

use fathom_probe::calibration::{Bracket, Rate, Reference};

use super::arch;

pub(super) use super::arch::clock::{cycles, system, system_hz};

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
    fathom_loops::additions::<arch::Loops>(n);
}
