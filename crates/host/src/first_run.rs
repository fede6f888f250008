//! How much longer code takes when it runs for the first time: evidence of an emulator that no name gives away.
//!
//! A processor fetches new code from its caches or from memory, a line for each block here. A translator (QEMU, valgrind)
//! first translates each block, and an emulator whose clock counts instructions does not even show a miss of the
//! instruction cache. Measured in blocks of 16 instructions (64 on x86-64), the first time and later, in ns a block, on
//! loaded hosts: Linux on an x86-64 guest under KVM 9 to 15 and 5 to 12; user-mode QEMU 7.2 of four architectures 2590 to
//! 5100 and 23 to 41; QEMU's Raspberry Pi Zero 3630 and 190; the same with a clock that counts instructions 90 and 90.

use std::ffi::c_void;
use std::ptr::null_mut;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::time::{ClockId, clock_gettime};

use crate::arch::{Architecture as _, BLOCK_BYTES, Cpu};

/// Blocks of new code: 8 KiB, which each instruction cache holds.
const BLOCKS: usize = 128;
/// Smallest page of any kernel.
const PAGE_BYTES: usize = 4096;
/// Passes over them.
const PASSES: usize = 5;
/// Times that the code is new. The quickest counts: other tasks disturb, and never help.
const REPEATS: usize = 6;

/// Times of passes over new code: for each repeat the first and the later ones, ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FirstRun {
    pub(crate) passes: Vec<[u64; PASSES]>,
    /// Step of the clock, ns.
    pub(crate) step_ns: u64,
}

impl FirstRun {
    /// Measures. `None` if this process may not execute memory of its own.
    pub(crate) fn measure() -> Option<FirstRun> {
        let passes: Option<Vec<_>> = (0..REPEATS).map(|_| passes()).collect();
        Some(FirstRun { passes: passes?, step_ns: step_ns() })
    }

    /// Returns why this is a translator, if it is one: the first execution of a block takes a microsecond more than later
    /// ones, and ten times as long. A miss in all caches and TLBs takes less than the first, on any processor that runs
    /// Linux at 100 MHz or more.
    pub(crate) fn translates(&self) -> Option<String> {
        let block = |pass: fn(&[u64; PASSES]) -> u64| {
            self.passes.iter().map(pass).min().map(|ns| ns as f64 / BLOCKS as f64)
        };
        let first = block(|passes| passes[0])?;
        let later = block(|passes| passes[1..].iter().copied().min().unwrap_or(0))?;
        (first - later > 1000.0 && first > 10.0 * later).then(|| {
            format!(
                "new code takes {first:.0} ns for a block that takes {later:.0} ns later: an emulator translates it"
            )
        })
    }

    /// Returns why the clock counts instructions, if it does: all passes take the same time, in steps of the clock, where a
    /// processor would miss its instruction cache in the first one.
    pub(crate) fn counts_instructions(&self) -> Option<String> {
        let same = |passes: &[u64; PASSES]| {
            let (least, most) = (passes.iter().min()?, passes.iter().max()?);
            Some(most - least <= self.step_ns && *most >= 8 * self.step_ns)
        };
        let all = !self.passes.is_empty() && self.passes.iter().all(|passes| same(passes) == Some(true));
        all.then(|| {
            "new code takes exactly as long as code that has run: an emulator whose clock counts instructions"
                .to_owned()
        })
    }
}

fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::MonotonicRaw);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the smallest difference of two readings that differ.
fn step_ns() -> u64 {
    let difference = || {
        let from = now_ns();
        loop {
            let to = now_ns();
            if to != from {
                break to - from;
            }
        }
    };
    (0..100).map(|_| difference()).min().unwrap_or(1)
}

/// Writes new code and times passes over it.
fn passes() -> Option<[u64; PASSES]> {
    let code = Code::new()?;
    // The first execution in a page may fault, which says nothing: it may be slow where the kernel is itself a guest's.
    code.run(PAGE_BYTES / BLOCK_BYTES);
    Some([(); PASSES].map(|()| {
        let from = now_ns();
        code.run(1);
        now_ns() - from
    }))
}

