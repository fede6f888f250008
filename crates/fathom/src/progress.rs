//! Progress on a terminal: the question being asked, points done, the time that is left by what they cost, and how late
//! wake-ups were so far.

use std::time::{Duration, Instant};

use fathom_experiment::record::{Record, TrialRun};
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
    late: Late,
}

/// How late wake-ups were so far, of all trials that are done.
#[derive(Debug, Default)]
struct Late {
    /// Trials of the record that are in it.
    trials: usize,
    /// Activations by bars of the third of a decade, from 1 us on.
    bars: [u64; BARS],
    count: u64,
    most_ns: u64,
}

/// Bars to a decade, and bars in all: from 1 us to 100 ms.
const A_DECADE: f64 = 3.0;
const BARS: usize = 15;
/// From none to most.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

impl Late {
    /// Takes the trials that are new and done.
    fn take(&mut self, record: &Record) {
        let done = |run: &&TrialRun| run.done.is_some() || run.refusal.is_some();
        while let Some(run) = record.trials.get(self.trials).filter(done) {
            self.trials += 1;
            for woke in &run.wakeups.woken {
                let decades = (woke.user_ns.max(1) as f64 / 1000.0).log10().max(0.0);
                self.bars[((decades * A_DECADE) as usize).min(BARS - 1)] += 1;
                self.count += 1;
                self.most_ns = self.most_ns.max(woke.user_ns);
            }
        }
    }

    /// A line of bars, each by the logarithm of its count; nothing before the first wake-up.
    fn line(&self) -> Option<String> {
        if self.count == 0 {
            return None;
        }
        let most = (self.bars.iter().copied().max().unwrap_or(0) as f64 + 1.0).ln();
        let height = |count: &u64| match count {
            0 => ' ',
            count => HEIGHTS[(((*count as f64 + 1.0).ln() / most * 8.0) as usize).clamp(1, 8) - 1],
        };
        let bars: String = self.bars.iter().map(height).collect();
        let us = self.most_ns as f64 / 1000.0;
        Some(format!("1us [{bars}] 100ms  {} wake-ups, the latest {us:.0} us", self.count))
    }
}

impl Progress {
    /// A bar, unless it is not wanted or stderr is no terminal that can draw one.
    pub fn new(quiet: bool, start: Instant) -> Progress {
        // indicatif draws on a terminal only, but on a dumb one it would print line after line.
        let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        let bar = if quiet || dumb { ProgressBar::hidden() } else { ProgressBar::new(STEPS) };
        let template = "{prefix:12} [{wide_bar}] {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix("starting");
        Progress { bar, start, done: 0, share: 0.0, points: String::new(), late: Late::default() }
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
        self.late.take(record);
        let late = self.late.line().map_or(String::new(), |line| format!("\n{line}"));
        self.bar.set_message(format!("{}{left}{late}", self.points));
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
    use fathom_experiment::record::Wakeups;

    use super::*;

    #[test]
    fn on_hardware_the_clock_says_what_is_left() {
        let (share, rest) = left(Duration::from_secs(2), 0.9, Some(Duration::from_secs(6)));
        assert_eq!((share, rest), (0.25, Some(Duration::from_secs(6))));
        assert_eq!(left(Duration::from_secs(2), 0.0, Some(Duration::ZERO)).0, 1.0);
    }

    #[test]
    fn wake_ups_so_far_are_a_line_of_bars() {
        let mut late = Late::default();
        assert_eq!(late.line(), None);
        let mut record = Record::default();
        let woke = |us: u64| fathom_probe::machine::Woke { user_ns: us * 1000, ..Default::default() };
        let woken = vec![woke(1), woke(12), woke(12), woke(99_000)];
        let wakeups = Wakeups { woken, ..Wakeups::default() };
        let refusal = Some(<(String, String)>::default());
        record.trials = vec![TrialRun { refusal, wakeups, ..TrialRun::default() }];
        late.take(&record);
        let line = late.line().expect("bars");
        assert!(line.starts_with("1us [") && line.ends_with("4 wake-ups, the latest 99000 us"), "{line}");
        let bars: Vec<char> = line.chars().skip(5).take(BARS).collect();
        assert!(bars[0] != ' ' && bars[1] == ' ' && bars[3] == '█' && bars[BARS - 1] != ' ', "{line}");
    }

    #[test]
    fn on_a_model_what_points_have_cost_says_it_once_it_is_known() {
        assert_eq!(left(Duration::from_secs(1), 0.01, None), (0.01, None));
        let (share, rest) = left(Duration::from_secs(3), 0.25, None);
        assert_eq!((share, rest), (0.25, Some(Duration::from_secs(9))));
        assert_eq!(left(Duration::from_secs(3), 7.0, None), (1.0, Some(Duration::ZERO)));
    }
}
