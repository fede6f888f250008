//! A finding, and the report that findings stand in.

use super::axis::Axis;
use super::detail::{Basis, Detail};
use super::key::{Coordinate, Key};
use super::metric::Metric;

/// A finding's value: a number, or a text where no number says it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number in the finding's unit.
    Number(f64),
    /// A word or a sentence.
    Text(String),
}

/// One finding: a value of a metric at coordinates, with its uncertainty.
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
    /// Samples that the value rests on.
    pub count: u64,
    /// The trials (ids in the record) that they came from.
    pub trials: Vec<u64>,
    /// On what the value rests.
    pub basis: Basis,
    /// What the metric declares beyond the value.
    pub detail: Detail,
    /// Bias notes, conditions, causes; a sentence each, for people: no program reads them.
    pub notes: Vec<String>,
}

impl Finding {
    /// A number in the metric's first unit, without an interval.
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
            basis: Basis::Measured,
            detail: Detail::default(),
            notes: Vec::new(),
        }
    }

    /// A word or a text.
    #[must_use]
    pub fn text(key: impl Into<Key>, text: impl Into<String>) -> Finding {
        Finding { value: Value::Text(text.into()), ..Finding::number(key, 0.0) }
    }

    /// The same, in another unit of the metric.
    #[must_use]
    pub fn in_unit(self, unit: &'static str) -> Finding {
        Finding { unit, ..self }
    }

    /// Its dotted name, listed by `fathom schema`.
    #[must_use]
    pub fn name(&self) -> String {
        self.key.name()
    }

    /// Is it of this metric?
    #[must_use]
    pub fn is(&self, metric: &Metric) -> bool {
        self.key.metric == metric
    }

    /// Its coordinate along an axis.
    #[must_use]
    pub fn at(&self, axis: Axis) -> Option<&Coordinate> {
        self.key.get(axis)
    }

    /// Its value, where that is a finite number.
    #[must_use]
    pub fn finite(&self) -> Option<f64> {
        match self.value {
            Value::Number(value) => Some(value).filter(|value| value.is_finite()),
            Value::Text(_) => None,
        }
    }

    /// Its value, where that is a text.
    #[must_use]
    pub fn word(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            Value::Number(_) => None,
        }
    }
}

/// Something that the reader should know before trusting the findings; it carries its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Stable token, e.g. `no-huge-pages`, listed by `fathom schema`.
    pub token: &'static str,
    /// One plain sentence.
    pub text: String,
    /// What to do about it; empty where nothing can be done.
    pub remedy: String,
}

/// A refusal as the report shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What was refused: an experiment, a trial or a finding.
    pub what: String,
    /// Why.
    pub reason: String,
    /// What would make it possible.
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
    /// Loads that one sample timed.
    pub loads_per_sample: u64,
    /// (value, count), ascending in value.
    pub counts: Vec<(f64, u64)>,
}

impl Histogram {
    /// Its dotted name, listed by `fathom schema`.
    #[must_use]
    pub fn name(&self) -> String {
        self.key.name()
    }

    /// Is it of this metric?
    #[must_use]
    pub fn is(&self, metric: &Metric) -> bool {
        self.key.metric == metric
    }
}

/// Everything that one experiment says: what `--json` prints under the findings contract.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Report {
    /// The experiment's name, e.g. `survey`.
    pub experiment: String,
    /// The subject's name as the user typed it.
    pub subject: String,
    /// `real`, `virtual`, `emulated` or `modelled`.
    pub trust: String,
    /// Facts worth showing about the subject (name, value), in display order.
    pub facts: Vec<(String, String)>,
    /// The plan's seed.
    pub seed: u64,
    /// Wall time that the measurement took, seconds.
    pub elapsed_s: f64,
    /// The findings, in display order.
    pub findings: Vec<Finding>,
    /// Histograms, where the experiment makes any.
    pub histograms: Vec<Histogram>,
    /// What was refused.
    pub refusals: Vec<Refused>,
    /// What the reader should know.
    pub warnings: Vec<Warning>,
}

impl Report {
    /// The finding of this key.
    #[must_use]
    pub fn find(&self, key: impl Into<Key>) -> Option<&Finding> {
        let key = key.into();
        self.findings.iter().find(|f| f.key == key)
    }

    /// The findings of a metric, in the report's order.
    pub fn of(&self, metric: &'static Metric) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |f| f.is(metric))
    }
}
