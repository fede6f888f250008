//! Which version of the data is where: in memory, and in lines that a cache holds.
//!
//! Data are told apart by a number for each line, which whoever writes a transfer's data gives it: a line is always
//! written whole, piece by piece, before anybody else reads it. Caches evict at any time and tell nobody; but nothing
//! else happens to a line between two events that concern it, so it is enough to ask, before each, whether it is
//! still held ([`Contents::settle`]): had it left earlier, memory would have the same version by now.

/// A line as a cache holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CachedLine {
    version: u64,
    dirty: bool,
}

/// The data of one region.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    bytes: u64,
    /// log2 of the bytes of a line, the narrowest there is.
    shift: u32,
    /// By line: what memory has, and what caches have where they hold it.
    memory: Vec<u64>,
    held: Vec<Option<CachedLine>>,
}

impl Contents {
    pub fn new(bytes: u64, shift: u32) -> Contents {
        let lines = bytes.div_ceil(1 << shift) as usize;
        Contents { bytes, shift, memory: vec![0; lines], held: vec![None; lines] }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where its lines begin.
    pub fn places(&self) -> impl Iterator<Item = u64> + use<> {
        (0..self.bytes).step_by(1 << self.shift)
    }

    fn line(&self, at: u64) -> usize {
        (at >> self.shift) as usize
    }

    /// Takes note of what has become of a line since the last event: `now` says whether caches hold it, and dirty.
    pub fn settle(&mut self, at: u64, now: impl FnOnce() -> Option<bool>) {
        let line = self.line(at);
        let Some(held) = self.held[line] else { return };
        let now = now();
        if held.dirty && now != Some(true) {
            self.memory[line] = held.version;
        }
        self.held[line] = now.map(|dirty| CachedLine { dirty: dirty && held.dirty, ..held });
    }

    /// The CPU has loaded it, through caches that hold it afterwards or not: what it found.
    pub fn read(&mut self, at: u64, kept: bool) -> u64 {
        let line = self.line(at);
        let held = self.held[line].unwrap_or(CachedLine { version: self.memory[line], dirty: false });
        self.held[line] = kept.then_some(held);
        held.version
    }

    /// The CPU has stored to it; whether caches hold it afterwards, and dirty.
    pub fn write(&mut self, at: u64, version: u64, held: Option<bool>) {
        let line = self.line(at);
        if held != Some(true) {
            self.memory[line] = version;
        }
        self.held[line] = held.map(|dirty| CachedLine { version, dirty });
    }

    /// What memory has.
    pub fn in_memory(&self, at: u64) -> u64 {
        self.memory[self.line(at)]
    }

    /// What a device finds: the newest there is where caches see it, else what memory has.
    pub fn of_device(&self, at: u64, seen: bool) -> u64 {
        let line = self.line(at);
        let newest = self.held[line].filter(|_| seen).map(|held| held.version);
        newest.unwrap_or(self.memory[line])
    }

    /// A device has written it. Where caches see that, they have let go of it; where not, they continue holding what they
    /// had, and what is dirty of that will be written over it.
    pub fn written_by_device(&mut self, at: u64, version: u64, seen: bool) {
        let line = self.line(at);
        self.memory[line] = version;
        if seen {
            self.held[line] = None;
        }
    }

    /// Maintenance by line.
    pub fn maintain(&mut self, at: u64, clean: bool, invalidate: bool) {
        let line = self.line(at);
        let Some(held) = self.held[line] else { return };
        if held.dirty && clean {
            self.memory[line] = held.version;
        }
        // The last line of a buffer that ends within it is cleaned too, as others' data may lie there.
        let cut = !self.bytes.is_multiple_of(1 << self.shift) && line + 1 == self.memory.len();
        if held.dirty && invalidate && cut {
            self.memory[line] = held.version;
        }
        self.held[line] = (!invalidate).then_some(CachedLine { dirty: held.dirty && !clean, ..held });
    }
}
