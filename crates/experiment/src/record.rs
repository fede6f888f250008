//! The record of a session: its transcript, line by line, and the parsed contents.
//!
//! The first line names the format's version. It is followed by the harness's own lines (`run`, `end`) and by the
//! probe's lines as they were received. A damaged line does not stop the reading: it is a problem with a line number,
//! and all other lines still count. In a file each line has a seal ([`mod@file`]).

use fathom_analysis::claims::{FactValue, Facts};
use fathom_analysis::sensitivity::Sensitivity;
use fathom_probe::machine::{ClockTrust, Watch};
use fathom_probe::pattern::Trial;
use fathom_probe::rows::{Done, EventCount, Rows, Sample, Samples};
use fathom_probe::wire::{self, Line, WireError};

mod counted;
mod facts;
pub mod file;
mod framing;
mod harness_lines;
mod imported;
mod instruction;
mod losses;
mod profile;
mod program;
mod queries;
mod simulated;
mod times;
mod transfers;
mod varied;
mod wakeups;

pub use harness_lines::{End, Run};
pub use imported::{Imported, MAX_SERIES};
pub use instruction::Instruction;
pub use losses::{Losses, Lost};
pub(crate) use losses::{again, hello};
pub use profile::{
    DataLevel, Profile, ProfileCall, ProfileLatency, ProfileLevel, ProfileObject, ProfilePlace, ProfilePmu,
    ProfileWalks,
};
pub(crate) use program::MAX_TIERS;
pub use program::{
    AskedRegions, MAX_REGIONS, MAX_RUNS, MAX_SLICES, ProgramMarks, ProgramRegion, ProgramRun, ProgramRuns,
    ProgramSlice, ProgramTimes, RefusedEvent, TriedEvent,
};
pub use simulated::call::SimulatedCall;
pub use simulated::events::{SimulatedEvent, SimulatedEvents};
pub use simulated::overlap::SimulatedOverlap;
pub use simulated::region::SimulatedRegion;
pub use simulated::sharing::SimulatedSharing;
pub use simulated::source::{MAX_SOURCE, SimulatedSource};
pub use simulated::why::{REASONS, Reasons, SimulatedEnd, SimulatedObject, SimulatedPair};
pub use simulated::{Hot, MAX_CALLS, MAX_HOT, Simulated, SimulatedGuest, SimulatedLevel, SimulatedTlb};
pub use transfers::TransferRecord;
pub use varied::sensitivity_lines;
pub use wakeups::Wakeups;

/// Version of the record's format.
pub const VERSION: u64 = 1;
/// Status of a session that ended as planned.
const COMPLETE: &str = "complete";
/// Problems that are stored individually, at most. More carry no information.
const MAX_PROBLEMS: usize = 100;
/// Largest number of a trial or a round. No session comes near it, and later numbers cannot overflow.
const MAX_NUMBER: u64 = 1 << 32;
/// Trials per record, at most. A session of this version ends after about 1100, with any budget. The time to judge a
/// hostile record grows with the square of its trials; this many take about ten seconds.
const MAX_TRIALS: usize = 20_000;
/// Lines without content, at most: blank, or not lines of a record. It bounds an endless stream of them.
const MAX_DAMAGED: u64 = 100_000;
/// Memory that judging a record takes, as a multiple of the rows, histograms and text that it holds. Measured on
/// 180 000 single loads with 180 000 different times, as JSON: 8.5, the largest of all records tried.
const JUDGING_FACTOR: u64 = 12;

/// One trial and its results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrialRun {
    /// The trial, as the probe echoed it.
    pub trial: Trial,
    /// Its samples, in order. Once the trial is done: only the verified ones.
    pub samples: Vec<Sample>,
    /// Samples whose end cells do not match the expected work; they are left out.
    pub unverified: usize,
    /// Median time per operation in ticks, if it is negative: 2n operations took less time than n, which is impossible.
    /// The samples are then left out.
    pub contradicted: Option<f64>,
    /// Events that the machine counted, if they were requested.
    pub events: Vec<EventCount>,
    /// Its cost, once it has ended.
    pub done: Option<Done>,
    /// Reason and remedy, if it was refused.
    pub refusal: Option<(String, String)>,
    /// Its wake-ups, and the load that ran at the same time.
    pub wakeups: Wakeups,
    /// Its transfers and the channel that made them. Once the trial is done: only the verified ones.
    pub transfers: TransferRecord,
}

