//! Child process with the probe's stream; guarantees termination.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use fathom_probe::wire::MAX_LINE;
use fathom_report::text::visible;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getppid, kill_process_group, set_parent_process_death_signal, waitid,
};

use crate::failure::{Failure, print_message};
use crate::subjects::Subject;

#[cfg(target_os = "linux")]
pub mod left;

/// Time for a probe to exit after its input has ended.
const EXIT_GRACE: Duration = Duration::from_millis(500);
/// Time to wait for the last messages of a child that has ended.
const MESSAGES_GRACE: Duration = Duration::from_millis(200);
/// Largest number of bytes of a child's messages that are printed. A login banner and the error of a tool are some KiB.
const MAX_MESSAGES: usize = 64 << 10;
/// Time to wait for the exit status of a probe that has closed its stream.
const STATUS_GRACE: Duration = Duration::from_secs(2);

/// Remedy for a lack of processes, open files or memory.
pub const RAISE_LIMITS: &str = "raise the limit on processes, open files or memory (ulimit -a shows them)";

/// Makes the kernel kill this process when its parent ends, which must be `parent` if given (prctl(2), PR_SET_PDEATHSIG).
pub fn end_with_parent(parent: Option<u32>) -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| Failure::new(format!("PR_SET_PDEATHSIG: {}", std::io::Error::from(e)), ""))?;
    // If the parent ended before that, its process id differs.
    match parent {
        Some(parent) if getppid().map(|p| p.as_raw_pid().cast_unsigned()) != Some(parent) => {
            Err(Failure::new("the harness is gone", ""))
        }
        _ => Ok(()),
    }
}

/// Event on the probe's stream.
#[derive(Debug)]
pub enum Received {
    /// A line.
    Line(String),
    /// No line within the given time.
    Silence,
    /// End of the stream.
    End,
}

/// A running probe. Dropping it terminates the child and all processes that the child has started.
#[derive(Debug)]
pub struct Probe {
    child: Child,
    /// Channel to the thread that writes the child's stdin; dropping it closes stdin.
    input: Option<Sender<String>>,
    lines: Receiver<String>,
    /// Ends when the child's messages on stderr have been printed.
    messages: Receiver<Infallible>,
    name: String,
    /// Whether the child has been waited for.
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
        #[cfg(target_os = "linux")]
        if !subject.host {
            left::adopt();
        }
        let mut child = Command::new(program)
            .args(&subject.command[1..])
            .args(extra)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Messages from another machine or program are shown by `print_messages`. This host's probe is this program,
            // and its reaper, which may live longer than this process, says there what it could not restore.
            .stderr(if subject.host { Stdio::inherit() } else { Stdio::piped() })
            // A separate process group: ctrl-C reaches only the harness, which then ends the probe.
            .process_group(0)
            .spawn()
            .map_err(|e| cannot_start(subject, &e))?;
        let stderr = child.stderr.take();
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::new("the probe has no stdin and stdout", ""));
        };
        // Bounded, so that a probe that sends too much blocks on its own pipe.
        let (sender, lines) = sync_channel(1024);
        let pump = move || pump(BufReader::new(stdout), &sender);
        // A separate thread writes, so that a probe that never reads does not block the harness. At most one line is
        // pending, so this channel needs no bound.
        let (input, queued) = channel();
        let (told, messages) = sync_channel(0);
        // From here on, dropping `probe` terminates the child.
        let name = subject.name.clone();
        let probe = Probe { child, input: Some(input), lines, messages, name, reaped: false };
        let thread = |work: Box<dyn FnOnce() + Send>| std::thread::Builder::new().spawn(work);
        thread(Box::new(pump))
            .and_then(|_| thread(Box::new(move || write_all(stdin, &queued))))
            .and_then(|_| thread(Box::new(move || print_messages(stderr, told))))
            .map_err(|e| cannot_start(subject, &e))?;
        Ok(probe)
    }

    /// Sends a line. A probe that has ended is noticed at the next `receive`.
    pub fn send(&mut self, line: String) {
        if let Some(input) = &self.input {
            let _ = input.send(line);
        }
    }

    /// Waits for a line, at most `patience`.
    pub fn receive(&self, patience: Duration) -> Received {
        match self.lines.recv_timeout(patience) {
            Ok(line) => Received::Line(line),
            Err(RecvTimeoutError::Timeout) => Received::Silence,
            Err(RecvTimeoutError::Disconnected) => Received::End,
        }
    }

    /// Returns whether the child has ended. It is not reaped before [`Probe::end`], so its process id is not reused.
    pub fn gone(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.reaped || !matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), options), Ok(None))
    }

    /// Returns one sentence on how a probe ended that closed its stream.
    pub fn exit_description(&mut self) -> String {
        match self.end(STATUS_GRACE) {
            Some(status) => format!("the probe of '{}' ended before its work did ({status})", self.name),
            None => {
                format!("the probe of '{}' closed its stream but kept running; it was killed", self.name)
            }
        }
    }

    /// Ends the child: closes its input, and kills it if it has not exited within `grace`. Returns the exit status if
    /// it exited without being killed.
    fn end(&mut self, grace: Duration) -> Option<ExitStatus> {
        self.input = None;
        let until = Instant::now() + grace;
        while !self.gone() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let alone = self.gone();
        let group = Pid::from_child(&self.child);
        let first = !self.reaped;
        if first {
            // Processes that the child started are in its group. The group's id cannot be reused until the child is
            // reaped.
            let _ = kill_process_group(group, Signal::KILL);
            self.reaped = true;
        }
        let status = self.child.wait().ok().filter(|_| alone);
        // A process that left the group may still have stderr.
        let _ = self.messages.recv_timeout(MESSAGES_GRACE);
        if first {
            self.tell_what_is_left(group);
        }
        status
    }

    /// Tells which processes the subject's command has left.
    fn tell_what_is_left(&self, group: Pid) {
        #[cfg(target_os = "linux")]
        for left::Left { pid, command } in left::left(group) {
            print_message(&Failure::new(
                format!(
                    "the command of '{}' left process {pid} ({command}) in a session of its own",
                    self.name
                ),
                format!("unless it is meant to stay: kill {pid}"),
            ));
        }
    }
}

