//! Verdicts on claimed cache sizes, one per level.

use fathom_analysis::claims::{Claim, Decoded};
use fathom_analysis::findings::{Basis, Finding, Item};
use fathom_analysis::interval::Interval;
use fathom_analysis::metrics::claims::{CLAIMED, TIER, VERDICT_LEVEL_SIZE};
use fathom_analysis::tiers::Reading;
use fathom_probe::machine::ClockTrust;
use fathom_units::size;

use crate::reading::text;

/// Relative distance outside a capacity's interval from which a claim is contradicted; nearer claims are undecided.
/// 10 %: an eighth, the smallest difference between two caches of eight ways that differ by one way, less a margin.
const CONTRADICTION: f64 = 0.10;

/// Largest ratio of a claimed size to the measured end of a level whose pages are at random frames. Sets fill unevenly
/// there: a level of 4 ways or more and many page sets has its first misses from half of its size on (Poisson
/// distribution of the pages of a set).
const SCATTERED_RATIO: f64 = 2.2;

/// Properties of a run that restrict its verdicts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// The clock's trust: a guest's caches are real, but it cannot know how much of them is its own.
    pub(crate) trust: Option<ClockTrust>,
    /// Whether other work disturbed it.
    pub(crate) disturbed: bool,
    /// Whether the pages of the latency curve are at random frames of physical memory.
    pub(crate) scattered: bool,
}

/// Returns a verdict for every level whose size is claimed by a source.
pub(crate) fn verdicts(decoded: &Decoded, reading: &Reading, run: Run) -> Vec<Finding> {
    let data: Vec<&Claim> = decoded.claims.iter().filter(|c| c.holds.data() && c.size.is_some()).collect();
    let mut levels: Vec<u8> = data.iter().map(|c| c.level).collect();
    levels.sort_unstable();
    levels.dedup();
    levels
        .iter()
        .enumerate()
        .map(|(nth, &level)| {
            let claims: Vec<&Claim> = data.iter().copied().filter(|c| c.level == level).collect();
            let mut finding = verdict(nth, level, &claims, reading, run);
            if run.disturbed && finding.word() == Some("disagrees") {
                finding
                    .notes
                    .push("this run was disturbed: other tasks may have used part of the cache".into());
            }
            finding
        })
        .collect()
}

fn verdict(nth: usize, level: u8, claims: &[&Claim], reading: &Reading, run: Run) -> Finding {
    let claimed = claims[0].size.unwrap_or_default();
    let finding_of = |word: &str| {
        let mut row = text(VERDICT_LEVEL_SIZE.at([u64::from(level).into()]), word);
        row.basis = Basis::Derived;
        row.detail.set(CLAIMED, Item::Number(claimed as f64));
        row.detail.set(TIER, Item::Number((nth + 1) as f64));
        row
    };
    let sources: Vec<&str> = claims.iter().map(|c| c.source.token()).collect();
    let (who, claim) = match sources.as_slice() {
        [one] => ((*one).to_owned(), "claims"),
        [firsts @ .., last] => (format!("{} and {last}", firsts.join(", ")), "claim"),
        [] => (String::new(), "claim"),
    };
    let guest = if run.trust == Some(ClockTrust::Virtual) { " (guest)" } else { "" };
    let claimed_size = format!("level {level}: {who} {claim} {}", size(claimed as f64));
    let (token, sentence) = match reading.tiers.get(nth).and_then(|t| t.capacity) {
        // The nearest level is indexed by address bits that translation does not change, in most machines.
        Some(capacity) if run.scattered && nth > 0 && ends_early(claimed as f64, capacity.onset) => (
            "undecided",
            format!(
                "{claimed_size}; loads slow down beyond {}, but pages at random frames fill a level unevenly, which ends it early",
                size(capacity.onset.value)
            ),
        ),
        Some(capacity) => compare(claimed as f64, capacity.onset, &claimed_size, guest),
        None => {
            let which = ordinal(nth + 1);
            (
                "undecided",
                format!("{claimed_size}; no {which} capacity was found in the measured working sets"),
            )
        }
    };
    let mut finding = finding_of(token);
    finding.notes.push(sentence);
    finding
}

/// Returns whether random frames may explain that a level ends below its claimed size.
fn ends_early(claimed: f64, onset: Interval) -> bool {
    claimed > onset.high && claimed <= SCATTERED_RATIO * onset.value
}

/// Compares a claimed size with the measured onset of the next tier. Returns the verdict and a sentence, which begins
/// with `claimed_size`.
fn compare(claimed: f64, onset: Interval, claimed_size: &str, guest: &str) -> (&'static str, String) {
    if claimed >= onset.low && claimed <= onset.high {
        return ("agrees", format!("{claimed_size}; the measurement agrees{guest}"));
    }
    let measured = size(onset.value);
    if claimed < onset.low / (1.0 + CONTRADICTION) || claimed > onset.high * (1.0 + CONTRADICTION) {
        return ("disagrees", format!("{claimed_size}, but loads slow down beyond {measured}{guest}"));
    }
    let (low, high) = (size(onset.low), size(onset.high));
    (
        "undecided",
        format!("{claimed_size}; measured {measured} ({low} to {high}), too close to contradict it"),
    )
}

fn ordinal(n: usize) -> String {
    match n {
        1 => "first".to_owned(),
        2 => "second".to_owned(),
        3 => "third".to_owned(),
        n => format!("{n}th"),
    }
}
