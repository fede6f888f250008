//! Page tables in the caches that the latency curve shows.

use fathom_analysis::tiers::{Point, Reading};

use super::translation::{Translation, translation_at};

/// Bytes of a page descriptor in the page tables of every 64-bit architecture.
pub(crate) const DESCRIPTOR: u64 = 8;

/// Most ways of a level whose tables are told from its end: known caches have up to 20.
const MAX_WAYS: f64 = 32.0;

/// Extends the capacities of the levels of a described machine that page tables share to where more loads leave than tables explain. A line of
/// descriptors in a set that is full of data evicts all of its lines under LRU, so of the lines of n ways n + 1 miss for each line of
/// descriptors: on a described level of 57063 KiB with 12 ways 2.7 % from 0.94 of its size on, on one of 1280 KiB with 20 ways 4 %.
pub(super) fn extend_by_tables(
    reading: &mut Reading,
    points: &[Point],
    translation: &Translation,
    page: f64,
) {
    let explained = (MAX_WAYS + 1.0) * DESCRIPTOR as f64 / page;
    for i in 1..reading.tiers.len() {
        let next = reading.tiers[i].latency.value;
        let tier = &mut reading.tiers[i - 1];
        let here = tier.latency.value;
        let Some(capacity) = tier.capacity.as_mut() else { continue };
        if translation_at(translation, capacity.onset.value) <= 0.0 {
            continue;
        }
        let leave = |p: &&Point| p.x >= capacity.above && p.y > here + explained * (next - here);
        if let Some(first) = points.iter().find(leave) {
            capacity.onset.high = capacity.onset.high.max(first.x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_analysis::tiers::{Options, read};

    /// Measured on a described machine with pages in pieces of 4 KiB: a level of 1280 KiB with 20 ways, which holds the tables too.
    #[test]
    fn capacity_of_a_level_that_holds_page_tables_goes_beyond_the_loads_that_they_evict() {
        let mut curve: Vec<(f64, f64)> =
            (0..12).map(|i| (16.0 * 2f64.powf(f64::from(i) / 2.0), 4.0)).collect();
        curve.extend([
            (1136.0, 4.0),
            (1211.0, 4.0),
            (1226.0, 4.9),
            (1235.0, 4.0),
            (1244.0, 4.9),
            (1253.0, 4.9),
        ]);
        curve.extend([
            (1290.0, 8.7),
            (1367.0, 26.5),
            (1448.0, 26.5),
            (2048.0, 26.5),
            (2896.0, 26.5),
            (4096.0, 26.5),
        ]);
        let points: Vec<Point> =
            curve.iter().map(|&(x, y)| Point { x: 1024.0 * x, y, sigma: 0.0002, shared: 0.0 }).collect();
        let extended = |translation: f64| {
            let mut reading = read(&points, &Options::default()).unwrap();
            // As where a size of round numbers ends a little before.
            let capacity = reading.tiers[0].capacity.as_mut().unwrap();
            (capacity.above, capacity.onset.high) = (1024.0 * 1226.0, 1024.0 * 1250.0);
            extend_by_tables(&mut reading, &points, &vec![(0.0, translation)], 4096.0);
            reading.tiers[0].capacity.unwrap().onset.high
        };
        assert!(extended(0.0) < 1_310_720.0, "without translation it ends at {}", extended(0.0));
        assert!((1_310_720.0..1.35e6).contains(&extended(1.0)), "{}", extended(1.0));
    }
}
