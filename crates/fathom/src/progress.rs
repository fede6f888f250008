//! Progress on a terminal: the question being asked, points done, the time that is left by what they cost, and what the
//! experiment adds.

use std::time::{Duration, Instant};

use fathom_experiment::ProgressLine;
use fathom_experiment::session::Session;
use indicatif::{ProgressBar, ProgressStyle};

/// Steps of the bar.
const STEPS: u64 = 1000;

/// A bar on stderr, or nothing where nobody would see one.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    start: Instant,
    /// Points done when the bar was last brought up to date.
    done: usize,
    /// Share of the budget that is spent, by what the points cost.
    share: f64,
    points: String,
    /// What the experiment shows in a line of its own.
    own: Option<Box<dyn ProgressLine>>,
}

impl Progress {
    /// A bar, unless it is not wanted or stderr is no terminal that can draw one.
    pub fn new(quiet: bool, start: Instant, own: Option<fn() -> Box<dyn ProgressLine>>) -> Progress {
        // indicatif draws on a terminal only, but on a dumb one it would print line after line.
        let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        let bar = if quiet || dumb { ProgressBar::hidden() } else { ProgressBar::new(STEPS) };
        let template = "{prefix:12} [{wide_bar}] {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix("starting");
        Progress { bar, start, done: 0, share: 0.0, points: String::new(), own: own.map(|begin| begin()) }
    }

    /// Brings the bar up to date. Called between lines, never while the probe is being written to.
    pub fn show(&mut self, session: &Session, until: Option<Instant>) {
        if self.bar.is_hidden() {
            return;
        }
        let record = &session.record;
        // Costs are summed over the whole record: only when a point more is there.
        if record.trials.len() != self.done {
            self.done = record.trials.len();
            let budget = session.budget();
            self.share = budget.spent as f64 / budget.total.max(1) as f64;
            self.points = format!("{} points", self.done);
            if let Some(last) = record.trials.last() {
                self.bar.set_prefix(last.trial.pattern.question());
            }
        }
        let (share, left) = left(
            self.start.elapsed(),
            self.share,
            until.map(|u| u.saturating_duration_since(Instant::now())),
        );
        self.bar.set_position((share * STEPS as f64) as u64);
        let left = left.map_or(String::new(), |left| format!(", about {} s left", left.as_secs_f64().ceil()));
        let own = self.own.as_mut().and_then(|own| own.line(record));
        let own = own.map_or(String::new(), |line| format!("\n{line}"));
        self.bar.set_message(format!("{}{left}{own}", self.points));
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// How far it is, and what is left: on hardware by the clock, since the whole must end in time; on a model by
/// what its points have cost, once enough of that is known.
fn left(elapsed: Duration, spent: f64, until: Option<Duration>) -> (f64, Option<Duration>) {
    if let Some(left) = until {
        let all = (elapsed + left).as_secs_f64().max(1e-9);
        return ((elapsed.as_secs_f64() / all).min(1.0), Some(left));
    }
    let share = spent.clamp(0.0, 1.0);
    // Below a twentieth one dear point would make a guess of minutes.
    let known = share >= 0.05;
    (share, known.then(|| elapsed.mul_f64((1.0 - share) / share)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_progress_uses_the_clock() {
        let (share, rest) = left(Duration::from_secs(2), 0.9, Some(Duration::from_secs(6)));
        assert_eq!((share, rest), (0.25, Some(Duration::from_secs(6))));
        assert_eq!(left(Duration::from_secs(2), 0.0, Some(Duration::ZERO)).0, 1.0);
    }

    #[test]
    fn model_progress_uses_the_cost_of_points() {
        assert_eq!(left(Duration::from_secs(1), 0.01, None), (0.01, None));
        let (share, rest) = left(Duration::from_secs(3), 0.25, None);
        assert_eq!((share, rest), (0.25, Some(Duration::from_secs(9))));
        assert_eq!(left(Duration::from_secs(3), 7.0, None), (1.0, Some(Duration::ZERO)));
    }
}
