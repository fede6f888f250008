//! Limits of counts, for scripts: `misses.L1D > 5%`.

use fathom_analysis::findings::{Finding, Metric, Report};
use fathom_analysis::metrics::simulate as metrics;

/// A condition that makes a simulation fail.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// As it was written.
    pub text: String,
    quantity: String,
    unit: Option<String>,
    above: bool,
    value: f64,
    percent: bool,
}

/// What a condition may name.
const FORMS: &str = "misses.LEVEL, misses.TLB, writebacks.LEVEL, walks, memory, cycles or instructions, then > or < and a number, \
                     for misses also a share: misses.L1D > 5%";

impl Limit {
    /// Parses a condition.
    ///
    /// # Errors
    /// Says what may be written.
    pub fn parse(text: &str) -> Result<Limit, String> {
        let wrong = |what: &str| format!("'{text}': {what}; write {FORMS}");
        let at = text.find(['>', '<']).ok_or_else(|| wrong("there is no > or <"))?;
        let (name, rest) = (text[..at].trim(), text[at + 1..].trim());
        let (quantity, unit) = match name.split_once('.') {
            Some((quantity, unit)) => (quantity, Some(unit.to_owned())),
            None => (name, None),
        };
        let percent = rest.ends_with('%');
        let value: f64 =
            rest.trim_end_matches('%').trim().parse().map_err(|_| wrong("the limit is no number"))?;
        if !value.is_finite() || value < 0.0 {
            return Err(wrong("the limit is no number from 0"));
        }
        let known = match unit {
            Some(_) => matches!(quantity, "misses" | "writebacks"),
            None => matches!(quantity, "walks" | "memory" | "cycles" | "instructions"),
        };
        if !known {
            return Err(wrong("this is not counted"));
        }
        if percent && quantity != "misses" {
            return Err(wrong("only misses have a share"));
        }
        let above = text.as_bytes()[at] == b'>';
        Ok(Limit { text: text.to_owned(), quantity: quantity.to_owned(), unit, above, value, percent })
    }

    /// Returns the counted value and whether it is beyond the limit.
    ///
    /// # Errors
    /// The report's machine has no such level or TLB; names those that it has.
    pub fn check(&self, report: &Report) -> Result<(f64, bool), String> {
        let value = match &self.unit {
            Some(unit) => self.of_unit(report, unit)?,
            None => {
                let metric: &'static Metric = match self.quantity.as_str() {
                    "walks" => &metrics::WALK_COUNT,
                    "memory" => &metrics::MEMORY_ACCESSES,
                    "cycles" => &metrics::CYCLES,
                    _ => &metrics::INSTRUCTIONS,
                };
                match report.find(metric).and_then(Finding::finite) {
                    Some(value) => value,
                    None if self.quantity == "instructions" => {
                        return Err(format!("'{}': the trace does not have all instructions", self.text));
                    }
                    None => 0.0,
                }
            }
        };
        Ok((value, if self.above { value > self.value } else { value < self.value }))
    }

    fn of_unit(&self, report: &Report, unit: &str) -> Result<f64, String> {
        let named =
            |metric: &'static Metric| report.of(metric).find(|f| is_named(f, unit)).and_then(Finding::finite);
        let (counts, reached): (&[&'static Metric], &[&'static Metric]) = match self.quantity.as_str() {
            "misses" => (
                &[&metrics::LEVEL_MISSES, &metrics::TLB_MISSES],
                &[&metrics::LEVEL_ACCESSES, &metrics::TLB_ACCESSES],
            ),
            _ => (&[&metrics::LEVEL_WRITEBACKS], &[]),
        };
        let Some(count) = counts.iter().find_map(|metric| named(metric)) else {
            let all = counts.iter().flat_map(|metric| report.of(metric));
            let all: Vec<&str> = all.filter_map(|f| f.detail.word(metrics::NAME)).collect();
            return Err(format!("'{}': the machine has no '{unit}', but {}", self.text, all.join(", ")));
        };
        if !self.percent {
            return Ok(count);
        }
        let reached = reached.iter().find_map(|metric| named(metric)).unwrap_or(0.0);
        Ok(if reached > 0.0 { 100.0 * count / reached } else { 0.0 })
    }
}

/// Returns whether a finding is of the level or TLB of this name, in any case.
fn is_named(finding: &Finding, unit: &str) -> bool {
    finding.detail.word(metrics::NAME).is_some_and(|name| name.eq_ignore_ascii_case(unit))
}

#[cfg(test)]
mod tests {
    use fathom_analysis::findings::Item;

    use super::*;

    fn report() -> Report {
        let named = |metric: &'static Metric, value: f64| {
            let mut finding = Finding::number(metric.at([1u64.into()]), value);
            finding.detail.set(metrics::NAME, Item::Token("L1D".into()));
            finding
        };
        let findings = vec![
            Finding::number(&metrics::WALK_COUNT, 12.0),
            named(&metrics::LEVEL_ACCESSES, 1000.0),
            named(&metrics::LEVEL_MISSES, 50.0),
        ];
        Report { findings, ..Report::default() }
    }

    #[test]
    fn limits_are_strict() {
        for (text, value, beyond) in [
            ("misses.l1d > 5%", 5.0, false),
            ("misses.L1D > 4.9%", 5.0, true),
            ("misses.L1D>49", 50.0, true),
            ("misses.L1D < 50", 50.0, false),
            ("misses.L1D < 51", 50.0, true),
            ("walks > 11", 12.0, true),
        ] {
            assert_eq!(Limit::parse(text).unwrap().check(&report()), Ok((value, beyond)), "{text}");
        }
    }

    #[test]
    fn wrong_conditions_say_what_may_be_written() {
        for text in [
            "",
            "misses.L1D",
            "misses > 5",
            "walks > 5%",
            "walks.L1D > 5",
            "rumours > 1",
            "walks > x",
            "walks > -1",
        ] {
            assert!(Limit::parse(text).is_err_and(|why| why.contains("misses.LEVEL")), "{text}");
        }
        let why = Limit::parse("misses.L3 > 1").unwrap().check(&report()).unwrap_err();
        assert!(why.contains("no 'L3', but L1D"), "{why}");
    }
}
