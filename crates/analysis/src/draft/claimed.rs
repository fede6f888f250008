//! Claims about a level, read from the rows of a report.

use crate::claims::{Holds, Source};
use crate::findings::{Axis, Finding, Metric};
use crate::hierarchy::{Hierarchy, value};
use crate::interval::Interval;
use crate::metrics::claims;

/// Claims of one source about one level; 0 if not stated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub source: Source,
    pub holds: Option<Holds>,
    pub size: u64,
    pub line: u64,
    pub ways: u64,
}

/// Returns the content that a claim states for the level.
fn held(f: &Finding) -> Option<Holds> {
    Holds::from_token(&f.key.word(Axis::Side)?)
}

/// Returns the claims about the `n`th level visible to loads, by source.
pub(super) fn of(h: &Hierarchy, n: usize) -> Vec<Claim> {
    let claim = |source: Source| {
        let found = |metric: &'static Metric| {
            let [data, unified] = [Holds::Data, Holds::Unified]
                .map(|holds| metric.at([source.token().into(), n.into(), holds.token().into()]));
            h.report().find(data).or_else(|| h.report().find(unified))
        };
        let whole = |metric| found(metric).map_or(0, |f| value(f).clamp(0.0, 1e15) as u64);
        let keys = [&claims::CLAIM_LEVEL_SIZE, &claims::CLAIM_LEVEL_LINE, &claims::CLAIM_LEVEL_WAYS];
        let holds = keys.into_iter().filter_map(found).find_map(held);
        let [size, line, ways] = keys.map(whole);
        let claim = Claim { source, holds, size, line, ways };
        (claim.size + claim.line + claim.ways > 0).then_some(claim)
    };
    Source::ALL.into_iter().filter_map(claim).collect()
}

/// Joins the names of the sources, as in `sysfs and cpuid`.
fn names(of: &[Claim]) -> String {
    let all: Vec<&str> = of.iter().map(|c| c.source.token()).collect();
    match all.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [firsts @ .., last] => format!("{} and {last}", firsts.join(", ")),
    }
}

/// Returns the first claimed value of a key, the sources that agree with it, and the other values.
fn first(claims: &[Claim], key: impl Fn(&Claim) -> u64) -> Option<(u64, String, String)> {
    let reported: Vec<Claim> = claims.iter().copied().filter(|c| key(c) > 0).collect();
    let value = key(reported.first()?);
    let (same, others): (Vec<Claim>, Vec<Claim>) = reported.into_iter().partition(|c| key(c) == value);
    let others: Vec<String> = others.iter().map(|c| format!("{} by {}", key(c), c.source)).collect();
    Some((value, names(&same), others.join(", ")))
}

/// Returns a value that was claimed and not measured, with its comment.
pub(super) fn unmeasured(claims: &[Claim], key: impl Fn(&Claim) -> u64) -> Option<(u64, String)> {
    let (value, by, others) = first(claims, key)?;
    let others = if others.is_empty() { others } else { format!(" (but {others})") };
    Some((value, format!("claimed by {by}, not measured{others}")))
}

/// Returns the comment that compares the claims with a measured value.
pub(super) fn agreement(
    claims: &[Claim],
    key: impl Fn(&Claim) -> u64,
    taken: u64,
    measured: Interval,
    show: impl Fn(u64) -> String,
) -> String {
    let Some((value, by, others)) = first(claims, key) else { return String::new() };
    let others = if others.is_empty() { others } else { format!(" (but {others})") };
    let at = value as f64;
    if value == taken {
        format!("; as claimed by {by}{others}")
    } else if measured.low <= at && at <= measured.high {
        format!("; {} claimed by {by} is within the interval too{others}", show(value))
    } else {
        format!("; {} claimed by {by} disagrees with the measurement{others}", show(value))
    }
}

/// Returns the claims whose size may be the measured one: only these are about this level.
pub(super) fn fitting(claims: &[Claim], measured: Interval) -> Vec<Claim> {
    let fits = |c: &&Claim| c.size > 0 && measured.low <= c.size as f64 && c.size as f64 <= measured.high;
    claims.iter().filter(fits).copied().collect()
}
