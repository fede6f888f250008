//! Counter of the bytes that a subject sends, and of those outside the protocol.

use fathom_probe::wire::Line;

/// Bytes sent by a subject.
#[derive(Debug, Default)]
pub(super) struct Noise {
    /// Bytes of lines outside the protocol.
    pub(super) bytes: u64,
    /// All bytes.
    pub(super) all: u64,
}

impl Noise {
    /// Counts a line; returns whether it belongs to the protocol.
    pub(super) fn receive(&mut self, line: &str) -> bool {
        let bytes = line.len() as u64 + 1;
        let sound = Line::parse(line).is_ok();
        self.all += bytes;
        self.bytes += if sound { 0 } else { bytes };
        sound
    }
}
