//! Places of one wake-up inside the kernel, from the kernel's tracepoints.
//!
//! Four events are joined: a thread sets a timer (`hrtimer_start`), the timer's interrupt occurs
//! (`hrtimer_expire_entry`), the scheduler wakes the thread (`sched_waking`) and gives it the CPU (`sched_switch`).
//! The kernel writes them into a ring buffer of a separate trace instance, for one CPU. They are read when the loop
//! has ended, as raw pages, because the trace as text is rounded to microseconds. All switches, interrupts and
//! softirqs of that CPU are in the same buffer, so that the worst wake-ups can be explained. Only timers and wakings
//! are filtered, to those of the thread.
//!
//! The trace clock is `mono`, which is `CLOCK_MONOTONIC` read without a lock. While another CPU sets the clock's
//! rate, it may be wrong by the change of the rate, some ns.
//!
//! The buffer never overwrites: when it is full, later events are lost and counted, and those in it have no gap. Its
//! size is computed from the expected activations: [`ACTIVATION_BYTES`].

use std::path::Path;

use fathom_probe::machine::Refusal;

use crate::procfs::Root;

mod buffer;
mod event;
mod format;
mod join;
mod ring;
pub(crate) mod timerlat;
mod trace_fs;

use buffer::{Buffer, unknown};
use event::{Event, EventKinds, MARKER, TraceEvent};
pub(crate) use join::Stages;
use trace_fs::TraceFs;

/// Activations that a trace has room for by default.
const DEFAULT_ACTIVATIONS: u64 = 20_000;

/// Bytes of the buffer for one activation. Its own events take 264 (on Linux 6.18: a timer set 52, its expiry 36, the
/// waking 40, two switches of 68), the timer's interrupt 16 or more; a page of 4096 holds 14 such activations. The
/// rest is for other events on the CPU: a loop of 100 us on a busy guest wrote 290, one of 1 ms 330 to 620, both 340
/// to 370 in a guest of AArch64 with Linux 6.1 -rt.
const ACTIVATION_BYTES: u64 = 1024;

/// A trace instance of this process, removed when this is dropped.
pub(crate) struct Trace {
    root: Root,
    buffer: Buffer,
    kinds: EventKinds,
    /// Thread id of the recorded thread in the initial PID namespace.
    tid: Option<u32>,
}

/// Result of a recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceRecording {
    /// Every wake-up of the thread by a timer, in order.
    pub stages: Vec<Stages>,
    /// Number of events that the buffer had no room for.
    pub lost: u64,
    events: Vec<Event>,
}

impl TraceRecording {
    /// Returns the events on this CPU between two times, at most `max_rows`, beginning with the switch to the task
    /// that ran at `from_ns`. If there are more, the first and the last are kept.
    pub(crate) fn events_between(&self, from_ns: u64, to_ns: u64, max_rows: usize) -> Vec<(u64, String)> {
        join::events_between(&self.events, from_ns, to_ns, max_rows)
    }
}

/// Removes the instances that dead processes left, and returns their names.
pub(crate) fn remove_stale(root: &Root) -> Vec<String> {
    TraceFs::find(root).map(|trace_fs| trace_fs.remove_stale(root)).unwrap_or_default()
}

/// Removes one instance, wherever tracefs is mounted.
pub(crate) fn remove(root: &Root, name: &str) -> std::io::Result<()> {
    let trace_fs =
        TraceFs::find(root).map_err(|refusal| std::io::Error::other(refusal.reason.into_owned()))?;
    trace_fs.remove(root, name)
}

impl Trace {
    /// Creates an instance that records `cpu`, disabled, and removes those of dead processes. It has room for
    /// [`DEFAULT_ACTIVATIONS`]; [`Trace::reserve`] changes that. `hold` registers its directory before it is created,
    /// so that it can be removed after a kill.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if the kernel has no such events, or does not permit them to this process.
    pub(crate) fn open(
        root: &Root,
        cpu: u32,
        hold: impl FnOnce(&Path) -> Result<(), Refusal>,
    ) -> Result<Trace, Refusal> {
        let trace_fs = TraceFs::find(root)?;
        trace_fs.remove_stale(root);
        let buffer = Buffer::open(root, trace_fs.create(root, "", hold)?, cpu, "nop")?;
        let kinds = EventKinds::read(|name| buffer.text(&format!("events/{name}/format")));
        let kinds = kinds.map_err(|name| unknown(&format!("events/{name}")))?;
        let mut trace = Trace { root: root.clone(), buffer, kinds, tid: None };
        trace.reserve(DEFAULT_ACTIVATIONS)?;
        Ok(trace)
    }

