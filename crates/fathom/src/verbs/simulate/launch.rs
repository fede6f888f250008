//! Starts QEMU with the plugin, and converses with the plugin until the program ends.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use fathom_simulation::protocol::{self, Answer, Message, Request};
use indicatif::ProgressBar;

use super::program::Program;
use crate::child::left;
use crate::failure::{Exit, Failure};
use crate::measure::stop::Stop;

/// Name of the plugin.
const PLUGIN: &str = "libfathom_plugin.so";
/// Environment variable with the plugin's file.
const VARIABLE: &str = "FATHOM_PLUGIN";
/// Instruction for building it.
const BUILD: &str = "scripts/simulate builds it, in two minutes, and puts it next to fathom";

/// Interval at which the program's end and signals are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time for the answer of an interrupted simulation: some 100 000 instructions with their counts.
const ANSWER_GRACE: Duration = Duration::from_secs(8);
/// Time for messages that are still on their way when the program has ended.
const LAST_MESSAGES: Duration = Duration::from_secs(2);
/// Time in which a program that has closed the socket without an answer has to end.
const END_GRACE: Duration = Duration::from_secs(1);

/// What to run.
pub struct Launch<'a> {
    /// The program.
    pub program: &'a Program,
    /// Its name and arguments, as typed.
    pub command: &'a [OsString],
    /// QEMU's CPU, if not the default.
    pub cpu: Option<&'a str>,
    /// What is asked of the plugin.
    pub request: Request,
    /// Whether the program's stdout is sent to stderr.
    pub divert: bool,
    /// Whether progress is shown.
    pub quiet: bool,
}

/// A program that has been run.
pub struct Ran {
    /// The counts.
    pub answer: Answer,
    /// How QEMU ended: as the program did.
    pub status: ExitStatus,
    /// The signal that interrupted the simulation.
    pub signal: Option<i32>,
    /// Duration, ms.
    pub elapsed_ms: u64,
}

/// Returns the plugin: named by the environment, or in the directory of this program.
pub fn plugin() -> Result<PathBuf, Failure> {
    if let Some(named) = std::env::var_os(VARIABLE).map(PathBuf::from) {
        let missing = || Failure::usage(format!("{VARIABLE}={}: no such file", named.display()), BUILD);
        return if named.is_file() { Ok(named.clone()) } else { Err(missing()) };
    }
    let own = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(PLUGIN)));
    own.filter(|file| file.is_file()).ok_or_else(|| {
        let what = format!(
            "{PLUGIN}, which QEMU needs for simulations, was not found next to fathom or through {VARIABLE}"
        );
        Failure::new(what, BUILD)
    })
}

impl Launch<'_> {
    /// Runs the program to its end, or until a signal.
    ///
    /// # Errors
    /// The plugin refuses, QEMU does not start, or no counts came back; with the remedy.
    pub fn run(&self) -> Result<Ran, Failure> {
        let plugin = plugin()?;
        let stop = Stop::listen()?;
        let failed = |e: std::io::Error| {
            Failure::new(
                format!("cannot listen for the plugin: {e}"),
                "set TMPDIR to a directory that can be written",
            )
        };
        let directory = tempfile::tempdir().map_err(failed)?;
        let socket = directory.path().join("socket");
        let listener = UnixListener::bind(&socket).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        left::adopt();
        let mut qemu = Command::new(&self.program.qemu);
        if let Some(root) = &self.program.sysroot {
            qemu.arg("-L").arg(root);
        }
        if let Some(cpu) = self.cpu.or(self.program.isa.cpu) {
            qemu.args(["-cpu", cpu]);
        }
        let option = plugin_option(&plugin, &socket);
        qemu.arg("-plugin").arg(option).arg("-0").arg(&self.command[0]);
        qemu.arg(&self.program.path).args(&self.command[1..]);
        if self.divert {
            qemu.stdout(stderr().map_err(failed)?);
        }
        let child = qemu.spawn().map_err(|e| {
            let what = format!("cannot start {}: {e}", self.program.qemu.display());
            Failure::new(what, "install QEMU's user mode, Debian's package qemu-user")
        })?;
        let mut running = Running { child, stop, start: Instant::now(), reaped: None };
        let ran = running.converse(self, &listener);
        running.end();
        ran
    }
}

/// Returns QEMU's option. It takes a comma for the end of a value, and two for one.
fn plugin_option(plugin: &Path, socket: &Path) -> String {
    let [plugin, socket] = [plugin, socket].map(|path| path.display().to_string().replace(',', ",,"));
    format!("file={plugin},socket={socket}")
}

/// Returns a copy of stderr.
fn stderr() -> std::io::Result<Stdio> {
    use std::os::fd::AsFd as _;
    Ok(std::io::stderr().as_fd().try_clone_to_owned()?.into())
}

/// A running simulation.
struct Running {
    child: Child,
    stop: Stop,
    start: Instant,
    /// How QEMU ended.
    reaped: Option<ExitStatus>,
}

