//! One trial of a record: what was requested, what came back, and what of that proved its work.

use fathom_analysis::interval::median;
use fathom_probe::machine::{ClockTrust, Watch};
use fathom_probe::pattern::Trial;
use fathom_probe::rows::{Done, Rows, Sample};
use fathom_probe::wire::WireError;

use super::{Moves, Wakeups};

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
    pub transfers: Moves,
}

impl TrialRun {
    pub(super) fn has_left_something(&self) -> bool {
        !self.samples.is_empty() || !self.wakeups.woken.is_empty() || !self.transfers.rows.is_empty()
    }

    pub(super) fn begun(trial: Trial) -> TrialRun {
        TrialRun { trial, ..TrialRun::default() }
    }

    /// Ticks of every timed load less an empty reading of the clock: of patterns that time single loads.
    pub(crate) fn single_ticks(&self) -> impl Iterator<Item = f64> + '_ {
        self.samples.iter().map(|s| s.ticks as f64 - s.ticks2 as f64)
    }

    /// The word of the lines that brought its rows.
    pub(super) fn word_of_rows(&self) -> Option<&'static str> {
        match (self.samples.is_empty(), self.wakeups.woken.is_empty(), self.transfers.rows.is_empty()) {
            (false, ..) => Some("sample"),
            (_, false, _) => Some("woken"),
            (_, _, false) => Some("moved"),
            _ => None,
        }
    }

    /// Rows of one trial are of one kind.
    pub(super) fn takes(&mut self, word: &str) -> Result<&mut TrialRun, WireError> {
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
            _ => Rows::samples(trial, std::mem::take(&mut self.samples)),
        }
    }

    /// Keeps the rows that prove their work.
    pub(super) fn keep_proven(&mut self, done: &Done, trust: Option<ClockTrust>) {
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
    pub(super) fn keep_possible_times(&mut self) {
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

/// Rows without those of the numbers `bad`, which ascend: a hostile trial has a million of them.
pub(super) fn proven<T>(rows: Vec<T>, bad: &[usize]) -> impl Iterator<Item = T> {
    rows.into_iter().enumerate().filter(|(i, _)| bad.binary_search(i).is_err()).map(|(_, row)| row)
}
