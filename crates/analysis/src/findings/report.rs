//! Findings and reports.

use std::collections::BTreeSet;

use super::axis::Axis;
use super::dependence::{Dependence, Varied};
use super::detail::{Basis, Detail};
use super::key::{Coordinate, Key};
use super::metric::Metric;
use super::warning::Warning;
use fathom_units::facts::Study;

/// Value of a finding: a number, a token or a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number in the finding's unit.
    Number(f64),
    /// A token or a text.
    Text(String),
}

/// A finding: a value of a metric at coordinates, with its uncertainty.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Its metric and coordinates; unique in a report.
    pub key: Key,
    /// The value.
    pub value: Value,
    /// Unit: one of the metric's; empty for a text or a pure number.
    pub unit: &'static str,
    /// Lower end of the 95 % interval, in `unit`.
    pub low: Option<f64>,
    /// Upper end of the 95 % interval, in `unit`.
    pub high: Option<f64>,
    /// Number of samples of the value.
    pub count: u64,
    /// Trials (ids in the record) of these samples.
    pub trials: Vec<u64>,
    /// Number of these trials that were disturbed, if they are so many that the value is doubtful; else 0.
    pub disturbed_trials: u64,
    /// Origin of the value.
    pub basis: Basis,
    /// The fields that the metric declares.
    pub detail: Detail,
    /// The study whose values are in the description of the machine, if the finding is compared with that study. Then
    /// it is no independent result.
    pub fitted: Option<Study>,
    /// The value of the machine's description on which it depends most, if that is known.
    pub depends_on: Option<Dependence>,
    /// Notes for people: bias, conditions, causes. No program reads them.
    pub notes: Vec<String>,
}

impl Finding {
    /// Creates a finding with a number in the metric's first unit, without an interval.
    #[must_use]
    pub fn number(key: impl Into<Key>, value: f64) -> Finding {
        let key = key.into();
        let unit = key.metric.units.first().copied().unwrap_or_default();
        Finding {
            key,
            value: Value::Number(value),
            unit,
            low: None,
            high: None,
            count: 0,
            trials: Vec::new(),
            disturbed_trials: 0,
            basis: Basis::Measured,
            detail: Detail::default(),
            fitted: None,
            depends_on: None,
            notes: Vec::new(),
        }
    }

    /// Creates a finding with a token or a text.
    #[must_use]
    pub fn text(key: impl Into<Key>, text: impl Into<String>) -> Finding {
        Finding { value: Value::Text(text.into()), ..Finding::number(key, 0.0) }
    }

    /// Returns the same finding in another unit of the metric.
    #[must_use]
    pub fn in_unit(self, unit: &'static str) -> Finding {
        Finding { unit, ..self }
    }

    /// Returns the dotted name, listed by `fathom schema`.
    #[must_use]
    pub fn name(&self) -> String {
        self.key.name()
    }

    /// Returns whether it is of this metric.
    #[must_use]
    pub fn is(&self, metric: &Metric) -> bool {
        self.key.metric == metric
    }

    /// Returns the coordinate along an axis.
    #[must_use]
    pub fn at(&self, axis: Axis) -> Option<&Coordinate> {
        self.key.get(axis)
    }

    /// Returns whether so many of its trials were disturbed that the value is doubtful.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        self.disturbed_trials > 0
    }

    /// Returns the number of different trials.
    #[must_use]
    pub fn distinct_trials(&self) -> u64 {
        self.trials.iter().collect::<BTreeSet<_>>().len() as u64
    }

    /// Returns the value, if it is a finite number.
    #[must_use]
    pub fn finite(&self) -> Option<f64> {
        match self.value {
            Value::Number(value) => Some(value).filter(|value| value.is_finite()),
            Value::Text(_) => None,
        }
    }

    /// Returns the value, if it is a text.
    #[must_use]
    pub fn word(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            Value::Number(_) => None,
        }
    }
}

/// A refusal in a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The refused experiment, trial or finding.
    pub what: String,
    /// The reason.
    pub reason: String,
    /// The remedy.
    pub remedy: String,
}

/// A histogram of raw samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Its metric, of [`Kind::Histogram`](super::Kind::Histogram), and coordinates; unique in a report.
    pub key: Key,
    /// Working set, bytes.
    pub bytes: u64,
    /// Unit of the values.
    pub unit: &'static str,
    /// Loads per sample.
    pub loads_per_sample: u64,
    /// (value, count), ascending in value.
    pub counts: Vec<(f64, u64)>,
}

impl Histogram {
    /// Returns the dotted name, listed by `fathom schema`.
    #[must_use]
    pub fn name(&self) -> String {
        self.key.name()
    }

    /// Returns whether it is of this metric.
    #[must_use]
    pub fn is(&self, metric: &Metric) -> bool {
        self.key.metric == metric
    }
}

/// The report of one experiment: the content of `--json`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Report {
    /// The experiment's name, e.g. `survey`.
    pub experiment: String,
    /// The subject's name as the user typed it.
    pub subject: String,
    /// `real`, `virtual`, `emulated` or `modelled`.
    pub trust: String,
    /// Facts about the subject (name, value), in display order.
    pub facts: Vec<(String, String)>,
    /// The plan's seed.
    pub seed: u64,
    /// Wall time of the measurement, seconds.
    pub elapsed_s: f64,
    /// The findings, in display order.
    pub findings: Vec<Finding>,
    /// Histograms, if the experiment has any.
    pub histograms: Vec<Histogram>,
    /// The refusals.
    pub refusals: Vec<Refused>,
    /// The warnings.
    pub warnings: Vec<Warning>,
    /// The values of the machine's description that were varied one at a time, and whether that was ahead of the
    /// session; `None` if it was not done.
    pub sensitivity: Option<(bool, Vec<Varied>)>,
}

impl Report {
    /// Returns the finding with this key.
    #[must_use]
    pub fn find(&self, key: impl Into<Key>) -> Option<&Finding> {
        let key = key.into();
        self.findings.iter().find(|f| f.key == key)
    }

    /// Returns the findings of a metric, in the report's order.
    pub fn of(&self, metric: &'static Metric) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |f| f.is(metric))
    }
}