impl Running {
    fn converse(&mut self, launch: &Launch, listener: &UnixListener) -> Result<Ran, Failure> {
        let stream = self.connected(listener, launch)?;
        let failed =
            |e: std::io::Error| Failure::new(format!("cannot talk to the plugin: {e}"), "run it again");
        stream.set_nonblocking(false).map_err(failed)?;
        let mut writer = stream.try_clone().map_err(failed)?;
        writer.write_all(protocol::line(&launch.request).as_bytes()).map_err(failed)?;
        let messages = messages(stream);
        let progress = progress(launch.quiet);
        let answer = self.answer(&writer, &messages, &progress);
        progress.finish_and_clear();
        let (answer, signal) = answer?;
        // It ends at once after its answer, but a slow one is waited for: stdout and files are the program's.
        let status = self.wait_for_end(signal.is_some())?;
        Ok(Ran { answer, status, signal, elapsed_ms: self.start.elapsed().as_millis() as u64 })
    }

    /// Waits until the plugin connects.
    fn connected(&mut self, listener: &UnixListener, launch: &Launch) -> Result<UnixStream, Failure> {
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
                let qemu = launch.program.isa.qemu;
                return Err(Failure::new(
                    format!("{qemu} ended ({status}) before it loaded the plugin; its message is above"),
                    format!(
                        "it has to be QEMU 4.2 to 8.2 with plugins, not a static one, and has to know the program: try \
                         `{qemu} {}`",
                        launch.program.path.display()
                    ),
                ));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Takes messages until the answer. Returns it, and the signal that asked for it.
    fn answer(
        &mut self,
        writer: &UnixStream,
        messages: &Receiver<Message>,
        progress: &ProgressBar,
    ) -> Result<(Answer, Option<i32>), Failure> {
        let mut asked: Option<(i32, Instant)> = None;
        let mut over: Option<Instant> = None;
        loop {
            match messages.recv_timeout(POLL_INTERVAL) {
                Ok(Message::Answer(answer)) => return Ok((*answer, asked.map(|(signal, _)| signal))),
                Ok(Message::Refused(why)) => {
                    return Err(Failure::new(
                        format!("the simulation cannot begin or go on: {why}"),
                        "correct that, and run it again",
                    ));
                }
                Ok(Message::Progress(accesses)) => show(progress, accesses, self.start.elapsed()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.without_answer()),
            }
            if asked.is_none()
                && let Some(signal) = self.stop.signal()
            {
                asked = Some((signal, Instant::now() + ANSWER_GRACE));
                // The plugin then ends the program.
                let _ = writer.shutdown(Shutdown::Write);
            }
            if let Some((signal, until)) = asked
                && Instant::now() > until
            {
                let what = format!("interrupted, and no counts within {} s", ANSWER_GRACE.as_secs());
                return Err(Failure { exit: Exit::Signal(signal), ..Failure::new(what, "") });
            }
            // A child of the program may have the socket too, so its end is not that of the program.
            if self.ended().is_some() && Instant::now() > *over.get_or_insert(Instant::now() + LAST_MESSAGES)
            {
                return Err(self.without_answer());
            }
        }
    }

    /// Returns why there is no answer.
    fn without_answer(&mut self) -> Failure {
        use std::os::unix::process::ExitStatusExt as _;
        let until = Instant::now() + END_GRACE;
        while self.ended().is_none() && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
        }
        match self.ended() {
            Some(status) if status.signal().is_some() => Failure::new(
                format!("the program was ended by a signal ({status}); QEMU then keeps no counts"),
                "run it without fathom to see why: memory, an instruction that QEMU's CPU lacks (--cpu), or a bug",
            ),
            Some(status) => Failure::new(
                format!(
                    "the program ended ({status}), and its counts were lost: it has closed all files or become another program"
                ),
                "simulate the program that does the work: name it, and not its starter",
            ),
            None => Failure::new(
                "the program has become another one (exec), or has closed all files: its counts are lost",
                "simulate the program that does the work: name it, and not its starter",
            ),
        }
    }

    /// Waits for QEMU's end.
    fn wait_for_end(&mut self, interrupted: bool) -> Result<ExitStatus, Failure> {
        let until = Instant::now() + END_GRACE;
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if let Some(signal) = self.stop.signal().filter(|_| !interrupted || Instant::now() > until) {
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

    /// Ends QEMU if it still runs; after a signal, everything that the program has started too.
    fn end(&mut self) {
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

/// Reads messages on a thread of their own.
fn messages(stream: UnixStream) -> Receiver<Message> {
    let (sender, receiver) = sync_channel(16);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let Ok(message) = line.map_err(|e| e.to_string()).and_then(|line| protocol::read(&line)) else {
                return;
            };
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Returns a line of progress on stderr; hidden if that is no terminal.
fn progress(quiet: bool) -> ProgressBar {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    if quiet || dumb { ProgressBar::hidden() } else { ProgressBar::new_spinner() }
}

fn show(progress: &ProgressBar, accesses: u64, elapsed: Duration) {
    let millions = accesses as f64 / 1e6;
    let rate = millions / elapsed.as_secs_f64().max(1e-3);
    progress.set_message(format!(
        "{millions:.1} million accesses, {rate:.1} million a second; ctrl-C keeps the counts"
    ));
    progress.tick();
}
