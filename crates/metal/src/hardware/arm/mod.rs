//! 32-bit ARM: ARMv6 (ARM1176) and ARMv7-A. Where the two differ, [`IS_V7`] decides at compile time: there is an image for
//! each.

pub(super) mod boot;
pub(super) mod cache;
pub(super) mod clock;
pub(super) mod control;
pub(super) mod cpu;
pub(super) mod identify;
pub(super) mod mmu;
pub(super) mod pmu;
pub(super) mod vectors;

/// The instructions of the loops.
pub(super) use fathom_loops::arm::Arm as Loops;
use fathom_loops::arm::IS_V7;

/// Returns an instruction that reads or writes a register of coprocessor 15 by its name (DDI 0406C, B3.17; those of ARM1176
/// alone: DDI 0301H, 3.2).
#[rustfmt::skip]
macro_rules! cp15 {
    ($verb:literal, MIDR) => { concat!($verb, " p15, 0, {0}, c0, c0, 0") };
    ($verb:literal, CTR) => { concat!($verb, " p15, 0, {0}, c0, c0, 1") };
    ($verb:literal, MPIDR) => { concat!($verb, " p15, 0, {0}, c0, c0, 5") };
    ($verb:literal, ID_DFR0) => { concat!($verb, " p15, 0, {0}, c0, c1, 2") };
    ($verb:literal, ID_MMFR0) => { concat!($verb, " p15, 0, {0}, c0, c1, 4") };
    ($verb:literal, CCSIDR) => { concat!($verb, " p15, 1, {0}, c0, c0, 0") };
    ($verb:literal, CLIDR) => { concat!($verb, " p15, 1, {0}, c0, c0, 1") };
    ($verb:literal, CSSELR) => { concat!($verb, " p15, 2, {0}, c0, c0, 0") };
    ($verb:literal, SCTLR) => { concat!($verb, " p15, 0, {0}, c1, c0, 0") };
    ($verb:literal, ACTLR) => { concat!($verb, " p15, 0, {0}, c1, c0, 1") };
    ($verb:literal, TTBR0) => { concat!($verb, " p15, 0, {0}, c2, c0, 0") };
    ($verb:literal, TTBCR) => { concat!($verb, " p15, 0, {0}, c2, c0, 2") };
    ($verb:literal, DACR) => { concat!($verb, " p15, 0, {0}, c3, c0, 0") };
    ($verb:literal, PAR) => { concat!($verb, " p15, 0, {0}, c7, c4, 0") };
    ($verb:literal, ICIALLU) => { concat!($verb, " p15, 0, {0}, c7, c5, 0") };
    ($verb:literal, BPIALL) => { concat!($verb, " p15, 0, {0}, c7, c5, 6") };
    ($verb:literal, DCIMVAC) => { concat!($verb, " p15, 0, {0}, c7, c6, 1") };
    // "Privileged read VA to PA translation, current world": V2PCWPR of ARM1176, ATS1CPR of ARMv7.
    ($verb:literal, ATS1CPR) => { concat!($verb, " p15, 0, {0}, c7, c8, 0") };
    ($verb:literal, DIRTY_STATUS) => { concat!($verb, " p15, 0, {0}, c7, c10, 6") };
    ($verb:literal, DCCIMVAC) => { concat!($verb, " p15, 0, {0}, c7, c14, 1") };
    ($verb:literal, TLBIALL) => { concat!($verb, " p15, 0, {0}, c8, c7, 0") };
    ($verb:literal, PMCR) => { concat!($verb, " p15, 0, {0}, c9, c12, 0") };
    ($verb:literal, PMCNTENSET) => { concat!($verb, " p15, 0, {0}, c9, c12, 1") };
    ($verb:literal, PMSELR) => { concat!($verb, " p15, 0, {0}, c9, c12, 5") };
    ($verb:literal, PMCEID0) => { concat!($verb, " p15, 0, {0}, c9, c12, 6") };
    ($verb:literal, PMCCNTR) => { concat!($verb, " p15, 0, {0}, c9, c13, 0") };
    ($verb:literal, PMXEVTYPER) => { concat!($verb, " p15, 0, {0}, c9, c13, 1") };
    ($verb:literal, PMXEVCNTR) => { concat!($verb, " p15, 0, {0}, c9, c13, 2") };
    ($verb:literal, VBAR) => { concat!($verb, " p15, 0, {0}, c12, c0, 0") };
    ($verb:literal, CNTFRQ) => { concat!($verb, " p15, 0, {0}, c14, c0, 0") };
    ($verb:literal, CNTP_CTL) => { concat!($verb, " p15, 0, {0}, c14, c2, 1") };
    // ARM1176: Performance Monitor Control, Cycle Counter, Count Register 0 and 1.
    ($verb:literal, PMNC) => { concat!($verb, " p15, 0, {0}, c15, c12, 0") };
    ($verb:literal, CCNT) => { concat!($verb, " p15, 0, {0}, c15, c12, 1") };
    ($verb:literal, PMN0) => { concat!($verb, " p15, 0, {0}, c15, c12, 2") };
    ($verb:literal, PMN1) => { concat!($verb, " p15, 0, {0}, c15, c12, 3") };
}

/// Reads a register of coprocessor 15.
macro_rules! mrc {
    ($name:ident) => {{
        let value: u32;
        // SAFETY: reading a register that exists on this core changes nothing. One that does not exist causes an Undefined
        // exception, which is reported and not unsound. Not `nomem`: reads of counters keep their place between accesses
        // to memory.
        #[allow(unused_unsafe, reason = "some callers read a register inside an unsafe block that writes it")]
        unsafe {
            ::core::arch::asm!(cp15!("mrc", $name), out(reg) value, options(nostack, preserves_flags));
        }
        value
    }};
}

/// Writes a register of coprocessor 15. Unsafe: the caller justifies that the value may be in force.
macro_rules! mcr {
    ($name:ident, $value:expr) => {
        ::core::arch::asm!(cp15!("mcr", $name), in(reg) $value, options(nostack, preserves_flags))
    };
}

use {cp15, mcr, mrc};
