//! Findings of the geometry of levels, and verdicts on claims about it.

use fathom_analysis::claims::{Claim, Decoded};
use fathom_analysis::findings::{Basis, Finding, Item, Key, Metric, Refused, Report};
use fathom_analysis::interval::Interval;
use fathom_analysis::metrics::{claims, conflict};
use fathom_analysis::replacement::{Block, Observation};
use fathom_analysis::sets::{Geometry, MAX_WAYS, Verdict};
use fathom_units::size;

use super::{Level, Replacement, Step};
use crate::reading::{measured, number, text};

/// Adds the findings of every level's sets, ways and line.
pub(super) fn built(steps: &[Step], levels: &[Level], base: u64, report: &mut Report) {
    for (index, level) in levels.iter().enumerate() {
        of_sets(index + 1, level, &steps[index], base, report);
        of_line(index + 1, level, report);
        of_pairs(index + 1, level, report);
    }
}

/// Adds the findings of the levels' replacement.
pub(super) fn replaced(replacements: &[Replacement], report: &mut Report) {
    for (index, replacement) in replacements.iter().enumerate() {
        of_replacement(index + 1, replacement, report);
    }
}

fn refuse(what: &Key, reason: String, remedy: &str, report: &mut Report) {
    report.refusals.push(Refused { what: what.name(), reason, remedy: remedy.to_owned() });
}

fn of_sets(n: usize, level: &Level, step: &Step, base: u64, report: &mut Report) {
    let Some(geometry) = level.built(base) else {
        let (mut reason, remedy) = why_unknown(&level.verdict, n);
        if let Some(fit) = &level.scattered {
            reason = format!("{reason}; by the fit of scattered pages: {}", fit.reason);
        }
        return refuse(&conflict::TIER_WAYS.at([n.into()]), reason, remedy, report);
    };
    let mut ways = number(conflict::TIER_WAYS.at([n.into()]), geometry.ways as f64, "");
    ways.basis = Basis::Fitted;
    ways.notes.push(format!(
        "{} per way; {} in total",
        size(geometry.way_bytes as f64),
        size(geometry.bytes() as f64)
    ));
    if let Some(fit) = level.scattered.as_ref().filter(|_| level.geometry().is_none()) {
        ways.notes.push(format!(
            "by the fit of scattered pages, from the rise of misses with their number: {}",
            fit.reason
        ));
    }
    let (onset, bytes) = (step.capacity.value, geometry.bytes() as f64);
    if n > 1 && level.geometry().is_some() && onset > 1.06 * bytes {
        ways.notes.push(format!(
            "working sets up to {} fit: it is exclusive (holds lines that the nearer cache evicts)",
            size(onset)
        ));
    }
    report.findings.push(ways);
    // The number of sets is way size over line size, so it needs the line.
    let sets = conflict::TIER_SETS.at([n.into()]);
    match level.line() {
        Some(line) => {
            let row = number(sets, (geometry.way_bytes / line) as f64, "");
            report.findings.push(Finding { basis: Basis::Derived, ..row });
        }
        None => refuse(&sets, "its line is unknown".into(), "", report),
    }
}

/// Returns why a level's sets are unknown, and a remedy.
fn why_unknown(verdict: &Verdict, n: usize) -> (String, &'static str) {
    let shown = |all: &[Geometry]| {
        let one = |g: &Geometry| format!("{} ways of {}", g.ways, size(g.way_bytes as f64));
        all.iter().take(4).map(one).collect::<Vec<_>>().join(", or ")
    };
    match verdict {
        Verdict::Several(all) => (format!("the conflicts fit {}", shown(all)), "give it a larger --budget"),
        Verdict::NoModulo => (
            format!(
                "no power-of-two stride causes conflicts: the index is hashed or sliced, or there are more than {} ways",
                MAX_WAYS / 2
            ),
            "",
        ),
        Verdict::None => (
            "no set-associative geometry fits the measured conflicts; likely causes: hashed index, scattered pages, other work on the machine".into(),
            "use a quieter machine, or huge pages",
        ),
        Verdict::Insufficient if n > 1 => (
            "no measured access is known to miss in the nearer caches or TLBs: their sets are unknown, or too few trials were run".into(),
            "give it a larger --budget",
        ),
        Verdict::Insufficient | Verdict::One(_) => ("too few measurements".into(), "give it a larger --budget"),
    }
}

