//! The stream to a probe: a child process, its lines, and its certain end.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use fathom_probe::wire::MAX_LINE;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::failure::Failure;
use crate::subjects::Subject;

/// How long a probe may take to leave by itself once its input has ended.
const EXIT_GRACE: Duration = Duration::from_millis(500);
/// How long to wait for the exit status of a probe that has closed its stream.
const INQUEST: Duration = Duration::from_secs(2);

/// What came from the probe.
#[derive(Debug)]
pub enum Received {
    /// A line.
    Line(String),
    /// Nothing within the time asked for.
    Silence,
    /// The end of the stream.
    End,
}

/// A running probe. Dropping it ends the child and whatever the child has started.
#[derive(Debug)]
pub struct Probe {
    child: Child,
    /// To the thread that writes the child's stdin; dropping it closes that.
    say: Option<Sender<String>>,
    lines: Receiver<String>,
    name: String,
    /// Has the child been waited for?
    reaped: bool,
}

impl Probe {
    /// Starts the subject's command with `extra` arguments.
    pub fn start(subject: &Subject, extra: &[String]) -> Result<Probe, Failure> {
        let program = if subject.command[0] == "fathom" {
            std::env::current_exe().map_err(|e| {
                let what = format!("cannot find this program's own file: {e}");
                Failure::new(what, "mount /proc: mount -t proc proc /proc")
            })?
        } else {
            subject.command[0].clone().into()
        };
        let mut child = Command::new(program)
            .args(&subject.command[1..])
            .args(extra)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            // A group of its own: ctrl-C reaches the harness alone, which then ends the probe.
            .process_group(0)
            .spawn()
            .map_err(|e| cannot_start(subject, &e))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(Failure::new("the probe has no stdin and stdout", ""));
        };
        // Bounded, so that a probe that babbles is held back by its own pipe.
        let (sender, lines) = sync_channel(1024);
        let pump = move || pump(BufReader::new(stdout), &sender);
        // A thread writes, so that a probe that never reads does not hold the harness up. One line is on its
        // way at a time, so this channel needs no bound.
        let (say, to_say) = channel();
        // From here on the child is ended whatever happens.
        let probe = Probe { child, say: Some(say), lines, name: subject.name.clone(), reaped: false };
        let thread = |work: Box<dyn FnOnce() + Send>| std::thread::Builder::new().spawn(work);
        thread(Box::new(pump))
            .and_then(|_| thread(Box::new(move || write_all(stdin, &to_say))))
            .map_err(|e| cannot_start(subject, &e))?;
        Ok(probe)
    }

    /// Sends a line. A probe that is gone is noticed when it is next listened to.
    pub fn send(&mut self, line: String) {
        if let Some(say) = &self.say {
            let _ = say.send(line);
        }
    }

    /// Waits for a line, at most this long.
    pub fn receive(&self, patience: Duration) -> Received {
        match self.lines.recv_timeout(patience) {
            Ok(line) => Received::Line(line),
            Err(RecvTimeoutError::Timeout) => Received::Silence,
            Err(RecvTimeoutError::Disconnected) => Received::End,
        }
    }

    /// Has the child ended? It is not waited for: until [`Probe::end`] its number stays its own.
    pub fn gone(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.reaped || !matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), options), Ok(None))
    }

    /// How a probe ended that closed its stream: one sentence.
    pub fn post_mortem(&mut self) -> String {
        match self.end(INQUEST) {
            Some(status) => format!("the probe of '{}' ended before its work did ({status})", self.name),
            None => {
                format!("the probe of '{}' closed its stream and went on running; it was killed", self.name)
            }
        }
    }

    /// Ends the child: the end of its input asks for it, and what has not left within `grace` is killed.
    /// Returns how the child ended, if it did so by itself.
    fn end(&mut self, grace: Duration) -> Option<ExitStatus> {
        self.say = None;
        let until = Instant::now() + grace;
        while !self.gone() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let alone = self.gone();
        if !self.reaped {
            // What the child has started and left behind is in its group, and as long as the child is not
            // waited for, nobody else can be.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            self.reaped = true;
        }
        self.child.wait().ok().filter(|_| alone)
    }
}

/// Why a subject could not be started, and what to look at: its command, or what this process is allowed.
fn cannot_start(subject: &Subject, e: &std::io::Error) -> Failure {
    let what = format!("cannot start '{}': {e}", subject.command.join(" "));
    // EAGAIN, ENOMEM, ENFILE and EMFILE of fork(2), clone(2) and pipe(2).
    let limited = Errno::from_io_error(e)
        .is_some_and(|e| [Errno::AGAIN, Errno::NOMEM, Errno::NFILE, Errno::MFILE].contains(&e));
    let remedy = if limited {
        "raise the limit on processes, open files or memory (ulimit -a shows them)".to_owned()
    } else {
        format!("check the command of subject '{}'", subject.name)
    };
    Failure::new(what, remedy)
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.end(EXIT_GRACE);
    }
}

/// Writes lines to the probe until nobody sends any more or the probe is gone.
fn write_all(mut to: ChildStdin, lines: &Receiver<String>) {
    for mut line in lines {
        line.push('\n');
        if to.write_all(line.as_bytes()).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

/// Moves lines from the probe to the harness. Lines longer than the wire allows come in pieces, none of
/// which then is a line of the wire.
fn pump(mut from: impl BufRead, to: &SyncSender<String>) {
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match from.by_ref().take(MAX_LINE as u64 + 2).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&bytes);
        if to.send(line.trim_end_matches(['\n', '\r']).to_owned()).is_err() {
            return;
        }
    }
}
