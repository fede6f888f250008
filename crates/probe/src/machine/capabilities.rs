//! Capabilities of some machines: one trait each, with default methods that refuse.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::dma::{Batch, Channel, TransferTimes, Transfers};
use super::{ActivationRow, Controls, CountedEvent, Mapping, Refusal, Translation, Wakes};
use crate::load::{Load, LoadStats, Stalls};

/// A counter's name and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The counter's name, e.g. `cycles`, `refill.L1D`, `refill.tlb.1`, `walks`.
    pub name: Cow<'static, str>,
    /// The event, if it is one that patterns report.
    pub event: Option<CountedEvent>,
    /// Events counted since the machine was opened.
    pub value: u64,
}

/// Event counters.
pub trait Counters {
    /// Reads all counters of the machine. The default has none.
    ///
    /// # Errors
    /// A [`Refusal`] if there are no counters.
    fn counters(&mut self) -> Result<Vec<Count>, Refusal> {
        Err(Refusal::new("this machine offers no event counters", ""))
    }

    /// Returns the refills of the `level`-th cache on the data path, from 1, since the machine was opened. `None` if
    /// they are not counted.
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

/// Address translation.
pub trait Translate {
    /// Returns how the byte at `offset` in the arena is translated; `None` if that is unknown.
    fn translated(&mut self, offset: u64) -> Option<Translation> {
        let _ = offset;
        None
    }
}

/// Settings that only privileged code can change.
pub trait Control {
    /// Sets the machine for the next mappings and runs, until the next call.
    ///
    /// # Errors
    /// A [`Refusal`] if it cannot be set; then nothing has changed.
    fn control(&mut self, controls: &Controls) -> Result<(), Refusal> {
        if *controls == Controls::default() {
            return Ok(());
        }
        Err(Refusal::new(
            "this machine cannot set a MAIR byte, the attribute of page walks, prefetchers or flushes",
            "measure it on bare metal: `fathom image --help`",
        ))
    }
}

/// Memory that has not been touched yet.
pub trait Fresh {
    /// Releases the pages of a mapping: the next touch of each page faults and reads the machine's first cell. The
    /// mapping remains.
    ///
    /// # Errors
    /// A [`Refusal`] if touching memory does not fault, or faults are not counted.
    fn give_back(&mut self, mapping: &Mapping) -> Result<(), Refusal> {
        let _ = mapping;
        Err(Refusal::new(
            "this machine has no page faults at first touch",
            "measure mapped memory, without first_touch=1",
        ))
    }
}

/// Periodic wake-ups. Times are in ns of the machine's wake-up clock (Linux: `CLOCK_MONOTONIC`).
pub trait Wake {
    /// Prepares for `activations` wake-ups as in `wakes`: priority, locked memory, tracing. Returns the current time.
    ///
    /// # Errors
    /// A [`Refusal`] if the machine has no timer, or does not permit the priority, locking or tracing.
    fn wake_begin(&mut self, wakes: &Wakes, activations: u64) -> Result<u64, Refusal> {
        let _ = (wakes, activations);
        Err(Refusal::new(
            "this machine offers no timer to wait for",
            "measure wake-ups on Linux: `--on host`",
        ))
    }

    /// Sleeps until the absolute time `at_ns`. An implementation must not allocate or write to a file.
    ///
    /// # Errors
    /// A [`Refusal`] where the sleep fails.
    fn wake_at(&mut self, at_ns: u64) -> Result<WakeReturn, Refusal> {
        let _ = at_ns;
        Err(Refusal::new("this machine offers no timer to wait for", ""))
    }

    /// Returns the current time.
    fn wake_now(&mut self) -> u64 {
        0
    }

    /// Ends what [`Wake::wake_begin`] began, also after an error. Returns the traced timestamps of the
    /// activations, if they were requested.
    ///
    /// # Errors
    /// A [`Refusal`] if they cannot be read.
    fn wake_end(&mut self) -> Result<ActivationTrace, Refusal> {
        Ok(ActivationTrace::default())
    }

