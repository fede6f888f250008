//! What sources claim of a level, read back from the rows of a report.

use crate::claims::{Holds, Source};
use crate::findings::{Axis, Finding, Metric};
use crate::hierarchy::{Hierarchy, value};
use crate::interval::Interval;
use crate::metrics::claims;

/// One source's claims of one level; 0 is what it does not tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub source: Source,
    pub holds: Option<Holds>,
    pub size: u64,
    pub line: u64,
    pub ways: u64,
}

/// What a claim says that the level holds.
fn held(f: &Finding) -> Option<Holds> {
    Holds::from_token(&f.key.word(Axis::Side)?)
}

/// What is claimed of the `n`th level that loads see, by source.
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

/// The sources' names, as in `sysfs and cpuid`.
fn names(of: &[Claim]) -> String {
    let all: Vec<&str> = of.iter().map(|c| c.source.token()).collect();
    match all.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [firsts @ .., last] => format!("{} and {last}", firsts.join(", ")),
    }
}

/// The first value that anybody claims of a key, with those who claim the same, and the others.
fn first(claims: &[Claim], key: impl Fn(&Claim) -> u64) -> Option<(u64, String, String)> {
    let reported: Vec<Claim> = claims.iter().copied().filter(|c| key(c) > 0).collect();
    let value = key(reported.first()?);
    let (same, others): (Vec<Claim>, Vec<Claim>) = reported.into_iter().partition(|c| key(c) == value);
    let others: Vec<String> = others.iter().map(|c| format!("{} by {}", key(c), c.source)).collect();
    Some((value, names(&same), others.join(", ")))
}

/// A value that only claims know, and what its comment says.
pub(super) fn alone(claims: &[Claim], key: impl Fn(&Claim) -> u64) -> Option<(u64, String)> {
    let (value, by, others) = first(claims, key)?;
    let others = if others.is_empty() { others } else { format!(" (but {others})") };
    Some((value, format!("claimed by {by}, not measured{others}")))
}

/// What claims say beside a value that was measured.
pub(super) fn beside(
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
        format!("; {} claimed by {by} fits as well{others}", show(value))
    } else {
        format!("; {} claimed by {by} is not what was measured{others}", show(value))
    }
}

/// The claims whose size may be the one that was measured: only these are of the level in this place.
pub(super) fn fitting(claims: &[Claim], measured: Interval) -> Vec<Claim> {
    let fits = |c: &&Claim| c.size > 0 && measured.low <= c.size as f64 && c.size as f64 <= measured.high;
    claims.iter().filter(fits).copied().collect()
}
