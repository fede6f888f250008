//! Inner loops with `unsafe`, shared by the machines that run on hardware: `Host` (Linux) and `Metal` (no operating
//! system).
//!
//! # Why this is a crate
//!
//! Both machines sweep and copy memory by address and run a chain of dependent additions, and they must time the same
//! loop. The loops take pointers and contain assembly, so they cannot be in `fathom-probe`, which forbids unsafe
//! code. `fathom-host` needs an operating system and its libraries, so `Metal` cannot use it. This crate has no
//! `std`, no dependency except `fathom-probe`, and no item that only one machine uses.
//!
//! A loop is generic over [`Instructions`], the few that no plain access or operator of Rust compiles to. Those of an
//! architecture of both machines are here (`aarch64`, `arm`). Those of an architecture of `Host` alone are in
//! `crates/host/src/arch`, with all other code that depends on it.
//!
//! Everything is `#[inline(always)]`: the loop becomes part of the machine's own function, compiled with the
//! machine's crate and its optimisation. A test checks the machine code of that function in the host
//! (`crates/host/tests/disassembly.rs`).
#![no_std]

mod memory;

#[cfg(target_arch = "aarch64")]
pub mod aarch64;
#[cfg(target_arch = "arm")]
pub mod arm;

pub use memory::{copy, sweep};

/// Instructions of an architecture that the loops need, each in assembly. The compiler must not widen, merge or omit
/// any of them, or replace them by a call of `memcpy`, which zeroes whole lines or bypasses the caches.
pub trait Instructions {
    /// Stores `value` twice, as `memset` does: in one instruction, if the architecture has one.
    ///
    /// # Safety
    /// At `at` are 16 writable bytes, aligned to 8, which nothing else accesses and which may hold `value` twice.
    unsafe fn store_pair(at: *mut u8, value: u64);

    /// Copies 16 bytes, as `memcpy` does: with one load and one store, if the architecture has them.
    ///
    /// # Safety
    /// At `from` are 16 readable bytes and at `to` 16 writable ones, both aligned to 8, which nothing else accesses;
    /// each half of `to` may hold the content of a half of `from`.
    unsafe fn move_pair(from: *const u8, to: *mut u8);

    /// Adds two registers. The compiler does not fold or merge the addition, or move it across a reading of the
    /// clock. Wraps.
    fn add(sum: usize, addend: usize) -> usize;

    /// Executes `turns` times [`ADDITIONS`] such additions, in a loop that is aligned to 32 bytes and otherwise
    /// contains a decrement and a branch. `turns` is at least 1. Wraps.
    fn add_turns(sum: usize, addend: usize, turns: usize) -> usize;
}

/// Additions in one iteration of [`Instructions::add_turns`]: the decrement and the branch are less than a hundredth of its
/// instructions, and the code is a fraction of the smallest first level.
pub const ADDITIONS: u64 = 256;

/// Executes `n` dependent register-to-register additions.
///
/// The addend is a register, not an immediate: Golden Cove and later cores execute additions of small immediates at
/// register renaming, without latency, and a chain of them would not measure the clock. The addend is a value that
/// the core cannot know. The loop's decrement and branch depend on the counter alone and run in parallel with the
/// chain. A core that issues one instruction per cycle still executes them once in [`ADDITIONS`], and the n/2n method
/// does not cancel that share of less than 1 %, see `docs/method/README.md`.
#[inline(always)]
pub fn additions<I: Instructions>(n: u64) {
    let addend = n as usize;
    let mut sum = addend;
    for _ in 0..n % ADDITIONS {
        sum = I::add(sum, addend);
    }
    let mut turns = n / ADDITIONS;
    while turns != 0 {
        // All at once, except for more than a register counts.
        let part = usize::try_from(turns).unwrap_or(usize::MAX);
        sum = I::add_turns(sum, addend, part);
        turns -= part as u64;
    }
    // The result must be used, or the compiler removes the chain. A black box is enough: nothing is read back.
    core::hint::black_box(sum);
}
