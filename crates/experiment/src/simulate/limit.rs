//! Limits of counts, for scripts: `misses.L1D > 5%`, of a region `inner_loop:misses.L1D > 5%`.

use fathom_analysis::findings::{Field, Finding, Metric, Report};
use fathom_analysis::metrics::simulate as metrics;

/// A condition that makes a simulation fail.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// As it was written.
    pub text: String,
    /// Region whose counts it is about; `None`: the whole program's.
    pub region: Option<String>,
    quantity: String,
    unit: Option<String>,
    above: bool,
    value: f64,
    percent: bool,
}

/// The lower bound of cycles.
const LEAST: &str = "least";

/// What a condition may name.
const FORMS: &str = "misses.LEVEL, misses.TLB, writebacks.LEVEL, walks, memory, cycles (every access waits), cycles.least or \
                     instructions, then > or < and a number, \
                     for misses also a share: misses.L1D > 5%; REGION: before it for a region, which has neither \
                     writebacks nor misses of TLBs";

impl Limit {
    /// Parses a condition.
    ///
    /// # Errors
    /// Says what may be written.
    pub fn parse(text: &str) -> Result<Limit, String> {
        let wrong = |what: &str| format!("'{text}': {what}; write {FORMS}");
        let at = text.rfind(['>', '<']).ok_or_else(|| wrong("there is no > or <"))?;
        let (name, rest) = (text[..at].trim(), text[at + 1..].trim());
        // Names of regions are any text, those of levels have no colon.
        let (region, name) = match name.rsplit_once(':') {
            Some((region, name)) => (Some(region.trim().to_owned()), name.trim()),
            None => (None, name),
        };
        let (quantity, unit) = match name.split_once('.') {
            Some((quantity, unit)) => (quantity, Some(unit)),
            None => (name, None),
        };
        let percent = rest.ends_with('%');
        let value: f64 =
            rest.trim_end_matches('%').trim().parse().map_err(|_| wrong("the limit is no number"))?;
        if !value.is_finite() || value < 0.0 {
            return Err(wrong("the limit is no number from 0"));
        }
        let known = match unit {
            Some(unit) => match quantity {
                "misses" | "writebacks" => true,
                _ => quantity == "cycles" && unit == LEAST,
            },
            None => matches!(quantity, "walks" | "memory" | "cycles" | "instructions"),
        };
        if !known {
            return Err(wrong("this is not counted"));
        }
        if region.is_some() && quantity == "writebacks" {
            return Err(wrong("writebacks are not counted by region"));
        }
        if percent && quantity != "misses" {
            return Err(wrong("only misses have a share"));
        }
        let above = text.as_bytes()[at] == b'>';
        let (text, quantity, unit) = (text.to_owned(), quantity.to_owned(), unit.map(str::to_owned));
        Ok(Limit { text, region, quantity, unit, above, value, percent })
    }

    /// Returns the counted value and whether it is beyond the limit.
    ///
    /// # Errors
    /// The report's machine has no such level or TLB, or the program did not enter the region; names those that there are.
    pub fn check(&self, report: &Report) -> Result<(f64, bool), String> {
        let least = || report.find(&metrics::LEAST_CYCLES).and_then(Finding::finite);
        let value = match (&self.region, &self.unit) {
            (None, Some(_)) if self.is_least() => least().ok_or_else(|| self.no_least())?,
            (Some(region), _) => self.of_region(report, region)?,
            (None, Some(unit)) => self.of_unit(report, unit)?,
            (None, None) => self.of_program(report)?,
        };
        Ok((value, if self.above { value > self.value } else { value < self.value }))
    }

    /// Returns whether it is about the lower bound of the time.
    fn is_least(&self) -> bool {
        self.quantity == "cycles" && self.unit.is_some()
    }

    fn no_least(&self) -> String {
        format!(
            "'{}': the machine has no least time: it does not describe how many accesses overlap (`outstanding` of [core]); \
             cycles is the time if every access waits",
            self.text
        )
    }

