//! What a format returns: accesses, and what the trace tells besides them.

use fathom_model::Access;
use fathom_simulation::protocol::Answer;
use fathom_simulation::{HeapEvent, Mark};

use crate::error::Error;
use crate::input::Input;

/// Accesses in a batch, at most and usually.
pub(crate) const BATCH: usize = 4096;

/// Accesses of one thread, in their order, or a mark instead. The `pc` of each is the number of its instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The thread, from 0.
    pub thread: u32,
    /// The accesses. A reader replaces them, and keeps their memory.
    pub accesses: Vec<Access>,
    /// What happens to a region, if there are no accesses.
    pub mark: Option<Mark>,
    /// What happens to a block of the heap, if there is neither of them.
    pub heap: Option<HeapEvent>,
}

/// What a trace tells besides its accesses.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// Threads, instructions with their counts, files in memory; no machines.
    pub run: Answer,
    /// Name of the program; empty if the trace does not have it.
    pub program: String,
    /// Whether all executed instructions are in the trace, so that their number and the time that they take are known.
    pub all_instructions: bool,
}

/// A format, reading.
pub(crate) trait Source: Send {
    /// Fills the batch, which is empty. Returns `false` when nothing follows.
    ///
    /// # Errors
    /// What is wrong with the trace.
    fn read(&mut self, input: &mut Input, batch: &mut Batch) -> Result<bool, Error>;

    /// Returns whether the accesses are those of a guest, each with the number of its physical page.
    fn is_guest(&self) -> bool {
        false
    }

    /// Returns what the trace tells. It has been read to its end, or as far as it is wanted.
    fn told(&mut self) -> Told;
}
