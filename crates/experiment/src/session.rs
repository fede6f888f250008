//! The state machine of a session, without its stream: which line to send next, and how to handle a received line.
//!
//! `fathom` drives it over a pipe. Tests drive it in one process with the probe's server. Both produce the same record.
//!
//! The stream may lose, repeat or change bytes, and a board at its end may be reset. The harness seals its lines with a
//! number and a checksum, like the probe, so that neither end mistakes one line for another. Missing numbers reveal
//! lost lines. A trial with lost lines does not count and is sent again, a few times; a line of the harness in the
//! record says so.

use std::collections::VecDeque;

use fathom_probe::pattern::{PatternKind, Trial};
use fathom_probe::wire::Line;

use crate::record::{End, Lost, Record, Run, TrialRun, again, hello};
use crate::trial_name::trial_name;

mod in_process;

pub use in_process::InProcess;

/// A plan: returns the next round for the record so far, a seed and a budget in ms; empty at the end.
pub type Plan = fn(&Record, u64, u64) -> Vec<Trial>;

/// Attempts per trial. On a line that loses every second reply, 31 of 32 trials succeed within five attempts.
const MAX_TRIES: u32 = 5;
/// Consecutive trials that may be given up before the session ends. Fifteen lost replies are not chance.
const MAX_LOST: u32 = 3;
/// Attempts to receive all facts. The facts of all attempts add up.
const MAX_FACT_TRIES: u32 = 8;
/// Attempts to send `bye` to a probe that does not understand it.
const MAX_BYES: u32 = 3;

/// The event that the session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// The probe's greeting, at the beginning or after a silence.
    Greeting,
    /// Nothing: the harness may send.
    Turn,
    /// The end of the facts.
    Facts,
    /// The end of the trial that was sent.
    Trial,
    /// Nothing: the session is over.
    Over,
}

/// The trial whose end has not been received yet.
#[derive(Debug)]
struct PendingTrial {
    trial: Trial,
    /// Attempts so far.
    tries: u32,
    /// Times that the probe replied with a fault.
    faults: u32,
    /// Trials in the record before this one.
    from: usize,
    /// Number of gaps in the record when its echo was received; `None` before that.
    echoed: Option<u64>,
}

/// Returns the line that records a trial that was given up.
fn lost(trial: &Trial, reason: &str) -> Line {
    Lost { what: trial_name(trial), reason: reason.to_owned() }.line()
}

/// A session with a probe.
#[derive(Debug)]
pub struct Session {
    /// The record so far.
    pub record: Record,
    /// The lines with which the record begins.
    head: Vec<String>,
    plan: Plan,
    run: Run,
    queue: VecDeque<Trial>,
    waiting: Waiting,
    /// Whether the facts have yet to be requested, or requested again.
    needs_facts: bool,
    time_is_up: bool,
    /// Why the session cannot continue with the probe's greeting.
    incompatible_greeting: Option<String>,
    /// Number of finished trials in the record when the current round began.
    ended_before: Option<usize>,
    pending: Option<PendingTrial>,
    /// Number of the last line that was sent.
    sent: u64,
    /// Lines of the harness that are in the record and not yet in its file.
    harness_lines: VecDeque<String>,
    /// Whether a line was received, and whether a damaged line was received, since the last line was sent.
    received: bool,
    damaged: bool,
    fact_tries: u32,
    byes: u32,
    lost_in_a_row: u32,
    broken: Option<String>,
    gone: bool,
}

impl Session {
    /// Creates a session that follows `plan`. Its record begins with the lines of [`Session::head`].
    #[must_use]
    pub fn new(plan: Plan, run: Run) -> Session {
        let head = Session::lines_of_head(&run);
        Session::with_head(plan, run, head.into())
    }

    /// Creates a session that resumes an interrupted record, whose lines these are. `run` replaces the record's own run
    /// line: only its budget may differ.
    #[must_use]
    pub fn resumed(plan: Plan, run: Run, lines: Vec<String>) -> Session {
        let is_run_line = |line: &String| Line::parse(line).is_ok_and(|l| l.word == "run" && l.seq.is_none());
        let mut head: Vec<String> = Session::lines_of_head(&run).into();
        head.extend(lines.into_iter().skip(1).filter(|line| !is_run_line(line)));
        // The new probe greets because it is requested to: nothing was lost.
        head.push(hello().render());
        Session::with_head(plan, run, head)
    }

