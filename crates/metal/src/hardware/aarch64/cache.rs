//! Cache maintenance by address.

use super::mrs;

/// Returns the smallest line of any data cache, bytes (`CTR_EL0.DminLine`).
pub(in crate::hardware) fn line() -> u64 {
    4 << (mrs!("ctr_el0") >> 16 & 0xf)
}

/// Cleans and invalidates the lines of `bytes` bytes from `va`, at every level to the point of coherency, and waits
/// for completion.
///
/// # Safety
/// The whole range is mapped.
pub(in crate::hardware) unsafe fn clean_invalidate(va: u64, bytes: u64) {
    let line = line();
    let mut at = va / line * line;
    // SAFETY: DC CIVAC does not change contents for a coherent observer ("A64 Cache maintenance instructions");
    // unmapped addresses would fault, which the caller excludes. DSB SY waits for its completion for every observer
    // ("Data Synchronization Barrier"), before any later access through another mapping.
    unsafe {
        core::arch::asm!("dsb sy", options(nostack, preserves_flags));
        while at < va + bytes {
            core::arch::asm!("dc civac, {}", in(reg) at, options(nostack, preserves_flags));
            at += line;
        }
        core::arch::asm!("dsb sy", "isb", options(nostack, preserves_flags));
    }
}

/// Invalidates the lines of `bytes` bytes from `va`, which were written while data caches were off: the caches
/// contain nothing newer.
///
/// # Safety
/// Data caches are off, and have been since the last write through them to any line of the range.
pub(in crate::hardware) unsafe fn invalidate(va: u64, bytes: u64) {
    let line = line();
    let mut at = va / line * line;
    // SAFETY: by the caller's promise no line is dirty, so nothing is lost ("DC IVAC, Data or unified Cache line
    // Invalidate by VA to PoC"). Stores with caches off are to device memory, and only a barrier orders them before
    // the maintenance by address ("Ordering and completion of data and instruction cache instructions"): they are
    // complete before the first instruction.
    unsafe {
        core::arch::asm!("dsb sy", options(nostack, preserves_flags));
        while at < va + bytes {
            core::arch::asm!("dc ivac, {}", in(reg) at, options(nostack, preserves_flags));
            at += line;
        }
        core::arch::asm!("dsb sy", options(nostack, preserves_flags));
    }
}

/// Waits until earlier accesses are complete for every observer ("Data Synchronization Barrier").
pub(in crate::hardware) fn complete_accesses() {
    // SAFETY: a barrier.
    unsafe { core::arch::asm!("dsb sy", options(nostack, preserves_flags)) };
}
