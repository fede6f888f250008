//! The record: the transcript of a session, line for line, and what it says.
//!
//! The first line names the format's version. Then come the harness's own lines (`run`, `end`) and,
//! as they were received, the probe's. Reading stops nowhere: a damaged line is a problem that names
//! its number, and everything else still counts.

use fathom_analysis::claims::{FactValue, Facts};
use fathom_analysis::interval::median;
use fathom_probe::machine::{ClockTrust, Watch};
use fathom_probe::pattern::Trial;
use fathom_probe::rows::{Done, Rows, Sample, Samples};
use fathom_probe::wire::{Line, VERSION, WireError};

mod facts;
mod harness_lines;
mod imported;
mod losses;
mod queries;
mod transfers;
mod wakeups;

pub use harness_lines::{End, Run};
pub use imported::{Imported, MAX_SERIES};
pub use losses::{Losses, Lost};
pub(crate) use losses::{again, hello};
pub use transfers::TransferRecord;
pub use wakeups::Wakeups;

/// Most problems that are kept one by one; a hostile file has no more to say after that.
const MAX_PROBLEMS: usize = 100;
/// Largest number that a trial or a round may have. No session comes near it, and whoever counts on from
/// there stays far from the end of the numbers.
const MAX_NUMBER: u64 = 1 << 32;
/// Most trials of a record. A session of this version ends by itself after some 1100, whatever its budget; the
/// time to judge a hostile record grows with the square of its trials, and of as many takes some ten seconds.
const MAX_TRIALS: usize = 20_000;
/// Most lines that say nothing: blank, or no line of a record. An endless stream of them is given up.
const MAX_DAMAGED: u64 = 100_000;
/// What judging a record takes, as a multiple of what it holds: rows, histograms, text. Measured on 180 000
/// single loads no two of which take the same time, as JSON: 8.5, the most of any record tried.
const JUDGING: u64 = 12;

/// One trial and all that came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrialRun {
    /// What was asked, as the probe echoed it.
    pub trial: Trial,
    /// Its samples, in order; only proven ones once the trial is done.
    pub samples: Vec<Sample>,
    /// Samples whose end cells did not prove the work; they are kept out.
    pub unverified: usize,
    /// The median time of an operation, ticks, where it is below zero: 2n operations took less time than n, which no
    /// work does, and the samples are kept out.
    pub contradicted: Option<f64>,
    /// What it cost, when it ended.
    pub done: Option<Done>,
    /// Reason and remedy, when it was refused.
    pub refusal: Option<(String, String)>,
    /// Wake-ups, and the load beside the trial.
    pub wakeups: Wakeups,
    /// What moved its transfers, and each of them; only proven ones once the trial is done.
    pub transfers: TransferRecord,
}

impl TrialRun {
    fn has_left_something(&self) -> bool {
        !self.samples.is_empty() || !self.wakeups.woken.is_empty() || !self.transfers.rows.is_empty()
    }

    fn begun(trial: Trial) -> TrialRun {
        TrialRun { trial, ..TrialRun::default() }
    }
}

impl TrialRun {
    /// Ticks of every timed load less an empty reading of the clock: of patterns that time single loads.
    pub(crate) fn single_ticks(&self) -> impl Iterator<Item = f64> + '_ {
        self.samples.iter().map(|s| s.ticks as f64 - s.ticks2 as f64)
    }

    /// The word of the lines that brought its rows.
    fn word_of_rows(&self) -> Option<&'static str> {
        match (self.samples.is_empty(), self.wakeups.woken.is_empty(), self.transfers.rows.is_empty()) {
            (false, ..) => Some("sample"),
            (_, false, _) => Some("woken"),
            (_, _, false) => Some("moved"),
            _ => None,
        }
    }

    /// Rows of one trial are of one kind.
    fn takes(&mut self, word: &str) -> Result<&mut TrialRun, WireError> {
        match self.word_of_rows() {
            Some(had) if had != word => {
                let id = self.trial.id;
                Err(WireError::new(format!("trial {id}: '{word}' after '{had}': its rows are of one kind")))
            }
            _ => Ok(self),
        }
    }

    /// Its rows; the record has them no more.
    fn take_rows(&mut self) -> Rows {
        let trial = self.trial.id;
        match self.word_of_rows() {
            Some("woken") => Rows::Wakes(self.wakeups.take_woken(trial), Vec::new()),
            Some("moved") => Rows::Transfers(self.transfers.take_moved(trial)),
            _ => Rows::of_samples(trial, std::mem::take(&mut self.samples)),
        }
    }

    /// Keeps the rows that prove their work.
    fn keep_proven(&mut self, done: &Done, trust: Option<ClockTrust>) {
        // In a model no time goes by around a trial.
        let wall_ns = if trust == Some(ClockTrust::Modelled) { u64::MAX } else { done.watch.wall_ns };
        let done = Done { watch: Watch { wall_ns, ..done.watch }, ..*done };
        let rows = self.take_rows();
        let bad = self.trial.unproven(&rows, &done);
        match rows {
            Rows::Wakes(woken, _) => self.keep_proven_wakes(woken.list, &bad),
            Rows::Transfers(moved) => self.keep_proven_transfers(moved.list, &bad),
            Rows::Samples(samples) => {
                self.unverified = bad.len();
                self.samples = proven(samples.list, &bad).collect();
            }
        }
    }

    /// Keeps no sample of a trial whose 2n operations took less time than its n, in the median.
    fn keep_possible_times(&mut self) {
        let doubled = self.trial.pattern.time_grows();
        let times: Vec<f64> = self.ticks_per_op().filter(|ticks| doubled && ticks.is_finite()).collect();
        self.contradicted = median(&times).filter(|ticks| *ticks < 0.0);
        if self.contradicted.is_some() {
            self.samples.clear();
        }
    }

    /// Ticks an operation of every sample: the 2n run less the n run, over n, in which every fixed cost
    /// cancels.
    pub fn ticks_per_op(&self) -> impl Iterator<Item = f64> + '_ {
        let n = self.trial.loads as f64;
        self.samples.iter().map(move |s| (s.ticks2 as f64 - s.ticks as f64) / n)
    }
}

