//! The `Experiment` type: everything specific to one experiment, by name.

use fathom_analysis::findings::{Key, Report};
use fathom_report::ReportKind;
use fathom_units::facts::Study;

use crate::options::Opt;
use crate::record::Record;
use crate::session::Plan;

/// An experiment. It is declared once and listed in [`crate::EXPERIMENTS`].
#[derive(Debug)]
pub struct Experiment {
    /// The verb, and the kind in records and reports.
    pub name: &'static str,
    /// One line on what it measures, without a full stop.
    pub about: &'static str,
    /// The help text after the options: examples, notes, exit statuses.
    pub help: &'static str,
    /// Its own options, in the order of help, without those of every session.
    pub options: &'static [&'static Opt],
    /// The budget without `--budget`.
    pub default_budget: DefaultBudget,
    /// Plans the trials from the record so far.
    pub plan: Plan,
    /// Reads a record into a report.
    pub read: fn(&Record) -> Report,
    /// The kind of its reports: metrics, headline, view.
    pub report: &'static ReportKind,
    /// Returns the study with which its reports compare a finding, if any.
    pub compared: fn(&Key) -> Option<Study>,
    /// An additional progress line, shown during the measurement; most experiments have none.
    pub progress: Option<fn() -> Box<dyn ProgressLine>>,
    /// Whether a record of it can be resumed.
    pub resumes: bool,
}

/// The default budget of an experiment, ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultBudget {
    /// On hardware: time.
    pub hardware_ms: u64,
    /// On a described machine, where it counts accesses.
    pub modelled_ms: u64,
}

impl DefaultBudget {
    /// The same on both.
    #[must_use]
    pub const fn both(ms: u64) -> DefaultBudget {
        DefaultBudget { hardware_ms: ms, modelled_ms: ms }
    }

    /// Returns the default for a subject, ms.
    #[must_use]
    pub fn ms(self, modelled: bool) -> u64 {
        if modelled { self.modelled_ms } else { self.hardware_ms }
    }
}

/// A progress line, shown during the measurement.
pub trait ProgressLine: std::fmt::Debug {
    /// Reads the new part of the record and returns a line for a terminal; `None` if there is nothing to show.
    fn line(&mut self, record: &Record) -> Option<String>;
}

impl Experiment {
    /// An experiment without sessions, on a program of the user: its verb runs the program and writes the record.
    pub(crate) const fn of_a_program(
        report: &'static ReportKind,
        about: &'static str,
        read: fn(&Record) -> Report,
    ) -> Experiment {
        Experiment {
            name: report.name,
            about,
            help: "",
            options: &[],
            default_budget: DefaultBudget::both(0),
            plan: |_, _, _| Vec::new(),
            read,
            report,
            compared: |_| None,
            progress: None,
            resumes: false,
        }
    }

    /// Checks the options in a record of this experiment.
    ///
    /// # Errors
    /// Names the line, the key and the allowed values.
    pub(crate) fn check(&self, record: &Record) -> Result<(), String> {
        let of = |why: String| format!("line {}: run of {}: {why}", record.run_line(), self.name);
        record.asked().check(self.options).map_err(of)
    }
}
