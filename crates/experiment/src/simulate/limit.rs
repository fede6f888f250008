//! Limits of counts, for scripts: `misses.L1D > 5%`, of a region `inner_loop:misses.L1D > 5%`.

use fathom_analysis::findings::Report;

use super::quantity::{FORMS, Quantity};

/// A condition that makes a simulation fail.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// What is counted, with the text of the condition.
    pub quantity: Quantity,
    above: bool,
    value: f64,
}

impl Limit {
    /// Parses a condition.
    ///
    /// # Errors
    /// Says what may be written.
    pub fn parse(text: &str) -> Result<Limit, String> {
        let wrong = |what: &str| {
            format!(
                "'{text}': {what}; write {FORMS}; then > or < and a number, for misses also a share: misses.L1D > 5%"
            )
        };
        let at = text.rfind(['>', '<']).ok_or_else(|| wrong("there is no > or <"))?;
        let (name, rest) = (text[..at].trim(), text[at + 1..].trim());
        let value: f64 =
            rest.trim_end_matches('%').trim().parse().map_err(|_| wrong("the limit is no number"))?;
        if !value.is_finite() || value < 0.0 {
            return Err(wrong("the limit is no number from 0"));
        }
        let quantity = Quantity::named(text, name, rest.ends_with('%')).map_err(wrong)?;
        Ok(Limit { quantity, above: text.as_bytes()[at] == b'>', value })
    }

    /// Returns the counted value and whether it is beyond the limit.
    ///
    /// # Errors
    /// As [`Quantity::of`].
    pub fn check(&self, report: &Report) -> Result<(f64, bool), String> {
        let value = self.quantity.of(report)?;
        Ok((value, if self.above { value > self.value } else { value < self.value }))
    }
}

#[cfg(test)]
mod tests {
    use fathom_analysis::findings::{Finding, Item, Metric};
    use fathom_analysis::metrics::simulate as metrics;

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
