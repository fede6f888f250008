//! The clocks: the PMU's cycle counter where it counts, the system counter; and the yardstick.

use core::arch::asm;

use super::mrs;

/// The system counter, ordered: after every earlier access that a DSB waits for, before every later one. `CNTPCT`
/// may be read early unless an ISB precedes it (DDI 0487, CNTPCT_EL0).
#[inline(always)]
pub(super) fn system() -> u64 {
    let count: u64;
    // SAFETY: barriers and the read of a counter that nobody traps (CNTHCTL_EL2 as `boot` sets it).
    unsafe {
        asm!("dsb ishld", "isb", "mrs {}, cntpct_el0", "isb", out(reg) count, options(nostack, preserves_flags));
    }
    count
}

/// The cycle counter, ordered likewise.
#[inline(always)]
pub(super) fn cycles() -> u64 {
    let count: u64;
    // SAFETY: as above; the PMU exists and counts where this is called (`super::pmu`).
    unsafe {
        asm!("dsb ishld", "isb", "mrs {}, pmccntr_el0", "isb", out(reg) count, options(nostack, preserves_flags));
    }
    count
}

/// Rate of the system counter, Hz.
pub(super) fn system_hz() -> u64 {
    match mrs!("cntfrq_el0") {
        0 => super::found().board.counter_hz(),
        hz => hz,
    }
}

/// The system counter `ms` from now.
pub(super) fn deadline(ms: u32) -> u64 {
    system().wrapping_add(u64::from(ms) * system_hz() / 1000)
}

/// Cycles a second, counted against the system counter for 10 ms: a tick of that at either end is 11
/// parts a million at 19.2 MHz. And the doubt, parts a million.
pub(super) fn calibrate() -> (u64, u64) {
    let (begin, first) = (system(), cycles());
    let until = begin + system_hz() / 100;
    let mut end = system();
    while end < until {
        end = system();
    }
    let last = cycles();
    let ticks = end.wrapping_sub(begin).max(1);
    let hz = u128::from(last.wrapping_sub(first)) * u128::from(system_hz()) / u128::from(ticks);
    // A tick of the system counter at either end.
    (hz as u64, 2_000_000u64.div_ceil(ticks))
}

/// The least interval between two readings, and the step in which they differ, in ticks.
pub(super) fn fineness(mut now: impl FnMut() -> u64) -> (u64, u64) {
    let (mut least, mut step) = (u64::MAX, 0);
    let mut last = now();
    for _ in 0..2000 {
        let next = now();
        let passed = next.wrapping_sub(last);
        least = least.min(passed);
        step = gcd(passed, step);
        last = next;
    }
    (least, step)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Additions in one turn of the unrolled yardstick.
const UNROLL: u64 = 32;

/// `n` dependent additions of registers.
#[inline(never)]
pub(super) fn alu(n: u64) {
    let mut sum = n;
    for _ in 0..n % UNROLL {
        // SAFETY: arithmetic on registers.
        unsafe { asm!("add {0}, {0}, {1}", inout(reg) sum, in(reg) n, options(nomem, nostack)) };
    }
    let mut turns = n / UNROLL;
    if turns != 0 {
        // SAFETY: arithmetic on registers, and a loop that ends after `turns` turns.
        unsafe {
            asm!(
                ".p2align 5",
                "2:",
                ".rept {unroll}",
                "add {sum}, {sum}, {addend}",
                ".endr",
                "subs {turns}, {turns}, #1",
                "b.ne 2b",
                unroll = const UNROLL,
                sum = inout(reg) sum,
                addend = in(reg) n,
                turns = inout(reg) turns,
                options(nomem, nostack),
            );
        }
    }
    core::hint::black_box((sum, turns));
}