impl TrialRun {
    fn has_rows(&self) -> bool {
        !self.samples.is_empty() || !self.wakeups.woken.is_empty() || !self.transfers.rows.is_empty()
    }

    fn begun(trial: Trial) -> TrialRun {
        TrialRun { trial, ..TrialRun::default() }
    }
}

impl TrialRun {
    /// Returns the first word of the lines that carried its rows.
    fn word_of_rows(&self) -> Option<&'static str> {
        match (self.samples.is_empty(), self.wakeups.woken.is_empty(), self.transfers.rows.is_empty()) {
            (false, ..) => Some("sample"),
            (_, false, _) => Some("woken"),
            (_, _, false) => Some("moved"),
            _ => None,
        }
    }

    /// Checks that a row is of the same kind as the trial's earlier rows.
    fn accept_rows_of(&mut self, word: &str) -> Result<&mut TrialRun, WireError> {
        match self.word_of_rows() {
            Some(had) if had != word => {
                let id = self.trial.id;
                Err(WireError::new(format!("trial {id}: '{word}' after '{had}': its rows are of one kind")))
            }
            _ => Ok(self),
        }
    }

    /// Takes its rows out of the record.
    fn take_rows(&mut self) -> Rows {
        let trial = self.trial.id;
        match self.word_of_rows() {
            Some("woken") => Rows::Wakes(self.wakeups.take_woken(trial), Vec::new()),
            Some("moved") => Rows::Transfers(self.transfers.take_moved(trial)),
            _ => Rows::of_samples(trial, std::mem::take(&mut self.samples)),
        }
    }

    /// Keeps the rows whose work is verified.
    fn keep_verified(&mut self, done: &Done, trust: Option<ClockTrust>) {
        // A model does not report wall time.
        let wall_ns = if trust == Some(ClockTrust::Modelled) { u64::MAX } else { done.watch.wall_ns };
        let done = Done { watch: Watch { wall_ns, ..done.watch }, ..*done };
        let rows = self.take_rows();
        let bad = self.trial.unverified(&rows, &done);
        match rows {
            Rows::Wakes(woken, _) => self.keep_verified_wakes(woken.list, &bad),
            Rows::Transfers(moved) => self.keep_verified_transfers(moved.list, &bad),
            Rows::Samples(samples) => {
                self.unverified = bad.len();
                self.samples = verified(samples.list, &bad).collect();
            }
        }
    }
}

/// A parsed record.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The harness's `run` line.
    pub run: Option<Run>,
    /// The clock trust that the probe declared.
    pub trust: Option<ClockTrust>,
    /// The facts, with their parts joined.
    pub facts: Facts,
    /// The trials, in order.
    pub trials: Vec<TrialRun>,
    /// `fault` lines of the probe.
    pub faults: Vec<String>,
    /// How it ended; `None` for a session that was cut off.
    pub end: Option<End>,
    /// Problems of single lines, each with its line number.
    pub problems: Vec<String>,
    /// Lines lost between harness and probe, and the consequences.
    pub losses: Losses,
    /// Series that another tool measured.
    pub imported: Vec<Imported>,
    /// A simulated program.
    pub simulated: Option<Simulated>,
    /// A counted program.
    pub program: Option<ProgramRuns>,
    /// A sampled program.
    pub profile: Option<Profile>,
    /// The values of the machine's description that were varied, and the findings that changed.
    pub sensitivity: Option<Sensitivity>,
    /// The number of the `run` line, from 1; 0 without one.
    run_line: u64,
    /// Whether the probe's last line was received.
    gone: bool,
    lines: u64,
    last_seq: Option<u64>,
    /// Trials that were begun, including those that do not count any more.
    begun: usize,
    /// Whether lines of the last trial may still follow. Not after the probe was restarted.
    open: bool,
    pairs: Vec<(String, FactValue)>,
    /// Bytes that the fields above hold, approximately.
    held: u64,
    /// Number of lines without content.
    damaged: u64,
    /// Why the record is too large, if it is.
    excess: Option<String>,
    /// Of the last of `pairs`: parts received and total parts, while parts are missing.
    parts: Option<(u64, u64)>,
}

impl Record {
    /// Returns the line that begins every record.
    #[must_use]
    pub fn first_line() -> String {
        Line::new("fathom.record").int("version", VERSION).render()
    }

