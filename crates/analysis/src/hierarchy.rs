//! The memory hierarchy in a survey's findings: tiers, TLBs and clocks, as input for checks and drafts.
//!
//! A report may be read from an untrusted page, so findings without valid numbers are ignored.

use crate::findings::{Axis, Finding, Key, Report, Value, WarningKind};
use crate::interval::Interval;
use crate::metrics::{common, conflict, latency, survey};

/// Maximum number of tiers, and of TLBs.
const MAX_TIERS: usize = 16;

/// Error: the report has no hierarchy. With a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoHierarchy {
    /// Reason, one plain sentence.
    pub what: String,
    /// Remedy.
    pub remedy: String,
}

/// A tier.
#[derive(Clone, Copy, Debug)]
pub struct Tier<'a> {
    /// Load-to-use, ns.
    pub latency: &'a Finding,
    /// Load-to-use in core cycles, if known.
    pub cycles: Option<&'a Finding>,
    /// Size at which misses begin, bytes.
    pub capacity: Option<&'a Finding>,
}

/// A step of the translation curve.
#[derive(Clone, Copy, Debug)]
pub struct Tlb<'a> {
    /// Number of pages that it covers.
    pub entries: &'a Finding,
    /// Added latency of a load beyond it, relative to a load that the first TLB serves, ns.
    pub penalty: &'a Finding,
    /// Whether the step may be caused by page tables that leave a cache.
    pub maybe_tables: bool,
}

/// Least ratio of the time of loads that fill one set to that of loads that fill two, from which on it is the set that limits them: then it is two,
/// and one otherwise. 1.67 on a Zen 5 guest.
const CONFLICTING: f64 = 1.3;

/// Hierarchy measured by a survey.
#[derive(Clone, Debug)]
pub struct Hierarchy<'a> {
    report: &'a Report,
    /// Tiers that have a capacity, nearest first.
    pub tiers: Vec<Tier<'a>>,
    /// Memory: the tier beyond them.
    pub memory: Tier<'a>,
    /// Steps of the translation curve, in order.
    pub tlbs: Vec<Tlb<'a>>,
}

impl<'a> Hierarchy<'a> {
    /// Reads the hierarchy from a report.
    ///
    /// # Errors
    /// [`NoHierarchy`] if the report has no tiers: it is another experiment's, was refused, or was cut off.
    pub fn of(report: &'a Report) -> Result<Hierarchy<'a>, NoHierarchy> {
        let find = |key: Key| number(report, &key).filter(|f| value(f) >= 0.0);
        let mut tiers: Vec<Tier> = (1..=MAX_TIERS)
            .map_while(|n| {
                Some(Tier {
                    latency: find(survey::TIER_LATENCY.at([n.into()]))?,
                    cycles: find(survey::TIER_LATENCY_CYCLES.at([n.into()])),
                    capacity: find(survey::TIER_CAPACITY.at([n.into()])),
                })
            })
            .collect();
        let last = tiers.iter().position(|t| t.capacity.is_none()).or(tiers.len().checked_sub(1));
        let Some(&memory) = last.and_then(|at| tiers.get(at)) else { return Err(no_hierarchy(report)) };
        tiers.truncate(last.unwrap_or_default());
        let tlbs = (1..=MAX_TIERS)
            .map_while(|n| {
                let entries = find(survey::TLB_ENTRIES.at([n.into()]))?;
                let maybe_tables = entries.detail.flag(survey::MAYBE_TABLES);
                Some(Tlb { entries, penalty: find(survey::TLB_PENALTY.at([n.into()]))?, maybe_tables })
            })
            .collect();
        Ok(Hierarchy { report, tiers, memory, tlbs })
    }

    /// Returns the report that it was read from.
    #[must_use]
    pub fn report(&self) -> &'a Report {
        self.report
    }

    /// Returns the finding of this key, if it is a number.
    #[must_use]
    pub fn number(&self, key: impl Into<Key>) -> Option<&'a Finding> {
        number(self.report, &key.into())
    }

    /// Returns the finding of this key, if it is a text.
    #[must_use]
    pub fn text(&self, key: impl Into<Key>) -> Option<&'a str> {
        self.report.find(key)?.word()
    }

    /// Returns the finding of the time of a load, if a large working set is read in the order of addresses.
    #[must_use]
    pub fn in_order(&self) -> Option<&'a Finding> {
        self.number(survey::PREFETCH_ORDER_TIME.at(["sequential".into()])).filter(|f| value(f) > 0.0)
    }

    /// Returns the finding of the time between two fills of one set of the nearest level, if loads that fill two sets clearly take less.
    #[must_use]
    pub fn set_fill(&self) -> Option<&'a Finding> {
        let one = self.number(&survey::FILL_ONE_SET_TIME)?;
        let two = self.number(&survey::FILL_TWO_SETS_TIME)?;
        let apart = interval(one).low > interval(two).high;
        (apart && value(one) >= CONFLICTING * value(two)).then_some(one)
    }

    /// Returns the line of the `n`th level, bytes.
    #[must_use]
    pub fn line(&self, n: usize) -> Option<&'a Finding> {
        self.number(conflict::TIER_LINE.at([n.into()]))
    }

    /// Returns the core's clock during the measurement, Hz.
    #[must_use]
    pub fn core_hz(&self) -> Option<&'a Finding> {
        self.number(&common::CLOCK_CORE_HZ).filter(|f| value(f) > 0.0)
    }

    /// Returns the bytes of the largest measured working set.
    #[must_use]
    pub fn largest(&self) -> u64 {
        let sizes = self.report.of(&latency::LATENCY_TIME).filter_map(|f| f.key.number(Axis::Size));
        sizes.max().unwrap_or(0)
    }

    /// Returns whether the report has a warning of this kind.
    #[must_use]
    pub fn warned(&self, kind: WarningKind) -> bool {
        self.report.warnings.iter().any(|w| w.kind == kind)
    }

    /// Returns whether the run was disturbed.
    #[must_use]
    pub fn disturbed(&self) -> bool {
        self.text(&common::DISTURBED) == Some("yes")
    }
}

