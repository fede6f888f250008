//! What one trial may set: a byte of `MAIR_EL1`, the attribute of table walks, prefetchers.

use core::arch::asm;

use fathom_probe::machine::{Controls, Refusal};

use super::{found, mmu, mrs, msr};
use crate::board::{Board, CORTEX_A53, part};
use crate::registers;

/// `CPUACTLR_EL1` of Cortex-A53: how many prefetches of the L1 are outstanding, 0 for none (DDI 0500J, "CPU
/// Auxiliary Control Register", `L1PCTL`, bits 15:13).
const A53_L1PCTL: u64 = 7 << 13;
/// `CPUACTLR_EL1` of Cortex-A72, bit 56: no prefetches of the load/store unit into L1; `CPUECTLR_EL1`, bits 36:35 and
/// 33:32: the distances of the L2's prefetches of instructions and data, 0 for none (100095, registers of the same
/// names; also in Trusted Firmware-A's cortex_a72.h: DISABLE_L1_DCACHE_HW_PFTCH, L2_IPFTCH_DIST, L2_DPFTCH_DIST).
const A72_NO_L1: u64 = 1 << 56;
const A72_L2: u64 = 3 << 35 | 3 << 32;

/// What is in force.
pub(super) struct Control {
    pub(super) controls: Controls,
}

impl Control {
    /// The defaults, put in force: a fault may have left anything.
    pub(super) fn open() -> Control {
        mmu::set_walks(WALKS);
        if let Some(own) = found().own
            && own_registers() != own
        {
            write_own(own);
        }
        Control { controls: Controls::default() }
    }

    /// Puts controls in force.
    pub(super) fn set(&mut self, controls: &Controls) -> Result<(), Refusal> {
        if controls.flush {
            return Err(Refusal::new(
                "a flush after each access stands in for memory that is not cached, of which there is some here",
                "ask for attribute normal-nc or device",
            ));
        }
        if registers::walks_of(controls.tables).is_none() {
            return Err(Refusal::new(
                "table walks do not fetch from device memory (TCR_EL1.IRGN0 has no such value)",
                "ask for tables write-back, write-through or normal-nc",
            ));
        }
        if controls.prefetch != self.controls.prefetch {
            self.prefetch(controls.prefetch)?;
        }
        self.put(controls);
        Ok(())
    }

    fn put(&mut self, controls: &Controls) {
        if let Some(byte) = controls.mair {
            mmu::set_mair(byte);
        }
        if controls.tables != self.controls.tables
            && let Some(walks) = registers::walks_of(controls.tables)
        {
            mmu::set_walks(walks);
        }
        self.controls = *controls;
    }

    /// Switches the prefetchers, and reads back whether it was done.
    fn prefetch(&mut self, on: bool) -> Result<(), Refusal> {
        let Some((actlr, ectlr)) = found().own else {
            let core = registers::core(mrs!("midr_el1"));
            return Err(Refusal::new(
                alloc::format!("how {core} switches its prefetchers is not known here"),
                "Cortex-A53 and Cortex-A72 are known",
            ));
        };
        if found().board == Board::Virt || (actlr, ectlr) == (0, 0) {
            return Err(Refusal::new("there are no prefetchers under an emulator", "measure on a board"));
        }
        // A write that EL3 has not allowed (ACTLR_EL3) is taken to EL3, where nobody may answer. From EL3 this
        // image allows it itself; from EL2 on the Pis their firmware's armstub8.S has (ACTLR_EL3 = 0x73).
        if found().boot_el < 2 {
            return Err(Refusal::new(
                "the image was entered at EL1, where it is not known whether CPUACTLR_EL1 may be written",
                "have the firmware enter it at EL2 or EL3",
            ));
        }
        let wanted = match (on, part(mrs!("midr_el1"))) {
            (true, _) => (actlr, ectlr),
            (false, CORTEX_A53) => (actlr & !A53_L1PCTL, ectlr),
            (false, _) => (actlr | A72_NO_L1, ectlr & !A72_L2),
        };
        write_own(wanted);
        if own_registers() != wanted {
            write_own((actlr, ectlr));
            return Err(Refusal::new(
                "CPUACTLR_EL1 and CPUECTLR_EL1 do not keep what is written: the prefetchers cannot be switched",
                "measure with the prefetchers as they are",
            ));
        }
        Ok(())
    }
}

/// `TCR_EL1.IRGN0` and `ORGN0` for walks of write-back memory.
const WALKS: u64 = 0b01;

/// Writes `CPUACTLR_EL1` and `CPUECTLR_EL1`, where that is allowed: see [`Control::prefetch`].
fn write_own((actlr, ectlr): (u64, u64)) {
    // SAFETY: registers of this core's implementer, of which only the bits that switch prefetchers differ from what
    // was found. They want to be written while no load is under way that a prefetch may follow: between barriers.
    unsafe {
        asm!("dsb sy", "isb");
        msr!("S3_1_C15_C2_0", actlr);
        msr!("S3_1_C15_C2_1", ectlr);
        asm!("dsb sy", "isb");
    }
}

/// `CPUACTLR_EL1` and `CPUECTLR_EL1`.
pub(super) fn own_registers() -> (u64, u64) {
    (mrs!("S3_1_C15_C2_0"), mrs!("S3_1_C15_C2_1"))
}
