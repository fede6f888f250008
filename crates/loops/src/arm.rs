//! 32-bit ARM instructions for the loops of both machines: ARMv6 (DDI 0100I, the ARM Architecture Reference Manual) and
//! ARMv7-A (DDI 0406C, the same for ARMv7-A).

use core::arch::asm;

use crate::{ADDITIONS, Instructions};

/// Whether this is compiled for ARMv7. Otherwise for ARMv6, whose barriers ARMv8 traps.
pub const IS_V7: bool = cfg!(fathom_armv7);

/// Eight times the same line. The compiler takes the lines of assembly for its length, to place constants within reach
/// of their loads: a line with `.rept` would be too short.
macro_rules! eight {
    ($line:expr) => {
        concat!(
            $line, "\n", $line, "\n", $line, "\n", $line, "\n", $line, "\n", $line, "\n", $line, "\n", $line
        )
    };
}

/// Alignment to 32 bytes, in as many lines as it has instructions at most.
macro_rules! align {
    () => {
        eight!(".p2align 5")
    };
}

/// 32-bit ARM instructions. This type has no values.
#[derive(Clone, Copy, Debug)]
pub enum Arm {}

impl Instructions for Arm {
    /// Uses STM, as the C library's `memset` does.
    #[inline(always)]
    unsafe fn store_pair(at: *mut u8, value: u64) {
        let (low, high) = (value as u32, (value >> 32) as u32);
        // SAFETY: STM needs an alignment of 4, with every memory attribute; the bytes are the caller's.
        unsafe {
            asm!("stm {at}, {{r0, r1, r2, r3}}", at = in(reg) at, in("r0") low, in("r1") high, in("r2") low,
                in("r3") high, options(nostack, preserves_flags));
        }
    }

    /// Uses LDM and STM, as the C library's `memcpy` does.
    #[inline(always)]
    unsafe fn move_pair(from: *const u8, to: *mut u8) {
        // SAFETY: as in `store_pair`; the same applies to LDM.
        unsafe {
            asm!(
                "ldm {from}, {{r0, r1, r2, r3}}",
                "stm {to}, {{r0, r1, r2, r3}}",
                from = in(reg) from, to = in(reg) to, out("r0") _, out("r1") _, out("r2") _, out("r3") _,
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
        const { assert!(ADDITIONS == 4 * 8 * 8, "the lines below") };
        let (mut sum, mut turns) = (sum, turns);
        // SAFETY: arithmetic on registers and a loop that ends after `turns` iterations. Volatile (not `pure`), so
        // that it stays between the two readings of the clock.
        unsafe {
            asm!(
                align!(),
                "2:",
                eight!(eight!("add {sum}, {sum}, {addend}")),
                eight!(eight!("add {sum}, {sum}, {addend}")),
                eight!(eight!("add {sum}, {sum}, {addend}")),
                eight!(eight!("add {sum}, {sum}, {addend}")),
                "subs {turns}, {turns}, #1",
                "bne 2b",
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

/// Waits until earlier accesses are complete: DSB. ARMv6 has it as an operation of coprocessor 15 only, permitted in
/// user mode too (DDI 0100I, B2.6.1). ARMv8 traps that operation, and its kernels emulate it.
#[inline(always)]
pub fn complete_accesses() {
    // SAFETY: a barrier.
    #[cfg(fathom_armv7)]
    unsafe {
        asm!("dsb", options(nostack, preserves_flags));
    }
    // SAFETY: a barrier.
    #[cfg(not(fathom_armv7))]
    unsafe {
        asm!("mcr p15, 0, {}, c7, c10, 4", in(reg) 0, options(nostack, preserves_flags));
    }
}

/// Lets later instructions start only after the earlier ones: ISB, in ARMv6 "Flush Prefetch Buffer".
#[inline(always)]
pub fn flush_pipeline() {
    // SAFETY: a barrier.
    #[cfg(fathom_armv7)]
    unsafe {
        asm!("isb", options(nostack, preserves_flags));
    }
    // SAFETY: a barrier.
    #[cfg(not(fathom_armv7))]
    unsafe {
        asm!("mcr p15, 0, {}, c7, c5, 4", in(reg) 0, options(nostack, preserves_flags));
    }
}
