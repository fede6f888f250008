//! Sizes at which one strategy becomes cheaper than another.

use fathom_analysis::crossover::{self, Crossing};
use fathom_analysis::interval::Interval;
use fathom_probe::machine::dma::{Direction, Strategy};

use super::points::{Part, Point};

/// Two strategies: the first takes less CPU time below a size, the second from there on.
pub(super) struct Change {
    pub(super) direction: Direction,
    pub(super) below: Strategy,
    pub(super) beyond: Strategy,
    pub(super) at: Crossing,
}

/// Minimum number of trials per point: fewer medians do not give a 95 % interval.
const MIN_TRIALS: usize = 6;

/// Returns the CPU time by size of one strategy in one direction.
fn curve(points: &[Point], strategy: Strategy, direction: Direction) -> Vec<(u64, Interval)> {
    let enough = |point: &&Point| point.key.route == (strategy, direction) && point.ids.len() >= MIN_TRIALS;
    let of = points.iter().filter(enough);
    let mut curve: Vec<(u64, Interval)> =
        of.filter_map(|point| Some((point.key.bytes, point.part(Part::Cpu)?))).collect();
    curve.sort_by_key(|point| point.0);
    curve
}

/// Returns every change between two strategies, by direction. If two strategies change several times, only the last
/// change of each kind.
pub(super) fn changes(points: &[Point]) -> Vec<Change> {
    let mut all = Vec::new();
    for &direction in Direction::ALL {
        for (i, &a) in Strategy::ALL.iter().enumerate() {
            for &b in &Strategy::ALL[i + 1..] {
                let found = crossover::crossings(&curve(points, a, direction), &curve(points, b, direction));
                for first_below in [true, false] {
                    let Some(&at) = found.iter().rfind(|c| c.first_below == first_below) else { continue };
                    let (below, beyond) = if first_below { (a, b) } else { (b, a) };
                    all.push(Change { direction, below, beyond, at });
                }
            }
        }
    }
    all
}
