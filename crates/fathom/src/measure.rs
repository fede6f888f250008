//! Runs a measurement session over a probe's stream, until its plan, its budget or the user ends it.

use std::path::Path;
use std::time::{Duration, Instant};

use fathom_experiment::Experiment;
use fathom_experiment::options::Asked;
use fathom_experiment::record::{Record, Run};
use fathom_experiment::session::Session;
use fathom_units::facts;

use crate::child::{Probe, Received};
use crate::cli::cpus::Cpus;
use crate::cli::experiments::RunOptions;
use crate::failure::{Exit, Failure, print_message};
use crate::html_file::Target;
use crate::memory_budget::MemoryBudget;
use crate::progress::Progress;
use crate::record_writer::{self, RecordWriter};
use crate::subjects::{self, Subject};

mod facts_only;
mod noise;
mod resume;
mod sensitivity;
mod silence;
pub mod stop;

use facts_only::facts_of;
pub use facts_only::{begin_record, facts};
use noise::Noise;
use resume::Resumed;
pub use resume::same_model;
use silence::Silence;
use stop::Stop;

/// Interval at which a request to stop is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time for a probe to close its stream after `bye`.
const EXIT_GRACE: Duration = Duration::from_secs(2);
/// Polls, of [`POLL_INTERVAL`] each, during which a stream may stay open and silent after its process has ended (a process that
/// it started may hold it). Not a time: a machine that stalls lets it pass before the last lines were read.
const ORPHAN_STREAM_POLLS: u32 = 10;
/// Time for the last trial after the user requested the end. On hardware trials take less; with the probe's last lines
/// and [`EXIT_GRACE`], all ends within two seconds.
const LAST_TRIAL_GRACE: Duration = Duration::from_secs(1);
/// Largest number of bytes outside the protocol that a subject may send. A board's boot messages and a login banner are
/// some 100 KiB; more does not come from a probe.
const MAX_NOISE: u64 = 1 << 20;
/// Largest number of bytes that a subject may send: as many as `fathom report` reads.
const MAX_BYTES: u64 = 200 << 20;

/// Result of a session.
#[derive(Debug)]
pub struct Measured {
    /// Record.
    pub record: Record,
    /// File of the record.
    pub kept: Option<std::path::PathBuf>,
    /// Signal that ended the session early, if any.
    pub signal: Option<i32>,
    /// Failure of the session, if any; the partial record is still readable.
    pub failure: Option<Failure>,
    /// Failure of writing the requested file completely, if any.
    pub lost: Option<Failure>,
}

/// Request for a session.
#[derive(Debug)]
pub struct Request<'a> {
    /// Experiment.
    pub experiment: &'static Experiment,
    /// Options of the experiment.
    pub asked: Asked,
    /// Options of every session.
    pub options: &'a RunOptions,
    /// Record to resume, instead of a new one.
    pub resume: Option<&'a Path>,
}

/// Runs an experiment on the subject that the options name. Fails before the measurement if `page` would replace the
/// record.
pub fn measure(request: Request<'_>, page: Option<&mut Target>, quiet: bool) -> Result<Measured, Failure> {
    let Request { experiment, asked, options, resume } = request;
    let held = resume.map(record_writer::hold).transpose()?.flatten();
    let requested = options.output.requested(resume.map(|file| (file, held)));
    requested.check()?;
    let resumed = resume.map(|file| resume::read(file, experiment.name)).transpose()?;
    let subject = match &resumed {
        Some(resumed) => resume::subject(options, &resumed.run)?,
        None => find(options)?,
    };
    options.sensitivity.then(|| sensitivity::allowed(&subject)).transpose()?;
    let (run, lines, before_ms) = match resumed {
        Some(Resumed { run, lines, machine, elapsed_ms }) => {
            resume::same_machine(&machine, &facts_of(subject.clone(), options)?.1)?;
            let budget_ms = options.budget.unwrap_or(run.budget_ms);
            (Run { budget_ms, ..run }, Some(lines), elapsed_ms)
        }
        None => (new_run(experiment, asked, options, &subject), None, 0),
    };
    check_recordable(&run)?;
    let (budget, seed) = (run.budget_ms, run.seed);
    let stop = Stop::listen()?;
    // The probe is started first: if that fails, an earlier record of the same name is not replaced.
    let probe = Probe::start(&subject, &arguments(&subject, options, seed))?;
    let session = match lines {
        Some(lines) => Session::resumed(experiment.plan, run, lines),
        None => Session::new(experiment.plan, run),
    };
    let stopped = || stop.signal().is_some();
    let writer = RecordWriter::open(requested, experiment.name, &subject.name, session.head(), &stopped)
        .map_err(|failure| match stop.signal() {
            Some(signal) => Failure { exit: Exit::Signal(signal), ..failure },
            None => failure,
        })?;
    if let Some(page) = page {
        page.exclude_files(writer.files()).inspect_err(|_| writer.remove_copy())?;
    }
    let start = Instant::now();
    let progress = Progress::new(quiet, start, experiment.progress);
    let patience = patience(options);
    // The plan budgets by the cost of trials; only the total time is limited here.
    let request_time = (!subject.modelled).then(|| request_time_of(budget.saturating_sub(before_ms)));
    let mut exchange = Exchange {
        request_time,
        start: subject.host.then_some(start),
        before_ms,
        writer,
        ..Exchange::new(session, probe, subject, stop, progress, patience)
    };
    let outcome = exchange.run_with_sensitivity(experiment, options.sensitivity, quiet);
    exchange.finish(outcome, start)
}

