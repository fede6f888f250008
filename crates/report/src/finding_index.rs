//! Index of the findings and histograms of a report. A view takes each of them once; the rest is shown in a generic
//! table.

use std::collections::HashMap;

use fathom_analysis::findings::{Axis, Coordinate, Finding, Histogram, Key, Metric, Report};
use fathom_analysis::metrics::common::{DISTURBANCE_STATE, DISTURBED};

/// Findings and histograms of a report, with a mark on those that have been taken.
#[derive(Debug)]
pub struct FindingIndex<'a> {
    findings: &'a [Finding],
    taken: Vec<bool>,
    histograms: Vec<&'a Histogram>,
}

/// Findings at the same coordinates: one entry per requested metric.
#[derive(Debug)]
pub struct Row<'a, const N: usize> {
    key: &'a Key,
    /// Findings, in the order of the metrics.
    pub of: [Option<&'a Finding>; N],
}

impl<'a, const N: usize> Row<'a, N> {
    /// Returns the coordinate along an axis.
    pub fn at(&self, axis: Axis) -> Option<&'a Coordinate> {
        self.key.get(axis)
    }

    /// Returns the numeric coordinate along an axis; 0 if the metrics do not have the axis.
    pub fn number(&self, axis: Axis) -> u64 {
        self.key.number(axis).unwrap_or(0)
    }

    /// Returns the coordinate along an axis as text; empty if the metrics do not have the axis.
    pub fn word(&self, axis: Axis) -> String {
        self.key.word(axis).unwrap_or_default()
    }

    /// Returns the findings that exist.
    pub fn findings(&self) -> impl Iterator<Item = &'a Finding> {
        self.of.into_iter().flatten()
    }
}

impl<'a> FindingIndex<'a> {
    /// Creates an index in which only the verdicts of disturbance are taken: the report's head shows the state.
    #[must_use]
    pub fn new(report: &'a Report) -> FindingIndex<'a> {
        let mut index = FindingIndex {
            findings: &report.findings,
            taken: vec![false; report.findings.len()],
            histograms: report.histograms.iter().collect(),
        };
        if index.one(&DISTURBANCE_STATE).is_some() {
            index.one(&DISTURBED);
        }
        index
    }

    /// Takes the finding of this key.
    pub fn one(&mut self, key: impl Into<Key>) -> Option<&'a Finding> {
        let key = key.into();
        let at = (0..self.findings.len()).find(|&i| !self.taken[i] && self.findings[i].key == key)?;
        self.taken[at] = true;
        Some(&self.findings[at])
    }

    /// Takes the findings of some metrics, in ascending order of their coordinates; those with equal coordinates are in
    /// the report's order.
    pub fn of(&mut self, metrics: &[&'static Metric]) -> Vec<&'a Finding> {
        let mut found = self.listed(|f| metrics.contains(&f.key.metric));
        found.sort_by(|a, b| a.key.at.cmp(&b.key.at));
        found
    }

    /// Takes the findings of metrics with the same axes, one row per coordinates, in ascending order of the coordinates
    /// along `by`, which are these axes. A second finding of one key is not taken.
    pub fn rows<const N: usize>(&mut self, metrics: [&'static Metric; N], by: &[Axis]) -> Vec<Row<'a, N>> {
        let mut rows: Vec<Row<'a, N>> = Vec::new();
        let mut known: HashMap<&'a [(Axis, Coordinate)], usize> = HashMap::new();
        for (finding, taken) in self.findings.iter().zip(&mut self.taken).filter(|(_, taken)| !**taken) {
            let Some(place) = metrics.iter().position(|metric| finding.is(metric)) else { continue };
            let row = *known.entry(&finding.key.at).or_insert_with(|| {
                rows.push(Row { key: &finding.key, of: [None; N] });
                rows.len() - 1
            });
            let free = &mut rows[row].of[place];
            if free.is_none() {
                (*free, *taken) = (Some(finding), true);
            }
        }
        let coordinates = |row: &Row<'a, N>| by.iter().map(|axis| row.at(*axis)).collect::<Vec<_>>();
        rows.sort_by_cached_key(coordinates);
        rows
    }

    /// Takes the findings of a metric, each with its number along an axis, in ascending order of their coordinates.
    /// Those without a number there are not taken.
    pub fn along(&mut self, metric: &'static Metric, axis: Axis) -> Vec<(u64, &'a Finding)> {
        let mut found = self.listed(|f| f.is(metric) && f.key.number(axis).is_some());
        found.sort_by(|a, b| a.key.at.cmp(&b.key.at));
        found.into_iter().filter_map(|f| Some((f.key.number(axis)?, f))).collect()
    }

    /// Takes the findings that `selected` accepts, in the report's order.
    pub fn listed(&mut self, selected: impl Fn(&Finding) -> bool) -> Vec<&'a Finding> {
        let mut found = Vec::new();
        for (finding, taken) in self.findings.iter().zip(&mut self.taken) {
            if !*taken && selected(finding) {
                *taken = true;
                found.push(finding);
            }
        }
        found
    }

    /// Takes the histograms that `selected` accepts, in the report's order.
    pub fn histograms(&mut self, selected: impl Fn(&Histogram) -> bool) -> Vec<&'a Histogram> {
        let (found, others) = self.histograms.iter().partition(|histogram| selected(histogram));
        self.histograms = others;
        found
    }

    /// Returns the findings and histograms that were not taken, in the report's order.
    pub(crate) fn rest(self) -> (Vec<&'a Finding>, Vec<&'a Histogram>) {
        let taken = self.findings.iter().zip(self.taken);
        (taken.filter(|(_, taken)| !taken).map(|(f, _)| f).collect(), self.histograms)
    }
}
