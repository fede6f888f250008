//! Measuring: a session over a probe's stream, until its plan, its budget or the user ends it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fathom_experiment::Experiment;
use fathom_experiment::options::Asked;
use fathom_experiment::record::{Record, Run};
use fathom_experiment::session::Session;
use fathom_units::facts;

use crate::child::{Probe, Received};
use crate::cli::experiments::RunOptions;
use crate::failure::{Exit, Failure, tell};
use crate::html_file::Target;
use crate::memory_budget::MemoryBudget;
use crate::progress::Progress;
use crate::record_writer::RecordWriter;
use crate::subjects::{self, Subject};

mod noise;
mod resume;
mod silence;

use noise::Noise;
use resume::Resumed;
use silence::Silence;

/// How often the user's wish to stop is looked at.
const GLANCE: Duration = Duration::from_millis(50);
/// How long a probe may take to close its stream after it was told `bye`.
const EXIT_GRACE: Duration = Duration::from_secs(2);
/// How long a stream may stay open and silent after its process is gone (something that the process started
/// holds it).
const STRAY: Duration = Duration::from_millis(500);
/// How long a point may continue after the user asked for the end. On hardware points take less; with what the
/// probe then has to say and [`EXIT_GRACE`] all is gone within two seconds.
const LAST_POINT: Duration = Duration::from_secs(1);
/// Most bytes that a subject may send that are no lines of the wire: a board's boot messages and a login
/// banner are some 100 KiB, and whoever sends more is no probe.
const MAX_NOISE: u64 = 1 << 20;
/// Most bytes that a subject may send in all: as much as `fathom report` reads.
const MAX_BYTES: u64 = 200 << 20;

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
    /// Why the file that was requested is not whole, if it is not.
    pub lost: Option<Failure>,
}

/// Signals that end a session: the number of the last one.
#[derive(Clone, Debug)]
struct Stop(Arc<AtomicUsize>);

