//! The conversation with the plugin until the program ends.

use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use fathom_simulation::protocol::{self, Answer, End, Message, Request};
use indicatif::ProgressBar;

use crate::child::left;
use crate::failure::{Exit, Failure};
use crate::measure::stop::Stop;

/// Interval at which the program's end and signals are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time for the answer of an interrupted simulation: some 100 000 instructions with their counts.
const ANSWER_GRACE: Duration = Duration::from_secs(8);
/// Time for messages that are still on their way when the program has ended.
const LAST_MESSAGES: Duration = Duration::from_secs(2);
/// Time in which a program that has closed the socket without an answer has to end.
const END_GRACE: Duration = Duration::from_secs(1);

/// What is asked of the plugin.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The request.
    pub request: &'a Request,
    /// Name of the emulator.
    pub qemu: &'a str,
    /// The program's file; `None` for a guest.
    pub program: Option<&'a Path>,
    /// Whether progress is not shown.
    pub quiet: bool,
}

/// A program that has been run, or a trace.
pub struct Ran {
    /// The counts.
    pub answer: Answer,
    /// Name of the program, or of the trace if that does not tell it.
    pub program: String,
    /// Format of the trace; empty for a program, and for a trace that tells all that is known of one.
    pub trace: String,
    /// Whether all executed instructions are known.
    pub all_instructions: bool,
    /// The signal that interrupted the simulation.
    pub signal: Option<i32>,
    /// Duration, ms.
    pub elapsed_ms: u64,
}

impl Ran {
    /// Returns how the program ended.
    pub fn status(&self) -> ExitStatus {
        ExitStatus::from_raw(self.answer.status)
    }
}

/// A running simulation. What still runs is ended with it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stop: Stop,
    start: Instant,
    /// How QEMU ended.
    reaped: Option<ExitStatus>,
}

impl Running {
    /// Takes over QEMU.
    pub fn new(child: Child, stop: Stop) -> Running {
        Running { child, stop, start: Instant::now(), reaped: None }
    }

    /// Sends the request, takes the answer, and waits for QEMU's end.
    ///
    /// # Errors
    /// The plugin refuses, QEMU does not start, or no counts came back; with the remedy.
    pub fn converse(mut self, asked: &Asked, listener: UnixListener) -> Result<Ran, Failure> {
        let stream = self.connected(&listener, asked)?;
        let failed =
            |e: std::io::Error| Failure::new(format!("cannot talk to the plugin: {e}"), "run it again");
        stream.set_nonblocking(false).map_err(failed)?;
        let mut writer = stream.try_clone().map_err(failed)?;
        writer.write_all(protocol::line(asked.request).as_bytes()).map_err(failed)?;
        let mut incoming = Incoming::new(listener, stream);
        let progress = progress(asked.quiet);
        let answer = self.answer(&writer, &mut incoming, &progress);
        progress.finish_and_clear();
        let (answer, signal) = answer?;
        // It ends at once after its answer, but a slow one is waited for: stdout and files are the program's.
        let replaced = answer.end == End::Replaced;
        // Signals of the terminal reach QEMU, too, and it may have been the first to end its guest.
        let cut = signal.is_some() && asked.program.is_none();
        let answer = Answer { end: if cut { End::Interrupted } else { answer.end }, ..answer };
        let (status, signal) = self.wait_for_end(signal, replaced)?;
        Ok(Ran {
            answer: Answer { status: status.into_raw(), ..answer },
            program: asked.request.program.clone(),
            trace: String::new(),
            all_instructions: true,
            signal,
            elapsed_ms: self.start.elapsed().as_millis() as u64,
        })
    }

