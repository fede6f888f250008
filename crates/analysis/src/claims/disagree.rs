//! Contradictions between sources.

use fathom_units::exact;

use super::{Claim, Holds, Source};

/// Returns one sentence for each property of a level on which two sources disagree. A property that a source does not
/// state is not a disagreement, nor is a level that only one source has.
#[must_use]
pub fn disagreements(claims: &[Claim]) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut levels: Vec<u8> = claims.iter().map(|claim| claim.level).collect();
    levels.sort_unstable();
    levels.dedup();
    for level in levels {
        for side in [Holds::Data, Holds::Instructions] {
            compare_level(claims, level, side, &mut sentences);
        }
    }
    compare_smallest_line(claims, &mut sentences);
    sentences
}

/// Returns the claims of the level on one side. A unified level counts as the data side, and also as the instruction
/// side if some other source splits the level.
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

fn compare_level(claims: &[Claim], level: u8, side: Holds, sentences: &mut Vec<String>) {
    let found = side_of(claims, level, side);
    if side == Holds::Data {
        add_disagreement(&found, &format!("what level {level} holds"), sentences, |claim| {
            Some(claim.holds.to_string())
        });
    }
    let which = if found.iter().all(|claim| claim.holds == Holds::Unified) {
        // Added once, for the data side.
        if side == Holds::Instructions {
            return;
        }
        format!("level {level}")
    } else {
        format!("level {level} ({side})")
    };
    add_disagreement(&found, &format!("the size of {which}"), sentences, |claim| claim.size.map(exact));
    add_disagreement(&found, &format!("the line of {which}"), sentences, |claim| claim.line.map(exact));
    add_disagreement(&found, &format!("the ways of {which}"), sentences, |claim| {
        claim.ways.map(|ways| ways.to_string())
    });
    add_disagreement(&found, &format!("the sets of {which}"), sentences, |claim| {
        claim.sets.map(|sets| sets.to_string())
    });
}

/// Adds one sentence if the sources that state the property differ.
fn add_disagreement(
    claims: &[&Claim],
    what: &str,
    sentences: &mut Vec<String>,
    get: impl Fn(&Claim) -> Option<String>,
) {
    let values: Vec<(Source, String)> =
        claims.iter().filter_map(|claim| Some((claim.source, get(claim)?))).collect();
    if values.windows(2).any(|pair| pair[0].1 != pair[1].1) {
        let list: Vec<String> =
            values.iter().map(|(source, value)| format!("{source} says {value}")).collect();
        sentences.push(format!("The sources disagree about {what}: {}.", list.join(", ")));
    }
}

/// The cache type register gives the smallest line of all levels, so it is compared with the smallest line that another
/// source claims.
fn compare_smallest_line(claims: &[Claim], sentences: &mut Vec<String>) {
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
            let Some(min) = lines.iter().map(|(_, line)| *line).min() else { continue };
            // A source without level 1 may leave out the level with the smallest line.
            let complete = lines.iter().any(|(level, _)| *level == 1);
            if min < smallest || min > smallest && complete {
                sentences.push(format!(
                    "The sources disagree about the smallest line ({side}): ctr says {}, {source} says {}.",
                    exact(smallest),
                    exact(min)
                ));
            }
        }
    }
}