impl Stop {
    fn listen() -> Result<Stop, Failure> {
        let flag = Arc::new(AtomicUsize::new(0));
        let ignored = ignored();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
        {
            // What was ignored from the start stays so: nohup, and jobs in a script's background.
            if ignored & (1 << (signal - 1)) != 0 {
                continue;
            }
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

/// The signals that this process was started to ignore, a bit each from signal 1. Where the system does
/// not say (proc_pid_status(5): SigIgn), none.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).unwrap_or(0)
}

/// A session that is requested.
#[derive(Debug)]
pub struct Request<'a> {
    /// What measures.
    pub experiment: &'static Experiment,
    /// Its own options.
    pub asked: Asked,
    /// The options of every session.
    pub options: &'a RunOptions,
    /// The record that is resumed, instead of a new one.
    pub resume: Option<&'a Path>,
}

/// Runs an experiment on the subject that the options name. Fails before anything is measured where `page` would replace
/// the record.
pub fn measure(request: Request<'_>, page: Option<&mut Target>, quiet: bool) -> Result<Measured, Failure> {
    let Request { experiment, asked, options, resume } = request;
    let resumed = resume.map(|file| resume::read(file, experiment.name)).transpose()?;
    let subject = match &resumed {
        Some(resumed) => again(options, &resumed.run)?,
        None => find(options)?,
    };
    let (run, lines, before_ms) = match resumed {
        Some(Resumed { run, lines, elapsed_ms }) => {
            let budget_ms = options.budget.unwrap_or(run.budget_ms);
            (Run { budget_ms, ..run }, Some(lines), elapsed_ms)
        }
        None => (begun(experiment, asked, options, &subject), None, 0),
    };
    readable(&run)?;
    let (budget, seed) = (run.budget_ms, run.seed);
    let stop = Stop::listen()?;
    // The probe first: a subject that cannot be started leaves an earlier record of that name alone.
    let probe = Probe::start(&subject, &arguments(&subject, options, seed))?;
    let session = match lines {
        Some(lines) => Session::resumed(experiment.plan, run, lines),
        None => Session::new(experiment.plan, run),
    };
    let keep = RecordWriter::open(options.record.as_deref(), experiment.name, &subject.name, session.head())?;
    if let Some(page) = page {
        page.spare(keep.files()).inspect_err(|_| keep.remove_copy())?;
    }
    let start = Instant::now();
    let progress = Progress::new(quiet, start, experiment.progress);
    let patience = Duration::from_millis(options.patience);
    // The plan reckons with what the trials cost; only here it shows what the whole took.
    let asking = (!subject.modelled).then(|| asking_time(budget.saturating_sub(before_ms)));
    // A board or a host far away may take its time to come; what is promised then is the time from its greeting on.
    let until = asking.filter(|_| subject.host).map(|time| start + time);
    let mut talk = Talk {
        asking,
        until,
        before_ms,
        keep,
        ..Talk::new(session, probe, subject, stop, progress, patience)
    };
    let outcome = talk.converse();
    talk.finish(outcome, start)
}

/// The subject of a record that is resumed.
fn again(options: &RunOptions, run: &Run) -> Result<Subject, Failure> {
    if options.on.as_ref().is_some_and(|on| *on != run.subject) {
        let what = format!("--resume: the record is of '{}'", run.subject);
        return Err(Failure::usage(what, "leave --on out"));
    }
    // The host is found without a name.
    let on = (run.subject != "host").then(|| run.subject.clone());
    find(&RunOptions { on, cpu: options.cpu, ..RunOptions::default() })
}

/// What is asked stands in the record, and has to be read there: more of it than a record takes is refused at once.
fn readable(run: &Run) -> Result<(), Failure> {
    let text = [Record::first_line(), run.line().render()].join("\n");
    let why = match Record::parse(&text) {
        Ok(record) if record.run.is_none() => record.problems.join("; "),
        Ok(record) => match fathom_experiment::check(&record) {
            Ok(_) => return Ok(()),
            Err(why) => why,
        },
        Err(why) => why,
    };
    Err(Failure::usage(format!("no record can say what is asked: {why}"), "ask for less at once"))
}

/// What a new record is asked.
fn begun(experiment: &Experiment, asked: Asked, options: &RunOptions, subject: &Subject) -> Run {
    let budget = options.budget.unwrap_or_else(|| experiment.default_budget.ms(subject.modelled));
    let seed = options.seed.unwrap_or_else(|| if subject.modelled { 1 } else { clock_seed() });
    let command = format!(
        "fathom {} --on {} --seed {seed} --budget {}ms{}{}",
        experiment.name,
        subject.name,
        budget,
        options.cpu.map_or(String::new(), |cpu| format!(" --cpu {cpu}")),
        asked.command(experiment.options)
    );
    Run {
        experiment: experiment.name.to_owned(),
        subject: subject.name.clone(),
        seed,
        budget_ms: budget,
        build: crate::build_id::id(),
        command,
        asked,
    }
}

/// Asks the probe of a subject for its facts, those of the start and those of the end, and for nothing else.
/// No record is kept.
pub fn facts(on: Option<&str>, cpu: Option<u32>) -> Result<(Subject, Record), Failure> {
    let patience = Duration::from_secs(60);
    let options = RunOptions { on: on.map(str::to_owned), cpu, ..RunOptions::default() };
    let subject = find(&options)?;
    let stop = Stop::listen()?;
    let probe = Probe::start(&subject, &arguments(&subject, &options, 1))?;
    let run = Run { experiment: "doctor".into(), subject: subject.name.clone(), ..Run::default() };
    let session = Session::new(|_, _, _| Vec::new(), run);
    let progress = Progress::new(true, Instant::now(), None);
    let mut talk = Talk::new(session, probe, subject, stop, progress, patience);
    match talk.converse() {
        Outcome::Complete => Ok((talk.subject, talk.session.record)),
        Outcome::Failed(failure) => Err(failure),
        Outcome::Stopped(signal) => {
            Err(Failure { exit: Exit::Signal(signal), ..Failure::new("interrupted", "") })
        }
    }
}

/// The subject that the options name.
fn find(options: &RunOptions) -> Result<Subject, Failure> {
    let subject = subjects::find(options.on.as_deref())?;
    if let Some(cpu) = options.cpu.filter(|_| !subject.host) {
        let what = format!("--cpu {cpu}: '{}' is not this host", subject.name);
        return Err(Failure::usage(what, "leave --cpu out, or say it in the subject's command"));
    }
    Ok(subject)
}

/// How long a session may ask on hardware: the budget less a last trial and the reading, 0.6 s and 6 %
/// (measured: 0.3 s and 0.3 s on a 2 GHz guest); of a short budget at least half.
fn asking_time(budget_ms: u64) -> Duration {
    let ms = (budget_ms - budget_ms / 16).saturating_sub(600).max(budget_ms / 2);
    Duration::from_millis(ms)
}

/// A seed from the clock, short enough to type.
fn clock_seed() -> u64 {
    let nanos = jiff::Timestamp::now().as_nanosecond();
    (nanos as u64) % 1_000_000_007
}

fn arguments(subject: &Subject, options: &RunOptions, seed: u64) -> Vec<String> {
    let mut extra = Vec::new();
    if subject.attended {
        extra.extend(["--parent".to_owned(), std::process::id().to_string()]);
    }
    if let Some(cpu) = options.cpu.filter(|_| subject.host) {
        extra.extend(["--cpu".to_owned(), cpu.to_string()]);
    }
    if subject.modelled {
        extra.extend(["--seed".to_owned(), seed.to_string()]);
    }
    extra
}

/// What to say where a host far away runs another build of this program. One for another architecture is another one
/// in any case.
fn other_build(subject: &Subject, record: &Record) -> Option<String> {
    let theirs = record.text(facts::BUILD).filter(|_| subject.name.starts_with(subjects::ssh::PREFIX))?;
    let alike = record.text(facts::MACHINE) == Some(fathom_host::PROGRAM.uname);
    let own = crate::build_id::id();
    (alike && theirs != own)
        .then(|| format!("{} runs another build of fathom: {theirs}, this is {own}", subject.name))
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
    subject: Subject,
    keep: RecordWriter,
    stop: Stop,
    progress: Progress,
    /// How long trials are requested; forever of a model.
    asking: Option<Duration>,
    /// When no more are requested, once that is known.
    until: Option<Instant>,
    patience: Duration,
    /// The signal that asked for the end, and when the probe's time for its last point is over.
    leaving: Option<(i32, Instant)>,
    noise: Noise,
    memory_budget: MemoryBudget,
    /// What the record that is resumed has taken, ms.
    before_ms: u64,
}

impl Talk {
    /// One that asks forever and keeps nothing.
    fn new(
        session: Session,
        probe: Probe,
        subject: Subject,
        stop: Stop,
        progress: Progress,
        patience: Duration,
    ) -> Talk {
        Talk {
            session,
            probe,
            subject,
            keep: RecordWriter::default(),
            stop,
            progress,
            asking: None,
            until: None,
            patience,
            leaving: None,
            noise: Noise::default(),
            memory_budget: MemoryBudget::now(),
            before_ms: 0,
        }
    }
}

impl Talk {
    fn converse(&mut self) -> Outcome {
        let mut quiet = Silence::new(self.patience);
        loop {
            if let Some(signal) = self.asked_to_stop() {
                return Outcome::Stopped(signal);
            }
            if self.session.may_send() {
                self.until = self.until.or(self.asking.map(|time| Instant::now() + time));
                if self.until.is_some_and(|until| Instant::now() >= until) {
                    self.session.stop_requesting();
                }
                let line = self.session.next_line();
                self.probe.send(line);
                quiet.broken();
            } else if self.subject.lossy && quiet.due(self.session.needs_ping()) {
                self.session.ping().into_iter().for_each(|line| self.probe.send(line));
            }
            self.write_harness_lines();
            self.progress.show(&self.session, self.until);
            match self.probe.receive(GLANCE) {
                Received::Line(line) => {
                    self.keep.line(&line);
                    self.session.take(&line);
                    self.write_harness_lines();
                    if self.noise.receive(&line) {
                        quiet.broken();
                    }
                    if let Some(failure) = self.fatal() {
                        return Outcome::Failed(failure);
                    }
                    if self.subject.stays && self.session.gone() {
                        return self.said_goodbye();
                    }
                }
                Received::Silence => {
                    if let Some(outcome) = self.on_silence(quiet.length()) {
                        return outcome;
                    }
                }
                Received::End if self.session.over() => return self.said_goodbye(),
                Received::End => return self.ended_early(),
            }
        }
    }

