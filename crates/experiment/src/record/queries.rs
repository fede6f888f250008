//! Queries on a record, for plans and readings.

use fathom_analysis::claims::FactValue;
use fathom_probe::machine::ClockTrust;
use fathom_probe::pattern::PatternKind;
use fathom_units::facts;

use super::{Record, TrialRun};
use crate::options::Asked;

impl Record {
    /// Returns the options that were given to the experiment. Keys and values are checked by [`crate::check`], not
    /// here.
    #[must_use]
    pub fn asked(&self) -> &Asked {
        static NOTHING: Asked = Asked::nothing();
        self.run.as_ref().map_or(&NOTHING, |run| &run.asked)
    }

    /// Returns the number of the `run` line, from 1; 0 without one.
    #[must_use]
    pub fn run_line(&self) -> u64 {
        self.run_line
    }

    /// Returns an integer fact.
    #[must_use]
    pub fn int(&self, name: &str) -> Option<u64> {
        match self.facts.get(name) {
            Some(FactValue::Int(v)) => Some(*v),
            _ => None,
        }
    }

    /// Returns a text fact.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.facts.get(name) {
            Some(FactValue::Text(t)) => Some(t),
            _ => None,
        }
    }

    /// Returns whether the machine is a described one.
    #[must_use]
    pub fn is_modelled(&self) -> bool {
        self.trust == Some(ClockTrust::Modelled)
    }

    /// Returns whether a repeated trial gives the same times: on a described machine without neighbours.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.is_modelled() && self.int(facts::DESCRIBED_NEIGHBOURS).is_none()
    }

    /// Returns the time of an instruction, ns, if the clock is known to count instructions: that of an emulator (QEMU's -icount)
    /// which the kernel's command line declares as `fathom.instruction_ns=N`.
    #[must_use]
    pub fn instruction_ns(&self) -> Option<f64> {
        if self.trust != Some(ClockTrust::Emulated) {
            return None;
        }
        let line = self.text(facts::KERNEL_COMMAND_LINE)?;
        let ns = line.split_ascii_whitespace().find_map(|w| w.strip_prefix("fathom.instruction_ns="))?;
        ns.parse::<f64>().ok().filter(|ns| *ns > 0.0)
    }

    /// Returns the trials of one pattern that ended with rows.
    pub fn of(&self, pattern: PatternKind) -> impl Iterator<Item = &TrialRun> + '_ {
        self.trials.iter().filter(move |r| r.trial.kind() == pattern && r.done.is_some() && r.has_rows())
    }

    /// Returns the last planned round; 0 before the first.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.trials.iter().map(|r| r.trial.round).max().unwrap_or(0)
    }
}