fn of_line(n: usize, level: &Level, report: &mut Report) {
    let Some(line) = level.line() else { return };
    let mut row = number(conflict::TIER_LINE.at([n.into()]), line as f64, "bytes");
    row.basis = Basis::Fitted;
    row.notes.push(if level.line.is_some() {
        "smallest distance at which two addresses map to different sets".into()
    } else {
        "smallest distance at which the second load misses; an adjacent-line prefetch would enlarge it".into()
    });
    report.findings.push(row);
}

fn of_pairs(n: usize, level: &Level, report: &mut Report) {
    let Some(pairs) = &level.pairs else { return };
    for (distance, time, ids) in &pairs.second {
        let mut row = number(conflict::PAIR_TIME.at([n.into(), (*distance).into()]), time.max(0.0), "ns");
        row.trials.clone_from(ids);
        row.count = ids.len() as u64;
        report.findings.push(row);
    }
    // Adjacent-line prefetch reaches farther than the line.
    if let (Some(line), Some(reach)) = (level.line, pairs.reach)
        && reach > line
    {
        let mut row = number(conflict::PAIR_FETCHED_BYTES.at([n.into()]), reach as f64, "bytes");
        row.basis = Basis::Fitted;
        row.notes.push(format!("a load fetches neighbours of its line of {line} bytes up to this distance"));
        report.findings.push(row);
    }
}

/// Deviance of the best policy (mean per query; 1 for the true one) from which "none" is reported. Below it, a
/// disturbance that the calibration missed may be the cause. The largest on a described machine was 10.1, with three
/// ways and page tables in the cache, at a budget of three seconds.
const MAX_DEVIANCE: f64 = 20.0;
/// Number of policies whose deviance is reported, best first.
const MAX_SCORES: usize = 3;

fn of_replacement(n: usize, replacement: &Replacement, report: &mut Report) {
    let what = conflict::TIER_POLICIES.at([n.into()]);
    let (verdict, observations) = match replacement {
        Replacement::Refused(reason) => return refuse(&what, reason.clone(), "", report),
        Replacement::Observed(verdict, observations) => (verdict, observations),
    };
    evicted(n, observations, report);
    if !verdict.decided && verdict.consistent.is_empty() {
        return refuse(
            &what,
            verdict.reason.clone(),
            "give it a larger --budget, or use a quieter machine",
            report,
        );
    }
    let nearest = verdict.scores.first().map_or(0.0, |score| score.deviance_per_query);
    if verdict.consistent.is_empty() && nearest < MAX_DEVIANCE {
        return refuse(&what, verdict.reason.clone(), "use another --seed, or a quieter machine", report);
    }
    let names: Vec<&str> = verdict.consistent.iter().map(|p| p.token()).collect();
    let mut row = text(what, &if names.is_empty() { "none".to_owned() } else { names.join(",") });
    row.basis = Basis::Fitted;
    row.count = observations.iter().map(|o| o.of.iter().map(|&n| u64::from(n)).sum::<u64>()).sum();
    row.notes.push(verdict.reason.clone());
    if observations.is_empty() {
        row.count = verdict.scores.iter().map(|s| s.scored as u64).max().unwrap_or(0);
        row.notes.push("from the times of whole laps: the clock is too coarse for single loads".into());
    }
    let scores = verdict.scores.iter().take(MAX_SCORES);
    let scores = scores.map(|score| (score.policy.token().to_owned(), score.deviance_per_query)).collect();
    row.detail.set(conflict::DEVIANCE, Item::Numbers(scores));
    report.findings.push(row);
}

