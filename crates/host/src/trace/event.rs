//! Events that are used, and the parsing of their records.

use super::format::{Field, Format};
use super::ring::Record;

/// Bits of `common_flags`: in a hardware interrupt, a softirq, an NMI (`enum trace_flag_type`, Linux,
/// include/linux/trace_events.h).
const IN_INTERRUPT: u64 = 0x08 | 0x10 | 0x40;

/// Bits of `prev_state` of a thread that sleeps. The next higher bit marks a preempted thread (`TASK_REPORT_IDLE` and
/// `TASK_REPORT_MAX`, Linux, include/linux/sched.h).
const SLEEP_STATES: u64 = 0xff;

/// Bytes of a name that are kept: a thread's has 15 and a terminator (`TASK_COMM_LEN`); an interrupt's is cut.
const NAME_BYTES: usize = 16;

/// Names of the softirqs by number (the enumeration in Linux, include/linux/interrupt.h).
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// Events without which a wake-up has no stages.
pub(crate) const REQUIRED_EVENTS: [&str; 4] =
    ["timer/hrtimer_start", "timer/hrtimer_expire_entry", "sched/sched_waking", "sched/sched_switch"];

/// Other events that take the CPU. Those of `irq_vectors` are x86's interrupts without a number, those of `ipi`
/// AArch64's between CPUs. Events that a kernel does not have are skipped.
pub(crate) const OPTIONAL_EVENTS: [&str; 8] = [
    "irq/irq_handler_entry",
    "irq/softirq_entry",
    "irq_vectors/local_timer_entry",
    "irq_vectors/reschedule_entry",
    "irq_vectors/call_function_entry",
    "irq_vectors/call_function_single_entry",
    "irq_vectors/irq_work_entry",
    "ipi/ipi_entry",
];

/// Event of text that a process writes into the trace.
pub(crate) const MARKER: &str = "ftrace/print";

/// A short name, as bytes: it is not always valid text, and is converted only for output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Name([u8; NAME_BYTES]);

impl Name {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Name {
        let mut name = [0; NAME_BYTES];
        let text = bytes.split(|b| *b == 0).next().unwrap_or_default();
        name.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
        Name(name)
    }

    /// Returns printable text: control characters, which could move a terminal's cursor, are replaced.
    pub(crate) fn text(&self) -> String {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(NAME_BYTES);
        let text = String::from_utf8_lossy(&self.0[..end]);
        text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
    }
}

/// A thread as the scheduler's events name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadEntry {
    pub tid: u32,
    pub name: Name,
}

/// An event on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Time, ns of `CLOCK_MONOTONIC`.
    pub ns: u64,
    pub data: TraceEvent,
}

/// Type and fields of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceEvent {
    /// A thread set a timer. `due` is the requested time (`softexpires`); `expires` is later by the timer slack of a
    /// thread that is not real-time.
    Start { hrtimer: u64, due: u64, tid: u32, in_interrupt: bool },
    /// A timer's callback is about to run. `now` is the time that the interrupt's handler read.
    Expire { hrtimer: u64, now: u64 },
    /// A thread is being woken.
    Waking { tid: u32 },
    /// Another thread gets the CPU; the previous one `sleeps`, or was preempted.
    Switch { prev: ThreadEntry, sleeps: bool, next: ThreadEntry },
    /// A device's interrupt.
    Irq { number: u32, name: Name },
    /// Deferred work of interrupts.
    Softirq { vector: u32 },
    /// An interrupt with a name instead of a number.
    Vector(&'static str),
    /// A marker written by a thread.
    Marker { tid: u32 },
}

impl TraceEvent {
    /// Returns the event as text; `None` for those that the stages already contain, and for markers.
    pub(crate) fn text(&self) -> Option<String> {
        Some(match self {
            TraceEvent::Start { .. } | TraceEvent::Waking { .. } | TraceEvent::Marker { .. } => return None,
            TraceEvent::Expire { .. } => "hrtimer".into(),
            TraceEvent::Switch { prev, next, .. } => format!("switch {} -> {}", prev.text(), next.text()),
            TraceEvent::Irq { number, name } => format!("irq {} {number}", name.text()),
            TraceEvent::Softirq { vector } => match SOFTIRQS.get(*vector as usize) {
                Some(name) => format!("softirq {name}"),
                None => format!("softirq {vector}"),
            },
            TraceEvent::Vector(name) => (*name).to_owned(),
        })
    }
}

impl ThreadEntry {
    /// Returns name and id; every CPU's idle thread has the id 0 (`swapper/N`).
    fn text(&self) -> String {
        if self.tid == 0 { "idle".into() } else { format!("{}:{}", self.name.text(), self.tid) }
    }
}

