//! The places of one wake-up inside the kernel, from its own tracepoints.
//!
//! Four events are joined: a thread sets a timer (`hrtimer_start`), the timer's interrupt comes
//! (`hrtimer_expire_entry`), the scheduler wakes the thread (`sched_waking`) and gives it the CPU
//! (`sched_switch`). They are written into a ring buffer of a trace instance of our own, on one CPU, and read
//! when the loop is over: as raw pages, because the trace as text is rounded to microseconds. What else took
//! that CPU is in the same buffer: all switches, interrupts and softirqs, so that the worst wake-ups can be
//! explained. Only the timers set and the wakings are filtered, to those of the thread.
//!
//! The clock is `mono`, which is `CLOCK_MONOTONIC` read without a lock: while another CPU sets the clock's rate
//! it may be off by what the rate changed, some ns.
//!
//! The buffer never overwrites: when it is full, what comes later is lost and counted, and what is there has
//! no gap. Its size comes from the activations expected: [`ACTIVATION`].

use std::path::Path;

use fathom_probe::machine::Refusal;

use crate::procfs::Root;

mod buffer;
mod event;
mod format;
mod join;
mod place;
mod ring;
pub(crate) mod timerlat;

use buffer::{Buffer, unknown};
use event::{Event, Kinds, MARKER, TraceEvent};
pub(crate) use join::Stages;
use place::Place;

/// Activations that a trace has room for where nobody says how many come.
const ACTIVATIONS: u64 = 20_000;

/// Bytes of the buffer for one activation. Its own events take 264 (on Linux 6.18: a timer set 52, its expiry 36,
/// the waking 40, two switches of 68), the timer's interrupt 16 or more; a page of 4096 holds 14 such. The rest
/// is for what else takes the CPU: a loop of 100 us on a busy guest wrote 290, one of 1 ms 330 to 620, both 340
/// to 370 in a guest of AArch64 with Linux 6.1 -rt.
const ACTIVATION: u64 = 1024;

/// A trace instance of this process's own, which is removed when this is dropped.
pub(crate) struct Trace {
    root: Root,
    buffer: Buffer,
    kinds: Kinds,
    /// The thread that is recorded, as the machine numbers it.
    tid: Option<u32>,
}

/// What was recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceRecording {
    /// Every wake-up of the thread by a timer, in order.
    pub stages: Vec<Stages>,
    /// Events that the buffer had no room for.
    pub lost: u64,
    events: Vec<Event>,
}

impl TraceRecording {
    /// What ran on this CPU between two times, at most `most` rows, beginning with the switch that shows who
    /// had the CPU at `from_ns`. Of more, the first and the last are kept.
    pub(crate) fn around(&self, from_ns: u64, to_ns: u64, most: usize) -> Vec<(u64, String)> {
        join::around(&self.events, from_ns, to_ns, most)
    }
}

/// Removes the instances that dead processes left; their names.
pub(crate) fn sweep(root: &Root) -> Vec<String> {
    Place::find(root).map(|place| place.sweep(root)).unwrap_or_default()
}

/// Removes one instance, wherever the trace files are.
pub(crate) fn remove(root: &Root, name: &str) -> std::io::Result<()> {
    let place = Place::find(root).map_err(|refusal| std::io::Error::other(refusal.reason.into_owned()))?;
    place.remove(root, name)
}

impl Trace {
    /// Makes an instance that records `cpu`, switched off, and removes those of processes that are gone. It has
    /// room for [`ACTIVATIONS`]; [`Trace::reserve`] asks for another. `hold` is told its directory before it is made:
    /// somebody else can remove it after a kill.
    ///
    /// # Errors
    /// A [`Refusal`] where the kernel has no such events, or does not permit them to this process.
    pub(crate) fn open(
        root: &Root,
        cpu: u32,
        hold: impl FnOnce(&Path) -> Result<(), Refusal>,
    ) -> Result<Trace, Refusal> {
        let place = Place::find(root)?;
        place.sweep(root);
        let buffer = Buffer::open(root, place.make(root, "", hold)?, cpu, "nop")?;
        let kinds = Kinds::read(|name| buffer.text(&format!("events/{name}/format")));
        let kinds = kinds.map_err(|name| unknown(&format!("events/{name}")))?;
        let mut trace = Trace { root: root.clone(), buffer, kinds, tid: None };
        trace.reserve(ACTIVATIONS)?;
        Ok(trace)
    }