    /// Reads the lines of a record, without seals.
    ///
    /// # Errors
    /// The first line is not that of a record, or its version is newer.
    pub fn parse(text: &str) -> Result<Record, String> {
        let mut record = Record::default();
        for line in text.lines() {
            record.push(line)?;
        }
        if record.lines == 0 {
            return Err("the file is empty; a record begins with 'fathom.record version=1'".to_owned());
        }
        Ok(record)
    }

    /// Adds the next line of a record. Problems with it are noted and do not end the reading.
    ///
    /// # Errors
    /// Only for the first line: it is not that of a record, or its version is newer.
    pub fn push(&mut self, text: &str) -> Result<(), String> {
        if self.lines == 0 {
            self.lines = 1;
            return framing::first(text);
        }
        self.receive(text);
        Ok(())
    }

    /// Adds a line after the first. Returns a line of the probe that was received intact and in order, even if the
    /// record then rejects its contents.
    pub(crate) fn receive(&mut self, text: &str) -> Option<Line> {
        self.lines += 1;
        if text.trim().is_empty() {
            self.damaged();
            return None;
        }
        let line = match Line::parse(text) {
            Ok(line) => line,
            Err(e) => {
                self.problem(&e.what);
                return None;
            }
        };
        let from_harness = harness_lines::is_harness_line(&line);
        let placed = if from_harness { Ok(()) } else { self.take_seq(&line, framing::sealed(text)) };
        let intact = placed.is_ok() && !from_harness;
        let taken = placed
            .and_then(|()| if from_harness { self.take_harness_line(&line) } else { self.take_sent(&line) });
        if let Err(e) = taken {
            self.problem(&e.what);
        }
        intact.then_some(line)
    }

    /// Returns the memory that judging the record takes, in bytes, approximately.
    #[must_use]
    pub fn needs(&self) -> u64 {
        self.held.saturating_mul(JUDGING_FACTOR)
    }

    /// Returns which limit of a session the record exceeds, with the line. Lines after it were not added.
    #[must_use]
    pub fn excess(&self) -> Option<&str> {
        self.excess.as_deref()
    }

    fn damaged(&mut self) {
        self.damaged += 1;
        if self.damaged > MAX_DAMAGED {
            self.exceeds(&format!("more than {MAX_DAMAGED} lines are blank or not lines of a record"));
        }
    }

    fn exceeds(&mut self, what: &str) {
        let line = self.lines;
        self.excess.get_or_insert_with(|| format!("line {line}: {what}"));
    }

