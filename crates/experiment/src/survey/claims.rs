//! Claims beside measurements: a verdict a level.

use fathom_analysis::claims::{Claim, Decoded};
use fathom_analysis::findings::{Basis, Finding, Item};
use fathom_analysis::metrics::claims::{CLAIMED, TIER, VERDICT_LEVEL_SIZE};
use fathom_analysis::tiers::Reading;
use fathom_probe::machine::ClockTrust;
use fathom_units::size;

use crate::reading::text;

/// A claim this far (relative) outside a capacity's interval is contradicted by it; nearer, the two
/// are only not shown to agree. 10 %: an eighth, the smallest step between two geometries of one way
/// more or less at eight ways, less a margin.
const CLEARLY: f64 = 0.10;

/// A verdict for every level that somebody claims a size for.
pub(crate) fn verdicts(
    decoded: &Decoded,
    reading: &Reading,
    trust: Option<ClockTrust>,
    disturbed: bool,
) -> Vec<Finding> {
    let data: Vec<&Claim> = decoded.claims.iter().filter(|c| c.holds.data() && c.size.is_some()).collect();
    let mut levels: Vec<u8> = data.iter().map(|c| c.level).collect();
    levels.sort_unstable();
    levels.dedup();
    levels
        .iter()
        .enumerate()
        .map(|(nth, &level)| {
            let claims: Vec<&Claim> = data.iter().copied().filter(|c| c.level == level).collect();
            let mut finding = verdict(nth, level, &claims, reading, trust);
            if disturbed && finding.word() == Some("disagrees") {
                finding.notes.push("this run was disturbed: others may have taken a part of it".into());
            }
            finding
        })
        .collect()
}

fn verdict(
    nth: usize,
    level: u8,
    claims: &[&Claim],
    reading: &Reading,
    trust: Option<ClockTrust>,
) -> Finding {
    let claimed = claims[0].size.unwrap_or_default();
    let said = |word: &str| {
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
    // A guest's caches are real, but whose they are and how much of them is its own is not its to say.
    let is = if trust == Some(ClockTrust::Virtual) { "behaves like" } else { "is" };
    let Some(capacity) = reading.tiers.get(nth).and_then(|t| t.capacity) else {
        let mut finding = said("undecided");
        finding.notes.push(format!(
            "{who} {claim} {} at level {level}; no {} capacity was found in the working sets measured",
            size(claimed as f64),
            ordinal(nth + 1)
        ));
        return finding;
    };
    let onset = capacity.onset;
    let at = claimed as f64;
    let (word, sentence) = if at >= onset.low && at <= onset.high {
        ("agrees", format!("level {level} {is} the {} that {who} {claim}", size(at)))
    } else if at < onset.low / (1.0 + CLEARLY) || at > onset.high * (1.0 + CLEARLY) {
        (
            "disagrees",
            format!(
                "{who} {claim} {} at level {level}, but loads slow down beyond {}: it {is} {}",
                size(at),
                size(onset.value),
                if is == "is" { "not what is claimed".to_owned() } else { size(onset.value) },
            ),
        )
    } else {
        (
            "undecided",
            format!(
                "{who} {claim} {} at level {level}; measured {} ({} to {}), too near to contradict it",
                size(at),
                size(onset.value),
                size(onset.low),
                size(onset.high)
            ),
        )
    };
    let mut finding = said(word);
    finding.notes.push(sentence);
    finding
}

fn ordinal(n: usize) -> String {
    match n {
        1 => "first".to_owned(),
        2 => "second".to_owned(),
        3 => "third".to_owned(),
        n => format!("{n}th"),
    }
}
