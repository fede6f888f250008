//! Fathom's own format: blocks, compressed with zstd.
//!
//! After decompression a trace is [`MAGIC`] and blocks. A block is its kind (one byte), four numbers of 4 bytes (little endian):
//! thread, accesses, bytes of the payload, CRC-32 of the 13 bytes before and of the payload; then the payload.
//!
//! - `H`: the [`Header`], a line of JSON.
//! - `A`: accesses of a thread, coded as [`predict`] says.
//! - `M`: a mark of a thread: what happens (one byte), the number of its region (4 bytes), the thread's instructions (8 bytes).
//! - `B`: what a thread does with a block of the heap: 0 allocates, 1 frees (one byte), its address and bytes (8 bytes each), the
//!   number of the allocation site (4 bytes).
//! - `E`: a part of the end; `Z`: its last part. The end is an `Answer` without machines, a line of JSON.
//!
//! A trace without its end has been cut off. Each frame of zstd holds whole blocks, and a trace that is decompressed, or compressed
//! again by another program, is the same trace.

mod frames;
mod predict;
mod read;
mod write;

use fathom_simulation::{Event, HeapEvent, MAX_REGIONS, MAX_SITES, Mark};
use serde::{Deserialize, Serialize};

pub(crate) use read::Source;
pub use write::{Writer, end};

/// Begins a trace.
const MAGIC: &[u8] = b"fathom trace\n";
/// Bytes before a payload.
const HEAD: usize = 17;
/// Bytes of a payload, at most.
const MAX_PAYLOAD: usize = 1 << 20;
/// Accesses of a block, at most.
const MAX_ACCESSES: u32 = 1 << 16;
/// Threads, at most: as many as the plugin has.
const MAX_THREADS: u32 = 4096;
/// Bytes of the end, at most: four million instructions.
const MAX_END: usize = 256 << 20;

/// What is known before a program runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Name of the program.
    pub program: String,
    /// Fetches are in the trace when execution enters another line of 2^`fetch_shift` bytes; not at all if there is no number.
    pub fetch_shift: Option<u32>,
    /// Whether the accesses are those of a guest: each has a physical page, and a block has those of one batch.
    pub guest: bool,
}

/// Whether a trace begins so.
pub(crate) fn recognises(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

/// What is before a payload.
#[derive(Clone, Copy, Debug)]
struct Head {
    kind: u8,
    thread: u32,
    accesses: u32,
    bytes: u32,
}

impl Head {
    /// Returns it as it is written, with the checksum.
    fn written(&self, payload: &[u8]) -> [u8; HEAD] {
        let mut all = [0; HEAD];
        all[0] = self.kind;
        for (at, number) in [(1, self.thread), (5, self.accesses), (9, self.bytes)] {
            all[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        let sum = checksum(&all[..HEAD - 4], payload);
        all[HEAD - 4..].copy_from_slice(&sum.to_le_bytes());
        all
    }

    fn of(bytes: &[u8; HEAD]) -> Head {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Head { kind: bytes[0], thread: number(1), accesses: number(5), bytes: number(9) }
    }
}

/// Bytes of a mark.
const MARK: usize = 13;

/// Returns a mark as it is written.
fn written_mark(mark: Mark) -> [u8; MARK] {
    let (what, region) = match mark.event {
        Event::Begin(region) => (0, region),
        Event::End(region) => (1, region),
        Event::Now => (2, 0),
        Event::Over => (3, 0),
        Event::From(region) => (4, region),
        Event::To(region) => (5, region),
        Event::Away => (6, 0),
        Event::Back => (7, 0),
    };
    let mut all = [0; MARK];
    all[0] = what;
    all[1..5].copy_from_slice(&region.to_le_bytes());
    all[5..].copy_from_slice(&mark.instructions.to_le_bytes());
    all
}

/// Returns a mark; `None` if there is none like that.
fn mark_of(bytes: &[u8]) -> Option<Mark> {
    let (what, rest) = <&[u8; MARK]>::try_from(bytes).ok()?.split_first()?;
    let (region, instructions) = rest.split_first_chunk()?;
    let region = u32::from_le_bytes(*region);
    let event = match what {
        0 => Event::Begin(region),
        1 => Event::End(region),
        2 => Event::Now,
        3 => Event::Over,
        4 => Event::From(region),
        5 => Event::To(region),
        6 => Event::Away,
        7 => Event::Back,
        _ => return None,
    };
    let instructions = u64::from_le_bytes(instructions.try_into().ok()?);
    ((region as usize) < MAX_REGIONS).then_some(Mark { event, instructions })
}

/// Bytes of what happens to a block of the heap.
const HEAP: usize = 21;

/// Returns what happens to a block of the heap as it is written.
fn written_heap(event: HeapEvent) -> [u8; HEAP] {
    let (what, address, bytes, site) = match event {
        HeapEvent::Allocated { address, bytes, site } => (0, address, bytes, site),
        HeapEvent::Freed(address) => (1, address, 0, 0),
    };
    let mut all = [0; HEAP];
    all[0] = what;
    all[1..9].copy_from_slice(&address.to_le_bytes());
    all[9..17].copy_from_slice(&bytes.to_le_bytes());
    all[17..].copy_from_slice(&site.to_le_bytes());
    all
}

/// Returns what happens to a block of the heap; `None` if there is nothing like that.
fn heap_of(bytes: &[u8]) -> Option<HeapEvent> {
    let (what, rest) = <&[u8; HEAP]>::try_from(bytes).ok()?.split_first()?;
    let (address, rest) = rest.split_first_chunk()?;
    let (bytes, site) = rest.split_first_chunk()?;
    let (address, bytes) = (u64::from_le_bytes(*address), u64::from_le_bytes(*bytes));
    let site = u32::from_le_bytes(site.try_into().ok()?);
    match what {
        0 if site < MAX_SITES => Some(HeapEvent::Allocated { address, bytes, site }),
        1 if bytes == 0 && site == 0 => Some(HeapEvent::Freed(address)),
        _ => None,
    }
}

fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(head);
    sum.update(payload);
    sum.finalize()
}

#[cfg(test)]
mod tests;