/// Adds the share of laps in which the line at each position had been evicted after one more load, from the programs
/// that fill a set and load every line once.
fn evicted(n: usize, observations: &[Observation], report: &mut Report) {
    for observation in observations {
        let Some((last, before)) = observation.program.accesses.split_last() else { continue };
        let fresh = before.iter().enumerate().all(|(i, a)| a.block == Block::Tested(i as u16) && !a.timed);
        let (true, true, Block::Tested(requested)) = (fresh, last.timed, last.block) else { continue };
        let Some(loads_ago) =
            before.len().checked_sub(usize::from(requested) + 1).filter(|&loads_ago| loads_ago > 0)
        else {
            continue;
        };
        let key = conflict::EVICTED_SHARE.at([n.into(), loads_ago.into()]);
        if report.findings.iter().any(|f| f.key == key) {
            continue;
        }
        let (missed, of) = (f64::from(observation.missed[0]), f64::from(observation.of[0]));
        let share = missed / of.max(1.0);
        let half_width = 2.0 * ((share * (1.0 - share)).max(1.0 / of.max(1.0)) / of.max(1.0)).sqrt();
        let i = Interval {
            value: share,
            low: (share - half_width).max(0.0),
            high: (share + half_width).min(1.0),
        };
        report.findings.push(measured(key, i, "", of as usize, &[]));
    }
}

/// Returns a verdict for each line size, number of ways and number of sets that a source claims.
pub(crate) fn verdicts(decoded: &Decoded, levels: &[Level], base: u64) -> Vec<Finding> {
    let data: Vec<&Claim> = decoded.claims.iter().filter(|c| c.holds.data()).collect();
    let mut claimed: Vec<u8> = data.iter().map(|c| c.level).collect();
    claimed.sort_unstable();
    claimed.dedup();
    let mut rows = Vec::new();
    for (nth, &n) in claimed.iter().enumerate() {
        let level = levels.get(nth);
        let geometry = level.and_then(|level| level.built(base));
        let line = level.and_then(Level::line);
        let sets = geometry.zip(line).map(|(g, line)| g.way_bytes / line);
        let of = |get: &dyn Fn(&Claim) -> Option<u64>| -> Vec<(&str, u64)> {
            data.iter().filter(|c| c.level == n).filter_map(|c| Some((c.source.token(), get(c)?))).collect()
        };
        rows.extend(verdict(n, (&claims::VERDICT_LEVEL_LINE, "line"), line, &of(&|c| c.line)));
        rows.extend(verdict(
            n,
            (&claims::VERDICT_LEVEL_WAYS, "ways"),
            geometry.map(|g| g.ways),
            &of(&|c| c.ways.map(u64::from)),
        ));
        rows.extend(verdict(n, (&claims::VERDICT_LEVEL_SETS, "sets"), sets, &of(&|c| c.sets)));
    }
    rows
}

fn verdict(
    level: u8,
    (metric, what): (&'static Metric, &str),
    found: Option<u64>,
    claimants: &[(&str, u64)],
) -> Option<Finding> {
    let (_, claimed) = *claimants.first()?;
    let sources: Vec<&str> = claimants.iter().map(|(source, _)| *source).collect();
    let who = sources.join(", ");
    let (word, sentence) = match found {
        None => ("undecided", format!("{who}: {claimed}; not measured")),
        Some(found) if claimants.iter().all(|(_, claimed)| *claimed == found) => {
            ("agrees", format!("measured {found}, as claimed by {who}"))
        }
        Some(found) => {
            let claims_text: Vec<String> =
                claimants.iter().map(|(source, value)| format!("{source} claims {value}")).collect();
            ("disagrees", format!("level {level} {what}: {}, measured {found}", claims_text.join(", ")))
        }
    };
    let mut row = Finding::text(metric.at([u64::from(level).into()]), word);
    row.basis = Basis::Derived;
    if found.is_none() {
        row.detail.set(claims::UNMEASURED, Item::Flag(true));
    }
    row.notes.push(sentence);
    Some(row)
}