    fn of_program(&self, report: &Report) -> Result<f64, String> {
        let metric: &'static Metric = match self.quantity.as_str() {
            "walks" => &metrics::WALK_COUNT,
            "memory" => &metrics::MEMORY_ACCESSES,
            "cycles" => &metrics::CYCLES,
            _ => &metrics::INSTRUCTIONS,
        };
        match report.find(metric).and_then(Finding::finite) {
            None if self.quantity == "instructions" => {
                Err(format!("'{}': the trace does not have all instructions", self.text))
            }
            value => Ok(value.unwrap_or(0.0)),
        }
    }

    fn of_region(&self, report: &Report, region: &str) -> Result<f64, String> {
        let entered = |f: &&Finding| f.detail.number(metrics::ENTERED).is_some_and(|times| times > 0.0);
        let name = |f: &Finding| f.detail.word(metrics::REGION).map(str::to_owned);
        let all = || report.of(&metrics::REGION_CYCLES).filter(entered);
        let Some(found) = all().find(|f| name(f).as_deref() == Some(region)) else {
            let names = all().filter_map(name).collect::<Vec<_>>().join(", ");
            let others = if names.is_empty() { "none" } else { &names };
            return Err(format!(
                "'{}': the program entered no region '{region}'; it entered {others}",
                self.text
            ));
        };
        if self.is_least() {
            return found.detail.number(metrics::LEAST).ok_or_else(|| self.no_least());
        }
        let Some(unit) = &self.unit else {
            let count = |field| found.detail.number(field).unwrap_or(0.0);
            return Ok(match self.quantity.as_str() {
                "walks" => count(metrics::WALKS),
                "memory" => count(metrics::MEMORY),
                "cycles" => found.finite().unwrap_or(0.0),
                _ => count(metrics::EXECUTED),
            });
        };
        let misses = self.of_list(found, metrics::PASSED_ON, unit)?;
        if self.percent {
            Ok(share(misses, self.of_list(found, metrics::REACHED, unit)?))
        } else {
            Ok(misses)
        }
    }

    /// Returns the number of a level in a region's list.
    fn of_list(&self, region: &Finding, field: Field, unit: &str) -> Result<f64, String> {
        let levels = region.detail.numbers(field);
        let found = levels.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
        found
            .map(|(_, count)| *count)
            .ok_or_else(|| self.no_unit(unit, levels.iter().map(|(name, _)| name.as_str())))
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
            return Err(self.no_unit(unit, all.filter_map(|f| f.detail.word(metrics::NAME))));
        };
        if !self.percent {
            return Ok(count);
        }
        Ok(share(count, reached.iter().find_map(|metric| named(metric)).unwrap_or(0.0)))
    }

    fn no_unit<'a>(&self, unit: &str, all: impl Iterator<Item = &'a str>) -> String {
        let all: Vec<&str> = all.collect();
        let of = if self.region.is_some() { "a region counts" } else { "the machine has" };
        format!("'{}': {of} no '{unit}', but {}", self.text, all.join(", "))
    }
}

/// Returns the share of misses, percent.
fn share(misses: f64, reached: f64) -> f64 {
    if reached > 0.0 { 100.0 * misses / reached } else { 0.0 }
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
        report_of(Some([2000.0, 300.0]))
    }

    /// `least`: the least time of the program and of a region, if it is described how many accesses overlap.
    fn report_of(least: Option<[f64; 2]>) -> Report {
        let named = |metric: &'static Metric, value: f64| {
            let mut finding = Finding::number(metric.at([1u64.into()]), value);
            finding.detail.set(metrics::NAME, Item::Token("L1D".into()));
            finding
        };
        let mut region = Finding::number(metrics::REGION_CYCLES.at([1u64.into()]), 900.0);
        region.detail.set(metrics::REGION, Item::Token("a <b>: c".into()));
        region.detail.set(metrics::ENTERED, Item::Number(2.0));
        region.detail.set(metrics::EXECUTED, Item::Number(70.0));
        region.detail.set(metrics::REACHED, Item::Numbers(vec![("L1D".into(), 40.0), ("L2".into(), 0.0)]));
        region.detail.set(metrics::PASSED_ON, Item::Numbers(vec![("L1D".into(), 10.0), ("L2".into(), 0.0)]));
        region.detail.set(metrics::WALKS, Item::Number(3.0));
        least.iter().for_each(|[_, least]| region.detail.set(metrics::LEAST, Item::Number(*least)));
        let mut never = Finding::number(metrics::REGION_CYCLES.at([2u64.into()]), 0.0);
        never.detail.set(metrics::REGION, Item::Token("never".into()));
        never.detail.set(metrics::ENTERED, Item::Number(0.0));
        let mut findings = vec![
            region,
            never,
            Finding::number(&metrics::WALK_COUNT, 12.0),
            Finding::number(&metrics::CYCLES, 5000.0),
            named(&metrics::LEVEL_ACCESSES, 1000.0),
            named(&metrics::LEVEL_MISSES, 50.0),
        ];
        findings.extend(least.map(|[least, _]| Finding::number(&metrics::LEAST_CYCLES, least)));
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
            ("a <b>: c:misses.l1d > 24.9%", 25.0, true),
            ("a <b>: c : misses.L1D > 10", 10.0, false),
            ("a <b>: c:misses.L2 > 0%", 0.0, false),
            ("a <b>: c:walks < 4", 3.0, true),
            ("a <b>: c:cycles > 899", 900.0, true),
            ("a <b>: c:instructions > 70", 70.0, false),
            ("a <b>: c:cycles.least > 299", 300.0, true),
            ("cycles > 4999", 5000.0, true),
            ("cycles.least > 2000", 2000.0, false),
            ("cycles.least < 2001", 2000.0, true),
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
            "cycles.most > 1",
            "cycles.least > 5%",
            "walks.least > 1",
            "walks > x",
            "walks > -1",
            "region:writebacks.L1D > 1",
            "region: > 1",
        ] {
            assert!(Limit::parse(text).is_err_and(|why| why.contains("misses.LEVEL")), "{text}");
        }
        let why = Limit::parse("misses.L3 > 1").unwrap().check(&report()).unwrap_err();
        assert!(why.contains("no 'L3', but L1D"), "{why}");
        for text in ["cycles.least > 1", "a <b>: c:cycles.least > 1"] {
            let why = Limit::parse(text).unwrap().check(&report_of(None)).unwrap_err();
            assert!(why.contains("no least time") && why.contains("`outstanding`"), "{why}");
        }
        for (text, said) in [
            ("never:walks > 1", "entered no region 'never'; it entered a <b>: c"),
            ("a <b>: c:misses.main-TLB > 1", "a region counts no 'main-TLB', but L1D, L2"),
        ] {
            let why = Limit::parse(text).unwrap().check(&report()).unwrap_err();
            assert!(why.contains(said), "{why}");
        }
    }
}