    /// Waits until the plugin connects.
    fn connected(&mut self, listener: &UnixListener, asked: &Asked) -> Result<UnixStream, Failure> {
        loop {
            match listener.accept() {
                Ok((stream, _)) => return Ok(stream),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => {
                    return Err(Failure::new(format!("cannot listen for the plugin: {e}"), "run it again"));
                }
            }
            if let Some(signal) = self.stop.signal() {
                return Err(Failure { exit: Exit::Signal(signal), ..Failure::new("interrupted", "") });
            }
            if let Some(status) = self.ended() {
                let qemu = asked.qemu;
                return Err(Failure::new(
                    format!("{qemu} ended ({status}) before it loaded the plugin; its message is above"),
                    match asked.program {
                        Some(program) => format!(
                            "it has to be QEMU 4.2 to 8.2 with plugins, not a static one, and has to know the program: \
                             try `{qemu} {}`",
                            program.display()
                        ),
                        None => "it has to be QEMU 4.2 to 8.2 with plugins, and has to know its options"
                            .to_owned(),
                    },
                ));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Takes messages until the answer. Returns it, and the signal that asked for it.
    fn answer(
        &mut self,
        writer: &UnixStream,
        incoming: &mut Incoming,
        progress: &ProgressBar,
    ) -> Result<(Answer, Option<i32>), Failure> {
        let mut asked: Option<(i32, Instant)> = None;
        let mut over: Option<Instant> = None;
        let mut so_far: Option<Box<Answer>> = None;
        loop {
            let told = incoming.next();
            let closed = matches!(told, Some(Told::Closed)) && incoming.open == 0;
            match told {
                Some(Told::Message(message)) => match *message {
                    Message::Answer(answer) => return Ok((*answer, asked.map(|(signal, _)| signal))),
                    Message::SoFar(answer) => so_far = Some(answer),
                    Message::GoesOn => so_far = None,
                    Message::Progress(accesses) => show(progress, accesses, self.start.elapsed()),
                    Message::Refused(why) => return Err(refused(&why)),
                },
                Some(Told::Closed) | None => {}
            }
            if asked.is_none()
                && let Some(signal) = self.stop.signal()
            {
                asked = Some((signal, Instant::now() + ANSWER_GRACE));
                // The plugin then ends the program.
                let _ = writer.shutdown(Shutdown::Write);
            }
            let late = asked.filter(|(_, until)| Instant::now() > *until);
            // A child of the program may have the socket too, so its end is not that of the program.
            let ended = self.ended().is_some()
                && Instant::now() > *over.get_or_insert(Instant::now() + LAST_MESSAGES);
            if closed || ended || late.is_some() {
                return match (so_far.take(), late) {
                    (Some(answer), _) => Ok((*answer, asked.map(|(signal, _)| signal))),
                    (None, Some((signal, _))) => Err(interrupted_without_answer(signal)),
                    (None, None) => Err(self.without_answer()),
                };
            }
        }
    }

    /// Returns why there is no answer.
    fn without_answer(&mut self) -> Failure {
        let until = Instant::now() + END_GRACE;
        while self.ended().is_none() && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
        }
        match self.ended() {
            Some(status) if status.signal().is_some() => Failure::new(
                format!("the program was ended by a signal ({status}), and its counts were lost"),
                "look for who has sent it: another process, the kernel when memory is short (dmesg), or QEMU itself",
            ),
            Some(status) => Failure::new(
                format!("the program ended ({status}), and its counts were lost"),
                "simulate the program that does the work: name it, and not its starter",
            ),
            None => Failure::new(
                "the program has closed all files, and its counts are lost",
                "simulate the program that does the work: name it, and not its starter",
            ),
        }
    }

    /// Waits for QEMU's end, or that of the program that it has become. Returns how it ended, and the signal that has
    /// interrupted the simulation.
    fn wait_for_end(
        &mut self,
        interrupted: Option<i32>,
        replaced: bool,
    ) -> Result<(ExitStatus, Option<i32>), Failure> {
        let until = Instant::now() + END_GRACE;
        loop {
            if let Some(status) = self.ended() {
                return Ok((status, interrupted));
            }
            let late = interrupted.is_none() || Instant::now() > until;
            if let Some(signal) = self.stop.signal().filter(|_| late) {
                // The other program has no part in the counts.
                let killed = replaced.then(|| self.child.kill().and_then(|()| self.child.wait()));
                if let Some(Ok(status)) = killed {
                    self.reaped = Some(status);
                    return Ok((status, Some(signal)));
                }
                let what = "interrupted, while the program did not end";
                return Err(Failure { exit: Exit::Signal(signal), ..Failure::new(what, "") });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns how QEMU ended, if it has.
    fn ended(&mut self) -> Option<ExitStatus> {
        if self.reaped.is_none() {
            self.reaped = self.child.try_wait().ok().flatten();
        }
        self.reaped
    }
}

impl Drop for Running {
    /// Ends QEMU if it still runs; after a signal, everything that the program has started too.
    fn drop(&mut self) {
        let early = self.ended().is_none();
        if early {
            let _ = self.child.kill();
            self.reaped = self.child.wait().ok();
        }
        if early || self.stop.signal().is_some() {
            left::end_children();
        }
    }
}

fn refused(why: &str) -> Failure {
    Failure::new(format!("the simulation cannot begin or go on: {why}"), "correct that, and run it again")
}

fn interrupted_without_answer(signal: i32) -> Failure {
    let what = format!("interrupted, and no counts within {} s", ANSWER_GRACE.as_secs());
    Failure { exit: Exit::Signal(signal), ..Failure::new(what, "") }
}

/// What comes from the plugin.
#[derive(Debug)]
enum Told {
    Message(Box<Message>),
    /// A connection is closed.
    Closed,
}

/// The plugin's connections: it connects again if the program has closed the first one.
#[derive(Debug)]
struct Incoming {
    listener: UnixListener,
    sender: SyncSender<Told>,
    told: Receiver<Told>,
    /// Connections that have not been closed.
    open: usize,
}

impl Incoming {
    fn new(listener: UnixListener, first: UnixStream) -> Incoming {
        let (sender, told) = sync_channel(16);
        let mut incoming = Incoming { listener, sender, told, open: 0 };
        incoming.read(first);
        incoming
    }

    /// Reads the messages of a connection on a thread of their own.
    fn read(&mut self, stream: UnixStream) {
        let sender = self.sender.clone();
        self.open += 1;
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                let Ok(message) = line.map_err(|e| e.to_string()).and_then(|line| protocol::read(&line))
                else {
                    break;
                };
                if sender.send(Told::Message(Box::new(message))).is_err() {
                    return;
                }
            }
            // Nobody listens any more when the command ends.
            let _ = sender.send(Told::Closed);
        });
    }

    /// Returns what comes within the interval.
    fn next(&mut self) -> Option<Told> {
        if let Ok((stream, _)) = self.listener.accept()
            && stream.set_nonblocking(false).is_ok()
        {
            self.read(stream);
        }
        let told = self.told.recv_timeout(POLL_INTERVAL).ok();
        self.open -= usize::from(matches!(told, Some(Told::Closed)));
        told
    }
}

/// Returns a line of progress on stderr; hidden if that is no terminal.
pub fn progress(quiet: bool) -> ProgressBar {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    if quiet || dumb { ProgressBar::hidden() } else { ProgressBar::new_spinner() }
}

/// Shows the number of accesses and their rate.
pub fn show(progress: &ProgressBar, accesses: u64, elapsed: Duration) {
    let millions = accesses as f64 / 1e6;
    let rate = millions / elapsed.as_secs_f64().max(1e-3);
    progress.set_message(format!(
        "{millions:.1} million accesses, {rate:.1} million a second; ctrl-C keeps the counts"
    ));
    progress.tick();
}