    fn with_head(plan: Plan, run: Run, head: Vec<String>) -> Session {
        let mut record = Record::default();
        for line in &head {
            // Our own lines always parse (a test checks it). A problem in another line is noted in the record.
            let _ = record.push(line);
        }
        Session {
            record,
            head,
            plan,
            run,
            queue: VecDeque::new(),
            waiting: Waiting::Greeting,
            needs_facts: true,
            time_is_up: false,
            incompatible_greeting: None,
            ended_before: None,
            pending: None,
            sent: 0,
            harness_lines: VecDeque::new(),
            received: false,
            damaged: false,
            fact_tries: 0,
            byes: 0,
            lost_in_a_row: 0,
            broken: None,
            gone: false,
        }
    }

    fn lines_of_head(run: &Run) -> [String; 2] {
        [Record::first_line(), run.line().render()]
    }

    /// Returns the lines that begin the record.
    #[must_use]
    pub fn head(&self) -> &[String] {
        &self.head
    }

    /// Adds a line of the probe to the record. Lines that the harness adds in response are at
    /// [`Session::harness_line`].
    pub fn take(&mut self, text: &str) {
        let known = self.record.trust.is_some();
        let restarts = self.record.losses.restarts;
        let Some(line) = self.record.receive(text) else {
            self.damaged = true;
            // A probe that is a script does not number its lines. Its faults are accepted without a seal.
            if Line::parse(text).is_ok_and(|line| line.word == "fault" && line.seq.is_none()) {
                self.fault();
            }
            return;
        };
        self.received = true;
        match line.word.as_str() {
            "probe" if self.record.trust.is_none() => {
                self.incompatible_greeting = self.record.problems.last().cloned();
            }
            "probe" => self.greeted(known && self.record.losses.restarts > restarts),
            "facts_end" => self.reported(),
            "trial" => self.echoed(&line),
            "done" | "refusal" => self.ended(&line),
            "fault" => self.fault(),
            "gone" => self.gone = true,
            _ => {}
        }
    }

    /// Handles a greeting. `restarted`: the greeting was not requested.
    fn greeted(&mut self, restarted: bool) {
        match self.waiting {
            Waiting::Over => return,
            // The facts were requested before this requested greeting was received.
            Waiting::Facts if !restarted => return,
            Waiting::Greeting | Waiting::Turn | Waiting::Facts | Waiting::Trial => {}
        }
        self.needs_facts = true;
        self.waiting = Waiting::Turn;
        let why = if restarted { "the probe was started again" } else { "its last line was not received" };
        self.again(why);
    }

    /// Handles the end of the facts.
    fn reported(&mut self) {
        if self.waiting != Waiting::Facts {
            return;
        }
        self.waiting = Waiting::Turn;
        self.needs_facts = !self.record.losses.reported;
        if !self.needs_facts {
            self.fact_tries = 0;
        }
    }

    /// Handles the echo of a trial: the probe repeats each trial before it runs it.
    fn echoed(&mut self, line: &Line) {
        let gaps = self.record.losses.gaps;
        let read = Trial::read(line).ok();
        match &mut self.pending {
            Some(pending)
                if pending.echoed.is_none()
                    && pending.from + 1 == self.record.trials.len()
                    && read.as_ref() == Some(&pending.trial) =>
            {
                pending.echoed = Some(gaps);
            }
            // A repeated line of ours, or a damaged one. No trial is waiting for its results.
            pending => {
                // A line that is not a trial was not added, so no earlier trial is voided for it.
                let matches = |run: &TrialRun| read.as_ref() == Some(&run.trial);
                let last = self.record.trials.len().checked_sub(1);
                let pushed = last.filter(|&last| matches(&self.record.trials[last]));
                let from = match pending {
                    Some(pending) => {
                        pending.echoed = None;
                        (self.record.trials.len() > pending.from).then_some(pending.from)
                    }
                    None => pushed,
                };
                if let Some(from) = from {
                    self.record_line(&again(from, "the probe repeats a trial other than the requested one"));
                }
            }
        }
    }

