//! The calls of the program, or of a guest's tasks, that are followed.

use std::sync::Mutex;

use fathom_simulation::calls::{Block, CallTree, Made, Stack, Tasks};

use crate::registers::Registers;
use crate::session::lock;

/// Numbers of the registers that have a function's first two arguments (AAPCS64 6.4).
const ARGUMENTS: [i32; 2] = [0, 1];

/// The calls.
#[derive(Debug)]
pub struct Followed {
    tree: Mutex<CallTree>,
    /// The stacks of a guest's tasks, and the registers that tell which ones are switched.
    tasks: Option<(Mutex<Tasks>, Registers)>,
}

impl Followed {
    /// Begins without calls. `guest`: they are those of a guest's tasks. `target` is QEMU's name of the instruction set.
    ///
    /// # Errors
    /// QEMU does not tell registers, which tasks need.
    pub fn begin(guest: bool, target: &str) -> Result<Followed, String> {
        let tasks = guest.then(|| Registers::of(target)).transpose()?;
        Ok(Followed {
            tree: Mutex::new(CallTree::new()),
            tasks: tasks.map(|registers| (Mutex::default(), registers)),
        })
    }

    /// Has a stack enter a block.
    pub fn enter(&self, stack: &mut Stack, block: &Block) {
        stack.enter(block, &mut lock(&self.tree));
    }

    /// Adds what was made in calls, and how many of them were within one another.
    pub fn add(&self, made: &[Made], deepest: u64) {
        let mut tree = lock(&self.tree);
        made.iter().for_each(|made| tree.add(made));
        tree.reached(deepest);
    }

    /// A guest's kernel switches tasks on a CPU: that is called when the block begins where it does so. The next one's stack is in
    /// `stack` then.
    pub fn switch(&self, cpu: u32, stack: &mut Stack) {
        let Some((tasks, registers)) = &self.tasks else { return };
        if let Some([from, to]) = registers.get(cpu, ARGUMENTS) {
            lock(tasks).switch(from, to, stack);
        }
    }

    /// Returns the calls so far.
    pub fn tree(&self) -> CallTree {
        lock(&self.tree).clone()
    }
}
