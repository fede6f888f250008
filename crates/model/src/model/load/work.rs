//! Work of each stressor, as the probe's workers on Linux do it (`crates/host/src/stress/rounds.rs`).

use fathom_probe::chain::{Chain, Layout, Order};
use fathom_probe::load::{BlockMode, Stress, Stressor};

use crate::arena::Cursor;
use crate::rng::{Rng, Use};

/// Unit of counted lines, bytes, as on a host.
pub(super) const LINE_BYTES: u64 = 64;
/// Bytes of an access of `read`, `write` and `copy`: the vector registers that a compiler uses for them.
pub(super) const WIDTH: u64 = 16;
/// Bytes of a link of `chase` and of a word that `pages` loads.
const WORD: u64 = 8;
/// Memory that `fault` touches before it releases it, bytes.
const PIECE_BYTES: u64 = 256 << 10;
/// Initial threshold of glibc's `malloc` from which a block is mapped (mallopt(3), `DEFAULT_MMAP_THRESHOLD`).
const MMAP_THRESHOLD: u64 = 128 << 10;
/// Largest mapped block whose release raises it (`DEFAULT_MMAP_THRESHOLD_MAX` on 64-bit systems).
const MMAP_THRESHOLD_MAX: u64 = 32 << 20;
/// Size field in front of a block of `malloc`, bytes.
const HEADER: u64 = 8;

/// The next act of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Accesses a line.
    Touch(Access),
    /// Releases the page of an offset.
    Release { offset: u64 },
    /// Computes until its turn ends.
    Compute,
    /// Sleeps.
    Sleep { seconds: u64 },
}

/// Accesses to one line of the nearest data level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    /// Offset of the first in the block.
    pub offset: u64,
    pub store: bool,
    /// Bytes of each.
    pub width: u64,
    /// Further accesses to the same line, and bytes from one to the next.
    pub repeats: u64,
    pub step: u64,
}

impl Access {
    fn one(offset: u64, store: bool, width: u64) -> Access {
        Access { offset, store, width, repeats: 0, step: 0 }
    }

    /// Returns the offset of the last access.
    pub fn last(&self) -> u64 {
        self.offset + self.repeats * self.step
    }
}

/// The work of a worker and its position in it.
#[derive(Clone, Debug)]
pub(super) struct Work {
    kind: Kind,
    /// Bytes of the block, of a page, and of a line of the nearest data level.
    bytes: u64,
    page: u64,
    line: u64,
    /// Position in the current phase: an offset, or for `pages` a number.
    at: u64,
    /// Passes whose last act has been returned.
    pub passes: u64,
}

#[derive(Clone, Debug)]
enum Kind {
    Compute,
    Block { stride: u64, hold: u64, unmaps: bool, phase: Phase },
    Read,
    Write,
    Copy { stores: bool },
    Chase(Box<Cursor>),
    Pages,
    Fault { releases: bool },
}

/// Phase of a pass over a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Write,
    Hold,
    ReadBack,
    Unmap,
}

/// Returns whether glibc's `malloc` keeps a block of this size on its heap after the first pass, so that its pages stay
/// (`crates/host/src/stress/allocator.rs`). The first pass is not part of a trial.
fn stays_on_heap(bytes: u64, page: u64) -> bool {
    let request = (bytes + HEADER).next_multiple_of(2 * HEADER);
    request < MMAP_THRESHOLD || (request + HEADER).next_multiple_of(page) <= MMAP_THRESHOLD_MAX
}

impl Work {
    /// Creates the work of a worker. `seed` is the model's seed and the worker's number. Kinds that no description
    /// supports are refused before this.
    pub fn new(stressor: &Stressor, page: u64, line: u64, seed: (u64, u64)) -> Work {
        let kind = match stressor.kind {
            Stress::Vm | Stress::Malloc => {
                let hold = match stressor.mode {
                    BlockMode::Hold(seconds) => seconds,
                    BlockMode::Free | BlockMode::Kept => 0,
                };
                let heap = stressor.kind == Stress::Malloc && stays_on_heap(stressor.bytes, page);
                let unmaps = stressor.mode != BlockMode::Kept && !heap;
                Kind::Block { stride: stressor.stride.max(1), hold, unmaps, phase: Phase::Write }
            }
            Stress::Read => Kind::Read,
            Stress::Write => Kind::Write,
            Stress::Copy => Kind::Copy { stores: false },
            Stress::Chase => Kind::Chase(Box::new(cycle(stressor.bytes, seed))),
            Stress::Pages => Kind::Pages,
            Stress::Fault => Kind::Fault { releases: false },
            Stress::Cpu | Stress::Io | Stress::Disk | Stress::Unmap => Kind::Compute,
        };
        Work { kind, bytes: stressor.bytes, page, line, at: 0, passes: 0 }
    }

    /// Returns whether its pages are mapped before it begins and stay.
    pub fn keeps_pages(&self) -> bool {
        !matches!(self.kind, Kind::Block { unmaps: true, .. } | Kind::Fault { .. })
    }