    /// Handles the end of a trial.
    fn ended(&mut self, line: &Line) {
        let Some(pending) = &self.pending else { return };
        if line.fields().int("trial") != Ok(Some(pending.trial.id)) {
            return;
        }
        let last = self.record.trials.last().filter(|_| self.record.trials.len() == pending.from + 1);
        let whole = pending.echoed == Some(self.record.losses.gaps)
            && last.is_some_and(|run| run.done.is_some() || run.refusal.is_some());
        if self.waiting == Waiting::Trial {
            self.waiting = Waiting::Turn;
        }
        if whole {
            self.pending = None;
            self.lost_in_a_row = 0;
        } else {
            self.again("lines of its answer are missing");
        }
    }

    /// Handles a fault that the probe reports.
    fn fault(&mut self) {
        match self.waiting {
            Waiting::Facts => {
                self.waiting = Waiting::Turn;
                if self.fact_tries >= MAX_FACT_TRIES && self.record.facts.is_empty() {
                    // Without any facts no trial could be read.
                    self.time_is_up = true;
                }
            }
            Waiting::Trial => {
                self.waiting = Waiting::Turn;
                let Some(pending) = &mut self.pending else { return };
                pending.faults += 1;
                // Either the trial itself is faulty, or the probe rejects every line: the fault is then the result.
                let received_intact = pending.echoed == Some(self.record.losses.gaps);
                if received_intact || pending.faults == MAX_TRIES {
                    self.pending = None;
                } else {
                    self.again("the probe did not understand the line");
                }
            }
            // The probe did not understand `hello`, so it runs and is idle.
            Waiting::Greeting if self.record.trust.is_some() => {
                self.waiting = Waiting::Turn;
                self.again("its last line was not received");
            }
            Waiting::Over if !self.gone && self.byes < MAX_BYES => self.waiting = Waiting::Turn,
            Waiting::Greeting | Waiting::Turn | Waiting::Over => {}
        }
    }

    /// Voids the pending trial, and schedules it again or gives it up.
    fn again(&mut self, why: &str) {
        let Some(mut pending) = self.pending.take() else { return };
        pending.echoed = None;
        self.record_line(&again(pending.from, why));
        if pending.tries < MAX_TRIES {
            self.pending = Some(pending);
            return;
        }
        self.record_line(&lost(&pending.trial, why));
        self.lost_in_a_row += 1;
        if self.lost_in_a_row == MAX_LOST {
            self.broken = Some(format!(
                "{MAX_LOST} consecutive trials failed after {MAX_TRIES} attempts each; last reason: {why}"
            ));
        }
    }

    /// Adds a line of the harness to the record.
    fn record_line(&mut self, line: &Line) {
        let text = line.render();
        let _ = self.record.push(&text);
        self.harness_lines.push_back(text);
    }

    /// Returns the next line that the harness adds to the record. It follows the lines received before it.
    pub fn harness_line(&mut self) -> Option<String> {
        self.harness_lines.pop_front()
    }

    /// Returns whether the harness may send the next line.
    #[must_use]
    pub fn may_send(&self) -> bool {
        self.waiting == Waiting::Turn
    }

    /// Returns why the session cannot continue with the probe's greeting: a newer wire version, or an unknown clock
    /// trust.
    #[must_use]
    pub fn incompatible_greeting(&self) -> Option<&str> {
        self.incompatible_greeting.as_deref()
    }

    /// Returns why the session must end: too many lines were lost.
    #[must_use]
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Returns whether the plan is complete.
    #[must_use]
    pub fn over(&self) -> bool {
        self.waiting == Waiting::Over
    }

    /// Returns whether the probe has ended the session.
    #[must_use]
    pub fn gone(&self) -> bool {
        self.gone
    }

    /// Schedules nothing more: the next line is `bye`, even if the plan is not complete. Used when the harness runs out
    /// of time before the plan has spent its budget (a loaded machine, a slow stream).
    pub fn stop_requesting(&mut self) {
        self.time_is_up = true;
    }

    /// Returns whether the next line begins a round, or ends the session: nothing is measured at the moment.
    #[must_use]
    pub fn begins_round(&self) -> bool {
        self.pending.is_none() && self.queue.is_empty()
    }

