//! What a simulation counts, by name: `misses.L1D`, of a region `inner_loop:misses.L1D`.

use fathom_analysis::findings::{Field, Finding, Metric, Report};
use fathom_analysis::metrics::simulate as metrics;

/// The lower bound of cycles.
const LEAST: &str = "least";

/// What may be named.
pub const FORMS: &str = "misses.LEVEL, misses.TLB, writebacks.LEVEL, walks, memory, cycles (every access waits), cycles.least or \
                         instructions; REGION: before it for a region, which has neither \
                         writebacks nor misses of TLBs";

/// A count of the program, or of one of its regions.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// As it was written, with what it is part of, for messages.
    pub text: String,
    /// Region whose counts it is about; `None`: the whole program's.
    pub region: Option<String>,
    quantity: String,
    unit: Option<String>,
    percent: bool,
}

impl Quantity {
    /// Parses a name, as `misses.L1D`.
    ///
    /// # Errors
    /// Says what may be written.
    pub fn parse(text: &str) -> Result<Quantity, String> {
        Quantity::named(text, text.trim(), false).map_err(|what| format!("'{text}': {what}; write {FORMS}"))
    }

    /// Parses the name `name` in `text`; `percent`: a share of misses.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn named(text: &str, name: &str, percent: bool) -> Result<Quantity, &'static str> {
        // Names of regions are any text, those of levels have no colon.
        let (region, name) = match name.rsplit_once(':') {
            Some((region, name)) => (Some(region.trim().to_owned()), name.trim()),
            None => (None, name),
        };
        let (quantity, unit) = match name.split_once('.') {
            Some((quantity, unit)) => (quantity, Some(unit)),
            None => (name, None),
        };
        let known = match unit {
            Some(unit) => match quantity {
                "misses" | "writebacks" => true,
                _ => quantity == "cycles" && unit == LEAST,
            },
            None => matches!(quantity, "walks" | "memory" | "cycles" | "instructions"),
        };
        if !known {
            return Err("this is not counted");
        }
        if region.is_some() && quantity == "writebacks" {
            return Err("writebacks are not counted by region");
        }
        if percent && quantity != "misses" {
            return Err("only misses have a share");
        }
        let (text, quantity, unit) = (text.to_owned(), quantity.to_owned(), unit.map(str::to_owned));
        Ok(Quantity { text, region, quantity, unit, percent })
    }

    /// Returns the counted value; of a share, percent.
    ///
    /// # Errors
    /// The report's machine has no such level or TLB, or the program did not enter the region; names those that there are.
    pub fn of(&self, report: &Report) -> Result<f64, String> {
        let least = || report.find(&metrics::LEAST_CYCLES).and_then(Finding::finite);
        match (&self.region, &self.unit) {
            (None, Some(_)) if self.is_least() => least().ok_or_else(|| self.no_least()),
            (Some(region), _) => self.of_region(report, region),
            (None, Some(unit)) => self.of_unit(report, unit),
            (None, None) => self.of_program(report),
        }
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
