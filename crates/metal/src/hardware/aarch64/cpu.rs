//! The core: its identification, its own registers, and provoked faults.

use core::arch::asm;

use fathom_probe::machine::FaultInjection;

use super::mrs;
use crate::aarch64::registers;
use crate::aarch64::tables::{PAGE_BYTES, SPACE_BYTES};
use crate::board;
use crate::clock_trust::Evidence;

/// `CPUACTLR_EL1` and `CPUECTLR_EL1`.
pub(in crate::hardware) type CoreRegisters = (u64, u64);

/// Name of the register of [`midr`].
pub(in crate::hardware) const MIDR: &str = "MIDR_EL1";

/// Returns `MIDR_EL1`.
pub(in crate::hardware) fn midr() -> u64 {
    mrs!("midr_el1")
}

/// Returns the core's name.
pub(in crate::hardware) fn name() -> alloc::string::String {
    registers::core(midr())
}

/// Checks that this image is for this core: every core of AArch64.
pub(in crate::hardware) fn check() -> Result<(), &'static str> {
    Ok(())
}

/// Returns whether the implementation-defined registers of this core are known.
pub(super) fn is_known() -> bool {
    matches!(board::part(midr()), board::CORTEX_A53 | board::CORTEX_A72)
}

/// Reads the core's own registers, if it is known to have them.
pub(in crate::hardware) fn registers() -> Option<CoreRegisters> {
    is_known().then(|| (mrs!("S3_1_C15_C2_0"), mrs!("S3_1_C15_C2_1")))
}

/// Returns what the core shows of its kind.
pub(in crate::hardware) fn evidence(initial: Option<CoreRegisters>) -> Evidence {
    registers::evidence(midr(), initial)
}

/// Returns whether the core is coherent, as far as that is known.
pub(in crate::hardware) fn is_coherent(initial: Option<CoreRegisters>) -> bool {
    initial.is_none_or(|(_, ectlr)| ectlr & registers::SMPEN != 0)
}

/// Unmasks system errors: they are reported like all exceptions.
pub(in crate::hardware) fn unmask_aborts() {
    // SAFETY: their handler is installed before this is called (`super::vectors`).
    unsafe { asm!("msr daifclr, #4", options(nostack)) };
}

/// Causes a fault, which is reported and never returns here.
pub(in crate::hardware) fn provoke(fault: FaultInjection) {
    match fault {
        // SAFETY: the last page of the address space is not mapped: a translation fault.
        FaultInjection::Abort => unsafe {
            asm!("ldr {0}, [{1}]", out(reg) _, in(reg) SPACE_BYTES - PAGE_BYTES, options(nostack));
        },
        // SAFETY: UDF is Undefined by definition (DDI 0487, UDF).
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
