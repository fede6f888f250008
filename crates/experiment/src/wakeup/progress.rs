//! Progress line: latencies of the wake-ups so far.

use crate::experiment::ProgressLine;
use crate::record::{Record, TrialRun};

/// Latencies of all finished trials.
#[derive(Debug, Default)]
struct Latencies {
    /// Number of trials included.
    trials: usize,
    /// Number of activations in each third of a decade, from 1 us on.
    bars: [u64; BARS],
    count: u64,
    max_ns: u64,
}

/// Bars per decade, and total number of bars: from 1 us to 100 ms.
const BARS_PER_DECADE: f64 = 3.0;
const BARS: usize = 15;
/// Heights from smallest to largest.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

impl Latencies {
    /// Adds the new finished trials.
    fn take(&mut self, record: &Record) {
        let done = |run: &&TrialRun| run.done.is_some() || run.refusal.is_some();
        while let Some(run) = record.trials.get(self.trials).filter(done) {
            self.trials += 1;
            for woke in &run.wakeups.woken {
                let decades = (woke.user_ns.max(1) as f64 / 1000.0).log10().max(0.0);
                self.bars[((decades * BARS_PER_DECADE) as usize).min(BARS - 1)] += 1;
                self.count += 1;
                self.max_ns = self.max_ns.max(woke.user_ns);
            }
        }
    }

    /// Returns a line of bars, each by the logarithm of its count; `None` before the first wake-up.
    fn bars(&self) -> Option<String> {
        if self.count == 0 {
            return None;
        }
        let highest = (self.bars.iter().copied().max().unwrap_or(0) as f64 + 1.0).ln();
        let height = |count: &u64| match count {
            0 => ' ',
            count => HEIGHTS[(((*count as f64 + 1.0).ln() / highest * 8.0) as usize).clamp(1, 8) - 1],
        };
        let bars: String = self.bars.iter().map(height).collect();
        let us = self.max_ns as f64 / 1000.0;
        Some(format!("1us [{bars}] 100ms  {} wake-ups, maximum {us:.0} us", self.count))
    }
}

impl ProgressLine for Latencies {
    fn line(&mut self, record: &Record) -> Option<String> {
        self.take(record);
        self.bars()
    }
}

/// Returns the progress line of an experiment that has not started.
pub(super) fn latencies() -> Box<dyn ProgressLine> {
    Box::new(Latencies::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Wakeups;

    #[test]
    fn progress_line_has_bars_count_and_maximum() {
        let mut late = Latencies::default();
        let mut record = Record::default();
        assert_eq!(late.line(&record), None);
        let woke =
            |us: u64| fathom_probe::machine::ActivationRow { user_ns: us * 1000, ..Default::default() };
        let woken = vec![woke(1), woke(12), woke(12), woke(99_000)];
        let wakeups = Wakeups { woken, ..Wakeups::default() };
        let refusal = Some(<(String, String)>::default());
        record.trials = vec![TrialRun { refusal, wakeups, ..TrialRun::default() }];
        let line = late.line(&record).expect("bars");
        assert!(line.starts_with("1us [") && line.ends_with("4 wake-ups, maximum 99000 us"), "{line}");
        let bars: Vec<char> = line.chars().skip(5).take(BARS).collect();
        assert!(bars[0] != ' ' && bars[1] == ' ' && bars[3] == '█' && bars[BARS - 1] != ' ', "{line}");
    }
}
