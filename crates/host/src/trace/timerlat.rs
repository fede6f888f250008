//! The kernel's own measurement of wake-ups: the tracer `timerlat`, if available.
//!
//! A kernel thread, `SCHED_FIFO` 95, sets a periodic timer on each CPU. The tracer records how late the timer's
//! interrupt was, and how late the thread (Linux, Documentation/trace/timerlat-tracer.rst). These are other wake-ups
//! than the measured task's: a check of its places, and not their stages.

use std::path::Path;
use std::time::Duration;

use fathom_probe::machine::Refusal;

use super::buffer::{Buffer, unknown};
use super::format::{Field, Format};
use super::trace_fs::{OsnoiseSettings, TraceFs};
use crate::procfs::Root;

/// Periods that the kernel accepts, us (`timerlat_min_period`, `timerlat_max_period`, Linux,
/// kernel/trace/trace_osnoise.c).
const PERIODS_US: std::ops::RangeInclusive<u64> = 100..=1_000_000;

/// Bytes of the buffer for one period: two records of 36 (Linux 6.1), and the unused ends of pages.
const PERIOD_BYTES: u64 = 80;

/// Result of the tracer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timerlat {
    /// The wake-ups, in order.
    pub rows: Vec<Row>,
    /// Number of records that the buffer had no room for.
    pub lost: u64,
}

/// One wake-up of the tracer's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The tracer's sequence number.
    pub seq: u64,
    /// Delay of the timer's interrupt, ns.
    pub irq_ns: Option<u64>,
    /// Delay of the thread, ns.
    pub thread_ns: Option<u64>,
}

/// Runs the tracer on `cpu` for `time` with a period. Both its settings are the system's, and are restored. `hold`
/// registers the instance's directory before it is created, so that it can be removed after a kill.
///
/// # Errors
/// Returns a [`Refusal`] if this kernel has no such tracer, or another program uses it.
pub(crate) fn timerlat(
    root: &Root,
    cpu: u32,
    period_us: u64,
    time: Duration,
    hold: impl FnOnce(&Path) -> Result<(), Refusal>,
) -> Result<Timerlat, Refusal> {
    if !PERIODS_US.contains(&period_us) {
        return Err(Refusal::new(
            format!("timerlat cannot use a period of {period_us} us"),
            "choose 100 us to 1 s",
        ));
    }
    let trace_fs = TraceFs::find(root)?;
    trace_fs.remove_stale(root);
    check_unused(&trace_fs)?;
    let before =
        OsnoiseSettings::read(&trace_fs).ok_or_else(|| unknown("osnoise/timerlat_period_us and cpus"))?;
    let instance = trace_fs.create(root, &before.name_suffix(), hold)?;
    instance
        .write_settings(root, &OsnoiseSettings { period: period_us.to_string(), cpus: cpu.to_string() })?;
    let mut buffer = Buffer::open(root, instance, cpu, "timerlat")?;
    let name = "events/ftrace/timerlat";
    let record_kind = buffer.text(&format!("{name}/format")).and_then(|text| TimerlatFormat::parse(&text));
    let record_kind = record_kind.ok_or_else(|| unknown(name))?;
    let periods = u64::try_from(time.as_micros()).unwrap_or(u64::MAX) / period_us;
    buffer.reserve(periods.saturating_mul(PERIOD_BYTES))?;
    buffer.set("tracing_on", "1")?;
    std::thread::sleep(time);
    buffer.set("tracing_on", "0")?;
    let mut rows = Vec::new();
    let lost = buffer.drain(|record| record_kind.add(record.data, &mut rows))?;
    Ok(Timerlat { rows, lost })
}

/// Checks that the tracer exists, and that neither it nor osnoise, which has the same settings, is in use.
fn check_unused(trace_fs: &TraceFs) -> Result<(), Refusal> {
    let word =
        |text: Option<String>, word: &str| text.unwrap_or_default().split_whitespace().any(|w| w == word);
    if !word(trace_fs.text("available_tracers"), "timerlat") {
        return Err(Refusal::new(
            "this kernel has no timerlat tracer",
            "use a kernel with CONFIG_TIMERLAT_TRACER (in Debian, the -rt kernels)",
        ));
    }
    let instances = trace_fs.instances();
    let instances = instances.iter().map(|name| format!("instances/{name}/current_tracer"));
    let mut all = instances.chain(["current_tracer".to_owned()]);
    let user =
        all.find(|file| ["timerlat", "osnoise"].iter().any(|tracer| word(trace_fs.text(file), tracer)));
    match user {
        None => Ok(()),
        Some(file) => Err(Refusal::new(
            format!("another program uses the tracer timerlat or osnoise ({file})"),
            "end that program (rtla), or write nop into that file",
        )),
    }
}

/// Fields of the tracer's records.
#[derive(Clone, Copy, Debug)]
struct TimerlatFormat {
    id: u64,
    record_kind: Field,
    seq: Field,
    context: Field,
    latency: Field,
}

impl TimerlatFormat {
    fn parse(text: &str) -> Option<TimerlatFormat> {
        let format = Format::parse(text)?;
        let field = |name| format.field(name);
        Some(TimerlatFormat {
            id: format.id,
            record_kind: field("common_type")?,
            seq: field("seqnum")?,
            context: field("context")?,
            latency: field("timer_latency")?,
        })
    }

    /// Adds a record to the rows. The two records of a wake-up are consecutive, the interrupt's first.
    fn add(&self, record: &[u8], rows: &mut Vec<Row>) {
        if self.record_kind.number(record) != Some(self.id) {
            return;
        }
        let number = |field: Field| field.number(record);
        let (Some(seq), Some(context), Some(ns)) =
            (number(self.seq), number(self.context), number(self.latency))
        else {
            return;
        };
        // `IRQ_CONTEXT`, `THREAD_CONTEXT` (Linux, kernel/trace/trace_osnoise.c). Newer kernels have a third context,
        // of a user thread, which is not used here.
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
