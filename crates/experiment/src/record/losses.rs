//! Lost lines and board resets in a record, and the harness's response: its own lines `hello`, `again` and `lost`.

use fathom_probe::wire::{Line, WireError};

use super::{MAX_PROBLEMS, Record};

/// A trial that was given up after several attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The trial, as a report's refusal names it: `trial 7: chase of 32 KiB`.
    pub what: String,
    /// Why the last attempt failed.
    pub reason: String,
}

impl Lost {
    /// Returns it as a line.
    pub(crate) fn line(&self) -> Line {
        Line::new("lost").text("what", &self.what).text("reason", &self.reason)
    }
}

/// Losses between harness and probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Number of gaps in the numbers of the probe's lines.
    pub gaps: u64,
    /// Number of times that the probe was restarted during the session, without a request to greet.
    pub restarts: u64,
    /// Number of requests that were repeated.
    pub again: u64,
    /// Trials that were given up.
    pub lost: Vec<Lost>,
    /// Requested greetings that have not been received yet.
    pub(crate) expected: u64,
    /// Whether all facts have been received, over all attempts.
    pub(crate) reported: bool,
}

/// Returns the line that records a request to greet.
pub(crate) fn hello() -> Line {
    Line::new("hello")
}

/// Returns the line that voids the trials from index `from` on (in the record's order, from 0), with the reason.
pub(crate) fn again(from: usize, why: &str) -> Line {
    Line::new("again").int("from", from as u64).text("why", why)
}

/// Returns the line for a part of a record that was damaged when the record was resumed. The file is written again
/// there, and its new seals would hide that.
#[must_use]
pub(crate) fn damaged(what: &str) -> Line {
    Line::new("damaged").text("what", what)
}

impl Record {
    /// Adds one of the four lines.
    pub(super) fn take_loss(&mut self, line: &Line) -> Result<(), WireError> {
        let mut f = line.fields();
        match line.word.as_str() {
            "hello" => {
                f.finish()?;
                self.losses.expected += 1;
            }
            "again" => {
                let from = usize::try_from(f.need_int("from")?).unwrap_or(usize::MAX);
                f.text("why")?;
                f.finish()?;
                // Counts as a damaged line: it bounds an endless stream of them.
                self.damaged();
                self.losses.again += 1;
                self.trials.truncate(from);
                self.open = false;
            }
            "damaged" => {
                let what = f.text("what")?.unwrap_or_default().to_owned();
                f.finish()?;
                self.problem(&what);
            }
            _ => {
                let what = f.text("what")?.unwrap_or_default().to_owned();
                let reason = f.text("reason")?.unwrap_or_default().to_owned();
                f.finish()?;
                self.damaged();
                if self.losses.lost.len() < MAX_PROBLEMS {
                    self.losses.lost.push(Lost { what, reason });
                }
            }
        }
        Ok(())
    }

    /// Handles a greeting: line numbers restart at 1, and the running trial is lost.
    pub(super) fn greeted(&mut self) {
        self.drop_unfinished();
        self.open = false;
        if self.trust.is_none() {
            return;
        }
        if self.losses.expected > 0 {
            self.losses.expected -= 1;
            return;
        }
        self.losses.restarts += 1;
        self.problem("an unexpected greeting: the probe was started again; its running trial is lost");
    }

    /// Handles the end of the facts. A greeting requested before that has been received by now, or never will be.
    pub(super) fn reported(&mut self, count: Option<u64>) {
        self.losses.expected = 0;
        self.losses.reported |= count.is_none_or(|count| self.facts.len() as u64 >= count);
    }
}
