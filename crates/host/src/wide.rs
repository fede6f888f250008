//! Instructions that no plain access becomes: loads and stores of 16 bytes, as `memset` and `memcpy` have them, and the
//! clean and invalidate of a line.
//!
//! Written in assembly, because the accesses are the product: none may be widened further (a compiler would take
//! what the CPU has), merged, or turned into a call of `memcpy`, which zeroes by the line or streams past the caches.

use fathom_probe::patterns::stride::UNROLL;
use fathom_probe::patterns::unrolled;

/// Pairs of cells in one turn of the loops.
const PAIRS: u64 = UNROLL / 2;

/// Stores `value` into `count` cells of 8 bytes from `at`, two a store; an odd one by itself, first.
///
/// # Safety
/// The cells are writable memory of one live arena, aligned to 8, in which `value` may be stored anywhere.
#[inline(always)]
pub(crate) unsafe fn set(at: *mut u8, count: u64, value: u64) {
    let mut at = at;
    if count % 2 == 1 {
        // SAFETY: the first of the caller's cells.
        unsafe { at.cast::<u64>().write_volatile(value) };
        at = at.wrapping_add(8);
    }
    let pairs = count / 2;
    // SAFETY: together these are the caller's cells that are left, two a call.
    unrolled::<PAIRS>(pairs, || unsafe {
        store(at, value);
        at = at.wrapping_add(16);
    });
}

/// Copies `count` cells of 8 bytes, two a load and a store; an odd one by itself, first.
///
/// # Safety
/// Both are `count` cells of one live arena, aligned to 8, and do not overlap; whatever the source's hold may be
/// stored in the destination's.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, count: u64) {
    let (mut from, mut to) = (from, to);
    if count % 2 == 1 {
        // SAFETY: the first cell of each.
        unsafe { to.cast::<u64>().write_volatile(from.cast::<u64>().read_volatile()) };
        (from, to) = (from.wrapping_add(8), to.wrapping_add(8));
    }
    // SAFETY: together these are the cells that are left, two a call.
    unrolled::<PAIRS>(count / 2, || unsafe {
        move_pair(from, to);
        (from, to) = (from.wrapping_add(16), to.wrapping_add(16));
    });
}

/// Stores `value` twice.
///
/// # Safety
/// 16 writable bytes at `at`, aligned to 8.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn store(at: *mut u8, value: u64) {
    use core::arch::{asm, x86_64::_mm_set1_epi64x};
    // SAFETY: MOVUPS needs no alignment and SSE2 is part of x86-64; the bytes are the caller's.
    unsafe {
        let pair = _mm_set1_epi64x(value.cast_signed());
        asm!("movups [{at}], {pair}", at = in(reg) at, pair = in(xmm_reg) pair, options(nostack, preserves_flags));
    }
}

/// Copies 16 bytes.
///
/// # Safety
/// 16 readable bytes at `from` and 16 writable ones at `to`, aligned to 8.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn move_pair(from: *const u8, to: *mut u8) {
    // SAFETY: as in `store`.
    unsafe {
        core::arch::asm!(
            "movups {pair}, [{from}]",
            "movups [{to}], {pair}",
            from = in(reg) from, to = in(reg) to, pair = out(xmm_reg) _,
            options(nostack, preserves_flags)
        );
    }
}

/// Stores `value` twice.
///
/// # Safety
/// 16 writable bytes at `at`, aligned to 8.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn store(at: *mut u8, value: u64) {
    // SAFETY: STP of two 64-bit registers needs an alignment of 8 at most; the bytes are the caller's.
    unsafe {
        core::arch::asm!("stp {value}, {value}, [{at}]", at = in(reg) at, value = in(reg) value,
            options(nostack, preserves_flags));
    }
}

/// Copies 16 bytes.
///
/// # Safety
/// 16 readable bytes at `from` and 16 writable ones at `to`, aligned to 8.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn move_pair(from: *const u8, to: *mut u8) {
    // SAFETY: as in `store`.
    unsafe {
        core::arch::asm!(
            "ldp {a}, {b}, [{from}]",
            "stp {a}, {b}, [{to}]",
            from = in(reg) from, to = in(reg) to, a = out(reg) _, b = out(reg) _,
            options(nostack, preserves_flags)
        );
    }
}

/// Cleans and invalidates the line of `at` in all caches, and waits for it: CLFLUSH, with the MFENCE behind which
/// no load begins earlier (Intel SDM volume 2, CLFLUSH: it is not ordered with loads).
///
/// # Safety
/// A readable byte at `at`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn flush(at: *mut u8) {
    // SAFETY: the caller's byte.
    unsafe { flush_unwaited(at) };
    barrier();
}

/// The same without waiting: who flushes many lines waits once, by [`barrier`].
///
/// # Safety
/// A readable byte at `at`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn flush_unwaited(at: *mut u8) {
    // SAFETY: SSE2, which x86-64 has, brings the instruction; the line is that of the caller's byte.
    unsafe { core::arch::x86_64::_mm_clflush(at) };
}

/// Waits for flushes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn barrier() {
    // SAFETY: SSE2, which x86-64 has, brings the instruction; it touches no memory of anybody's.
    unsafe { core::arch::x86_64::_mm_mfence() };
}

/// Cleans and invalidates the line of `at` to the point of coherency, and waits for it: DC CIVAC, which Linux
/// lets user space execute (it sets SCTLR_EL1.UCI), and DSB SY.
///
/// # Safety
/// A readable byte at `at`.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) unsafe fn flush(at: *mut u8) {
    // SAFETY: the caller's byte.
    unsafe { flush_unwaited(at) };
    barrier();
}

/// The same without waiting: who flushes many lines waits once, by [`barrier`].
///
/// # Safety
/// A readable byte at `at`.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) unsafe fn flush_unwaited(at: *mut u8) {
    // SAFETY: cleaning and invalidating changes no contents; the line is that of the caller's byte.
    unsafe { core::arch::asm!("dc civac, {at}", at = in(reg) at, options(nostack, preserves_flags)) };
}

/// Waits for flushes.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn barrier() {
    // SAFETY: a barrier touches no memory of anybody's.
    unsafe { core::arch::asm!("dsb sy", options(nostack, preserves_flags)) };
}
