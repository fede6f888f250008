//! What is mapped: the image, the board's devices and the arena's windows.

use fathom_probe::machine::Attribute;

use super::Image;
use crate::arch::tables::{EntrySize, Leaf, PAGE_BYTES, Tables};
use crate::board::{Board, DEVICE_BYTES};
use crate::windows::{ARENA_BYTES, FIRST_ADDRESS, Window};

/// Attribute of table walks that is in force at the start.
pub(super) const WALKS: Attribute = Attribute::WriteBack;

/// A translation, as the core reports it.
#[derive(Clone, Copy)]
pub(super) struct Translated {
    /// Physical address.
    pub(super) pa: u64,
    /// Attribute in force, in the encoding of `MAIR_EL1`; `None` if the core reports none.
    pub(super) mair: Option<u8>,
}

/// Maps the image at its address, each part with the rights that it needs and nothing below either stack; the board's
/// devices at their addresses; and the arena in its windows.
pub(super) fn map(tables: &mut Tables<'_>, image: &Image, board: Board) -> Result<(), &'static str> {
    let data = Leaf::data(Attribute::WriteBack);
    let code = Leaf { writable: false, executable: true, ..data };
    let constants = Leaf { executable: false, ..code };
    let mut map_identity =
        |from: u64, to: u64, leaf| tables.map(from, from, to - from, leaf, EntrySize::Page);
    map_identity(image.start, image.rodata, code)?;
    map_identity(image.rodata, image.data, constants)?;
    let mut from = image.data;
    for guard in image.guards {
        map_identity(from, guard, data)?;
        from = guard + PAGE_BYTES;
    }
    map_identity(from, image.end, data)?;
    for &block in board.devices() {
        tables.map(block, block, DEVICE_BYTES, Leaf::data(Attribute::Device), EntrySize::Block)?;
    }
    for window in Window::all() {
        tables.map(
            FIRST_ADDRESS + window.start(),
            board.arena(),
            ARENA_BYTES,
            window.leaf(),
            window.entry_size(),
        )?;
    }
    Ok(())
}