    /// Returns the next line to send; `bye` at the end. Call it only when [`Session::may_send`].
    pub fn next_line(&mut self) -> String {
        let leaving = self.time_is_up || self.byes > 0;
        if self.needs_facts && !leaving {
            if self.fact_tries == MAX_FACT_TRIES {
                self.broken = Some(format!(
                    "the facts were requested {MAX_FACT_TRIES} times and never received completely"
                ));
            }
            self.fact_tries += 1;
            self.waiting = Waiting::Facts;
            return self.seal(&Line::new("facts"));
        }
        if leaving {
            self.queue.clear();
            if let Some(pending) = self.pending.take() {
                self.record_line(&lost(&pending.trial, "no time was left to repeat it"));
            }
        } else if self.pending.is_none() && self.queue.is_empty() {
            self.queue = self.next_round().into();
        }
        let from = self.record.trials.len();
        let first = |trial| PendingTrial { trial, tries: 0, faults: 0, from, echoed: None };
        let Some(mut pending) = self.pending.take().or_else(|| self.queue.pop_front().map(first)) else {
            self.byes += 1;
            self.waiting = Waiting::Over;
            return self.seal(&Line::new("bye"));
        };
        pending.tries += 1;
        self.waiting = Waiting::Trial;
        let line = pending.trial.line();
        self.pending = Some(pending);
        self.seal(&line)
    }

    /// Seals a line to send: adds its number and checksum.
    fn seal(&mut self, line: &Line) -> String {
        (self.received, self.damaged) = (false, false);
        self.sent += 1;
        line.seal(self.sent)
    }

    /// Returns whether to send a ping after a short silence. Not if the probe has confirmed the trial and no line was
    /// damaged.
    #[must_use]
    pub fn needs_ping(&self) -> bool {
        self.waiting == Waiting::Greeting || !self.received || self.damaged
    }

    /// Returns the lines to send after a silence: a request to greet, or another `bye`. A greeting is needed from a
    /// board that was powered before the session, and after a lost end of a trial. The empty line ends a partial line
    /// in the probe's buffer.
    pub fn ping(&mut self) -> Vec<String> {
        match self.waiting {
            Waiting::Turn => return Vec::new(),
            Waiting::Over => {
                if self.gone || self.byes >= MAX_BYES {
                    return Vec::new();
                }
                self.byes += 1;
                return vec![String::new(), self.seal(&Line::new("bye"))];
            }
            Waiting::Greeting | Waiting::Facts | Waiting::Trial => {}
        }
        self.waiting = Waiting::Greeting;
        self.record_line(&hello());
        vec![String::new(), self.seal(&Line::new("hello"))]
    }

    /// Plans the next round. A plan sees only the record. If a whole round added nothing to it (a probe that replies to
    /// every trial with a fault), the plan would repeat the round forever, so the session ends.
    fn next_round(&mut self) -> Vec<Trial> {
        // Cycle calibrations alone are not progress: a probe that rejects everything else would be queried forever.
        let ended =
            |r: &&TrialRun| r.trial.kind() != PatternKind::Alu && (r.done.is_some() || r.refusal.is_some());
        let ended = self.record.trials.iter().filter(ended).count();
        if self.ended_before.replace(ended) == Some(ended) {
            return Vec::new();
        }
        (self.plan)(&self.record, self.run.seed, self.run.budget_ms)
    }

    /// Returns whether a trial is running at the probe, as far as is known.
    #[must_use]
    pub fn in_trial(&self) -> bool {
        self.pending.is_some() && matches!(self.waiting, Waiting::Trial | Waiting::Greeting)
    }

    /// Returns the budget and the part spent, by the cost that the trials report.
    #[must_use]
    pub fn budget(&self) -> crate::budget::Budget {
        crate::budget::Budget::of(&self.record, self.run.budget_ms)
    }

    /// Adds lines of the harness to the record, and returns them.
    pub fn add(&mut self, lines: &[Line]) -> Vec<String> {
        let lines: Vec<String> = lines.iter().map(Line::render).collect();
        for line in &lines {
            let _ = self.record.push(line);
        }
        lines
    }

    /// Ends the session and returns the `end` line of the record.
    pub fn end(&mut self, status: &str, elapsed_ms: u64) -> String {
        self.waiting = Waiting::Over;
        let line = End { status: status.to_owned(), elapsed_ms }.line().render();
        let _ = self.record.push(&line);
        line
    }
}
