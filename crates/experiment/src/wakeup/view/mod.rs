//! The report of `fathom wakeup`: latencies by place and condition, causes, effects, sweep.

mod cold;
mod effects;
mod places;
mod ridge;
pub(super) mod stages;
mod study;
mod summary;
mod sweep;

use fathom_analysis::findings::{Axis, Finding, Key, Metric, Report, Value};
use fathom_analysis::metrics::wakeup as metrics;
use fathom_analysis::metrics::wakeup::condition;
use fathom_report::finding_index::FindingIndex;
use fathom_report::number::{self, Shown};
use fathom_report::page::Page;
use fathom_report::rows::show_rest;

use crate::claims;

/// Conditions without load.
const UNLOADED: [&str; 5] = [condition::UNLOADED, "warm", "flushed", "evicted", "timerlat"];

/// The findings of wake-ups that several sections use.
struct Wakeups<'a> {
    /// By place, then by condition, in the order of their tokens.
    latencies: Vec<&'a Finding>,
    stages: Vec<stages::Row<'a>>,
    /// The largest latency first.
    worst: Vec<&'a Finding>,
    causes: Vec<stages::Cause<'a>>,
    increase: Option<&'a Finding>,
}

/// A statistic of the latencies at a place under a condition.
#[derive(Clone, Copy)]
enum Statistic {
    /// The only value of this metric.
    Of(&'static Metric),
    /// The percentile with this token.
    Quantile(&'static str),
}

/// Minimum, mean, standard deviation and maximum.
const MIN: Statistic = Statistic::Of(&metrics::WAKEUP_MIN);
const MEAN: Statistic = Statistic::Of(&metrics::WAKEUP_MEAN);
const STDDEV: Statistic = Statistic::Of(&metrics::WAKEUP_STDDEV);
const MAX: Statistic = Statistic::Of(&metrics::WAKEUP_MAX);
/// Percentiles in most tables.
const P50: Statistic = Statistic::Quantile("p50");
const P90: Statistic = Statistic::Quantile("p90");
const P99: Statistic = Statistic::Quantile("p99");
const P999: Statistic = Statistic::Quantile("p999");

impl Statistic {
    fn key(self, place: &str, condition: &str) -> Key {
        match self {
            Statistic::Of(metric) => metric.at([place.into(), condition.into()]),
            Statistic::Quantile(word) => {
                metrics::WAKEUP_QUANTILE.at([place.into(), condition.into(), word.into()])
            }
        }
    }
}

impl<'a> Wakeups<'a> {
    fn take(finding_index: &mut FindingIndex<'a>) -> Wakeups<'a> {
        Wakeups {
            latencies: finding_index.of(&[
                &metrics::WAKEUP_MIN,
                &metrics::WAKEUP_MEAN,
                &metrics::WAKEUP_STDDEV,
                &metrics::WAKEUP_QUANTILE,
                &metrics::WAKEUP_MAX,
                &metrics::WAKEUP_MISSED,
                &metrics::WAKEUP_UNTRACED,
                &metrics::WAKEUP_P999_CORRECTED,
                &metrics::WAKEUP_RETURN_LEVEL_1H,
            ]),
            stages: stages::take(finding_index),
            worst: finding_index.of(&[&metrics::WORST_LATENCY]),
            causes: stages::take_causes(finding_index),
            increase: finding_index.one(&metrics::EXPLAINED_INCREASE),
        }
    }

    /// Returns a statistic of the latencies at a place under a condition.
    fn at(&self, place: &str, condition: &str, what: Statistic) -> Option<&'a Finding> {
        let key = what.key(place, condition);
        self.latencies.iter().find(|f| f.key == key).copied()
    }

    /// Returns the conditions with findings at a place, in the order of their tokens.
    fn conditions(&self, place: &str) -> Vec<String> {
        let here = |f: &&&Finding| f.key.word(Axis::Place).is_some_and(|of| of == place);
        let mut all: Vec<String> =
            self.latencies.iter().filter(here).filter_map(|f| f.key.word(Axis::Condition)).collect();
        all.dedup();
        all
    }

    /// Returns whether anything was measured under load. Otherwise the report does not discuss the load's memory or
    /// compare with the study's loads.
    fn loaded(&self) -> bool {
        self.conditions("user").iter().any(|condition| !UNLOADED.contains(&condition.as_str()))
    }

    /// Returns whether the study's load was measured, with or without its memory workers.
    fn studied(&self) -> bool {
        self.conditions("user")
            .iter()
            .any(|condition| matches!(condition.as_str(), condition::STRESS_MIX | condition::STRESS_MIX_VM))
    }

    /// Returns the unit of latencies.
    fn unit(&self) -> &'static str {
        self.latencies.first().map_or("us", |f| f.unit)
    }
}

/// Renders the whole report.
pub(crate) fn view(report: &Report, page: &mut Page) {
    let mut index = FindingIndex::new(report);
    let wakeups = Wakeups::take(&mut index);
    summary::section(page, &wakeups);
    places::section(page, &wakeups, &mut index);
    cold::section(page, &wakeups);
    stages::section(page, &wakeups);
    effects::section(page, &wakeups, &mut index);
    sweep::section(page, &mut index);
    page.studies(|page| study::section(page, &wakeups));
    claims::view::section(page, report, &mut index);
    show_rest(page, index, &[&metrics::BIAS_TRACE]);
}

/// Returns a coordinate as text; empty if there is none.
fn word(f: &Finding, axis: Axis) -> String {
    f.key.word(axis).unwrap_or_default()
}

/// Formats a value with its interval and unit, for a sentence.
fn formatted(f: &Finding) -> String {
    let Shown { value, interval } = number::value(f);
    let mut text = value;
    for part in [interval.as_str(), f.unit] {
        if !part.is_empty() {
            text += " ";
            text += part;
        }
    }
    text
}

/// Formats a share as a percentage, with its interval.
fn percent(f: &Finding) -> Shown {
    let scaled = |v: f64| 100.0 * v;
    match f.value {
        Value::Number(v) => number::shown(scaled(v), f.low.map(scaled), f.high.map(scaled)),
        Value::Text(_) => number::value(f),
    }
}

/// Returns a column of comparable numbers; empty cells without a finding.
fn column(findings: &[Option<&Finding>]) -> Vec<String> {
    let cells = number::column(findings.iter().copied());
    let empty = |(f, cell): (&Option<&Finding>, String)| if f.is_some() { cell } else { String::new() };
    findings.iter().zip(cells).map(empty).collect()
}

/// Returns a percentile as it is printed: `p99.9` for `p999`.
fn percentile_text(percentile: &str) -> &str {
    match percentile {
        "p999" => "p99.9",
        "p9999" => "p99.99",
        "p99999" => "p99.999",
        other => other,
    }
}
