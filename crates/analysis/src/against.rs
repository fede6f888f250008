//! Checks a description against the findings of a survey: one verdict per claim.
//!
//! The findings expected of the described machine are computed elsewhere and passed in as plain numbers, so this module
//! depends on no description format and no probe. A description is a claim like any other: a verdict states what the
//! measurement shows about it, never the reverse.

use crate::facts;
use crate::findings::{Report, Value};
use crate::hierarchy::{Hierarchy, NoHierarchy, value};
use crate::interval::Interval;
use crate::metrics::{claims, common};

mod judge;

/// Range with both ends included; equal ends are a single number.
pub type Span = (f64, f64);

/// Findings that a survey of the described machine should give. Cycles are those of [`Described::hz`].
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// Name of the description.
    pub name: String,
    /// The core's clock as described, Hz.
    pub core_hz: f64,
    /// Clock whose cycles the times here are in, Hz. It is the measured core clock if available ([`clock`]), because
    /// some costs follow the core's clock and some do not.
    pub hz: f64,
    /// Levels visible to loads, nearest first.
    pub levels: Vec<Level>,
    /// Load-to-use from memory, cycles.
    pub memory: Span,
    /// Misses of the nearest level that can be under way at the same time; `None` if that is not described.
    pub outstanding: Option<u32>,
    /// Instructions in flight at the same time; `None` if that is not described.
    pub window: Option<u32>,
    /// Least time between two accesses that fill one set of the nearest level, cycles; `None` if it is not described.
    pub set_fill: Option<Span>,
    /// Time of a load of a run of adjacent lines, cycles; `None` if nothing is prefetched.
    pub stream: Option<Span>,
    /// Visible TLBs, nearest first.
    pub tlbs: Vec<Tlb>,
}

/// A level as described.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Name in the description.
    pub name: String,
    /// Load-to-use, cycles.
    pub latency: Span,
    /// Size at which misses should begin, bytes.
    pub size: Span,
    /// Line, bytes.
    pub line: u64,
    /// Ways.
    pub ways: u32,
    /// Sets.
    pub sets: u64,
    /// Token of its replacement policy.
    pub replacement: String,
}

/// A TLB as described.
#[derive(Clone, Debug, PartialEq)]
pub struct Tlb {
    /// Number in the description, from 1.
    pub nth: usize,
    /// Name in the description.
    pub name: String,
    /// Entries.
    pub entries: u32,
    /// Ways.
    pub ways: u32,
    /// Added cost of a load that misses here and is served by the next TLB or a page walk, cycles.
    pub penalty: Span,
    /// Whether its step may coincide with that of a level.
    pub merged: bool,
}

/// Returns the core's clock that a report measured, Hz.
#[must_use]
pub fn clock(report: &Report) -> Option<f64> {
    let found = report.find(&common::CLOCK_CORE_HZ).map(value);
    found.filter(|hz| hz.is_finite() && *hz > 0.0)
}

/// Result of comparing a claim with a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The claim agrees with the measurement.
    Agrees,
    /// The measurement clearly contradicts the claim.
    Disagrees,
    /// The measurement neither confirms nor contradicts the claim.
    Undecided,
}

impl Verdict {
    /// Returns the stable token.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Disagrees => "disagrees",
            Verdict::Undecided => "undecided",
        }
    }
}

/// Allowed deviation of a correct survey.
#[derive(Clone, Copy, Debug)]
struct Tolerance {
    /// Share of the value.
    relative: f64,
    /// Absolute deviation, in the unit of the value.
    absolute: f64,
}

/// Error of a clock that was calibrated against another clock.
const CLOCK_TOLERANCE: Tolerance = Tolerance { relative: 0.01, absolute: 0.0 };
/// Promised error of a survey's latency (docs/method/oracle.md); the absolute part is in cycles.
const LATENCY_TOLERANCE: Tolerance = Tolerance { relative: 0.01, absolute: 0.2 };
/// Promised error of a TLB's penalty; the absolute part is in cycles.
const PENALTY_TOLERANCE: Tolerance = Tolerance { relative: 0.03, absolute: 0.3 };
/// Capacity: its interval must contain the size.
const CAPACITY_TOLERANCE: Tolerance = Tolerance { relative: 0.0, absolute: 0.0 };
/// Misses under way: whole numbers, of which a survey measures the effective one.
const OUTSTANDING_TOLERANCE: Tolerance = Tolerance { relative: 0.0, absolute: 0.5 };
/// Instructions in flight: whole numbers. A processor may hold two instructions in one place, or need two for one.
const WINDOW_TOLERANCE: Tolerance = Tolerance { relative: 0.02, absolute: 1.0 };
/// TLB entries: whole numbers.
const ENTRIES_TOLERANCE: Tolerance = Tolerance { relative: 0.0, absolute: 1.0 };

/// Relative distance beyond which an interval contradicts the description. An interval that reaches beyond it does not
/// confirm the description either. Claimed sizes use the same share.
const CONTRADICTION_SHARE: f64 = 0.10;

/// Ratios of size and of latency below which a survey may merge two levels (docs/method/oracle.md).
const MERGE_RATIOS: Span = (2.0, 1.3);

fn compared(described: Span, measured: Interval, tolerance: Tolerance) -> Verdict {
    let (low, high) = described;
    let slack = |end: f64| (tolerance.relative * end).max(tolerance.absolute);
    let min = (low / (1.0 + CONTRADICTION_SHARE)).min(low - tolerance.absolute);
    let max = (high * (1.0 + CONTRADICTION_SHARE)).max(high + tolerance.absolute);
    let near = measured.high >= low - slack(low) && measured.low <= high + slack(high);
    if measured.high < min || measured.low > max {
        Verdict::Disagrees
    } else if near && measured.low >= min && measured.high <= max {
        Verdict::Agrees
    } else {
        Verdict::Undecided
    }
}

/// Returns a copy of the report with a row `against.…` for each claim that can be checked, and a row `expected.…` with
/// the value that a survey of the described machine should give. Rows of an earlier check are replaced.
///
/// # Errors
/// [`NoHierarchy`] if the report has no tiers.
pub fn check(report: &Report, described: &Described) -> Result<Report, NoHierarchy> {
    let hierarchy = Hierarchy::of(report)?;
    let rows = judge::rows(&hierarchy, described);
    let mut checked = report.clone();
    checked.facts.retain(|(name, _)| name != facts::AGAINST);
    checked.facts.push((facts::AGAINST.to_owned(), described.name.clone()));
    checked.findings.retain(|f| !claims::is_check(f.key.metric));
    checked.findings.extend(rows);
    Ok(checked)
}

/// Returns whether the report contradicts the description that it was checked against.
#[must_use]
pub fn contradicted(report: &Report) -> bool {
    let no = Value::Text(Verdict::Disagrees.token().to_owned());
    report.findings.iter().any(|f| claims::is_check(f.key.metric) && f.value == no)
}

#[cfg(test)]
mod tests;