    /// Measures wake-ups of a kernel thread instead of a task, with the kernel's timerlat tracer, on this CPU and with
    /// the period of `wakes`. Returns the activations and the number of records that the tracer lost. `user_ns` is the
    /// time of the kernel thread, `irq_ns` that of the timer's interrupt.
    ///
    /// # Errors
    /// A [`Refusal`] if there is no such tracer, or it is in use.
    fn timerlat(&mut self, wakes: &Wakes, activations: u64) -> Result<(Vec<ActivationRow>, u64), Refusal> {
        let _ = (wakes, activations);
        Err(Refusal::new(
            "this machine has no timerlat tracer",
            "use a Linux kernel with CONFIG_TIMERLAT_TRACER (Debian: linux-image-rt)",
        ))
    }

    /// Returns the tasks and interrupts that ran on the CPU between two times of the last series, at most `max_events`.
    /// The first is the task that ran at `from_ns`.
    fn wake_around(&mut self, from_ns: u64, to_ns: u64, max_events: usize) -> Vec<Event> {
        let _ = (from_ns, to_ns, max_events);
        Vec::new()
    }
}

/// A wake-up as seen by the woken task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WakeReturn {
    /// The time at which the task ran, ns.
    pub now_ns: u64,
    /// The CPU on which it ran; for a pinned task, as last queried.
    pub cpu: u64,
    /// Involuntary context switches on that CPU between [`Wake::wake_begin`] and this sleep.
    pub involuntary: u64,
}

/// Traced timestamps of activations, before the task itself ran.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ActivationTrace {
    /// A row for each expiry that was traced, ascending.
    pub places: Vec<Places>,
    /// Events that the tracer lost.
    pub lost: u64,
}

/// Timestamps of one activation on its way from the timer to the task, ns of the wake-up clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Places {
    /// The time for which the timer was set.
    pub expires_ns: u64,
    /// The time at which its interrupt handler ran.
    pub irq_ns: Option<u64>,
    /// The time at which the kernel made the task runnable.
    pub wake_ns: Option<u64>,
    /// The time at which the CPU was switched to the task.
    pub switch_ns: Option<u64>,
}

/// An event recorded by a tracer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its time, ns of the wake-up clock.
    pub at_ns: u64,
    /// Its description: `switch kworker/0:1 -> fathom`, `irq 4 ttyS0`.
    pub what: String,
}

/// Interference by co-running work.
pub trait Disturb {
    /// Starts the co-running streams that a trial names in `with_cpu=` and `with_bytes=`. An empty list stops them all.
    ///
    /// # Errors
    /// A [`Refusal`] if the machine cannot run streams during a measurement.
    fn disturb(&mut self, streams: &[Stream]) -> Result<(), Refusal> {
        if streams.is_empty() {
            Ok(())
        } else {
            Err(Refusal::new("this machine offers no co-running streams", ""))
        }
    }

    /// Starts the stressors of a trial's `load=`, which is not empty, and returns when all workers run. If `confined`,
    /// they get the smallest share of every cache that the machine can partition, and the task gets the rest.
    ///
    /// # Errors
    /// A [`Refusal`] if the machine cannot run or confine them, or lacks the permission; then none of them runs.
    fn start_load(&mut self, load: &Load, confined: bool) -> Result<(), Refusal> {
        let _ = (load, confined);
        Err(Refusal::new("this machine offers no stressors", "measure a Linux machine: `--on host`"))
    }

    /// Stops the stressors and returns what they did since [`Disturb::start_load`] returned.
    fn stop_load(&mut self) -> LoadReport {
        LoadReport::default()
    }
}

/// Work of the co-running stressors during a trial.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LoadReport {
    /// A row for each stressor.
    pub load_stats: Vec<LoadStats>,
    /// How long tasks waited during that time, if the machine reports it.
    pub stalls: Option<Stalls>,
}

/// One co-running stream: CPU `cpu` chases a random cycle over `bytes` of its own memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// CPU that runs it: not 0, which measures.
    pub cpu: u32,
    /// Its working set in bytes.
    pub bytes: u64,
}

/// Transfers between a CPU and a device.
pub trait Dma {
    /// Makes the transfers of a batch, one after the other. Each is verified: the data at the far end are compared with
    /// those that were sent. Returns the engine that moved the data, and a row for each transfer; fewer rows if the
    /// batch was cut off.
    ///
    /// # Errors
    /// A [`Refusal`] if there is no such device or memory.
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
