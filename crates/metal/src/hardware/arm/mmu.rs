//! Address translation: enabling it, changing it, and reading it back.

use core::mem::MaybeUninit;

use fathom_loops::arm::{complete_accesses, flush_pipeline};
use fathom_probe::machine::Attribute;

use super::{IS_V7, cache, cp15, mcr, mrc};
use crate::arm::registers::{self, Par};
use crate::arm::tables::{ROOT_TABLES, Table, Tables};
use crate::board::Board;
use crate::hardware::mappings::{self, Translated};
use crate::hardware::{CoreCell, Image};
use crate::windows::{ARENA_BYTES, FIRST_ADDRESS, WINDOW_TABLES, Window, WindowAttribute};

/// Tables in addition to the windows': the root, and the pages of an image of up to 16 MiB.
const OTHER_TABLES: usize = ROOT_TABLES + 17;

/// The tables. The root, which is first, must be aligned to its 16 KiB.
#[repr(C, align(16384))]
struct Pool([Table; WINDOW_TABLES + OTHER_TABLES]);

#[unsafe(link_section = ".noinit")]
static POOL: CoreCell<MaybeUninit<Pool>> = CoreCell::new(MaybeUninit::uninit());

/// Byte of the windows for requested attributes.
static RAW: CoreCell<u8> = CoreCell::new(0);

/// Whether the core reports attributes of translations.
static REPORTS_ATTRIBUTES: CoreCell<bool> = CoreCell::new(false);

/// Returns the address of the pool.
fn at() -> u64 {
    POOL.get().addr() as u64
}

/// Builds the tables and enables translation and caches.
///
/// # Errors
/// Returns an error if the tables cannot hold all mappings.
pub(in crate::hardware) fn enable(image: &Image, board: Board) -> Result<(), &'static str> {
    // SAFETY: no other reference exists; every bit pattern is a table, and `Tables` reads only tables that it has
    // written.
    let pool = unsafe { &mut (*POOL.get()).assume_init_mut().0 };
    let mut tables = Tables::new(pool, at())?;
    mappings::map(&mut tables, image, board)?;
    let walks = registers::walk_bits(Attribute::WriteBack, IS_V7).unwrap_or(0);
    // SAFETY: everything was written with data caches off, including relocated constants, so its lines in caches are
    // stale at most. They were invalidated at the start. They are invalidated again for lines fetched since
    // (instructions, in a unified level).
    unsafe { cache::invalidate(image.start, image.end - image.start) };
    // SAFETY: the tables map the running code, its data, stack and devices at their physical addresses (`mappings::map`),
    // so execution continues at the next instruction. The registers first, then barriers, invalidation of TLB,
    // instruction cache and branch predictors, and only then SCTLR.M, followed by a barrier (DDI 0406C, B3.10.2, B3.15.3).
    unsafe {
        *RAW.get() = registers::byte_of(Attribute::NormalNc);
        // One table for all addresses, in the short format (TTBCR.N and EAE at 0).
        mcr!(TTBCR, 0);
        mcr!(DACR, registers::DACR);
        mcr!(TTBR0, at() as u32 | walks);
        synchronise();
        mcr!(ICIALLU, 0);
        synchronise();
        mcr!(SCTLR, registers::SCTLR_ON);
    }
    flush_pipeline();
    // SAFETY: no other reference exists.
    unsafe { *REPORTS_ATTRIBUTES.get() = reports_attributes() };
    Ok(())
}

/// Invalidates all translations and branch predictions, after every earlier change is complete.
fn synchronise() {
    complete_accesses();
    flush_pipeline();
    // SAFETY: the next walks read the tables as they are, which map what is in use.
    unsafe {
        mcr!(TLBIALL, 0);
        mcr!(BPIALL, 0);
    }
    complete_accesses();
    flush_pipeline();
}

/// Returns whether `PAR` has attributes: those of two windows differ. QEMU does not set them.
fn reports_attributes() -> bool {
    let mut windows = Window::all().map(|window| read_par(FIRST_ADDRESS + window.start()));
    let attribute = |par| match par {
        Some(Par::Translated { mair, .. }) => mair,
        _ => None,
    };
    let first = attribute(windows.next());
    windows.any(|par| attribute(Some(par)) != first)
}

/// Gives the windows for requested attributes the one of a byte, which descriptors can express
/// (`super::control::check_byte`).
pub(in crate::hardware) fn set_raw(byte: u8) {
    // SAFETY: there is one core, and no other reference exists.
    let last = unsafe { RAW.get().replace(byte) };
    if last == byte {
        return;
    }
    // SAFETY: as in `enable`; the tables were built there. They are changed while they are in use: the hardware may read
    // either value of an entry until its translations are invalidated. Both map the same memory, and no instruction uses
    // these windows meanwhile. Speculation only reads: it leaves clean lines at most, which the next mapping of the
    // windows cleans and invalidates first (`crate::windows::Blocks`).
    let pool = unsafe { &mut (*POOL.get()).assume_init_mut().0 };
    let mut tables = Tables::built(pool, at());
    for window in Window::all() {
        if matches!(window.attribute, WindowAttribute::Raw(_)) {
            let window = Window { attribute: WindowAttribute::Raw(byte), ..window };
            let va = FIRST_ADDRESS + window.start();
            let changed = tables.change(va, ARENA_BYTES, window.leaf(), window.entry_size());
            changed.expect("the windows are mapped");
        }
    }
    clean();
    synchronise();
}

/// Writes the tables to memory, where walks that bypass the caches read them.
fn clean() {
    // SAFETY: the image's memory is mapped.
    unsafe { cache::clean_invalidate(at(), size_of::<Pool>() as u64) };
}

/// Sets the cacheability of table walks: bits of `TTBR0`.
pub(in crate::hardware) fn set_walks(walks: u32) {
    clean();
    // SAFETY: only the attribute of walks changes. Walks with another attribute read the tables as written, after the
    // caches have been cleaned and invalidated.
    unsafe { mcr!(TTBR0, at() as u32 | walks) };
    synchronise();
}

fn read_par(va: u64) -> Par {
    // SAFETY: the operation changes PAR only, and the barrier makes it readable.
    unsafe { mcr!(ATS1CPR, va as u32) };
    flush_pipeline();
    registers::par(mrc!(PAR), va)
}

/// Returns the hardware's translation of an address for a read at PL1, or the fault status.
pub(in crate::hardware) fn translate(va: u64) -> Result<Translated, u8> {
    // SAFETY: no reference exists.
    let reports = unsafe { *REPORTS_ATTRIBUTES.get() };
    match read_par(va) {
        Par::Translated { pa, mair } => Ok(Translated { pa, mair: mair.filter(|_| reports) }),
        Par::Fault(status) => Err(status),
    }
}

/// Returns whether translation is on (`SCTLR.M`).
pub(in crate::hardware) fn is_on() -> bool {
    mrc!(SCTLR) & 1 == 1
}
