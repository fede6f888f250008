//! Machines that once gave wrong results without a warning: TLBs that hold no huge pages, or pieces of them, tiny
//! caches, coarse clocks.

use fathom_analysis::findings::{Report, WarningKind};
use fathom_analysis::metrics::claims::CLAIMED;
use fathom_analysis::metrics::survey::{GROWS_BEYOND, MAYBE_TABLES};
use fathom_model::description::{
    Description, Holds, Index, Level, Refresh, Replacement, Time, Tlb, Walk, WalkFrom,
};

use crate::comparison::{Verdict, latency_curve};
use crate::entries::number;
use crate::machines::machine;
use crate::survey::{mostly_holds, report_of};
use crate::wide;

/// Returns a machine with levels of 32 and 256 KiB at 4 and 12 cycles, and a first TLB of 48 entries.
pub(crate) fn base() -> Description {
    Description { name: "adversarial".into(), ..machine("s1-8way") }
}

/// Replaces the nearest level's random replacement: under it, exp(-4) of the loads still hit at four times its size, 0.15 cycle of 12.
pub(crate) fn without_late_hits(d: &mut Description) {
    let nearest = d.levels.iter_mut().find(|level| level.holds != Holds::Instructions).unwrap();
    nearest.replacement = Replacement::Lru;
}

fn warned(report: &Report, kind: WarningKind) -> bool {
    report.warnings.iter().any(|w| w.kind == kind)
}

/// Asserts that a numeric finding has an interval that holds the truth.
#[track_caller]
pub(crate) fn holds(report: &Report, name: &str, truth: f64) {
    let found = number(report, name).map(|(f, v)| (f.low.unwrap_or(v), v, f.high.unwrap_or(v)));
    let ok = found.is_some_and(|(low, _, high)| low <= truth && truth <= high);
    assert!(ok, "{name}: {found:?}, expected {truth}; {:?}", report.refusals);
}

/// Asserts the latencies of the tiers in cycles, within 1 %: as many as listed.
#[track_caller]
pub(crate) fn tiers(report: &Report, cycles: &[f64]) {
    let found: Vec<f64> =
        (1..).map_while(|n| number(report, &format!("tier.{n}.latency_cycles")).map(|f| f.1)).collect();
    let close = |(a, b): (&f64, &f64)| (a / b - 1.0).abs() < 0.01;
    assert!(
        found.len() == cycles.len() && found.iter().zip(cycles).all(close),
        "{found:?}, expected {cycles:?}"
    );
}

/// Memory latency of the base machine, cycles.
pub(crate) const MEMORY: f64 = 209.0;

#[test]
fn splintered_huge_pages_are_detected_and_make_no_tier() {
    let mut d = base();
    for tlb in &mut d.tlbs {
        tlb.splits = Some(4096);
    }
    let report = report_of(&d, 1);
    tiers(&report, &[4.0, 12.0, MEMORY]);
    holds(&report, "tier.2.capacity", 262_144.0);
    holds(&report, "tlb.1.entries", 48.0);
    let share = number(&report, "huge.splintered").expect("it is tested").1;
    assert!(share > 0.9 && warned(&report, WarningKind::SplinteredPages), "{share}");
    assert!(number(&report, "walk.share").is_none(), "no time without translation was measured");
}

/// Returns a machine whose first TLB holds huge pages in pieces, and whose second one holds them as a whole.
fn whole_pages_in_the_second_tlb() -> Description {
    let mut d = base();
    let far =
        Tlb { name: "far".into(), entries: 256, ways: 4, latency: Time::cycles(5.0), ..d.tlbs[0].clone() };
    d.tlbs.truncate(1);
    d.tlbs[0].splits = Some(4096);
    d.tlbs.push(far);
    d.walk = Some(Walk { fetches: 1, from: WalkFrom::Memory, latency: Time::cycles(60.0) });
    d
}

