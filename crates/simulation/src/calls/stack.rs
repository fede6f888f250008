//! The calls that a thread is in.

use super::{Block, Branch, CallTree, Entry};

/// Calls within one another that are told apart. Those within the last one are counted as that one.
pub const MAX_DEPTH: usize = 256;
/// Calls whose return is waited for, at most: a stack of 8 MiB with 16 bytes for each. Further ones are no calls.
const MAX_FRAMES: usize = 1 << 19;

/// A call whose return is waited for.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// Where it returns to.
    to: u64,
    /// The call that has made it, and that one's function.
    caller: u32,
    function: u32,
}

/// The calls that a thread is in. The head of the module has the rules.
#[derive(Debug, Default)]
pub struct Stack {
    frames: Vec<Frame>,
    /// The call that executes; 0 before the first block.
    call: u32,
    /// Its function.
    function: u32,
    /// How the block before ends, and the address after it.
    end: Option<(Branch, u64)>,
    /// The most frames so far.
    deepest: usize,
}

impl Stack {
    /// Returns the call that executes.
    #[inline(always)]
    #[must_use]
    pub fn call(&self) -> u32 {
        self.call
    }

    /// Returns the most calls within one another so far.
    #[must_use]
    pub fn deepest(&self) -> u64 {
        self.deepest as u64
    }

    /// Notes a block that is executed, if it is in the same call as the one before. Returns false, and notes nothing, if that is not
    /// known: [`Stack::enter`] finds it.
    #[inline(always)]
    pub fn stays(&mut self, block: &Block) -> bool {
        match self.end {
            Some((Branch::Other, _)) if block.function == self.function => {}
            Some((_, next)) if block.function == self.function && block.first == next => {}
            _ => return false,
        }
        self.end = Some((block.branch, block.next));
        true
    }

    /// Notes a block that is executed.
    pub fn enter(&mut self, block: &Block, tree: &mut CallTree) {
        let is_other = block.function != self.function;
        match self.end.replace((block.branch, block.next)) {
            None => self.call = self.inner(block, tree),
            // Not taken, or what only asks for its address.
            Some((_, next)) if block.first == next && !is_other => {}
            Some((Branch::Call, next)) if block.first != next => self.push(next, block, tree),
            Some((Branch::Return, _)) => self.jump(block, tree),
            Some((Branch::Jump, _)) if is_other => self.jump(block, tree),
            Some(_) if is_other => self.replace(block, tree),
            Some(_) => {}
        }
        self.function = block.function;
    }

    /// Returns the call of a block's function by the last frame's call.
    fn inner(&self, block: &Block, tree: &mut CallTree) -> u32 {
        tree.call(self.frames.last().map_or(0, |frame| frame.caller), block)
    }

    fn push(&mut self, to: u64, block: &Block, tree: &mut CallTree) {
        if self.frames.len() >= MAX_FRAMES {
            return self.replace(block, tree);
        }
        self.frames.push(Frame { to, caller: self.call, function: self.function });
        self.deepest = self.deepest.max(self.frames.len());
        if self.frames.len() < MAX_DEPTH {
            self.call = tree.call(self.call, block);
        }
    }

    /// The same call goes on in another function.
    fn replace(&mut self, block: &Block, tree: &mut CallTree) {
        if self.frames.len() < MAX_DEPTH && tree.function(self.call) != block.function {
            self.call = tree.call(tree.caller(self.call), block);
        }
    }

