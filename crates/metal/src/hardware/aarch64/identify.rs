//! Facts of the core's registers.

use alloc::vec::Vec;
use core::arch::asm;

use fathom_probe::machine::Fact;

use super::cpu::CoreRegisters;
use super::{cpu, mrs, msr};
use crate::aarch64::registers;
use crate::hardware::fact::{int, text};

/// Returns facts of the identification registers, and of those that control translation.
pub(in crate::hardware) fn registers() -> [Fact; 13] {
    [
        int("arm.midr_el1", mrs!("midr_el1")),
        int("arm.mpidr_el1", mrs!("mpidr_el1")),
        int("arm.ctr_el0", mrs!("ctr_el0")),
        int("arm.dczid_el0", mrs!("dczid_el0")),
        int("arm.cntfrq_el0", mrs!("cntfrq_el0")),
        int("arm.id_aa64pfr0_el1", mrs!("id_aa64pfr0_el1")),
        int("arm.id_aa64dfr0_el1", mrs!("id_aa64dfr0_el1")),
        int("arm.id_aa64mmfr0_el1", mrs!("id_aa64mmfr0_el1")),
        int("arm.ccidx", ccidx()),
        int("arm.pmuver", mrs!("id_aa64dfr0_el1") >> 8 & 0xf),
        int("arm.sctlr_el1", mrs!("sctlr_el1")),
        int("arm.tcr_el1", mrs!("tcr_el1")),
        int("arm.mair_el1", mrs!("mair_el1")),
    ]
}

/// Returns `ID_AA64MMFR2_EL1.CCIDX`, bits 23:20: the layout of `CCSIDR_EL1`. The register is encoded by numbers
/// ("System register encoding"): older assemblers do not know its name, and if it is not defined it reads as zero.
fn ccidx() -> u64 {
    mrs!("S3_0_C0_C7_2") >> 20 & 0xf
}

/// Returns facts of the core's own registers, with their initial values.
pub(in crate::hardware) fn own_registers((actlr, ectlr): CoreRegisters) -> Vec<Fact> {
    let smpen = int("metal.smpen", u64::from(ectlr & registers::SMPEN != 0));
    let mut facts = Vec::from([int("arm.cpuactlr_el1", actlr), int("arm.cpuectlr_el1", ectlr), smpen]);
    if let Some((_, bits)) = registers::prefetchers_off(cpu::midr(), (actlr, ectlr)) {
        facts.push(text("metal.prefetch.off", bits));
    }
    facts
}

/// Returns facts of the PMU's registers; `None`, with the reason, if there is no PMU.
pub(in crate::hardware) fn pmu() -> Result<Vec<Fact>, &'static str> {
    if !registers::has_pmu(mrs!("id_aa64dfr0_el1")) {
        return Err("ID_AA64DFR0_EL1 names no PMU");
    }
    Ok(Vec::from([
        int("arm.pmcr_el0", mrs!("pmcr_el0")),
        int("arm.pmceid0_el0", mrs!("pmceid0_el0")),
        int("arm.pmceid1_el0", mrs!("pmceid1_el0")),
    ]))
}

/// Returns `CLIDR_EL1`.
pub(in crate::hardware) fn clidr() -> Option<u64> {
    Some(mrs!("clidr_el1"))
}

/// Returns `CCSIDR_EL1` of the cache that a value of `CSSELR_EL1` selects.
pub(in crate::hardware) fn ccsidr(selected: u64) -> u64 {
    // SAFETY: CSSELR_EL1 only selects the cache of CCSIDR_EL1, after an ISB; there is one core, so both belong to it.
    unsafe {
        msr!("csselr_el1", selected);
        asm!("isb");
    }
    mrs!("ccsidr_el1")
}
