//! Versions of the data in memory and in cached lines.
//!
//! Each line has a version number, set by the writer of a transfer's data. A line is always written completely, piece
//! by piece, before it is read. Caches evict lines at any time, without notice. But nothing else happens to a line
//! between two events that concern it. So it is enough to test before each event whether it is still cached
//! ([`Contents::settle`]): if it was evicted earlier, memory would have the same version by now.

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
    /// log2 of the bytes of a line, the shortest of all levels.
    shift: u32,
    /// By line: the version in memory, and the cached one if the line is cached.
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

    /// Returns the offsets of its lines.
    pub fn places(&self) -> impl Iterator<Item = u64> + use<> {
        (0..self.bytes).step_by(1 << self.shift)
    }

    fn line(&self, at: u64) -> usize {
        (at >> self.shift) as usize
    }

    /// Updates a line for evictions since the last event. `now` returns its dirty state in the caches, `None` if
    /// uncached.
    pub fn settle(&mut self, at: u64, now: impl FnOnce() -> Option<bool>) {
        let line = self.line(at);
        let Some(held) = self.held[line] else { return };
        let now = now();
        if held.dirty && now != Some(true) {
            self.memory[line] = held.version;
        }
        self.held[line] = now.map(|dirty| CachedLine { dirty: dirty && held.dirty, ..held });
    }

    /// Loads on the CPU. `kept` is whether the line is cached afterwards. Returns the version read.
    pub fn read(&mut self, at: u64, kept: bool) -> u64 {
        let line = self.line(at);
        let held = self.held[line].unwrap_or(CachedLine { version: self.memory[line], dirty: false });
        self.held[line] = kept.then_some(held);
        held.version
    }

    /// Stores on the CPU. `held` is the line's dirty state in the caches afterwards, `None` if uncached.
    pub fn write(&mut self, at: u64, version: u64, held: Option<bool>) {
        let line = self.line(at);
        if held != Some(true) {
            self.memory[line] = version;
        }
        self.held[line] = held.map(|dirty| CachedLine { version, dirty });
    }

    /// Returns the version in memory.
    pub fn in_memory(&self, at: u64) -> u64 {
        self.memory[self.line(at)]
    }

    /// Returns the version that a device reads: the newest one if it is coherent, otherwise the one in memory.
    pub fn seen_by_device(&self, at: u64, coherent: bool) -> u64 {
        let line = self.line(at);
        let newest = self.held[line].filter(|_| coherent).map(|held| held.version);
        newest.unwrap_or(self.memory[line])
    }

    /// Writes by a device. The write of a coherent device removes the line from the caches. Otherwise they keep the old
    /// line, and write-back of a dirty line overwrites the device's data.
    pub fn write_by_device(&mut self, at: u64, version: u64, coherent: bool) {
        let line = self.line(at);
        self.memory[line] = version;
        if coherent {
            self.held[line] = None;
        }
    }

    /// Cleans and invalidates a line, as requested.
    pub fn maintain(&mut self, at: u64, clean: bool, invalidate: bool) {
        let line = self.line(at);
        let Some(held) = self.held[line] else { return };
        if held.dirty && clean {
            self.memory[line] = held.version;
        }
        // The last line of a buffer that ends inside a line is also cleaned, because it may contain other data.
        let cut = !self.bytes.is_multiple_of(1 << self.shift) && line + 1 == self.memory.len();
        if held.dirty && invalidate && cut {
            self.memory[line] = held.version;
        }
        self.held[line] = (!invalidate).then_some(CachedLine { dirty: held.dirty && !clean, ..held });
    }
}
