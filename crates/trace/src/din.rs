//! Dinero's format din: on each line a label, a hexadecimal address, and anything.
//!
//! Labels are 0 read, 1 write, 2 instruction fetch, 3 an access of unknown kind, 4 a flush of the caches (dineroIII(1)).
//! Sizes are not known: an access is one within a line.

use fathom_model::Kind;

use crate::batch::Batch;
use crate::places::Places;
use crate::text::{Cursor, Lines, has_line};

/// Size of an access that the trace does not tell.
const BYTES: u16 = 1;

/// Whether a trace begins so.
pub(crate) fn recognises(start: &[u8]) -> bool {
    has_line(
        start,
        |line| line.iter().all(u8::is_ascii_whitespace),
        |line| {
            line.spaces();
            matches!(line.next(), b'0'..=b'4') && {
                line.at += 1;
                line.spaces() && address(line).is_some()
            }
        },
    )
}

/// Reads an address. Some programs put 0x before it.
#[inline(always)]
fn address(line: &mut Cursor) -> Option<u64> {
    if line.next() == b'0' && matches!(line.bytes.get(line.at + 1), Some(b'x' | b'X')) {
        line.at += 2;
    }
    line.hex()
}

/// The format.
#[derive(Debug, Default)]
pub(crate) struct Din;

impl Lines for Din {
    const EXPECTED: &'static str = "a label and a hexadecimal address, as in '0 7fff0010'";
    const REMEDY: &'static str =
        "labels are 0 read, 1 write, 2 instruction fetch, 3 unknown; is this a trace in din?";

    #[inline(always)]
    fn line(
        &mut self,
        line: &mut Cursor,
        places: &mut Places,
        batch: &mut Batch,
    ) -> Result<bool, &'static str> {
        line.spaces();
        if line.is_at_end() {
            return Ok(true);
        }
        let label = line.next();
        line.at += 1;
        if !line.spaces() {
            return Err("");
        }
        let address = address(line).ok_or("the address has 1 to 16 digits")?;
        match label {
            b'0' => places.accessed(Kind::Load, address, BYTES, batch),
            b'1' => places.accessed(Kind::Store, address, BYTES, batch),
            b'2' => places.executed(address, BYTES, batch),
            // Dinero counts these apart from all accesses.
            b'3' => {}
            b'4' => return Err("a flush of all caches is not simulated: divide the trace here"),
            _ => return Err("this label is unknown"),
        }
        Ok(true)
    }
}
