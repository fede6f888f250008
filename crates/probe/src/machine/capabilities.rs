//! What only some machines can do, a trait each, all of which refuse by default.

use alloc::string::String;
use alloc::vec::Vec;

use super::{Controls, Mapping, Refusal, Ticks, Translation};

/// One counter's name and its increase over a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The counter's name, e.g. `cycles`, `refill.L1D`, `refill.tlb.1`, `walks`.
    pub name: String,
    /// Events counted since the machine was opened.
    pub value: u64,
}

/// Event counters.
pub trait Counters {
    /// Reads every counter that the machine offers; the default offers none.
    ///
    /// # Errors
    /// A [`Refusal`] where there are no counters.
    fn counters(&mut self) -> Result<Vec<Count>, Refusal> {
        Err(Refusal::new("this machine offers no event counters", ""))
    }

    /// Refills of the cache that is `level`-th on the way of data, from 1, since the machine was opened. `None`
    /// where nobody counts them.
    fn refills(&mut self, level: u64) -> Option<u64> {
        let _ = level;
        None
    }
}

/// Cache maintenance by line.
pub trait Maintain {
    /// Cleans and invalidates the lines of `bytes` bytes from `offset` in the arena.
    ///
    /// # Errors
    /// A [`Refusal`] where the machine cannot maintain its caches.
    fn clean_invalidate(&mut self, offset: u64, bytes: u64) -> Result<(), Refusal> {
        let _ = (offset, bytes);
        Err(Refusal::new("this machine offers no cache maintenance", ""))
    }
}

/// Knowing how memory is translated.
pub trait Translate {
    /// How the byte at `offset` in the arena is translated; `None` where nobody can tell.
    fn translated(&mut self, offset: u64) -> Option<Translation> {
        let _ = offset;
        None
    }
}

/// Setting what only privileged code sets.
pub trait Control {
    /// Sets the machine for what is mapped and run next, until the next call.
    ///
    /// # Errors
    /// A [`Refusal`] where it cannot be set so; then nothing has changed.
    fn control(&mut self, controls: &Controls) -> Result<(), Refusal> {
        if *controls == Controls::default() {
            return Ok(());
        }
        Err(Refusal::new(
            "a MAIR byte, the walks' own attribute, prefetchers and flushes are not this machine's to set",
            "measure it on bare metal: `fathom image --help`",
        ))
    }
}

/// Memory that nobody has touched yet.
pub trait Fresh {
    /// Gives the memory of a mapping back: the next touch of each of its pages faults, and finds the machine's
    /// first cell. What was mapped stays mapped.
    ///
    /// # Errors
    /// A [`Refusal`] where nothing faults, or faults are not counted.
    fn give_back(&mut self, mapping: &Mapping) -> Result<(), Refusal> {
        let _ = mapping;
        Err(Refusal::new(
            "nothing faults on this machine: it has no kernel that hands out memory at the first touch",
            "ask for memory that is there, without unfaulted=1",
        ))
    }
}

/// Periodic wake-ups.
pub trait Wake {
    /// Sleeps until the absolute time `at` of the machine's own clock.
    ///
    /// # Errors
    /// A [`Refusal`] where the machine has no timer to wait for.
    fn wake_at(&mut self, at: Ticks) -> Result<Ticks, Refusal> {
        let _ = at;
        Err(Refusal::new("this machine offers no timer to wait for", ""))
    }
}

/// Interference by co-running work.
pub trait Disturb {
    /// Starts the co-running streams that a trial names in `with=`; an empty list stops them all.
    ///
    /// # Errors
    /// A [`Refusal`] where the machine cannot run anything beside the measurement.
    fn disturb(&mut self, streams: &[Stream]) -> Result<(), Refusal> {
        if streams.is_empty() {
            Ok(())
        } else {
            Err(Refusal::new("this machine offers no co-running streams", ""))
        }
    }
}

/// One co-running stream: CPU `cpu` chases a random cycle over `bytes` of its own memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The agent that runs it: a CPU number, not 0 (that one measures).
    pub cpu: u32,
    /// Its working set in bytes.
    pub bytes: u64,
}

/// A DMA engine.
pub trait Dma {
    /// Copies `bytes` from offset `from` to offset `to` by an engine, past the CPU.
    ///
    /// # Errors
    /// A [`Refusal`] where there is no engine.
    fn transfer(&mut self, from: u64, to: u64, bytes: u64) -> Result<(), Refusal> {
        let _ = (from, to, bytes);
        Err(Refusal::new("this machine offers no DMA engine", ""))
    }
}
