//! How much a subject sends, and how much of it is no line of the wire.

use fathom_probe::wire::Line;

/// Bytes that a subject sent.
#[derive(Debug, Default)]
pub(super) struct Noise {
    /// Those of no lines of the wire.
    pub(super) bytes: u64,
    /// All of them.
    pub(super) all: u64,
}

impl Noise {
    /// Counts a line; returns whether it is one of the wire.
    pub(super) fn receive(&mut self, line: &str) -> bool {
        let bytes = line.len() as u64 + 1;
        let sound = Line::parse(line).is_ok();
        self.all += bytes;
        self.bytes += if sound { 0 } else { bytes };
        sound
    }
}