/// Checks that the options can be written to a record and read back, so that oversized requests fail at once.
fn check_recordable(run: &Run) -> Result<(), Failure> {
    let text = [Record::first_line(), run.line().render()].join("\n");
    let why = match Record::parse(&text) {
        Ok(record) if record.run.is_none() => record.problems.join("; "),
        Ok(record) => match fathom_experiment::check(&record) {
            Ok(_) => return Ok(()),
            Err(why) => why,
        },
        Err(why) => why,
    };
    Err(Failure::usage(format!("the options do not fit into a record: {why}"), "reduce the request"))
}

/// Returns the run of a new record.
fn new_run(experiment: &Experiment, asked: Asked, options: &RunOptions, subject: &Subject) -> Run {
    let budget = options.budget.unwrap_or_else(|| experiment.default_budget.ms(subject.modelled));
    let seed = options.seed.unwrap_or_else(|| if subject.modelled { 1 } else { clock_seed() });
    let command = format!(
        "fathom {} --on {} --seed {seed} --budget {}ms{}{}{}",
        experiment.name,
        subject.name,
        budget,
        options.cpu.as_ref().map_or(String::new(), |cpu| format!(" --cpu {cpu}")),
        if options.sensitivity { " --sensitivity" } else { "" },
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

/// Returns the longest silence of a probe. One that waits for its CPU is silent.
fn patience(options: &RunOptions) -> Duration {
    Duration::from_millis(options.patience + options.wait.unwrap_or(0))
}

/// Returns the subject that the options name.
fn find(options: &RunOptions) -> Result<Subject, Failure> {
    let subject = subjects::find(options.on.as_deref())?;
    let of_host = [
        ("--cpu", options.cpu.as_ref().map(Cpus::to_string)),
        ("--wait", options.wait.map(|ms| format!("{ms}ms"))),
    ];
    let set = of_host.into_iter().find_map(|(option, value)| Some((option, value?)));
    if let Some((option, value)) = set.filter(|_| !subject.host) {
        let what = format!("{option} {value}: '{}' is not this host", subject.name);
        return Err(Failure::usage(what, format!("leave {option} out, or add it to the subject's command")));
    }
    Ok(subject)
}

/// Returns the time during which a session requests trials on hardware: the budget less a last trial and the reading,
/// 0.6 s and 6 % (measured: 0.3 s and 0.3 s on a 2 GHz guest); at least half of a short budget.
fn request_time_of(budget_ms: u64) -> Duration {
    let ms = (budget_ms - budget_ms / 16).saturating_sub(600).max(budget_ms / 2);
    Duration::from_millis(ms)
}

/// Returns a seed from the clock, short enough to type.
fn clock_seed() -> u64 {
    let nanos = jiff::Timestamp::now().as_nanosecond();
    (nanos as u64) % 1_000_000_007
}

fn arguments(subject: &Subject, options: &RunOptions, seed: u64) -> Vec<String> {
    let mut extra = Vec::new();
    if subject.needs_parent {
        extra.extend(["--parent".to_owned(), std::process::id().to_string()]);
    }
    if let Some(cpu) = options.cpu.as_ref().and_then(Cpus::number).filter(|_| subject.host) {
        extra.extend(["--cpu".to_owned(), cpu.to_string()]);
    }
    if let Some(wait) = options.wait.filter(|_| subject.host) {
        extra.extend(["--wait".to_owned(), format!("{wait}ms")]);
    }
    if subject.modelled {
        extra.extend(["--seed".to_owned(), seed.to_string()]);
    }
    extra
}

/// Returns a message if a remote host runs another build of this program. Builds for other architectures always differ
/// and are not reported.
fn other_build(subject: &Subject, record: &Record) -> Option<String> {
    let theirs = record.text(facts::BUILD).filter(|_| subject.name.starts_with(subjects::ssh::PREFIX))?;
    let same_machine = record.text(facts::MACHINE) == Some(fathom_host::PROGRAM.uname);
    let this_build = crate::build_id::id();
    (same_machine && theirs != this_build)
        .then(|| format!("{} runs another build of fathom: {theirs}, this is {this_build}", subject.name))
}

/// End of a session.
enum Outcome {
    Complete,
    Stopped(i32),
    Failed(Failure),
}

struct Exchange {
    session: Session,
    probe: Probe,
    subject: Subject,
    writer: RecordWriter,
    stop: Stop,
    progress: Progress,
    /// Time during which trials are requested; unlimited for a model.
    request_time: Option<Duration>,
    /// Start of a session on this host.
    start: Option<Instant>,
    /// End of that time, once known.
    until: Option<Instant>,
    patience: Duration,
    /// Polls without a line since the probe's process ended.
    orphan_polls: u32,
    /// Signal that requested the end, and the deadline for the last trial.
    stopping: Option<(i32, Instant)>,
    noise: Noise,
    memory_budget: MemoryBudget,
    /// Time that a resumed record has already taken, ms.
    before_ms: u64,
}

impl Exchange {
    /// Creates one without time limit or record.
    fn new(
        session: Session,
        probe: Probe,
        subject: Subject,
        stop: Stop,
        progress: Progress,
        patience: Duration,
    ) -> Exchange {
        Exchange {
            session,
            probe,
            subject,
            writer: RecordWriter::default(),
            stop,
            progress,
            request_time: None,
            start: None,
            until: None,
            patience,
            orphan_polls: 0,
            stopping: None,
            noise: Noise::default(),
            memory_budget: MemoryBudget::now(),
            before_ms: 0,
        }
    }
}

impl Exchange {
    fn run(&mut self) -> Outcome {
        let mut silence = Silence::new(self.patience);
        loop {
            if let Some(signal) = self.stop_signal() {
                return Outcome::Stopped(signal);
            }
            if self.session.may_send() {
                self.until = self.until.or_else(|| Some(self.begin() + self.request_time?));
                if self.until.is_some_and(|until| Instant::now() >= until) {
                    self.session.stop_requesting();
                }
                if self.session.begins_round() {
                    self.writer.sync();
                }
                let line = self.session.next_line();
                self.probe.send(line);
                silence.reset();
            } else if self.subject.lossy && silence.due(self.session.needs_ping()) {
                self.session.ping().into_iter().for_each(|line| self.probe.send(line));
            }
            self.write_harness_lines();
            self.progress.show(&self.session, self.until);
            match self.probe.receive(POLL_INTERVAL) {
                Received::Line(line) => {
                    self.orphan_polls = 0;
                    self.writer.line(&line);
                    self.session.take(&line);
                    self.write_harness_lines();
                    if self.noise.receive(&line) {
                        silence.reset();
                    }
                    if let Some(failure) = self.fatal() {
                        return Outcome::Failed(failure);
                    }
                    if self.subject.stays_open && self.session.gone() {
                        return self.finished();
                    }
                }
                Received::Silence => {
                    if let Some(outcome) = self.on_silence(silence.length()) {
                        return outcome;
                    }
                }
                Received::End if self.session.over() => return self.finished(),
                Received::End => return self.ended_early(),
            }
        }
    }

    /// Returns the time from which on the session's time counts: its start, but without waiting for the CPU. A board or
    /// a remote host may take time to start, so there it is the greeting.
    fn begin(&self) -> Instant {
        let now = Instant::now();
        let waited = self.session.record.int(facts::CPU_LOCK_WAITED_MS).unwrap_or(0);
        let begin = self.start.and_then(|start| start.checked_add(Duration::from_millis(waited)));
        begin.map_or(now, |begin| begin.min(now))
    }

    /// Writes the harness's own lines to the record.
    fn write_harness_lines(&mut self) {
        while let Some(line) = self.session.harness_line() {
            self.writer.line(&line);
        }
    }

    /// Returns the signal if the session has to end now. The first signal lets the probe finish its trial and report
    /// its last facts within [`LAST_TRIAL_GRACE`]; a second one of its kind ends this process at once.
    fn stop_signal(&mut self) -> Option<i32> {
        let signal = self.stop.signal()?;
        let now = Instant::now();
        let Some((_, until)) = self.stopping else {
            self.stopping = Some((signal, now + LAST_TRIAL_GRACE));
            self.session.stop_requesting();
            // Before the measurement begins, there is nothing to finish.
            let begun = self.session.may_send() || self.session.in_trial() || self.session.over();
            return (!begun).then_some(signal);
        };
        (now >= until).then_some(signal)
    }

    /// Returns the outcome of a session that ended normally.
    fn finished(&self) -> Outcome {
        self.stopping.map_or(Outcome::Complete, |(signal, _)| Outcome::Stopped(signal))
    }

    /// Returns the outcome of a silence of this length, if it ends the session.
    fn on_silence(&mut self, silence: Duration) -> Option<Outcome> {
        self.orphan_polls = if self.probe.gone() { self.orphan_polls + 1 } else { 0 };
        let orphaned = self.orphan_polls > ORPHAN_STREAM_POLLS;
        if self.session.over() && (silence > EXIT_GRACE || orphaned) {
            // A probe that does not exit is terminated.
            return Some(self.finished());
        }
        if orphaned {
            return Some(self.ended_early());
        }
        (silence > self.patience).then(|| {
            let seconds = self.patience.as_secs_f64();
            Outcome::Failed(Failure::new(
                format!("the probe sent nothing for {seconds} s; it was terminated{}", self.first_problem()),
                self.subject.silence_remedy,
            ))
        })
    }

    /// Returns the first unreadable line of the record, as the end of a sentence.
    fn first_problem(&self) -> String {
        let first = self.session.record.problems.first();
        first.map_or(String::new(), |p| format!("; its output could not be read, from {p}"))
    }

    /// Returns a failure if the subject does not follow the protocol, or sends so much that it would fill the disk.
    fn fatal(&mut self) -> Option<Failure> {
        if let Some(why) = self.session.incompatible_greeting() {
            let remedy = "install the same version of fathom at both ends";
            return Some(Failure::new(format!("the probe cannot be followed: {why}"), remedy));
        }
        if let Some(why) = self.session.broken() {
            let what = format!("the line to '{}' loses too much: {why}", self.subject.name);
            return Some(Failure::new(what, "check the cable, ground and baud rate"));
        }
        if let Some(why) = self.memory_budget.look(&self.session.record, 0) {
            let what = format!("the subject sent too much; it was terminated: {why}{}", self.first_problem());
            return Some(Failure::new(what, "no session needs that much: is it a probe?"));
        }
        let noise = &self.noise;
        if noise.bytes > MAX_NOISE {
            let what = format!(
                "the subject sent more than {} KiB outside the protocol; it was terminated{}",
                MAX_NOISE >> 10,
                self.first_problem()
            );
            return Some(Failure::new(
                what,
                "the subject's command must end in a probe: `fathom serve host`",
            ));
        }
        (noise.all > MAX_BYTES).then(|| {
            let what = format!("the subject sent more than {} MiB; it was terminated", MAX_BYTES >> 20);
            Failure::new(what, "no session needs that much: is it a probe?")
        })
    }

    /// Returns the outcome for a probe that ended early. Ctrl-C on a terminal also reaches the subject's processes,
    /// possibly before this one: then the user ended it.
    fn ended_early(&mut self) -> Outcome {
        std::thread::sleep(POLL_INTERVAL);
        self.stop.signal().map_or_else(|| self.probe_failure(), Outcome::Stopped)
    }

    fn probe_failure(&mut self) -> Outcome {
        let what = format!("{}{}", self.probe.exit_description(), self.first_problem());
        Outcome::Failed(Failure::new(what, "run the subject's command by hand to see why"))
    }

    fn finish(mut self, outcome: Outcome, start: Instant) -> Result<Measured, Failure> {
        self.progress.finish();
        if let Some(other) = other_build(&self.subject, &self.session.record) {
            print_message(&other);
        }
        let status = match outcome {
            Outcome::Complete => "complete",
            Outcome::Stopped(_) => "interrupted",
            Outcome::Failed(_) => "failed",
        };
        let elapsed = self.before_ms + start.elapsed().as_millis() as u64;
        let end = self.session.end(status, elapsed);
        self.writer.line(&end);
        drop(self.probe);
        let kept = self.writer.path().map(std::path::Path::to_owned);
        let lost = self.writer.close();
        let (signal, failure) = match outcome {
            Outcome::Complete => (None, None),
            Outcome::Stopped(signal) => (Some(signal), None),
            Outcome::Failed(failure) => (None, Some(failure)),
        };
        Ok(Measured { record: self.session.record, kept, signal, failure, lost })
    }
}
