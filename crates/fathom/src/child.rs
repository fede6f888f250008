//! The stream to a probe: a child process, its lines, and its certain end.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use fathom_probe::wire::MAX_LINE;

use crate::failure::Failure;
use crate::subjects::Subject;

/// What came from the probe.
#[derive(Debug)]
pub enum Heard {
    /// A line.
    Line(String),
    /// Nothing within the time asked for.
    Silence,
    /// The end of the stream.
    End,
}

/// A running probe. Dropping it ends the child.
#[derive(Debug)]
pub struct Probe {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    name: String,
}

impl Probe {
    /// Starts the subject's command with `extra` arguments.
    pub fn start(subject: &Subject, extra: &[String]) -> Result<Probe, Failure> {
        let shown = subject.command.join(" ");
        let program = if subject.command[0] == "fathom" {
            std::env::current_exe()
                .map_err(|e| Failure::new(format!("cannot find this program's own file: {e}"), ""))?
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
            .map_err(|e| {
                Failure::new(format!("cannot start '{shown}': {e}"), "check the subject's command")
            })?;
        let stdin = child.stdin.take();
        // The pipe was asked for two lines above.
        let stdout = child.stdout.take().ok_or_else(|| Failure::new("the probe has no stdout", ""))?;
        // Bounded, so that a probe that babbles is held back by its own pipe.
        let (sender, lines) = sync_channel(1024);
        std::thread::spawn(move || pump(BufReader::new(stdout), &sender));
        Ok(Probe { child, stdin, lines, name: subject.name.clone() })
    }

    /// Sends a line. A probe that is gone is noticed when it is next listened to.
    pub fn send(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin
            && writeln!(stdin, "{line}").and_then(|()| stdin.flush()).is_err()
        {
            self.stdin = None;
        }
    }

    /// Waits for a line, at most this long.
    pub fn hear(&self, patience: Duration) -> Heard {
        match self.lines.recv_timeout(patience) {
            Ok(line) => Heard::Line(line),
            Err(RecvTimeoutError::Timeout) => Heard::Silence,
            Err(RecvTimeoutError::Disconnected) => Heard::End,
        }
    }

    /// How a probe ended that closed its stream: one sentence.
    pub fn post_mortem(&mut self) -> String {
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            if let Ok(Some(status)) = self.child.try_wait() {
                return format!("the probe of '{}' ended before its work did ({status})", self.name);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        format!("the probe of '{}' closed its stream and went on running; it was killed", self.name)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // The end of its input ends a probe; what does not listen is killed.
        self.stdin = None;
        let until = Instant::now() + Duration::from_millis(500);
        while Instant::now() < until {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Moves lines from the probe to the harness; lines longer than the wire allows are cut, which their
/// checksum then shows.
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
