//! The watch on trials: an interrupt of the generic timer, after the longest that a trial may take. Its handler
//! never returns to the trial.

use core::arch::asm;

use super::{clock, found, msr};
use crate::board::Interrupts;

/// The non-secure physical timer of EL1 at a GIC: private interrupt 30 (Server Base System Architecture, 5.2;
/// BCM2711 ARM Peripherals 6.3; QEMU's virt).
const INTID: u32 = 30;

fn write(at: u64, value: u32) {
    // SAFETY: a register of the board's interrupt controller (crate::board), mapped as device memory, 32 bits and
    // aligned.
    unsafe { (at as *mut u32).write_volatile(value) };
}

fn read(at: u64) -> u32 {
    // SAFETY: as in `write`.
    unsafe { (at as *const u32).read_volatile() }
}

/// Starts the watch.
pub(super) fn arm() {
    let watch_ms = found().parameters.watch_ms;
    if watch_ms == 0 {
        return;
    }
    match found().board.interrupts() {
        Interrupts::Gic2 { distributor, interface } => {
            // IHI 0048B 4.3, 4.4: distributor on, the interrupt enabled at a middle priority, every priority let
            // through, CPU interface on.
            write(distributor, 1);
            let priorities = distributor + 0x400 + u64::from(INTID / 4 * 4);
            let shift = INTID % 4 * 8;
            write(priorities, read(priorities) & !(0xff << shift) | 0x80 << shift);
            write(distributor + 0x100, 1 << INTID);
            write(interface + 0x04, 0xff);
            write(interface, 1);
        }
        // QA7 4.6: core 0's timer interrupts, nCNTPNSIRQ as an interrupt.
        Interrupts::Local { base } => write(base + 0x40, 1 << 1),
    }
    // SAFETY: the timer of EL1 ("The Generic Timer in AArch64 state"), compared with the counter; then interrupts are
    // let in, whose handler is installed (`super::vectors`).
    unsafe {
        msr!("cntp_cval_el0", clock::deadline(watch_ms));
        msr!("cntp_ctl_el0", 1u64);
        asm!("isb", "msr daifclr, #2", options(nostack));
    }
}

/// Ends the watch.
pub(super) fn disarm() {
    // SAFETY: interrupts are masked and the timer is off.
    unsafe {
        asm!("msr daifset, #2", options(nostack));
        msr!("cntp_ctl_el0", 0u64);
        asm!("isb", options(nostack));
    }
}

/// The interrupt has come: the timer is stopped, and the controller told that it was seen.
pub(super) fn seen() {
    disarm();
    if let Interrupts::Gic2 { interface, .. } = found().board.interrupts() {
        let taken = read(interface + 0x0c);
        write(interface + 0x10, taken);
    }
}
