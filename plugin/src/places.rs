//! The program's instructions: each has a number, and blocks count how often they are executed.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use fathom_simulation::calls::Entry;
use fathom_simulation::protocol::{Mapping, OTHER_PROGRAMS, Place, STACK};
use fathom_simulation::{Accessor, Allocator, Event, calls};

use crate::code::Functions;
use crate::in_files::InFiles;
use crate::regions::Regions;

/// DC ZVA of AArch64 (DDI 0487, C6.2: SYS #3, C7, C4, #1, Xt) without its register.
const DC_ZVA: u32 = 0xd50b_7420;

/// An instruction that begins a line.
#[derive(Debug)]
pub struct Line {
    pub pc: u64,
    pub bytes: u16,
    pub place: u32,
    /// Numbers of its first and last line.
    pub first: u64,
    pub last: u64,
}

impl Line {
    pub fn new(pc: u64, bytes: u64, place: u32, shift: u32) -> Line {
        let last = (pc + bytes.max(1) - 1) >> shift;
        Line { pc, bytes: bytes as u16, place, first: pc >> shift, last }
    }
}

/// An instruction that loads or stores, with the number of its loads and stores.
#[derive(Debug)]
pub struct Accesses {
    pub place: u32,
    /// Whose code it is.
    pub by: Accessor,
    /// Instructions of its block from it on, if a machine needs that ([`Places::count_in_blocks`]).
    pub rest: u32,
    counts: [UnsafeCell<u64>; 2],
}

// SAFETY: as for `Block`: several threads may add at the same time and lose counts; the report says so.
unsafe impl Sync for Accesses {}

impl Accesses {
    /// Counts a load or a store.
    #[inline(always)]
    pub fn add(&self, store: bool) {
        let count = self.counts[usize::from(store)].get();
        // SAFETY: as above; volatile, because other threads may write it.
        unsafe { count.write_volatile(count.read_volatile() + 1) };
    }

    fn counts(&self) -> [u64; 2] {
        // SAFETY: as above.
        [0, 1].map(|kind: usize| unsafe { self.counts[kind].get().read_volatile() })
    }
}

/// A block: its instructions, and how often it was executed.
#[derive(Debug)]
pub struct Block {
    executed: UnsafeCell<u64>,
    places: Vec<u32>,
}

// SAFETY: only QEMU's generated code writes the counter, and it is read when the program has ended or is stopped. Several
// threads may add at the same time and lose counts; the report says so.
unsafe impl Sync for Block {}

impl Block {
    pub fn new(places: Vec<u32>) -> Block {
        Block { executed: UnsafeCell::new(0), places }
    }

    fn count(&self) -> u64 {
        // SAFETY: as above; a volatile read, because other code writes it.
        unsafe { self.executed.get().read_volatile() }
    }
}

/// All that has been translated.
#[derive(Default)]
pub struct Places {
    numbers: HashMap<u64, u32>,
    pcs: Vec<u64>,
    /// By number, of the block that was translated last.
    accesses: Vec<&'static Accesses>,
    /// Those that are elsewhere in other blocks.
    elsewhere: Vec<&'static Accesses>,
    /// Whether they are told apart by where they are in their blocks.
    in_blocks: bool,
    /// Places whose stores QEMU does not tell.
    zeroing: Vec<u32>,
    blocks: Vec<&'static Block>,
    /// Host address of the program's address 0.
    base: u64,
    regions: Regions,
    functions: Functions,
    allocators: InFiles<Allocator>,
}

/// A marker in a block.
#[derive(Debug)]
pub struct Planted {
    /// What happens there.
    pub event: Event,
    /// Instructions of the block from the marker on.
    pub rest: u64,
}

impl Places {
    /// From now on, instructions have their places in blocks.
    pub fn count_in_blocks(&mut self) {
        self.in_blocks = true;
    }

