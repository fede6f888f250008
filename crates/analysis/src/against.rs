//! A description's claims beside what a survey found: a verdict each.
//!
//! What a survey of the described machine ought to find is worked out elsewhere and handed in as plain
//! numbers: this module knows no description, as it knows no probe. A description is a claim like any other,
//! so a verdict says what the measurement says of it, and never the reverse.

use crate::facts;
use crate::findings::{Report, Value};
use crate::hierarchy::{Hierarchy, NoHierarchy, value};
use crate::interval::Interval;
use crate::metrics::{claims, common};

mod judge;

/// From a number to a number, both included; equal ends are one number.
pub type Span = (f64, f64);

/// What a survey of a described machine ought to find. Cycles are those of [`Described::hz`].
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// What the description is called.
    pub name: String,
    /// The core's clock as described, Hz.
    pub core_hz: f64,
    /// The clock whose cycles the times here are, Hz: the core's as measured where it was ([`clock`]), because
    /// some costs follow the core's clock and some do not.
    pub hz: f64,
    /// The levels that loads see, nearest first.
    pub levels: Vec<Level>,
    /// Load-to-use from memory, cycles.
    pub memory: Span,
    /// The TLBs that can be seen, nearest first.
    pub tlbs: Vec<Tlb>,
}

/// A level as described.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Its name there.
    pub name: String,
    /// Load-to-use, cycles.
    pub latency: Span,
    /// Where misses should begin, bytes.
    pub size: Span,
    /// Line, bytes.
    pub line: u64,
    /// Ways.
    pub ways: u32,
    /// Sets.
    pub sets: u64,
    /// The word for its replacement policy.
    pub replacement: String,
}

/// A TLB as described.
#[derive(Clone, Debug, PartialEq)]
pub struct Tlb {
    /// Its number in the description, from 1.
    pub nth: usize,
    /// Its name there.
    pub name: String,
    /// Entries.
    pub entries: u32,
    /// Ways.
    pub ways: u32,
    /// What a load pays more when it misses and the next one, or the walk, answers, cycles.
    pub penalty: Span,
    /// May its step be one with a level's?
    pub merged: bool,
}

/// The core's clock that a report measured, Hz.
#[must_use]
pub fn clock(report: &Report) -> Option<f64> {
    let found = report.find(&common::CLOCK_CORE_HZ).map(value);
    found.filter(|hz| hz.is_finite() && *hz > 0.0)
}

/// What a measurement says of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is what was measured.
    Agrees,
    /// It is clearly not.
    Disagrees,
    /// Neither was shown.
    Undecided,
}

impl Verdict {
    /// The stable word for it.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Disagrees => "disagrees",
            Verdict::Undecided => "undecided",
        }
    }
}

/// How far a right survey may be off.
#[derive(Clone, Copy, Debug)]
struct Tolerance {
    /// Share of the value.
    relative: f64,
    /// In its unit.
    absolute: f64,
}

/// A clock that was calibrated against another may be off by this.
const CLOCK: Tolerance = Tolerance { relative: 0.01, absolute: 0.0 };
/// What a survey promises of a latency (docs/method/oracle.md); the second in cycles.
const LATENCY: Tolerance = Tolerance { relative: 0.01, absolute: 0.2 };
/// And of a TLB's penalty; the second in cycles.
const PENALTY: Tolerance = Tolerance { relative: 0.03, absolute: 0.3 };
/// A capacity's interval must hold the size.
const CAPACITY: Tolerance = Tolerance { relative: 0.0, absolute: 0.0 };
/// Entries are whole.
const ENTRIES: Tolerance = Tolerance { relative: 0.0, absolute: 1.0 };

/// An interval this far (relative) outside of what was described contradicts it, and one that reaches so far
/// does not confirm it: the share by which a claimed size is contradicted too.
const CLEARLY: f64 = 0.10;

/// Levels that are nearer to each other than this, in size and in latency, a survey may merge (docs/method/oracle.md).
const TOLD_APART: Span = (2.0, 1.3);

fn compared(described: Span, measured: Interval, tolerance: Tolerance) -> Verdict {
    let (low, high) = described;
    let slack = |end: f64| (tolerance.relative * end).max(tolerance.absolute);
    let least = (low / (1.0 + CLEARLY)).min(low - tolerance.absolute);
    let most = (high * (1.0 + CLEARLY)).max(high + tolerance.absolute);
    let near = measured.high >= low - slack(low) && measured.low <= high + slack(high);
    if measured.high < least || measured.low > most {
        Verdict::Disagrees
    } else if near && measured.low >= least && measured.high <= most {
        Verdict::Agrees
    } else {
        Verdict::Undecided
    }
}

/// A copy of the report with a row `against.…` for every claim that it can be asked about, and beside it
/// `expected.…`, what a survey of the described machine ought to find. Earlier such rows are left out.
///
/// # Errors
/// [`NoHierarchy`] where the report has no tiers.
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

/// Does the report contradict the description that it was checked against?
#[must_use]
pub fn contradicted(report: &Report) -> bool {
    let no = Value::Text(Verdict::Disagrees.token().to_owned());
    report.findings.iter().any(|f| claims::is_check(f.key.metric) && f.value == no)
}

#[cfg(test)]
mod tests;
