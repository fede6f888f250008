//! Blocks of instructions: what to charge for them, and their accesses to memory.

/// A decoded instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub class: Class,
    /// Registers that it computes with, if it computes with registers only.
    pub operands: [Option<u32>; 3],
    /// The register that it computes.
    pub result: Option<u32>,
}

/// The class of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Other,
    Branch,
    /// Loads or stores registers.
    Memory {
        /// Number of accesses that Unicorn makes for it.
        parts: usize,
        /// Whether it is executed only under a condition.
        conditional: bool,
    },
}

impl Instruction {
    /// Returns an instruction whose registers do not matter.
    pub fn of(class: Class) -> Instruction {
        Instruction { class, operands: [None; 3], result: None }
    }
}

/// A decoded block of consecutive instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Size in bytes.
    pub bytes: u64,
    /// Instructions other than loads, stores and branches, without those in `chained`.
    pub others: u64,
    /// Such instructions that need the result of the previous instruction: no core issues the two together.
    pub chained: u64,
    /// Whether its first instruction, one of `others`, needs the result of its last chained one, so that the block waits
    /// for itself if it is repeated.
    pub carried: bool,
    /// Whether it ends in a branch.
    pub branch: bool,
    /// Its accesses to memory, in order.
    pub accesses: Vec<Access>,
}

/// An access of an instruction to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// An independent access.
    Single,
    /// The first of several, which the core makes together.
    First,
    /// One of them that is neither the first nor the last.
    Next,
    /// The last of them.
    Last,
}

impl Block {
    /// Decodes the instructions of a block, of four bytes each.
    pub fn decode(instructions: impl Iterator<Item = Instruction>) -> Block {
        let mut block = Block::default();
        let mut result = None;
        // Operands of the first instruction, and the register of the last chained one.
        let (mut first, mut end) = ([None; 3], None);
        // Whether the number of accesses before is known.
        let mut counted = true;
        for instruction in instructions {
            if block.bytes == 0 {
                first = instruction.operands;
            }
            block.bytes += 4;
            block.branch = false;
            let before = result.take();
            match instruction.class {
                Class::Other => {
                    let chained =
                        before.is_some_and(|register| instruction.operands.contains(&Some(register)));
                    block.chained += u64::from(chained);
                    block.others += u64::from(!chained);
                    result = instruction.result;
                    if chained {
                        end = result;
                    } else if result == end {
                        // Another value: it does not depend on the chain.
                        end = None;
                    }
                }
                Class::Branch => block.branch = true,
                Class::Memory { parts, conditional } => {
                    // What follows accesses that may be left out cannot be told by its number.
                    counted &= !conditional;
                    block.accesses.extend((0..parts).map(|nth| part(nth, if counted { parts } else { 1 })));
                }
            }
        }
        block.carried = end.is_some() && first.contains(&end);
        block
    }
}

/// Returns the place of access `nth` in an instruction that makes `parts` accesses together.
fn part(nth: usize, parts: usize) -> Access {
    match nth {
        _ if parts == 1 => Access::Single,
        0 => Access::First,
        nth if nth + 1 == parts => Access::Last,
        _ => Access::Next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_after_conditional_ones_are_not_joined() {
        let memory = |parts, conditional| Instruction::of(Class::Memory { parts, conditional });
        let block = Block::decode([memory(3, false), memory(1, true), memory(2, false)].into_iter());
        let single = Access::Single;
        assert_eq!(block.accesses, [Access::First, Access::Next, Access::Last, single, single, single]);
    }
}
