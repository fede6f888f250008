//! Where sources contradict each other.

use fathom_units::exact;

use super::{Claim, Holds, Source};

/// Plain sentences, one for each property of one level on which two sources disagree. A property
/// that a source does not tell is no disagreement, and neither is a level that only one knows.
#[must_use]
pub fn disagreements(claims: &[Claim]) -> Vec<String> {
    let mut said = Vec::new();
    let mut levels: Vec<u8> = claims.iter().map(|claim| claim.level).collect();
    levels.sort_unstable();
    levels.dedup();
    for level in levels {
        for side in [Holds::Data, Holds::Instructions] {
            compare_level(claims, level, side, &mut said);
        }
    }
    compare_smallest_line(claims, &mut said);
    said
}

/// The claims of the level on one side. A unified level counts as the data side, and as the
/// instruction side where some other source splits the level.
fn side_of(claims: &[Claim], level: u8, side: Holds) -> Vec<&Claim> {
    let here = |claim: &&Claim| claim.level == level && claim.source != Source::Ctr;
    let split = claims.iter().filter(here).any(|claim| claim.holds == Holds::Instructions);
    let mut found: Vec<&Claim> = claims
        .iter()
        .filter(here)
        .filter(|claim| {
            claim.holds == side || claim.holds == Holds::Unified && (split || side == Holds::Data)
        })
        .collect();
    found.sort_by_key(|claim| claim.source);
    found.dedup_by_key(|claim| claim.source);
    found
}

fn compare_level(claims: &[Claim], level: u8, side: Holds, said: &mut Vec<String>) {
    let found = side_of(claims, level, side);
    if side == Holds::Data {
        tell(&found, &format!("what level {level} holds"), said, |claim| Some(claim.holds.to_string()));
    }
    let which = if found.iter().all(|claim| claim.holds == Holds::Unified) {
        // Said once, for the data side.
        if side == Holds::Instructions {
            return;
        }
        format!("level {level}")
    } else {
        format!("level {level} ({side})")
    };
    tell(&found, &format!("the size of {which}"), said, |claim| claim.size.map(exact));
    tell(&found, &format!("the line of {which}"), said, |claim| claim.line.map(exact));
    tell(&found, &format!("the ways of {which}"), said, |claim| claim.ways.map(|ways| ways.to_string()));
    tell(&found, &format!("the sets of {which}"), said, |claim| claim.sets.map(|sets| sets.to_string()));
}

/// One sentence when not all that answer say the same.
fn tell(claims: &[&Claim], what: &str, said: &mut Vec<String>, get: impl Fn(&Claim) -> Option<String>) {
    let answers: Vec<(Source, String)> =
        claims.iter().filter_map(|claim| Some((claim.source, get(claim)?))).collect();
    if answers.windows(2).any(|pair| pair[0].1 != pair[1].1) {
        let list: Vec<String> =
            answers.iter().map(|(source, answer)| format!("{source} says {answer}")).collect();
        said.push(format!("The sources disagree about {what}: {}.", list.join(", ")));
    }
}

/// The cache type register tells the smallest line of all levels, so it is held against the
/// smallest that another source claims.
fn compare_smallest_line(claims: &[Claim], said: &mut Vec<String>) {
    for side in [Holds::Data, Holds::Instructions] {
        let of = |claim: &&Claim| claim.holds == side || claim.holds == Holds::Unified;
        let Some(smallest) =
            claims.iter().find(|claim| claim.source == Source::Ctr && of(claim)).and_then(|claim| claim.line)
        else {
            continue;
        };
        for source in Source::ALL {
            let lines =
                claims.iter().filter(|claim| claim.source == source && source != Source::Ctr).filter(of);
            let lines: Vec<(u8, u64)> = lines.filter_map(|claim| Some((claim.level, claim.line?))).collect();
            let Some(least) = lines.iter().map(|(_, line)| *line).min() else { continue };
            // A source that is silent about level 1 may leave out the level with the smallest line.
            let tells_all = lines.iter().any(|(level, _)| *level == 1);
            if least < smallest || least > smallest && tells_all {
                said.push(format!(
                    "The sources disagree about the smallest line ({side}): ctr says {}, {source} says {}.",
                    exact(smallest),
                    exact(least)
                ));
            }
        }
    }
}