    /// Keeps what the harness itself says in the record.
    fn write_harness_lines(&mut self) {
        while let Some(line) = self.session.harness_line() {
            self.keep.line(&line);
        }
    }

    /// The signal by which it ends here and now. The first one lets the probe end its point and say what has
    /// moved, for as long as [`LAST_POINT`]; a second one of its kind has ended this process already.
    fn asked_to_stop(&mut self) -> Option<i32> {
        let signal = self.stop.signal()?;
        let now = Instant::now();
        let Some((_, until)) = self.leaving else {
            self.leaving = Some((signal, now + LAST_POINT));
            self.session.stop_requesting();
            // Who has not begun to measure has nothing to end.
            let begun = self.session.may_send() || self.session.in_trial() || self.session.over();
            return (!begun).then_some(signal);
        };
        (now >= until).then_some(signal)
    }

    /// Everything was said.
    fn said_goodbye(&self) -> Outcome {
        self.leaving.map_or(Outcome::Complete, |(signal, _)| Outcome::Stopped(signal))
    }

    /// What `silence` means, once it has been long enough to mean something.
    fn on_silence(&mut self, silence: Duration) -> Option<Outcome> {
        if self.session.over() && silence > EXIT_GRACE {
            // What does not leave by itself is ended.
            return Some(self.said_goodbye());
        }
        if silence > STRAY && self.probe.gone() {
            return Some(self.ended_early());
        }
        (silence > self.patience).then(|| {
            let seconds = self.patience.as_secs_f64();
            Outcome::Failed(Failure::new(
                format!("the probe said nothing for {seconds} s; it was ended{}", self.puzzle()),
                self.subject.silent,
            ))
        })
    }

