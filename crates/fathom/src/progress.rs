//! Progress on a terminal: current pattern, number of trials, remaining time, and a line of the experiment.

use std::time::{Duration, Instant};

use fathom_experiment::ProgressLine;
use fathom_experiment::session::Session;
use indicatif::{ProgressBar, ProgressStyle};

/// Number of steps of the bar.
const STEPS: u64 = 1000;

/// A bar on stderr; hidden if stderr is not a terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    start: Instant,
    /// Number of trials at the last update.
    done: usize,
    /// Share of the budget that is spent, by the cost of the trials.
    share: f64,
    points: String,
    /// Additional line of the experiment.
    extra: Option<Box<dyn ProgressLine>>,
}

impl Progress {
    /// Creates a bar, unless `quiet` is set or stderr cannot draw one.
    pub fn new(quiet: bool, start: Instant, extra: Option<fn() -> Box<dyn ProgressLine>>) -> Progress {
        // indicatif draws only on a terminal, but on a dumb one it would print a line per update.
        let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        let bar = if quiet || dumb { ProgressBar::hidden() } else { ProgressBar::new(STEPS) };
        let template = "{prefix:12} [{wide_bar}] {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix("starting");
        Progress { bar, start, done: 0, share: 0.0, points: String::new(), extra: extra.map(|begin| begin()) }
    }

    /// Updates the bar. Called between lines, never while writing to the probe.
    pub fn show(&mut self, session: &Session, until: Option<Instant>) {
        if self.bar.is_hidden() {
            return;
        }
        let record = &session.record;
        // Costs are summed over the whole record, so only after a new trial.
        if record.trials.len() != self.done {
            self.done = record.trials.len();
            let budget = session.budget();
            self.share = budget.spent as f64 / budget.total.max(1) as f64;
            self.points = format!("{} points", self.done);
            if let Some(last) = record.trials.last() {
                self.bar.set_prefix(last.trial.pattern.question());
            }
        }
        let (share, remaining) = remaining(
            self.start.elapsed(),
            self.share,
            until.map(|u| u.saturating_duration_since(Instant::now())),
        );
        self.bar.set_position((share * STEPS as f64) as u64);
        let remaining =
            remaining.map_or(String::new(), |time| format!(", about {} s left", time.as_secs_f64().ceil()));
        let extra = self.extra.as_mut().and_then(|extra| extra.line(record));
        let extra = extra.map_or(String::new(), |line| format!("\n{line}"));
        self.bar.set_message(format!("{}{remaining}{extra}", self.points));
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Returns the share that is done, and the remaining time: on hardware by the clock, because the session must end in
/// time; on a model by the cost of its trials, once that is known well enough.
fn remaining(elapsed: Duration, spent: f64, until: Option<Duration>) -> (f64, Option<Duration>) {
    if let Some(remaining) = until {
        let all = (elapsed + remaining).as_secs_f64().max(1e-9);
        return ((elapsed.as_secs_f64() / all).min(1.0), Some(remaining));
    }
    let share = spent.clamp(0.0, 1.0);
    // Below a twentieth, one expensive trial would give an estimate of minutes.
    let known = share >= 0.05;
    (share, known.then(|| elapsed.mul_f64((1.0 - share) / share)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_progress_uses_the_clock() {
        let (share, rest) = remaining(Duration::from_secs(2), 0.9, Some(Duration::from_secs(6)));
        assert_eq!((share, rest), (0.25, Some(Duration::from_secs(6))));
        assert_eq!(remaining(Duration::from_secs(2), 0.0, Some(Duration::ZERO)).0, 1.0);
    }

    #[test]
    fn model_progress_uses_the_cost_of_points() {
        assert_eq!(remaining(Duration::from_secs(1), 0.01, None), (0.01, None));
        let (share, rest) = remaining(Duration::from_secs(3), 0.25, None);
        assert_eq!((share, rest), (0.25, Some(Duration::from_secs(9))));
        assert_eq!(remaining(Duration::from_secs(3), 7.0, None), (1.0, Some(Duration::ZERO)));
    }
}
