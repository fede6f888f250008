//! The line of a level: how far apart two addresses are that fall into two sets.
//!
//! Twice as many cells as a set has ways, all a way apart, conflict. Half of them moved by a distance fall into
//! another set as soon as that is a line, and nothing misses any more. No prefetcher helps or hinders: every
//! line is cached or pushed out again by the next.

use fathom_analysis::sets::Geometry;
use fathom_probe::pattern::Trial;

use super::Step;
use super::scan::{Arrangement, Domain, Times, times, unrequested};
use crate::record::Record;
use crate::scale::Scale;

/// Distances that are tried, bytes. Lines are 16 to 128 bytes; 256 is there to see the end.
const DISTANCES: [u64; 5] = [16, 32, 64, 128, 256];

fn arrangement(geometry: Geometry, distance: u64) -> Arrangement {
    let Geometry { ways, way_bytes } = geometry;
    Arrangement { groups: 2, group: ways, stride: way_bytes, period: ways * way_bytes + distance }
}

/// Does what conflicts here arrive here? Where the nearer level holds all of it, or might by chance, it is not
/// seen.
fn seen(geometry: Geometry, nearer: Option<Geometry>) -> bool {
    nearer.is_none_or(|nearer| {
        geometry.ways > 2 * nearer.ways && geometry.way_bytes.is_multiple_of(nearer.way_bytes)
    })
}

/// The trials that are wanted next.
pub(crate) fn wanted(
    record: &Record,
    scale: &Scale,
    step: &Step,
    (geometry, nearer): (Geometry, Option<Geometry>),
    modelled: bool,
) -> Vec<Trial> {
    if !seen(geometry, nearer) {
        return Vec::new();
    }
    let all = DISTANCES.map(|distance| arrangement(geometry, distance)).to_vec();
    unrequested(record, scale, &Domain::lines(scale), step, modelled, all)
}

/// The line, bytes: the shortest distance at which nothing conflicts. `None` where it was not measured, or where
/// the times go up and down.
pub(crate) fn read(
    record: &Record,
    scale: &Scale,
    step: &Step,
    (geometry, nearer): (Geometry, Option<Geometry>),
) -> Option<u64> {
    if !seen(geometry, nearer) {
        return None;
    }
    let times: Times = times(record, scale, &Domain::lines(scale));
    let apart: Vec<(u64, bool)> = DISTANCES
        .iter()
        .filter_map(|&distance| {
            let time = *times.get(&arrangement(geometry, distance))?;
            Some((distance, time < (step.here + step.next) / 2.0))
        })
        .collect();
    let first = apart.iter().position(|(_, apart)| *apart)?;
    let sound = first > 0 && apart.len() == DISTANCES.len() && apart[first..].iter().all(|(_, apart)| *apart);
    sound.then(|| apart[first].0)
}
