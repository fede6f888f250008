//! Address translation: the mappings, and enabling it.

use core::arch::asm;
use core::mem::MaybeUninit;

use fathom_probe::machine::Attribute;

use super::{cache, mrs, msr};
use crate::aarch64::registers::{self, ParEl1};
use crate::aarch64::tables::{Table, Tables};
use crate::board::Board;
use crate::hardware::mappings::{self, Translated};
use crate::hardware::{CoreCell, Image};
use crate::windows::WINDOW_TABLES;

/// Tables in addition to the windows': the root, two GiB of blocks, and the pages of an image of up to 24 MiB.
const OTHER_TABLES: usize = 16;

#[unsafe(link_section = ".noinit")]
static POOL: CoreCell<MaybeUninit<[Table; WINDOW_TABLES + OTHER_TABLES]>> =
    CoreCell::new(MaybeUninit::uninit());

/// Builds the tables and enables translation and caches.
///
/// # Errors
/// Returns an error if the tables cannot hold all mappings.
pub(in crate::hardware) fn enable(image: &Image, board: Board) -> Result<(), &'static str> {
    // SAFETY: no other reference exists; every bit pattern is a table, and `Tables` reads only tables that it has
    // written.
    let pool = unsafe { (*POOL.get()).assume_init_mut() };
    let at = pool.as_ptr().addr() as u64;
    let mut tables = Tables::new(pool, at)?;
    mappings::map(&mut tables, image, board)?;
    // SAFETY: everything was written with data caches off, including relocated constants, so its lines in caches are
    // stale at most. They were invalidated at the start. They are invalidated again for lines fetched since
    // (instructions, in a unified level).
    unsafe { cache::invalidate(image.start, image.end - image.start) };
    set_raw(registers::byte_of(Attribute::NormalNc));
    // SAFETY: the tables map the running code, its data, stack and devices at their physical addresses (`mappings::map`), so
    // execution continues at the next instruction. The order is that of "The effects of disabling an address
    // translation stage" and "TLB maintenance": the registers, then DSB and ISB, invalidation of the TLB, and only
    // then SCTLR_EL1.M, followed by an ISB.
    unsafe {
        msr!("ttbr0_el1", at);
        msr!("tcr_el1", registers::tcr(0b01, mrs!("id_aa64mmfr0_el1") & 0xf));
        asm!("dsb sy", "isb", "tlbi vmalle1", "ic iallu", "dsb sy", "isb");
        msr!("sctlr_el1", registers::SCTLR_EL1_ON);
        asm!("isb");
    }
    Ok(())
}

/// Writes the byte of the index in `MAIR_EL1` that a request may set.
pub(in crate::hardware) fn set_raw(raw: u8) {
    // SAFETY: the other indices keep their bytes, so memory in use keeps its type. The mappings of this index are
    // live while their type changes: a TLB may hold either byte until its entries are invalidated ("TLB
    // maintenance"). The manual requires break-before-make when a descriptor changes its type ("Using
    // break-before-make when updating translation table entries"), which would be thirty thousand entries here. It
    // prevents accesses with both types, and here only speculation could make them: no instruction uses these windows
    // while the byte changes. Speculation only reads ("Mismatched memory attributes"): it leaves clean lines at most,
    // and no device is mapped in these windows. Their next mapping cleans and invalidates those lines first
    // (`crate::windows::Blocks`).
    unsafe {
        msr!("mair_el1", registers::mair(raw));
        asm!("dsb sy", "isb", "tlbi vmalle1", "dsb sy", "isb");
    }
}

/// Sets the cacheability of table walks.
pub(super) fn set_walks(walks: u64) {
    let at = POOL.get().addr() as u64;
    // SAFETY: only the attribute of walks changes (TCR_EL1.IRGN0, ORGN0). Walks with another attribute read the
    // tables as written, after the caches have been cleaned and invalidated; the tables are not written after that.
    unsafe {
        cache::clean_invalidate(at, size_of::<[Table; WINDOW_TABLES + OTHER_TABLES]>() as u64);
        msr!("tcr_el1", registers::tcr(walks, mrs!("id_aa64mmfr0_el1") & 0xf));
        asm!("dsb sy", "isb", "tlbi vmalle1", "dsb sy", "isb");
    }
}

/// Returns the hardware's translation of an address for a read at EL1, or the fault status.
pub(in crate::hardware) fn translate(va: u64) -> Result<Translated, u8> {
    // SAFETY: AT changes PAR_EL1 only ("A64 System instructions for address translation"), and the ISB makes it
    // readable.
    unsafe { asm!("at s1e1r, {}", "isb", in(reg) va, options(nostack, preserves_flags)) };
    match registers::par(mrs!("par_el1"), va) {
        ParEl1::Translated { pa, mair } => Ok(Translated { pa, mair: Some(mair) }),
        ParEl1::Fault(status) => Err(status),
    }
}

/// Returns whether translation is on (`SCTLR_EL1.M`).
pub(in crate::hardware) fn is_on() -> bool {
    mrs!("sctlr_el1") & 1 == 1
}
