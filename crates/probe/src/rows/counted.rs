//! Events that were counted while a trial ran.

use alloc::format;

use crate::machine::CountedEvent;
use crate::wire::{Line, WireError};

/// Occurrences of one event during the timed runs of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventCount {
    /// The event.
    pub event: CountedEvent,
    /// Occurrences over the n operations of each sample, summed over its samples; with those of one reading of the
    /// counters each.
    pub count: u64,
    /// The same over the 2n operations of each sample.
    pub count2: u64,
}

impl EventCount {
    /// Creates the count of an event that has not happened.
    #[must_use]
    pub fn none_of(event: CountedEvent) -> EventCount {
        EventCount { event, count: 0, count2: 0 }
    }

    /// Returns the line.
    #[must_use]
    pub fn line(&self, trial: u64) -> Line {
        Line::new("counted")
            .int("trial", trial)
            .token("event", &self.event.token())
            .int("count", self.count)
            .int("count2", self.count2)
    }

    /// Parses the line: the trial's number, and the counts.
    ///
    /// # Errors
    /// When a key is missing, unknown or wrong.
    pub fn read(line: &Line) -> Result<(u64, EventCount), WireError> {
        let mut f = line.fields();
        let trial = f.need_int("trial")?;
        let token = f.token("event")?.unwrap_or_default();
        let event = CountedEvent::from_token(token);
        let event = event.ok_or_else(|| WireError::new(format!("counted: event={token} is not an event")))?;
        let counted = EventCount { event, count: f.need_int("count")?, count2: f.need_int("count2")? };
        f.finish()?;
        Ok((trial, counted))
    }

    /// Returns the occurrences per operation, for samples of n and 2n operations. The difference of both runs is taken,
    /// in which the occurrences during the readings of the counters cancel. It may be below zero by chance.
    #[must_use]
    pub fn per_operation(&self, n: u64, samples: u64) -> f64 {
        (self.count2 as f64 - self.count as f64) / (n as f64 * samples as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_back_and_readings_cancel() {
        let counted = EventCount { event: CountedEvent::Refill(2), count: 110, count2: 210 };
        assert_eq!(EventCount::read(&counted.line(7)), Ok((7, counted)));
        // 10 occurrences in the readings.
        assert!((counted.per_operation(50, 2) - 1.0).abs() < 1e-12);
    }
}