    /// The instance's directory, for this process.
    #[cfg(test)]
    pub(crate) fn path(&self) -> &Path {
        self.buffer.path()
    }

    /// Makes room for so many activations; what was recorded is lost.
    ///
    /// # Errors
    /// A [`Refusal`] where the kernel has not so much memory.
    pub(crate) fn reserve(&mut self, activations: u64) -> Result<(), Refusal> {
        self.buffer.reserve(activations.saturating_mul(ACTIVATION))
    }

    /// Begins to record for the thread `tid`, which is best the calling one, pinned to the CPU: then its number
    /// is found where this process is in a PID namespace, too. Nothing is read or allocated from here to
    /// [`Trace::end`].
    ///
    /// # Errors
    /// A [`Refusal`] where the kernel does not do as it is told.
    pub(crate) fn begin(&mut self, tid: u32) -> Result<(), Refusal> {
        let tid = self.number(tid)?;
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

    /// Ends the recording, and tells what it holds. The tracepoints are switched off again: a trial without
    /// a trace costs what it did before there was one.
    ///
    /// # Errors
    /// A [`Refusal`] where nothing was begun, or the buffer cannot be read.
    pub(crate) fn end(&mut self) -> Result<TraceRecording, Refusal> {
        self.buffer.set("tracing_on", "0")?;
        self.buffer.set("set_event", "")?;
        let tid = self.tid.take();
        let tid = tid.ok_or_else(|| Refusal::new("no trace was begun", "begin one before it is ended"))?;
        let (events, lost) = self.drain()?;
        Ok(TraceRecording { stages: join::stages(&events, tid), lost, events })
    }

    /// The machine's number of the thread `tid`, which in a PID namespace has another one here: the kernel is
    /// made to write it into the trace.
    fn number(&mut self, tid: u32) -> Result<u32, Refusal> {
        let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned() == tid;
        let marked = if own { self.marked() } else { None };
        let namespace = std::fs::read_link(self.root.path("/proc/self/ns/pid")).unwrap_or_default();
        match marked {
            Some(tid) => Ok(tid),
            // The first namespace's number (`PROC_PID_INIT_INO`, Linux, include/linux/proc_ns.h).
            None if namespace == Path::new("pid:[4026531836]") => Ok(tid),
            None => Err(Refusal::new(
                "this process is in a PID namespace of its own, and the trace knows the machine's numbers only",
                "run it in the machine's PID namespace (docker run --pid=host)",
            )),
        }
    }

    /// The number that the trace has for the calling thread.
    fn marked(&mut self) -> Option<u32> {
        self.buffer.set("trace", "").ok()?;
        self.buffer.set("tracing_on", "1").ok()?;
        let written = self.buffer.set("trace_marker", "fathom");
        self.buffer.set("tracing_on", "0").ok()?;
        written.ok()?;
        let (events, ..) = self.drain().ok()?;
        events.iter().find_map(|event| match event.what {
            TraceEvent::Marker { tid } => Some(tid),
            _ => None,
        })
    }

    /// The events that are in the buffer, and how many were lost.
    fn drain(&mut self) -> Result<(Vec<Event>, u64), Refusal> {
        let mut events = Vec::new();
        let lost = self.buffer.drain(|record| events.extend(self.kinds.event(record)))?;
        Ok((events, lost))
    }
}

#[cfg(test)]
mod tests;
