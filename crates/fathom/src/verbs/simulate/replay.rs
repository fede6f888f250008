//! A trace as the source of accesses, instead of a program.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use fathom_simulation::protocol::{Answer, End, Request};
use fathom_simulation::{Machines, fetch_shift};
use fathom_trace::{Batch, Error, Format, Reader, Told};
use indicatif::ProgressBar;

use super::conversation::{Ran, progress, show};
use crate::failure::{Exit, Failure};
use crate::measure::stop::Stop;

/// Batches that are read ahead.
const AHEAD: usize = 16;
/// Interval at which signals are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time in which the reader ends after a signal. One that waits for input does not.
const END_GRACE: Duration = Duration::from_secs(1);
/// Batches between two messages about progress.
const PROGRESS: u64 = 256;

/// A trace to simulate.
pub struct Replay<'a> {
    /// Its file; `-` is stdin.
    pub file: &'a Path,
    /// Its format, if it is not to be recognised.
    pub format: Option<Format>,
    /// What is simulated.
    pub request: &'a Request,
    /// Whether progress is shown.
    pub quiet: bool,
}

/// How the trace has ended.
type Ended = Result<(Format, Told), Error>;

/// What the thread that reads sends.
enum Part {
    /// The trace begins: whether it is that of a guest.
    Begin(bool),
    Batch(Batch),
    End(Box<Ended>),
}

impl Replay<'_> {
    /// Returns the name of the file, without directories.
    pub fn name(file: &Path) -> String {
        if is_stdin(file) {
            return "stdin".to_owned();
        }
        file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
    }

    /// Simulates the trace to its end, or until a signal.
    ///
    /// # Errors
    /// What is wrong with the trace, and where.
    pub fn run(&self) -> Result<Ran, Failure> {
        let start = Instant::now();
        let stop = Stop::listen()?;
        let source = self.source()?;
        let Request { machines, fetches, .. } = self.request;
        let shift = fetches.then(|| fetch_shift(machines));
        let ended = Arc::new(AtomicBool::new(false));
        let (parts, used) = read_ahead(source, self.format, shift, Arc::clone(&ended));
        let progress = progress(self.quiet);
        let mut stopping = Stopping { stop, asked: None, ended };
        let simulated = self.simulate(&parts, &used, &mut stopping, &progress, start);
        progress.finish_and_clear();
        let (simulated, told) = simulated?;
        let signal = stopping.asked.map(|(signal, _)| signal);
        let Some(told) = told else {
            let what = "interrupted while the trace was waited for";
            return Err(Failure {
                exit: signal.map_or(Exit::Failed, Exit::Signal),
                ..Failure::new(what, "")
            });
        };
        let (format, told) = told.map_err(|e| self.wrong(&e))?;
        let interrupted = signal.is_some() || told.run.end == End::Interrupted;
        let end = if interrupted { End::Interrupted } else { told.run.end };
        let (program, trace) = match format {
            Format::Fathom => (told.program, String::new()),
            _ => (Replay::name(self.file), format.name().to_owned()),
        };
        Ok(Ran {
            answer: Answer { end, machines: simulated.map(Machines::finish).unwrap_or_default(), ..told.run },
            program,
            trace,
            all_instructions: told.all_instructions,
            signal,
            elapsed_ms: start.elapsed().as_millis() as u64,
        })
    }

    /// Simulates what is read. Returns the machines, if the trace has begun, and what it tells; nothing of that if the end has not come in
    /// time after a signal.
    fn simulate(
        &self,
        parts: &Receiver<Part>,
        used: &Sender<Batch>,
        stopping: &mut Stopping,
        progress: &ProgressBar,
        start: Instant,
    ) -> Result<(Option<Machines>, Option<Ended>), Failure> {
        let (mut machines, mut accesses, mut batches) = (None, 0, 0u64);
        while !stopping.is_over() {
            match (parts.recv_timeout(POLL_INTERVAL), &mut machines) {
                (Ok(Part::Begin(guest)), _) => machines = Some(self.machines(guest)?),
                (Ok(Part::Batch(mut batch)), Some(machines)) => {
                    accesses += batch.accesses.len() as u64;
                    batches += 1;
                    match (batch.mark, batch.heap) {
                        (Some(mark), _) => machines.mark(batch.thread, mark),
                        (None, Some(event)) => machines.heap(event),
                        (None, None) => machines.run_and_clear(batch.thread, &mut batch.accesses),
                    }
                    // Its memory is used again.
                    let _ = used.send(batch);
                    if batches.is_multiple_of(PROGRESS) {
                        show(progress, accesses, start.elapsed());
                    }
                }
                (Ok(Part::End(told)), _) => return Ok((machines, Some(*told))),
                (Err(RecvTimeoutError::Timeout), _) => {}
                (Ok(Part::Batch(_)), None) | (Err(RecvTimeoutError::Disconnected), _) => break,
            }
        }
        Ok((machines, None))
    }

    /// Creates the machines, of a guest or of a program.
    fn machines(&self, guest: bool) -> Result<Machines, Failure> {
        let Request { machines, seed, threads, why, .. } = self.request;
        let made = match guest {
            true => Machines::of_guest(machines, *seed, *threads, *why, false),
            false => Machines::new(machines, *seed, *threads, *why),
        };
        made.map_err(|e| Failure::new(e, ""))
    }

    fn source(&self) -> Result<Box<dyn Read + Send>, Failure> {
        if is_stdin(self.file) {
            return Ok(Box::new(std::io::stdin()));
        }
        let opened = File::open(self.file).and_then(|file| match file.metadata()?.is_dir() {
            true => Err(std::io::ErrorKind::IsADirectory.into()),
            false => Ok(file),
        });
        let file = opened.map_err(|e| {
            Failure::usage(
                format!("--trace {}: {e}", self.file.display()),
                "name a file that can be read, or - for stdin",
            )
        })?;
        Ok(Box::new(file))
    }

    fn wrong(&self, error: &Error) -> Failure {
        let file = if is_stdin(self.file) { PathBuf::from("stdin") } else { self.file.to_owned() };
        Failure::usage(format!("{}: {error}", file.display()), error.remedy.clone())
    }
}

