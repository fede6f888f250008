//! What begins at addresses of a guest's kernel: exceptions, tasks, programs.
//!
//! Source of the vectors of AArch64: DDI 0487, D1.3.1 (four kinds of exceptions from four states, 128 bytes each).

/// Bytes of a vector, and of all.
const VECTOR: u64 = 0x80;
const VECTORS: u64 = 0x800;
/// Kinds of exceptions of a state: synchronous ones, IRQ, FIQ, SError.
const KINDS: u64 = 4;

/// What begins with a block, beside what the end of the one before it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// An exception that an instruction has caused: the rest of its block is not executed, unless it is the last one, as a system call is.
    Synchronous,
    /// An interrupt: what is before it has been executed.
    Interrupt,
    /// The first code of a new task. The task that had its memory before is over.
    NewTask,
    /// The task becomes another program.
    NewProgram,
}

impl Special {
    /// Returns the exception whose code begins at an address, if the table of AArch64's vectors is at `vectors`.
    #[must_use]
    pub fn exception(vectors: u64, pc: u64) -> Option<Special> {
        let at = pc.checked_sub(vectors).filter(|at| *at < VECTORS && at.is_multiple_of(VECTOR))?;
        Some(if (at / VECTOR).is_multiple_of(KINDS) { Special::Synchronous } else { Special::Interrupt })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_those_of_aarch64() {
        let of =
            |at: u64| Special::exception(0xffff_8000_0801_0800, 0xffff_8000_0801_0800_u64.wrapping_add(at));
        assert_eq!([0, 0x200, 0x400, 0x600].map(of), [Some(Special::Synchronous); 4]);
        assert_eq!([0x80, 0x100, 0x280, 0x780].map(of), [Some(Special::Interrupt); 4]);
        assert_eq!([0x84, 0x800, 0u64.wrapping_sub(0x80)].map(of), [None; 3]);
    }
}
