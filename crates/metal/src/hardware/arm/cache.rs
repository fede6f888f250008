//! Cache maintenance by address.

use super::{cp15, mcr, mrc};
use crate::arm::registers;

pub(in crate::hardware) use fathom_loops::arm::complete_accesses;

/// Returns the smallest line of any data cache, bytes.
fn line() -> u64 {
    registers::data_line(mrc!(CTR))
}

/// Returns the addresses of the lines of `bytes` bytes from `va`.
fn lines(va: u64, bytes: u64) -> impl Iterator<Item = u32> {
    let line = line();
    (va / line * line..va + bytes).step_by(line as usize).map(|at| at as u32)
}

/// Cleans and invalidates the lines of `bytes` bytes from `va`, at every level to the point of coherency, and waits
/// for completion.
///
/// # Safety
/// The whole range is mapped.
pub(in crate::hardware) unsafe fn clean_invalidate(va: u64, bytes: u64) {
    complete_accesses();
    for at in lines(va, bytes) {
        // SAFETY: DCCIMVAC ("Clean and invalidate data cache line by MVA to PoC"; in ARMv6 "by MVA") does not change
        // contents for a coherent observer; unmapped addresses would fault, which the caller excludes.
        unsafe { mcr!(DCCIMVAC, at) };
    }
    // Before any later access through another mapping (DDI 0406C, A3.8.3: DSB waits for maintenance).
    complete_accesses();
    fathom_loops::arm::flush_pipeline();
}

/// Invalidates the lines of `bytes` bytes from `va`, which were written while data caches were off: the caches
/// contain nothing newer.
///
/// # Safety
/// Data caches are off, and have been since the last write through them to any line of the range.
pub(in crate::hardware) unsafe fn invalidate(va: u64, bytes: u64) {
    // Stores with caches off are complete before the first instruction, as on AArch64.
    complete_accesses();
    for at in lines(va, bytes) {
        // SAFETY: by the caller's promise no line is dirty, so nothing is lost.
        unsafe { mcr!(DCIMVAC, at) };
    }
    complete_accesses();
}
