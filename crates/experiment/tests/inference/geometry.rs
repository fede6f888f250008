//! The oracle of geometry: runs the experiment on the model of every description and compares the inferred geometry of
//! each level and each TLB.
//!
//! Right values are: the line, the ways and the sets of every level that the experiment reports, a set of replacement
//! policies that includes the described one, and the entries, ways and sets of the TLBs. Refused values are counted
//! separately; reported values must be right.
//!
//! `ORACLE_REFUSED=1` prints refused values.

use std::sync::Mutex;

use fathom_analysis::findings::Report;
use fathom_model::description::Description;

use crate::built::{Built, judge};
use crate::entries::number;
use crate::full::full;
use crate::machines::{committed, machine, randoms};
use crate::sessions::{Experiment, for_each, measured, report_of};
use crate::wide;

/// Returns the report of a conflict experiment.
fn geometry_of(d: &Description) -> Report {
    report_of(Experiment::Conflict, d, 1)
}

/// Measures all machines; prints and returns the results.
fn oracle(what: &str, all: &[Description]) -> Built {
    let sum = Mutex::new(Built::default());
    for_each(all, |d| {
        let one = measured(Experiment::Conflict, d, 1, |measured| judge(d, &measured.report));
        sum.lock().unwrap().take(one);
    });
    let sum = sum.into_inner().unwrap();
    sum.print(what);
    sum
}

/// Asserts that at least `percent` of reported values are right, and that more than half are reported; of replacement
/// policies a fifth (39 % of 200 machines), because only the two nearest levels are measured, and no level after an
/// undecided one. No ways and sets of TLBs may be wrong, and at least `ways` are reported.
fn assert_right(built: &Built, percent: usize, ways: usize) {
    assert!(built.tlbs.wrong.is_empty(), "{:#?}", built.tlbs.wrong);
    let only = std::env::var_os("ORACLE_ONLY").is_some();
    assert!(built.tlbs.right >= ways || only, "only {} TLBs' ways were decided", built.tlbs.right);
    for (of, tally) in built.kinds() {
        assert!(tally.right * 100 >= tally.decided() * percent, "{of}: {:#?}", tally.wrong);
        let (decided, refused) = (tally.decided(), tally.refused.len());
        let minimum_ratio = if of == "replacement" { 5 } else { 2 };
        let enough = minimum_ratio * decided >= decided + refused;
        assert!(enough || only, "{of}: {decided} decided, {refused} refused");
    }
}

#[test]
fn geometry_of_committed_machines_with_small_last_levels() {
    // The default tier takes every second machine.
    let step = if full() { 1 } else { 2 };
    let machines: Vec<_> = committed(512 << 10).into_iter().step_by(step).collect();
    let built = oracle("committed machines, last level up to 512 KiB", &machines);
    assert_right(&built, 100, 5 / step);
}

#[test]
#[ignore = "the big oracle: scripts/test --full"]
fn geometry_of_all_committed_machines() {
    let built = oracle("all committed machines", &committed(u64::MAX));
    assert_right(&built, 100, 20);
}

#[test]
fn geometry_of_random_machines() {
    let (count, ways) = if full() { (200, 100) } else { (4, 2) };
    let built = oracle("random machines", &randoms(count));
    assert_right(&built, 97, ways);
}

/// Three lines 32 KiB apart miss in a first TLB of 8 sets and 2 ways that splits huge pages.
#[test]
fn misses_of_a_tlb_that_splits_huge_pages_are_no_ways_of_a_cache() {
    let report = geometry_of(&wide::clean(570_213));
    assert_eq!(number(&report, "tier.1.ways").map(|(_, ways)| ways), Some(8.0));
}

/// 20 ways of 10 sets have all conflicts of 4 ways of 50 up to 40 pages: 50 sets are no candidate.
#[test]
fn sets_of_a_tlb_that_are_no_candidate_are_refused() {
    let report = geometry_of(&wide::clean(570_140));
    assert_eq!(number(&report, "tlb.2.ways"), None);
    assert_eq!(number(&report, "tlb.1.ways").map(|(_, ways)| ways), Some(2.0));
}

/// Lines of 256 bytes: cells of a control that are 64 bytes apart meet in the first level, and too much was subtracted.
#[test]
fn control_for_translation_has_each_cell_in_another_line() {
    let report = report_of(Experiment::Survey, &wide::clean(570_442), 1);
    let ways = number(&report, "tier.2.ways").map(|(_, ways)| ways);
    assert!(ways.is_none_or(|ways| ways == 2.0), "{ways:?}");
}

/// 7 ways of 6.5 KiB have the conflicts of 4 ways of 11.5, but not their size: the level ends half a per cent beyond.
#[test]
fn sets_and_ways_of_another_size_than_the_level_are_refused() {
    let report = report_of(Experiment::Survey, &wide::clean(570_385), 1);
    assert_eq!(number(&report, "tier.2.ways"), None);
    assert_eq!(number(&report, "tier.1.ways").map(|(_, ways)| ways), Some(8.0));
}

#[test]
fn geometry_check_finds_a_wrong_description() {
    // Checks that the check can fail.
    let mut other = machine("s1-8way");
    let report = geometry_of(&other);
    assert!(!judge(&machine("bcm2837"), &report).caches.wrong.is_empty());
    assert!(judge(&other, &report).tlbs.wrong.is_empty());
    other.tlbs[0].ways = 8;
    assert!(!judge(&other, &report).tlbs.wrong.is_empty());
}

#[test]
fn conflicts_beyond_memory_size_are_refused_and_others_measured() {
    // Large arrangements and huge pages are refused; that there are huge pages is still known.
    let mut d = machine("cortex-a8");
    d.memory.size = 8 << 20;
    let report = geometry_of(&d);
    assert!(report.refusals.iter().any(|r| r.reason.contains("do not fit")), "{:?}", report.refusals);
    let built = judge(&d, &report);
    assert!(built.caches.right >= 4 && built.caches.wrong.is_empty(), "{built:?}");
}
