//! Where a finding of a wake-up lies, in which unit, and what several readings share.

use super::series::{Place, Series};
use crate::record::Record;
use fathom_analysis::findings::{Key, Metric, Refused, Report};
use fathom_analysis::interval::Interval;
use fathom_analysis::metrics::wakeup as metrics;
use fathom_analysis::wakeup::Activation;
use fathom_analysis::wakeup::summary::Percentile;
use fathom_probe::machine::ClockTrust;
use fathom_units::facts;

/// A percentile as findings name it (`p999`), of how the analysis writes it (`p99.9`).
pub(super) fn word(percentile: &str) -> String {
    percentile.replace('.', "")
}

/// A place of a wake-up under a condition: where its findings lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'a> {
    pub place: &'a str,
    pub condition: &'a str,
}

impl Spot<'_> {
    /// The key of a metric there.
    pub(super) fn key(self, metric: &'static Metric) -> Key {
        metric.at([self.place.into(), self.condition.into()])
    }

    /// The key of a percentile there.
    pub(super) fn percentile(self, percentile: &Percentile) -> Key {
        let word = word(percentile.token);
        metrics::WAKEUP_QUANTILE.at([self.place.into(), self.condition.into(), (&word).into()])
    }

    /// What refusals call all of it.
    pub(super) fn name(self) -> String {
        self.key(&metrics::WAKEUPS).name()
    }
}

/// What latencies are told in: time, or instructions where a clock counts those.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub name: &'static str,
    /// How many of it are a microsecond.
    pub of_us: f64,
}

impl Unit {
    /// On an emulator times mean nothing; where the guest's clock is known to count instructions (QEMU's -icount, told
    /// on the kernel's command line as `fathom.instruction_ns=N`), their number does.
    pub(super) fn of(record: &Record) -> Option<Unit> {
        if record.trust != Some(ClockTrust::Emulated) {
            return Some(Unit { name: "us", of_us: 1.0 });
        }
        let line = record.text(facts::KERNEL_COMMAND_LINE)?;
        let ns = line.split_ascii_whitespace().find_map(|w| w.strip_prefix("fathom.instruction_ns="))?;
        let ns = ns.parse::<f64>().ok().filter(|ns| *ns > 0.0)?;
        Some(Unit { name: "instructions", of_us: 1000.0 / ns })
    }

    pub(super) fn interval(self, us: Interval) -> Interval {
        us.scaled(self.of_us)
    }
}

/// A refusal of one finding.
pub(super) fn refuse(report: &mut Report, what: &str, reason: String, remedy: &str) {
    report.refusals.push(Refused { what: what.to_owned(), reason, remedy: remedy.to_owned() });
}

/// Latencies of the task alone, us.
pub(super) fn user(series: &Series) -> Vec<Activation> {
    series.at(Place::User)
}
