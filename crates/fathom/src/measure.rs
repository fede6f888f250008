//! Measuring: a session over a probe's stream, until its plan, its budget or the user ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fathom_experiment::record::{Record, Run};
use fathom_experiment::session::{Plan, Session};
use indicatif::{ProgressBar, ProgressStyle};

use crate::child::{Heard, Probe};
use crate::cli::RunOptions;
use crate::failure::Failure;
use crate::keep::Keep;
use crate::subjects::{self, Subject};

/// How long a probe may say nothing. A trial takes less than a second on hardware; the largest ones of
/// a model compute for some ten seconds in an unoptimised build.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the user's wish to stop is looked at.
const GLANCE: Duration = Duration::from_millis(50);

/// What a session left.
#[derive(Debug)]
pub struct Measured {
    /// The record.
    pub record: Record,
    /// The file it was kept in.
    pub kept: Option<std::path::PathBuf>,
    /// The signal that ended it early, if one did.
    pub signal: Option<i32>,
    /// Why it failed, if it did; what there is stays readable.
    pub failure: Option<Failure>,
}

/// Signals that end a session: the number of the last one.
#[derive(Clone, Debug)]
struct Stop(Arc<AtomicUsize>);

impl Stop {
    fn listen() -> Result<Stop, Failure> {
        let flag = Arc::new(AtomicUsize::new(0));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
        {
            // A second signal of a kind ends the process at once: ctrl-C twice dies.
            let armed = Arc::new(std::sync::atomic::AtomicBool::new(false));
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&armed))
                .and_then(|_| signal_hook::flag::register(signal, armed))
                .and_then(|_| signal_hook::flag::register_usize(signal, Arc::clone(&flag), signal as usize))
                .map_err(|e| Failure::new(format!("cannot listen for signals: {e}"), ""))?;
        }
        Ok(Stop(flag))
    }

    fn signal(&self) -> Option<i32> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            signal => i32::try_from(signal).ok(),
        }
    }
}

/// Runs an experiment on the subject that the options name.
pub fn measure(options: &RunOptions, experiment: &str, plan: Plan, quiet: bool) -> Result<Measured, Failure> {
    let subject = subjects::find(options.on.as_deref())?;
    let seed = options.seed.unwrap_or_else(|| if subject.modelled { 1 } else { clock_seed() });
    let run = Run {
        experiment: experiment.to_owned(),
        subject: subject.name.clone(),
        seed,
        budget_ms: options.budget,
        build: env!("CARGO_PKG_VERSION").to_owned(),
        command: format!(
            "fathom {experiment} --on {} --seed {seed} --budget {}ms",
            subject.name, options.budget
        ),
    };
    let stop = Stop::listen()?;
    let mut keep = Keep::open(options.record.as_deref(), experiment, &subject.name)?;
    let probe = Probe::start(&subject, &arguments(&subject, options, seed))?;
    let session = Session::new(plan, run);
    for line in session.head() {
        keep.line(&line);
    }
    let bar = progress(quiet, options.budget, &subject);
    let start = Instant::now();
    let mut talk = Talk { session, probe, keep, stop, bar };
    let outcome = talk.converse(start);
    talk.finish(outcome, start)
}

/// A seed from the clock, short enough to type.
fn clock_seed() -> u64 {
    let nanos = jiff::Timestamp::now().as_nanosecond();
    (nanos as u64) % 1_000_000_007
}

fn arguments(subject: &Subject, options: &RunOptions, seed: u64) -> Vec<String> {
    let mut extra = Vec::new();
    if subject.host {
        extra.extend(["--parent".to_owned(), std::process::id().to_string()]);
        if let Some(cpu) = options.cpu {
            extra.extend(["--cpu".to_owned(), cpu.to_string()]);
        }
    }
    if subject.modelled {
        extra.extend(["--seed".to_owned(), seed.to_string()]);
    }
    extra
}

fn progress(quiet: bool, budget_ms: u64, subject: &Subject) -> ProgressBar {
    if quiet || subject.modelled && budget_ms < 500 {
        return ProgressBar::hidden();
    }
    // indicatif draws on stderr, and only if that is a terminal.
    let bar = ProgressBar::new(budget_ms);
    if let Ok(style) = ProgressStyle::with_template("{msg} [{wide_bar}] {elapsed} of at most {prefix}") {
        bar.set_style(style);
    }
    bar.set_prefix(format!("{:.0} s", budget_ms as f64 / 1000.0));
    bar.set_message(format!("measuring {}", subject.name));
    bar
}

/// How a conversation ended.
enum Outcome {
    Complete,
    Stopped(i32),
    Failed(Failure),
}

struct Talk {
    session: Session,
    probe: Probe,
    keep: Keep,
    stop: Stop,
    bar: ProgressBar,
}

impl Talk {
    fn converse(&mut self, start: Instant) -> Outcome {
        let mut silent_since = Instant::now();
        loop {
            if let Some(signal) = self.stop.signal() {
                return Outcome::Stopped(signal);
            }
            if self.session.our_turn() {
                let line = self.session.next_line();
                self.probe.send(&line);
                silent_since = Instant::now();
            }
            self.bar.set_position(start.elapsed().as_millis() as u64);
            match self.probe.hear(GLANCE) {
                Heard::Line(line) => {
                    silent_since = Instant::now();
                    self.keep.line(&line);
                    self.session.take(&line);
                }
                Heard::Silence if silent_since.elapsed() > PATIENCE => {
                    return Outcome::Failed(Failure::new(
                        format!("the probe said nothing for {} s; it was ended", PATIENCE.as_secs()),
                        "`fathom serve host` shows whether a probe answers here; type: facts",
                    ));
                }
                Heard::Silence => {}
                Heard::End if self.session.over() => return Outcome::Complete,
                Heard::End => {
                    let what = self.probe.post_mortem();
                    let remedy = "run the subject's command by hand (`fathom serve host`) to see why";
                    return Outcome::Failed(Failure::new(what, remedy));
                }
            }
        }
    }

    fn finish(mut self, outcome: Outcome, start: Instant) -> Result<Measured, Failure> {
        self.bar.finish_and_clear();
        let status = match outcome {
            Outcome::Complete => "complete",
            Outcome::Stopped(_) => "interrupted",
            Outcome::Failed(_) => "failed",
        };
        let elapsed = start.elapsed().as_millis() as u64;
        let end = self.session.end(status, elapsed);
        self.keep.line(&end);
        drop(self.probe);
        for trouble in &self.keep.troubles {
            eprintln!("fathom: {trouble}");
        }
        let (signal, failure) = match outcome {
            Outcome::Complete => (None, None),
            Outcome::Stopped(signal) => (Some(signal), None),
            Outcome::Failed(failure) => (None, Some(failure)),
        };
        let kept = self.keep.path().map(std::path::Path::to_owned);
        Ok(Measured { record: self.session.record, kept, signal, failure })
    }
}