/// A record, read.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// What was asked of the harness.
    pub run: Option<Run>,
    /// The clock trust that the probe declared.
    pub trust: Option<ClockTrust>,
    /// The facts, parts joined.
    pub facts: Facts,
    /// The trials, in order.
    pub trials: Vec<TrialRun>,
    /// `fault` lines of the probe.
    pub faults: Vec<String>,
    /// How it ended; `None` for a session that was cut off.
    pub end: Option<End>,
    /// What was wrong with the lines themselves, each with its number.
    pub problems: Vec<String>,
    /// What the line between harness and probe lost, and what came of that.
    pub losses: Losses,
    /// Series that another tool measured.
    pub imported: Vec<Imported>,
    /// The number of the `run` line, from 1; 0 without one.
    run_line: u64,
    lines: u64,
    last_seq: Option<u64>,
    /// Trials that were begun, with those that do not count any more.
    begun: usize,
    /// May lines of the last trial still come? Not after the probe was started anew.
    open: bool,
    pairs: Vec<(String, FactValue)>,
    /// Bytes that the above hold, about.
    held: u64,
    /// Lines that said nothing.
    damaged: u64,
    /// What there is too much of.
    excess: Option<String>,
    /// Of the last of `pairs`: parts taken and parts there are, while some are still to come.
    parts: Option<(u64, u64)>,
}

impl Record {
    /// The line that begins every record.
    #[must_use]
    pub fn first_line() -> String {
        Line::new("fathom.record").int("version", VERSION).render()
    }

    /// Reads a whole file's text.
    ///
    /// # Errors
    /// When the first line is not that of a record, or of a newer version.
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

    /// Takes the next line of a record. Problems with it are noted and do not end the reading.
    ///
    /// # Errors
    /// Only of the first line: when it is not that of a record, or of a newer version.
    pub fn push(&mut self, text: &str) -> Result<(), String> {
        if self.lines == 0 {
            self.lines = 1;
            return first(text);
        }
        self.receive(text);
        Ok(())
    }

