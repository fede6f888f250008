//! AArch64 instructions that Linux permits in user space, and facts of the core.

use std::arch::asm;

use fathom_probe::machine::batch::spaced::FILLERS;
use fathom_probe::machine::{ClockTrust, Fact};

use super::super::{AARCH64, Architecture, BLOCK_BYTES, Program, Registers, bits, block};
use super::cycles::Pmccntr;
use super::{Cpu, trust};
use crate::facts::int;
use crate::process;
use crate::procfs::Root;

impl Architecture for Cpu {
    const PROGRAM: Program = AARCH64;
    const COUNTER: &'static str = "cntvct";
    /// NOP and RET.
    const BLOCK: [u8; BLOCK_BYTES] = block(0xd503_201f, 0xd65f_03c0);
    /// The line of all of Arm's own cores. Longer lines are flushed more than once.
    const LINE_BYTES: usize = 64;
    /// User space cannot detect whether a machine's caches are coherent with DMA.
    const COHERENT_DMA: bool = false;
    /// The vDSO does not provide it, and musl uses a system call.
    const CHEAP_CPU_NUMBER: bool = !cfg!(target_env = "musl");
    const CPUINFO: &'static [(&'static str, &'static str)] = &[
        ("CPU implementer", "env.cpu.implementer"),
        ("CPU variant", "env.cpu.variant"),
        ("CPU part", "env.cpu.part"),
        ("CPU revision", "env.cpu.revision"),
    ];

    type Cycles = Pmccntr;

    unsafe fn chase_spaced(base: *const u8, cells: [usize; 2], fillers: usize, turns: usize) -> [usize; 2] {
        let ([mut a, mut b], mut turns) = (cells, turns);
        // SAFETY: the loads are the caller's. Each jump is into the sequence of NOPs after it, by at least one of them and at most
        // all from its end, because a filler is the jump; the loop ends after `turns` iterations.
        unsafe {
            asm!(
                "adr {first}, 3f",
                "sub {first}, {first}, {nops}, lsl #2",
                "adr {second}, 4f",
                "sub {second}, {second}, {nops}, lsl #2",
                ".p2align 5",
                "2:",
                "ldr {a}, [{base}, {a}]",
                "br {first}",
                ".rept {most}",
                "nop",
                ".endr",
                "3:",
                "ldr {b}, [{base}, {b}]",
                "br {second}",
                ".rept {most}",
                "nop",
                ".endr",
                "4:",
                "subs {turns}, {turns}, #1",
                "b.ne 2b",
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

    /// Reads the virtual count, ordered. `DSB` waits for earlier loads to complete, which `ISB` alone does not. The
    /// first `ISB` prevents an early read of the counter (CNTVCT_EL0). The second prevents later loads from being
    /// issued before it was read.
    #[inline(always)]
    fn counter() -> u64 {
        let count: u64;
        // SAFETY: barriers and the read of a counter that Linux permits to (or emulates for) user space. Not `nomem`:
        // the compiler must not move volatile loads across the clock.
        unsafe {
            asm!("dsb ishld", "isb", "mrs {}, cntvct_el0", "isb", out(reg) count, options(nostack, preserves_flags));
        }
        count
    }

    /// "The Generic Timer": the system counter runs at a fixed rate in every power state. Linux permits user space
    /// the virtual count (CNTKCTL_EL1.EL0VCTEN), and emulates it where an erratum requires it.
    fn fixed_rate_evidence(_root: &Root) -> Result<String, String> {
        Ok("the generic timer's count has a fixed rate by architecture".into())
    }

    /// Returns CNTFRQ, except if it is 0: firmware does not program it on some boards.
    fn counter_hz() -> Option<u64> {
        Some(cntfrq()).filter(|&hz| hz != 0)
    }

    #[inline(always)]
    fn order() {
        // SAFETY: barriers.
        unsafe { asm!("dsb ishld", "isb", options(nostack, preserves_flags)) };
    }

    /// Uses DC CIVAC, which Linux permits in user space (it sets SCTLR_EL1.UCI).
    #[inline(always)]
    unsafe fn flush_line(at: *mut u8) {
        // SAFETY: cleaning and invalidating changes no contents; the line is that of the caller's byte.
        unsafe { asm!("dc civac, {at}", at = in(reg) at, options(nostack, preserves_flags)) };
    }

    /// DDI 0487, B2.7.4 ("Concurrent modification and execution"): clean, invalidate, and wait. Linux permits both.
    unsafe fn synchronise(code: *const u8, bytes: usize) {
        for clean in [true, false] {
            // Shorter than any line.
            for at in (0..bytes).step_by(16) {
                let at = code.wrapping_add(at);
                // SAFETY: maintenance of memory that the caller may read.
                unsafe {
                    match clean {
                        true => asm!("dc cvau, {}", in(reg) at, options(nostack, preserves_flags)),
                        false => asm!("ic ivau, {}", in(reg) at, options(nostack, preserves_flags)),
                    }
                }
            }
            // SAFETY: barriers.
            unsafe { asm!("dsb ish", "isb", options(nostack, preserves_flags)) };
        }
    }

    #[inline(always)]
    fn flush_barrier() {
        // SAFETY: a barrier touches no memory.
        unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
    }

    fn facts(root: &Root) -> Vec<Fact> {
        let mut facts = vec![int("arm.ctr_el0", ctr())];
        facts.extend(midr(root).map(|midr| int("arm.midr_el1", midr)));
        facts.push(int("arm.cntfrq.hz", cntfrq()));
        facts
    }

    fn trust(root: &Root, tree: &str, dmi: &str) -> Option<(ClockTrust, String)> {
        trust::judge(midr(root), cntfrq(), tree, dmi)
    }

    /// PAR_EL1.ATTR, bits 63:56, is coded as a byte of MAIR_EL1 (PAR_EL1).
    fn mair(raw: u64) -> Option<u8> {
        Some((raw >> 56) as u8)
    }

    const SAMPLED_REGISTERS: u64 = bits(&Registers::OF_AARCH64);

    fn sampled_registers(values: &[u64]) -> Option<Registers> {
        values.try_into().ok().map(Registers::of_aarch64)
    }
}

/// Returns the count's rate as set by firmware, Hz.
fn cntfrq() -> u64 {
    let hz: u64;
    // SAFETY: reads an identification register that Linux permits to user space with the counter.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
    hz
}

/// Returns `CTR_EL0`. Linux permits it to user space (SCTLR_EL1.UCT) or emulates the read where an erratum requires
/// it.
fn ctr() -> u64 {
    let value: u64;
    // SAFETY: reads an identification register.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

/// Returns `MIDR_EL1` of the CPU that the thread is pinned to. Linux emulates the read if HWCAP_CPUID is set
/// (Documentation/arch/arm64/cpu-feature-registers.rst). Otherwise it would be an illegal instruction, and a file is
/// read.
fn midr(root: &Root) -> Option<u64> {
    // SAFETY: reads a number from the auxiliary vector.
    let readable = unsafe { libc::getauxval(libc::AT_HWCAP) & libc::HWCAP_CPUID != 0 };
    if readable {
        let value: u64;
        // SAFETY: reads an identification register; HWCAP_CPUID guarantees it.
        unsafe { asm!("mrs {}, midr_el1", out(reg) value, options(nomem, nostack, preserves_flags)) };
        return Some(value);
    }
    identification(root, "midr_el1")
}

/// Returns a register of `/sys/devices/system/cpu/cpuN/regs/identification`, such as `0x00000000410fd034`.
fn identification(root: &Root, name: &str) -> Option<u64> {
    let cpu = process::allowed_cpus(root).last().copied()?;
    let text = root.text(&format!("/sys/devices/system/cpu/cpu{cpu}/regs/identification/{name}"))?;
    u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn registers_become_facts_and_hidden_one_is_read_from_sysfs() {
        let cpu = process::allowed_cpus(&Root::system()).last().copied().expect("a CPU");
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/regs/identification/midr_el1");
        let (_keep, root) = fixture::root(&[(&file, "0x00000000410fd034\n")]);
        assert_eq!(identification(&root, "midr_el1"), Some(0x410f_d034));
        assert_eq!(identification(&root, "revidr_el1"), None);
        let facts = Cpu::facts(&root);
        for name in ["arm.ctr_el0", "arm.midr_el1", "arm.cntfrq.hz"] {
            assert!(facts.iter().any(|fact| fact.name == name), "{name}: {facts:?}");
        }
    }

    #[test]
    fn top_byte_of_a_translation_is_the_attribute() {
        assert_eq!(Cpu::mair(0x0400_0000_4000_0b80), Some(0x04), "Device-nGnRE");
    }
}
