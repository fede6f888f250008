//! A session without its stream: what to send next, what to make of what comes.
//!
//! The command drives it over a pipe, the tests drive it in one process with the probe's server; both
//! get the same record.
//!
//! The stream may lose bytes, repeat them or change them, and a board at its end may be reset. The harness's lines
//! are sealed like the probe's, so that neither end takes one for another; what an answer lacks shows in its numbers.
//! Then the trial does not count and is asked again, a few times; in the record stands a line of the harness for it.

use std::collections::VecDeque;

use fathom_probe::pattern::{PatternKind, Trial};
use fathom_probe::wire::Line;
use fathom_units::size;

use crate::record::{End, Lost, Record, Run, TrialRun, again, hello};

mod in_process;

pub use in_process::InProcess;

/// A plan: the next round from the record so far, a seed and a budget in ms; empty at the end.
pub type Plan = fn(&Record, u64, u64) -> Vec<Trial>;

/// How often a trial is asked before it is given up. A line that loses every other answer is through by then in
/// 31 of 32 cases.
const TRIES: u32 = 5;
/// Trials given up in a row after which the session ends: no luck explains fifteen answers lost.
const MAX_LOST: u32 = 3;
/// How often the facts are asked for without one whole telling; what comes of each adds up.
const FACT_TRIES: u32 = 8;
/// How often the leave is taken of a probe that does not understand it.
const LEAVES: u32 = 3;

/// What the session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// The probe's greeting, at the beginning or after a silence.
    Greeting,
    /// Nothing: it is the harness's turn.
    Turn,
    /// The end of the facts.
    Facts,
    /// The end of the trial that was asked.
    Trial,
    /// Nothing any more.
    Over,
}

/// The trial whose end is wanted.
#[derive(Debug)]
struct PendingTrial {
    trial: Trial,
    /// How often it was sent.
    tries: u32,
    /// How often the probe answered with a fault.
    faults: u32,
    /// Trials of the record before it.
    from: usize,
    /// Gaps of the record when its echo came; `None` before that.
    echoed: Option<u64>,
}

/// The line that says that a trial was given up.
fn lost(trial: &Trial, reason: &str) -> Line {
    let what = format!("trial {}: {} of {}", trial.id, trial.kind().token(), size(trial.memory.bytes as f64));
    Lost { what, reason: reason.to_owned() }.line()
}

/// A session with a probe.
#[derive(Debug)]
pub struct Session {
    /// The record so far.
    pub record: Record,
    /// The lines that it began with.
    head: Vec<String>,
    plan: Plan,
    run: Run,
    queue: VecDeque<Trial>,
    waiting: Waiting,
    /// Does the probe not know yet that it is asked for its facts?
    unreported: bool,
    time_is_up: bool,
    /// Why the probe's greeting cannot be followed.
    incompatible_greeting: Option<String>,
    /// Trials that the record had ended when the present round began.
    ended_before: Option<usize>,
    pending: Option<PendingTrial>,
    /// Number of the last line that was sent.
    sent: u64,
    /// Lines of the harness that the record has and its file has not.
    harness_lines: VecDeque<String>,
    /// Has anything come, and has anything come damaged, since the last line was sent?
    received: bool,
    damaged: bool,
    fact_tries: u32,
    leaves: u32,
    lost_in_a_row: u32,
    broken: Option<String>,
    gone: bool,
}

impl Session {
    /// A session that follows `plan`; its record begins with the lines of [`Session::head`].
    #[must_use]
    pub fn new(plan: Plan, run: Run) -> Session {
        let head = Session::lines_of_head(&run);
        Session::behind(plan, run, head.into())
    }

    /// A session that goes on where a record was cut off, whose lines these are. The run replaces its own: only its
    /// budget may differ.
    #[must_use]
    pub fn resumed(plan: Plan, run: Run, lines: Vec<String>) -> Session {
        let own = |line: &String| Line::parse(line).is_ok_and(|l| l.word == "run" && l.seq.is_none());
        let mut head: Vec<String> = Session::lines_of_head(&run).into();
        head.extend(lines.into_iter().skip(1).filter(|line| !own(line)));
        // The new probe greets because it is asked to: nothing was lost.
        head.push(hello().render());
        Session::behind(plan, run, head)
    }

