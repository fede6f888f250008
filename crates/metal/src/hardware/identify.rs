//! Facts of the core, the board and the start.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::arch::asm;

use fathom_probe::machine::{Fact, FactValue};
use fathom_units::facts;

use super::{Image, boot_state, mmu, mrs, msr};
use crate::registers::{self, ParEl1};
use crate::windows::{FIRST_ADDRESS, Window, WindowAttribute};

/// Returns a fact with a number.
pub(super) fn int(name: impl ToString, value: u64) -> Fact {
    Fact { name: name.to_string(), value: FactValue::Int(value) }
}

/// Returns a fact with text.
pub(super) fn text(name: impl ToString, value: impl Into<String>) -> Fact {
    Fact { name: name.to_string(), value: FactValue::Text(value.into()) }
}

/// Returns all facts.
pub(super) fn facts() -> Vec<Fact> {
    let (boot_state, image, midr) = (boot_state(), Image::here(), mrs!("midr_el1"));
    let mut facts = Vec::from([
        text(facts::BOARD_MODEL, boot_state.board.name()),
        text(facts::CPU_MODEL, format!("{} (MIDR_EL1 {midr:#x})", registers::core(midr))),
        text(facts::BUILD, concat!("fathom-metal ", env!("CARGO_PKG_VERSION"))),
        int("metal.boot_el", boot_state.boot_el),
        int("metal.loaded_at", image.start),
        int("metal.image.bytes", image.loaded_end - image.start),
        int("metal.memory.bytes", image.end - image.start),
        int("metal.baud", u64::from(boot_state.parameters.baud)),
        int("metal.watch.ms", u64::from(boot_state.parameters.watch_ms)),
    ]);
    facts.extend(registers_of_the_core(midr));
    if let Some((actlr, ectlr)) = boot_state.core_registers {
        facts.push(int("arm.cpuactlr_el1", actlr));
        facts.push(int("arm.cpuectlr_el1", ectlr));
        facts.push(int("metal.smpen", u64::from(ectlr & registers::SMPEN != 0)));
        if let Some((_, bits)) = registers::prefetchers_off(midr, (actlr, ectlr)) {
            facts.push(text("metal.prefetch.off", bits));
        }
    }
    if let Some((base, bytes)) = boot_state.memory {
        facts.push(int("metal.firmware.memory.pa", base));
        facts.push(int("metal.firmware.memory.bytes", bytes));
    }
    facts.extend(caches());
    facts.extend(attributes());
    facts
}

fn registers_of_the_core(midr: u64) -> [Fact; 13] {
    [
        int("arm.midr_el1", midr),
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

/// Returns facts of `CLIDR_EL1`, and of `CCSIDR_EL1` for each cache.
fn caches() -> Vec<Fact> {
    let clidr = mrs!("clidr_el1");
    let mut facts = Vec::from([int("arm.clidr_el1", clidr)]);
    for (level, instructions) in registers::caches(clidr) {
        // SAFETY: CSSELR_EL1 only selects the cache of CCSIDR_EL1, after an ISB; there is one core, so both belong to
        // it.
        unsafe {
            msr!("csselr_el1", registers::csselr(level, instructions));
            asm!("isb");
        }
        let side = if instructions { "instructions" } else { "data" };
        facts.push(int(format!("arm.ccsidr_el1.{level}.{side}"), mrs!("ccsidr_el1")));
    }
    facts
}

/// Returns the attribute in force in each window, as the hardware translates it.
fn attributes() -> Vec<Fact> {
    let fact_of_window = |window: Window| {
        let attribute = match window.attribute {
            WindowAttribute::Named(attribute) => attribute.token(),
            WindowAttribute::Raw(_) => "raw",
        };
        let name = format!("attribute.{}.{attribute}", window.pages.token());
        match mmu::translate(FIRST_ADDRESS + window.start()) {
            ParEl1::Translated { pa, mair } => {
                text(name, format!("va {:#x} pa {pa:#x} mair {mair:#04x}", FIRST_ADDRESS + window.start()))
            }
            ParEl1::Fault(status) => text(name, format!("not translated: fault status {status:#x}")),
        }
    };
    Window::all().map(fact_of_window).collect()
}
