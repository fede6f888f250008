//! Watchdog on trials: an interrupt of the timer, after the maximum duration of a trial. Its handler never
//! returns to the trial. It is the only expected interrupt: all others that the firmware has left enabled are masked
//! before interrupts are unmasked. One that still occurs is reported and masked.

use super::arch::clock::{start_timer, stop_timer, timer_reached};
use super::{boot_state, clock};
use crate::board::{Board, Interrupts};
use crate::interrupts::{InterruptSource, TIMER_INTIDS};

fn write(at: u64, value: u32) {
    // SAFETY: a register of the board's interrupt controllers (crate::board), mapped as device memory or with
    // translation off, 32 bits and aligned.
    unsafe { (at as usize as *mut u32).write_volatile(value) };
}

fn read(at: u64) -> u32 {
    // SAFETY: as in `write`.
    unsafe { (at as usize as *const u32).read_volatile() }
}

/// Masks every interrupt of every device. The Pis' firmware leaves some enabled that it has used itself, such as
/// USB's (9).
pub(super) fn quiesce(board: Board) {
    match board.interrupts() {
        Interrupts::Local { base, legacy } => {
            quiesce_legacy(legacy);
            // QA7, chapter 4: the local timer's control; core 0's mailboxes; the PMU interrupts of all cores (bits
            // are set to clear). `arm` writes the generic timers' register as a whole.
            write(base + 0x34, 0);
            write(base + 0x50, 0);
            write(base + 0x14, u32::MAX);
        }
        Interrupts::Legacy { base } => quiesce_legacy(base),
        // IHI 0048B 4.3.2 and 4.3.6: GICD_TYPER contains the number of GICD_ICENABLERn registers minus one; bits are
        // set to clear. BCM2711 also has BCM2835's controller, which is not connected to the cores if the firmware
        // has selected the GIC. This image assumes that, and does not write it.
        Interrupts::Gic2 { distributor, .. } => {
            for register in 0..=u64::from(read(distributor + 0x04) & 0x1f) {
                write(distributor + 0x180 + 4 * register, u32::MAX);
            }
        }
    }
}

/// Masks every interrupt of BCM2835's controller (BCM2835 ARM Peripherals, 7.5): no source of the fast interrupt; disable
/// IRQs 1, IRQs 2, basic IRQs.
fn quiesce_legacy(base: u64) {
    write(base + 0x0c, 0);
    for register in [0x1c, 0x20, 0x24] {
        write(base + register, u32::MAX);
    }
}

/// Starts the watchdog.
pub(super) fn arm() {
    let watch_ms = boot_state().parameters.watch_ms;
    if watch_ms == 0 {
        return;
    }
    match boot_state().board.interrupts() {
        Interrupts::Gic2 { distributor, interface } => {
            // IHI 0048B 4.3, 4.4: distributor on, the interrupt enabled at a middle priority, every priority
            // unmasked, CPU interface on. The secure timer's cannot be enabled in the non-secure state, and does not
            // occur there.
            write(distributor, 1);
            for intid in TIMER_INTIDS {
                let priorities = distributor + 0x400 + u64::from(intid / 4 * 4);
                let shift = intid % 4 * 8;
                write(priorities, read(priorities) & !(0xff << shift) | 0x80 << shift);
                write(distributor + 0x100, 1 << intid);
            }
            write(interface + 0x04, 0xff);
            write(interface, 1);
        }
        // QA7 4.6: core 0's timer interrupts, nCNTPNSIRQ as an interrupt.
        Interrupts::Local { base, .. } => write(base + 0x40, 1 << 1),
        // BCM2835 ARM Peripherals 7.5: "Enable IRQs 1", the system timer's comparison 3.
        Interrupts::Legacy { base } => write(base + 0x10, 1 << 3),
    }
    start_timer(clock::deadline(watch_ms));
}

/// Stops the watchdog.
pub(super) fn disarm() {
    stop_timer();
}

/// Handles an interrupt: returns `None` if it is the watchdog's, else its source. The timer is stopped, and an
/// unexpected source is masked.
pub(super) fn unexpected() -> Option<InterruptSource> {
    // Both are read before the timer is stopped, which removes its request.
    let reached = timer_reached();
    let board = boot_state().board;
    let (source, taken) = match board.interrupts() {
        Interrupts::Gic2 { interface, .. } => {
            let taken = read(interface + 0x0c);
            (InterruptSource::Gic(taken & 0x3ff), taken)
        }
        Interrupts::Local { base, .. } => (InterruptSource::Local(read(base + 0x60)), 0),
        Interrupts::Legacy { base } => (InterruptSource::Legacy(read(base + 0x04)), 0),
    };
    disarm();
    let is_watchdog = source.is_watchdog(reached);
    match (board.interrupts(), source.distributor_id()) {
        (Interrupts::Gic2 { distributor, interface }, Some(id)) => {
            if !is_watchdog {
                write(distributor + 0x180 + u64::from(id / 32 * 4), 1 << (id % 32));
            }
            // GICC_EOIR (IHI 0048B 4.4.5): ends the acknowledged interrupt.
            write(interface + 0x10, taken);
        }
        (Interrupts::Local { .. } | Interrupts::Legacy { .. }, _) if !is_watchdog => quiesce(board),
        _ => {}
    }
    (!is_watchdog).then_some(source)
}
