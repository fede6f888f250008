//! Work of each stressor, in passes, in memory and on the CPU.

use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fathom_probe::load::{BlockMode, Stress, Stressor};

use super::allocator::Allocator;
use super::block::Block;
use super::disk::Disk;
use super::slots::{Slot, Tally};
use super::task::{Passes, Stage, WorkerError, WorkerOptions};
use crate::process::set_affinity;

/// Unit of reported lines, bytes: the line of every core that Fathom supports except the ARM1176.
pub(crate) const LINE_BYTES: u64 = 64;
/// Words per line.
const LINE_WORDS: usize = 8;
/// Work between two updates of the counts, bytes of memory: less than a millisecond.
const PIECE_BYTES: usize = 256 << 10;
/// Touches between two such updates: a page fault takes about a microsecond.
const PIECE_TOUCHES: usize = 1024;

/// Allocates everything that the work needs. Afterwards only what is allocated in each pass can fail.
pub(crate) fn prepare(options: &WorkerOptions) -> Result<Box<dyn Passes>, WorkerError> {
    let stressor = options.stressor;
    let bytes = usize::try_from(stressor.bytes).map_err(|_| memory(io::ErrorKind::OutOfMemory.into()))?;
    let page = rustix::param::page_size();
    Ok(match stressor.kind {
        Stress::Cpu => Box::new(Cpu(0x9e37_79b9_7f4a_7c15)),
        Stress::Io => Box::new(Io),
        Stress::Disk => Box::new(Disk::open(&options.directory, stressor.bytes)?),
        Stress::Vm | Stress::Malloc => Box::new(Vm::new(&stressor, bytes, page)?.warmed_up()?),
        Stress::Read => Box::new(Read(touched_block(bytes, page)?)),
        Stress::Write => Box::new(Write(touched_block(bytes, page)?, 0)),
        Stress::Copy => Box::new(Copy(touched_block(bytes, page)?)),
        Stress::Chase => Box::new(Chase { block: cycle(bytes)?, at: 0 }),
        Stress::Pages => Box::new(Pages { block: touched_block(bytes, page)?, page, sum: 0 }),
        Stress::Fault => {
            let block = Block::map(bytes).map_err(memory)?;
            block.base_pages();
            Box::new(Fault { block, bytes, page })
        }
        Stress::Unmap => Box::new(Unmap::new(options, bytes)?),
    })
}

fn memory(error: io::Error) -> WorkerError {
    WorkerError::new(Stage::Memory, &error)
}

/// Returns the number of lines in `bytes` contiguous bytes.
fn lines(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(LINE_BYTES)
}

/// Returns a block of base pages, all allocated and written: memory that was never written is one zero page.
fn touched_block(bytes: usize, page: usize) -> Result<Block, WorkerError> {
    let mut block = Block::map(bytes).map_err(memory)?;
    block.base_pages();
    block.mark(0..bytes, page);
    Ok(block)
}

/// Returns a block whose lines are one random cycle: the first word of each is the index of the next.
fn cycle(bytes: usize) -> Result<Block, WorkerError> {
    let mut block = Block::map(bytes).map_err(memory)?;
    let words = block.words();
    let count = words.len() / LINE_WORDS;
    (0..count).for_each(|line| words[line * LINE_WORDS] = (line * LINE_WORDS) as u64);
    // Sattolo's algorithm ("An algorithm to generate a random cyclic permutation", 1986): each line is swapped only
    // with an earlier one, which yields a single cycle.
    let mut random = 0x2545_f491_4f6c_dd1d;
    for line in (1..count).rev() {
        words.swap(line * LINE_WORDS, (next(&mut random) % line as u64) as usize * LINE_WORDS);
    }
    Ok(block)
}

/// Marsaglia's xorshift64 ("Xorshift RNGs", 2003).
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// `stress -c`.
struct Cpu(u64);

impl Passes for Cpu {
    fn pass(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        let roots = 1 << 16;
        for _ in 0..roots {
            black_box((black_box(next(&mut self.0)) as f64).sqrt());
        }
        tally.count_passes(roots);
        Ok(())
    }
}

/// `stress -i`.
struct Io;

