//! A session without its stream: what to send next, what to make of what comes.
//!
//! The command drives it over a pipe, the tests drive it in one process with the probe's server; both
//! get the same record.

use std::collections::VecDeque;

use fathom_probe::serve::Lines;
use fathom_probe::wire::{Line, PatternKind, Trial};

use crate::record::{End, Record, Run, TrialRun};

/// A plan: the next round from the record so far, a seed and a budget in ms; empty at the end.
pub type Plan = fn(&Record, u64, u64) -> Vec<Trial>;

/// What the session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// The probe's greeting.
    Greeting,
    /// Nothing: it is the harness's turn.
    Turn,
    /// The end of the facts.
    Facts,
    /// The end of this trial.
    Trial(u64),
    /// Nothing any more.
    Over,
}

/// A session with a probe.
#[derive(Debug)]
pub struct Session {
    /// The record so far.
    pub record: Record,
    plan: Plan,
    run: Run,
    queue: VecDeque<Trial>,
    waiting: Waiting,
    asked_facts: bool,
    time_is_up: bool,
    /// Why the probe's greeting cannot be followed.
    strange: Option<String>,
    /// Trials that the record had ended when the present round began.
    ended_before: Option<usize>,
}

impl Session {
    /// A session that follows `plan`; its record begins with the lines of [`Session::head`].
    #[must_use]
    pub fn new(plan: Plan, run: Run) -> Session {
        let mut record = Record::default();
        for line in Session::lines_of_head(&run) {
            // The two lines are our own: they parse, and a test holds them to it.
            let _ = record.push(&line);
        }
        let (queue, waiting) = (VecDeque::new(), Waiting::Greeting);
        Session {
            record,
            plan,
            run,
            queue,
            waiting,
            time_is_up: false,
            asked_facts: false,
            strange: None,
            ended_before: None,
        }
    }

    fn lines_of_head(run: &Run) -> [String; 2] {
        [Record::first_line(), run.line().render()]
    }

    /// The lines that begin the record.
    #[must_use]
    pub fn head(&self) -> [String; 2] {
        Session::lines_of_head(&self.run)
    }

    /// Takes a line of the probe into the record.
    pub fn take(&mut self, text: &str) {
        // Only the first line of a record can be refused, and that was our own.
        let _ = self.record.push(text);
        let word = Line::parse(text).map(|l| l.word).unwrap_or_default();
        if (self.waiting, word.as_str()) == (Waiting::Greeting, "probe") && self.record.worth.is_none() {
            self.strange = self.record.problems.last().cloned();
            return;
        }
        self.waiting = match (self.waiting, word.as_str()) {
            (Waiting::Greeting, "probe") | (Waiting::Facts, "facts_end" | "fault") => Waiting::Turn,
            (Waiting::Trial(_), "done" | "refusal" | "fault") => Waiting::Turn,
            (waiting, _) => waiting,
        };
    }

    /// Is it the harness's turn to send?
    #[must_use]
    pub fn our_turn(&self) -> bool {
        self.waiting == Waiting::Turn
    }

    /// Why the probe's greeting cannot be followed: a newer wire, an unknown worth.
    #[must_use]
    pub fn strange(&self) -> Option<&str> {
        self.strange.as_deref()
    }

    /// Has the plan nothing more to ask?
    #[must_use]
    pub fn over(&self) -> bool {
        self.waiting == Waiting::Over
    }

    /// Asks for nothing more: the next line is `bye`, whatever the plan still wants. For a harness whose time
    /// is up before the plan's reckoning says so (a loaded machine, a slow stream).
    pub fn stop_asking(&mut self) {
        self.time_is_up = true;
    }

    /// The next line to send, when it is our turn; `bye` at the end.
    pub fn next_line(&mut self) -> String {
        if !self.asked_facts {
            self.asked_facts = true;
            self.waiting = Waiting::Facts;
            return "facts".to_owned();
        }
        if self.time_is_up {
            self.queue.clear();
        } else if self.queue.is_empty() {
            self.queue = self.next_round().into();
        }
        match self.queue.pop_front() {
            Some(trial) => {
                self.waiting = Waiting::Trial(trial.id);
                trial.line().render()
            }
            None => {
                self.waiting = Waiting::Over;
                "bye".to_owned()
            }
        }
    }

    /// The next round. A plan sees the record only: where a whole round left nothing in it (a probe that
    /// answers every trial with a fault), it would ask for the same again, for ever.
    fn next_round(&mut self) -> Vec<Trial> {
        // Yardsticks alone are no progress: a probe that faults at all else would be asked for ever.
        let ended =
            |r: &&TrialRun| r.trial.pattern != PatternKind::Alu && (r.done.is_some() || r.refusal.is_some());
        let ended = self.record.trials.iter().filter(ended).count();
        if self.ended_before.replace(ended) == Some(ended) {
            return Vec::new();
        }
        (self.plan)(&self.record, self.run.seed, self.run.budget_ms)
    }

    /// Trials of the present round that are still to be sent.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Does a trial run at the probe now?
    #[must_use]
    pub fn in_trial(&self) -> bool {
        matches!(self.waiting, Waiting::Trial(_))
    }

    /// What has been spent of the budget, by the cost that the trials report.
    #[must_use]
    pub fn budget(&self) -> crate::budget::Budget {
        crate::budget::Budget::of(&self.record, self.run.budget_ms)
    }

    /// Ends the session: the line for the record.
    pub fn end(&mut self, status: &str, elapsed_ms: u64) -> String {
        self.waiting = Waiting::Over;
        let line = End { status: status.to_owned(), elapsed_ms }.line().render();
        let _ = self.record.push(&line);
        line
    }
}

/// A session as the other end of [`fathom_probe::serve`]'s lines, in one process. `transcript` gets
/// every line of the record.
#[derive(Debug)]
pub struct InProcess {
    /// The session.
    pub session: Session,
    /// The record, line for line.
    pub transcript: Vec<String>,
}

impl InProcess {
    /// A session in one process.
    #[must_use]
    pub fn new(session: Session) -> InProcess {
        let transcript = session.head().to_vec();
        InProcess { session, transcript }
    }

    /// Runs the session to its end on `machine` and answers the transcript and the record.
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
        if !self.session.our_turn() {
            return Ok(false);
        }
        line.push_str(&self.session.next_line());
        Ok(true)
    }

    fn write(&mut self, line: &str) -> Result<(), Self::Error> {
        self.session.take(line);
        self.transcript.push(line.to_owned());
        Ok(())
    }
}
