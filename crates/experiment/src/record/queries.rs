//! What plans and readings ask of a record.

use fathom_analysis::claims::FactValue;
use fathom_probe::pattern::PatternKind;

use super::{Record, TrialRun};
use crate::options::Asked;

impl Record {
    /// The options that the experiment was asked with. Keys and values are checked by [`crate::check`], not here.
    #[must_use]
    pub fn asked(&self) -> &Asked {
        static NOTHING: Asked = Asked::nothing();
        self.run.as_ref().map_or(&NOTHING, |run| &run.asked)
    }

    /// The number of the `run` line, from 1; 0 without one.
    #[must_use]
    pub fn run_line(&self) -> u64 {
        self.run_line
    }

    /// An integer fact.
    #[must_use]
    pub fn int(&self, name: &str) -> Option<u64> {
        match self.facts.get(name) {
            Some(FactValue::Int(v)) => Some(*v),
            _ => None,
        }
    }

    /// A text fact.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.facts.get(name) {
            Some(FactValue::Text(t)) => Some(t),
            _ => None,
        }
    }

    /// Trials of one pattern that ended with samples.
    pub fn of(&self, pattern: PatternKind) -> impl Iterator<Item = &TrialRun> + '_ {
        self.trials
            .iter()
            .filter(move |r| r.trial.kind() == pattern && r.done.is_some() && r.has_left_something())
    }

    /// The last round that was planned; 0 before the first.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.trials.iter().map(|r| r.trial.round).max().unwrap_or(0)
    }
}
