//! The text of DynamoRIO's sample `memtrace_simple`: after a line `Format: ...`, on each line `0xADDRESS: SIZE, WHAT`, with `r` for a
//! load, `w` for a store, and an opcode's name for the instruction that accesses what follows.
//!
//! Instructions without accesses are not in it, so no fetches are simulated and their time is not known.

use fathom_model::Kind;

use crate::batch::Batch;
use crate::places::Places;
use crate::text::{Cursor, Lines, has_line};

/// Whether a trace begins so.
pub(crate) fn recognises(start: &[u8]) -> bool {
    has_line(
        start,
        |line| line.starts_with(b"Format: "),
        |line| {
            address(line).is_some()
                && line.eat(b':')
                && line.spaces()
                && line.size().is_some()
                && line.eat(b',')
        },
    ) || start.starts_with(b"Format: <data address>: <data size>")
}

/// Reads `0xADDRESS`.
#[inline(always)]
fn address(line: &mut Cursor) -> Option<u64> {
    (line.eat(b'0') && line.eat(b'x')).then(|| line.hex())?
}

/// The format.
#[derive(Debug, Default)]
pub(crate) struct Memtrace;

impl Lines for Memtrace {
    const EXPECTED: &'static str = "'0xADDRESS: SIZE, r', or w or an opcode for r";
    const REMEDY: &'static str = "is this the text of DynamoRIO's memtrace_simple?";

    #[inline(always)]
    fn line(
        &mut self,
        line: &mut Cursor,
        places: &mut Places,
        batch: &mut Batch,
    ) -> Result<bool, &'static str> {
        if line.is_at_end() || line.eat_word(b"Format: ") {
            return Ok(true);
        }
        let address = address(line).ok_or("")?;
        if !line.eat(b':') {
            return Err("");
        }
        line.spaces();
        let bytes = line.size().ok_or("a size is 1 to 65535 bytes")?;
        if !line.eat(b',') || !line.spaces() || line.is_at_end() {
            return Err("");
        }
        let word = line.next();
        let short = matches!(line.bytes.get(line.at + 1), None | Some(b'\n' | b'\r'));
        match word {
            b'r' if short => places.accessed(Kind::Load, address, bytes, batch),
            b'w' if short => places.accessed(Kind::Store, address, bytes, batch),
            _ => places.executed(address, bytes, batch),
        }
        Ok(true)
    }

    fn has_all_instructions(&self) -> bool {
        false
    }
}
