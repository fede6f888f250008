//! The events that are wanted, and what is taken from their records.

use super::format::{Field, Format};
use super::ring::Record;

/// Bits of `common_flags`: in a hardware interrupt, a softirq, an NMI (`enum trace_flag_type`, Linux,
/// include/linux/trace_events.h).
const IN_INTERRUPT: u64 = 0x08 | 0x10 | 0x40;

/// Bits of `prev_state` that say why a thread sleeps; the one above them says that it was only preempted
/// (`TASK_REPORT_IDLE` and `TASK_REPORT_MAX`, Linux, include/linux/sched.h).
const ASLEEP: u64 = 0xff;

/// Bytes of a name that are kept: a thread's has 15 and an end (`TASK_COMM_LEN`); an interrupt's is cut.
const NAME: usize = 16;

/// Names of the softirqs by number (the enumeration in Linux, include/linux/interrupt.h).
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// Without these a wake-up has no stages.
pub(crate) const NEEDED: [&str; 4] =
    ["timer/hrtimer_start", "timer/hrtimer_expire_entry", "sched/sched_waking", "sched/sched_switch"];

/// What else took the CPU. Those of `irq_vectors` are x86's interrupts without a number, those of `ipi`
/// AArch64's between CPUs; a kernel has what it has.
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

/// What a thread writes into the trace by itself.
pub(crate) const MARKER: &str = "ftrace/print";

/// A short name, as bytes: it is not always text, and is made to be only where it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Name([u8; NAME]);

impl Name {
    pub(crate) fn of(bytes: &[u8]) -> Name {
        let mut name = [0; NAME];
        let text = bytes.split(|b| *b == 0).next().unwrap_or_default();
        name.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
        Name(name)
    }

    /// For the eye: what could move a terminal's cursor is replaced.
    pub(crate) fn text(&self) -> String {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(NAME);
        let text = String::from_utf8_lossy(&self.0[..end]);
        text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
    }
}

/// A thread as the scheduler names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadEntry {
    pub tid: u32,
    pub name: Name,
}

