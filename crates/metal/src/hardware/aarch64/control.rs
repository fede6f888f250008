//! Controls of the core: the attribute of table walks, prefetchers.

use core::arch::asm;

use fathom_probe::machine::{Attribute, Refusal};

use super::{cpu, mmu, mrs, msr};
use crate::aarch64::registers;
use crate::hardware::boot_state;
use crate::hardware::mappings::WALKS;

/// Restores the defaults.
pub(in crate::hardware) fn restore() {
    set_walks(WALKS);
    if let Some(core_registers) = boot_state().core_registers
        && cpu::registers() != Some(core_registers)
    {
        write_core_registers(core_registers);
    }
}

/// Checks that walks can have this attribute.
pub(in crate::hardware) fn check_walks(attribute: Attribute) -> Result<(), Refusal> {
    let known = registers::walk_cacheability(attribute);
    known.map(|_| ()).ok_or_else(|| {
        Refusal::new(
            "table walks do not fetch from device memory (TCR_EL1.IRGN0 has no such value)",
            "request tables write-back, write-through or normal-nc",
        )
    })
}

/// Puts an attribute of table walks in force, which [`check_walks`] has accepted.
pub(in crate::hardware) fn set_walks(attribute: Attribute) {
    if let Some(walks) = registers::walk_cacheability(attribute) {
        mmu::set_walks(walks);
    }
}

/// Checks that memory can have the attribute of a byte of `MAIR_EL1`: any.
pub(in crate::hardware) fn check_byte(_byte: u8) -> Result<(), Refusal> {
    Ok(())
}

/// Switches the prefetchers, and verifies it by reading back.
pub(in crate::hardware) fn prefetch(on: bool) -> Result<(), Refusal> {
    let emulated = || Refusal::new("an emulator has no prefetchers", "measure on a board");
    if boot_state().board.is_virtual() {
        return Err(emulated());
    }
    let midr = mrs!("midr_el1");
    let off = boot_state()
        .core_registers
        .and_then(|core_registers| Some((core_registers, registers::prefetchers_off(midr, core_registers)?)));
    let Some(((actlr, ectlr), (off, _))) = off else {
        let core = registers::core(midr);
        return Err(Refusal::new(
            alloc::format!("the prefetcher controls of {core} are not known"),
            "use a Cortex-A53 or Cortex-A72",
        ));
    };
    if (actlr, ectlr) == (0, 0) {
        return Err(emulated());
    }
    // A write that EL3 has not permitted (ACTLR_EL3) traps to EL3, which may have no handler. If entered at EL3,
    // this image permits it. If entered at EL2 on the Pis, their firmware's armstub8.S has permitted it
    // (ACTLR_EL3 = 0x73).
    if boot_state().boot_el < 2 {
        return Err(Refusal::new(
            "the image was entered at EL1, so it is not known whether CPUACTLR_EL1 may be written",
            "configure the firmware to enter it at EL2 or EL3",
        ));
    }
    let requested = if on { (actlr, ectlr) } else { off };
    write_core_registers(requested);
    if cpu::registers() != Some(requested) {
        write_core_registers((actlr, ectlr));
        return Err(Refusal::new(
            "CPUACTLR_EL1 and CPUECTLR_EL1 do not keep the written values: the prefetchers cannot be switched",
            "measure with the prefetchers as they are",
        ));
    }
    Ok(())
}

/// Writes `CPUACTLR_EL1` and `CPUECTLR_EL1`, if that is permitted: see [`Control::prefetch`].
fn write_core_registers((actlr, ectlr): (u64, u64)) {
    // SAFETY: implementation-defined registers of this core. Only the bits that control prefetchers differ from their
    // initial values, and prefetches change no contents. The manuals require CPUACTLR_EL1 to be written while the
    // memory system is idle, ideally before translation is on (DDI 0500J and 100095, "CPU Auxiliary Control
    // Register"), and guarantee nothing for later. Here translation is on. The memory system is idle as far as
    // possible: one core whose accesses have completed (DSB), no running trial, and interrupts masked; fetches, walks
    // and prefetches already begun continue. Other software switches these bits at the same stage (erratum
    // workarounds of Trusted Firmware-A), which is not a guarantee either.
    unsafe {
        asm!("dsb sy", "isb");
        msr!("S3_1_C15_C2_0", actlr);
        msr!("S3_1_C15_C2_1", ectlr);
        asm!("dsb sy", "isb");
    }
}