    /// Takes a line after the first. Answers a probe's line that came whole and in its order, whatever the record
    /// then makes of it.
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
        let own = harness_lines::is_harness_line(&line);
        let placed = if own { Ok(()) } else { self.take_seq(&line, sealed(text)) };
        let sound = placed.is_ok() && !own;
        let taken =
            placed.and_then(|()| if own { self.take_harness_line(&line) } else { self.take_sent(&line) });
        if let Err(e) = taken {
            self.problem(&e.what);
        }
        sound.then_some(line)
    }

    /// Takes the last line of a file that does not end in a newline. A checksum says whether it is whole; the
    /// harness's own lines have none, and half a number would be another number.
    ///
    /// # Errors
    /// As of [`Record::push`].
    pub fn push_unended(&mut self, text: &str) -> Result<(), String> {
        if self.lines == 0 || sealed(text) {
            return self.push(text);
        }
        self.lines += 1;
        self.problem("it has no newline: cut off");
        Ok(())
    }

    /// Bytes of memory that judging takes, about.
    #[must_use]
    pub fn needs(&self) -> u64 {
        self.held.saturating_mul(JUDGING)
    }

    /// What the record has more of than any session, with the line; nothing beyond it was taken.
    #[must_use]
    pub fn excess(&self) -> Option<&str> {
        self.excess.as_deref()
    }

    fn damaged(&mut self) {
        self.damaged += 1;
        if self.damaged > MAX_DAMAGED {
            self.exceeds(&format!("more than {MAX_DAMAGED} lines are blank or none of a record"));
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

    /// A line of the harness itself. A probe's are numbered, the harness's own are not.
    fn take_harness_line(&mut self, line: &Line) -> Result<(), WireError> {
        let word = &line.word;
        if line.seq.is_some() {
            return Err(WireError::new(format!("'{word}' is the harness's word, and a probe sent it")));
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
            "hello" | "again" | "lost" => return self.take_loss(line),
            "imported" => return self.take_imported(line),
            _ => {}
        }
        // The last one counts: a subject may have sent the same word before.
        if self.end.replace(End::read(line)?).is_some() {
            return Err(WireError::new("a second 'end': the last one counts"));
        }
        Ok(())
    }

    /// A probe's line has the number after the last one's. A gap is noted; a line that comes again, or
    /// late, does not count twice. A greeting has the first number, whenever it comes: a board that was reset
    /// greets in the middle of a session.
    fn take_seq(&mut self, line: &Line, sealed: bool) -> Result<(), WireError> {
        let Some(seq) = line.seq.filter(|_| sealed) else {
            return Err(WireError::new(format!("'{}' without number and checksum: cut off", line.word)));
        };
        if line.word == "probe" && seq == 1 {
            self.greeted();
        } else if let Some(last) = self.last_seq {
            if seq <= last {
                return Err(WireError::new(format!(
                    "number {seq} after {last}: the line stands twice or in the wrong place; it is left out"
                )));
            }
            if seq != last + 1 {
                self.losses.gaps += 1;
                self.problem(&format!("number {seq} follows {last}: lines of the probe are missing"));
            }
        }
        self.last_seq = Some(seq);
        Ok(())
    }

    /// A line of the probe.
    fn take_sent(&mut self, line: &Line) -> Result<(), WireError> {
        match line.word.as_str() {
            "probe" => self.take_probe(line)?,
            "fact" => self.take_fact(line)?,
            "trial" => self.take_trial(line)?,
            "sample" => {
                let samples = Samples::read(line)?;
                let bytes = size_of_val(samples.list.as_slice()) as u64;
                self.running(samples.trial)?.takes("sample")?.samples.extend(samples.list);
                self.held += bytes;
            }
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
                // What had moved by the end of the session came before it.
                self.close_facts();
            }
            other => return Err(WireError::new(format!("'{other}' is no word of a record"))),
        }
        Ok(())
    }

    fn take_trial(&mut self, line: &Line) -> Result<(), WireError> {
        let trial = Trial::read(line)?;
        if trial.id > MAX_NUMBER || trial.round > MAX_NUMBER {
            return Err(WireError::new(format!("trial: id and round must be at most {MAX_NUMBER}")));
        }
        // Where the line that ends the facts was lost, the first trial ends them.
        self.close_facts();
        if self.begun == MAX_TRIALS {
            self.exceeds(&format!("more than {MAX_TRIALS} trials, as no session has"));
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
        if wire > VERSION {
            return Err(WireError::new(format!(
                "the probe speaks wire version {wire}, this program reads up to {VERSION}: update it"
            )));
        }
        let word = f.token("trust")?.unwrap_or_default();
        f.finish()?;
        let trust = ClockTrust::from_token(word).ok_or_else(|| {
            WireError::new(format!("probe: trust={word} is not one of: {}", ClockTrust::choices()))
        })?;
        match self.trust {
            Some(first) if first != trust => {
                // Nothing that follows may be believed further than the less of the two.
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

    /// The trial that runs now, which must be `id`.
    fn running(&mut self, id: u64) -> Result<&mut TrialRun, WireError> {
        match self.trials.last_mut() {
            Some(run) if self.open && run.trial.id == id && run.done.is_none() && run.refusal.is_none() => {
                Ok(run)
            }
            _ => Err(WireError::new(format!("trial {id} is not the one that runs"))),
        }
    }

    fn take_done(&mut self, done: Done) -> Result<(), WireError> {
        let trust = self.trust;
        let run = self.running(done.trial)?;
        run.keep_proven(&done, trust);
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

/// Rows without those of the numbers `bad`, which ascend: a hostile trial has a million of them.
fn proven<T>(rows: Vec<T>, bad: &[usize]) -> impl Iterator<Item = T> {
    rows.into_iter().enumerate().filter(|(i, _)| bad.binary_search(i).is_err()).map(|(_, row)| row)
}

/// Does the line end in a checksum, which parsing has then held it to?
fn sealed(text: &str) -> bool {
    // A quote's end is none: parsing takes such a line for one without.
    let last = text.trim_end().rsplit_once(' ').map(|(_, last)| last);
    last.is_some_and(|last| last.starts_with("crc=0x") && !last.contains('"'))
}

fn first(text: &str) -> Result<(), String> {
    let hint = "a record begins with 'fathom.record version=1'";
    let line = Line::parse(text).map_err(|e| format!("line 1: {e}; {hint}"))?;
    if line.word != "fathom.record" {
        return Err(format!("line 1 begins with '{}'; {hint}", line.word));
    }
    let mut f = line.fields();
    let version = f.need_int("version").map_err(|e| e.what)?;
    f.finish().map_err(|e| e.what)?;
    if version == 0 || version > VERSION {
        return Err(format!("record version {version}; this program reads up to {VERSION}: update it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
