//! Histograms of single samples: bars and groups.
//!
//! A single load has one of a few outcomes (hit or miss in some level, with or without a walk), so its times form
//! groups with gaps between them. A group is delimited by gaps and described by its median, because means and modes of
//! a few hundred samples on a coarse clock vary too much.

use crate::interval::{Interval, median_interval, sorted};

/// Consecutive samples without a gap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// Median with its 95 % interval.
    pub median: Interval,
    /// Minimum and maximum.
    pub range: (f64, f64),
    /// Number of samples.
    pub count: usize,
}

/// Smallest gap between two groups, in resolutions of the clock. A few hundred samples leave smaller gaps by chance.
const MIN_GAP_RESOLUTIONS: f64 = 3.0;
/// Smallest gap between two groups, as a share of the value: 4 %. Jitter and open rows leave smaller gaps too.
const MIN_GAP_SHARE: f64 = 0.04;

/// Returns the groups of `values`, ascending. `resolution` is that of the clock in the values' unit.
#[must_use]
pub fn groups(values: &[f64], resolution: f64) -> Vec<Group> {
    let v = sorted(values);
    let mut groups = Vec::new();
    let mut from = 0;
    for i in 1..=v.len() {
        if i == v.len()
            || v[i] - v[i - 1] > (MIN_GAP_RESOLUTIONS * resolution).max(MIN_GAP_SHARE * v[i - 1].abs())
        {
            groups.extend(median_interval(&v[from..i]).map(|median| Group {
                median,
                range: (v[from], v[i - 1]),
                count: i - from,
            }));
            from = i;
        }
    }
    groups
}

/// Returns the group with the most samples: the main peak of the histogram.
#[must_use]
pub fn main_group(groups: &[Group]) -> Option<&Group> {
    groups.iter().max_by_key(|g| g.count)
}

/// Returns (value, count) of every distinct value, ascending.
#[must_use]
pub fn bars(values: &[f64]) -> Vec<(f64, u64)> {
    let mut bars: Vec<(f64, u64)> = Vec::new();
    for v in sorted(values) {
        match bars.last_mut() {
            Some((last, n)) if *last == v => *n += 1,
            _ => bars.push((v, 1)),
        }
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn study_histogram_has_four_groups() {
        // The study of the Raspberry Pi 1, 64 KiB: cycles, and their counts in 1000 samples.
        let counts = [(9, 49), (17, 1), (61, 320), (62, 571), (63, 11), (64, 4), (65, 1), (69, 1), (70, 27)];
        let values: Vec<f64> =
            counts.iter().flat_map(|&(v, n)| std::iter::repeat_n(f64::from(v), n)).collect();
        let groups = groups(&values, 1.0);
        let shapes: Vec<_> = groups.iter().map(|g| (g.range, g.count)).collect();
        assert_eq!(shapes, [((9.0, 9.0), 49), ((17.0, 17.0), 1), ((61.0, 65.0), 907), ((69.0, 70.0), 28)]);
        let main = main_group(&groups).unwrap();
        assert!((61.0..=62.0).contains(&main.median.value), "{main:?}");
        assert_eq!(bars(&values).len(), counts.len());
    }

    proptest! {
        #[test]
        fn no_sample_is_lost_and_groups_do_not_overlap(
            values in prop::collection::vec(0.0f64..1000.0, 0..300), step in 0.1f64..20.0
        ) {
            let groups = groups(&values, step);
            prop_assert_eq!(groups.iter().map(|g| g.count).sum::<usize>(), values.len());
            prop_assert!(groups.windows(2).all(|w| w[1].range.0 - w[0].range.1 > 3.0 * step));
            prop_assert_eq!(bars(&values).iter().map(|b| b.1).sum::<u64>(), values.len() as u64);
        }
    }
}