    /// Returns the next act.
    pub fn next(&mut self) -> Act {
        match self.kind {
            Kind::Compute => Act::Compute,
            Kind::Block { .. } => self.next_of_block(),
            Kind::Read => Act::Touch(self.next_line(0, self.bytes, false)),
            Kind::Write => Act::Touch(self.next_line(0, self.bytes, true)),
            Kind::Copy { stores } => {
                self.kind = Kind::Copy { stores: !stores };
                let half = self.bytes / 2 / self.line * self.line;
                Act::Touch(match stores {
                    // The position advances when the line has been stored.
                    false => self.line_at(self.wrapped(half), false),
                    true => self.next_line(half, half, true),
                })
            }
            Kind::Chase(ref mut cursor) => {
                let offset = cursor.offset;
                cursor.advance();
                self.at += 1;
                if self.at == cursor.chain.cells() {
                    (self.at, self.passes) = (0, self.passes + 1);
                }
                Act::Touch(Access::one(offset, false, WORD))
            }
            Kind::Pages => {
                // A different line of each page, so that they are not all in one set of each cache.
                let line = self.at % (self.page / LINE_BYTES);
                let offset = self.at * self.page + line * LINE_BYTES;
                self.at += 1;
                if self.at >= self.bytes / self.page {
                    (self.at, self.passes) = (0, self.passes + 1);
                }
                Act::Touch(Access::one(offset, false, WORD))
            }
            Kind::Fault { releases } => self.next_of_fault(releases),
        }
    }

    /// Returns the accesses to a whole line.
    fn line_at(&self, offset: u64, store: bool) -> Access {
        Access { offset, store, width: WIDTH, repeats: self.line / WIDTH - 1, step: WIDTH }
    }

    /// Returns the position in `bytes` bytes; 0 if no whole line is left.
    fn wrapped(&self, bytes: u64) -> u64 {
        if self.at + self.line <= bytes { self.at } else { 0 }
    }

    /// Returns the accesses to the next whole line of `bytes` bytes from `start` on, again and again.
    fn next_line(&mut self, start: u64, bytes: u64, store: bool) -> Access {
        let at = self.wrapped(bytes);
        let access = self.line_at(start + at, store);
        self.at = at + self.line;
        if self.at + self.line > bytes {
            (self.at, self.passes) = (0, self.passes + 1);
        }
        access
    }

    /// Returns the next act on a block that is written, read back and possibly unmapped.
    fn next_of_block(&mut self) -> Act {
        let Kind::Block { stride, hold, unmaps, ref mut phase } = self.kind else { return Act::Compute };
        let act = match *phase {
            Phase::Hold => {
                self.at = self.bytes;
                Act::Sleep { seconds: hold }
            }
            Phase::Unmap => {
                let offset = self.at;
                self.at += self.page;
                Act::Release { offset }
            }
            Phase::Write | Phase::ReadBack => {
                // Small strides touch a line several times.
                let end = (self.at / self.line * self.line + self.line).min(self.bytes);
                let repeats = (end - 1 - self.at) / stride;
                let store = *phase == Phase::Write;
                let access = Access { offset: self.at, store, width: 1, repeats, step: stride };
                self.at += (repeats + 1) * stride;
                Act::Touch(access)
            }
        };
        if self.at >= self.bytes {
            self.at = 0;
            *phase = match *phase {
                Phase::Write if hold > 0 => Phase::Hold,
                Phase::Write | Phase::Hold => Phase::ReadBack,
                Phase::ReadBack if unmaps => Phase::Unmap,
                Phase::ReadBack | Phase::Unmap => Phase::Write,
            };
            self.passes += u64::from(*phase == Phase::Write);
        }
        act
    }

    /// Returns the next act on a mapping whose pages are released piece by piece.
    fn next_of_fault(&mut self, releases: bool) -> Act {
        let piece = PIECE_BYTES.max(self.page);
        let offset = self.at;
        let begin = offset / piece * piece;
        let end = (begin + piece).min(self.bytes);
        self.at += self.page;
        if self.at >= end {
            // After the touches the releases of the same piece, then the next piece.
            self.kind = Kind::Fault { releases: !releases };
            self.at = if releases { end } else { begin };
            if self.at >= self.bytes {
                (self.at, self.passes) = (0, self.passes + 1);
            }
        }
        if releases { Act::Release { offset } } else { Act::Touch(Access::one(offset, true, 1)) }
    }
}

/// Returns the start of a random cycle over the lines of a block.
fn cycle(bytes: u64, (seed, number): (u64, u64)) -> Cursor {
    let key = Rng::new(seed, Use::LoadOrder, number).next();
    let chain = Chain::new(0, bytes / LINE_BYTES, LINE_BYTES, Layout::Packed, Order::Random, key);
    Cursor { offset: chain.at(0), position: 0, chain }
}
