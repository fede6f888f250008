//! The probe's server: reads request lines, runs trials on a machine, writes result lines.
//!
//! The probe sends a greeting, then serves `facts` and `trial` requests until `bye` or the end of its input. On
//! `hello` it sends the greeting again, for a harness that finds it already running (a board that was on before).
//! `inject` causes a fault, to test that faults are reported. If the facts were requested, it sends those that may
//! have changed before it leaves on `bye`. It times and never judges. A line that it cannot parse gets a `fault` line,
//! and the server continues.

use alloc::format;
use alloc::string::String;

use crate::machine::{Fact, FactValue, FaultInjection, Machine, Refusal};
use crate::pattern::{self, Trial};
use crate::rows::Done;
use crate::wire::{Line, MAX_LINE, VERSION};

/// A byte stream of lines.
pub trait Lines {
    /// The reason why the stream failed.
    type Error;

    /// Reads the next line without its newline into `line`. Returns `false` at the end of the stream. A line longer
    /// than [`MAX_LINE`] may be cut at that length.
    ///
    /// # Errors
    /// When the stream fails.
    fn read(&mut self, line: &mut String) -> Result<bool, Self::Error>;

    /// Sends a line.
    ///
    /// # Errors
    /// When the stream fails.
    fn write(&mut self, line: &str) -> Result<(), Self::Error>;
}

impl<L: Lines + ?Sized> Lines for &mut L {
    type Error = L::Error;

    fn read(&mut self, line: &mut String) -> Result<bool, L::Error> {
        (**self).read(line)
    }

    fn write(&mut self, line: &str) -> Result<(), L::Error> {
        (**self).write(line)
    }
}

/// Maximum bytes of a fact's value in one part. As hex they take twice as much of a line.
const PART: usize = MAX_LINE / 2 - 256;

/// The state of a server that outlives a fault after which the machine serves again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerState {
    /// Number of the last line sent.
    pub seq: u64,
    /// Whether the facts were requested. A human who typed a trial does not get those that changed since.
    pub reported: bool,
}

impl ServerState {
    /// Returns the line that reports a fault, with the next number, for callers that cannot return to the server.
    #[must_use]
    pub fn fault(&mut self, what: &str) -> String {
        // The text may quote a whole line, and the reply must fit on one.
        self.seal(&Line::new("fault").text("what", split(what)[0]))
    }

    fn seal(&mut self, line: &Line) -> String {
        self.seq += 1;
        line.seal(self.seq)
    }
}

struct Server<'a, M, L> {
    machine: &'a mut M,
    lines: &'a mut L,
    state: &'a mut ServerState,
}

/// Serves `machine` on `lines` until `bye` or the end of the input.
///
/// # Errors
/// When the stream fails.
pub fn serve<M: Machine, L: Lines>(machine: &mut M, lines: &mut L) -> Result<(), L::Error> {
    serve_from(machine, lines, &mut ServerState::default())
}

/// As [`serve`], from a given state. A new server sends the greeting first; one that resumes after a fault that could
/// not return to it does not.
///
/// # Errors
/// When the stream fails.
pub fn serve_from<M: Machine, L: Lines>(
    machine: &mut M,
    lines: &mut L,
    state: &mut ServerState,
) -> Result<(), L::Error> {
    let mut server = Server { machine, lines, state };
    if server.state.seq == 0 {
        server.greet()?;
    }
    let mut text = String::new();
    loop {
        text.clear();
        if !server.lines.read(&mut text)? {
            return Ok(());
        }
        if text.trim().is_empty() {
            continue;
        }
        match Line::parse(&text) {
            Ok(line) if line.word == "bye" => {
                server.facts_after()?;
                return server.send(&Line::new("gone"));
            }
            Ok(line) => server.answer(&line)?,
            Err(e) => server.fault(&e.what)?,
        }
    }
}