    fn behind(plan: Plan, run: Run, head: Vec<String>) -> Session {
        let mut record = Record::default();
        for line in &head {
            // Our own lines parse, and a test holds them to it; of others' a problem is noted.
            let _ = record.push(line);
        }
        Session {
            record,
            head,
            plan,
            run,
            queue: VecDeque::new(),
            waiting: Waiting::Greeting,
            unreported: true,
            time_is_up: false,
            incompatible_greeting: None,
            ended_before: None,
            pending: None,
            sent: 0,
            harness_lines: VecDeque::new(),
            received: false,
            damaged: false,
            fact_tries: 0,
            leaves: 0,
            lost_in_a_row: 0,
            broken: None,
            gone: false,
        }
    }

    fn lines_of_head(run: &Run) -> [String; 2] {
        [Record::first_line(), run.line().render()]
    }

    /// The lines that begin the record.
    #[must_use]
    pub fn head(&self) -> &[String] {
        &self.head
    }

    /// Takes a line of the probe into the record. What the harness adds to it is then at [`Session::harness_line`].
    pub fn take(&mut self, text: &str) {
        let known = self.record.trust.is_some();
        let restarts = self.record.losses.restarts;
        let Some(line) = self.record.receive(text) else {
            self.damaged = true;
            // A probe that is a script numbers nothing; that it found fault is believed without a seal.
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

    /// A greeting, `again` where nobody had asked for it.
    fn greeted(&mut self, anew: bool) {
        match self.waiting {
            Waiting::Over => return,
            // Facts that were asked for before a greeting that was asked for before them.
            Waiting::Facts if !anew => return,
            Waiting::Greeting | Waiting::Turn | Waiting::Facts | Waiting::Trial => {}
        }
        self.unreported = true;
        self.waiting = Waiting::Turn;
        let why = if anew { "the probe was started again" } else { "no end of it came" };
        self.again(why);
    }

    /// The facts are at their end.
    fn reported(&mut self) {
        if self.waiting != Waiting::Facts {
            return;
        }
        self.waiting = Waiting::Turn;
        self.unreported = !self.record.losses.reported;
        if !self.unreported {
            self.fact_tries = 0;
        }
    }

    /// The probe repeats what it is to do before it does it.
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
            // A line of ours that came twice, or what damage made of one. Its answers are nobody's.
            pending => {
                // What is no trial was not taken, and nothing of what ended before is to be voided for it.
                let taken = |run: &TrialRun| read.as_ref() == Some(&run.trial);
                let last = self.record.trials.len().checked_sub(1);
                let pushed = last.filter(|&last| taken(&self.record.trials[last]));
                let from = match pending {
                    Some(pending) => {
                        pending.echoed = None;
                        (self.record.trials.len() > pending.from).then_some(pending.from)
                    }
                    None => pushed,
                };
                if let Some(from) = from {
                    self.say(&again(from, "the probe repeats another trial than the one that was asked"));
                }
            }
        }
    }

    /// A trial is at its end.
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

    /// The probe found fault with something.
    fn fault(&mut self) {
        match self.waiting {
            Waiting::Facts => {
                self.waiting = Waiting::Turn;
                if self.fact_tries >= FACT_TRIES && self.record.facts.is_empty() {
                    // A probe without facts is no probe whose trials could be read.
                    self.time_is_up = true;
                }
            }
            Waiting::Trial => {
                self.waiting = Waiting::Turn;
                let Some(pending) = &mut self.pending else { return };
                pending.faults += 1;
                // It is the trial's own fault, or a probe that finds fault with all: then a fault is its answer.
                let understood = pending.echoed == Some(self.record.losses.gaps);
                if understood || pending.faults == TRIES {
                    self.pending = None;
                } else {
                    self.again("the probe did not understand the line");
                }
            }
            // It did not understand that it was to greet, so it is there and has nothing else to do.
            Waiting::Greeting if self.record.trust.is_some() => {
                self.waiting = Waiting::Turn;
                self.again("no end of it came");
            }
            Waiting::Over if !self.gone && self.leaves < LEAVES => self.waiting = Waiting::Turn,
            Waiting::Greeting | Waiting::Turn | Waiting::Over => {}
        }
    }

    /// What the probe was asked does not count, and is asked again or given up.
    fn again(&mut self, why: &str) {
        let Some(mut pending) = self.pending.take() else { return };
        pending.echoed = None;
        self.say(&again(pending.from, why));
        if pending.tries < TRIES {
            self.pending = Some(pending);
            return;
        }
        self.say(&lost(&pending.trial, why));
        self.lost_in_a_row += 1;
        if self.lost_in_a_row == MAX_LOST {
            self.broken = Some(format!(
                "{MAX_LOST} trials in a row were asked {TRIES} times each in vain; the last: {why}"
            ));
        }
    }

    /// A line of the harness for the record.
    fn say(&mut self, line: &Line) {
        let text = line.render();
        let _ = self.record.push(&text);
        self.harness_lines.push_back(text);
    }