    /// A return, or a jump to another function.
    fn jump(&mut self, block: &Block, tree: &mut CallTree) {
        let returned = self.frames.iter().rposition(|frame| frame.to == block.first);
        let caught = || {
            let into = block.entry == Entry::Middle && block.function != self.function;
            let of = |frame: &Frame| frame.function == block.function;
            if into { self.frames.iter().rposition(of) } else { None }
        };
        match returned.or_else(caught) {
            Some(at) => {
                self.call = self.frames[at].caller;
                self.frames.truncate(at);
                // The caller may have been a function whose place another one has taken.
                self.replace(block, tree);
            }
            None if block.function != self.function => self.replace(block, tree),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Branch::{Call, Jump, Other, Return};
    use super::*;

    /// Functions begin at multiples of 0x100, and have their number. A block has one instruction of 4 bytes.
    struct Thread {
        stack: Stack,
        tree: CallTree,
    }

    impl Thread {
        fn new() -> Thread {
            Thread { stack: Stack::default(), tree: CallTree::new() }
        }

        /// Executes at an address. Returns the functions of the calls, the first one of all first.
        fn at(&mut self, first: u64, branch: Branch) -> Vec<u32> {
            let entry = if first & 0xff == 0 { Entry::Begin } else { Entry::Middle };
            let function = (first >> 8) as u32;
            let block = Block { first, next: first + 4, instructions: 1, function, entry, branch };
            if !self.stack.stays(&block) {
                self.stack.enter(&block, &mut self.tree);
            }
            let (mut calls, mut at) = (Vec::new(), self.stack.call());
            while at != 0 {
                calls.insert(0, self.tree.function(at));
                at = self.tree.caller(at);
            }
            calls
        }
    }

    #[test]
    fn calls_and_returns() {
        let mut thread = Thread::new();
        assert_eq!(thread.at(0x100, Call), [1]);
        assert_eq!(thread.at(0x200, Call), [1, 2]);
        assert_eq!(thread.at(0x300, Return), [1, 2, 3]);
        assert_eq!(thread.at(0x204, Return), [1, 2]);
        assert_eq!(thread.at(0x104, Other), [1]);
        assert_eq!(thread.stack.deepest(), 2);
    }

    #[test]
    fn conditional_calls_and_returns_that_are_not_taken_are_none() {
        let mut thread = Thread::new();
        thread.at(0x100, Call);
        assert_eq!(thread.at(0x104, Call), [1]);
        assert_eq!(thread.at(0x200, Return), [1, 2]);
        assert_eq!(thread.at(0x204, Return), [1, 2]);
        assert_eq!(thread.at(0x108, Other), [1]);
    }

    /// A branch of the inner call to the address that it returns to is no return.
    #[test]
    fn recursion_that_jumps_over_its_own_call() {
        let mut thread = Thread::new();
        thread.at(0x100, Call);
        thread.at(0x200, Other);
        assert_eq!(thread.at(0x204, Call), [1, 2]);
        assert_eq!(thread.at(0x200, Other), [1, 2, 2]);
        assert_eq!(thread.at(0x208, Return), [1, 2, 2], "by a branch");
        assert_eq!(thread.at(0x208, Return), [1, 2]);
        assert_eq!(thread.at(0x104, Other), [1]);
        // The table of a switch may lead there, too.
        thread.at(0x108, Call);
        thread.at(0x204, Call);
        assert_eq!(thread.at(0x200, Jump), [1, 2, 2]);
        assert_eq!(thread.at(0x208, Return), [1, 2, 2]);
    }

    #[test]
    fn tail_calls_take_the_place_of_their_function() {
        for branch in [Other, Jump] {
            let mut thread = Thread::new();
            thread.at(0x100, Call);
            assert_eq!(thread.at(0x200, branch), [1, 2]);
            assert_eq!(thread.at(0x300, Call), [1, 3]);
            assert_eq!(thread.at(0x200, Return), [1, 3, 2]);
            assert_eq!(thread.at(0x304, Return), [1, 3]);
            assert_eq!(thread.at(0x104, Other), [1]);
        }
    }

    #[test]
    fn longjmp_ends_all_calls_above_its_function() {
        for branch in [Return, Jump] {
            let mut thread = Thread::new();
            for at in [0x100, 0x200, 0x300, 0x400] {
                thread.at(at, Call);
            }
            assert_eq!(thread.at(0x500, branch), [1, 2, 3, 4, 5]);
            assert_eq!(thread.at(0x280, Return), [1, 2]);
            assert_eq!(thread.at(0x104, Other), [1]);
        }
    }

    #[test]
    fn deep_calls_are_counted_as_the_last_that_is_told_apart() {
        let mut thread = Thread::new();
        let mut calls = thread.at(0x100, Call);
        for _ in 0..2 * MAX_DEPTH {
            calls = thread.at(0x200, Call);
        }
        assert_eq!(calls.len(), MAX_DEPTH);
        assert_eq!(thread.stack.deepest(), 2 * MAX_DEPTH as u64);
        thread.at(0x220, Return);
        for _ in 0..2 * MAX_DEPTH {
            calls = thread.at(0x204, Return);
        }
        assert_eq!(calls, [1, 2]);
        assert_eq!(thread.at(0x104, Other), [1]);
    }

    #[test]
    fn code_without_symbols_ends_no_calls() {
        let mut thread = Thread::new();
        thread.at(0x900, Call);
        thread.at(0x100, Call);
        thread.at(0x200, Jump);
        let block = |first, branch| Block {
            first,
            next: first + 4,
            instructions: 1,
            function: 9,
            entry: Entry::Unknown,
            branch,
        };
        thread.stack.enter(&block(0x950, Return), &mut thread.tree);
        assert_eq!(thread.at(0x104, Other), [9, 1], "it was a tail call");
    }
}