    fn problem(&mut self, what: &str) {
        self.damaged();
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(format!("line {}: {what}", self.lines));
        }
    }

    /// Adds a line that was not read, and why.
    fn bad_line(&mut self, why: &str) {
        self.lines += 1;
        self.problem(why);
    }

    /// Adds a line of the harness itself. The probe's lines are numbered, the harness's are not.
    fn take_harness_line(&mut self, line: &Line) -> Result<(), WireError> {
        let word = &line.word;
        if line.seq.is_some() {
            return Err(WireError::new(format!("'{word}' is a line of the harness, but a probe sent it")));
        }
        match word.as_str() {
            "run" => {
                let run = Run::of_line(line)?;
                if self.run.is_some() {
                    return Err(WireError::new("a second 'run': the first one counts"));
                }
                self.run = Some(run);
                self.run_line = self.lines;
                return Ok(());
            }
            "hello" | "again" | "lost" | "damaged" => return self.take_loss(line),
            "imported" => return self.take_imported(line),
            "simulated" => return self.take_simulated(line),
            "program" => return self.take_program(line),
            "profile" => return self.take_profile(line),
            "sensitivity" | "varied" | "depends" => return self.take_sensitivity(line),
            _ => {}
        }
        // The last one counts: a subject may have sent the same word before.
        if self.end.replace(End::read(line)?).is_some() {
            return Err(WireError::new("a second 'end': the last one counts"));
        }
        Ok(())
    }

    /// Adds a line of the probe.
    fn take_sent(&mut self, line: &Line) -> Result<(), WireError> {
        match line.word.as_str() {
            "probe" => self.take_probe(line)?,
            "fact" => self.take_fact(line)?,
            "trial" => self.take_trial(line)?,
            "sample" => {
                let samples = Samples::read(line)?;
                let bytes = size_of_val(samples.list.as_slice()) as u64;
                self.running(samples.trial)?.accept_rows_of("sample")?.samples.extend(samples.list);
                self.held += bytes;
            }
            "counted" => self.take_counted(line)?,
            "moved" => self.take_moved(line)?,
            "woken" | "around" | "load_stats" | "stalls" => self.take_wakes(line)?,
            "done" => self.take_done(Done::read(line)?)?,
            "refusal" => self.take_refusal(line)?,
            "fault" => {
                let mut f = line.fields();
                let what = f.text("what")?.unwrap_or_default().to_owned();
                f.finish()?;
                if self.faults.len() < MAX_PROBLEMS {
                    self.faults.push(what);
                }
            }
            "facts_end" => {
                let mut f = line.fields();
                let count = f.int("count")?;
                f.finish()?;
                self.close_facts();
                self.reported(count);
            }
            "gone" => {
                line.fields().finish()?;
                // Facts that changed by the end of the session come before this line.
                self.close_facts();
                self.gone = true;
            }
            other => return Err(WireError::new(format!("'{other}' is not a word of a record"))),
        }
        Ok(())
    }

    fn take_trial(&mut self, line: &Line) -> Result<(), WireError> {
        let trial = Trial::read(line)?;
        if trial.id > MAX_NUMBER || trial.round > MAX_NUMBER {
            return Err(WireError::new(format!("trial: id and round must be at most {MAX_NUMBER}")));
        }
        // If the line that ends the facts was lost, the first trial ends them.
        self.close_facts();
        if self.begun == MAX_TRIALS {
            self.exceeds(&format!("more than {MAX_TRIALS} trials, more than any session has"));
            return Err(WireError::new("too many trials"));
        }
        self.held += size_of::<TrialRun>() as u64;
        self.begun += 1;
        self.open = true;
        self.trials.push(TrialRun::begun(trial));
        Ok(())
    }

    fn take_probe(&mut self, line: &Line) -> Result<(), WireError> {
        let mut f = line.fields();
        let wire = f.need_int("wire")?;
        if wire > wire::VERSION {
            return Err(WireError::new(format!(
                "the probe speaks wire version {wire}, this program reads up to {}: update it",
                wire::VERSION
            )));
        }
        let word = f.token("trust")?.unwrap_or_default();
        f.finish()?;
        let trust = ClockTrust::from_token(word).ok_or_else(|| {
            WireError::new(format!("probe: trust={word} is not one of: {}", ClockTrust::choices()))
        })?;
        match self.trust {
            Some(first) if first != trust => {
                // The clock trust of the rest is the lower of the two.
                self.trust = Some(first.min(trust));
                Err(WireError::new(
                    "the probe greets again and declares another clock trust: the lower one counts",
                ))
            }
            _ => {
                self.trust = Some(trust);
                Ok(())
            }
        }
    }

    /// Returns the running trial, which must be `id`.
    fn running(&mut self, id: u64) -> Result<&mut TrialRun, WireError> {
        match self.trials.last_mut() {
            Some(run) if self.open && run.trial.id == id && run.done.is_none() && run.refusal.is_none() => {
                Ok(run)
            }
            _ => Err(WireError::new(format!("trial {id} is not the running trial"))),
        }
    }

    fn take_done(&mut self, done: Done) -> Result<(), WireError> {
        let trust = self.trust;
        let run = self.running(done.trial)?;
        run.keep_verified(&done, trust);
        run.keep_whole_counts();
        run.keep_possible_times();
        run.done = Some(done);
        Ok(())
    }

    fn take_refusal(&mut self, line: &Line) -> Result<(), WireError> {
        let mut f = line.fields();
        let id = f.need_int("trial")?;
        let reason = f.text("reason")?.unwrap_or_default().to_owned();
        let remedy = f.text("remedy")?.unwrap_or_default().to_owned();
        f.finish()?;
        let bytes = (reason.len() + remedy.len()) as u64;
        self.running(id)?.refusal = Some((reason, remedy));
        self.held += bytes;
        Ok(())
    }
}

/// Returns the rows without those at the indices `bad`, which ascend: a hostile trial has a million of them.
fn verified<T>(rows: Vec<T>, bad: &[usize]) -> impl Iterator<Item = T> {
    rows.into_iter().enumerate().filter(|(i, _)| bad.binary_search(i).is_err()).map(|(_, row)| row)
}

#[cfg(test)]
mod tests;
