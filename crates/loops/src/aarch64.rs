//! AArch64 instructions for the loops of both machines (DDI 0487, the Arm Architecture Reference Manual for
//! A-profile).

use core::arch::asm;

use crate::{ADDITIONS, Instructions};

/// AArch64 instructions. This type has no values.
#[derive(Clone, Copy, Debug)]
pub enum Aarch64 {}

impl Instructions for Aarch64 {
    #[inline(always)]
    unsafe fn store_pair(at: *mut u8, value: u64) {
        // SAFETY: STP of two 64-bit registers needs an alignment of 8 at most, with every memory attribute
        // ("Alignment support"), and each half is single-copy atomic ("Requirements for single-copy atomicity"); the
        // bytes are the caller's.
        unsafe {
            asm!("stp {value}, {value}, [{at}]", at = in(reg) at, value = in(reg) value,
                options(nostack, preserves_flags));
        }
    }

    #[inline(always)]
    unsafe fn move_pair(from: *const u8, to: *mut u8) {
        // SAFETY: as in `store_pair`; the same applies to LDP.
        unsafe {
            asm!(
                "ldp {a}, {b}, [{from}]",
                "stp {a}, {b}, [{to}]",
                from = in(reg) from, to = in(reg) to, a = out(reg) _, b = out(reg) _,
                options(nostack, preserves_flags)
            );
        }
    }

    #[inline(always)]
    fn add(sum: usize, addend: usize) -> usize {
        let mut sum = sum;
        // SAFETY: arithmetic on registers.
        unsafe { asm!("add {0}, {0}, {1}", inout(reg) sum, in(reg) addend, options(nomem, nostack)) };
        sum
    }

    #[inline(always)]
    fn add_turns(sum: usize, addend: usize, turns: usize) -> usize {
        let (mut sum, mut turns) = (sum, turns);
        // SAFETY: arithmetic on registers and a loop that ends after `turns` iterations. Volatile (not `pure`), so
        // that it stays between the two readings of the clock.
        unsafe {
            asm!(
                ".p2align 5",
                "2:",
                ".rept {unroll}",
                "add {sum}, {sum}, {addend}",
                ".endr",
                "subs {turns}, {turns}, #1",
                "b.ne 2b",
                unroll = const ADDITIONS,
                sum = inout(reg) sum,
                addend = in(reg) addend,
                turns = inout(reg) turns,
                options(nomem, nostack),
            );
        }
        let _ = turns;
        sum
    }
}

impl Aarch64 {
    /// Reads the PMU's cycle counter, after every earlier load and before every later one. `DSB` waits for earlier
    /// loads to complete, which `ISB` alone does not. The first `ISB` prevents an early read of the counter. The
    /// second prevents later loads from being issued before it was read.
    ///
    /// # Safety
    /// This exception level may read `PMCCNTR_EL0`. Otherwise the exception must be handled by setting the
    /// destination register instead, or by never returning to the instruction.
    #[inline(always)]
    #[must_use]
    pub unsafe fn cycles() -> u64 {
        let count: u64;
        // SAFETY: barriers and the read of a counter, which the caller permits. Not `nomem`: the compiler must not
        // move volatile loads across the clock.
        unsafe {
            asm!("dsb ishld", "isb", "mrs {}, pmccntr_el0", "isb", out(reg) count, options(nostack, preserves_flags));
        }
        count
    }
}
