//! Cache maintenance by address.

use super::mrs;

/// The smallest line of any data cache, bytes (`CTR_EL0.DminLine`).
pub(super) fn line() -> u64 {
    4 << (mrs!("ctr_el0") >> 16 & 0xf)
}

/// Writes back and drops what the caches hold of `bytes` bytes from `va`, at every level up to memory (the point
/// of coherency), and waits for it.
///
/// # Safety
/// All of it is mapped.
pub(super) unsafe fn clean_invalidate(va: u64, bytes: u64) {
    let line = line();
    let mut at = va / line * line;
    // SAFETY: DC CIVAC changes no contents as a coherent observer sees them ("A64 Cache maintenance instructions");
    // unmapped addresses would fault, which the caller excludes. DSB SY waits for its completion on every observer
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

/// Drops what the caches hold of `bytes` bytes from `va`, which were written while data caches were off: the
/// caches hold nothing newer.
///
/// # Safety
/// Data caches are off, and have been since the last write to any line of it that could have been through them.
pub(super) unsafe fn invalidate(va: u64, bytes: u64) {
    let line = line();
    let mut at = va / line * line;
    // SAFETY: by the caller's promise no line is dirty, so nothing is lost ("DC IVAC, Data or unified Cache line
    // Invalidate by VA to PoC"). What was stored with caches off is to device memory, and no order holds between it and
    // the maintenance by its address but a barrier's ("Ordering and completion of data and instruction cache
    // instructions"): it is complete before the first.
    unsafe {
        core::arch::asm!("dsb sy", options(nostack, preserves_flags));
        while at < va + bytes {
            core::arch::asm!("dc ivac, {}", in(reg) at, options(nostack, preserves_flags));
            at += line;
        }
        core::arch::asm!("dsb sy", options(nostack, preserves_flags));
    }
}