    /// The next line that the harness adds to the record: to be kept behind what was taken before.
    pub fn harness_line(&mut self) -> Option<String> {
        self.harness_lines.pop_front()
    }

    /// Is it the harness's turn to send?
    #[must_use]
    pub fn may_send(&self) -> bool {
        self.waiting == Waiting::Turn
    }

    /// Why the probe's greeting cannot be followed: a newer wire, an unknown clock trust.
    #[must_use]
    pub fn incompatible_greeting(&self) -> Option<&str> {
        self.incompatible_greeting.as_deref()
    }

    /// Why it is of no use to go on: the line loses too much.
    #[must_use]
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Has the plan nothing more to ask?
    #[must_use]
    pub fn over(&self) -> bool {
        self.waiting == Waiting::Over
    }

    /// Has the probe taken its leave?
    #[must_use]
    pub fn gone(&self) -> bool {
        self.gone
    }

    /// Asks for nothing more: the next line is `bye`, whatever the plan still wants. For a harness whose time
    /// is up before the plan's reckoning says so (a loaded machine, a slow stream).
    pub fn stop_requesting(&mut self) {
        self.time_is_up = true;
    }

    /// The next line to send, when it is our turn; `bye` at the end.
    pub fn next_line(&mut self) -> String {
        let leaving = self.time_is_up || self.leaves > 0;
        if self.unreported && !leaving {
            if self.fact_tries == FACT_TRIES {
                self.broken =
                    Some(format!("its facts were asked for {FACT_TRIES} times and never came whole"));
            }
            self.fact_tries += 1;
            self.waiting = Waiting::Facts;
            return self.seal(&Line::new("facts"));
        }
        if leaving {
            self.queue.clear();
            if let Some(pending) = self.pending.take() {
                self.say(&lost(&pending.trial, "no time was left to ask again"));
            }
        } else if self.pending.is_none() && self.queue.is_empty() {
            self.queue = self.next_round().into();
        }
        let from = self.record.trials.len();
        let first = |trial| PendingTrial { trial, tries: 0, faults: 0, from, echoed: None };
        let Some(mut pending) = self.pending.take().or_else(|| self.queue.pop_front().map(first)) else {
            self.leaves += 1;
            self.waiting = Waiting::Over;
            return self.seal(&Line::new("bye"));
        };
        pending.tries += 1;
        self.waiting = Waiting::Trial;
        let line = pending.trial.line();
        self.pending = Some(pending);
        self.seal(&line)
    }

    /// A line to send, with number and checksum.
    fn seal(&mut self, line: &Line) -> String {
        (self.received, self.damaged) = (false, false);
        self.sent += 1;
        line.seal(self.sent)
    }

    /// Is the silence worth a question soon? Not where the probe has said that it is at work and nothing was lost.
    #[must_use]
    pub fn needs_ping(&self) -> bool {
        self.waiting == Waiting::Greeting || !self.received || self.damaged
    }

    /// What to send after a silence: the probe is asked to greet (a board that was on before does not do so by
    /// itself, and the end of an answer may be lost), or once more to leave. The empty line ends what may stand
    /// half in its buffer.
    pub fn ping(&mut self) -> Vec<String> {
        match self.waiting {
            Waiting::Turn => return Vec::new(),
            Waiting::Over => {
                if self.gone || self.leaves >= LEAVES {
                    return Vec::new();
                }
                self.leaves += 1;
                return vec![String::new(), self.seal(&Line::new("bye"))];
            }
            Waiting::Greeting | Waiting::Facts | Waiting::Trial => {}
        }
        self.waiting = Waiting::Greeting;
        self.say(&hello());
        vec![String::new(), self.seal(&Line::new("hello"))]
    }

    /// The next round. A plan sees the record only: where a whole round left nothing in it (a probe that
    /// answers every trial with a fault), it would ask for the same again, forever.
    fn next_round(&mut self) -> Vec<Trial> {
        // Yardsticks alone are no progress: a probe that faults at all else would be asked forever.
        let ended =
            |r: &&TrialRun| r.trial.kind() != PatternKind::Alu && (r.done.is_some() || r.refusal.is_some());
        let ended = self.record.trials.iter().filter(ended).count();
        if self.ended_before.replace(ended) == Some(ended) {
            return Vec::new();
        }
        (self.plan)(&self.record, self.run.seed, self.run.budget_ms)
    }

    /// Does a trial run at the probe now, as far as is known?
    #[must_use]
    pub fn in_trial(&self) -> bool {
        self.pending.is_some() && matches!(self.waiting, Waiting::Trial | Waiting::Greeting)
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
