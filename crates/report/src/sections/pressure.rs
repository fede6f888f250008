//! Pressure: how late a periodic task is woken, under which load, and where that time goes.

mod answer;
mod cold;
mod effects;
mod places;
mod ridge;
mod stages;
mod study;
mod sweep;

use fathom_analysis::findings::{Finding, Histogram, Report, Value};

use super::shelf::Shelf;
use crate::number::{self, Shown};
use crate::page::Page;
use crate::schema::values;

/// Everything that is known of wake-ups.
struct Wakeups<'a> {
    latencies: Vec<(Key, &'a Finding)>,
    stages: Vec<stages::Row<'a>>,
    worst: Vec<(u64, &'a Finding)>,
    causes: Vec<stages::Cause<'a>>,
    increase: Option<&'a Finding>,
}

/// A statistic of the latencies at a place under a condition; both by their number in the schema, which is the order
/// in which they are shown.
type Key = (usize, usize, String);

impl<'a> Wakeups<'a> {
    fn take(shelf: &mut Shelf<'a>) -> Wakeups<'a> {
        Wakeups {
            latencies: shelf.take_by(|parts| match parts {
                ["wakeup", place, condition, what] if places::STATISTICS.contains(what) => {
                    Some((nth("PLACE", place)?, nth("CONDITION", condition)?, (*what).to_owned()))
                }
                _ => None,
            }),
            stages: stages::take(shelf),
            worst: shelf.take_by(|parts| match parts {
                ["worst", n, "latency"] => super::shelf::whole(n),
                _ => None,
            }),
            causes: stages::take_causes(shelf),
            increase: shelf.take("explained.increase"),
        }
    }

    /// A statistic of the latencies at a place under a condition.
    fn at(&self, place: &str, condition: &str, what: &str) -> Option<&'a Finding> {
        let key = (nth("PLACE", place)?, nth("CONDITION", condition)?, what.to_owned());
        self.latencies.iter().find(|(k, _)| *k == key).map(|(_, f)| *f)
    }

    /// The conditions of which anything is known at a place, in the schema's order.
    fn conditions(&self, place: &str) -> Vec<&'static str> {
        let of = nth("PLACE", place);
        let mut all: Vec<usize> =
            self.latencies.iter().filter(|(k, _)| Some(k.0) == of).map(|(k, _)| k.1).collect();
        all.dedup();
        all.into_iter().filter_map(|c| values("CONDITION").get(c).copied()).collect()
    }

    /// What latencies are told in.
    fn unit(&self) -> &'static str {
        self.latencies.first().map_or("us", |(_, f)| f.unit)
    }
}

/// All of it, where there is any.
pub fn section(page: &mut Page, report: &Report, shelf: &mut Shelf) {
    let wakeups = Wakeups::take(shelf);
    answer::section(page, &wakeups);
    study::section(page, &wakeups);
    places::section(page, &wakeups, &report.histograms, shelf);
    cold::section(page, &wakeups);
    stages::section(page, &wakeups);
    effects::section(page, &wakeups, shelf);
    sweep::section(page, &report.refusals, shelf);
}

/// Is this histogram drawn here?
pub fn draws(h: &Histogram) -> bool {
    let parts: Vec<&str> = h.name.split('.').collect();
    let known = matches!(parts[..], ["wakeup", place, condition]
        if nth("PLACE", place).is_some() && nth("CONDITION", condition).is_some());
    known && ridge::bars(h).next().is_some()
}

/// The number of a token among those of its kind.
fn nth(kind: &str, token: &str) -> Option<usize> {
    values(kind).iter().position(|v| *v == token)
}

/// The value, where it is a finite number.
fn finite(f: &Finding) -> Option<f64> {
    match f.value {
        Value::Number(v) if v.is_finite() => Some(v),
        _ => None,
    }
}

/// A value with its interval and unit, for a sentence.
fn said(f: &Finding) -> String {
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

/// A share as a percentage, with its interval.
fn percent(f: &Finding) -> Shown {
    let scaled = |v: f64| 100.0 * v;
    match f.value {
        Value::Number(v) => number::shown(scaled(v), f.low.map(scaled), f.high.map(scaled)),
        Value::Text(_) => number::value(f),
    }
}

/// A column whose numbers can be compared; empty where there is no finding.
fn column(findings: &[Option<&Finding>]) -> Vec<String> {
    let cells = number::column(findings.iter().copied());
    let empty = |(f, cell): (&Option<&Finding>, String)| if f.is_some() { cell } else { String::new() };
    findings.iter().zip(cells).map(empty).collect()
}

/// A percentile's word as people write it: `p99.9` for `p999`.
fn spoken(percentile: &str) -> &str {
    match percentile {
        "p999" => "p99.9",
        "p9999" => "p99.99",
        "p99999" => "p99.999",
        other => other,
    }
}

#[cfg(test)]
mod tests;