    /// Returns the instance's directory, as this process sees it.
    #[cfg(test)]
    pub(crate) fn path(&self) -> &Path {
        self.buffer.path()
    }

    /// Makes room for `activations` activations; the recorded events are lost.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if the kernel does not have enough memory.
    pub(crate) fn reserve(&mut self, activations: u64) -> Result<(), Refusal> {
        self.buffer.reserve(activations.saturating_mul(ACTIVATION_BYTES))
    }

    /// Begins to record the thread `tid`. It should be the calling thread, pinned to the CPU: its id in the trace is
    /// then known in a PID namespace, too. Nothing is read or allocated from here to [`Trace::end`].
    ///
    /// # Errors
    /// Returns a [`Refusal`] if the kernel rejects a setting.
    pub(crate) fn begin(&mut self, tid: u32) -> Result<(), Refusal> {
        let tid = self.initial_tid(tid)?;
        let set = |file: &str, value: &str| self.buffer.set(file, value);
        set("events/timer/hrtimer_start/filter", &format!("common_pid == {tid}"))?;
        set("events/sched/sched_waking/filter", &format!("pid == {tid}"))?;
        for name in self.kinds.names.iter().filter(|name| **name != MARKER) {
            set(&format!("events/{name}/enable"), "1")?;
        }
        // Last of all, so that the loop begins with an empty buffer.
        set("trace", "")?;
        set("tracing_on", "1")?;
        self.tid = Some(tid);
        Ok(())
    }

    /// Ends the recording, and returns its content. The tracepoints are disabled again, so that later trials without
    /// a trace are not slowed down.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if no recording was begun, or the buffer cannot be read.
    pub(crate) fn end(&mut self) -> Result<TraceRecording, Refusal> {
        self.buffer.set("tracing_on", "0")?;
        self.buffer.set("set_event", "")?;
        let tid = self.tid.take();
        let tid =
            tid.ok_or_else(|| Refusal::new("no recording was begun", "begin one before it is ended"))?;
        let (events, lost) = self.drain()?;
        Ok(TraceRecording { stages: join::stages(&events, tid), lost, events })
    }

    /// Returns the id of the thread `tid` in the initial PID namespace, in which the trace counts. In another
    /// namespace a marker written to the trace reveals it.
    fn initial_tid(&mut self, tid: u32) -> Result<u32, Refusal> {
        let is_calling_thread = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned() == tid;
        let own_tid = if is_calling_thread { self.own_tid() } else { None };
        let namespace = std::fs::read_link(self.root.path("/proc/self/ns/pid")).unwrap_or_default();
        match own_tid {
            Some(tid) => Ok(tid),
            // The first namespace's number (`PROC_PID_INIT_INO`, Linux, include/linux/proc_ns.h).
            None if namespace == Path::new("pid:[4026531836]") => Ok(tid),
            None => Err(Refusal::new(
                "this process is in a separate PID namespace, and the trace contains the machine's thread ids only",
                "run it in the machine's PID namespace (docker run --pid=host)",
            )),
        }
    }

    /// Returns the calling thread's id in the trace.
    fn own_tid(&mut self) -> Option<u32> {
        self.buffer.set("trace", "").ok()?;
        self.buffer.set("tracing_on", "1").ok()?;
        let written = self.buffer.set("trace_marker", "fathom");
        self.buffer.set("tracing_on", "0").ok()?;
        written.ok()?;
        let (events, ..) = self.drain().ok()?;
        events.iter().find_map(|event| match event.data {
            TraceEvent::Marker { tid } => Some(tid),
            _ => None,
        })
    }

    /// Returns the events in the buffer, and how many were lost.
    fn drain(&mut self) -> Result<(Vec<Event>, u64), Refusal> {
        let mut events = Vec::new();
        let lost = self.buffer.drain(|record| events.extend(self.kinds.event(record)))?;
        Ok((events, lost))
    }
}

#[cfg(test)]
mod tests;
