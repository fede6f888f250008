//! The core: its identification, its own registers, and provoked faults.

use core::arch::asm;

use fathom_probe::machine::FaultInjection;

use super::{IS_V7, cp15, mrc};
use crate::arm::registers;
use crate::arm::tables::{PAGE_BYTES, SPACE_BYTES};
use crate::board;
use crate::clock_trust::Evidence;

/// `ACTLR`.
pub(in crate::hardware) type CoreRegisters = u32;

/// Name of the register of [`midr`].
pub(in crate::hardware) const MIDR: &str = "MIDR";

/// Returns `MIDR`.
pub(in crate::hardware) fn midr() -> u64 {
    mrc!(MIDR).into()
}

/// Returns the core's name.
pub(in crate::hardware) fn name() -> alloc::string::String {
    registers::core(midr())
}

/// Checks that this image is for this core.
///
/// # Errors
/// Returns what to do, as a line for a terminal.
pub(in crate::hardware) fn check() -> Result<(), &'static str> {
    let is_v6 = board::part(midr()) == board::ARM1176;
    match (IS_V7, is_v6) {
        (true, true) => Err("# this image is for ARMv7: an ARM1176 needs the other one, kernel.img"),
        (false, false) => Err("# this image is for ARM1176: this core needs another one, kernel7.img"),
        _ => Ok(()),
    }
}

/// Reads the core's own registers, if it is known to have them.
pub(in crate::hardware) fn registers() -> Option<CoreRegisters> {
    registers::has_smp(midr()).then(|| mrc!(ACTLR))
}

/// Returns what the core shows of its kind. On ARM1176, the image writes memory before this is called.
pub(in crate::hardware) fn evidence(initial: Option<CoreRegisters>) -> Evidence {
    if IS_V7 {
        return registers::evidence_v7(midr(), initial.unwrap_or(0));
    }
    // The register exists on every core that this image is for (`check`). The image's data are write-back memory, and the
    // stack has just been written.
    registers::evidence_v6(midr(), super::pmu::counts(), mrc!(DIRTY_STATUS) & 1 == 1)
}

/// Returns whether the core is coherent, as far as that is known.
pub(in crate::hardware) fn is_coherent(initial: Option<CoreRegisters>) -> bool {
    initial.is_none_or(|actlr| actlr & registers::SMP != 0)
}

/// Unmasks asynchronous aborts: they are reported like all exceptions.
pub(in crate::hardware) fn unmask_aborts() {
    // SAFETY: their handler is installed before this is called (`super::vectors`).
    unsafe { asm!("cpsie a", options(nostack)) };
}

/// Causes a fault, which is reported and never returns here.
pub(in crate::hardware) fn provoke(fault: FaultInjection) {
    match fault {
        // SAFETY: the last page of the address space is not mapped: a translation fault.
        FaultInjection::Abort => unsafe {
            asm!("ldr {0}, [{1}]", out(reg) _, in(reg) (SPACE_BYTES - PAGE_BYTES) as u32, options(nostack));
        },
        // SAFETY: UDF is Undefined by definition (DDI 0406C, A8.8.247), and reported.
        FaultInjection::Undefined => unsafe { asm!("udf #0", options(nostack)) },
        // SAFETY: a branch to itself, which the watchdog's interrupt ends.
        FaultInjection::Endless => unsafe { asm!("2:", "b 2b", options(nomem, nostack)) },
    }
}

/// Sleeps forever.
pub(in crate::hardware) fn park() -> ! {
    loop {
        // SAFETY: waits for an event; nothing else happens.
        unsafe { asm!("wfe", options(nomem, nostack, preserves_flags)) };
    }
}
