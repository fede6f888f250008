//! The kernel's own measurement of wake-ups, where it has one: the tracer `timerlat`.
//!
//! A thread of the kernel's, `SCHED_FIFO` 95, sets a periodic timer on each CPU; the tracer writes how late the
//! timer's interrupt was, and how late the thread (Linux, Documentation/trace/timerlat-tracer.rst). So these are
//! other wake-ups than the measured task's: a check of its places, and no stages of them.

use std::path::Path;
use std::time::Duration;

use fathom_probe::machine::Refusal;

use super::buffer::{Buffer, unknown};
use super::format::{Field, Format};
use super::place::{Osnoise, Place};
use crate::procfs::Root;

/// Periods that the kernel takes, us (`timerlat_min_period`, `timerlat_max_period`, Linux,
/// kernel/trace/trace_osnoise.c).
const PERIODS_US: std::ops::RangeInclusive<u64> = 100..=1_000_000;

/// Bytes of the buffer for one period: two records of 36 (Linux 6.1), and the ends of pages.
const PERIOD: u64 = 80;

/// What the tracer recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timerlat {
    /// The wake-ups, in order.
    pub rows: Vec<Row>,
    /// Records that the buffer had no room for.
    pub lost: u64,
}

/// One wake-up of the tracer's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The tracer's count.
    pub seq: u64,
    /// How late the timer's interrupt was, ns.
    pub irq_ns: Option<u64>,
    /// How late the thread was, ns.
    pub thread_ns: Option<u64>,
}

/// Runs the tracer on `cpu` for `time` with that period. Both its settings are the system's, and put back. `hold` is
/// told the instance's directory before it is made, so that somebody else can remove it after a kill.
///
/// # Errors
/// A [`Refusal`] where this kernel has none, or somebody else uses it.
pub(crate) fn timerlat(
    root: &Root,
    cpu: u32,
    period_us: u64,
    time: Duration,
    hold: impl FnOnce(&Path) -> Result<(), Refusal>,
) -> Result<Timerlat, Refusal> {
    if !PERIODS_US.contains(&period_us) {
        return Err(Refusal::new(
            format!("timerlat takes no period of {period_us} us"),
            "ask for 100 us to 1 s",
        ));
    }
    let place = Place::find(root)?;
    place.sweep(root);
    free(&place)?;
    let before = Osnoise::read(&place).ok_or_else(|| unknown("osnoise/timerlat_period_us and cpus"))?;
    let instance = place.make(root, &before.keep(), hold)?;
    instance.osnoise(root, &Osnoise { period: period_us.to_string(), cpus: cpu.to_string() })?;
    let mut buffer = Buffer::open(root, instance, cpu, "timerlat")?;
    let name = "events/ftrace/timerlat";
    let kind = buffer.text(&format!("{name}/format")).and_then(|text| Kind::parse(&text));
    let kind = kind.ok_or_else(|| unknown(name))?;
    let periods = u64::try_from(time.as_micros()).unwrap_or(u64::MAX) / period_us;
    buffer.reserve(periods.saturating_mul(PERIOD))?;
    buffer.set("tracing_on", "1")?;
    std::thread::sleep(time);
    buffer.set("tracing_on", "0")?;
    let mut rows = Vec::new();
    let lost = buffer.drain(|record| kind.add(record.data, &mut rows))?;
    Ok(Timerlat { rows, lost })
}

/// Is there such a tracer, and does nobody use it or the one that shares its settings?
fn free(place: &Place) -> Result<(), Refusal> {
    let word =
        |text: Option<String>, word: &str| text.unwrap_or_default().split_whitespace().any(|w| w == word);
    if !word(place.text("available_tracers"), "timerlat") {
        return Err(Refusal::new(
            "this kernel has no timerlat tracer",
            "a kernel with CONFIG_TIMERLAT_TRACER has it (of Debian's, those with -rt)",
        ));
    }
    let instances = place.instances();
    let instances = instances.iter().map(|name| format!("instances/{name}/current_tracer"));
    let mut all = instances.chain(["current_tracer".to_owned()]);
    let user = all.find(|file| ["timerlat", "osnoise"].iter().any(|tracer| word(place.text(file), tracer)));
    match user {
        None => Ok(()),
        Some(file) => Err(Refusal::new(
            format!("somebody uses the tracer timerlat or osnoise already ({file})"),
            "end that program (rtla), or write nop into that file",
        )),
    }
}

/// Where the fields of the tracer's records lie.
#[derive(Clone, Copy, Debug)]
struct Kind {
    id: u64,
    kind: Field,
    seq: Field,
    context: Field,
    latency: Field,
}

impl Kind {
    fn parse(text: &str) -> Option<Kind> {
        let format = Format::parse(text)?;
        let field = |name| format.field(name);
        Some(Kind {
            id: format.id,
            kind: field("common_type")?,
            seq: field("seqnum")?,
            context: field("context")?,
            latency: field("timer_latency")?,
        })
    }

    /// Adds what a record says to the rows. The two records of a wake-up come behind one another, the
    /// interrupt's first.
    fn add(&self, record: &[u8], rows: &mut Vec<Row>) {
        if self.kind.number(record) != Some(self.id) {
            return;
        }
        let number = |field: Field| field.number(record);
        let (Some(seq), Some(context), Some(ns)) =
            (number(self.seq), number(self.context), number(self.latency))
        else {
            return;
        };
        // `IRQ_CONTEXT`, `THREAD_CONTEXT` (Linux, kernel/trace/trace_osnoise.c); newer ones have a third, of a
        // user's thread, which nobody started here.
        match (context, rows.last_mut().filter(|row| row.seq == seq)) {
            (0, None) => rows.push(Row { seq, irq_ns: Some(ns), thread_ns: None }),
            (1, Some(row)) => row.thread_ns = Some(ns),
            (1, None) => rows.push(Row { seq, irq_ns: None, thread_ns: Some(ns) }),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
