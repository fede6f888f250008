//! What one trial may set: a byte of `MAIR_EL1`, the attribute of table walks, prefetchers.

use core::arch::asm;

use fathom_probe::machine::{Controls, Refusal};

use super::{found, mmu, mrs, msr};
use crate::board::Board;
use crate::registers;

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
        let emulated = || Refusal::new("there are no prefetchers under an emulator", "measure on a board");
        if found().board == Board::Virt {
            return Err(emulated());
        }
        let midr = mrs!("midr_el1");
        let off = found().own.and_then(|own| Some((own, registers::prefetchers_off(midr, own)?)));
        let Some(((actlr, ectlr), (off, _))) = off else {
            let core = registers::core(midr);
            return Err(Refusal::new(
                alloc::format!("how {core} switches its prefetchers is not known here"),
                "Cortex-A53 and Cortex-A72 are known",
            ));
        };
        if (actlr, ectlr) == (0, 0) {
            return Err(emulated());
        }
        // A write that EL3 has not allowed (ACTLR_EL3) is taken to EL3, where nobody may answer. From EL3 this
        // image allows it itself; from EL2 on the Pis their firmware's armstub8.S has (ACTLR_EL3 = 0x73).
        if found().boot_el < 2 {
            return Err(Refusal::new(
                "the image was entered at EL1, where it is not known whether CPUACTLR_EL1 may be written",
                "have the firmware enter it at EL2 or EL3",
            ));
        }
        let wanted = if on { (actlr, ectlr) } else { off };
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
    // was found, and prefetches change no contents. The manuals want CPUACTLR_EL1 written while the memory system is
    // idle, best before translation is on (DDI 0500J and 100095, "CPU Auxiliary Control Register"), and promise nothing
    // for later. Here translation is on; what there is of idleness is one core whose accesses have completed (DSB), no
    // trial under way and interrupts masked, while fetches, walks and prefetches already begun continue. Others switch
    // these bits at the same stage (erratum workarounds of Trusted Firmware-A), which is no promise either.
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

/// Lets system errors in: they are reported like everything else.
pub(super) fn unmask_serror() {
    // SAFETY: their handler is installed before this is called (`hardware::vectors`).
    unsafe { core::arch::asm!("msr daifclr, #4", options(nostack)) };
}
