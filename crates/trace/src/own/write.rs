//! Writes a trace.

use std::io::{Error, ErrorKind, Result, Write};

use fathom_model::Access;
use fathom_simulation::origin::call_of;
use fathom_simulation::protocol::{self, Answer};
use fathom_simulation::{HeapEvent, Mark};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::predict::Encoder;
use super::{Head, Header, MAGIC, MAX_ACCESSES, MAX_END, MAX_PAYLOAD, written_heap, written_mark};

/// Bytes that are compressed at once. Zstd refers to 128 KiB back, so longer frames would not be smaller.
const FRAME: usize = 512 << 10;
/// Bytes whose compression tells whether that of a frame is worth its time.
const SAMPLE: usize = 16 << 10;
/// Bytes of one coded access, at most: five numbers, two bytes, an address.
const LONGEST: usize = 60;

/// A trace that is written. Without its end ([`Writer::finish`], [`end`]) it is refused by a reader.
#[derive(Debug)]
pub struct Writer<W: Write> {
    to: W,
    encoder: Encoder,
    /// Whether each batch is a block of its own: that of a guest, whose pages are counted by batches.
    whole_batches: bool,
    /// The block that is made.
    head: Head,
    payload: Vec<u8>,
    /// Whole blocks, before their compression.
    frame: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(to: W, header: &Header) -> Result<Writer<W>> {
        let head = Head { kind: b'A', thread: 0, accesses: 0, bytes: 0 };
        let mut writer = Writer {
            to,
            encoder: Encoder::new(header.guest),
            whole_batches: header.guest,
            head,
            payload: Vec::new(),
            frame: MAGIC.to_vec(),
        };
        writer.block(b'H', protocol::line(header).as_bytes())?;
        // The format and the program are known as soon as there is a file.
        writer.compress()?;
        Ok(writer)
    }

    /// Adds accesses of a thread. Their `pc` is the number of an instruction.
    ///
    /// # Errors
    /// The trace cannot be written, or the accesses are told by call.
    pub fn add(&mut self, thread: u32, accesses: &[Access]) -> Result<()> {
        if thread != self.head.thread && self.head.accesses > 0 {
            self.end_block()?;
        }
        self.head.thread = thread;
        for access in accesses {
            if self.head.accesses == 0 {
                self.encoder.begin();
            }
            if call_of(access.pc) > 0 {
                return Err(Error::new(ErrorKind::InvalidInput, "a trace does not have calls"));
            }
            self.encoder.add(access, &mut self.payload);
            self.head.accesses += 1;
            if self.head.accesses == MAX_ACCESSES || self.payload.len() > MAX_PAYLOAD - 2 * LONGEST {
                self.end_block()?;
            }
        }
        if self.whole_batches { self.end_block() } else { Ok(()) }
    }

    /// Adds a mark of a thread, after what has been added.
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn mark(&mut self, thread: u32, mark: Mark) -> Result<()> {
        self.end_block()?;
        self.head.thread = thread;
        self.block(b'M', &written_mark(mark))
    }

    /// Adds what a thread does with a block of the heap, after what has been added.
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn heap(&mut self, thread: u32, event: HeapEvent) -> Result<()> {
        self.end_block()?;
        self.head.thread = thread;
        self.block(b'B', &written_heap(event))
    }

    /// Writes everything that has been added. The trace is whole if nothing is added any more, and [`end`] writes its end.
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        self.end_block()?;
        self.compress()?;
        self.to.flush()
    }

    /// Writes everything and the end, and returns where the trace has been written.
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn finish(mut self, run: &Answer) -> Result<W> {
        self.flush()?;
        end(&mut self.to, run)?;
        Ok(self.to)
    }

    fn end_block(&mut self) -> Result<()> {
        if self.head.accesses == 0 {
            return Ok(());
        }
        self.encoder.end(&mut self.payload);
        let payload = std::mem::take(&mut self.payload);
        self.block(b'A', &payload)?;
        self.payload = payload;
        self.payload.clear();
        self.head.accesses = 0;
        Ok(())
    }

    fn block(&mut self, kind: u8, payload: &[u8]) -> Result<()> {
        push_block(&mut self.frame, Head { kind, ..self.head }, payload);
        if self.frame.len() >= FRAME { self.compress() } else { Ok(()) }
    }

    fn compress(&mut self) -> Result<()> {
        if self.frame.is_empty() {
            return Ok(());
        }
        let compressed = compressed(&self.frame);
        self.frame.clear();
        self.to.write_all(&compressed)
    }
}

/// Returns a frame of zstd. What does not become shorter, such as addresses at random, is stored: the compression would take
/// most of the time.
fn compressed(frame: &[u8]) -> Vec<u8> {
    let middle = frame.len() / 2;
    let sample = &frame[middle..frame.len().min(middle + SAMPLE)];
    let shorter = compress_to_vec(sample, CompressionLevel::Fastest).len() < sample.len() / 8 * 7;
    let level = if shorter || frame.len() < FRAME / 2 {
        CompressionLevel::Fastest
    } else {
        CompressionLevel::Uncompressed
    };
    compress_to_vec(frame, level)
}

fn push_block(frame: &mut Vec<u8>, head: Head, payload: &[u8]) {
    let head = Head { bytes: payload.len() as u32, ..head };
    frame.extend_from_slice(&head.written(payload));
    frame.extend_from_slice(payload);
}

/// Writes the end of a trace, after all its accesses: what is known of the program.
///
/// # Errors
/// It cannot be written.
pub fn end(to: &mut impl Write, run: &Answer) -> Result<()> {
    let end = protocol::line(run);
    if end.len() > MAX_END {
        return Err(Error::new(ErrorKind::InvalidInput, "the program has too many instructions"));
    }
    let mut parts = end.as_bytes().chunks(MAX_PAYLOAD).peekable();
    while let Some(part) = parts.next() {
        let kind = if parts.peek().is_some() { b'E' } else { b'Z' };
        let mut frame = Vec::new();
        push_block(&mut frame, Head { kind, thread: 0, accesses: 0, bytes: 0 }, part);
        to.write_all(&compressed(&frame))?;
    }
    to.flush()
}
