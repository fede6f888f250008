//! Kinds of report: name, metrics, headline and view of an experiment's reports. The experiments declare them; this
//! crate knows none of them.

use fathom_analysis::findings::{Key, Metric, Report};

use crate::page::Page;

/// Shows several reports, with their names.
pub type Together = fn(&[(&str, &Report)], &mut Page);

/// A kind of report.
#[derive(Clone, Copy, Debug)]
pub struct ReportKind {
    /// Name of the experiment whose reports are of this kind.
    pub name: &'static str,
    /// Metrics that its reports may have, in display order. A metric may belong to several kinds.
    pub metrics: &'static [&'static [&'static Metric]],
    /// Computes the headline of a report.
    pub headline: fn(&Report) -> Headline,
    /// Shows all findings of a report.
    pub view: fn(&Report, &mut Page),
    /// Shows several reports of this kind side by side, with their names, if that tells more than each alone.
    pub together: Option<Together>,
}

impl ReportKind {
    /// Returns its metrics, in display order.
    pub fn metrics(&self) -> impl Iterator<Item = &'static Metric> + use<> {
        self.metrics.iter().flat_map(|list| list.iter().copied())
    }
}

/// Returns the metrics of some kinds, each once, in the order of their first occurrence.
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

/// Returns the key of a name, if a metric of these kinds has such names: the inverse of [`Key::name`].
#[must_use]
pub fn key(kinds: &[&ReportKind], name: &str) -> Option<Key> {
    kinds.iter().flat_map(|kind| kind.metrics()).find_map(|metric| metric.key(name))
}

/// Summary of a report in up to three lines. A line without text is not shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headline {
    /// Main result: the numbers.
    pub answer: String,
    /// Confidence in the result.
    pub confidence: String,
    /// Recommended action.
    pub action: String,
    /// Keys of the findings that the result quotes.
    pub quoted: Vec<Key>,
}

impl Headline {
    /// Returns the lines that have text, in order.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        [&self.answer, &self.confidence, &self.action]
            .into_iter()
            .map(String::as_str)
            .filter(|line| !line.is_empty())
    }
}
