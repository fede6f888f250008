//! Shared by the readings of wake-ups: keys of findings, units, refusals.

use super::series::{Place, Series};
use crate::record::Record;
use fathom_analysis::findings::{Key, Metric, Refused, Report};
use fathom_analysis::interval::Interval;
use fathom_analysis::metrics::wakeup as metrics;
use fathom_analysis::wakeup::Activation;
use fathom_analysis::wakeup::summary::Percentile;
use fathom_probe::machine::ClockTrust;

/// Returns a percentile's token in findings (`p999`) for the analysis's (`p99.9`).
pub(super) fn word(percentile: &str) -> String {
    percentile.replace('.', "")
}

/// A place of a wake-up under a condition, as part of the keys of its findings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'a> {
    pub place: &'a str,
    pub condition: &'a str,
}

impl Spot<'_> {
    /// Returns the key of a metric there.
    pub(super) fn key(self, metric: &'static Metric) -> Key {
        metric.at([self.place.into(), self.condition.into()])
    }

    /// Returns the key of a percentile there.
    pub(super) fn percentile(self, percentile: &Percentile) -> Key {
        let word = word(percentile.token);
        metrics::WAKEUP_QUANTILE.at([self.place.into(), self.condition.into(), (&word).into()])
    }

    /// Returns the name of the whole distribution in refusals.
    pub(super) fn name(self) -> String {
        self.key(&metrics::WAKEUPS).name()
    }
}

/// The unit of latencies: time, or instructions if the clock counts those.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub name: &'static str,
    /// Number of units per microsecond.
    pub of_us: f64,
}

impl Unit {
    /// Returns the unit for a record. Times of an emulator are meaningless, unless its clock is known to count instructions.
    pub(super) fn of(record: &Record) -> Option<Unit> {
        if record.trust != Some(ClockTrust::Emulated) {
            return Some(Unit { name: "us", of_us: 1.0 });
        }
        record.instruction_ns().map(|ns| Unit { name: "instructions", of_us: 1000.0 / ns })
    }

    pub(super) fn interval(self, us: Interval) -> Interval {
        us.scaled(self.of_us)
    }
}

/// Refuses one finding.
pub(super) fn refuse(report: &mut Report, what: &str, reason: String, remedy: &str) {
    report.refusals.push(Refused { what: what.to_owned(), reason, remedy: remedy.to_owned() });
}

/// Returns the latencies in the task, us.
pub(super) fn user(series: &Series) -> Vec<Activation> {
    series.at(Place::User)
}
