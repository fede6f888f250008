//! Facts of the core, the board and the start.

use alloc::format;
use alloc::vec::Vec;

use fathom_probe::machine::Fact;
use fathom_units::facts;

use super::fact::{int, text};
use super::{Image, arch, boot_state};
use crate::identification;
use crate::windows::{FIRST_ADDRESS, Window, WindowAttribute};

/// Returns all facts.
pub(super) fn facts() -> Vec<Fact> {
    let (boot_state, image) = (boot_state(), Image::here());
    let core = arch::cpu::name();
    let board = boot_state.board.name();
    // fathom-emulate has the devices of a board, but not its core and memory.
    let board = match boot_state.parameters.modelled() {
        true => format!("a described machine, with the devices of: {board}"),
        false => board.into(),
    };
    let mut facts = Vec::from([
        text(facts::BOARD_MODEL, board),
        text(facts::CPU_MODEL, format!("{core} ({} {:#x})", arch::cpu::MIDR, arch::cpu::midr())),
        text(facts::BUILD, concat!("fathom-metal ", env!("CARGO_PKG_VERSION"))),
        int("metal.boot_el", boot_state.boot_el),
        int("metal.loaded_at", image.start),
        int("metal.image.bytes", image.loaded_end - image.start),
        int("metal.memory.bytes", image.end - image.start),
        int("metal.baud", u64::from(boot_state.parameters.baud)),
        int("metal.watch.ms", u64::from(boot_state.parameters.watch_ms)),
    ]);
    facts.extend(arch::identify::registers());
    if let Some(registers) = boot_state.core_registers {
        facts.extend(arch::identify::own_registers(registers));
    }
    if let Some((base, bytes)) = boot_state.memory {
        facts.push(int("metal.firmware.memory.pa", base));
        facts.push(int("metal.firmware.memory.bytes", bytes));
    }
    facts.extend(caches());
    facts.extend(attributes());
    facts
}

/// Returns facts of the register that lists the caches, and of the one that describes each, if the core has them. Their
/// names are those of AArch64, whose contents they have on every architecture.
fn caches() -> Vec<Fact> {
    let Some(clidr) = arch::identify::clidr() else { return Vec::new() };
    let mut facts = Vec::from([int("arm.clidr_el1", clidr)]);
    for (level, instructions) in identification::caches(clidr) {
        let side = if instructions { "instructions" } else { "data" };
        let value = arch::identify::ccsidr(identification::csselr(level, instructions));
        facts.push(int(format!("arm.ccsidr_el1.{level}.{side}"), value));
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
        let va = FIRST_ADDRESS + window.start();
        let words = match arch::mmu::translate(va) {
            Ok(translated) => {
                let mair = translated.mair.map_or("not reported".into(), |mair| format!("{mair:#04x}"));
                format!("va {va:#x} pa {:#x} mair {mair}", translated.pa)
            }
            Err(status) => format!("not translated: fault status {status:#x}"),
        };
        text(name, words)
    };
    Window::all().map(fact_of_window).collect()
}
