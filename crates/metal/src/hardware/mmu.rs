//! Address translation: what is mapped, and switching it on.

use core::arch::asm;
use core::mem::MaybeUninit;

use super::{CoreCell, Image, cache, mrs, msr};
use crate::board::Board;
use crate::registers::{self, Par};
use crate::tables::{BLOCK, Grain, Leaf, PAGE, Table, Tables};
use crate::windows::{BYTES, FIRST, TABLES, Window};
use fathom_probe::machine::Attribute;

/// Tables beside the windows': the root, two GiB of blocks, and the pages of an image of up to 24 MiB.
const OTHERS: usize = 16;

#[unsafe(link_section = ".noinit")]
static POOL: CoreCell<MaybeUninit<[Table; TABLES + OTHERS]>> = CoreCell::new(MaybeUninit::uninit());

/// Builds the tables and switches translation and caches on.
///
/// # Errors
/// When the tables do not hold what is to be mapped.
pub(super) fn enable(image: &Image, board: Board) -> Result<(), &'static str> {
    // SAFETY: nobody else has a reference to it; every bit pattern is a table, and `Tables` reads none that it has
    // not written.
    let pool = unsafe { (*POOL.get()).assume_init_mut() };
    let at = pool.as_ptr().addr() as u64;
    let mut tables = Tables::new(pool, at)?;
    map(&mut tables, image, board)?;
    // SAFETY: everything was written with data caches off, corrected addresses among the constants too, so lines of
    // it in a cache are stale at most; they were dropped at the start, and are dropped again for whatever was fetched
    // since (instructions, with the level that caches both).
    unsafe { cache::invalidate(image.start, image.end - image.start) };
    set_mair(registers::byte_of(Attribute::NormalNc));
    // SAFETY: the tables map the code that runs, its data, stack and devices where they are (`map`), so execution
    // continues at the next instruction with everything in its place. The order is that of "The effects of disabling an
    // address translation stage" and "TLB maintenance": the registers, then DSB and ISB, no entry of a TLB from
    // before, and only then SCTLR_EL1.M, with an ISB behind it.
    unsafe {
        msr!("ttbr0_el1", at);
        msr!("tcr_el1", registers::tcr(0b01, mrs!("id_aa64mmfr0_el1") & 0xf));
        asm!("dsb sy", "isb", "tlbi vmalle1", "ic iallu", "dsb sy", "isb");
        msr!("sctlr_el1", registers::SCTLR_EL1_ON);
        asm!("isb");
    }
    Ok(())
}

/// The image where it lies, each part with the rights that it needs and nothing below either stack; the board's
/// devices where they lie; the arena in its windows.
fn map(tables: &mut Tables<'_>, image: &Image, board: Board) -> Result<(), &'static str> {
    let plain = registers::INDEX_WRITE_BACK;
    let code = Leaf { index: plain, writable: false, executable: true };
    let constants = Leaf { executable: false, ..code };
    let mut same = |from: u64, to: u64, leaf| tables.map(from, from, to - from, leaf, Grain::Page);
    same(image.start, image.rodata, code)?;
    same(image.rodata, image.data, constants)?;
    let mut from = image.data;
    for guard in image.guards {
        same(from, guard, Leaf::data(plain))?;
        from = guard + PAGE;
    }
    same(from, image.end, Leaf::data(plain))?;
    for &block in board.devices() {
        tables.map(block, block, BLOCK, Leaf::data(registers::INDEX_DEVICE), Grain::Block)?;
    }
    for window in Window::all() {
        tables.map(FIRST + window.start(), board.arena(), BYTES, window.leaf(), window.grain())?;
    }
    Ok(())
}

/// Puts a byte into the index of `MAIR_EL1` that is anybody's wish.
pub(super) fn set_mair(raw: u8) {
    // SAFETY: the other indices keep their bytes, so memory that is used keeps its type. The mappings of this index are
    // live while their type changes: a TLB may hold either byte until its entries are dropped ("TLB maintenance"), and
    // the manual asks for break-before-make where a descriptor changes its type ("Using break-before-make when updating
    // translation table entries"), which would be thirty thousand entries here. What it guards against is accesses by both
    // types, and there are none but by speculation: no instruction uses these windows while the byte changes. What is
    // speculated under either type is reads, and writes nothing ("Mismatched memory attributes"): it leaves clean lines
    // at most, and no device is behind these windows. Whoever maps them next cleans and drops those first
    // (`crate::windows::Blocks`).
    unsafe {
        msr!("mair_el1", registers::mair(raw));
        asm!("dsb sy", "isb", "tlbi vmalle1", "dsb sy", "isb");
    }
}

/// Sets how table walks fetch.
pub(super) fn set_walks(walks: u64) {
    let at = POOL.get().addr() as u64;
    // SAFETY: nothing but the attribute of walks changes (TCR_EL1.IRGN0, ORGN0). Walks of another attribute see
    // memory as the tables were written to it, once the caches have given up what they hold of them; nobody
    // writes to tables after that.
    unsafe {
        cache::clean_invalidate(at, size_of::<[Table; TABLES + OTHERS]>() as u64);
        msr!("tcr_el1", registers::tcr(walks, mrs!("id_aa64mmfr0_el1") & 0xf));
        asm!("dsb sy", "isb", "tlbi vmalle1", "dsb sy", "isb");
    }
}

/// How the hardware translates an address for a read of EL1.
pub(super) fn translate(va: u64) -> Par {
    // SAFETY: AT changes PAR_EL1 alone ("A64 System instructions for address translation"), and the ISB makes it
    // readable.
    unsafe { asm!("at s1e1r, {}", "isb", in(reg) va, options(nostack, preserves_flags)) };
    registers::par(mrs!("par_el1"), va)
}