/// The pairs tell the walks of base pages, which the second TLB saves for huge ones.
#[test]
fn second_tlb_with_whole_huge_pages_does_not_make_memory_too_fast() {
    let report = report_of(&whole_pages_in_the_second_tlb(), 1);
    holds(&report, "tier.3.latency_cycles", MEMORY);
}

/// The curve does not rise beyond the reach of the second TLB, so its misses are no part of it.
#[test]
fn second_tlb_with_whole_huge_pages_does_not_make_a_cache_too_fast() {
    let mut d = whole_pages_in_the_second_tlb();
    let second = d.levels.last().unwrap();
    let third =
        Level { name: "L3".into(), size: 8 << 20, ways: 16, latency: Time::cycles(24.0), ..second.clone() };
    d.levels.push(third);
    let report = report_of(&d, 1);
    assert!(warned(&report, WarningKind::SplinteredPages), "{:?}", report.warnings);
    tiers(&report, &[4.0, 12.0, 24.0, MEMORY]);
}

/// Lines of 32 bytes in 711 sets: the curve, and the packed halves of the pairs all the more, seem to fit in twice the size. The test for short lines
/// lay beside a packed half, which was no point of the curve then.
#[test]
fn level_of_short_lines_in_an_odd_number_of_sets_has_its_size() {
    let d = wide::clean(390_051);
    assert_eq!((d.levels[1].line, d.levels[1].sets()), (32, 711));
    holds(&report_of(&d, 1), "tier.2.capacity", 455_040.0);
}

/// The scan has one working set in each half of an octave there: the third level's last hits vanish where the fourth one ends.
#[test]
fn level_whose_plateau_the_scan_missed_is_a_tier() {
    let mut d = base();
    without_late_hits(&mut d);
    let second = d.levels.last().unwrap().clone();
    let level = |name: &str, size: u64, ways: u32, cycles: f64, replacement: Replacement| Level {
        name: name.into(),
        size,
        ways,
        latency: Time::cycles(cycles),
        replacement,
        ..second.clone()
    };
    d.levels.push(level("L3", 4 << 20, 16, 16.0, Replacement::Random));
    d.levels.push(level("L4", 10 << 20, 5, 50.0, Replacement::Lru));
    let report = report_of(&d, 1);
    let count = (1..).take_while(|n| number(&report, &format!("tier.{n}.latency")).is_some()).count();
    assert_eq!(count, 5, "{:?}", report.findings.iter().map(|f| f.name()).collect::<Vec<_>>());
    holds(&report, "tier.4.capacity", f64::from(10 << 20));
}

#[test]
fn whole_huge_pages_are_not_called_splintered() {
    let report = report_of(&base(), 1);
    let share = number(&report, "huge.splintered").expect("it is tested").1;
    assert!(share < 0.05 && !warned(&report, WarningKind::SplinteredPages), "{share}");
    assert!(number(&report, "walk.share").is_some());
}

#[test]
fn first_tlb_without_huge_pages_does_not_slow_the_curve() {
    let mut d = base();
    d.tlbs[0].pages = vec![4096];
    let report = report_of(&d, 1);
    assert!(warned(&report, WarningKind::SlowHugePages), "{:?}", report.warnings);
    tiers(&report, &[4.0, 12.0, MEMORY]);
    holds(&report, "tlb.1.entries", 48.0);
    holds(&report, "tier.1.capacity", 32_768.0);
}

/// The pairs that show it next to the end of the first TLB have lines in two caches.
#[test]
fn pieces_of_huge_pages_are_found_far_beyond_the_first_tlb() {
    let mut d = base();
    let first = d.levels.iter_mut().find(|level| level.holds != Holds::Instructions).unwrap();
    (first.size, first.ways) = (6 << 10, 6);
    d.levels.last_mut().unwrap().size = 16 << 20;
    let last = d.levels.last().unwrap().clone();
    let second =
        Level { name: "L2b".into(), size: 20 << 10, ways: 4, latency: Time::cycles(8.0), ..last.clone() };
    d.levels.insert(d.levels.len() - 1, second);
    d.tlbs = vec![
        Tlb { entries: 64, ways: 4, pages: vec![4096, 2 << 20], splits: Some(4096), ..d.tlbs[0].clone() },
        Tlb {
            name: "T2".into(),
            entries: 856,
            ways: 4,
            latency: Time::cycles(5.0),
            pages: vec![4096, 2 << 20],
            splits: Some(4096),
            ..d.tlbs[0].clone()
        },
    ];
    // With three of eight seeds no point is on the plateau of the level of 20 KiB.
    let report = report_of(&d, 2);
    assert!(warned(&report, WarningKind::SplinteredPages), "{:?}", report.warnings);
    tiers(&report, &[4.0, 8.0, 12.0, MEMORY]);
}

