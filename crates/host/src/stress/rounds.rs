//! What a worker does, round after round, in memory and on the CPU.

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
use super::task::{Rounds, Stage, WorkerError, WorkerOptions};
use crate::process::set_affinity;

/// The unit of lines in what is reported, bytes: the line of every core that Fathom is built for but the ARM1176.
pub(crate) const LINE: u64 = 64;
/// Words of a line.
const WORDS: usize = 8;
/// What is done between two looks at the counts, bytes of memory: nothing that takes longer than a millisecond.
const PIECE: usize = 256 << 10;
/// Touches between two such looks: a page fault takes about a microsecond.
const TOUCHES: usize = 1024;

/// Takes what the work needs: afterwards nothing more can be refused but what is taken again in each round.
pub(crate) fn prepare(options: &WorkerOptions) -> Result<Box<dyn Rounds>, WorkerError> {
    let stressor = options.stressor;
    let bytes = usize::try_from(stressor.bytes).map_err(|_| memory(io::ErrorKind::OutOfMemory.into()))?;
    let page = rustix::param::page_size();
    Ok(match stressor.kind {
        Stress::Cpu => Box::new(Cpu(0x9e37_79b9_7f4a_7c15)),
        Stress::Io => Box::new(Io),
        Stress::Disk => Box::new(Disk::open(&options.directory, stressor.bytes)?),
        Stress::Vm | Stress::Malloc => Box::new(Vm::new(&stressor, bytes, page)?.settled()?),
        Stress::Read => Box::new(Read(touched(bytes, page)?)),
        Stress::Write => Box::new(Write(touched(bytes, page)?, 0)),
        Stress::Copy => Box::new(Copy(touched(bytes, page)?)),
        Stress::Chase => Box::new(Chase { block: cycle(bytes)?, at: 0 }),
        Stress::Pages => Box::new(Pages { block: touched(bytes, page)?, page, sum: 0 }),
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

/// Lines of `bytes` bytes that lie together.
fn lines(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(LINE)
}

/// A block of base pages each of which is there and holds something of its own: memory that was never written to is
/// one page of zeros.
fn touched(bytes: usize, page: usize) -> Result<Block, WorkerError> {
    let mut block = Block::map(bytes).map_err(memory)?;
    block.base_pages();
    block.mark(0..bytes, page);
    Ok(block)
}

/// A block whose lines are one random cycle: the first word of each names the next one's place.
fn cycle(bytes: usize) -> Result<Block, WorkerError> {
    let mut block = Block::map(bytes).map_err(memory)?;
    let words = block.words();
    let count = words.len() / WORDS;
    (0..count).for_each(|line| words[line * WORDS] = (line * WORDS) as u64);
    // Sattolo's algorithm ("An algorithm to generate a random cyclic permutation", 1986): exchanged only with
    // those before it, the lines end as one cycle.
    let mut random = 0x2545_f491_4f6c_dd1d;
    for line in (1..count).rev() {
        words.swap(line * WORDS, (next(&mut random) % line as u64) as usize * WORDS);
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

impl Rounds for Cpu {
    fn round(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        let roots = 1 << 16;
        for _ in 0..roots {
            black_box((black_box(next(&mut self.0)) as f64).sqrt());
        }
        tally.passes(roots);
        Ok(())
    }
}

/// `stress -i`.
struct Io;

impl Rounds for Io {
    fn round(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        rustix::fs::sync();
        tally.passes(1);
        Ok(())
    }
}

/// `stress --vm`: as its text says, or as its `malloc` does.
struct Vm {
    bytes: usize,
    stride: usize,
    mode: BlockMode,
    source: Source,
}

enum Source {
    /// A mapping each round, or one forever.
    Maps(Option<Block>),
    /// glibc's allocator.
    Mallocs(Allocator),
}

impl Vm {
    fn new(stressor: &Stressor, bytes: usize, page: usize) -> Result<Vm, WorkerError> {
        // What cannot be had at all is known before anything runs.
        drop(Block::map(bytes).map_err(memory)?);
        let source = match stressor.kind {
            Stress::Malloc => Source::Mallocs(Allocator::new(bytes, page)),
            _ => Source::Maps(None),
        };
        let stride = usize::try_from(stressor.stride).unwrap_or(bytes);
        Ok(Vm { bytes, stride, mode: stressor.mode, source })
    }

    /// With the rounds behind it in which a block that stays faults for the first time: who runs `stress` for minutes
    /// does not see them, and a trial of a second would see little else. (glibc's heap takes two, `allocator.rs`.)
    fn settled(mut self) -> Result<Vm, WorkerError> {
        let stays = match (&mut self.source, self.mode) {
            (_, BlockMode::Kept) => true,
            (Source::Maps(_), _) => false,
            // In the first of the two it is enough to be freed.
            (Source::Mallocs(allocator), _) => {
                allocator.allocate().map_err(memory)?;
                allocator.free();
                allocator.keeps()
            }
        };
        if stays {
            self.once(&mut Tally::new(&Slot::default()), Duration::ZERO)?;
        }
        Ok(self)
    }

    /// A round, with a sleep in its middle.
    fn once(&mut self, tally: &mut Tally<'_>, sleep: Duration) -> Result<(), WorkerError> {
        let block = match &mut self.source {
            Source::Maps(Some(block)) => block,
            Source::Maps(none) => none.insert(Block::map(self.bytes).map_err(memory)?),
            Source::Mallocs(allocator) => allocator.allocate().map_err(memory)?,
        };
        let piece = TOUCHES.saturating_mul(self.stride);
        // One byte a touch; strides below a line touch each line often, and it is counted once.
        let tell = |tally: &mut Tally<'_>, from: usize| {
            let piece = piece.min(self.bytes - from);
            let touches = piece.div_ceil(self.stride) as u64;
            tally.touched(lines(piece).min(touches), touches);
        };
        for from in (0..self.bytes).step_by(piece) {
            block.mark(from..from.saturating_add(piece).min(self.bytes), self.stride);
            tell(tally, from);
        }
        if !sleep.is_zero() {
            tally.tell();
            std::thread::sleep(sleep);
        }
        for from in (0..self.bytes).step_by(piece) {
            if !block.marked(from..from.saturating_add(piece).min(self.bytes), self.stride) {
                return Err(WorkerError { stage: Stage::ReadBack, errno: 0 });
            }
            tell(tally, from);
        }
        if self.mode != BlockMode::Kept {
            match &mut self.source {
                Source::Maps(block) => drop(block.take()),
                Source::Mallocs(allocator) => allocator.free(),
            }
        }
        tally.pass();
        Ok(())
    }
}

impl Rounds for Vm {
    fn round(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        let sleep = match self.mode {
            BlockMode::Hang(seconds) => Duration::from_secs(seconds),
            BlockMode::Free | BlockMode::Kept => Duration::ZERO,
        };
        self.once(tally, sleep)
    }
}

struct Read(Block);

impl Rounds for Read {
    fn round(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        for piece in self.0.words().chunks(PIECE / 8) {
            let sum = black_box(piece).iter().fold(0, |sum: u64, word| sum.wrapping_add(*word));
            black_box(sum);
            tally.touched(lines(size_of_val(piece)), size_of_val(piece) as u64);
        }
        tally.pass();
        Ok(())
    }
}

struct Write(Block, u64);

impl Rounds for Write {
    fn round(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        self.1 += 1;
        for piece in self.0.words().chunks_mut(PIECE / 8) {
            piece.fill(black_box(self.1));
            black_box(&mut *piece);
            tally.touched(lines(size_of_val(piece)), size_of_val(piece) as u64);
        }
        tally.pass();
        Ok(())
    }
}

struct Copy(Block);

impl Rounds for Copy {
    fn round(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        let words = self.0.words();
        let half = words.len() / 2;
        let (from, to) = words.split_at_mut(half);
        for (from, to) in from.chunks(PIECE / 16).zip(to.chunks_mut(PIECE / 16)) {
            to[..from.len()].copy_from_slice(black_box(from));
            black_box(&mut *to);
            // Read here and written there.
            tally.touched(2 * lines(size_of_val(from)), 2 * size_of_val(from) as u64);
        }
        tally.pass();
        Ok(())
    }
}

struct Chase {
    block: Block,
    at: usize,
}

impl Rounds for Chase {
    fn round(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        let words = self.block.words();
        let mut left = words.len() / WORDS;
        while left > 0 {
            let loads = left.min(TOUCHES);
            for _ in 0..loads {
                self.at = words[self.at] as usize;
            }
            black_box(self.at);
            tally.touched(loads as u64, 8 * loads as u64);
            left -= loads;
        }
        tally.pass();
        Ok(())
    }
}

struct Pages {
    block: Block,
    page: usize,
    sum: u64,
}

impl Rounds for Pages {
    fn round(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        let page = self.page / 8;
        let words = self.block.words();
        for (nth, pages) in words.chunks(TOUCHES * page).enumerate() {
            let pages = black_box(pages);
            let count = pages.len() / page;
            for at in 0..count {
                // Another line of each page, so that they do not all fall into one set of each cache.
                let line = (nth * TOUCHES + at) % (page / WORDS);
                self.sum = self.sum.wrapping_add(pages[at * page + line * WORDS]);
            }
            black_box(self.sum);
            tally.touched(count as u64, 8 * count as u64);
        }
        tally.pass();
        Ok(())
    }
}

struct Fault {
    block: Block,
    bytes: usize,
    page: usize,
}

impl Rounds for Fault {
    fn round(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        // In pieces, so that the memory taken is one piece and the mapping stays.
        let piece = PIECE.max(self.page);
        for from in (0..self.bytes).step_by(piece) {
            let range = from..(from + piece).min(self.bytes);
            let touches = range.len().div_ceil(self.page) as u64;
            self.block.mark(range.clone(), self.page);
            self.block.give_back(range);
            tally.touched(touches, touches);
        }
        tally.pass();
        Ok(())
    }
}

/// Two threads of one process on two CPUs: what one unmaps, the other's CPU has to forget.
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

impl Rounds for Unmap {
    fn round(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        let mut page = Block::map(self.bytes).map_err(memory)?;
        page.mark(0..self.bytes, self.bytes);
        tally.touched(1, 1);
        drop(page);
        tally.pass();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
