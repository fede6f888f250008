//! The core: its registers of coprocessor 15 that the model answers.
//!
//! Unicorn has no hooks on them. The accesses are found in the image's code, and hooked at their addresses: the image is
//! executed where it is loaded. What an access reads is put into the register before the next instruction, so that
//! Unicorn executes the access and its block remains whole.

use unicorn_engine::{Arch, ArmCpuModel, Mode, RegisterARM as R, RegisterARMCP as CP, Unicorn, uc_error};

use super::system::{self, System, What};
use super::walk;
use crate::cpu::Cpu;
use crate::guest::{Core, Guest};
use crate::translation::Regime;

/// Number of event counters that `PMCR` of ARMv7 has (bits 15:11).
const COUNTERS: u64 = 6;
/// Events of `PMCEID0`: refills of the first level and of the first TLB, accesses, refills of the second level.
const EVENTS: u64 = 1 << 0x03 | 1 << 0x05 | 1 << 0x13 | 1 << 0x17;

/// Creates the core of the guest's image.
pub fn create(guest: Guest) -> Result<Cpu, uc_error> {
    let model = if guest.core == Core::V6 { ArmCpuModel::Model_1176 } else { ArmCpuModel::CORTEX_A15 };
    let mut cpu = Unicorn::new_with_data(Arch::ARM, Mode::ARM, guest)?;
    cpu.ctl_set_cpu_model(model as i32)?;
    Ok(cpu)
}

/// Returns the program counter.
pub fn pc(cpu: &Unicorn<'_, Guest>) -> u64 {
    cpu.reg_read(R::PC).unwrap_or(0)
}

/// Reads the registers that control translation.
pub fn regime(cpu: &Unicorn<'_, Guest>) -> Regime {
    let read = |crn, crm, op2| {
        let mut register = CP::new().cp(15).is64(0).sec(0).crn(crn).crm(crm).opc1(0).opc2(op2);
        cpu.reg_read_arm_coproc(&mut register).map_or(0, |()| register.val as u32)
    };
    let v7 = cpu.get_data().core == Core::V7;
    Regime::A32(walk::Regime { sctlr: read(1, 0, 0), ttbr: read(2, 0, 0), ttbcr: read(2, 0, 2), v7 })
}

/// Hooks the accesses to coprocessor 15 in the image's code.
pub fn connect(cpu: &mut Cpu) -> Result<(), uc_error> {
    let guest = cpu.get_data();
    let start = guest.core.loaded_at();
    let code = (start..start + guest.code_bytes).step_by(4);
    let found = code.filter_map(|at| Some((at, system::decode(guest.memory.word(at))?)));
    for (at, access) in found.collect::<Vec<(u64, System)>>() {
        cpu.add_code_hook(at, at, move |cpu, at, _| execute(cpu, at, access))?;
        if access.what.reads() && !access.what.is_unknown() {
            cpu.add_code_hook(at + 4, at + 4, |cpu, at, _| deliver(cpu, at))?;
        }
    }
    Ok(())
}

/// A value that an access has read, for the register that gets it before the instruction at `at`.
#[derive(Clone, Copy)]
pub struct Read {
    at: u64,
    register: u32,
    value: u64,
    /// The register that gets the high word.
    high: Option<u32>,
}

fn number(register: u32) -> i32 {
    // R0 to R12 are numbered in order; the images use no other for these accesses, except for the link register.
    if register == 14 { R::LR as i32 } else { R::R0 as i32 + register as i32 }
}

fn execute(cpu: &mut Unicorn<'_, Guest>, at: u64, access: System) {
    let System { register, what } = access;
    let written = cpu.reg_read(number(register)).unwrap_or(0) & 0xffff_ffff;
    if what == What::Invalidate {
        let regime = regime(cpu);
        cpu.get_data_mut().drop_translations(regime);
        return;
    }
    let guest = cpu.get_data_mut();
    let Some(value) = answer(guest, what, written) else { return };
    if what.is_unknown() {
        // Outside of everything that is measured: the block that begins after it is charged again.
        let _ = cpu.reg_write(number(register), value);
        let _ = cpu.reg_write(R::PC, at + 4);
        return;
    }
    let high = if let What::Counter { high } = what { Some(high) } else { None };
    guest.read = Some(Read { at: at + 4, register, value, high });
}

/// Puts what was read by the access before `at` into its registers.
fn deliver(cpu: &mut Unicorn<'_, Guest>, at: u64) {
    let Some(read) = cpu.get_data_mut().read.take_if(|read| read.at == at) else { return };
    let _ = cpu.reg_write(number(read.register), read.value & 0xffff_ffff);
    if let Some(high) = read.high {
        let _ = cpu.reg_write(number(high), read.value >> 32);
    }
}

/// Performs an access with the value that it writes; returns what it reads.
fn answer(guest: &mut Guest, what: What, written: u64) -> Option<u64> {
    match what {
        What::Cycles => return Some(guest.model.read_cycles()),
        What::Counter { .. } => return Some(guest.ticks()),
        What::CounterRate => return Some(guest.counter_hz),
        What::Control => return Some(COUNTERS << 11),
        What::EventList => return Some(EVENTS),
        What::Event => return Some(guest.event(guest.counters.selected)),
        What::Count(counter) => return Some(guest.event(counter)),
        What::Monitor => return Some(guest.monitor),
        What::Translated => return Some(guest.par.into()),
        What::Translate => {
            let page = guest.page(written);
            guest.par = walk::par(page);
        }
        What::Select => guest.counters.selected = written as usize & 31,
        What::SetEvent => guest.set_event(guest.counters.selected, written & 0xffff),
        What::SetMonitor => {
            // PMNC: the event of counter 0 in bits 27:20, of counter 1 in 19:12.
            guest.monitor = written;
            guest.set_event(0, v7_event(written >> 20 & 0xff));
            guest.set_event(1, v7_event(written >> 12 & 0xff));
        }
        What::Maintain => guest.maintain(written),
        What::Invalidate => {}
    }
    None
}

/// Returns the number in ARMv7 of an event of ARM1176: data cache misses, data MicroTLB misses, data cache accesses (DDI
/// 0301H, 3.2.51).
fn v7_event(event: u64) -> u64 {
    match event {
        0x0b => 0x03,
        0x04 => 0x05,
        0x0a => 0x13,
        _ => 0,
    }
}
