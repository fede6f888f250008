//! The text of the viewer of DynamoRIO's drmemtrace (`drrun -t drmemtrace -tool view`; its documentation, "Human-Readable View").
//!
//! `RECORD INSTRUCTION: THREAD ifetch SIZE byte(s) @ 0xADDRESS ...` is an instruction, `... read SIZE byte(s) @ 0xADDRESS by PC 0xADDRESS`
//! and `... write ...` are accesses. Markers, and what is no record, are skipped.

use fathom_model::Kind;

use crate::batch::Batch;
use crate::places::Places;
use crate::text::{Cursor, Lines, has_line};

/// Threads, at most.
const MAX_THREADS: usize = 4096;

/// Whether a trace begins so.
pub(crate) fn recognises(start: &[u8]) -> bool {
    start.starts_with(b"Output format:\n<--record#->")
        || has_line(start, |line| line.starts_with(b"---"), |line| prefix(line).is_some())
}

/// Reads `RECORD INSTRUCTION: THREAD `. Returns the thread.
#[inline(always)]
fn prefix(line: &mut Cursor) -> Option<u64> {
    line.spaces();
    number(line)?;
    let apart = line.spaces();
    number(line)?;
    let ends = line.eat(b':') && line.spaces();
    let thread = number(line)?;
    (apart && ends && line.spaces()).then_some(thread)
}

/// Reads a decimal number.
#[inline(always)]
fn number(line: &mut Cursor) -> Option<u64> {
    let start = line.at;
    let mut value = 0u64;
    while line.next().is_ascii_digit() {
        value = value.wrapping_mul(10).wrapping_add(u64::from(line.next() - b'0'));
        line.at += 1;
    }
    (1..=19).contains(&(line.at - start)).then_some(value)
}

/// The format.
#[derive(Debug, Default)]
pub(crate) struct DrMemtrace {
    /// Threads, in the order of their first record.
    threads: Vec<u64>,
}

impl DrMemtrace {
    #[inline(always)]
    fn number_of(&mut self, thread: u64, places: &mut Places) -> Result<u32, &'static str> {
        if let Some(known) = self.threads.iter().position(|&of| of == thread) {
            return Ok(known as u32);
        }
        if self.threads.len() >= MAX_THREADS {
            return Err("more than 4096 threads");
        }
        self.threads.push(thread);
        places.set_threads(self.threads.len() as u32);
        Ok(self.threads.len() as u32 - 1)
    }
}

/// Returns whether a line is none of a record: the heading, a horizontal line, or a total at the end.
fn is_none_of_a_record(line: &Cursor) -> bool {
    let rest = line.rest();
    let heads: [&[u8]; 4] = [b"Output format:", b"<--record#->", b"---", b"View tool results:"];
    let total = || {
        let end = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        rest[..end].windows(8).any(|word| word == b": total ")
    };
    line.is_at_end() || heads.iter().any(|head| rest.starts_with(head)) || total()
}

impl Lines for DrMemtrace {
    const EXPECTED: &'static str =
        "'RECORD INSTRUCTION: THREAD ifetch|read|write SIZE byte(s) @ 0xADDRESS ...', or a marker";
    const REMEDY: &'static str = "is this the text of drrun -t drmemtrace -tool view?";

    #[inline(always)]
    fn line(
        &mut self,
        line: &mut Cursor,
        places: &mut Places,
        batch: &mut Batch,
    ) -> Result<bool, &'static str> {
        let start = line.at;
        let Some(thread) = prefix(line) else {
            line.at = start;
            return if is_none_of_a_record(line) { Ok(true) } else { Err("") };
        };
        if line.eat(b'<') {
            return Ok(true);
        }
        let thread = self.number_of(thread, places)?;
        if thread != batch.thread {
            if !batch.accesses.is_empty() {
                line.at = start;
                return Ok(false);
            }
            batch.thread = thread;
        }
        let kind = match line.next() {
            _ if line.eat_word(b"ifetch ") => Kind::Fetch,
            _ if line.eat_word(b"non-fetched ") => Kind::Fetch,
            _ if line.eat_word(b"read ") => Kind::Load,
            _ if line.eat_word(b"write ") => Kind::Store,
            _ => return Err("this kind of record is not simulated"),
        };
        line.spaces();
        let bytes = line.size().ok_or("a size is 1 to 65535 bytes")?;
        if !line.eat_word(b" byte(s) @ 0x") {
            return Err("");
        }
        let address = line.hex().ok_or("the address has 1 to 16 digits")?;
        if kind == Kind::Fetch {
            places.executed(address, bytes, batch);
            return Ok(true);
        }
        if line.eat_word(b" by PC 0x") {
            places.at(line.hex().ok_or("the PC has 1 to 16 digits")?);
        }
        places.accessed(kind, address, bytes, batch);
        Ok(true)
    }
}
