//! What is known of each level, as rows of a report.

use fathom_analysis::claims::{Claim, Decoded};
use fathom_analysis::findings::{Basis, Finding, Item, Key, Metric, Refused, Report};
use fathom_analysis::interval::Interval;
use fathom_analysis::metrics::{claims, conflict};
use fathom_analysis::replacement::{Block, Observation};
use fathom_analysis::sets::{Geometry, MAX_WAYS, Verdict};
use fathom_units::size;

use super::{Level, Replacement, Step};
use crate::reading::{measured, number, text};

/// Rows of every level's sets, ways and line.
pub(super) fn built(steps: &[Step], levels: &[Level], base: u64, report: &mut Report) {
    for (index, level) in levels.iter().enumerate() {
        of_sets(index + 1, level, &steps[index], base, report);
        of_line(index + 1, level, report);
        of_pairs(index + 1, level, report);
    }
}

/// Rows of the levels' replacement.
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
        let (mut reason, remedy) = why_not(&level.verdict, n);
        if let Some(fit) = &level.scattered {
            reason = format!("{reason}; taking its pages to lie anywhere: {}", fit.reason);
        }
        return refuse(&conflict::TIER_WAYS.at([n.into()]), reason, remedy, report);
    };
    let mut ways = number(conflict::TIER_WAYS.at([n.into()]), geometry.ways as f64, "");
    ways.basis = Basis::Fitted;
    ways.notes.push(format!(
        "{} a way; {} in all",
        size(geometry.way_bytes as f64),
        size(geometry.bytes() as f64)
    ));
    if let Some(fit) = level.scattered.as_ref().filter(|_| level.geometry().is_none()) {
        ways.notes.push(format!(
            "its pages lie anywhere, and by how misses rise with their number: {}",
            fit.reason
        ));
    }
    let (onset, own) = (step.capacity.value, geometry.bytes() as f64);
    if n > 1 && level.geometry().is_some() && onset > 1.06 * own {
        ways.notes
            .push(format!("working sets fit up to {}: it holds what the nearer level evicts", size(onset)));
    }
    report.findings.push(ways);
    // Sets are lines of a way: without the line there is no telling.
    let sets = conflict::TIER_SETS.at([n.into()]);
    match level.line() {
        Some(line) => {
            let row = number(sets, (geometry.way_bytes / line) as f64, "");
            report.findings.push(Finding { basis: Basis::Derived, ..row });
        }
        None => refuse(&sets, "its line was not found".into(), "", report),
    }
}

/// Why a level's sets are not told, and what would help.
fn why_not(verdict: &Verdict, n: usize) -> (String, &'static str) {
    let shown = |all: &[Geometry]| {
        let one = |g: &Geometry| format!("{} ways of {}", g.ways, size(g.way_bytes as f64));
        all.iter().take(4).map(one).collect::<Vec<_>>().join(", or ")
    };
    match verdict {
        Verdict::Several(all) => (format!("what conflicts fits {}", shown(all)), "give it a larger --budget"),
        Verdict::NoModulo => (
            format!(
                "lines at no power-of-two stride conflict: not a power-of-two index (hashed or sliced), or more than {} ways",
                MAX_WAYS / 2
            ),
            "",
        ),
        Verdict::None => (
            "no cache of any number of sets and ways conflicts as this one does: its index is hashed, its pages lie apart in memory, or other work was in it".into(),
            "a quieter machine, or huge pages where there were none",
        ),
        Verdict::Insufficient if n > 1 => (
            "what arrives here could not be told: the nearer level's sets are not known, or nothing that was measured speaks of it".into(),
            "give it a larger --budget",
        ),
        Verdict::Insufficient | Verdict::One(_) => ("too little was measured".into(), "give it a larger --budget"),
    }
}