impl Passes for Io {
    fn pass(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        rustix::fs::sync();
        tally.count_passes(1);
        Ok(())
    }
}

/// `stress --vm`: with a mapping per pass, or with its `malloc`.
struct Vm {
    bytes: usize,
    stride: usize,
    mode: BlockMode,
    source: Source,
}

enum Source {
    /// A mapping per pass, or one forever.
    Mapping(Option<Block>),
    /// glibc's allocator.
    Malloc(Allocator),
}

impl Vm {
    fn new(stressor: &Stressor, bytes: usize, page: usize) -> Result<Vm, WorkerError> {
        // An allocation that can never succeed fails before anything runs.
        drop(Block::map(bytes).map_err(memory)?);
        let source = match stressor.kind {
            Stress::Malloc => Source::Malloc(Allocator::new(bytes, page)),
            _ => Source::Mapping(None),
        };
        let stride = usize::try_from(stressor.stride).unwrap_or(bytes);
        Ok(Vm { bytes, stride, mode: stressor.mode, source })
    }

    /// Runs the passes in which a block that stays faults for the first time. `stress` usually runs for minutes,
    /// where they do not matter; a trial of a second would measure little else. (glibc's heap takes two,
    /// `allocator.rs`.)
    fn warmed_up(mut self) -> Result<Vm, WorkerError> {
        let is_kept = match (&mut self.source, self.mode) {
            (_, BlockMode::Kept) => true,
            (Source::Mapping(_), _) => false,
            // The first of the two only has to be freed.
            (Source::Malloc(allocator), _) => {
                allocator.allocate().map_err(memory)?;
                allocator.free();
                allocator.is_on_heap()
            }
        };
        if is_kept {
            self.run_pass(&mut Tally::new(&Slot::default()), Duration::ZERO)?;
        }
        Ok(self)
    }

    /// Runs one pass, with a sleep in its middle.
    fn run_pass(&mut self, tally: &mut Tally<'_>, sleep: Duration) -> Result<(), WorkerError> {
        let block = match &mut self.source {
            Source::Mapping(Some(block)) => block,
            Source::Mapping(none) => none.insert(Block::map(self.bytes).map_err(memory)?),
            Source::Malloc(allocator) => allocator.allocate().map_err(memory)?,
        };
        let piece = PIECE_TOUCHES.saturating_mul(self.stride);
        // One byte per touch. Strides below a line touch each line several times, but it is counted once.
        let count_piece = |tally: &mut Tally<'_>, from: usize| {
            let piece = piece.min(self.bytes - from);
            let touches = piece.div_ceil(self.stride) as u64;
            tally.count_lines(lines(piece).min(touches), touches);
        };
        for from in (0..self.bytes).step_by(piece) {
            block.mark(from..from.saturating_add(piece).min(self.bytes), self.stride);
            count_piece(tally, from);
        }
        if !sleep.is_zero() {
            tally.publish();
            std::thread::sleep(sleep);
        }
        for from in (0..self.bytes).step_by(piece) {
            if !block.has_marks(from..from.saturating_add(piece).min(self.bytes), self.stride) {
                return Err(WorkerError { stage: Stage::ReadBack, errno: 0 });
            }
            count_piece(tally, from);
        }
        if self.mode != BlockMode::Kept {
            match &mut self.source {
                Source::Mapping(block) => drop(block.take()),
                Source::Malloc(allocator) => allocator.free(),
            }
        }
        tally.count_pass();
        Ok(())
    }
}

impl Passes for Vm {
    fn pass(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        let sleep = match self.mode {
            BlockMode::Hold(seconds) => Duration::from_secs(seconds),
            BlockMode::Free | BlockMode::Kept => Duration::ZERO,
        };
        self.run_pass(tally, sleep)
    }
}

struct Read(Block);

impl Passes for Read {
    fn pass(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        for piece in self.0.words().chunks(PIECE_BYTES / 8) {
            let sum = black_box(piece).iter().fold(0, |sum: u64, word| sum.wrapping_add(*word));
            black_box(sum);
            tally.count_lines(lines(size_of_val(piece)), size_of_val(piece) as u64);
        }
        tally.count_pass();
        Ok(())
    }
}

