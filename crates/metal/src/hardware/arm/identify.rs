//! Facts of the core's registers.

use alloc::vec::Vec;

use fathom_probe::machine::Fact;

use super::cpu::CoreRegisters;
use super::{IS_V7, cp15, mcr, mrc, pmu};
use crate::arm::registers;
use crate::hardware::fact::int;

/// Returns facts of the identification registers, and of those that control translation.
pub(in crate::hardware) fn registers() -> Vec<Fact> {
    let mut facts = Vec::from([
        int("arm.midr", mrc!(MIDR).into()),
        int("arm.ctr", mrc!(CTR).into()),
        int("arm.id_dfr0", mrc!(ID_DFR0).into()),
        int("arm.id_mmfr0", mrc!(ID_MMFR0).into()),
        int("arm.sctlr", mrc!(SCTLR).into()),
        int("arm.ttbr0", mrc!(TTBR0).into()),
    ]);
    if IS_V7 {
        facts.push(int("arm.mpidr", mrc!(MPIDR).into()));
        facts.push(int("arm.cntfrq", mrc!(CNTFRQ).into()));
    }
    facts
}

/// Returns facts of the core's own registers, with their initial values.
pub(in crate::hardware) fn own_registers(actlr: CoreRegisters) -> Vec<Fact> {
    Vec::from([int("arm.actlr", actlr.into()), int("metal.smp", u64::from(actlr & registers::SMP != 0))])
}

/// Returns facts of the PMU's registers.
///
/// # Errors
/// Returns the reason if there is no PMU.
pub(in crate::hardware) fn pmu() -> Result<Vec<Fact>, &'static str> {
    if !pmu::is_present() {
        return Err(if IS_V7 { "ID_DFR0 names no PMU" } else { "this ARM1176 has no performance monitors" });
    }
    Ok(if IS_V7 {
        Vec::from([int("arm.pmcr", mrc!(PMCR).into()), int("arm.pmceid0", pmu::event_list().into())])
    } else {
        Vec::from([int("arm.pmnc", mrc!(PMNC).into())])
    })
}

/// Returns `CLIDR`; ARM1176 has none, and its `CTR` describes its caches.
pub(in crate::hardware) fn clidr() -> Option<u64> {
    IS_V7.then(|| mrc!(CLIDR).into())
}

/// Returns `CCSIDR` of the cache that a value of `CSSELR` selects.
pub(in crate::hardware) fn ccsidr(selected: u64) -> u64 {
    // SAFETY: CSSELR only selects the cache of CCSIDR, after an ISB; there is one core, so both belong to it.
    unsafe { mcr!(CSSELR, selected as u32) };
    fathom_loops::arm::flush_pipeline();
    mrc!(CCSIDR).into()
}
