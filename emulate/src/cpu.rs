//! The CPU: Unicorn, with hooks that connect it to the guest. What depends on the architecture is in `crate::a64` and
//! `crate::a32`.

use fathom_metal::board::Board;
use fathom_model::Kind;
use unicorn_engine::{HookType, MemType, Prot, TlbEntry, TlbType, Unicorn, uc_error};

use crate::guest::{Core, Guest, MEMORY, VIEW_SHIFT};
use crate::translation::Regime;
use crate::{a32, a64};

/// Unicorn with the guest.
pub type Cpu = Unicorn<'static, Guest>;

/// Runs the guest until its input ends. Its image is at its load address.
///
/// # Errors
/// The reason for any other end.
pub fn run(guest: Guest) -> Result<(), String> {
    let (core, start) = (guest.core, guest.core.loaded_at());
    let mut cpu = create(guest).map_err(|e| format!("Unicorn: {e:?}"))?;
    let outcome = cpu.emu_start(start, 0, 0, 0);
    let at = match core {
        Core::A64 => a64::cpu::pc(&cpu),
        Core::V7 | Core::V6 => a32::cpu::pc(&cpu),
    };
    let place = format!("image+{:#x}", at.wrapping_sub(start));
    match (cpu.get_data_mut().failure.take(), outcome) {
        (Some(why), _) => Err(format!("{why} (the guest was at {place})")),
        (None, Ok(())) => Ok(()),
        (None, Err(e)) => Err(format!("the guest was stopped at {place}: {e:?}")),
    }
}

fn create(guest: Guest) -> Result<Cpu, uc_error> {
    let (core, board) = (guest.core, guest.board);
    let mut cpu = match core {
        Core::A64 => a64::cpu::create(guest)?,
        Core::V7 | Core::V6 => a32::cpu::create(guest)?,
    };
    cpu.ctl_set_tlb_type(TlbType::VIRTUAL)?;
    map_view(&mut cpu, 0)?;
    devices(&mut cpu, board)?;
    match core {
        Core::A64 => {
            hooks(&mut cpu, a64::cpu::regime)?;
            a64::cpu::connect(&mut cpu)?;
        }
        Core::V7 | Core::V6 => {
            hooks(&mut cpu, a32::cpu::regime)?;
            a32::cpu::connect(&mut cpu)?;
        }
    }
    Ok(cpu)
}

/// Maps the guest's memory at the addresses of a view.
fn map_view(cpu: &mut Unicorn<'_, Guest>, view: u64) -> Result<(), uc_error> {
    let base = cpu.get_data().memory.base();
    // SAFETY: the memory is `MEMORY` bytes from `base` and lives as long as the guest, which is dropped with the CPU.
    // All views are of the same bytes, and only Unicorn writes through them, on this thread.
    unsafe { cpu.mem_map_ptr(view << VIEW_SHIFT, MEMORY, Prot::ALL, base.cast()) }
}

/// Registers of the system timer of BCM2835: the halves of the count, in microseconds (BCM2835 ARM Peripherals, 12).
const CLO: u64 = 0x04;
const CHI: u64 = 0x08;

/// Maps the board's devices: the UART, the system timer, and registers that read as zero and ignore writes.
fn devices(cpu: &mut Cpu, board: Board) -> Result<(), uc_error> {
    for &block in board.devices() {
        let (uart, timer) = (board.uart(), board.system_timer());
        let register = move |offset: u64, of: u64| (block + offset).checked_sub(of).filter(|r| *r < 0x1000);
        let read = move |cpu: &mut Unicorn<'_, Guest>, offset: u64, _: usize| {
            let guest = cpu.get_data_mut();
            match timer.and_then(|timer| register(offset, timer)) {
                Some(CLO) => return guest.microseconds() & 0xffff_ffff,
                Some(CHI) => return guest.microseconds() >> 32,
                _ => {}
            }
            let Some(register) = register(offset, uart) else { return 0 };
            let value = guest.uart.read(register);
            if guest.uart.ended {
                let _ = cpu.emu_stop();
            }
            value
        };
        let write = move |cpu: &mut Unicorn<'_, Guest>, offset: u64, _: usize, value: u64| {
            if let Some(register) = register(offset, uart) {
                cpu.get_data_mut().uart.write(register, value);
            }
        };
        cpu.mmio_map(block, 2 << 20, Some(read), Some(write))?;
    }
    Ok(())
}

fn hooks(cpu: &mut Cpu, regime: fn(&Unicorn<'_, Guest>) -> Regime) -> Result<(), uc_error> {
    cpu.add_tlb_hook(1, 0, move |cpu, va, _| {
        // SCTLR.M is the only register that the guest changes without invalidating translations.
        let regime = regime(cpu);
        if regime != cpu.get_data().regime {
            cpu.get_data_mut().drop_translations(regime);
        }
        let entry = cpu.get_data_mut().translate(va)?;
        if let Some(view) = entry.new {
            map_view(cpu, view).ok()?;
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
    cpu.add_intr_hook(|cpu, number| {
        let guest = cpu.get_data_mut();
        guest.failure.get_or_insert(format!("the guest took exception {number}, which is not supported"));
        let _ = cpu.emu_stop();
    })?;
    Ok(())
}
