//! A session in the same process as its probe.

use fathom_probe::serve::Lines;

use super::Session;
use crate::record::Record;

/// A session that implements [`fathom_probe::serve`]'s `Lines` in one process. `transcript` receives every line of the
/// record.
#[derive(Debug)]
pub struct InProcess {
    /// The session.
    pub session: Session,
    /// The record, line by line.
    pub transcript: Vec<String>,
}

impl InProcess {
    /// Creates it for a session.
    #[must_use]
    pub fn new(session: Session) -> InProcess {
        let transcript = session.head().to_vec();
        InProcess { session, transcript }
    }

    /// Runs the session on `machine` until it ends. Returns the transcript and the record.
    pub fn run<M: fathom_probe::machine::Machine>(mut self, machine: &mut M) -> (Vec<String>, Record) {
        let Ok(()) = fathom_probe::serve::serve(machine, &mut self);
        let end = self.session.end("complete", 0);
        self.transcript.push(end);
        (self.transcript, self.session.record)
    }
}

impl Lines for InProcess {
    type Error = core::convert::Infallible;

    fn read(&mut self, line: &mut String) -> Result<bool, Self::Error> {
        if !self.session.may_send() {
            return Ok(false);
        }
        line.push_str(&self.session.next_line());
        Ok(true)
    }

    fn write(&mut self, line: &str) -> Result<(), Self::Error> {
        self.session.take(line);
        self.transcript.push(line.to_owned());
        self.transcript.extend(std::iter::from_fn(|| self.session.harness_line()));
        Ok(())
    }
}