struct Write(Block, u64);

impl Passes for Write {
    fn pass(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        self.1 += 1;
        for piece in self.0.words().chunks_mut(PIECE_BYTES / 8) {
            piece.fill(black_box(self.1));
            black_box(&mut *piece);
            tally.count_lines(lines(size_of_val(piece)), size_of_val(piece) as u64);
        }
        tally.count_pass();
        Ok(())
    }
}

struct Copy(Block);

impl Passes for Copy {
    fn pass(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        let words = self.0.words();
        let half = words.len() / 2;
        let (from, to) = words.split_at_mut(half);
        for (from, to) in from.chunks(PIECE_BYTES / 16).zip(to.chunks_mut(PIECE_BYTES / 16)) {
            to[..from.len()].copy_from_slice(black_box(from));
            black_box(&mut *to);
            // One half is read and the other is written.
            tally.count_lines(2 * lines(size_of_val(from)), 2 * size_of_val(from) as u64);
        }
        tally.count_pass();
        Ok(())
    }
}

struct Chase {
    block: Block,
    at: usize,
}

impl Passes for Chase {
    fn pass(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        let words = self.block.words();
        let mut left = words.len() / LINE_WORDS;
        while left > 0 {
            let loads = left.min(PIECE_TOUCHES);
            for _ in 0..loads {
                self.at = words[self.at] as usize;
            }
            black_box(self.at);
            tally.count_lines(loads as u64, 8 * loads as u64);
            left -= loads;
        }
        tally.count_pass();
        Ok(())
    }
}

struct Pages {
    block: Block,
    page: usize,
    sum: u64,
}

impl Passes for Pages {
    fn pass(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        let page = self.page / 8;
        let words = self.block.words();
        for (nth, pages) in words.chunks(PIECE_TOUCHES * page).enumerate() {
            let pages = black_box(pages);
            let count = pages.len() / page;
            for at in 0..count {
                // A different line of each page, so that they are not all in one set of each cache.
                let line = (nth * PIECE_TOUCHES + at) % (page / LINE_WORDS);
                self.sum = self.sum.wrapping_add(pages[at * page + line * LINE_WORDS]);
            }
            black_box(self.sum);
            tally.count_lines(count as u64, 8 * count as u64);
        }
        tally.count_pass();
        Ok(())
    }
}

struct Fault {
    block: Block,
    bytes: usize,
    page: usize,
}

impl Passes for Fault {
    fn pass(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        // In pieces, so that only one piece of memory is taken at a time and the mapping stays.
        let piece = PIECE_BYTES.max(self.page);
        for from in (0..self.bytes).step_by(piece) {
            let range = from..(from + piece).min(self.bytes);
            let touches = range.len().div_ceil(self.page) as u64;
            self.block.mark(range.clone(), self.page);
            self.block.release(range);
            tally.count_lines(touches, touches);
        }
        tally.count_pass();
        Ok(())
    }
}

/// Two threads of one process on two CPUs: an unmap by one requires a TLB shootdown on the other's CPU.
struct Unmap {
    bytes: usize,
    ended: Arc<AtomicBool>,
}

impl Unmap {
    fn new(options: &WorkerOptions, bytes: usize) -> Result<Unmap, WorkerError> {
        let ended = Arc::new(AtomicBool::new(false));
        let (flag, placement) = (Arc::clone(&ended), options.placement);
        let spin = move || {
            if let Some(placement) = placement {
                if placement.idle {
                    crate::rt_priority::set_idle();
                }
                let _ = set_affinity(&[placement.cpu]);
            }
            while !flag.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        let spawned = std::thread::Builder::new().stack_size(64 << 10).spawn(spin);
        spawned.map_err(|e| WorkerError::new(Stage::Thread, &e))?;
        Ok(Unmap { bytes, ended })
    }
}

impl Drop for Unmap {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl Passes for Unmap {
    fn pass(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        let mut page = Block::map(self.bytes).map_err(memory)?;
        page.mark(0..self.bytes, self.bytes);
        tally.count_lines(1, 1);
        drop(page);
        tally.count_pass();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
