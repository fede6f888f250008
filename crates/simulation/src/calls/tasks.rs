//! The calls of a guest's tasks: each has a stack of its own.

use rustc_hash::FxHashMap;

use super::Stack;

/// The stacks of a guest's tasks that are not executed, by the kernel's pointer to the task.
#[derive(Debug, Default)]
pub struct Tasks {
    stacks: FxHashMap<u64, Stack>,
}

impl Tasks {
    /// A CPU goes from one task to another one, whose stack is in `stack` then: an empty one, if the task is new.
    pub fn switch(&mut self, from: u64, to: u64, stack: &mut Stack) {
        let next = self.stacks.remove(&to).unwrap_or_default();
        self.stacks.insert(from, std::mem::replace(stack, next));
    }
}
