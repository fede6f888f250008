//! ARM instructions that Linux permits in user space, and facts of the core.

use std::arch::asm;
use std::convert::Infallible;

use fathom_loops::{ADDITIONS, Instructions};
use fathom_probe::machine::{ClockTrust, Fact};

use super::super::aarch64::trust;
use super::super::{ARMV6, ARMV7, Architecture, Program};
use super::{cpuinfo, vdso};
use crate::facts::int;
use crate::procfs::Root;

/// Eight times the same line. The compiler takes the lines of assembly for its length, to place constants within reach
/// of their loads: a line with `.rept` would be too short.
macro_rules! eight {
    ($line:literal) => {
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

/// 32-bit ARM. This type has no values.
pub(crate) enum Cpu {}

impl Instructions for Cpu {
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
        const { assert!(ADDITIONS == 32, "the lines below") };
        let (mut sum, mut turns) = (sum, turns);
        // SAFETY: arithmetic on registers and a loop that ends after `turns` iterations. Volatile (not `pure`), so
        // that it stays between the two readings of the clock.
        unsafe {
            asm!(
                align!(),
                "2:",
                eight!("add {sum}, {sum}, {addend}"),
                eight!("add {sum}, {sum}, {addend}"),
                eight!("add {sum}, {sum}, {addend}"),
                eight!("add {sum}, {sum}, {addend}"),
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

impl Architecture for Cpu {
    const PROGRAM: Program = if cfg!(fathom_armv7) { ARMV7 } else { ARMV6 };
    const COUNTER: &'static str = "cntvct";
    /// The line of ARM1176 and Cortex-A9. Longer lines are flushed more than once.
    const LINE_BYTES: usize = 32;
    /// Maintenance is by coprocessor 15, which is privileged (DDI 0100I, B6.6; DDI 0406C, B4.2.1). The kernel's call
    /// `cacheflush` cleans to the point of unification only.
    const FLUSH_PERMITTED: Result<(), &'static str> =
        Err("32-bit ARM has no cache maintenance in user space: it is privileged there");
    /// User space cannot detect whether a machine's caches are coherent with DMA.
    const COHERENT_DMA: bool = false;
    /// The vDSO does not provide it.
    const CHEAP_CPU_NUMBER: bool = false;
    const CPUINFO: &'static [(&'static str, &'static str)] = &[
        ("CPU implementer", "env.cpu.implementer"),
        ("CPU architecture", "env.cpu.architecture"),
        ("CPU variant", "env.cpu.variant"),
        ("CPU part", "env.cpu.part"),
        ("CPU revision", "env.cpu.revision"),
    ];

    /// No kernel for 32-bit ARM grants it.
    type Cycles = Infallible;

    /// Reads the virtual count, ordered as on AArch64.
    #[inline(always)]
    fn counter() -> u64 {
        let (low, high): (u32, u32);
        Cpu::order();
        // SAFETY: the read of a counter that the kernel permits, which the caller knows from
        // `fixed_rate_evidence`; without the right it ends the process by SIGILL. Not `nomem`: the compiler must not
        // move volatile loads across the clock.
        unsafe {
            asm!("mrrc p15, 1, {}, {}, c14", out(reg) low, out(reg) high, options(nostack, preserves_flags));
        }
        flush_pipeline();
        u64::from(high) << 32 | u64::from(low)
    }

    /// "The Generic Timer" (DDI 0406C, B8.1.1): the counter has a fixed rate in every power state. ARMv6, Cortex-A8
    /// and Cortex-A9 have none; where it is, the kernel has to permit it.
    fn fixed_rate_evidence(root: &Root) -> Result<String, String> {
        if vdso::reads_the_counter(root) {
            Ok("the generic timer's count has a fixed rate by architecture, and the kernel's vDSO reads it"
                .into())
        } else {
            Err("the kernel's vDSO reads no counter: there is no generic timer, or user space may not read it".into())
        }
    }

    /// Returns CNTFRQ, except if it is 0: firmware does not program it on some boards.
    fn counter_hz() -> Option<u64> {
        Some(cntfrq()).filter(|&hz| hz != 0)
    }

    #[inline(always)]
    fn order() {
        complete_accesses();
        flush_pipeline();
    }

    #[inline(always)]
    unsafe fn flush_line(_at: *mut u8) {}

    #[inline(always)]
    fn flush_barrier() {
        complete_accesses();
    }

    fn facts(root: &Root) -> Vec<Fact> {
        let rate = vdso::reads_the_counter(root).then(|| int("arm.cntfrq.hz", cntfrq()));
        let midr = cpuinfo::midr(root).map(|midr| int("arm.midr", midr));
        rate.into_iter().chain(midr).collect()
    }

    fn trust(root: &Root, tree: &str, dmi: &str) -> Option<(ClockTrust, String)> {
        let rate = if vdso::reads_the_counter(root) { cntfrq() } else { 0 };
        trust::judge(cpuinfo::midr(root), rate, tree, dmi)
    }

    /// The 32-bit PAR has no byte of MAIR: the short format names attributes of its own (DDI 0406C, B4.1.112).
    fn mair(_raw: u64) -> Option<u8> {
        None
    }
}

/// Waits until earlier accesses are complete: DSB. ARMv6 has it as an operation of coprocessor 15 only, permitted in
/// user mode (DDI 0100I, B2.6.1). ARMv8 traps that operation, and its kernels emulate it.
#[inline(always)]
fn complete_accesses() {
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
fn flush_pipeline() {
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

/// Returns the count's rate as set by firmware, Hz. Only where user space may read the counter.
fn cntfrq() -> u64 {
    let hz: u32;
    // SAFETY: reads an identification register that Linux permits to user space with the counter.
    unsafe { asm!("mrc p15, 0, {}, c14, c0, 0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
    hz.into()
}