/// Lines of 256 bytes are found before any point of the curve, which has twice the spacing from the start then.
#[test]
fn first_tlb_without_huge_pages_does_not_slow_the_curve_of_long_lines() {
    let mut d = base();
    d.levels.iter_mut().for_each(|level| level.line = 256);
    d.tlbs[0].pages = vec![4096];
    let report = report_of(&d, 1);
    assert!(warned(&report, WarningKind::SlowHugePages), "{:?}", report.warnings);
    tiers(&report, &[4.0, 12.0, MEMORY]);
}

/// A lap of more than it holds would take two fifths of the accesses.
#[test]
fn memory_beyond_a_cache_of_512_mib_is_a_tier() {
    let mut d = base();
    let last = d.levels.last().unwrap();
    let far =
        Level { name: "L3".into(), size: 512 << 20, ways: 16, latency: Time::cycles(40.0), ..last.clone() };
    d.levels.push(far);
    d.memory.size = 8 << 30;
    let report = report_of(&d, 1);
    tiers(&report, &[4.0, 12.0, 40.0, MEMORY]);
    holds(&report, "tier.3.capacity", f64::from(512 << 20));
    let (memory, _) = number(&report, "tier.4.latency").expect("memory");
    assert!(memory.notes.iter().any(|note| note.contains("first loads of their lines")), "{memory:?}");
}

/// The second level has hits up to four times its size, where the third ends.
#[test]
fn level_without_a_plateau_is_a_tier() {
    let mut d = base();
    without_late_hits(&mut d);
    let second = d.levels.last_mut().unwrap();
    (second.replacement, second.ways) = (Replacement::Random, 4);
    let far = Level {
        name: "L3".into(),
        size: 1 << 20,
        ways: 4,
        latency: Time::cycles(21.0),
        replacement: Replacement::Lru,
        ..second.clone()
    };
    d.levels.push(far);
    let report = report_of(&d, 1);
    let found = (1..).take_while(|n| number(&report, &format!("tier.{n}.latency")).is_some()).count();
    assert_eq!(found, 4);
    holds(&report, "tier.2.capacity", 262_144.0);
    holds(&report, "tier.3.capacity", f64::from(1 << 20));
    holds(&report, "tier.3.latency_cycles", 21.0);
}

#[test]
fn two_entries_for_huge_pages_do_not_slow_memory() {
    let mut d = base();
    for tlb in &mut d.tlbs {
        tlb.pages = vec![4096];
    }
    d.tlbs.push(Tlb {
        name: "huge".into(),
        entries: 2,
        ways: 2,
        pages: vec![2 << 20],
        latency: Time::cycles(0.0),
        replacement: Replacement::Lru,
        ..d.tlbs[0].clone()
    });
    let report = report_of(&d, 1);
    tiers(&report, &[4.0, 12.0, MEMORY]);
}

#[test]
fn first_cache_of_512_bytes_is_a_tier() {
    let mut d = base();
    let l1 = &mut d.levels[0];
    (l1.size, l1.ways) = (512, 2);
    let report = report_of(&d, 1);
    tiers(&report, &[4.0, 12.0, MEMORY]);
    holds(&report, "tier.1.capacity", 512.0);
}