/// Returns the error for a subject that could not be started, with a remedy: its command, or the limits of this
/// process.
fn cannot_start(subject: &Subject, e: &std::io::Error) -> Failure {
    let what = format!("cannot start '{}': {e}", subject.command.join(" "));
    // EAGAIN, ENOMEM, ENFILE and EMFILE of fork(2), clone(2) and pipe(2).
    let limited = Errno::from_io_error(e)
        .is_some_and(|e| [Errno::AGAIN, Errno::NOMEM, Errno::NFILE, Errno::MFILE].contains(&e));
    let remedy = if limited {
        RAISE_LIMITS.to_owned()
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

/// Writes lines to the probe until the sender is dropped or the probe has ended.
fn write_all(mut to: ChildStdin, lines: &Receiver<String>) {
    for mut line in lines {
        line.push('\n');
        if to.write_all(line.as_bytes()).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

/// Prints what the child writes to stderr: line by line, with its hidden characters shown, and not without end. The
/// rest is read and dropped, so that the child does not block.
fn print_messages(from: Option<ChildStderr>, _until: SyncSender<Infallible>) {
    let Some(mut from) = from.map(BufReader::new) else { return };
    let mut bytes = Vec::new();
    let mut printed = 0;
    loop {
        bytes.clear();
        match from.by_ref().take(MAX_LINE as u64).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(n) if printed <= MAX_MESSAGES => {
                let text = String::from_utf8_lossy(&bytes);
                let text = visible(text.trim_end_matches(['\n', '\r']));
                printed += n;
                let end =
                    if printed > MAX_MESSAGES { "\nfathom: more of its messages are left out" } else { "" };
                // Stderr may be closed.
                let _ = writeln!(std::io::stderr().lock(), "{text}{end}");
            }
            Ok(_) => {}
        }
    }
}

/// Forwards lines from the probe to the harness. Lines longer than the protocol allows are split into pieces, none of
/// which is then a valid line.
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