/// One thing that happened on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// When, ns of `CLOCK_MONOTONIC`.
    pub ns: u64,
    pub what: TraceEvent,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceEvent {
    /// A thread set a timer. `due` is the time that was asked for (`softexpires`); `expires` lies later by the
    /// slack of a thread that is not real-time.
    Start { hrtimer: u64, due: u64, tid: u32, in_interrupt: bool },
    /// A timer's callback is about to run. `now` is what the interrupt's handler read from the clock.
    Expire { hrtimer: u64, now: u64 },
    /// A thread is being woken.
    Waking { tid: u32 },
    /// Another thread gets the CPU; the one that loses it `sleeps` or was preempted.
    Switch { prev: ThreadEntry, sleeps: bool, next: ThreadEntry },
    /// A device's interrupt.
    Irq { number: u32, name: Name },
    /// Deferred work of interrupts.
    Softirq { vector: u32 },
    /// An interrupt that has a name of its own.
    Vector(&'static str),
    /// A thread's own mark.
    Marker { tid: u32 },
}

impl TraceEvent {
    /// In words; nothing for what the stages show already, or belongs to no place.
    pub(crate) fn words(&self) -> Option<String> {
        Some(match self {
            TraceEvent::Start { .. } | TraceEvent::Waking { .. } | TraceEvent::Marker { .. } => return None,
            TraceEvent::Expire { .. } => "hrtimer".into(),
            TraceEvent::Switch { prev, next, .. } => format!("switch {} -> {}", prev.words(), next.words()),
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
    /// The name; every CPU's idle thread has the number 0 (`swapper/N`).
    fn words(&self) -> String {
        if self.tid == 0 { "idle".into() } else { format!("{}:{}", self.name.text(), self.tid) }
    }
}

/// Where the fields of one kind of event lie.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Start { hrtimer: Field, due: Field },
    Expire { hrtimer: Field, now: Option<Field> },
    Waking { tid: Field },
    Switch { prev: (Field, Field), state: Field, next: (Field, Field) },
    Irq { number: Field, name: Field },
    Softirq { vector: Field },
    Vector(&'static str),
    Marker,
}

/// The kinds of events of this kernel.
#[derive(Clone, Debug)]
pub(crate) struct Kinds {
    kind: Field,
    flags: Field,
    pid: Field,
    known: Vec<(u64, Kind)>,
    /// The names of those that are there, `GROUP/EVENT`.
    pub names: Vec<&'static str>,
}

impl Kinds {
    /// Reads the formats; `text` gives the file `format` of `GROUP/EVENT`. The name of a needed one that is
    /// not there, or not understood, is the error.
    pub(crate) fn read(text: impl Fn(&str) -> Option<String>) -> Result<Kinds, &'static str> {
        let format = |name| Format::parse(&text(name)?);
        let common = |name| format(NEEDED[0]).and_then(|f| f.field(name)).ok_or(NEEDED[0]);
        let mut kinds = Kinds {
            kind: common("common_type")?,
            flags: common("common_flags")?,
            pid: common("common_pid")?,
            known: Vec::new(),
            names: Vec::new(),
        };
        for name in NEEDED.into_iter().chain(OPTIONAL_EVENTS).chain([MARKER]) {
            match format(name).and_then(|f| Some((f.id, kind(name, &f)?))) {
                Some(known) => {
                    kinds.known.push(known);
                    kinds.names.push(name);
                }
                None if NEEDED.contains(&name) => return Err(name),
                None => {}
            }
        }
        Ok(kinds)
    }

    /// What a record says; nothing of kinds that are not wanted, or where it is shorter than its format.
    pub(crate) fn event(&self, record: Record) -> Option<Event> {
        let data = record.data;
        let id = self.kind.number(data)?;
        let (_, kind) = self.known.iter().find(|(known, _)| *known == id)?;
        let number = |field: Field| field.number(data);
        let short = |field: Field| number(field).map(|n| n as u32);
        let thread = |(tid, name): (Field, Field)| {
            Some(ThreadEntry { tid: short(tid)?, name: Name::of(name.bytes(data)?) })
        };
        let what = match *kind {
            Kind::Start { hrtimer, due } => TraceEvent::Start {
                hrtimer: number(hrtimer)?,
                due: number(due)?,
                tid: short(self.pid)?,
                in_interrupt: number(self.flags)? & IN_INTERRUPT != 0,
            },
            Kind::Expire { hrtimer, now } => {
                TraceEvent::Expire { hrtimer: number(hrtimer)?, now: now.map_or(Some(record.ns), number)? }
            }
            Kind::Waking { tid } => TraceEvent::Waking { tid: short(tid)? },
            Kind::Switch { prev, state, next } => TraceEvent::Switch {
                prev: thread(prev)?,
                sleeps: number(state)? & ASLEEP != 0,
                next: thread(next)?,
            },
            Kind::Irq { number, name } => {
                TraceEvent::Irq { number: short(number)?, name: Name::of(name.located(data)?) }
            }
            Kind::Softirq { vector } => TraceEvent::Softirq { vector: short(vector)? },
            Kind::Vector(name) => TraceEvent::Vector(name),
            Kind::Marker => TraceEvent::Marker { tid: short(self.pid)? },
        };
        Some(Event { ns: record.ns, what })
    }
}

/// The fields of the event `name`.
fn kind(name: &'static str, format: &Format) -> Option<Kind> {
    let field = |name| format.field(name);
    Some(match name {
        "timer/hrtimer_start" => Kind::Start { hrtimer: field("hrtimer")?, due: field("softexpires")? },
        "timer/hrtimer_expire_entry" => Kind::Expire { hrtimer: field("hrtimer")?, now: field("now") },
        "sched/sched_waking" => Kind::Waking { tid: field("pid")? },
        "sched/sched_switch" => Kind::Switch {
            prev: (field("prev_pid")?, field("prev_comm")?),
            state: field("prev_state")?,
            next: (field("next_pid")?, field("next_comm")?),
        },
        "irq/irq_handler_entry" => Kind::Irq { number: field("irq")?, name: field("name")? },
        "irq/softirq_entry" => Kind::Softirq { vector: field("vec")? },
        MARKER => Kind::Marker,
        other => Kind::Vector(other.split_once('/')?.1.strip_suffix("_entry")?),
    })
}

#[cfg(test)]
pub(crate) mod tests;
