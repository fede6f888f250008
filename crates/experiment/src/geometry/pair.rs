//! Pairs of addresses: what does the load of one spare the load of another, so and so far from it?
//!
//! Each pair is visited once a lap, its second address right after the first, pairs in random order, and a lap
//! goes far beyond the tier. So the first load misses; the second hits where the first one's line, or what a
//! prefetcher fetched along with it, reaches. In a tier whose answers come from the next cache only the line is
//! seen; where they come from memory, an adjacent-line prefetcher as well.

use fathom_analysis::interval::median;
use fathom_probe::pattern::{Memory, Pair, PatternKind, Trial};

use super::{Step, pages};
use crate::record::Record;
use crate::scale::Scale;

/// Distances that are tried, bytes. The shortest is within any line.
pub(crate) const DISTANCES: [u64; 7] = [8, 16, 32, 64, 128, 256, 512];
/// First addresses are multiples of this, so that no line of up to this length begins between the two.
const ALIGNED: u64 = 512;
/// From pair to pair, bytes: an odd multiple, so that all sets that hold aligned addresses are used.
const PERIOD: u64 = 3 * ALIGNED;
/// A second load this near to half way between spared and not says neither: under random replacement what translates
/// the first one's page may throw out its line.
const UNCLEAR: f64 = 0.1;
/// Where the first loads take more than this many times what the next tier does, the second ones' times are small
/// differences of large ones. (Translation and the rows of memory may double them.)
const BEYOND: f64 = 2.0;
/// Most pairs: at [`PERIOD`] apart they lie in 192 MiB.
const MAX_PAIRS: u64 = 1 << 17;

/// Pairs that a lap needs to miss in a tier and, if there is a next cache, to hit in that. Each takes the room of
/// [`ALIGNED`] bytes, because only every so many sets are used.
fn pairs(step: &Step, next: Option<&Step>) -> u64 {
    let own = step.capacity.value.max(1.0);
    let bytes = match next {
        Some(next) => (1.25 * own * 0.6 * next.capacity.value).sqrt().min(4.0 * own).max(1.2 * own),
        None => 4.0 * own,
    };
    ((bytes / ALIGNED as f64) as u64).clamp(8, MAX_PAIRS)
}

fn is_of(trial: &Trial, distance: u64, pairs: u64) -> bool {
    trial.kind() == PatternKind::Pair
        && (trial.memory.stride, trial.pattern.groups().period) == (distance, PERIOD)
        && trial.memory.cells() == 2 * pairs
}

/// The trials that are wanted next.
pub(crate) fn wanted(
    record: &Record,
    scale: &Scale,
    step: &Step,
    next: Option<&Step>,
    modelled: bool,
) -> Vec<Trial> {
    let pairs = pairs(step, next);
    let cells = 2 * pairs;
    let miss = (step.next - step.here).max(0.1);
    let clock = (200.0 * scale.resolution * scale.tick_ns / miss) as u64;
    // Whole laps where a lap is short; else parts of one, of which each begins where the last one ended.
    let mut loads = match clock.clamp(4096, 1 << 17) {
        least if cells <= least => least.div_ceil(cells) * cells + 1,
        least => least.max(1 << 14) + 1,
    };
    while cells > 2 && (2 * loads).is_multiple_of(cells) {
        loads += 1;
    }
    let mut wanted = Vec::new();
    for distance in DISTANCES {
        let had = record.trials.iter().filter(|r| is_of(&r.trial, distance, pairs)).count();
        for _ in had..if modelled { 1 } else { 3 } {
            wanted.push(Trial {
                // One place for all: what differs between two distances is the distance.
                memory: Memory { page: pages(scale).0, place: 1, ..Memory::of(cells * distance, distance) },
                loads,
                samples: if modelled { 2 } else { 3 },
                warm: if cells <= loads { 3 * cells } else { loads },
                ..Trial::of(Pair { period: PERIOD, offset: 0 })
            });
        }
    }
    wanted
}

/// What pairs beyond a tier say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pairs {
    /// Time of the second load by distance, ns, with the trials.
    pub(crate) second: Vec<(u64, f64, Vec<u64>)>,
    /// Time of the first load, ns.
    pub(crate) first: f64,
    /// The shortest distance at which the second load takes more than a load of the tier: its line, or what was
    /// fetched along with it.
    pub(crate) reach: Option<u64>,
}

/// Reads the pairs beyond a tier; `hit` is the time of a load that the nearest level serves, ns.
pub(crate) fn read(
    record: &Record,
    scale: &Scale,
    step: &Step,
    next: Option<&Step>,
    hit: f64,
) -> Option<Pairs> {
    let pairs = pairs(step, next);
    let time = |distance: u64| {
        let runs = || record.of(PatternKind::Pair).filter(move |r| is_of(&r.trial, distance, pairs));
        let least = runs().filter_map(|run| median(&scale.steady(run))).min_by(f64::total_cmp)?;
        Some((least, runs().map(|r| r.trial.id).collect::<Vec<u64>>()))
    };
    // Both halves of the shortest distance are on one line, so its second load is a hit.
    let first = 2.0 * time(DISTANCES[0])?.0 - hit;
    let second: Vec<(u64, f64, Vec<u64>)> = DISTANCES
        .iter()
        .filter_map(|&distance| time(distance).map(|(t, ids)| (distance, 2.0 * t - first, ids)))
        .collect();
    // Where a lap goes beyond the next tier too, the first load is answered far behind it, and a second one spared by
    // the next tier's longer line takes that one's time.
    let rise = first.min(step.next) - step.here;
    let share: Vec<f64> = second.iter().map(|(_, time, _)| (time - step.here) / rise).collect();
    let slow: Vec<bool> = share.iter().map(|share| *share > 0.5).collect();
    let at = slow.iter().position(|slow| *slow);
    let clear = share.iter().all(|share| (share - 0.5).abs() > UNCLEAR);
    let near = first > 1.1 * step.here && first < BEYOND * step.next;
    let sound = near && clear && slow.len() == DISTANCES.len();
    let reach =
        at.filter(|&at| sound && at > 0 && slow[at..].iter().all(|slow| *slow)).map(|at| second[at].0);
    Some(Pairs { second, first, reach })
}