#[test]
fn coarse_clock_gives_all_tiers_or_a_warning() {
    let mut d = base();
    (d.timer.clock_hz, d.timer.resolution) = (1e6, 1);
    let report = report_of(&d, 1);
    let found = (1..).take_while(|n| number(&report, &format!("tier.{n}.latency")).is_some()).count();
    let doubted =
        [WarningKind::PartialRange, WarningKind::NoFinalPlateau].iter().any(|kind| warned(&report, *kind));
    assert!(found == 3 || doubted, "{found} tiers, {:?}", report.warnings);
}

/// Returns the machine with lines of this length in both levels, and a second level of 5 ways of 384 sets.
fn three_hundred_and_eighty_four_sets(line: u64) -> Description {
    let mut d = base();
    d.name = format!("adversarial-{line}");
    d.levels.iter_mut().for_each(|level| level.line = line);
    let level = d.levels.last_mut().unwrap();
    (level.ways, level.size) = (5, 384 * 5 * line);
    without_late_hits(&mut d);
    d
}

#[test]
fn short_lines_in_any_number_of_sets_do_not_double_a_capacity() {
    for line in [32, 64] {
        let report = report_of(&three_hundred_and_eighty_four_sets(line), 1);
        tiers(&report, &[4.0, 12.0, MEMORY]);
        holds(&report, "tier.1.capacity", 32_768.0);
        holds(&report, "tier.2.capacity", (384 * 5 * line) as f64);
    }
}

/// The largest working sets that fit are an octave apart, where the test for short lines needs one near the end.
#[test]
fn short_lines_of_a_large_hashed_level_are_tested_near_its_end() {
    let mut d = base();
    d.memory.size = 2 << 30;
    d.levels.iter_mut().for_each(|level| level.line = 32);
    let level = d.levels.last_mut().unwrap();
    (level.size, level.ways, level.index) = (32 << 20, 1, Index::Hashed);
    let report = report_of(&d, 1);
    holds(&report, "tier.2.capacity", f64::from(32 << 20));
}

/// Two of four loads of the test for short lines hit in a line that the test itself has brought.
#[test]
fn test_for_short_lines_is_no_point_of_the_curve() {
    let mut d = base();
    d.levels.iter_mut().for_each(|level| level.line = 128);
    without_late_hits(&mut d);
    let report = report_of(&d, 1);
    tiers(&report, &[4.0, 12.0, MEMORY]);
    let at = |bytes: u64| number(&report, &format!("latency.{bytes}.cycles")).map(|f| f.1);
    let in_second: Vec<f64> = (128 << 10..=256 << 10).step_by(64).filter_map(at).collect();
    assert!(in_second.len() > 4 && in_second.iter().all(|cycles| *cycles > 11.9), "{in_second:?}");
}

