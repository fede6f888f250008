//! A kind of report: what an experiment's reports are called, may find and look like. The experiments declare theirs; the
//! toolkit is handed them and knows none.

use fathom_analysis::findings::{Key, Metric, Report};

use crate::page::Page;

/// A kind of report.
#[derive(Clone, Copy, Debug)]
pub struct ReportKind {
    /// The name of the experiment whose reports are of this kind.
    pub name: &'static str,
    /// The metrics that its reports may have, in display order. A metric may be of several kinds.
    pub metrics: &'static [&'static [&'static Metric]],
    /// The answer that a report amounts to.
    pub headline: fn(&Report) -> Headline,
    /// Shows everything that was found.
    pub view: fn(&Report, &mut Page),
}

impl ReportKind {
    /// Its metrics, in display order.
    pub fn metrics(&self) -> impl Iterator<Item = &'static Metric> + use<> {
        self.metrics.iter().flat_map(|list| list.iter().copied())
    }
}

/// The metrics of some kinds, each once, in the order in which they come first.
#[must_use]
pub fn metrics(kinds: &[&ReportKind]) -> Vec<&'static Metric> {
    let mut all: Vec<&'static Metric> = Vec::new();
    for metric in kinds.iter().flat_map(|kind| kind.metrics()) {
        if !all.contains(&metric) {
            all.push(metric);
        }
    }
    all
}

/// The key of a name, if a metric of these kinds has such names: the inverse of [`Key::name`].
#[must_use]
pub fn key(kinds: &[&ReportKind], name: &str) -> Option<Key> {
    kinds.iter().flat_map(|kind| kind.metrics()).find_map(|metric| metric.key(name))
}

/// What a report amounts to, in three lines that a person would say aloud. A line without text is not shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headline {
    /// What was found: the numbers.
    pub answer: String,
    /// How sure that is.
    pub confidence: String,
    /// What to do.
    pub action: String,
}

impl Headline {
    /// The lines that have text, in order.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        [&self.answer, &self.confidence, &self.action]
            .into_iter()
            .map(String::as_str)
            .filter(|line| !line.is_empty())
    }
}
