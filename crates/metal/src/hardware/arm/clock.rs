//! The system counter, the cycle counter, and the timer: on ARMv7 the generic timer, which ARM1176 does not have; there the
//! system timer of BCM2835 (BCM2835 ARM Peripherals, 12).

use core::arch::asm;

use fathom_loops::arm::{IS_V7, complete_accesses, flush_pipeline};

use super::{cp15, mcr, mrc};
use crate::board::Board;
use crate::hardware::{CoreCell, boot_state};

/// Name of the cycle counter, and of the system counter.
pub(in crate::hardware) const NAMES: [&str; 2] =
    if IS_V7 { ["pmccntr", "cntpct"] } else { ["ccnt", "system-timer"] };

/// Address of the system timer, and its registers: control, the count's halves, comparison 3, which is free for the core
/// (the video core uses 0 and 2).
const SYSTEM_TIMER: u64 = Board::Pi1.system_timer().unwrap();
const CS: u64 = 0x00;
const CLO: u64 = 0x04;
const CHI: u64 = 0x08;
const C3: u64 = 0x18;
/// `CS`: comparison 3 has matched. Written to clear it.
const M3: u32 = 1 << 3;
/// Smallest distance of a comparison from the count, so that the count has not passed it before it is written, us.
const MIN_DISTANCE: u64 = 10;

fn timer_read(register: u64) -> u32 {
    // SAFETY: a register of the system timer, 32 bits and aligned; mapped as device memory or with translation off.
    unsafe { ((SYSTEM_TIMER + register) as usize as *const u32).read_volatile() }
}

fn timer_write(register: u64, value: u32) {
    // SAFETY: as in `timer_read`.
    unsafe { ((SYSTEM_TIMER + register) as usize as *mut u32).write_volatile(value) };
}

/// Waits until earlier accesses are complete, and lets nothing later start before.
#[inline(always)]
fn order() {
    complete_accesses();
    flush_pipeline();
}

/// Reads the system counter, ordered: after every earlier access, before every later one.
#[inline(always)]
pub(in crate::hardware) fn system() -> u64 {
    order();
    let count = if IS_V7 { generic() } else { microseconds() };
    flush_pipeline();
    count
}

/// Reads `CNTPCT`.
#[inline(always)]
fn generic() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the read of a counter that is not trapped (CNTHCTL as `boot` sets it).
    unsafe {
        asm!("mrrc p15, 0, {}, {}, c14", out(reg) low, out(reg) high, options(nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Reads the system timer, whose halves are two registers.
fn microseconds() -> u64 {
    loop {
        let high = timer_read(CHI);
        let low = timer_read(CLO);
        if timer_read(CHI) == high {
            return u64::from(high) << 32 | u64::from(low);
        }
    }
}

/// The cycle counter: 32 bits in hardware, extended here.
struct Cycles {
    last: u32,
    total: u64,
    /// System counter and total at the start of the trial.
    begun: (u64, u64),
}

static CYCLES: CoreCell<Cycles> = CoreCell::new(Cycles { last: 0, total: 0, begun: (0, 0) });

/// Reads the cycle counter, ordered likewise. The total is right if it is read at least once in 2^32 cycles:
/// [`is_continuous`].
#[inline(always)]
pub(in crate::hardware) fn cycles() -> u64 {
    order();
    let count = read_cycles();
    flush_pipeline();
    // SAFETY: there is one core, no interrupt returns, and no other reference is in use: see the head of
    // `crate::hardware`.
    let cycles = unsafe { &mut *CYCLES.get() };
    cycles.total += u64::from(count.wrapping_sub(cycles.last));
    cycles.last = count;
    cycles.total
}

/// Reads the cycle counter. The PMU exists, counts (`super::pmu`) and belongs to PL1 when this is called. Otherwise the
/// exception is reported and never returns here.
#[inline(always)]
fn read_cycles() -> u32 {
    if IS_V7 { mrc!(PMCCNTR) } else { mrc!(CCNT) }
}

/// Begins a trial, in which the cycle counter has to be read often enough.
pub(in crate::hardware) fn begin() {
    let counts = super::pmu::is_started();
    let begun = (system(), if counts { cycles() } else { 0 });
    // SAFETY: as in `cycles`.
    unsafe { (*CYCLES.get()).begun = begun };
}

/// Returns whether the cycle counter, of this rate, was read often enough since [`begin`]: each time that it wraps unseen
/// makes the total smaller by 2^32 than the system counter's.
pub(in crate::hardware) fn is_continuous(cycles_hz: u64) -> bool {
    // SAFETY: as in `cycles`.
    let begun = unsafe { (*CYCLES.get()).begun };
    let expected =
        u128::from(system().wrapping_sub(begun.0)) * u128::from(cycles_hz) / u128::from(system_hz().max(1));
    let counted = u128::from(cycles().wrapping_sub(begun.1));
    expected.abs_diff(counted) < 1 << 31
}

/// Returns the rate of the system counter, Hz.
pub(in crate::hardware) fn system_hz() -> u64 {
    let read = if IS_V7 { mrc!(CNTFRQ) } else { 0 };
    match read {
        0 => boot_state().board.counter_hz(),
        hz => hz.into(),
    }
}

/// Starts the timer: it interrupts when the system counter reaches `at`. Interrupts are unmasked; their handler must be
/// installed (`super::vectors`).
pub(in crate::hardware) fn start_timer(at: u64) {
    if IS_V7 {
        // SAFETY: the physical timer of PL1, compared with the counter.
        unsafe {
            asm!("mcrr p15, 2, {}, {}, c14", in(reg) at as u32, in(reg) (at >> 32) as u32, options(nostack, preserves_flags));
            mcr!(CNTP_CTL, 1);
        }
    } else {
        timer_write(CS, M3);
        timer_write(C3, at.max(microseconds() + MIN_DISTANCE) as u32);
    }
    flush_pipeline();
    // SAFETY: the handler is installed, by the caller's promise.
    unsafe { asm!("cpsie i", options(nostack, preserves_flags)) };
}

/// Masks interrupts and stops the timer.
pub(in crate::hardware) fn stop_timer() {
    // SAFETY: interrupts are masked.
    unsafe { asm!("cpsid i", options(nostack, preserves_flags)) };
    if IS_V7 {
        // SAFETY: the timer is off.
        unsafe { mcr!(CNTP_CTL, 0) };
    } else {
        // The comparison matches again after 2^32 us only.
        timer_write(C3, timer_read(CLO).wrapping_sub(1));
        timer_write(CS, M3);
    }
    order();
}

/// Returns whether the timer has reached its time.
pub(in crate::hardware) fn timer_reached() -> bool {
    // CNTP_CTL.ISTATUS.
    if IS_V7 { mrc!(CNTP_CTL) & 1 << 2 != 0 } else { timer_read(CS) & M3 != 0 }
}
