//! Line size of a level: the smallest distance between two addresses that fall into different sets.
//!
//! Twice as many cells as a set has ways, each one way apart, conflict. Half of them are moved by a distance. Once that
//! is a line, they fall into another set and nothing misses any more. Prefetchers have no effect: the next line evicts
//! each prefetched line.

use fathom_analysis::sets::Geometry;
use fathom_probe::pattern::Trial;

use super::Step;
use super::arrangement::{Arrangement, Domain};
use super::scan::{Times, missing_trials, times};
use crate::record::Record;
use crate::scale::Scale;

/// Distances to test, bytes. Lines are 16 to 128 bytes; 256 confirms the end.
const DISTANCES: [u64; 5] = [16, 32, 64, 128, 256];
/// Smallest number of distances without conflicts, the line and longer ones. A single low time may be an error.
const MIN_SEPARATE: usize = 2;

fn arrangement(geometry: Geometry, distance: u64) -> Arrangement {
    let Geometry { ways, way_bytes } = geometry;
    Arrangement { groups: 2, group: ways, stride: way_bytes, period: ways * way_bytes + distance }
}

/// Returns whether the conflicts reach this level. They do not if the nearer level holds all of the cells, or may do so
/// by chance.
fn reaches_level(geometry: Geometry, nearer: Option<Geometry>) -> bool {
    nearer.is_none_or(|nearer| {
        geometry.ways > 2 * nearer.ways && geometry.way_bytes.is_multiple_of(nearer.way_bytes)
    })
}

/// Returns the next trials.
pub(crate) fn next_trials(
    record: &Record,
    scale: &Scale,
    step: &Step,
    (geometry, nearer): (Geometry, Option<Geometry>),
    exact: bool,
) -> Vec<Trial> {
    if !reaches_level(geometry, nearer) {
        return Vec::new();
    }
    let all = DISTANCES.map(|distance| arrangement(geometry, distance)).to_vec();
    missing_trials(record, scale, &Domain::lines(scale, step), step, exact, all)
}

/// Returns the line in bytes: the shortest distance without conflicts. `None` if it was not measured, or if the times
/// are not monotonic.
pub(crate) fn read(
    record: &Record,
    scale: &Scale,
    step: &Step,
    (geometry, nearer): (Geometry, Option<Geometry>),
) -> Option<u64> {
    if !reaches_level(geometry, nearer) {
        return None;
    }
    let times: Times = times(record, scale, &Domain::lines(scale, step));
    let separate: Vec<(u64, bool)> = DISTANCES
        .iter()
        .filter_map(|&distance| {
            let time = *times.get(&arrangement(geometry, distance))?;
            Some((distance, time < (step.here + step.next) / 2.0))
        })
        .collect();
    let first = separate.iter().position(|(_, separate)| *separate)?;
    let monotonic = first > 0
        && separate.len() == DISTANCES.len()
        && separate.len() - first >= MIN_SEPARATE
        && separate[first..].iter().all(|(_, separate)| *separate);
    monotonic.then(|| separate[first].0)
}

#[cfg(test)]
mod tests {
    use fathom_analysis::interval::Interval;
    use fathom_probe::rows::{Done, Sample};

    use super::*;
    use crate::record::TrialRun;

    /// A cache of 4 KiB in each of 8 ways and 1 ns, before one of 10 ns.
    const GEOMETRY: Geometry = Geometry { ways: 8, way_bytes: 4096 };
    const STEP: Step = Step {
        capacity: Interval { value: 32768.0, low: 32768.0, high: 32768.0 },
        here: 1.0,
        next: 10.0,
        in_pieces: false,
    };

    /// Returns the line of a record of so many ns per load at each distance.
    fn line_of(ns: [u64; DISTANCES.len()]) -> Option<u64> {
        let mut record = Record::default();
        let scale = Scale::of(&record);
        let all = DISTANCES.map(|distance| arrangement(GEOMETRY, distance)).to_vec();
        let trials = missing_trials(&record, &scale, &Domain::lines(&scale, &STEP), &STEP, true, all);
        for (id, (trial, ns)) in trials.into_iter().zip(ns).enumerate() {
            let id = id as u64 + 1;
            let sample = Sample { ticks: 0, ticks2: trial.loads * ns, ..Sample::default() };
            let done = Some(Done { trial: id, ..Done::default() });
            let (trial, samples) = (Trial { id, ..trial }, vec![sample; 3]);
            record.trials.push(TrialRun { trial, samples, done, ..TrialRun::default() });
        }
        read(&record, &scale, &STEP, (GEOMETRY, None))
    }

    #[test]
    fn line_needs_two_distances_without_conflicts() {
        assert_eq!(line_of([10, 10, 1, 1, 1]), Some(64));
        assert_eq!(line_of([10, 10, 10, 1, 1]), Some(128));
        assert_eq!(line_of([10, 10, 10, 10, 1]), None);
        assert_eq!(line_of([10, 10, 1, 10, 1]), None);
        assert_eq!(line_of([1, 1, 1, 1, 1]), None);
    }
}
