//! Levels measured in base pages in random frames: sets and ways are inferred from the misses by number of pages, or
//! refused.

use fathom_analysis::findings::{Report, Value};
use fathom_model::description::{Description, Frames, Replacement};

use crate::adversarial::holds;
use crate::machines::machine;
use crate::sessions::{Experiment, report_of};
use crate::wide;

/// Returns a machine with scattered base pages only. A way of its first level is a page; its second level has `ways`
/// ways of `colours` page sets.
fn described(ways: u32, colours: u64, replacement: Replacement) -> Description {
    let mut d = machine("bcm2837");
    d.name = format!("{ways} ways of {colours} page sets, {}", replacement.word());
    (d.memory.frames, d.memory.page_map) = (Frames::Scattered, false);
    d.memory.pages = vec![4096];
    for tlb in &mut d.tlbs {
        tlb.pages = vec![4096];
    }
    d.levels.iter_mut().filter(|l| l.name.starts_with("L1")).for_each(|l| (l.size, l.ways) = (32 << 10, 8));
    let level = d.levels.last_mut().unwrap();
    (level.size, level.ways, level.replacement) = (4096 * colours * u64::from(ways), ways, replacement);
    d
}

fn number(report: &Report, name: &str) -> Option<u64> {
    match report.findings.iter().find(|f| f.name() == name)?.value {
        Value::Number(v) => Some(v as u64),
        Value::Text(_) => None,
    }
}

/// Returns the numbers of right, wrong and refused results, and prints them.
fn judged(machines: &[(u32, u64, Replacement)], seeds: std::ops::Range<u64>) -> (usize, usize, usize) {
    let (mut right, mut wrong, mut refused) = (0, 0, 0);
    for &(ways, colours, replacement) in machines {
        let d = described(ways, colours, replacement);
        for seed in seeds.clone() {
            let report = report_of(Experiment::Conflict, &d, seed);
            let found = number(&report, "tier.2.ways").zip(number(&report, "tier.2.sets"));
            let truth = (u64::from(ways), d.levels.last().unwrap().sets());
            let reason = report.refusals.iter().find(|r| r.what == "tier.2.ways").map(|r| r.reason.as_str());
            println!("{}: {found:?} of {truth:?} {}", d.name, reason.unwrap_or(""));
            match found {
                Some(found) if found == truth => right += 1,
                Some(_) => wrong += 1,
                None => refused += 1,
            }
        }
    }
    println!("{right} right, {wrong} wrong, {refused} refused");
    (right, wrong, refused)
}

#[test]
#[ignore = "the big oracle: scripts/test --full"]
fn ways_and_page_sets_are_inferred_or_refused() {
    let machines = [(16, 8, Replacement::Random), (4, 32, Replacement::Lru), (12, 8, Replacement::Nru)];
    let (right, wrong, refused) = judged(&machines, 1..2);
    assert!(wrong == 0 && right + 1 >= machines.len(), "{right} right, {wrong} wrong, {refused} refused");
}

#[test]
#[ignore = "the big oracle: scripts/test --full"]
fn scattered_levels_are_never_wrong() {
    let machines = [
        (16, 8, Replacement::Lru),
        (8, 16, Replacement::Random),
        (8, 8, Replacement::TreePlru),
        (4, 32, Replacement::Lru),
        (16, 16, Replacement::Lru),
        (2, 32, Replacement::Lru),
        (12, 8, Replacement::Nru),
        (16, 8, Replacement::Random),
    ];
    let (right, wrong, refused) = judged(&machines, 1..4);
    assert!(wrong == 0 && 3 * right >= refused, "{right} right, {wrong} wrong, {refused} refused");
}

/// Frames in order, and a last level with a hashed index: only there a working set takes longer in some placements.
#[test]
fn hashed_level_does_not_make_frames_random() {
    let d = wide::clean(490_026);
    assert_eq!(d.memory.frames, Frames::Contiguous);
    holds(&report_of(Experiment::Survey, &d, 1), "tier.3.capacity", 196_608.0);
}
