//! The bytes of a trace: read ahead, and decompressed if they are compressed with zstd.

use std::io::{BufRead as _, BufReader, Cursor, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::error::{At, Error};

/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;
/// Start of a frame of zstd (RFC 8878, 3.1.1).
pub(crate) const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Starts of files of other compressors, with the program that decompresses them.
const COMPRESSED: [(&[u8], &str, &str); 4] = [
    (b"\xfd7zXZ\0", "xz", "xzcat"),
    (b"\x1f\x8b", "gzip", "zcat"),
    (b"BZh", "bzip2", "bzcat"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4cat"),
];

/// Bytes of the longest of these.
const LONGEST_MAGIC: u64 = 6;

type Source = BufReader<Box<dyn Read + Send>>;

/// Where bytes come from.
enum From {
    Plain(Source),
    /// The decoder of the current frame; `None` between frames.
    Zstd {
        source: Source,
        decoder: Box<FrameDecoder>,
        inside: bool,
    },
}

/// The bytes of a trace.
pub(crate) struct Input {
    from: From,
    /// What has been read and is not used: `buffer[start..]`.
    buffer: Vec<u8>,
    start: usize,
    /// Bytes before `buffer`.
    before: u64,
    ended: bool,
}

impl Input {
    /// Begins to read.
    ///
    /// # Errors
    /// The source cannot be read, or is compressed in another way than with zstd.
    pub fn new(source: impl Read + Send + 'static) -> Result<Input, Error> {
        let mut source = source;
        let mut start = Vec::new();
        source.by_ref().take(LONGEST_MAGIC).read_to_end(&mut start).map_err(|e| unreadable(0, &e))?;
        if let Some((_, name, program)) = COMPRESSED.iter().find(|(magic, ..)| start.starts_with(magic)) {
            return Err(Error::new(
                At::Byte(0),
                format!("the file is compressed with {name}"),
                format!("decompress it on the way: {program} FILE | fathom simulate --trace - ..."),
            ));
        }
        let zstd = start.starts_with(&ZSTD);
        let source: Source = BufReader::with_capacity(CHUNK, Box::new(Cursor::new(start).chain(source)));
        let from = match zstd {
            true => From::Zstd { source, decoder: Box::new(FrameDecoder::new()), inside: false },
            false => From::Plain(source),
        };
        Ok(Input { from, buffer: Vec::with_capacity(2 * CHUNK), start: 0, before: 0, ended: false })
    }

    /// Returns what is there.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Returns whether nothing follows [`Input::bytes`].
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Returns the number of the first byte of [`Input::bytes`].
    pub fn offset(&self) -> u64 {
        self.before + self.start as u64
    }

    /// Ends the last line, if the end of the file does not.
    pub fn end_line(&mut self) {
        if self.ended && self.bytes().last().is_some_and(|&last| last != b'\n') {
            self.buffer.push(b'\n');
        }
    }

    /// Removes bytes that have been used.
    pub fn used(&mut self, count: usize) {
        self.start += count;
    }

    /// Reads on until at least `count` bytes are there, or the end.
    ///
    /// # Errors
    /// The source cannot be read, or its compression is damaged.
    pub fn want(&mut self, count: usize) -> Result<(), Error> {
        while self.bytes().len() < count && !self.ended {
            self.more()?;
        }
        Ok(())
    }

    /// Reads another chunk.
    ///
    /// # Errors
    /// As [`Input::want`].
    pub fn more(&mut self) -> Result<(), Error> {
        self.buffer.drain(..self.start);
        self.before += self.start as u64;
        self.start = 0;
        let old = self.buffer.len();
        self.buffer.resize(old + CHUNK, 0);
        let mut filled = old;
        while filled < self.buffer.len() && !self.ended {
            let read = match &mut self.from {
                From::Plain(source) => source.read(&mut self.buffer[filled..]).map_err(|e| e.to_string()),
                From::Zstd { source, decoder, inside } => {
                    decompressed(source, decoder, inside, &mut self.buffer[filled..])
                }
            };
            match read {
                Ok(0) => self.ended = true,
                Ok(count) => filled += count,
                Err(why) => {
                    self.buffer.truncate(filled);
                    return Err(unreadable(self.before + filled as u64, &why));
                }
            }
            if filled - old >= CHUNK / 2 {
                break;
            }
        }
        self.buffer.truncate(filled);
        Ok(())
    }
}

fn unreadable(at: u64, why: &dyn std::fmt::Display) -> Error {
    let remedy = "read or copy the file again, from where it was made";
    Error::new(At::Byte(at), format!("the trace cannot be read on: {why}"), remedy)
}

/// Returns decompressed bytes of the next frame that has any; 0 at the end of the file.
fn decompressed(
    source: &mut Source,
    decoder: &mut FrameDecoder,
    inside: &mut bool,
    into: &mut [u8],
) -> Result<usize, String> {
    loop {
        if !*inside {
            if source.fill_buf().map_err(|e| e.to_string())?.is_empty() {
                return Ok(0);
            }
            match decoder.init(&mut *source) {
                Ok(()) => *inside = true,
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped = std::io::copy(&mut source.take(length.into()), &mut std::io::sink());
                    skipped.map_err(|e| e.to_string())?;
                    continue;
                }
                Err(e) => return Err(format!("its zstd frame is damaged: {e}")),
            }
        }
        while decoder.can_collect() == 0 && !decoder.is_finished() {
            decoder
                .decode_blocks(&mut *source, BlockDecodingStrategy::UptoBlocks(1))
                .map_err(|e| format!("its zstd frame is damaged or cut off: {e}"))?;
        }
        let count = decoder.read(into).map_err(|e| e.to_string())?;
        if count > 0 {
            return Ok(count);
        }
        *inside = false;
    }
}