fn of_line(n: usize, level: &Level, report: &mut Report) {
    let Some(line) = level.line() else { return };
    let mut row = number(conflict::TIER_LINE.at([n.into()]), line as f64, "bytes");
    row.basis = Basis::Fitted;
    row.notes.push(if level.line.is_some() {
        "so far apart two addresses fall into different sets".into()
    } else {
        "so far apart the second of two loads is no longer spared; a neighbour that is fetched along would count"
            .into()
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
    // What is fetched along reaches farther than what falls into one set.
    if let (Some(line), Some(reach)) = (level.line, pairs.reach)
        && reach > line
    {
        let mut row = number(conflict::PAIR_REACH.at([n.into()]), reach as f64, "bytes");
        row.basis = Basis::Fitted;
        row.notes.push(format!("a load of one line of {line} bytes brings its neighbours up to here"));
        report.findings.push(row);
    }
}

/// The nearest policy must be so far off (mean deviance of a query; 1 where it is the true one) before none is said
/// to be it: a rejection by less may be another's doing that the calibration did not meet. Of described machines the
/// worst was one of three ways whose page tables pass through them, asked for three seconds: 10.1.
const MAX_DEVIANCE: f64 = 20.0;
/// Policies whose deviance is told, the nearest first.
const SCORES: usize = 3;

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
            "give it a larger --budget, or a quieter machine",
            report,
        );
    }
    let nearest = verdict.scores.first().map_or(0.0, |score| score.deviance_per_query);
    if verdict.consistent.is_empty() && nearest < MAX_DEVIANCE {
        return refuse(&what, verdict.reason.clone(), "give it another --seed, or a quieter machine", report);
    }
    let names: Vec<&str> = verdict.consistent.iter().map(|p| p.token()).collect();
    let mut row = text(what, &if names.is_empty() { "none".to_owned() } else { names.join(",") });
    row.basis = Basis::Fitted;
    row.count = observations.iter().map(|o| o.of.iter().map(|&n| u64::from(n)).sum::<u64>()).sum();
    row.notes.push(verdict.reason.clone());
    if observations.is_empty() {
        row.count = verdict.scores.iter().map(|s| s.scored as u64).max().unwrap_or(0);
        row.notes.push("by the times of whole laps: the clock is too coarse for single loads".into());
    }
    let scores = verdict.scores.iter().take(SCORES);
    let scores = scores.map(|score| (score.policy.token().to_owned(), score.deviance_per_query)).collect();
    row.detail.set(conflict::DEVIANCE, Item::Numbers(scores));
    report.findings.push(row);
}

/// How often the line at each position was gone after one more line was loaded: of the programs that fill a set
/// and touch nothing twice.
fn evicted(n: usize, observations: &[Observation], report: &mut Report) {
    for observation in observations {
        let Some((last, before)) = observation.program.accesses.split_last() else { continue };
        let fresh = before.iter().enumerate().all(|(i, a)| a.block == Block::Tested(i as u16) && !a.timed);
        let (true, true, Block::Tested(requested)) = (fresh, last.timed, last.block) else { continue };
        let Some(behind) = before.len().checked_sub(usize::from(requested) + 1).filter(|&behind| behind > 0)
        else {
            continue;
        };
        let key = conflict::EVICTED_SHARE.at([n.into(), behind.into()]);
        if report.findings.iter().any(|f| f.key == key) {
            continue;
        }
        let (missed, of) = (f64::from(observation.missed[0]), f64::from(observation.of[0]));
        let share = missed / of.max(1.0);
        let off = 2.0 * ((share * (1.0 - share)).max(1.0 / of.max(1.0)) / of.max(1.0)).sqrt();
        let i = Interval { value: share, low: (share - off).max(0.0), high: (share + off).min(1.0) };
        report.findings.push(measured(key, i, "", of as usize, &[]));
    }
}

/// A verdict for each line, number of ways and of sets that somebody claims.
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
            ("agrees", format!("measured {found}, as {who} says"))
        }
        Some(found) => {
            let said: Vec<String> =
                claimants.iter().map(|(source, value)| format!("{source} says {value}")).collect();
            ("disagrees", format!("level {level} {what}: {}, measured {found}", said.join(", ")))
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