/// Fields of one type of event.
#[derive(Clone, Copy, Debug)]
enum EventKind {
    Start { hrtimer: Field, due: Field },
    Expire { hrtimer: Field, now: Option<Field> },
    Waking { tid: Field },
    Switch { prev: (Field, Field), state: Field, next: (Field, Field) },
    Irq { number: Field, name: Field },
    Softirq { vector: Field },
    Vector(&'static str),
    Marker,
}

/// Types of events of this kernel.
#[derive(Clone, Debug)]
pub(crate) struct EventKinds {
    event_kind: Field,
    flags: Field,
    pid: Field,
    known: Vec<(u64, EventKind)>,
    /// Names of the available events, `GROUP/EVENT`.
    pub names: Vec<&'static str>,
}

impl EventKinds {
    /// Parses the formats; `text` returns the file `format` of `GROUP/EVENT`. If a required event is missing, or its
    /// format is unknown, its name is the error.
    pub(crate) fn read(text: impl Fn(&str) -> Option<String>) -> Result<EventKinds, &'static str> {
        let format = |name| Format::parse(&text(name)?);
        let common = |name| format(REQUIRED_EVENTS[0]).and_then(|f| f.field(name)).ok_or(REQUIRED_EVENTS[0]);
        let mut kinds = EventKinds {
            event_kind: common("common_type")?,
            flags: common("common_flags")?,
            pid: common("common_pid")?,
            known: Vec::new(),
            names: Vec::new(),
        };
        for name in REQUIRED_EVENTS.into_iter().chain(OPTIONAL_EVENTS).chain([MARKER]) {
            match format(name).and_then(|f| Some((f.id, event_kind(name, &f)?))) {
                Some(known) => {
                    kinds.known.push(known);
                    kinds.names.push(name);
                }
                None if REQUIRED_EVENTS.contains(&name) => return Err(name),
                None => {}
            }
        }
        Ok(kinds)
    }

    /// Parses a record; `None` for other events, or if it is shorter than its format.
    pub(crate) fn event(&self, record: Record) -> Option<Event> {
        let data = record.data;
        let id = self.event_kind.number(data)?;
        let (_, event_kind) = self.known.iter().find(|(known, _)| *known == id)?;
        let number = |field: Field| field.number(data);
        let short = |field: Field| number(field).map(|n| n as u32);
        let thread = |(tid, name): (Field, Field)| {
            Some(ThreadEntry { tid: short(tid)?, name: Name::from_bytes(name.bytes(data)?) })
        };
        let data = match *event_kind {
            EventKind::Start { hrtimer, due } => TraceEvent::Start {
                hrtimer: number(hrtimer)?,
                due: number(due)?,
                tid: short(self.pid)?,
                in_interrupt: number(self.flags)? & IN_INTERRUPT != 0,
            },
            EventKind::Expire { hrtimer, now } => {
                TraceEvent::Expire { hrtimer: number(hrtimer)?, now: now.map_or(Some(record.ns), number)? }
            }
            EventKind::Waking { tid } => TraceEvent::Waking { tid: short(tid)? },
            EventKind::Switch { prev, state, next } => TraceEvent::Switch {
                prev: thread(prev)?,
                sleeps: number(state)? & SLEEP_STATES != 0,
                next: thread(next)?,
            },
            EventKind::Irq { number, name } => {
                TraceEvent::Irq { number: short(number)?, name: Name::from_bytes(name.data_loc(data)?) }
            }
            EventKind::Softirq { vector } => TraceEvent::Softirq { vector: short(vector)? },
            EventKind::Vector(name) => TraceEvent::Vector(name),
            EventKind::Marker => TraceEvent::Marker { tid: short(self.pid)? },
        };
        Some(Event { ns: record.ns, data })
    }
}

/// Returns the fields of the event `name`.
fn event_kind(name: &'static str, format: &Format) -> Option<EventKind> {
    let field = |name| format.field(name);
    Some(match name {
        "timer/hrtimer_start" => EventKind::Start { hrtimer: field("hrtimer")?, due: field("softexpires")? },
        "timer/hrtimer_expire_entry" => EventKind::Expire { hrtimer: field("hrtimer")?, now: field("now") },
        "sched/sched_waking" => EventKind::Waking { tid: field("pid")? },
        "sched/sched_switch" => EventKind::Switch {
            prev: (field("prev_pid")?, field("prev_comm")?),
            state: field("prev_state")?,
            next: (field("next_pid")?, field("next_comm")?),
        },
        "irq/irq_handler_entry" => EventKind::Irq { number: field("irq")?, name: field("name")? },
        "irq/softirq_entry" => EventKind::Softirq { vector: field("vec")? },
        MARKER => EventKind::Marker,
        other => EventKind::Vector(other.split_once('/')?.1.strip_suffix("_entry")?),
    })
}

#[cfg(test)]
pub(crate) mod tests;