    /// The first thing in the record that could not be read, as the end of a sentence.
    fn puzzle(&self) -> String {
        let first = self.session.record.problems.first();
        first.map_or(String::new(), |p| format!("; what came could not be read, from {p}"))
    }

    /// A subject that speaks another language, or never comes to the point: it must not fill the disk.
    fn fatal(&mut self) -> Option<Failure> {
        if let Some(why) = self.session.incompatible_greeting() {
            let remedy = "install the same version of fathom at both ends";
            return Some(Failure::new(format!("the probe cannot be followed: {why}"), remedy));
        }
        if let Some(why) = self.session.broken() {
            let what = format!("the line to '{}' loses too much: {why}", self.subject.name);
            return Some(Failure::new(what, "look at its cable, ground and baud rate"));
        }
        if let Some(why) = self.memory_budget.look(&self.session.record, 0) {
            let what = format!("the subject sent too much; it was ended: {why}{}", self.puzzle());
            return Some(Failure::new(what, "no session needs that much: is it a probe?"));
        }
        let noise = &self.noise;
        if noise.bytes > MAX_NOISE {
            let what = format!(
                "the subject sent more than {} KiB that no probe says; it was ended{}",
                MAX_NOISE >> 10,
                self.puzzle()
            );
            return Some(Failure::new(
                what,
                "the subject's command must end in a probe: `fathom serve host`",
            ));
        }
        (noise.all > MAX_BYTES).then(|| {
            let what = format!("the subject sent more than {} MiB; it was ended", MAX_BYTES >> 20);
            Failure::new(what, "no session needs that much: is it a probe?")
        })
    }

    /// The probe is gone before its time. Ctrl-C on a terminal reaches the subject's processes too, and
    /// sometimes before it reaches this one: then it was the user who ended it.
    fn ended_early(&mut self) -> Outcome {
        std::thread::sleep(GLANCE);
        self.stop.signal().map_or_else(|| self.died(), Outcome::Stopped)
    }

    fn died(&mut self) -> Outcome {
        let what = format!("{}{}", self.probe.post_mortem(), self.puzzle());
        Outcome::Failed(Failure::new(what, "run the subject's command by hand to see why"))
    }

    fn finish(mut self, outcome: Outcome, start: Instant) -> Result<Measured, Failure> {
        self.progress.finish();
        if let Some(other) = other_build(&self.subject, &self.session.record) {
            tell(&other);
        }
        let status = match outcome {
            Outcome::Complete => "complete",
            Outcome::Stopped(_) => "interrupted",
            Outcome::Failed(_) => "failed",
        };
        let elapsed = self.before_ms + start.elapsed().as_millis() as u64;
        let end = self.session.end(status, elapsed);
        self.keep.line(&end);
        drop(self.probe);
        let kept = self.keep.path().map(std::path::Path::to_owned);
        let lost = self.keep.close();
        let (signal, failure) = match outcome {
            Outcome::Complete => (None, None),
            Outcome::Stopped(signal) => (Some(signal), None),
            Outcome::Failed(failure) => (None, Some(failure)),
        };
        Ok(Measured { record: self.session.record, kept, signal, failure, lost })
    }
}
