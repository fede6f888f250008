//! Calls of a program: which functions have called the one that executes, without registers and without frames.
//!
//! Each thread has a [`Stack`] that follows the ends of its blocks:
//!
//! - After a call (an instruction that keeps the address after it, `branches`) that does not go to that very address, the
//!   function that was entered is called by the one before, and the address is where it returns to.
//! - A return goes to one of the kept addresses: the calls above it are over. So a tail call replaces its function by another one,
//!   and both end with the next return.
//! - Another jump does so too, unless it stays within its function: a table of a `switch` may lead to a kept address.
//! - A jump into the middle of another function that has a symbol is `longjmp`, or an exception that is caught: the calls
//!   above the last call by that function are over. If the function has called itself, it may have been an earlier one.
//! - Everything else is in the same call: branches, tail calls, also those of stubs of the dynamic linker, a signal's handler,
//!   which is thus shown in place of the function that it has interrupted.
//!
//! A function is a symbol, or a section where none covers the code.
//!
//! A guest's kernel adds two things, both found at addresses of its symbols, as only AArch64's Linux has them (`special`, `tasks`):
//!
//! - An **exception** or interrupt begins at one of its vectors. It is called by the function that it has interrupted, and its calls and
//!   returns are its own until `ERET`, after which that function goes on.
//! - Each **task** has a stack of its own, which is changed where the kernel switches tasks.

mod branches;
mod return_points;
mod special;
mod stack;
mod tasks;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

pub use branches::Branch;
pub use return_points::{LOOKED_AT, is_return_point};
pub use special::Special;
pub use stack::{MAX_DEPTH, Stack};
pub use tasks::Tasks;

/// Sequences of calls that are told apart, at most.
pub const MAX_CALLS: usize = 1 << 20;

/// A block of instructions.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Its first address.
    pub first: u64,
    /// An address by which its function is named: the first, or that in the program's file.
    pub named: u64,
    /// The address after it.
    pub next: u64,
    /// Its instructions.
    pub instructions: u64,
    /// Number of its function.
    pub function: u32,
    /// Where it is in the function.
    pub entry: Entry,
    /// How it ends.
    pub branch: Branch,
    /// What else begins with it, if anything does.
    pub special: Option<Special>,
}

/// Where in its function a block begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// At its first instruction.
    Begin,
    /// Elsewhere.
    Middle,
    /// That is not known: no symbol covers it.
    Unknown,
}

/// What a thread has executed in a call, without what was called from there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Made {
    /// Number of the call.
    pub call: u32,
    /// Instructions.
    pub executed: u64,
    /// Loads and stores that repeat the access before, which no machine gets.
    pub repeated: [u64; 2],
}

/// A function that was called by a certain sequence of callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCounts {
    /// Number of the call that made it; it is smaller than its own. 0 if none did.
    pub caller: u32,
    /// Address of an instruction of the function.
    pub pc: u64,
    /// Instructions that were executed in it, without those in what it calls.
    pub executed: u64,
    /// Loads and stores that repeat the access before, which are not among the machines' counts.
    pub repeated: [u64; 2],
}

/// The calls of a program. Number 0 is what started its threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTree {
    /// By number.
    pub calls: Vec<CallCounts>,
    /// The most calls within one another.
    pub deepest: u64,
    /// Calls that are counted as their callers, because there are [`MAX_CALLS`].
    pub merged: u64,
    #[serde(skip)]
    functions: Vec<u32>,
    #[serde(skip)]
    numbers: FxHashMap<(u32, u32), u32>,
}

impl CallTree {
    /// Creates it without any call.
    #[must_use]
    pub fn new() -> CallTree {
        CallTree { calls: vec![CallCounts::default()], functions: vec![u32::MAX], ..CallTree::default() }
    }

    /// Returns the call of a block's function by a call: that call itself, if there is no room for another one.
    pub fn call(&mut self, caller: u32, block: &Block) -> u32 {
        // What a thread has begun with has a number of its own.
        let most = if caller == 0 { usize::MAX } else { MAX_CALLS };
        self.number(caller, block, most).unwrap_or(caller)
    }

    /// Returns the call of a block's function in place of another call of the same caller: that call, if there is no room.
    fn call_instead(&mut self, call: u32, block: &Block) -> u32 {
        let caller = self.caller(call);
        self.number(caller, block, MAX_CALLS).unwrap_or(call)
    }

    /// Returns the number of a call; `None` if it is not known, and `most` others are.
    fn number(&mut self, caller: u32, block: &Block, most: usize) -> Option<u32> {
        let next = self.calls.len() as u32;
        if let Some(known) = self.numbers.get(&(caller, block.function)) {
            return Some(*known);
        }
        if self.calls.len() >= most {
            self.merged += 1;
            return None;
        }
        self.numbers.insert((caller, block.function), next);
        self.calls.push(CallCounts { caller, pc: block.named, ..CallCounts::default() });
        self.functions.push(block.function);
        Some(next)
    }

    /// Returns the call that has made one.
    fn caller(&self, call: u32) -> u32 {
        self.calls[call as usize].caller
    }

    /// Returns the number of the function that is called.
    fn function(&self, call: u32) -> u32 {
        self.functions[call as usize]
    }

    /// Adds what a thread has made.
    pub fn add(&mut self, made: &Made) {
        let Some(of) = self.calls.get_mut(made.call as usize) else { return };
        of.executed += made.executed;
        (0..2).for_each(|kind| of.repeated[kind] += made.repeated[kind]);
    }

    /// Notes how deep a stack has been.
    pub fn reached(&mut self, depth: u64) {
        self.deepest = self.deepest.max(depth);
    }
}