    /// Returns an instruction, which gets its number at its first translation, and is kept for ever. `rest` instructions of its block
    /// begin with it.
    pub fn instruction(&mut self, pc: u64, code: &[u8], by: Accessor, rest: usize) -> &'static Accesses {
        self.numbered((pc, pc), clears_a_line(code), by, rest)
    }

    /// Returns what stands for all instructions of a guest's programs that are not told apart: those that clear lines, and others.
    pub fn of_others(&mut self, code: &[u8], rest: usize) -> &'static Accesses {
        let zeroing = clears_a_line(code);
        self.numbered((OTHER_PROGRAMS - u64::from(zeroing), OTHER_PROGRAMS), zeroing, Accessor::Others, rest)
    }

    fn numbered(
        &mut self,
        (key, pc): (u64, u64),
        zeroing: bool,
        by: Accessor,
        rest: usize,
    ) -> &'static Accesses {
        let rest = if self.in_blocks { rest as u32 } else { 0 };
        let next = self.pcs.len() as u32;
        let number = *self.numbers.entry(key).or_insert(next);
        let new = || -> &'static Accesses {
            let counts = [UnsafeCell::new(0), UnsafeCell::new(0)];
            Box::leak(Box::new(Accesses { place: number, by, rest, counts }))
        };
        if number == next {
            self.pcs.push(pc);
            self.accesses.push(new());
            if zeroing {
                self.zeroing.push(number);
            }
        } else if self.accesses[number as usize].rest != rest {
            self.elsewhere.push(std::mem::replace(&mut self.accesses[number as usize], new()));
        }
        self.accesses[number as usize]
    }

    /// Returns the marker at an address, which is kept for ever. `rest` instructions of its block begin there.
    pub fn marker(&mut self, pc: u64, rest: usize) -> Option<&'static Planted> {
        let event = self.regions.event(pc)?;
        Some(Box::leak(Box::new(Planted { event, rest: rest as u64 })))
    }

    /// Looks for marks in the file that has the code at an address, if that is not known. `moved` tells whether mappings have
    /// changed. Returns whether it has found any.
    ///
    /// # Errors
    /// There are too many regions.
    pub fn learn(&mut self, pc: u64, moved: bool) -> Result<bool, String> {
        if moved {
            self.regions.moved();
            self.functions.moved();
            self.allocators.moved();
        }
        if self.regions.knows(pc) {
            return Ok(false);
        }
        let mappings = self.mappings("");
        self.regions.learn(pc, &mappings)
    }

    /// Returns the function of an allocator that begins at an address. It is kept for ever, because code that has been generated
    /// points to it.
    pub fn allocator(&mut self, pc: u64) -> Option<&'static Allocator> {
        if !self.allocators.knows(pc) {
            // What cannot be read has no functions.
            let read =
                |file: &str| Ok::<_, Infallible>(Allocator::all_of(&std::fs::read(file).unwrap_or_default()));
            let Ok(_) = self.allocators.learn(pc, &mapped(self.base), read);
        }
        Some(Box::leak(Box::new(self.allocators.at(pc)?)))
    }

    /// Returns whether nothing has been translated yet.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns the names of the regions, by number.
    pub fn regions(&self) -> Vec<String> {
        self.regions.names()
    }

    /// Notes the distance of the program's addresses to the host's.
    pub fn based(&mut self, base: u64) {
        self.base = base;
    }

    /// Returns the host address of the program's address 0.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Keeps a line for ever, because code that has been generated points to it.
    pub fn keep_line(&mut self, line: Line) -> &'static Line {
        Box::leak(Box::new(line))
    }

    /// Keeps a block for ever. Returns the address of its counter.
    pub fn keep_block(&mut self, block: Block) -> *mut u64 {
        let block: &'static Block = Box::leak(Box::new(block));
        self.blocks.push(block);
        block.executed.get()
    }

    /// Returns the number of the function at an address, and where in it that is.
    pub fn function(&mut self, pc: u64) -> (u32, Entry) {
        let base = self.base;
        self.functions.of(pc, || mapped(base))
    }

    /// Keeps a block for ever, because code that has been generated points to it.
    pub fn keep_call_block(&mut self, block: calls::Block) -> &'static calls::Block {
        Box::leak(Box::new(block))
    }

    /// Returns the instructions with their counts.
    pub fn counted(&self) -> Vec<Place> {
        let mut all: Vec<Place> = self.pcs.iter().map(|&pc| Place { pc, ..Place::default() }).collect();
        for block in &self.blocks {
            let count = block.count();
            block.places.iter().for_each(|&place| all[place as usize].executed += count);
        }
        for accesses in self.accesses.iter().chain(&self.elsewhere) {
            let ([loads, stores], place) = (accesses.counts(), &mut all[accesses.place as usize]);
            place.loads += loads;
            place.stores += stores;
        }
        all
    }

    /// Returns executed instructions whose accesses QEMU does not tell. `target` is its name of the instruction set.
    pub fn unseen(&self, target: &str, counted: &[Place]) -> Vec<(String, u64)> {
        let zeroing: u64 = self.zeroing.iter().map(|&place| counted[place as usize].executed).sum();
        let told = target.starts_with("aarch64") && zeroing > 0;
        told.then(|| ("dc zva".to_owned(), zeroing)).into_iter().collect()
    }

    /// Returns what is in the memory of the program of this name.
    pub fn mappings(&self, program: &str) -> Vec<Mapping> {
        let memory = File::open("/proc/self/mem").ok();
        let mut all = mapped(self.base);
        let is_stack = |mapping: &Mapping| {
            let end = mapping.end.wrapping_add(self.base);
            mapping.file.is_empty() && memory.as_ref().is_some_and(|memory| ends_with(memory, end, program))
        };
        if let Some(stack) = all.iter_mut().find(|mapping| is_stack(mapping)) {
            STACK.clone_into(&mut stack.file);
        }
        all
    }
}

/// Returns whether an instruction of AArch64 is DC ZVA.
fn clears_a_line(code: &[u8]) -> bool {
    let word = code.first_chunk().map(|four| u32::from_le_bytes(*four));
    code.len() == 4 && word.is_some_and(|word| word & !31 == DC_ZVA)
}

/// Returns whether the memory before `end` ends with a text and zeros: the kernel, and QEMU's linux-user/elfload.c, put the
/// path of the program at the end of its stack.
fn ends_with(memory: &File, end: u64, text: &str) -> bool {
    let mut last = [0; 512];
    let from = end.saturating_sub(last.len() as u64);
    let read = memory.read_exact_at(&mut last, from);
    let length = last.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
    read.is_ok() && !text.is_empty() && last[..length].ends_with(text.as_bytes())
}

/// Returns what is in the program's memory, whose address 0 is at this one of the host.
fn mapped(base: u64) -> Vec<Mapping> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter_map(|line| mapping(line, base)).collect()
}

/// Reads a line of /proc/PID/maps (proc(5)).
fn mapping(line: &str, base: u64) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let offset = number(fields.nth(1)?)?;
    let file = fields.nth(2).unwrap_or_default().trim();
    let [start, end] = [number(start)?, number(end)?].map(|at| at.wrapping_sub(base));
    // Other names are those of QEMU's own memory.
    let file = if file.starts_with('/') { file } else { "" };
    Some(Mapping { start, end, offset, file: file.to_owned(), checksum: None })
}
