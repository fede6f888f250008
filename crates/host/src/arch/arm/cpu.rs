//! ARM instructions that Linux permits in user space, and facts of the core.

use std::arch::asm;
use std::convert::Infallible;

use fathom_loops::arm::{Arm as Cpu, IS_V7, complete_accesses, flush_pipeline};
use fathom_probe::machine::batch::spaced::FILLERS;
use fathom_probe::machine::{ClockTrust, Fact};

use super::super::aarch64::trust;
use super::super::{ARMV6, ARMV7, Architecture, BLOCK_BYTES, Program, block};
use super::{cpuinfo, vdso};
use crate::facts::int;
use crate::procfs::Root;

/// 1024 NOPs.
macro_rules! nops {
    (@four $line:expr) => {
        concat!($line, "\n", $line, "\n", $line, "\n", $line)
    };
    () => {
        nops!(@four nops!(@four nops!(@four nops!(@four nops!(@four "nop")))))
    };
}

impl Architecture for Cpu {
    const PROGRAM: Program = if IS_V7 { ARMV7 } else { ARMV6 };
    const COUNTER: &'static str = "cntvct";
    /// MOV r0, r0 and BX lr, in the ARM state.
    const BLOCK: [u8; BLOCK_BYTES] = block(0xe1a0_0000, 0xe12f_ff1e);
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

    /// The NOPs are lines of their own, from which the compiler computes the distance of constants to their loads.
    unsafe fn chase_spaced(base: *const u8, cells: [usize; 2], fillers: usize, turns: usize) -> [usize; 2] {
        const { assert!(*FILLERS.end() == 1024, "the lines below, and the distance of both sequences") };
        let ([mut a, mut b], mut turns) = (cells, turns);
        // SAFETY: the loads are the caller's. Each jump is into the sequence of NOPs after it, by at least one of them and at most
        // all from its end, because a filler is the jump; the loop ends after `turns` iterations.
        unsafe {
            asm!(
                "adr {first}, 3f",
                "add {first}, {first}, {skipped}, lsl #2",
                // The second sequence begins after all of the first, a load and a jump.
                "add {second}, {first}, #4096",
                "add {second}, {second}, #8",
                "2:",
                "ldr {a}, [{base}, {a}]",
                "bx {first}",
                "3:",
                nops!(),
                "ldr {b}, [{base}, {b}]",
                "bx {second}",
                nops!(),
                "subs {turns}, {turns}, #1",
                "bne 2b",
                base = in(reg) base,
                skipped = in(reg) 1025 - fillers,
                first = out(reg) _,
                second = out(reg) _,
                a = inout(reg) a,
                b = inout(reg) b,
                turns = inout(reg) turns,
                options(nostack, readonly),
            );
        }
        let _ = turns;
        [a, b]
    }

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

    /// The kernel's call `cacheflush` (Linux, arch/arm/include/uapi/asm/unistd.h).
    unsafe fn synchronise(code: *const u8, bytes: usize) {
        const CACHEFLUSH: libc::c_long = 0x000f_0002;
        // SAFETY: maintenance of memory that the caller may read.
        unsafe { libc::syscall(CACHEFLUSH, code, code.wrapping_add(bytes), 0) };
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

/// Returns the count's rate as set by firmware, Hz. Only where user space may read the counter.
fn cntfrq() -> u64 {
    let hz: u32;
    // SAFETY: reads an identification register that Linux permits to user space with the counter.
    unsafe { asm!("mrc p15, 0, {}, c14, c0, 0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
    hz.into()
}
