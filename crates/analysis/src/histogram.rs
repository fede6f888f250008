//! Histograms of single samples: bars, and the groups that they fall into.
//!
//! A single load meets one of a few fates (a hit here or there, a walk or none), so its times fall into
//! groups with little between them. A group is found by the gaps round it and described by its median:
//! means and modes of a few hundred samples on a coarse clock jump about.

use crate::interval::{Interval, median_interval, sorted};

/// Samples with no gap between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// Median with its 95 % interval.
    pub median: Interval,
    /// The least and the largest.
    pub range: (f64, f64),
    /// How many they are.
    pub count: usize,
}

/// A gap of this many of the clock's steps parts two groups: neighbouring steps that a few hundred samples
/// leave empty by chance do not.
const STEPS: f64 = 3.0;
/// So does a gap of this share of the value, whatever the clock's step: 4 %, below which jitter and open rows
/// leave gaps too.
const SHARE: f64 = 0.04;

/// The groups of `values`, ascending. `step` is the clock's step in the values' unit.
#[must_use]
pub fn groups(values: &[f64], step: f64) -> Vec<Group> {
    let v = sorted(values);
    let mut groups = Vec::new();
    let mut from = 0;
    for i in 1..=v.len() {
        if i == v.len() || v[i] - v[i - 1] > (STEPS * step).max(SHARE * v[i - 1].abs()) {
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

/// The group with the most samples: where a histogram has its main peak.
#[must_use]
pub fn main_group(groups: &[Group]) -> Option<&Group> {
    groups.iter().max_by_key(|g| g.count)
}

/// (value, count) of every distinct value, ascending.
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
    fn the_study_s_histogram_has_its_groups() {
        // The study of the Raspberry Pi 1, 64 KiB: cycles and how many of 1000 samples.
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
