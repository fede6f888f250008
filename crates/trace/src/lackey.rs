//! The text of `valgrind --tool=lackey --trace-mem=yes` (valgrind's manual, 14.1; lackey/lk_main.c).
//!
//! `I  ADDRESS,SIZE` is an instruction, ` L`, ` S` and ` M` a load, a store, and a load with a store of the same data, by the
//! instruction before. Addresses are hexadecimal. Valgrind's own lines begin with its process, `==12==`.

use fathom_model::Kind;

use crate::batch::Batch;
use crate::places::Places;
use crate::text::{Cursor, Lines, has_line};

/// Whether a trace begins so.
pub(crate) fn recognises(start: &[u8]) -> bool {
    start.windows(b"Lackey".len()).take(200).any(|word| word == b"Lackey") && start.starts_with(b"==")
        || has_line(
            start,
            |line| is_of_valgrind(line[0]),
            |line| {
                let instruction = line.eat_word(b"I  ");
                (instruction || [&b" L "[..], b" S ", b" M "].into_iter().any(|word| line.eat_word(word)))
                    && line.hex().is_some()
                    && line.eat(b',')
            },
        )
}

/// Returns whether a line is one of valgrind's own messages, by its first byte: `==12==`, `--12--`, `**12**`.
fn is_of_valgrind(first: u8) -> bool {
    matches!(first, b'=' | b'-' | b'*')
}

/// The format.
#[derive(Debug, Default)]
pub(crate) struct Lackey;

impl Lines for Lackey {
    const EXPECTED: &'static str =
        "'I  ADDRESS,SIZE', ' L ADDRESS,SIZE', ' S ...' or ' M ...', or a line of valgrind, '==12== ...'";
    const REMEDY: &'static str =
        "keep the program's own output apart: valgrind --tool=lackey --trace-mem=yes --log-file=FILE PROGRAM";

    #[inline(always)]
    fn line(
        &mut self,
        line: &mut Cursor,
        places: &mut Places,
        batch: &mut Batch,
    ) -> Result<bool, &'static str> {
        let first = line.next();
        if first == b'I' {
            line.at += 1;
            line.spaces();
            let (address, bytes) = access(line).ok_or("")?;
            places.executed(address, bytes, batch);
            return Ok(true);
        }
        if first != b' ' {
            // Superblocks (--trace-superblocks) are no accesses.
            let skipped = is_of_valgrind(first) || line.is_at_end() || line.eat_word(b"SB ");
            return if skipped { Ok(true) } else { Err("") };
        }
        line.at += 1;
        let what = line.next();
        line.at += 1;
        if !line.eat(b' ') {
            return Err("");
        }
        let (address, bytes) = access(line).ok_or("")?;
        match what {
            b'L' => places.accessed(Kind::Load, address, bytes, batch),
            b'S' => places.accessed(Kind::Store, address, bytes, batch),
            b'M' => {
                places.accessed(Kind::Load, address, bytes, batch);
                places.accessed(Kind::Store, address, bytes, batch);
            }
            _ => return Err(""),
        }
        Ok(true)
    }
}

/// Reads `ADDRESS,SIZE`.
#[inline(always)]
fn access(line: &mut Cursor) -> Option<(u64, u16)> {
    let address = line.hex()?;
    let bytes = line.eat(b',').then(|| line.size())??;
    Some((address, bytes))
}