fn number<'a>(report: &'a Report, key: &Key) -> Option<&'a Finding> {
    report.findings.iter().filter(|f| f.key == *key).find(|f| f.finite().is_some())
}

/// Returns the value of a finding that is a number; 0 for a text.
#[must_use]
pub fn value(f: &Finding) -> f64 {
    match f.value {
        Value::Number(v) => v,
        Value::Text(_) => 0.0,
    }
}

/// Returns value and interval. The interval always contains the value, even if the report's does not.
#[must_use]
pub fn interval(f: &Finding) -> Interval {
    let value = value(f);
    let end = |end: Option<f64>| end.filter(|v| v.is_finite()).unwrap_or(value);
    Interval { value, low: end(f.low).min(value), high: end(f.high).max(value) }
}

fn no_hierarchy(report: &Report) -> NoHierarchy {
    let experiment = &report.experiment;
    let survey = "fathom survey --record FILE";
    let (what, remedy) = match report.trust.as_str() {
        _ if experiment != "survey" => (
            format!("a record of '{experiment}' has no tiers"),
            format!("take a survey of the machine: {survey}"),
        ),
        "emulated" => (
            "an emulator's times were refused, so it has no tiers".to_owned(),
            format!("take it on the machine itself: {survey}"),
        ),
        _ => ("no tiers were measured".to_owned(), format!("give it a larger --budget: {survey}")),
    };
    NoHierarchy { what, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Warning;
    use crate::metrics::REGISTRY;

    fn finding(name: &str, value: f64) -> Finding {
        let (low, high) = (Some(value * 0.99), Some(value * 1.01));
        Finding {
            low,
            high,
            count: 9,
            ..Finding::number(REGISTRY.key(name).expect("a name of the schema"), value).in_unit("ns")
        }
    }

    fn report(findings: &[(&str, f64)]) -> Report {
        let findings = findings.iter().map(|(name, v)| finding(name, *v)).collect();
        Report { experiment: "survey".into(), trust: "real".into(), findings, ..Report::default() }
    }

    #[test]
    fn tiers_end_with_the_first_that_has_no_capacity() {
        let all = [
            ("tier.1.latency", 1.0),
            ("tier.1.capacity", 32768.0),
            ("tier.2.latency", 90.0),
            ("tier.3.latency", 91.0),
            ("latency.4096.time", 1.0),
            ("latency.65536.time", 90.0),
            ("tlb.1.entries", 64.0),
        ];
        let mut found = report(&all);
        found.warnings.push(Warning {
            kind: WarningKind::Pressure,
            text: String::new(),
            remedy: String::new(),
        });
        let h = Hierarchy::of(&found).expect("tiers");
        assert_eq!((h.tiers.len(), value(h.memory.latency), h.largest()), (1, 90.0, 65536));
        assert!(h.tlbs.is_empty(), "without its penalty a TLB is none");
        assert!(h.warned(WarningKind::Pressure) && !h.warned(WarningKind::Frequency) && !h.disturbed());
        // If all tiers have a capacity, the last is memory.
        let h = report(&all[..2]);
        let h = Hierarchy::of(&h).expect("tiers");
        assert_eq!((h.tiers.len(), value(h.memory.latency)), (0, 1.0));
    }

    #[test]
    fn report_without_tiers_gives_reason_and_remedy() {
        let mut none = report(&[("tier.1.latency", f64::NAN), ("tier.2.latency", 3.0)]);
        assert!(Hierarchy::of(&none).unwrap_err().remedy.contains("--budget"));
        none.trust = "emulated".into();
        assert!(Hierarchy::of(&none).unwrap_err().what.contains("emulator"));
        none.experiment = "latency".into();
        assert!(Hierarchy::of(&none).unwrap_err().what.contains("'latency'"));
        assert!(Hierarchy::of(&report(&[("tier.1.latency", -1.0)])).is_err());
    }

    #[test]
    fn interval_always_includes_its_value() {
        let odd = Finding { low: Some(7.0), high: Some(f64::NAN), ..finding("walk.latency", 5.0) };
        assert_eq!(interval(&odd), Interval { value: 5.0, low: 5.0, high: 5.0 });
    }
}
