//! The CPU: Unicorn, with hooks that connect it to the guest.

use fathom_metal::board::Board;
use fathom_model::Kind;
use unicorn_engine::{
    Arch, Arm64CpuModel, Arm64Insn, HookType, MemType, Mode, Prot, RegisterARM64 as R, RegisterARM64CP as CP,
    TlbEntry, TlbType, Unicorn, uc_error,
};

use crate::guest::{Guest, MEMORY, VIEW_SHIFT};
use crate::walk::Regime;

/// The load address of the image, as of the Pis' firmware.
pub const LOADED_AT: u64 = 0x8_0000;

type Cpu = Unicorn<'static, Guest>;

/// Runs the guest until its input ends.
///
/// # Errors
/// The reason for any other end.
pub fn run(guest: Guest) -> Result<(), String> {
    let message = |e: uc_error| format!("Unicorn: {e:?}");
    let board = guest.board;
    let mut cpu = Unicorn::new_with_data(Arch::ARM64, Mode::LITTLE_ENDIAN, guest).map_err(message)?;
    let model = if board == Board::Pi4 { Arm64CpuModel::A72 } else { Arm64CpuModel::A53 };
    cpu.ctl_set_cpu_model(model as i32).map_err(message)?;
    cpu.ctl_set_tlb_type(TlbType::VIRTUAL).map_err(message)?;
    map_view(&mut cpu, 0).map_err(message)?;
    devices(&mut cpu, board).map_err(message)?;
    hooks(&mut cpu).map_err(message)?;
    // State left by EL3 and EL2 (crates/metal/src/registers.rs): EL1 is AArch64 and non-secure.
    for register in [
        CP::new().op0(3).op1(4).crn(1).crm(1).op2(0).val(1 << 31),
        CP::new().op0(3).op1(6).crn(1).crm(1).op2(0).val(0x5b1),
    ] {
        cpu.reg_write_arm64_coproc(&register).map_err(message)?;
    }
    let outcome = cpu.emu_start(LOADED_AT, 0, 0, 0);
    let at = cpu.reg_read(R::PC).unwrap_or(0);
    let guest = cpu.get_data_mut();
    match (guest.failure.take(), outcome) {
        (Some(why), _) => Err(format!("{why} (the guest was at image+{:#x})", at.wrapping_sub(LOADED_AT))),
        (None, Ok(())) => Ok(()),
        (None, Err(e)) => {
            Err(format!("the guest was stopped at image+{:#x}: {e:?}", at.wrapping_sub(LOADED_AT)))
        }
    }
}

/// Maps the guest's memory at the addresses of a view.
fn map_view(cpu: &mut Cpu, view: u64) -> Result<(), uc_error> {
    let base = cpu.get_data().memory.base();
    // SAFETY: the memory is `MEMORY` bytes from `base` and lives as long as the guest, which is dropped with the CPU.
    // All views are of the same bytes, and only Unicorn writes through them, on this thread.
    unsafe { cpu.mem_map_ptr(view << VIEW_SHIFT, MEMORY, Prot::ALL, base.cast()) }
}

/// Maps the board's devices: the UART, and registers that read as zero and ignore writes.
fn devices(cpu: &mut Cpu, board: Board) -> Result<(), uc_error> {
    for &block in board.devices() {
        let uart = board.uart();
        let register = move |offset: u64| (block + offset).checked_sub(uart).filter(|r| *r < 0x1000);
        let read = move |cpu: &mut Unicorn<'_, Guest>, offset: u64, _: usize| {
            let Some(register) = register(offset) else { return 0 };
            let uart = &mut cpu.get_data_mut().uart;
            let value = uart.read(register);
            if uart.ended {
                let _ = cpu.emu_stop();
            }
            value
        };
        let write = move |cpu: &mut Unicorn<'_, Guest>, offset: u64, _: usize, value: u64| {
            if let Some(register) = register(offset) {
                cpu.get_data_mut().uart.write(register, value);
            }
        };
        cpu.mmio_map(block, 2 << 20, Some(read), Some(write))?;
    }
    Ok(())
}

fn hooks(cpu: &mut Cpu) -> Result<(), uc_error> {
    cpu.add_tlb_hook(1, 0, |cpu, va, _| {
        // SCTLR_EL1.M is the only register that the guest changes without invalidating translations.
        let regime = regime(cpu);
        if regime != cpu.get_data().regime {
            cpu.get_data_mut().drop_translations(regime);
        }
        let entry = cpu.get_data_mut().translate(va)?;
        if let Some(view) = entry.new {
            let base = cpu.get_data().memory.base();
            // SAFETY: as in `map_view`.
            unsafe { cpu.mem_map_ptr(view << VIEW_SHIFT, MEMORY, Prot::ALL, base.cast()) }.ok()?;
        }
        Some(TlbEntry { paddr: entry.address, perms: Prot::ALL })
    })?;
    cpu.add_block_hook(1, 0, |cpu, address, bytes| cpu.get_data_mut().block(address, u64::from(bytes)))?;
    cpu.add_mem_hook(HookType::MEM_READ | HookType::MEM_WRITE, 1, 0, |cpu, kind, address, bytes, _| {
        let kind = if kind == MemType::WRITE { Kind::Store } else { Kind::Load };
        let guest = cpu.get_data_mut();
        guest.access(address, bytes as u64, kind);
        if guest.failure.is_some() {
            let _ = cpu.emu_stop();
        }
        true
    })?;
    cpu.add_insn_sys_hook_arm64(Arm64Insn::UC_ARM64_INS_MRS, 1, 0, |cpu, register, name| {
        let Some(value) = read_register(cpu.get_data_mut(), name) else { return false };
        // Unicorn would execute an unknown register access again and again.
        let pc = cpu.reg_read(R::PC).unwrap_or(0);
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
    cpu.add_intr_hook(|cpu, number| {
        let guest = cpu.get_data_mut();
        guest.failure.get_or_insert(format!("the guest took exception {number}, which is not supported"));
        let _ = cpu.emu_stop();
    })?;
    Ok(())
}

fn regime(cpu: &Unicorn<'_, Guest>) -> Regime {
    let read = |crn, crm, op2| {
        let mut register = CP::new().op0(3).op1(0).crn(crn).crm(crm).op2(op2);
        cpu.reg_read_arm64_coproc(&mut register).map_or(0, |()| register.val)
    };
    Regime { sctlr: read(1, 0, 0), ttbr: read(2, 0, 0), tcr: read(2, 0, 2), mair: read(10, 2, 0) }
}

/// Reads a register from the model or the description; `None` for the registers that Unicorn implements.
fn read_register(guest: &mut Guest, name: &CP) -> Option<u64> {
    Some(match (name.op0, name.op1, name.crn, name.crm, name.op2) {
        // CNTFRQ_EL0, CNTPCT_EL0, CNTVCT_EL0.
        (3, 3, 14, 0, 0) => guest.counter_hz,
        (3, 3, 14, 0, 1 | 2) => guest.ticks(),
        // PMCCNTR_EL0, PMXEVCNTR_EL0; PMCR_EL0 with six event counters, PMCEID0_EL0 with the supported events.
        (3, 3, 9, 13, 0) => guest.model.read_cycles(),
        (3, 3, 9, 13, 2) => guest.event(),
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
