//! The program's allocator: which blocks its calls return, and where it is called from.
//!
//! A call is seen at the first block of a function of the allocator, and its result at the first block after it, with the same
//! stack. Both are beginnings of blocks, where registers are known. Calls by the allocator itself (`operator new` calls `malloc`)
//! belong to the outermost one.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fathom_simulation::calls::{LOOKED_AT, is_return_point};
use fathom_simulation::protocol::{HeapSites, Mapping};
use fathom_simulation::{Allocator, HeapEvent, MAX_SITES};

use crate::registers::Registers;
use crate::session::lock;

/// Bytes of stack that an allocator uses, at most: what is called further away is not called by it.
const DEEPEST: u64 = 1 << 20;
/// Bytes of a page: what is before an address in its page can be read.
const PAGE: u64 = 4096;
/// Blocks are aligned to it, at least: twice the bytes of a pointer (malloc(3)), of the smallest pointers.
const ALIGNMENT: u64 = 8;

/// A call of the allocator that has not returned.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    /// Where it returns to.
    pc: u64,
    /// The stack when it was called.
    stack: u64,
    bytes: u64,
    /// The block that it replaces.
    old: u64,
    /// Where the block's address is stored; 0 if it is the result.
    stored: u64,
}

/// The sites: addresses to which calls return, and their numbers.
#[derive(Debug, Default)]
struct Sites {
    numbers: HashMap<u64, u32>,
    returns: Vec<u64>,
}

/// The allocator of the program.
#[derive(Debug)]
pub struct Heap {
    registers: Registers,
    sites: Mutex<Sites>,
    /// Whether the first result has been checked.
    checked: AtomicBool,
    /// Registers are not what they should be.
    wrong: AtomicBool,
    /// Calls whose return has not been seen.
    lost: AtomicU64,
}

impl Heap {
    /// Begins, with nothing allocated.
    ///
    /// # Errors
    /// QEMU does not tell registers.
    pub fn begin(target: &str) -> Result<Heap, String> {
        Ok(Heap {
            registers: Registers::of(target)?,
            sites: Mutex::default(),
            checked: AtomicBool::new(false),
            wrong: AtomicBool::new(false),
            lost: AtomicU64::new(0),
        })
    }

    /// A function of the allocator is called by a thread, whose address 0 is at `base` of this process. Returns what happens at once.
    pub fn called(
        &self,
        thread: u32,
        awaited: &mut Option<Awaited>,
        allocator: Allocator,
        base: u64,
    ) -> Option<HeapEvent> {
        if self.wrong.load(Ordering::Relaxed) {
            return None;
        }
        let of = self.registers.convention;
        let [first, second, third] = of.arguments;
        let [a, b, c, stack] = self.registers.get(thread, [first, second, third, of.stack])?;
        if let Some(outer) = *awaited {
            if outer.stack.wrapping_sub(stack) < DEEPEST {
                return None;
            }
            *awaited = None;
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        let (bytes, old, stored) = match allocator {
            Allocator::Free => return (a != 0).then_some(HeapEvent::Freed(a)),
            Allocator::Allocate(argument) => ([a, b, c][argument.min(2)], 0, 0),
            Allocator::Array => (a.saturating_mul(b), 0, 0),
            Allocator::Resize => (b, a, 0),
            Allocator::ResizeArray => (b.saturating_mul(c), a, 0),
            Allocator::Store => (c, 0, a),
        };
        let pc = match of.link {
            Some(link) => self.registers.get(thread, [link])?[0],
            // SAFETY: a call has just pushed it there.
            None => unsafe { word(base, stack, of.bytes) },
        };
        // The lowest bit of an address to return to tells that it is Thumb code.
        let pc = if of.bytes == 4 { pc & !1 } else { pc };
        *awaited = Some(Awaited { pc, stack, bytes, old, stored });
        None
    }

    /// A thread is where a call may return to. Returns what has happened. `mappings` returns the program's memory.
    pub fn returned(
        &self,
        thread: u32,
        awaited: &mut Option<Awaited>,
        pc: u64,
        base: u64,
        mappings: impl Fn() -> Vec<Mapping>,
    ) -> [Option<HeapEvent>; 2] {
        let Some(call) = awaited.filter(|call| call.pc == pc) else { return [None; 2] };
        let of = self.registers.convention;
        let popped = if of.link.is_none() { of.bytes as u64 } else { 0 };
        let Some([result, stack]) = self.registers.get(thread, [of.result, of.stack]) else {
            return [None; 2];
        };
        if stack != call.stack.wrapping_add(popped) {
            return [None; 2];
        }
        *awaited = None;
        let address = match (call.stored, result) {
            (0, address) => address,
            // SAFETY: the function has stored there and returned 0.
            (at, 0) => unsafe { word(base, at, of.bytes) },
            _ => 0,
        };
        if address == 0 {
            // There is no memory, or a block has been given back by resizing it to nothing.
            return [(call.old != 0 && call.bytes == 0).then_some(HeapEvent::Freed(call.old)), None];
        }
        if !self.is_plausible(address, call.bytes, mappings) {
            self.wrong.store(true, Ordering::Relaxed);
            return [None; 2];
        }
        let site = lock(&self.sites).number(pc);
        let new = HeapEvent::Allocated { address, bytes: call.bytes, site };
        [(call.old != 0).then_some(HeapEvent::Freed(call.old)), Some(new)]
    }

    /// Returns whether a block can be one: aligned, and the first one in memory of the program.
    fn is_plausible(&self, address: u64, bytes: u64, mappings: impl Fn() -> Vec<Mapping>) -> bool {
        let first = !self.checked.swap(true, Ordering::Relaxed);
        let end = address.saturating_add(bytes);
        let has = |of: &Mapping| of.start <= address && end <= of.end;
        address.is_multiple_of(ALIGNMENT) && (!first || mappings().iter().any(has))
    }

    /// Returns the sites.
    pub fn told(&self) -> HeapSites {
        let lost = self.lost.load(Ordering::Relaxed);
        let problem = if self.wrong.load(Ordering::Relaxed) {
            Some("the registers that this QEMU tells are not those of the calls of malloc".to_owned())
        } else {
            (lost > 0).then(|| format!("{lost} calls of the allocator did not return where they were made"))
        };
        HeapSites { returns: lock(&self.sites).returns.clone(), problem }
    }
}

impl Sites {
    fn number(&mut self, pc: u64) -> u32 {
        if let Some(&known) = self.numbers.get(&pc) {
            return known;
        }
        let next = self.returns.len() as u32;
        if next >= MAX_SITES - 1 {
            return MAX_SITES - 1;
        }
        self.returns.push(pc);
        self.numbers.insert(pc, next);
        next
    }
}

/// Returns whether a block that begins at `pc`, and in this process at `host`, is one that a call may return to.
pub fn may_return(target: &str, pc: u64, host: u64) -> bool {
    let known = (pc % PAGE).min(LOOKED_AT as u64);
    // SAFETY: QEMU has translated the code at `host` and tells where it is; the bytes before it are in the same page.
    let before = unsafe { std::slice::from_raw_parts((host - known) as *const u8, known as usize) };
    // At the beginning of a page it is not known what is before.
    before.len() < LOOKED_AT || is_return_point(target, pc, before)
}

/// Returns a number of the program's memory.
///
/// # Safety
/// The program can read it.
unsafe fn word(base: u64, address: u64, bytes: usize) -> u64 {
    let mut all = [0; 8];
    let from = base.wrapping_add(address) as *const u8;
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, all.as_mut_ptr(), bytes.min(8)) };
    u64::from_le_bytes(all)
}
