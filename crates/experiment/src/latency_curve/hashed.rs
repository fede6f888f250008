//! Ends of levels with a hashed index, on machines whose frames follow one another.

use fathom_analysis::interval::median;
use fathom_analysis::tiers::Reading;

use super::translation::{Translation, translation_at};
use crate::scale::At;

/// Share of the loads that leave a level in one placement of a working set, and largest part of it in another one. A hash spreads the lines of each
/// placement in another way over the sets, so some are overfull in one and not in the other: 0.016 of the loads left in one of two placements, and none in
/// the other (wide generator, seed 570963: a hashed level of 128 KiB with four ways, at 112 KiB). Without a hash, placements are equal under LRU, and
/// nearly so under random replacement.
const LEAVES: f64 = 0.01;
const MAX_PART: f64 = 0.25;
/// Shares of the loads that differ so much between two placements show it, too: of a hashed level of 640 KiB with 20 ways, 0.17 and 0.56 of the loads left at 645 KiB (wide
/// generator, seed 571382).
const APART: f64 = 0.2;
/// Smallest working set in which that is looked for, as a share of the capacity.
const FROM: f64 = 0.75;
/// Share of the loads that leave a level that is surely exceeded: its last placements overfill sets until then.
const EXCEEDED: f64 = 0.5;

/// Extends the upper ends of capacities beside working sets that fit in one placement and not in another, to where the level is surely exceeded. The
/// curve is that of a machine without other users.
pub(super) fn extend(reading: &mut Reading, curve: &[At], translation: &Translation) {
    for i in 1..reading.tiers.len() {
        let next = reading.tiers[i].latency.value;
        let tier = &mut reading.tiers[i - 1];
        let Some(capacity) = tier.capacity.as_mut() else { continue };
        let (here, from) = (tier.latency.value, FROM * capacity.onset.value);
        let leaving = |at: &At| {
            let hit = here + translation_at(translation, at.bytes as f64);
            let shares = at.groups.iter().filter_map(|times| Some((median(times)? - hit) / (next - here)));
            shares.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), share| {
                (low.min(share), high.max(share))
            })
        };
        let on_rise: Vec<(f64, (f64, f64))> = curve
            .iter()
            .map(|at| (at.bytes as f64, leaving(at)))
            .filter(|(bytes, _)| *bytes >= from)
            .collect();
        let end =
            on_rise.iter().find(|(_, (low, _))| *low >= EXCEEDED).map_or(f64::INFINITY, |(bytes, _)| *bytes);
        let differs = |(bytes, (low, high)): &(f64, (f64, f64))| {
            *bytes < end && *high > LEAVES && (*low < MAX_PART * high || high - low > APART)
        };
        if end.is_finite() && on_rise.iter().any(differs) {
            capacity.onset.high = capacity.onset.high.max(end);
            // More points do not narrow it.
            capacity.wide_rise = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_analysis::tiers::{Options, Point, read};

    /// Returns the upper end of a level that ends at 112 KiB, of which a working set has these times in its placements.
    fn end(times: &[f64]) -> f64 {
        let kib = |x: f64| 1024.0 * x;
        let mut points: Vec<(f64, f64)> = (0..10).map(|i| (kib(16.0 + 10.0 * f64::from(i)), 2.0)).collect();
        points.extend(
            [(114.0, 7.0), (121.0, 44.0), (161.0, 112.0), (190.0, 131.0), (256.0, 131.0), (512.0, 131.0)]
                .map(|(x, y)| (kib(x), y)),
        );
        let at = |&(x, y): &(f64, f64)| {
            let mut at = At::default();
            (at.bytes, at.groups) = (x as u64, vec![vec![y]]);
            at
        };
        let mut curve: Vec<At> = points.iter().map(at).collect();
        curve[9].groups = times.iter().map(|time| vec![*time]).collect();
        let points: Vec<Point> =
            points.iter().map(|&(x, y)| Point { x, y, sigma: 0.001, shared: 0.0 }).collect();
        let mut reading = read(&points, &Options::default()).unwrap();
        extend(&mut reading, &curve, &Vec::new());
        reading.tiers[0].capacity.unwrap().onset.high / 1024.0
    }

    #[test]
    fn working_set_that_fits_in_one_placement_only_extends_the_capacity() {
        assert!(end(&[2.0, 2.0]) < 122.0, "{}", end(&[2.0, 2.0]));
        assert_eq!(end(&[2.0, 4.1]), 161.0);
        assert!(end(&[2.0, 2.5]) < 122.0, "0.4 % of the loads");
        assert!(end(&[3.8, 4.4]) < 122.0, "under random replacement some differ");
        assert_eq!(end(&[20.0, 60.0]), 161.0);
        assert!(end(&[20.0, 40.0]) < 122.0, "{}: 0.15 of the loads", end(&[20.0, 40.0]));
    }
}