/// Signals, and what they have led to.
struct Stopping {
    stop: Stop,
    /// The signal, and the end of its grace.
    asked: Option<(i32, Instant)>,
    /// Tells the thread that reads.
    ended: Arc<AtomicBool>,
}

impl Stopping {
    /// Returns whether nothing is waited for any more.
    fn is_over(&mut self) -> bool {
        if self.asked.is_none()
            && let Some(signal) = self.stop.signal()
        {
            self.asked = Some((signal, Instant::now() + END_GRACE));
            self.ended.store(true, Ordering::Relaxed);
        }
        self.asked.is_some_and(|(_, until)| Instant::now() > until)
    }
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Reads on a thread of its own until the end, or until `ended` is set. Batches that are sent back are filled again.
fn read_ahead(
    source: Box<dyn Read + Send>,
    format: Option<Format>,
    fetch_shift: Option<u32>,
    ended: Arc<AtomicBool>,
) -> (Receiver<Part>, Sender<Batch>) {
    let (parts, receiver) = sync_channel(AHEAD);
    let (used, again) = channel();
    std::thread::spawn(move || {
        let told = read(source, format, fetch_shift, &ended, &parts, &again);
        // Nobody listens after a signal.
        let _ = parts.send(Part::End(Box::new(told)));
    });
    (receiver, used)
}

fn read(
    source: Box<dyn Read + Send>,
    format: Option<Format>,
    fetch_shift: Option<u32>,
    ended: &AtomicBool,
    parts: &SyncSender<Part>,
    again: &Receiver<Batch>,
) -> Ended {
    let mut reader = Reader::open(source, format, fetch_shift)?;
    // Nobody listens after a signal.
    let _ = parts.send(Part::Begin(reader.is_guest()));
    loop {
        let mut batch = again.try_recv().unwrap_or_default();
        if ended.load(Ordering::Relaxed)
            || !reader.read(&mut batch)?
            || parts.send(Part::Batch(batch)).is_err()
        {
            return Ok((reader.format(), reader.told()));
        }
    }
}
