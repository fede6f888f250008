//! Findings: flat rows, so that they go into any table as they are.

/// A finding's value: a number, or a text where no number says it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number in the finding's unit.
    Number(f64),
    /// A word or a sentence.
    Text(String),
}

/// One finding: {name, value, unit, low, high, count, trials, notes}.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Dotted path, stable, listed by `fathom schema`.
    pub name: String,
    /// The value.
    pub value: Value,
    /// Unit; empty for a text or a pure number.
    pub unit: &'static str,
    /// Lower end of the 95 % interval, in `unit`.
    pub low: Option<f64>,
    /// Upper end of the 95 % interval, in `unit`.
    pub high: Option<f64>,
    /// Samples that the value rests on.
    pub count: u64,
    /// The trials (ids in the record) that they came from.
    pub trials: Vec<u64>,
    /// Bias notes, conditions, causes; a sentence each.
    pub notes: Vec<String>,
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

/// A histogram of raw samples: {name, bytes, unit, loads_per_sample, counts}.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Dotted path.
    pub name: String,
    /// Working set, bytes.
    pub bytes: u64,
    /// Unit of the values.
    pub unit: &'static str,
    /// Loads that one sample timed.
    pub loads_per_sample: u64,
    /// (value, count), ascending in value.
    pub counts: Vec<(f64, u64)>,
}

/// Everything that one experiment says: what `--json` prints under the findings contract.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Report {
    /// The experiment's name, e.g. `survey`.
    pub experiment: String,
    /// The subject's name as the user typed it.
    pub subject: String,
    /// `real`, `virtual`, `emulated` or `modelled`.
    pub worth: String,
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
