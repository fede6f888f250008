//! Loads from memory that are in step with its refreshes: a load that meets one waits for its end, so that a whole number of equal loads is between two
//! of them, and their time is the same until one less is. Loads of 114.2 and 116.0 ns both took 118.2 (described machine). A translation
//! read from such loads is wrong by up to the step of one load less.

use super::two_lines::{LINES, TwoLines};
use crate::scale::At;

/// Time from one refresh of memory to the next, ns: tREFI of DDR3 and DDR4 (JESD79-3, JESD79-4).
pub(super) const EVERY: f64 = 7800.0;
/// Largest distance of the reads between two refreshes from a whole number of which loads are in step with them.
const IN_STEP: f64 = 0.1;
/// Part of the times that shows it: chance takes a fifth of them.
const IN_STEP_PART: f64 = 0.7;
/// Smallest number of times.
const IN_STEP_TIMES: usize = 4;

/// Returns the shortest time of a load, ns, if these loads from memory are in step with its refreshes.
pub(super) fn in_step<'a>(all: impl Iterator<Item = &'a TwoLines>) -> Option<f64> {
    let times: Vec<f64> = all.flat_map(|lines| [lines.apart.time(), lines.together.time()]).collect();
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let is_in_step = |time: &&f64| {
        // A page walk reads memory, too.
        let reads = (**time / least).round() * EVERY / **time;
        (reads - reads.round()).abs() < IN_STEP
    };
    let in_step = times.iter().filter(is_in_step).count();
    (times.len() >= IN_STEP_TIMES && in_step as f64 >= IN_STEP_PART * times.len() as f64).then_some(least)
}

/// Returns the standard error of a translation by loads in step with refreshes, ns, `least` of which is the shortest one: uniform over the step of one load.
pub(super) fn error(lines: &TwoLines, least: f64) -> f64 {
    let step = |at: &At| at.time() * least / EVERY / 12f64.sqrt();
    LINES as f64 * step(&lines.apart).hypot(step(&lines.together))
}
