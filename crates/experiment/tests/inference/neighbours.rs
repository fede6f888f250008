//! Machines whose neighbours, which use them in bursts, once made results wrong.

use fathom_analysis::findings::{Report, WarningKind};

use crate::adversarial::holds;
use crate::entries::number;
use crate::survey::report_of;
use crate::wide;

/// Returns the number of tiers.
fn tiers(report: &Report) -> usize {
    (1..).map_while(|n| number(report, &format!("tier.{n}.latency"))).count()
}

/// Lines of 32 bytes in an odd number of sets: the level seems to hold twice its size.
#[test]
fn short_lines_beside_neighbours_do_not_double_a_capacity() {
    let d = wide::noisy(520_013);
    assert_eq!((d.levels[1].line, d.levels[1].size, d.neighbours.len()), (32, 410_112, 3));
    holds(&report_of(&d, 1), "tier.2.capacity", 410_112.0);
}

/// Lines of 256 bytes, which beside neighbours are found after three rounds: packed halves of pairs in huge pages that the first TLB does not hold were
/// taken for points of the curve.
#[test]
fn first_tlb_without_huge_pages_beside_neighbours_does_not_slow_a_curve_that_begins_again() {
    let d = wide::noisy(520_058);
    assert!(d.levels.iter().any(|level| level.line == 256) && d.tlbs[0].pages == [4096]);
    let report = report_of(&d, 1);
    assert!(report.warnings.iter().any(|w| w.kind == WarningKind::SlowHugePages), "{:?}", report.warnings);
    holds(&report, "tier.1.latency_cycles", 5.0625);
    holds(&report, "tlb.1.entries", 64.0);
}

/// Memory takes up to 2.85 times as long in bursts, and the largest working sets have few trials.
#[test]
fn burst_at_the_largest_working_sets_is_no_level() {
    let d = wide::noisy(520_039);
    let report = report_of(&d, 1);
    assert_eq!(tiers(&report), 4);
    holds(&report, "tier.4.latency", d.memory.latency.in_ns(d.core.clock_hz));
}

/// Lines of 256 bytes, neighbours that take ways, slow memory down and slow the clock down: two loads of a line that hit in the second
/// made memory 0.6 times as slow.
#[test]
fn lines_of_256_bytes_beside_neighbours_do_not_halve_memory() {
    let d = wide::noisy(180_009);
    assert!(d.levels.iter().any(|level| level.line == 256) && !d.neighbours.is_empty());
    let report = report_of(&d, 1);
    let memory = report.findings.iter().rfind(|f| f.name().ends_with(".latency") && f.unit == "ns");
    let found = memory.and_then(|f| f.finite()).unwrap();
    let truth = d.memory.latency.in_ns(d.core.clock_hz);
    assert!((0.9..1.15).contains(&(found / truth)), "{found} ns of {truth}");
}

/// A clock of 1 MHz and lines of 256 bytes: with 250 steps of the clock in each trial, the budget ended before the curve that begins again.
#[test]
fn coarse_clock_beside_neighbours_leaves_time_for_the_curve() {
    let d = wide::noisy(560_009);
    assert!(d.timer.clock_hz == 1e6 && d.levels.iter().any(|level| level.line == 256));
    assert_eq!(tiers(&report_of(&d, 1)), 3);
}

/// Lines of 32 bytes in a hashed level of 64 MiB, which is too large for the test for short lines.
#[test]
fn large_level_that_may_have_short_lines_may_hold_half() {
    let d = wide::noisy(560_487);
    assert_eq!((d.levels[3].line, d.levels[3].size), (32, 64 << 20));
    let report = report_of(&d, 1);
    holds(&report, "tier.4.capacity", f64::from(64 << 20));
    assert!(
        number(&report, "tier.4.capacity")
            .is_some_and(|(row, _)| row.notes.iter().any(|note| note.contains("may hold half")))
    );
}
