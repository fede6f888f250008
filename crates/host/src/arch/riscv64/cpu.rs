//! RISC-V instructions that Linux permits in user space, and facts of the core.

use std::arch::asm;
use std::convert::Infallible;

use fathom_loops::{ADDITIONS, Instructions};
use fathom_probe::machine::batch::spaced::FILLERS;
use fathom_probe::machine::{ClockTrust, Fact};

use super::super::{Architecture, BLOCK_BYTES, Program, RISCV64, block};
use super::trust;
use crate::procfs::Root;

/// RV64GC. This type has no values.
pub(crate) enum Cpu {}

impl Instructions for Cpu {
    /// Two stores: the base ISA has none of a pair.
    #[inline(always)]
    unsafe fn store_pair(at: *mut u8, value: u64) {
        // SAFETY: the bytes are the caller's, aligned to 8.
        unsafe {
            asm!("sd {value}, 0({at})", "sd {value}, 8({at})", at = in(reg) at, value = in(reg) value,
                options(nostack, preserves_flags));
        }
    }

    /// Two loads and two stores.
    #[inline(always)]
    unsafe fn move_pair(from: *const u8, to: *mut u8) {
        // SAFETY: as in `store_pair`.
        unsafe {
            asm!(
                "ld {a}, 0({from})",
                "ld {b}, 8({from})",
                "sd {a}, 0({to})",
                "sd {b}, 8({to})",
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
                "addi {turns}, {turns}, -1",
                "bnez {turns}, 2b",
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

impl Architecture for Cpu {
    const PROGRAM: Program = RISCV64;
    const COUNTER: &'static str = "time";
    /// ADDI x0, x0, 0 and JALR x0, 0(ra).
    const BLOCK: [u8; BLOCK_BYTES] = block(0x0000_0013, 0x0000_8067);
    /// The line of all cores that run Linux so far.
    const LINE_BYTES: usize = 64;
    /// Zicbom's instructions are illegal unless the kernel permits them (`senvcfg.CBCFE`), which most kernels do not.
    const FLUSH_PERMITTED: Result<(), &'static str> =
        Err("RISC-V's cache maintenance (Zicbom) is not used here: most kernels forbid it in user space");
    /// User space cannot detect whether a machine's caches are coherent with DMA.
    const COHERENT_DMA: bool = false;
    /// The vDSO provides it, but no C library uses that.
    const CHEAP_CPU_NUMBER: bool = false;
    const CPUINFO: &'static [(&'static str, &'static str)] = &[
        ("isa", "env.cpu.isa"),
        ("mmu", "env.cpu.mmu"),
        ("uarch", "env.cpu.uarch"),
        ("mvendorid", "env.cpu.mvendorid"),
        ("marchid", "env.cpu.marchid"),
        ("mimpid", "env.cpu.mimpid"),
    ];

    /// From Linux 6.6 on, user space may not read `cycle` by default; before, it may count another thread's cycles.
    type Cycles = Infallible;

    /// Two of the instructions are no NOPs: the jump, and the addition of an address. NOPs are of four bytes, as of an architecture without
    /// compressed instructions.
    unsafe fn chase_spaced(base: *const u8, cells: [usize; 2], fillers: usize, turns: usize) -> [usize; 2] {
        let ([mut a, mut b], mut turns) = (cells, turns);
        // SAFETY: the loads are the caller's. Each jump is into the sequence of NOPs after it, to its end or before it by at most
        // all of them, because two fillers are the jump and the addition; the loop ends after `turns` iterations.
        unsafe {
            asm!(
                ".option push",
                ".option norvc",
                "lla {first}, 3f",
                "sub {first}, {first}, {nops}",
                "lla {second}, 4f",
                "sub {second}, {second}, {nops}",
                ".p2align 5",
                "2:",
                "add {a}, {a}, {base}",
                "ld {a}, 0({a})",
                "jr {first}",
                ".rept {most}",
                "nop",
                ".endr",
                "3:",
                "add {b}, {b}, {base}",
                "ld {b}, 0({b})",
                "jr {second}",
                ".rept {most}",
                "nop",
                ".endr",
                "4:",
                "addi {turns}, {turns}, -1",
                "beqz {turns}, 5f",
                "j 2b",
                "5:",
                ".option pop",
                base = in(reg) base,
                nops = in(reg) 4 * (fillers - 2),
                most = const *FILLERS.end(),
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

    /// Reads the CSR `time`, ordered: FENCE treats a reading of `time` as device input (volume I, "Zicsr", "CSR Access
    /// Ordering"). So earlier loads are complete before it, and later ones start after it.
    #[inline(always)]
    fn counter() -> u64 {
        let count: u64;
        // SAFETY: fences and the read of a counter that Linux permits to user space (scounteren.TM), because its vDSO
        // reads it. Not `nomem`: the compiler must not move volatile loads across the clock.
        unsafe {
            asm!("fence iorw, iorw", "rdtime {}", "fence iorw, iorw", out(reg) count, options(nostack, preserves_flags));
        }
        count
    }

    fn fixed_rate_evidence(_root: &Root) -> Result<String, String> {
        Ok("the CSR time has a fixed rate by architecture (Zicntr)".into())
    }

    /// The devicetree contains it (`timebase-frequency`); no register does.
    fn counter_hz() -> Option<u64> {
        None
    }

    #[inline(always)]
    fn order() {
        // SAFETY: a barrier.
        unsafe { asm!("fence iorw, iorw", options(nostack, preserves_flags)) };
    }

    /// The kernel's call `riscv_flush_icache` for this thread's processor and all others.
    unsafe fn synchronise(code: *const u8, bytes: usize) {
        const FLUSH_ICACHE: libc::c_long = 259;
        // SAFETY: maintenance of memory that the caller may read.
        unsafe { libc::syscall(FLUSH_ICACHE, code, code.wrapping_add(bytes), 0) };
    }

    #[inline(always)]
    unsafe fn flush_line(_at: *mut u8) {}

    #[inline(always)]
    fn flush_barrier() {
        Cpu::order();
    }

    /// All that the kernel tells is in `/proc/cpuinfo` and the devicetree.
    fn facts(_root: &Root) -> Vec<Fact> {
        Vec::new()
    }

    fn trust(root: &Root, _tree: &str, _dmi: &str) -> Option<(ClockTrust, String)> {
        trust::judge(&root.text("/proc/cpuinfo").unwrap_or_default())
    }

    fn mair(_raw: u64) -> Option<u8> {
        None
    }
}
