//! Whether working sets take longer in some frames than in others.

use fathom_analysis::interval::median;

use crate::scale::At;

/// Relative difference of two trials of one working set on a described machine, beyond what the samples of each differ, that only other
/// frames explain, and number of working sets that show it. Of 15 machines with contiguous base pages (wide generator), under random
/// replacement too, 14 had no difference above 0.057; of 27 with random frames all had two above 0.07.
const MIN_PLACEMENT_DIFFERENCE: (f64, usize) = (0.065, 2);

/// Returns whether working sets take longer in some frames than in others.
pub(crate) fn placements_differ(curve: &[At]) -> bool {
    curve.iter().filter(|at| differs(at)).count() >= MIN_PLACEMENT_DIFFERENCE.1
}

/// Returns whether no working set of several trials takes longer in some frames than in others, and there are enough of them.
pub(crate) fn placements_agree(curve: &[At]) -> bool {
    let several = || curve.iter().filter(|at| at.groups.len() > 1);
    several().count() >= MIN_AGREEING && !several().any(differs)
}

/// Smallest number of working sets of several trials that show no difference: the first rounds have five second
/// placements.
const MIN_AGREEING: usize = 4;

/// Returns whether a working set takes longer in some frames than in others.
fn differs(at: &At) -> bool {
    let medians: Vec<f64> = at.groups.iter().filter_map(|times| median(times)).collect();
    let pairs = at
        .groups
        .iter()
        .zip(&medians)
        .flat_map(|(times, middle)| times.iter().map(move |time| (time / middle - 1.0).abs()));
    let within = pairs.fold(0.0, f64::max);
    let low = medians.iter().copied().fold(f64::INFINITY, f64::min);
    medians.iter().any(|time| *time > low * (1.0 + MIN_PLACEMENT_DIFFERENCE.0 + 4.0 * within))
}
