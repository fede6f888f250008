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

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use fathom_probe::machine::Refusal;

use crate::read::Root;

mod event;
mod format;
mod join;
mod place;
mod ring;

use event::{Event, Kinds, MARKER, What};
use format::PageLayout;
pub(crate) use join::Stages;
use place::{Instance, Place, refused, set};

/// Activations that a trace has room for where nobody says how many come.
const ACTIVATIONS: u64 = 20_000;

/// Bytes of the buffer for one activation. Its own events take 264 (on Linux 6.18: a timer set 52, its expiry 36,
/// the waking 40, two switches of 68), x86's timer interrupt 16; a page of 4096 holds 13 to 14 such. The rest is
/// for what else takes the CPU: a loop of 1 ms on a busy one wrote 307.
const ACTIVATION: u64 = 640;

/// Largest buffer, bytes: it is memory that the kernel does not give to anybody else.
const LARGEST: u64 = 64 << 20;

/// A trace instance of this process's own, which is removed when this is dropped.
pub(crate) struct Trace {
    root: Root,
    cpu: u32,
    layout: PageLayout,
    kinds: Kinds,
    /// The thread that is recorded, as the machine numbers it.
    tid: Option<u32>,
    // The order of the rest is the order in which it goes: an instance with an open file cannot be removed.
    /// The CPU's raw pages. Open as long as the instance is ours, which keeps others from removing it.
    pipe: File,
    instance: Instance,
}

/// What was recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traced {
    /// Every wake-up of the thread by a timer, in order.
    pub stages: Vec<Stages>,
    /// Events that the buffer had no room for.
    pub lost: u64,
    /// Bytes of the buffer that were used.
    pub bytes: u64,
    events: Vec<Event>,
}

impl Traced {
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

impl Trace {
    /// Makes an instance that records `cpu`, switched off, and removes those of processes that are gone. It has
    /// room for [`ACTIVATIONS`]; [`Trace::reserve`] asks for another.
    ///
    /// # Errors
    /// A [`Refusal`] where the kernel has no such events, or does not permit them to this process.
    pub(crate) fn open(root: &Root, cpu: u32) -> Result<Trace, Refusal> {
        let place = Place::find(root)?;
        place.sweep(root);
        let instance = place.make(root)?;
        let path = instance.path();
        set(root, &path.join("tracing_on"), "0")?;
        set(root, &path.join("trace_clock"), "mono")?;
        set(root, &path.join("tracing_cpumask"), &mask(cpu))?;
        set(root, &path.join("options/overwrite"), "0")?;
        // A new instance has 1.4 MiB for each CPU there is; one CPU's is used.
        set(root, &path.join("buffer_size_kb"), "1")?;
        let text = |name: &str| read(&path.join("events").join(name));
        let layout = text("header_page").and_then(|text| PageLayout::parse(&text));
        let layout = layout.ok_or_else(|| unknown("header_page"))?;
        let kinds = Kinds::read(|name| text(&format!("{name}/format"))).map_err(unknown)?;
        let pipe = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw")))
            .map_err(|e| refused(root, "open trace_pipe_raw", &e))?;
        let mut trace = Trace { root: root.clone(), cpu, layout, kinds, tid: None, pipe, instance };
        trace.reserve(ACTIVATIONS)?;
        Ok(trace)
    }

    /// The instance's directory, for this process: where tracefs is mounted nowhere, it leads through a file
    /// descriptor. Who removes instances after a kill uses [`sweep`].
    pub(crate) fn path(&self) -> &Path {
        self.instance.path()
    }

    /// Makes room for so many activations; what was recorded is lost.
    ///
    /// # Errors
    /// A [`Refusal`] where the kernel has not so much memory.
    pub(crate) fn reserve(&mut self, activations: u64) -> Result<(), Refusal> {
        let bytes = activations.saturating_mul(ACTIVATION).clamp(ACTIVATION, LARGEST);
        self.set(&format!("per_cpu/cpu{}/buffer_size_kb", self.cpu), &bytes.div_ceil(1024).to_string())
    }

    /// Begins to record for the thread `tid`, which is best the calling one, pinned to the CPU: then its number
    /// is found where this process is in a PID namespace, too. Nothing is read or allocated from here to
    /// [`Trace::end`].
    ///
    /// # Errors
    /// A [`Refusal`] where the kernel does not do as it is told.
    pub(crate) fn begin(&mut self, tid: u32) -> Result<(), Refusal> {
        let tid = self.number(tid)?;
        self.set("events/timer/hrtimer_start/filter", &format!("common_pid == {tid}"))?;
        self.set("events/sched/sched_waking/filter", &format!("pid == {tid}"))?;
        for name in self.kinds.names.iter().filter(|name| **name != MARKER) {
            self.set(&format!("events/{name}/enable"), "1")?;
        }
        // Last of all, so that the loop begins with an empty buffer.
        self.set("trace", "")?;
        self.tid = Some(tid);
        self.set("tracing_on", "1")
    }

