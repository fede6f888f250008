//! x86-64 instructions (Intel SDM, AMD APM), and facts of the core.

use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, _mm_clflush, _mm_mfence, _mm_set1_epi64x};
use std::convert::Infallible;

use fathom_loops::{ADDITIONS, Instructions};
use fathom_probe::machine::batch::spaced::FILLERS;
use fathom_probe::machine::{ClockTrust, Fact};
use fathom_units::facts;

use super::super::{Architecture, BLOCK_BYTES, Program, Registers, X86_64, bits};
use super::{cpuid, fixed_rate, trust};
use crate::procfs::Root;

/// The x86-64 architecture. This type has no values.
pub(crate) enum Cpu {}

impl Instructions for Cpu {
    #[inline(always)]
    unsafe fn store_pair(at: *mut u8, value: u64) {
        // SAFETY: MOVUPS needs no alignment and SSE2 is part of x86-64; the bytes are the caller's.
        unsafe {
            let pair = _mm_set1_epi64x(value.cast_signed());
            asm!("movups [{at}], {pair}", at = in(reg) at, pair = in(xmm_reg) pair, options(nostack, preserves_flags));
        }
    }

    #[inline(always)]
    unsafe fn move_pair(from: *const u8, to: *mut u8) {
        // SAFETY: as in `store_pair`.
        unsafe {
            asm!(
                "movups {pair}, [{from}]",
                "movups [{to}], {pair}",
                from = in(reg) from, to = in(reg) to, pair = out(xmm_reg) _,
                options(nostack, preserves_flags)
            );
        }
    }

    #[inline(always)]
    fn add(sum: usize, addend: usize) -> usize {
        let mut sum = sum;
        // SAFETY: arithmetic on registers.
        unsafe { asm!("add {0}, {1}", inout(reg) sum, in(reg) addend, options(nomem, nostack)) };
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
                "add {sum}, {addend}",
                ".endr",
                "dec {turns}",
                "jnz 2b",
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
    const PROGRAM: Program = X86_64;
    const COUNTER: &'static str = "tsc";
    /// NOP and RET.
    const BLOCK: [u8; BLOCK_BYTES] = {
        let mut block = [0x90; BLOCK_BYTES];
        block[BLOCK_BYTES - 1] = 0xc3;
        block
    };
    const LINE_BYTES: usize = 64;
    /// Intel SDM volume 3, 11.3; without an IOMMU's tables.
    const COHERENT_DMA: bool = true;
    /// The vDSO provides it, and every C library uses that.
    const CHEAP_CPU_NUMBER: bool = true;
    const CPUINFO: &'static [(&'static str, &'static str)] = &[("microcode", facts::CPU_MICROCODE)];

    unsafe fn chase_spaced(base: *const u8, cells: [usize; 2], fillers: usize, turns: usize) -> [usize; 2] {
        let ([mut a, mut b], mut turns) = (cells, turns);
        // SAFETY: the loads are the caller's. Each jump is into the sequence of NOPs after it, by at least one of its bytes and at most
        // all from its end, because a filler is the jump; the loop ends after `turns` iterations.
        unsafe {
            asm!(
                "lea {first}, [rip + 3f]",
                "sub {first}, {nops}",
                "lea {second}, [rip + 4f]",
                "sub {second}, {nops}",
                ".p2align 5",
                "2:",
                "mov {a}, [{base} + {a}]",
                "jmp {first}",
                ".rept {most}",
                "nop",
                ".endr",
                "3:",
                "mov {b}, [{base} + {b}]",
                "jmp {second}",
                ".rept {most}",
                "nop",
                ".endr",
                "4:",
                "dec {turns}",
                "jnz 2b",
                base = in(reg) base,
                nops = in(reg) fillers - 1,
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

    /// `RDPMC` is granted by perf in another way than on AArch64, and the time-stamp counter suffices.
    type Cycles = Infallible;

    /// Reads the time-stamp counter between two fences. `LFENCE` waits until every earlier instruction has completed
    /// locally, loads included, and lets no later one start (Intel SDM 2, LFENCE; on AMD if `LFENCE` is
    /// dispatch-serialising, which Linux enables: MSR C001_1029, bit 1). `RDTSCP` would save the first fence and
    /// costs a register; the fenced form is the same on every x86-64.
    #[inline(always)]
    fn counter() -> u64 {
        let (low, high): (u64, u64);
        // SAFETY: reads a counter; the instructions exist on every x86-64, and Linux permits them in user space (a
        // process that forbids itself RDTSC by prctl gets SIGSEGV, which is not unsound). Not `nomem`: the compiler
        // must not move volatile loads across the clock.
        unsafe {
            asm!("lfence", "rdtsc", "lfence", out("rax") low, out("rdx") high, options(nostack, preserves_flags));
        }
        high << 32 | low
    }

    /// Tests bit 8 of EDX in leaf 80000007 (Intel SDM 3B, "Invariant TSC"; AMD APM 3, function 8000_0007): the
    /// counter has one rate in all power states.
    fn fixed_rate_evidence(root: &Root) -> Result<String, String> {
        let known = read(0x8000_0000, 0).eax >= 0x8000_0007;
        let invariant = known && read(0x8000_0007, 0).edx & (1 << 8) != 0;
        fixed_rate(invariant, &root.text("/proc/cpuinfo").unwrap_or_default())
    }

    fn counter_hz() -> Option<u64> {
        None
    }

    #[inline(always)]
    fn order() {
        // SAFETY: a barrier.
        unsafe { asm!("lfence", options(nostack, preserves_flags)) };
    }

    #[inline(always)]
    unsafe fn flush_line(at: *mut u8) {
        // SAFETY: SSE2, which x86-64 has, provides the instruction; the line is that of the caller's byte.
        unsafe { _mm_clflush(at) };
    }

    /// Nothing: the instruction side is coherent, and a jump suffices (Intel SDM volume 3, 9.1.3).
    unsafe fn synchronise(_code: *const u8, _bytes: usize) {}

    /// Uses MFENCE, before which no later load begins (Intel SDM 2, CLFLUSH: it is not ordered with loads).
    #[inline(always)]
    fn flush_barrier() {
        // SAFETY: SSE2, which x86-64 has, provides the instruction; it touches no memory.
        unsafe { _mm_mfence() };
    }

    fn facts(_root: &Root) -> Vec<Fact> {
        cpuid::facts(read)
    }

    fn trust(_root: &Root, _tree: &str, _dmi: &str) -> Option<(ClockTrust, String)> {
        trust::judge(&trust::CpuidNames::read(read))
    }

    fn mair(_raw: u64) -> Option<u8> {
        None
    }

    const SAMPLED_REGISTERS: u64 = bits(&Registers::OF_X86_64);

    fn sampled_registers(values: &[u64]) -> Option<Registers> {
        values.try_into().ok().map(Registers::of_x86_64)
    }
}

/// Returns a CPUID leaf of the CPU that the thread is pinned to.
fn read(leaf: u32, subleaf: u32) -> cpuid::Leaf {
    let r = __cpuid_count(leaf, subleaf);
    cpuid::Leaf { eax: r.eax, ebx: r.ebx, ecx: r.ecx, edx: r.edx }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn this_processor_has_a_vendor_and_the_basic_leaves() {
        let (_keep, root) = fixture::root(&[]);
        let facts = Cpu::facts(&root);
        for name in ["cpuid.0.0", "cpuid.1.0"] {
            assert!(facts.iter().any(|fact| fact.name == name), "{name}: {facts:?}");
        }
        assert_eq!(trust::CpuidNames::read(read).vendor.len(), 12);
    }
}
