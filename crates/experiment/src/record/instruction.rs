//! Place of an instruction in its program or library, as a part of lines.

use fathom_probe::wire::{Line, WireError};

/// Where an instruction is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instruction {
    /// Virtual address in its file, as the file's symbols have it; that in memory, of a guest's kernel.
    pub address: u64,
    /// Bytes from the start of its function; of its section, if no symbol covers it; of the file, if no section does.
    pub offset: u64,
}

impl Instruction {
    /// Adds it to a line, if there is one.
    pub(super) fn add(of: Option<Instruction>, line: Line) -> Line {
        of.iter().fold(line, |line, of| line.list("at", &[of.address, of.offset]))
    }

    pub(super) fn of_list(list: &[u64]) -> Result<Option<Instruction>, WireError> {
        match *list {
            [] => Ok(None),
            [address, offset] => Ok(Some(Instruction { address, offset })),
            _ => Err(WireError::new(format!("at has {} numbers instead of 2", list.len()))),
        }
    }
}