/// Accesses that take a little longer than a refresh meet it at one phase. The mean over all phases is 1.7 % less.
#[test]
fn chain_in_step_with_the_refresh_takes_what_is_expected() {
    let mut d = base();
    d.memory.pages = vec![4096];
    d.tlbs.clear();
    d.walk = None;
    d.memory.latency = Time::ns(314.0);
    d.memory.spread = Time::ns(1.9);
    d.memory.refresh = Some(Refresh { every: Time::ns(7800.0), takes: Time::ns(296.4) });
    d.memory.rows = None;
    let report = report_of(&d, 1);
    let wrong: Vec<_> =
        latency_curve(&d, &report).into_iter().filter(|row| row.verdict != Verdict::Right).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// The scan ends at 256 MiB, and no DRAM is as fast as this level.
#[test]
fn last_level_larger_than_the_scan_is_not_called_memory() {
    let mut d = base();
    d.memory.size = 4 << 30;
    d.levels.last_mut().unwrap().size = 256 << 20;
    let report = report_of(&d, 1);
    let (last, _) = (1..).map_while(|n| number(&report, &format!("tier.{n}.latency"))).last().expect("tiers");
    let found = last.name() == "tier.3.latency" && number(&report, "tier.2.capacity").is_some();
    let doubted = last.notes.iter().any(|note| note.contains("a cache whose end was not reached"));
    assert!(found || doubted, "{last:?}");
    // Where the curve ends on a rise, its last latency is a lower bound.
    assert_eq!(last.high.is_none(), warned(&report, WarningKind::NoFinalPlateau), "{last:?}");
}

/// Memory does not suffice for working sets that the level cannot hold.
#[test]
fn claimed_level_that_is_not_exceeded_is_said() {
    let mut d = base();
    d.memory.size = 2 << 30;
    let level = d.levels.last_mut().unwrap();
    (level.size, level.ways) = (896 << 20, 14);
    let report = report_of(&d, 1);
    let (last, _) = (1..).map_while(|n| number(&report, &format!("tier.{n}.latency"))).last().expect("tiers");
    assert_eq!(last.detail.number(CLAIMED), Some(f64::from(896 << 20)), "{last:?}");
    assert!(warned(&report, WarningKind::PartialRange), "{:?}", report.warnings);
}

/// Walks read their tables in the second level, which the tables of thousands of pages leave.
#[test]
fn page_tables_that_leave_a_cache_are_no_tlb() {
    for (kib, line) in [(64, 64), (72, 128), (144, 128)] {
        let mut d = base();
        d.name = format!("tables-{kib}-{line}");
        d.tlbs.truncate(1);
        d.levels.iter_mut().for_each(|level| level.line = line);
        let level = d.levels.last_mut().unwrap();
        (level.size, level.ways) = (kib << 10, 16);
        d.walk.as_mut().unwrap().from = WalkFrom::Level(level.name.clone());
        let report = report_of(&d, 1);
        holds(&report, "tlb.1.entries", 48.0);
        // By passes over memory whose times vary by 15 ns the last rise is as fast as that of a TLB: it has the note.
        let may_be_noted = kib == 144;
        let second = number(&report, "tlb.2.entries");
        let second = second.filter(|(row, _)| !(may_be_noted && row.detail.flag(MAYBE_TABLES)));
        assert!(second.is_none(), "{kib} KiB, lines of {line} B: {second:?}");
        let (walk, _) = number(&report, "walk.latency").expect("walks cost");
        assert!(walk.detail.number(GROWS_BEYOND).is_some(), "{walk:?}");
    }
}

/// A TLB of 64 entries holds pieces of huge pages, of which lines in 16 sets at random miss more and more.
#[test]
fn pieces_of_huge_pages_in_the_last_tlb_are_found() {
    let report = report_of(&wide::clean(200_005), 1);
    assert!(number(&report, "tlb.huge.pages").is_none() && number(&report, "tlb.huge.1.entries").is_none());
    let refused = report.refusals.iter().find(|refused| refused.what == "TLBs for huge pages");
    assert!(refused.is_some_and(|refused| refused.reason.contains("in pieces of base pages")));
    assert!(number(&report, "huge.splintered").is_some_and(|(_, share)| share > 0.9));
}

/// Huge pages are translated in pieces, and the window of the latency curve has more of them than the first TLB.
#[test]
fn latencies_with_a_translation_that_is_not_known_hold_the_truth() {
    holds(&report_of(&wide::clean(200_008), 1), "tier.2.latency_cycles", 6.031_25);
}

/// Huge pages are translated in pieces in a first TLB of 10 entries: windows of 16 pages would miss in it, and that rise is no cache's.
#[test]
fn small_first_tlb_with_pieces_of_huge_pages_is_no_level() {
    let report = report_of(&wide::clean(390_020), 1);
    assert!(warned(&report, WarningKind::SplinteredPages), "{:?}", report.warnings);
    holds(&report, "tier.2.capacity", 189_312.0);
    assert!(number(&report, "tier.5.latency").is_none());
}

/// A clock of 1 MHz leaves few pairs: the end of the second TLB, at 348 pages, was taken for that of a cache of 2 MiB.
#[test]
fn translation_between_distant_pairs_is_no_end_of_a_cache() {
    holds(&report_of(&wide::clean(390_026), 1), "tier.4.capacity", 2_097_152.0);
}

/// 10 entries in two ways: misses appear between 10 and 16 pages, with one pair between.
#[test]
fn one_rise_in_two_steps_is_one_tlb() {
    let report = report_of(&wide::clean(200_023), 1);
    holds(&report, "tlb.1.entries", 10.0);
    holds(&report, "tlb.2.entries", 76.0);
}

/// A TLB of 154 sets, of which pages 8 apart use half.
#[test]
fn tlb_whose_sets_are_no_power_of_two_is_no_page_table() {
    holds(&report_of(&wide::clean(190_043), 1), "tlb.2.entries", 308.0);
}

/// The third of four levels replaces at random, and the first two rise as no shape does.
#[test]
fn level_with_a_plateau_between_unusual_rises_is_found() {
    holds(&report_of(&wide::clean(190_047), 1), "tier.3.capacity", 65_536.0);
}

/// A level of lines of 64 bytes before one of 256: with twice the spacing it seems to hold twice its size.
#[test]
fn short_lines_beside_long_ones_do_not_double_a_capacity() {
    holds(&report_of(&wide::clean(560_014), 1), "tier.2.capacity", 268_928.0);
}

/// 512 lines 11 or 13 pages and 256 bytes apart are in 77 and 161 of its 542 sets.
#[test]
fn tlb_with_pages_in_few_sets_is_no_page_table() {
    holds(&report_of(&wide::clean(560_080), 1), "tlb.2.entries", 1084.0);
}

/// No cache holds the lines of the test for pieces of huge pages in all arrangements, but pieces add far more than any of them.
#[test]
fn pieces_of_huge_pages_are_found_in_several_caches() {
    holds(&report_of(&wide::clean(520_007), 1), "tlb.1.entries", 32.0);
}

/// Windows of the curve read a line of page tables once for four pages, pairs once for each: 2.5 to 3.5 ns in a load of the curve (eight
/// surveys; its trials take 196.2 or 196.9 ns), 6.2 by the pairs.
#[test]
fn translation_of_the_last_tier_is_that_of_the_curves_order() {
    let report = report_of(&wide::clean(571_146), 1);
    holds(&report, "tier.4.latency_cycles", 182.33);
    let translation = number(&report, "bias.walk").unwrap().1;
    assert!((2.4..3.8).contains(&translation), "{translation} ns in a load");
}

/// Rises of pairs with a plateau between them: one slow rise explained both.
#[test]
fn plateaus_of_pairs_separate_tlbs() {
    let report = report_of(&wide::clean(571_181), 1);
    holds(&report, "tlb.1.entries", 48.0);
    holds(&report, "tlb.2.entries", 720.0);
}

/// Rows of memory are closed from 33 pages on, and a TLB of 48 entries ends: more of the pages hit than 32 entries hold.
#[test]
fn hits_of_a_lap_show_that_a_tlb_has_more_entries() {
    mostly_holds(&wide::clean(571_211), "tlb.1.entries", 48.0);
}

/// Pairs on two to three times the entries of a TLB conflict in a cache.
#[test]
fn penalty_is_no_more_than_on_more_pages() {
    holds(&report_of(&wide::clean(570_856), 1), "tlb.1.penalty", 141.7);
}

/// Loads of pairs in memory are in step with its refreshes.
#[test]
fn penalty_by_loads_in_step_with_refreshes_has_their_error() {
    holds(&report_of(&wide::clean(572_100), 1), "tlb.1.penalty", 35.43);
}

/// Two lines of each page just fill the last cache on the pages that the second TLB holds: without huge pages, and in scattered frames.
#[test]
fn tlbs_that_end_with_a_cache_are_found_in_memory() {
    holds(&report_of(&wide::clean(571_427), 1), "tlb.2.entries", 300.0);
    let report = report_of(&wide::clean(571_451), 1);
    holds(&report, "tlb.2.entries", 948.0);
    holds(&report, "tlb.2.penalty", 13.63);
}
