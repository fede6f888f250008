//! What a line that loses bytes, or a board that is reset, leaves in a record, and what the harness did about it:
//! its own lines `hello`, `again` and `lost`.

use fathom_probe::wire::{Line, WireError};

use super::{MAX_PROBLEMS, Record};

/// Something that was given up after it had been asked for several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// What it was, as a report's refusal names it: `trial 7: chase of 32 KiB`.
    pub what: String,
    /// What went wrong the last time.
    pub reason: String,
}

impl Lost {
    /// The line that says it.
    pub(crate) fn line(&self) -> Line {
        Line::new("lost").text("what", &self.what).text("reason", &self.reason)
    }
}

/// What was lost on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Places in which numbers of the probe's lines are missing.
    pub gaps: u64,
    /// Times that the probe was started anew while the session went on, without having been asked to greet.
    pub restarts: u64,
    /// Times that something was asked for again.
    pub again: u64,
    /// What was given up.
    pub lost: Vec<Lost>,
    /// Greetings that were asked for and may still come.
    pub(crate) expected: u64,
    /// Did the last telling of the facts leave none out, together with those before it?
    pub(crate) reported: bool,
}

/// The line that says that the probe was asked to greet.
pub(crate) fn hello() -> Line {
    Line::new("hello")
}

/// The line that says that the trials from number `from` on (in the record's order, from 0) do not count, and why.
pub(crate) fn again(from: usize, why: &str) -> Line {
    Line::new("again").int("from", from as u64).text("why", why)
}

impl Record {
    /// One of the three lines.
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
                // Each is worth a line of damage: an endless stream of them is given up.
                self.damaged();
                self.losses.again += 1;
                self.trials.truncate(from);
                self.open = false;
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

    /// A greeting: numbers begin anew, and the trial that ran is lost.
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
        self.problem("a second greeting: the probe was started again; what it was doing is lost");
    }

    /// The end of a telling of facts. Whoever was asked to greet before that has done so, or will not.
    pub(super) fn reported(&mut self, count: Option<u64>) {
        self.losses.expected = 0;
        self.losses.reported |= count.is_none_or(|count| self.facts.len() as u64 >= count);
    }
}