impl<M: Machine, L: Lines> Server<'_, M, L> {
    fn greet(&mut self) -> Result<(), L::Error> {
        *self.state = ServerState::default();
        let trust = self.machine.trust();
        self.send(&Line::new("probe").int("wire", VERSION).token("trust", trust.token()))
    }

    fn send(&mut self, line: &Line) -> Result<(), L::Error> {
        let line = self.state.seal(line);
        self.lines.write(&line)
    }

    fn fault(&mut self, what: &str) -> Result<(), L::Error> {
        let line = self.state.fault(what);
        self.lines.write(&line)
    }

    fn answer(&mut self, line: &Line) -> Result<(), L::Error> {
        match line.word.as_str() {
            "hello" => self.greet(),
            "facts" => self.facts(),
            "inject" => self.inject(line),
            "trial" => match Trial::read(line) {
                Ok(trial) => self.trial(&trial),
                Err(e) => self.fault(&e.what),
            },
            other => self.fault(&format!("'{other}' is not a request; expected one of: facts, trial, bye")),
        }
    }

    fn inject(&mut self, line: &Line) -> Result<(), L::Error> {
        let mut fields = line.fields();
        let what = fields.token("what").map(|word| word.and_then(FaultInjection::from_token));
        match (what, fields.finish()) {
            (Ok(Some(what)), Ok(())) => {
                let refusal = self.machine.inject(what);
                self.fault(&refusal.reason)
            }
            _ => self.fault(&format!("inject: what= must be one of: {}", FaultInjection::choices())),
        }
    }

    fn facts(&mut self) -> Result<(), L::Error> {
        let mut facts = alloc::vec::Vec::new();
        self.machine.facts(&mut |fact| facts.push(fact));
        let count = facts.len() as u64;
        for fact in facts {
            self.fact(&fact)?;
        }
        self.state.reported = true;
        self.send(&Line::new("facts_end").int("count", count))
    }

    /// Sends the facts that may have changed. Only `gone` ends them: an older reader takes `facts_end` for the end of
    /// all facts.
    fn facts_after(&mut self) -> Result<(), L::Error> {
        let mut facts = alloc::vec::Vec::new();
        if self.state.reported {
            self.machine.facts_after(&mut |fact| facts.push(fact));
        }
        facts.iter().try_for_each(|fact| self.fact(fact))
    }

    fn fact(&mut self, fact: &Fact) -> Result<(), L::Error> {
        let line = || Line::new("fact").text("name", &fact.name);
        match &fact.value {
            FactValue::Int(v) => self.send(&line().int("int", *v)),
            FactValue::Text(text) => {
                let parts = split(text);
                let of = parts.len() as u64;
                for (i, part) in parts.iter().enumerate() {
                    let line = if of > 1 { line().int("part", i as u64).int("of", of) } else { line() };
                    self.send(&line.text("text", part))?;
                }
                Ok(())
            }
            FactValue::Bytes(bytes) => {
                let of = bytes.len().div_ceil(PART).max(1) as u64;
                for i in 0..of {
                    let from = i as usize * PART;
                    let part = &bytes[from..bytes.len().min(from + PART)];
                    let line = if of > 1 { line().int("part", i).int("of", of) } else { line() };
                    self.send(&line.hex("hex", part))?;
                }
                Ok(())
            }
        }
    }

    fn trial(&mut self, trial: &Trial) -> Result<(), L::Error> {
        // Echoed as parsed, before it runs, so that a record that ends here still shows the request.
        self.send(&trial.line())?;
        let begun = self.machine.watch();
        self.machine.quiet_begin();
        let before = self.machine.watch();
        let outcome = pattern::run(self.machine, trial);
        let after = self.machine.watch();
        let outcome = outcome.and_then(|result| self.machine.clock_was_available().map(|()| result));
        self.machine.quiet_end();
        let ended = self.machine.watch();
        match outcome {
            Err(refusal) => self.refuse(trial, &refusal),
            Ok(result) => {
                for line in result.rows.lines() {
                    self.send(&line)?;
                }
                for counted in result.events {
                    self.send(&counted.line(trial.id))?;
                }
                for load_stats in result.load_report.load_stats {
                    self.send(&load_stats.line(trial.id))?;
                }
                if let Some(stalls) = result.load_report.stalls {
                    self.send(&stalls.line(trial.id))?;
                }
                // A pattern that maps nothing has no address.
                let translation = (result.page_bytes > 0).then(|| self.machine.translated(result.base));
                let done = Done {
                    trial: trial.id,
                    page_bytes: result.page_bytes,
                    base: result.base,
                    translation: translation.flatten(),
                    watch: after.since(&before),
                    spent_ns: ended.since(&begun).wall_ns,
                };
                self.send(&done.line())
            }
        }
    }

    fn refuse(&mut self, trial: &Trial, refusal: &Refusal) -> Result<(), L::Error> {
        self.send(
            &Line::new("refusal")
                .int("trial", trial.id)
                .text("reason", &refusal.reason)
                .text("remedy", &refusal.remedy),
        )
    }
}

/// Cuts text into parts that fit on a line even when every character is escaped.
fn split(text: &str) -> alloc::vec::Vec<&str> {
    let mut parts = alloc::vec::Vec::new();
    let mut rest = text;
    // The longest escape is \u{10ffff}: ten bytes for one character of at least one byte. Controls are rare, so a part
    // is cut by its escaped length.
    while !rest.is_empty() {
        let mut escaped = 0;
        let cut = rest
            .char_indices()
            .find(|(_, c)| {
                escaped += if c.is_control() { 10 } else { 1 + c.len_utf8() };
                escaped > MAX_LINE - 512
            })
            .map_or(rest.len(), |(at, _)| at);
        parts.push(&rest[..cut]);
        rest = &rest[cut..];
    }
    if parts.is_empty() {
        parts.push("");
    }
    parts
}

#[cfg(test)]
mod tests;
