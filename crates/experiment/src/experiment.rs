//! What an experiment is: everything that is about one of them by name.

use fathom_analysis::findings::Report;
use fathom_report::ReportKind;

use crate::options::Opt;
use crate::record::Record;
use crate::session::Plan;

/// An experiment. It is declared once, and stands in [`crate::EXPERIMENTS`].
#[derive(Debug)]
pub struct Experiment {
    /// Its name: the verb, and the kind in records and reports.
    pub name: &'static str,
    /// What it measures, in a line, without a full stop.
    pub about: &'static str,
    /// What stands below the options in its help: examples, what to know, and the exit statuses.
    pub help: &'static str,
    /// Its own options, in the order of help. What every session takes is not among them.
    pub options: &'static [&'static Opt],
    /// What it spends without `--budget`.
    pub default_budget: DefaultBudget,
    /// Which trials, from the record so far.
    pub plan: Plan,
    /// What a record of it says.
    pub read: fn(&Record) -> Report,
    /// What its reports are: metrics, headline, view.
    pub report: &'static ReportKind,
    /// A line of its own that is shown while it measures, in addition to points and time; most have none.
    pub progress: Option<fn() -> Box<dyn ProgressLine>>,
    /// May a record of it be resumed?
    pub resumes: bool,
}

/// The budget of an experiment where none is given, ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultBudget {
    /// On hardware: time.
    pub hardware_ms: u64,
    /// On a described machine, where it stands for accesses.
    pub modelled_ms: u64,
}

impl DefaultBudget {
    /// The same on both.
    #[must_use]
    pub const fn both(ms: u64) -> DefaultBudget {
        DefaultBudget { hardware_ms: ms, modelled_ms: ms }
    }

    /// The one of a subject, ms.
    #[must_use]
    pub fn ms(self, modelled: bool) -> u64 {
        if modelled { self.modelled_ms } else { self.hardware_ms }
    }
}

/// What of a record is shown while it is measured.
pub trait ProgressLine: std::fmt::Debug {
    /// Takes what is new in the record, and returns a line for a terminal; none while there is nothing to show.
    fn line(&mut self, record: &Record) -> Option<String>;
}

impl Experiment {
    /// Checks what a record of this experiment was asked.
    ///
    /// # Errors
    /// The line, the key, and the values that are allowed.
    pub(crate) fn check(&self, record: &Record) -> Result<(), String> {
        let of = |why: String| format!("line {}: run of {}: {why}", record.run_line(), self.name);
        record.asked().check(self.options).map_err(of)
    }
}