    /// Ends the recording, and tells what it holds. The tracepoints are switched off again: a trial without
    /// a trace costs nothing more than it did before there was one.
    ///
    /// # Errors
    /// A [`Refusal`] where nothing was begun, or the buffer cannot be read.
    pub(crate) fn end(&mut self) -> Result<Traced, Refusal> {
        self.set("tracing_on", "0")?;
        // Opened for writing it is cut to nothing, which is no event at all.
        self.set("set_event", "")?;
        let tid = self.tid.take();
        let tid = tid.ok_or_else(|| Refusal::new("no trace was begun", "begin one before it is ended"))?;
        let (events, pages, missed) = self.drain()?;
        let stages = join::stages(&events, tid);
        let bytes = pages.saturating_mul(self.layout.bytes() as u64);
        // The pages tell of the same losses as the statistics, where both do.
        Ok(Traced { stages, lost: self.lost().max(missed), bytes, events })
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
        self.set("trace", "").ok()?;
        self.set("tracing_on", "1").ok()?;
        let written = self.set("trace_marker", "fathom");
        self.set("tracing_on", "0").ok()?;
        written.ok()?;
        let (events, ..) = self.drain().ok()?;
        events.iter().find_map(|event| match event.what {
            What::Marker { tid } => Some(tid),
            _ => None,
        })
    }

    /// Takes all pages: their events, their number, and the records that they say were lost.
    fn drain(&mut self) -> Result<(Vec<Event>, u64, u64), Refusal> {
        let mut page = vec![0; self.layout.bytes()];
        let (mut events, mut pages, mut missed) = (Vec::new(), 0, 0u64);
        // Nobody writes any more, so this ends; the bound is for a kernel that would not.
        while pages <= LARGEST / 4096 {
            match self.pipe.read(&mut page) {
                Ok(0) => break,
                Ok(length) => {
                    pages += 1;
                    let page = page.get(..length).unwrap_or_default();
                    let Some((records, lost)) = ring::records(page, &self.layout) else { continue };
                    events.extend(records.filter_map(|record| self.kinds.event(record)));
                    missed = missed.saturating_add(lost);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(refused(&self.root, "read trace_pipe_raw", &e)),
            }
        }
        Ok((events, pages, missed))
    }

    /// Events that the kernel says it lost on this CPU.
    fn lost(&self) -> u64 {
        let path = self.path().join(format!("per_cpu/cpu{}/stats", self.cpu));
        lost(&read(&path).unwrap_or_default())
    }

    fn set(&self, file: &str, value: &str) -> Result<(), Refusal> {
        set(&self.root, &self.path().join(file), value)
    }
}

/// A text of the kernel's. Its first read is a long one: `header_page` has no second.
fn read(path: &Path) -> Option<String> {
    // The longest format, with its `print fmt`, has some KiB; no file of events may have more than 64.
    let mut text = vec![0; 64 << 10];
    let mut file = File::open(path).ok()?;
    let mut length = 0;
    while let Ok(more @ 1..) = file.read(text.get_mut(length..)?) {
        length += more;
    }
    text.truncate(length);
    String::from_utf8(text).ok()
}

/// The sum of what a CPU's `stats` count as lost.
fn lost(stats: &str) -> u64 {
    let count = |line: &str| -> Option<u64> {
        let (name, count) = line.split_once(':')?;
        ["overrun", "commit overrun", "dropped events"].contains(&name).then(|| count.trim().parse().ok())?
    };
    stats.lines().filter_map(count).fold(0, u64::saturating_add)
}

/// A set of one CPU, as the kernel reads it: words of 32 bits in hexadecimal, the highest first.
fn mask(cpu: u32) -> String {
    let high = format!("{:x}", 1u32 << (cpu % 32));
    (0..cpu / 32).fold(high, |mask, _| mask + ",00000000")
}

fn unknown(name: &str) -> Refusal {
    Refusal::new(
        format!("this kernel's trace has no events/{name} that is understood"),
        "a kernel with CONFIG_EVENT_TRACING and high resolution timers has it",
    )
}

#[cfg(test)]
mod tests;
