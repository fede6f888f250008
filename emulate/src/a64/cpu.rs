//! The core: its registers that the model answers.

use fathom_metal::board::Board;
use unicorn_engine::{
    Arch, Arm64CpuModel, Arm64Insn, Mode, RegisterARM64 as R, RegisterARM64CP as CP, Unicorn, uc_error,
};

use super::walk;
use crate::cpu::Cpu;
use crate::guest::Guest;
use crate::translation::Regime;

/// Creates the core of the guest's board, in the state that EL3 and EL2 leave it in.
pub fn create(guest: Guest) -> Result<Cpu, uc_error> {
    let model = if guest.board == Board::Pi4 { Arm64CpuModel::A72 } else { Arm64CpuModel::A53 };
    let mut cpu = Unicorn::new_with_data(Arch::ARM64, Mode::LITTLE_ENDIAN, guest)?;
    cpu.ctl_set_cpu_model(model as i32)?;
    Ok(cpu)
}

/// Returns the program counter.
pub fn pc(cpu: &Unicorn<'_, Guest>) -> u64 {
    cpu.reg_read(R::PC).unwrap_or(0)
}

/// Connects the system registers.
pub fn connect(cpu: &mut Cpu) -> Result<(), uc_error> {
    // State left by EL3 and EL2 (crates/metal/src/aarch64/registers.rs): EL1 is AArch64 and non-secure.
    for register in [
        CP::new().op0(3).op1(4).crn(1).crm(1).op2(0).val(1 << 31),
        CP::new().op0(3).op1(6).crn(1).crm(1).op2(0).val(0x5b1),
    ] {
        cpu.reg_write_arm64_coproc(&register)?;
    }
    cpu.add_insn_sys_hook_arm64(Arm64Insn::UC_ARM64_INS_MRS, 1, 0, |cpu, register, name| {
        let Some(value) = read_register(cpu.get_data_mut(), name) else { return false };
        // Unicorn would execute an unknown register access again and again.
        let pc = pc(cpu);
        let known = name.crn != 15 || cpu.reg_write(R::PC, pc + 4).is_ok();
        known && cpu.reg_write(register as i32, value).is_ok()
    })?;
    cpu.add_insn_sys_hook_arm64(Arm64Insn::UC_ARM64_INS_MSR, 1, 0, |cpu, register, name| {
        let value = cpu.reg_read(register as i32).unwrap_or(0);
        write_register(cpu.get_data_mut(), name, value)
    })?;
    cpu.add_insn_sys_hook_arm64(Arm64Insn::UC_ARM64_INS_SYS, 1, 0, |cpu, register, name| {
        // TLB maintenance is CRn 8, cache maintenance by address CRn 7 with op2 1 (C5.1.3, C5.3).
        match (name.crn, name.crm, name.op2) {
            (8, ..) => {
                let regime = regime(cpu);
                cpu.get_data_mut().drop_translations(regime);
            }
            (7, 6 | 10 | 11 | 14, 1) => {
                let va = cpu.reg_read(register as i32).unwrap_or(0);
                cpu.get_data_mut().maintain(va);
            }
            _ => {}
        }
        false
    })?;
    Ok(())
}

/// Reads the registers that control translation.
pub fn regime(cpu: &Unicorn<'_, Guest>) -> Regime {
    let read = |crn, crm, op2| {
        let mut register = CP::new().op0(3).op1(0).crn(crn).crm(crm).op2(op2);
        cpu.reg_read_arm64_coproc(&mut register).map_or(0, |()| register.val)
    };
    let (sctlr, ttbr, tcr, mair) = (read(1, 0, 0), read(2, 0, 0), read(2, 0, 2), read(10, 2, 0));
    Regime::A64(walk::Regime { sctlr, ttbr, tcr, mair })
}

/// Reads a register from the model or the description; `None` for the registers that Unicorn implements.
fn read_register(guest: &mut Guest, name: &CP) -> Option<u64> {
    Some(match (name.op0, name.op1, name.crn, name.crm, name.op2) {
        // CNTFRQ_EL0, CNTPCT_EL0, CNTVCT_EL0.
        (3, 3, 14, 0, 0) => guest.counter_hz,
        (3, 3, 14, 0, 1 | 2) => guest.ticks(),
        // PMCCNTR_EL0, PMXEVCNTR_EL0; PMCR_EL0 with six event counters, PMCEID0_EL0 with the supported events.
        (3, 3, 9, 13, 0) => guest.model.read_cycles(),
        (3, 3, 9, 13, 2) => guest.event(guest.counters.selected),
        (3, 3, 9, 12, 0) => 6 << 11,
        (3, 3, 9, 12, 6) => 1 << 0x03 | 1 << 0x05 | 1 << 0x13 | 1 << 0x17,
        // CPUACTLR_EL1 and CPUECTLR_EL1, which Unicorn lacks: nothing set, and SMPEN as set by firmware.
        (3, 1, 15, 2, 0) => 0,
        (3, 1, 15, 2, 1) => 1 << 6,
        // ID_AA64DFR0_EL1: version 8.0 of debug, PMUv3.
        (3, 0, 0, 5, 0) => 0x106,
        _ => return None,
    })
}

/// Writes PMSELR_EL0 or PMXEVTYPER_EL0. Returns whether the register is handled here.
fn write_register(guest: &mut Guest, name: &CP, value: u64) -> bool {
    let counters = &mut guest.counters;
    match (name.op0, name.op1, name.crn, name.crm, name.op2) {
        (3, 3, 9, 12, 5) => counters.selected = value as usize & 31,
        (3, 3, 9, 13, 1) => {
            if let Some(event) = counters.events.get_mut(counters.selected) {
                *event = value & 0xffff;
            }
        }
        // The rest of the PMU: all counters always count.
        (3, 3, 9, 12..=14, _) | (3, 3, 14, 15, 7) => {}
        _ => return false,
    }
    true
}
