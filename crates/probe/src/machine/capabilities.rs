//! What only some machines can do, a trait each, all of which refuse by default.

use alloc::string::String;
use alloc::vec::Vec;

use super::dma::{Batch, Channel, TransferTimes, Transfers};
use super::{ActivationRow, Controls, Mapping, Refusal, Translation, Wakes};
use crate::load::{Load, LoadStats, Stalls};

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
            "ask for memory that is there, without first_touch=1",
        ))
    }
}

/// Periodic wake-ups. Times are those of the machine's own wake-up clock (Linux: `CLOCK_MONOTONIC`), in ns.
pub trait Wake {
    /// Gets ready to be woken so many times as `wakes` says: priority, locked memory, tracing. Returns the time now.
    ///
    /// # Errors
    /// A [`Refusal`] where the machine has no timer to wait for, or may not wait as it is asked to.
    fn wake_begin(&mut self, wakes: &Wakes, activations: u64) -> Result<u64, Refusal> {
        let _ = (wakes, activations);
        Err(Refusal::new(
            "this machine offers no timer to wait for",
            "measure wake-ups on Linux: `--on host`",
        ))
    }

    /// Sleeps until the absolute time `at_ns`. Nothing here allocates or writes anywhere.
    ///
    /// # Errors
    /// A [`Refusal`] where the sleep fails.
    fn wake_at(&mut self, at_ns: u64) -> Result<WakeReturn, Refusal> {
        let _ = at_ns;
        Err(Refusal::new("this machine offers no timer to wait for", ""))
    }

    /// The time now.
    fn wake_now(&mut self) -> u64 {
        0
    }

    /// Ends what [`Wake::wake_begin`] began, also after an error. Returns the earlier places of the activations,
    /// where they were asked for.
    ///
    /// # Errors
    /// A [`Refusal`] where they cannot be read.
    fn wake_end(&mut self) -> Result<ActivationTrace, Refusal> {
        Ok(ActivationTrace::default())
    }

    /// Wake-ups of the kernel's own, in place of a task's: so many activations as its tracer timerlat sees them, on this
    /// CPU and with the period of `wakes`, and how many records it had no room for. The thread of the kernel is what is
    /// awake (`user_ns`), in the timer's interrupt before that (`irq_ns`).
    ///
    /// # Errors
    /// A [`Refusal`] where there is no such tracer, or somebody uses it.
    fn timerlat(&mut self, wakes: &Wakes, activations: u64) -> Result<(Vec<ActivationRow>, u64), Refusal> {
        let _ = (wakes, activations);
        Err(Refusal::new(
            "this machine has no timerlat tracer",
            "a Linux kernel with CONFIG_TIMERLAT_TRACER has it (of Debian's, linux-image-rt)",
        ))
    }

    /// What ran on the CPU between two times of the series that ended last, at most `most` rows: first what had the
    /// CPU at `from_ns`.
    fn wake_around(&mut self, from_ns: u64, to_ns: u64, most: usize) -> Vec<Event> {
        let _ = (from_ns, to_ns, most);
        Vec::new()
    }
}

/// A wake-up as the woken task sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WakeReturn {
    /// When it was awake, ns.
    pub now_ns: u64,
    /// The CPU that it was on: of a pinned task, when it was last asked for.
    pub cpu: u64,
    /// Times that something took that CPU from it between the beginning ([`Wake::wake_begin`]) and this sleep.
    pub involuntary: u64,
}

/// Where activations came through before the task itself saw them.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ActivationTrace {
    /// A row for each expiry that was seen, ascending.
    pub places: Vec<Places>,
    /// Events that the tracer had no room for.
    pub lost: u64,
}

/// The places of one activation, ns of the wake-up clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Places {
    /// When the timer was to expire.
    pub expires_ns: u64,
    /// When its interrupt handler ran.
    pub irq_ns: Option<u64>,
    /// When the kernel made the task runnable.
    pub wake_ns: Option<u64>,
    /// When the CPU was switched to the task.
    pub switch_ns: Option<u64>,
}

/// Something that a tracer saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, ns of the wake-up clock.
    pub at_ns: u64,
    /// What: `switch kworker/0:1 -> fathom`, `irq 4 ttyS0`.
    pub what: String,
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

    /// Starts the stressors of a trial's `load=` and returns when all of their workers are at work. Never called
    /// with a load that is none. Where they are to be `confined`, they fill the least share of every cache that the
    /// machine can partition, and the task has the rest to itself.
    ///
    /// # Errors
    /// A [`Refusal`] where the machine cannot run or confine them, or may not; then none of them runs.
    fn start_load(&mut self, load: &Load, confined: bool) -> Result<(), Refusal> {
        let _ = (load, confined);
        Err(Refusal::new("this machine offers no stressors", "load a Linux machine: `--on host`"))
    }

    /// Ends the stressors, and says what they did since [`Disturb::start_load`] returned.
    fn stop_load(&mut self) -> LoadReport {
        LoadReport::default()
    }
}

/// What co-running stressors did.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LoadReport {
    /// A row for each stressor.
    pub load_stats: Vec<LoadStats>,
    /// How long tasks waited meanwhile, where the machine tells.
    pub stalls: Option<Stalls>,
}

/// One co-running stream: CPU `cpu` chases a random cycle over `bytes` of its own memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The agent that runs it: a CPU number, not 0 (that one measures).
    pub cpu: u32,
    /// Its working set in bytes.
    pub bytes: u64,
}

/// Transfers between a CPU and a device.
pub trait Dma {
    /// Makes the transfers of a batch, one after the other, each proven: what arrives at the far end is compared with
    /// what was sent. Returns what moved them, and a row for each, fewer only where somebody cut them off.
    ///
    /// # Errors
    /// A [`Refusal`] where there is no such device or memory.
    fn transfer(
        &mut self,
        requested: &Transfers,
        batch: &Batch,
    ) -> Result<(Channel, Vec<TransferTimes>), Refusal> {
        let _ = (requested, batch);
        Err(Refusal::new(
            "this machine offers no DMA engine",
            "measure it on Linux with the driver (driver/README.md), or on a described machine: `fathom dma --on bcm2711`",
        ))
    }
}
