//! The inner loops that need `unsafe`, written once for the machines that are hardware: `Host` (Linux) and `Metal` (no
//! operating system).
//!
//! # Why this is a crate
//!
//! Both machines sweep and copy memory by address and run a chain of dependent additions, and what they time has to be
//! the same loop. The loops take pointers and contain assembly, so they cannot be in `fathom-probe`, which forbids
//! unsafe code. `fathom-host` needs an operating system and its libraries, so `Metal` cannot take them from there.
//! This crate has no `std`, no dependency besides `fathom-probe`, and no item that only one machine uses.
//!
//! A loop is generic over [`Instructions`], the few that no plain access or operator of Rust becomes. Those of an
//! architecture on which both machines run are here (`aarch64`); those of an architecture of `Host` alone are in
//! `crates/host/src/arch`, with everything else that depends on it.
//!
//! Everything is `#[inline(always)]`: the loop becomes part of the machine's own function, compiled with the machine's
//! crate and its optimisation, and of the function's code in the host a test says what it is
//! (`crates/host/tests/disassembly.rs`).
#![no_std]

mod memory;

#[cfg(target_arch = "aarch64")]
pub mod aarch64;

pub use memory::{copy, sweep};

/// What the loops need of an architecture, each in assembly: none of these may be widened, merged, or left out by the
/// compiler, or turned into a call of `memcpy`, which zeroes by the line or stores past the caches.
pub trait Instructions {
    /// Stores `value` twice, as `memset` does: in one instruction, where the architecture has one.
    ///
    /// # Safety
    /// At `at` are 16 writable bytes, aligned to 8, which nothing else accesses and which may hold `value` twice.
    unsafe fn store_pair(at: *mut u8, value: u64);

    /// Copies 16 bytes, as `memcpy` does: with one load and one store, where the architecture has them.
    ///
    /// # Safety
    /// At `from` are 16 readable bytes and at `to` 16 writable ones, both aligned to 8, which nothing else accesses;
    /// each half of `to` may hold what a half of `from` holds.
    unsafe fn move_pair(from: *const u8, to: *mut u8);

    /// One addition of registers that the compiler neither folds nor merges nor moves past a reading of the clock.
    /// Wraps.
    fn add(sum: u64, addend: u64) -> u64;

    /// `turns` times [`ADDITIONS`] such additions, in a loop that is aligned to 32 bytes and has besides them a
    /// decrement and a branch. `turns` is at least 1. Wraps.
    fn add_turns(sum: u64, addend: u64, turns: u64) -> u64;
}

/// Additions in one turn of [`Instructions::add_turns`].
pub const ADDITIONS: u64 = 32;

/// `n` dependent register-to-register additions.
///
/// Additions of a register, not of an immediate: Golden Cove and later cores carry out additions of small
/// immediates at register renaming, at no latency, and a chain of them says nothing of the clock. The
/// addend is a value the core cannot know. The loop's decrement and branch depend on the counter alone and
/// run in parallel with the chain; a core that issues one instruction a cycle still pays them once in
/// [`ADDITIONS`], and the n/2n method does not cancel that share, which `docs/method/README.md` states.
#[inline(always)]
pub fn additions<I: Instructions>(n: u64) {
    let mut sum = n;
    for _ in 0..n % ADDITIONS {
        sum = I::add(sum, n);
    }
    let turns = n / ADDITIONS;
    if turns != 0 {
        sum = I::add_turns(sum, n, turns);
    }
    // The chain's end must be wanted, or there is no chain. A black box is enough: nothing is read back.
    core::hint::black_box(sum);
}