/// Executable memory with [`BLOCKS`] functions.
struct Code(*mut c_void);

impl Code {
    const BYTES: usize = BLOCKS * BLOCK_BYTES;

    fn new() -> Option<Code> {
        let flags = MapFlags::PRIVATE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let at =
            unsafe { mmap_anonymous(null_mut(), Code::BYTES, ProtFlags::READ | ProtFlags::WRITE, flags) }
                .ok()?;
        let code = Code(at);
        // SAFETY: the mapping has this size, is writable, and nothing else refers to it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(at.cast::<u8>(), Code::BYTES) };
        bytes.chunks_exact_mut(BLOCK_BYTES).for_each(|block| block.copy_from_slice(&Cpu::BLOCK));
        // SAFETY: the mapping is this value's own, and is not written from here on.
        unsafe { mprotect(at, Code::BYTES, MprotectFlags::READ | MprotectFlags::EXEC) }.ok()?;
        // SAFETY: the mapping is readable.
        unsafe { Cpu::synchronise(at.cast(), Code::BYTES) };
        Some(code)
    }

    /// Calls the first of every `step` functions.
    fn run(&self, step: usize) {
        for n in (0..BLOCKS).step_by(step) {
            // SAFETY: in the mapping.
            let at = unsafe { self.0.byte_add(n * BLOCK_BYTES) };
            // SAFETY: there is a function of the platform's convention that does nothing and returns, and the instruction
            // side sees it.
            let function = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn()>(at) };
            function();
        }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing executes any more.
        let _ = unsafe { munmap(self.0, Code::BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(passes: &[[u64; PASSES]], step_ns: u64) -> FirstRun {
        FirstRun { passes: passes.to_vec(), step_ns }
    }

    #[test]
    fn emulators_are_told_from_processors() {
        // Measured: an x86-64 guest beside other work; QEMU's user mode; QEMU's Raspberry Pi Zero, with the host's time and
        // with a clock that counts instructions; QEMU's virt with the latter.
        let processor = of(&[[1863, 831, 732, 701, 701], [1322, 1052, 921, 1332, 1332]], 10);
        assert_eq!((processor.translates(), processor.counts_instructions()), (None, None));
        let user = of(&[[331_304, 3986, 3465, 3285, 3305], [8_506_478, 4687, 3596, 3305, 3315]], 10);
        assert!(user.translates().is_some() && user.counts_instructions().is_none());
        let board = of(&[[551_000, 28_000, 27_000, 25_000, 25_000]], 1000);
        assert!(board.translates().is_some() && board.counts_instructions().is_none());
        for counted in
            [of(&[[11_000, 11_000, 12_000, 12_000, 12_000]], 1000), of(&[[10_480; 5], [10_496; 5]], 16)]
        {
            assert!(counted.translates().is_none() && counted.counts_instructions().is_some());
        }
    }

    #[test]
    fn slow_processors_and_coarse_clocks_are_no_emulators() {
        // 116 cycles of 700 MHz for each line, 50 ns later; a softcore of 100 MHz with 600 ns to memory; 1 us steps on a core
        // that takes less than one for a pass.
        for real in [
            of(&[[27_700, 6400, 6400, 6400, 6400]], 1),
            of(&[[102_400, 25_600, 25_600, 25_600, 25_600]], 1),
            of(&[[1000, 0, 1000, 0, 0]], 1000),
            of(&[], 1),
        ] {
            assert_eq!((real.translates(), real.counts_instructions()), (None, None), "{real:?}");
        }
    }

    #[test]
    fn new_code_runs_here() {
        let measured = FirstRun::measure().expect("memory of one's own can be executed here");
        assert!(measured.passes.iter().flatten().all(|ns| *ns > 0) || measured.step_ns > 100, "{measured:?}");
        println!("{measured:?}: {:?}, {:?}", measured.translates(), measured.counts_instructions());
    }
}
