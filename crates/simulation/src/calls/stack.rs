//! The calls that a thread is in.

use super::{Block, Branch, CallTree, Entry, Special};

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

/// The block before the one that is executed: how it ends, its first address, and the address after it.
#[derive(Clone, Copy, Debug)]
struct End {
    branch: Branch,
    first: u64,
    next: u64,
}

/// What an exception has interrupted.
#[derive(Clone, Copy, Debug)]
struct Interrupted {
    /// Frames that are not those of the exception.
    depth: usize,
    end: Option<End>,
    call: u32,
    function: u32,
}

/// The calls that a thread, or a task of a guest, is in. The head of the module has the rules.
#[derive(Debug, Default)]
pub struct Stack {
    frames: Vec<Frame>,
    /// What exceptions have interrupted, the last one at the end. Frames before it are not those of the exception.
    interrupted: Vec<Interrupted>,
    /// The call that executes; 0 before the first block.
    call: u32,
    /// Its function.
    function: u32,
    end: Option<End>,
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
            _ if block.special.is_some() => return false,
            Some(End { branch: Branch::Other, .. }) if block.function == self.function => {}
            Some(End { next, .. }) if block.function == self.function && block.first == next => {}
            _ => return false,
        }
        self.end = Some(end_of(block));
        true
    }

    /// Notes a block that is executed.
    pub fn enter(&mut self, block: &Block, tree: &mut CallTree) {
        // An interrupt may come before anything else is executed.
        if self.end.is_some_and(|end| end.branch == Branch::Resume) {
            self.resume();
        }
        match block.special {
            Some(special @ (Special::Synchronous | Special::Interrupt)) => {
                return self.interrupt(special, block, tree);
            }
            Some(Special::NewTask) => *self = Stack { deepest: self.deepest, ..Stack::default() },
            Some(Special::NewProgram) => self.begin_program(),
            None => {}
        }
        self.follow(block, tree);
    }

    fn follow(&mut self, block: &Block, tree: &mut CallTree) {
        let is_other = block.function != self.function;
        match self.end.replace(end_of(block)) {
            None => self.call = self.inner(block, tree),
            // Not taken, or what only asks for its address.
            Some(End { next, .. }) if block.first == next && !is_other => {}
            // Within the block before: that has not come to its end, and goes on here.
            Some(End { first, next, .. }) if first < block.first && block.first < next => {}
            Some(End { branch: Branch::Call, next, .. }) if block.first != next => {
                self.push(next, block, tree)
            }
            Some(End { branch: Branch::Return, .. }) => self.jump(block, tree),
            Some(End { branch: Branch::Jump, .. }) if is_other => self.jump(block, tree),
            Some(_) if is_other => self.replace(block, tree),
            Some(_) => {}
        }
        self.function = block.function;
    }

    /// An exception begins, whose calls are those of what it interrupts.
    fn interrupt(&mut self, exception: Special, block: &Block, tree: &mut CallTree) {
        // A block that an instruction has cut off has no branch.
        let end = match exception {
            Special::Synchronous => self.end.map(|end| End { branch: Branch::Other, ..end }),
            _ => self.end,
        };
        let (call, function) = (self.call, self.function);
        if self.interrupted.len() >= MAX_FRAMES {
            // Of a kernel that does not return from them.
            self.interrupted.clear();
        }
        self.interrupted.push(Interrupted { depth: self.frames.len(), end, call, function });
        if self.depth() < MAX_DEPTH {
            self.call = tree.call(self.call, block);
        }
        (self.function, self.end) = (block.function, Some(end_of(block)));
    }

    /// An exception is over: what it has interrupted goes on. Without one, as where a new task begins, nothing is known.
    fn resume(&mut self) {
        let before = Interrupted { depth: 0, end: None, call: 0, function: 0 };
        let Interrupted { depth, end, call, function } = self.interrupted.pop().unwrap_or(before);
        // Another program has nothing of the one before.
        self.frames.truncate(if end.is_some() { depth } else { 0 });
        (self.end, self.call, self.function) = (end, call, function);
    }

    /// The task becomes another program: what was interrupted outside of the kernel does not go on.
    fn begin_program(&mut self) {
        if let Some(outermost) = self.interrupted.first_mut() {
            (outermost.end, outermost.call) = (None, 0);
        }
    }

    /// Returns the call of a block's function by the last frame's call.
    fn inner(&self, block: &Block, tree: &mut CallTree) -> u32 {
        tree.call(self.own().last().map_or(0, |frame| frame.caller), block)
    }

    /// Returns the frames of the last exception; all, if there is none.
    fn own(&self) -> &[Frame] {
        &self.frames[self.base()..]
    }

    fn base(&self) -> usize {
        self.interrupted.last().map_or(0, |interrupted| interrupted.depth)
    }

    /// Returns how many calls and exceptions are within one another.
    fn depth(&self) -> usize {
        self.frames.len() + self.interrupted.len()
    }

    fn push(&mut self, to: u64, block: &Block, tree: &mut CallTree) {
        if self.frames.len() >= MAX_FRAMES {
            return self.replace(block, tree);
        }
        self.frames.push(Frame { to, caller: self.call, function: self.function });
        self.deepest = self.deepest.max(self.depth());
        if self.depth() < MAX_DEPTH {
            self.call = tree.call(self.call, block);
        }
    }

    /// The same call goes on in another function.
    fn replace(&mut self, block: &Block, tree: &mut CallTree) {
        if self.depth() < MAX_DEPTH && tree.function(self.call) != block.function {
            self.call = tree.call_instead(self.call, block);
        }
    }

    /// A return, or a jump to another function.
    fn jump(&mut self, block: &Block, tree: &mut CallTree) {
        let returned = self.own().iter().rposition(|frame| frame.to == block.first);
        let caught = || {
            let into = block.entry == Entry::Middle && block.function != self.function;
            let of = |frame: &Frame| frame.function == block.function;
            if into { self.own().iter().rposition(of) } else { None }
        };
        match returned.or_else(caught) {
            Some(at) => {
                let at = self.base() + at;
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

/// Returns how a block ends.
fn end_of(block: &Block) -> End {
    End { branch: block.branch, first: block.first, next: block.next }
}

#[cfg(test)]
mod tests {
    use super::super::Tasks;
    use super::Branch::{Call, Jump, Other, Resume, Return};
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
            self.at_special(first, branch, None)
        }

        fn at_special(&mut self, first: u64, branch: Branch, special: Option<Special>) -> Vec<u32> {
            let entry = if first & 0xff == 0 { Entry::Begin } else { Entry::Middle };
            let function = (first >> 8) as u32;
            let next = first + 4;
            let block =
                Block { first, named: first, next, instructions: 1, function, entry, branch, special };
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
            named: first,
            next: first + 4,
            instructions: 1,
            function: 9,
            entry: Entry::Unknown,
            branch,
            special: None,
        };
        thread.stack.enter(&block(0x950, Return), &mut thread.tree);
        assert_eq!(thread.at(0x104, Other), [9, 1], "it was a tail call");
    }

    /// The calls of an exception are those of what it interrupts, and its returns are not.
    #[test]
    fn exceptions_interrupt_a_function_and_it_goes_on() {
        let interrupt = Some(Special::Interrupt);
        let mut thread = Thread::new();
        thread.at(0x100, Call);
        assert_eq!(thread.at(0x200, Call), [1, 2]);
        // Between a call and the function that is called.
        assert_eq!(thread.at_special(0x900, Other, interrupt), [1, 2, 9]);
        assert_eq!(thread.at(0xa00, Call), [1, 2, 10], "by a branch");
        assert_eq!(thread.at(0xb00, Return), [1, 2, 10, 11]);
        assert_eq!(thread.at(0xa04, Return), [1, 2, 10]);
        assert_eq!(thread.at(0x104, Other), [1, 2, 1], "a return is none of the interrupted function");
        assert_eq!(thread.at(0xa08, Resume), [1, 2, 10]);
        // The next one comes before that has executed anything.
        assert_eq!(thread.at_special(0x900, Resume, interrupt), [1, 2, 9]);
        assert_eq!(thread.at(0x300, Return), [1, 2, 3], "the call goes on");
        assert_eq!(thread.at(0x204, Return), [1, 2]);
        assert_eq!(thread.at(0x104, Other), [1]);
        assert_eq!(thread.stack.deepest(), 3);
    }

    /// A fault is in the middle of a block, whose end is not reached.
    #[test]
    fn what_a_fault_cuts_off_is_no_call() {
        let mut thread = Thread::new();
        thread.at(0x100, Call);
        assert_eq!(thread.at(0x200, Call), [1, 2]);
        assert_eq!(thread.at_special(0x900, Resume, Some(Special::Synchronous)), [1, 2, 9]);
        assert_eq!(thread.at(0x200, Other), [1, 2], "again, or at a place for faults");
        assert_eq!(thread.at(0x208, Return), [1, 2]);
        assert_eq!(thread.at(0x104, Other), [1]);
    }

    #[test]
    fn tasks_have_stacks_of_their_own() {
        let (mut thread, mut tasks) = (Thread::new(), Tasks::default());
        thread.at(0x100, Call);
        assert_eq!(thread.at(0x500, Return), [1, 5]);
        tasks.switch(1000, 2000, &mut thread.stack);
        assert_eq!(thread.at_special(0x600, Call, Some(Special::NewTask)), [6]);
        assert_eq!(thread.at(0x500, Return), [6, 5]);
        tasks.switch(2000, 1000, &mut thread.stack);
        assert_eq!(thread.at(0x104, Call), [1], "the first one's call returns");
        assert_eq!(thread.at(0x500, Return), [1, 5]);
        tasks.switch(1000, 2000, &mut thread.stack);
        assert_eq!(thread.at(0x604, Other), [6]);
        // The second one is over, and its memory is that of a new task.
        tasks.switch(2000, 1000, &mut thread.stack);
        tasks.switch(1000, 2000, &mut thread.stack);
        assert_eq!(thread.at_special(0x600, Other, Some(Special::NewTask)), [6]);
        assert_eq!(thread.at(0x700, Resume), [7], "by a branch");
        assert_eq!(thread.at(0x800, Other), [8], "a new program, without an exception that was before it");
    }

    #[test]
    fn another_program_has_nothing_of_the_one_before() {
        let mut thread = Thread::new();
        thread.at(0x100, Call);
        thread.at(0x200, Other);
        thread.at_special(0x900, Call, Some(Special::Synchronous));
        assert_eq!(thread.at_special(0xa00, Return, Some(Special::NewProgram)), [1, 2, 9, 10]);
        assert_eq!(thread.at(0x904, Resume), [1, 2, 9]);
        assert_eq!(thread.at(0x300, Other), [3]);
        assert_eq!(thread.at(0x104, Other), [1], "no call of the one before is left");
    }
}
