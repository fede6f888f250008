//! Machines without neighbours whose curves were once read wrongly.

use crate::adversarial::holds;
use crate::survey::{mostly_holds, report_of};
use crate::wide;

/// A hashed level of 6 MiB: a working set that is larger by 0.6 % misses in four of its windows, and a third of a lap may have none of them.
#[test]
fn part_of_a_lap_does_not_hide_misses() {
    holds(&report_of(&wide::clean(570_035), 1), "tier.3.capacity", 6_291_456.0);
}

/// A first level in random frames, whose overfull sets are in few windows.
#[test]
fn part_of_a_lap_in_random_frames_shows_a_first_level() {
    holds(&report_of(&wide::clean(570_043), 1), "tier.1.capacity", 65_536.0);
}

/// The points of the third level are level, but the rise to it is that of an exclusive level in few lines, which no shape explains.
#[test]
fn level_with_a_plateau_beyond_an_exclusive_one_in_few_lines_is_found() {
    mostly_holds(&wide::clean(570_020), "tier.3.capacity", 49_152.0);
}

/// A clock of 3.6 MHz: a hundred steps in each trial, of which all end at the same part of one.
#[test]
fn latency_by_a_coarse_clock_has_the_error_of_its_steps() {
    holds(&report_of(&wide::clean(570_052), 1), "tier.1.latency_cycles", 2.0);
}

/// Two ends of levels near each other: the fit found the one again that was removed, without end.
#[test]
fn capacity_that_the_fit_finds_again_is_not_merged_without_end() {
    holds(&report_of(&wide::clean(570_071), 1), "tier.1.capacity", 4096.0);
}

/// A level at 13 cycles whose plateau eight points show. A shape of four octaves explained the rises before and behind it as well, but not that
/// the tier before it is level.
#[test]
fn rise_is_complete_where_the_next_plateau_begins() {
    holds(&report_of(&wide::clean(570_132), 1), "tier.3.capacity", 81_920.0);
}

/// A TLB of eight pages ends at 32 KiB, a first level at 40 KiB: between them a load has two to four times as much translation as a hit takes.
#[test]
fn end_of_a_tlb_is_no_end_of_a_first_level() {
    holds(&report_of(&wide::clean(571_809), 1), "tier.1.capacity", 40_960.0);
}
