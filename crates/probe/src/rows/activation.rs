//! Rows of wake-ups: one per activation, and events near the late ones.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use crate::machine::ActivationRow;
use crate::wire::{Line, WireError};

/// Activations per line: ten columns of up to 20 digits fit in a line.
const ROWS_PER_LINE: usize = 16;

type Column = (&'static str, fn(&ActivationRow) -> u64, fn(&mut ActivationRow, u64));

/// The columns. A place that was not traced is 0: no handler runs in the same nanosecond in which its timer expires.
const COLUMNS: [Column; 10] = [
    ("user", |w| w.user_ns, |w, v| w.user_ns = v),
    ("work", |w| w.work_ns, |w, v| w.work_ns = v),
    ("end", |w| w.end, |w, v| w.end = v),
    ("missed", |w| w.missed, |w, v| w.missed = v),
    ("skipped", |w| w.skipped, |w, v| w.skipped = v),
    ("cpu", |w| w.cpu, |w, v| w.cpu = v),
    ("involuntary", |w| w.involuntary, |w, v| w.involuntary = v),
    ("irq", |w| w.irq_ns.unwrap_or(0), |w, v| w.irq_ns = (v > 0).then_some(v)),
    ("wake", |w| w.wake_ns.unwrap_or(0), |w, v| w.wake_ns = (v > 0).then_some(v)),
    ("switch", |w| w.switch_ns.unwrap_or(0), |w, v| w.switch_ns = (v > 0).then_some(v)),
];

/// Activations of one trial, in order.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ActivationRows {
    /// Number of the trial.
    pub trial: u64,
    /// The time for which the first activation was set, ns of the wake-up clock; on the first line only.
    pub first_ns: Option<u64>,
    /// Events that the tracer lost; later places may be missing. On the first line only.
    pub lost: u64,
    /// The activations.
    pub list: Vec<ActivationRow>,
}

impl ActivationRows {
    /// Returns the lines: the column `user` always, other columns if not all 0.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        self.list.chunks(ROWS_PER_LINE).enumerate().map(|(i, chunk)| self.one_line(i == 0, chunk)).collect()
    }

    fn one_line(&self, is_first: bool, chunk: &[ActivationRow]) -> Line {
        let line = Line::new("woken").int("trial", self.trial);
        let first = self.first_ns.filter(|_| is_first);
        let line = first.into_iter().fold(line, |line, ns| line.int("first_ns", ns));
        let line = if is_first && self.lost > 0 { line.int("lost", self.lost) } else { line };
        COLUMNS.iter().fold(line, |line, (key, get, _)| {
            let column: Vec<u64> = chunk.iter().map(get).collect();
            let present = *key == "user" || column.iter().any(|v| *v > 0);
            if present { line.list(key, &column) } else { line }
        })
    }

    /// Parses one line of activations.
    ///
    /// # Errors
    /// When columns differ in length, or a key is unknown.
    pub fn read(line: &Line) -> Result<ActivationRows, WireError> {
        let mut f = line.fields();
        let trial = f.need_int("trial")?;
        let (first_ns, lost) = (f.int("first_ns")?, f.int("lost")?.unwrap_or(0));
        let mut list: Vec<ActivationRow> = Vec::new();
        for (i, (key, _, set)) in COLUMNS.iter().enumerate() {
            let column = f.list(key)?;
            if i == 0 {
                list.resize(column.len(), ActivationRow::default());
            }
            if !column.is_empty() && column.len() != list.len() {
                return Err(WireError::new("woken: columns of different lengths"));
            }
            list.iter_mut().zip(column).for_each(|(row, value)| set(row, value));
        }
        f.finish()?;
        Ok(ActivationRows { trial, first_ns, lost, list })
    }
}

/// An event on the CPU near a late activation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearbyEvent {
    /// Index of the activation in the trial, from 0.
    pub nth: u64,
    /// Its time, ns after the time for which the timer was set.
    pub at_ns: u64,
    /// Its description: `switch kworker/0:1 -> fathom`, `irq 4 ttyS0`.
    pub what: String,
}

impl NearbyEvent {
    /// Returns the line for a trial.
    #[must_use]
    pub fn line(&self, trial: u64) -> Line {
        Line::new("around")
            .int("trial", trial)
            .int("nth", self.nth)
            .int("at_ns", self.at_ns)
            .text("what", &self.what)
    }

    /// Parses the line into the trial's number and the event.
    ///
    /// # Errors
    /// When a key is missing, unknown or of the wrong kind.
    pub fn read(line: &Line) -> Result<(u64, NearbyEvent), WireError> {
        let mut f = line.fields();
        let trial = f.need_int("trial")?;
        let around = NearbyEvent {
            nth: f.need_int("nth")?,
            at_ns: f.need_int("at_ns")?,
            what: f.text("what")?.unwrap_or_default().to_string(),
        };
        f.finish()?;
        Ok((trial, around))
    }
}
