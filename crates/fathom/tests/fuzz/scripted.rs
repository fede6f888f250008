//! A model that is queried line by line, without a pipe.

use std::convert::Infallible;

use fathom_model::Model;
use fathom_probe::serve::{Lines, serve};

/// The harness's end of a connection to a probe: sends the given lines and stores the answers.
struct Scripted {
    lines: Vec<String>,
    next: usize,
    answers: Vec<String>,
}

impl Lines for Scripted {
    type Error = Infallible;

    fn read(&mut self, line: &mut String) -> Result<bool, Infallible> {
        let Some(next) = self.lines.get(self.next) else { return Ok(false) };
        self.next += 1;
        line.push_str(next);
        Ok(true)
    }

    fn write(&mut self, line: &str) -> Result<(), Infallible> {
        self.answers.push(line.to_owned());
        Ok(())
    }
}

/// Serves these lines; returns the probe's output.
pub fn answers(model: &mut Model, lines: Vec<String>) -> Vec<String> {
    let mut requested = Scripted { lines, next: 0, answers: Vec::new() };
    let Ok(()) = serve(model, &mut requested);
    requested.answers
}
