//! Comparison of several curves: the lowest at each size, and the crossings of two.
//!
//! Every point has an interval. Two curves differ at a size only if their intervals do not overlap. So a crossing is
//! located between two sizes: the last at which one curve is significantly lower, and the first at which the other is.

use crate::interval::Interval;

/// Points of a curve: size in bytes, ascending, and value.
pub type Curve = [(u64, Interval)];

/// Sizes at which one of two curves stops being the lower one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crossing {
    /// Whether the first curve is the lower one before the crossing.
    pub first_below: bool,
    /// Last size at which that curve is significantly lower.
    pub low: u64,
    /// First size at which the other curve is significantly lower.
    pub high: u64,
    /// Size at which the values cross, between the two; by linear interpolation between points.
    pub value: f64,
}

/// Smallest relevant difference, as a share of the lesser value. Of many comparisons some are significant by chance,
/// and smaller differences do not justify changing a program.
const MIN_RELEVANT_SHARE: f64 = 0.01;

/// Returns whether the first of two values at one size is the lower one; `None` if the difference is not significant or
/// not relevant.
fn lower(a: Interval, b: Interval) -> Option<bool> {
    let apart = (a.value - b.value).abs() > MIN_RELEVANT_SHARE * a.value.abs().min(b.value.abs());
    (apart && !a.overlaps(&b)).then_some(a.value < b.value)
}

/// Returns the crossings of two curves at the sizes that both have, in ascending order.
#[must_use]
pub fn crossings(a: &Curve, b: &Curve) -> Vec<Crossing> {
    let common: Vec<(u64, Interval, Interval)> = a
        .iter()
        .filter_map(|&(bytes, of_a)| Some((bytes, of_a, b.iter().find(|p| p.0 == bytes)?.1)))
        .collect();
    let mut all = Vec::new();
    let mut last: Option<(usize, bool)> = None;
    for (i, &(_, of_a, of_b)) in common.iter().enumerate() {
        let Some(first_lower) = lower(of_a, of_b) else { continue };
        if let Some((at, was)) = last.filter(|(_, was)| *was != first_lower) {
            let between = &common[at..=i];
            all.push(Crossing {
                first_below: was,
                low: between[0].0,
                high: between[between.len() - 1].0,
                value: meeting(between),
            });
        }
        last = Some((i, first_lower));
    }
    all
}

/// Returns the size at which the difference of the values first changes its sign. It does so because its signs at the
/// first and the last point differ.
fn meeting(points: &[(u64, Interval, Interval)]) -> f64 {
    let off = |p: &(u64, Interval, Interval)| p.1.value - p.2.value;
    let ends = points.windows(2).find(|pair| off(&pair[0]).signum() != off(&pair[1]).signum());
    let Some([from, to]) = ends else { return points[0].0 as f64 };
    let (low, high) = (off(from), off(to));
    from.0 as f64 + (to.0 - from.0) as f64 * low / (low - high)
}

/// Lowest of some values, and the values that do not differ significantly from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Lowest {
    /// Index of the lowest value.
    pub first: usize,
    /// Indices of values that do not differ significantly from it.
    pub ties: Vec<usize>,
}

/// Returns the lowest of some values; `None` if there are none.
#[must_use]
pub fn lowest(values: &[Interval]) -> Option<Lowest> {
    let by_value = |a: &usize, b: &usize| values[*a].value.total_cmp(&values[*b].value);
    let first = (0..values.len()).min_by(by_value)?;
    let tied = |&i: &usize| i != first && lower(values[i], values[first]).is_none();
    let ties = (0..values.len()).filter(tied).collect();
    Some(Lowest { first, ties })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sure(value: f64) -> Interval {
        Interval { value, low: value, high: value }
    }

    fn about(value: f64, error: f64) -> Interval {
        Interval { value, low: value - error, high: value + error }
    }

    /// Returns a fixed cost plus a cost per byte, at doubling sizes.
    fn line(fixed: f64, byte: f64, error: f64) -> Vec<(u64, Interval)> {
        (6..=20).map(|p| (1u64 << p, about(fixed + byte * (1u64 << p) as f64, error))).collect()
    }

    #[test]
    fn crossover_of_two_lines_is_interpolated() {
        // 100 + 0.5 n and 600 + 0.1 n meet at n = 1250.
        let (a, b) = (line(100.0, 0.5, 0.0), line(600.0, 0.1, 0.0));
        let found = crossings(&a, &b);
        assert_eq!(found.len(), 1);
        assert!(found[0].first_below);
        assert_eq!((found[0].low, found[0].high), (1024, 2048));
        assert!((found[0].value - 1250.0).abs() < 1e-9, "{}", found[0].value);
        assert!(!crossings(&b, &a)[0].first_below, "the other way round the second is lower before");
    }

    #[test]
    fn overlapping_intervals_have_no_crossover() {
        // The lines differ by 90 at 1024, by 319 at 2048, by 295 at 512.
        let (a, b) = (line(100.0, 0.5, 60.0), line(600.0, 0.1, 60.0));
        let found = crossings(&a, &b);
        assert_eq!((found[0].low, found[0].high), (512, 2048));
        assert!((512.0..2048.0).contains(&found[0].value));
        let blurred = (line(100.0, 0.5, 1e9), line(600.0, 0.1, 1e9));
        assert!(crossings(&blurred.0, &blurred.1).is_empty());
    }

    #[test]
    fn differences_below_one_percent_are_ignored() {
        let other = |share: f64| -> Vec<(u64, Interval)> {
            line(100.0, 1.0, 0.0)
                .into_iter()
                .map(|(b, i)| (b, i.scaled(if b < 4096 { 1.0 - share } else { 1.0 + share })))
                .collect()
        };
        assert!(crossings(&line(100.0, 1.0, 0.0), &other(0.009)).is_empty());
        assert_eq!(crossings(&line(100.0, 1.0, 0.0), &other(0.02)).len(), 1);
        assert_eq!(lowest(&[sure(1.0), sure(1.005), sure(1.1)]).expect("three").ties, vec![1]);
    }

    #[test]
    fn parallel_lines_do_not_cross_and_only_common_sizes_are_used() {
        assert!(crossings(&line(1.0, 1.0, 0.0), &line(2.0, 1.0, 0.0)).is_empty());
        let other: Vec<(u64, Interval)> = vec![(100, sure(0.0)), (3000, sure(1e9))];
        assert!(crossings(&line(1.0, 1.0, 0.0), &other).is_empty());
        assert!(crossings(&[], &[]).is_empty());
    }

    #[test]
    fn curve_that_crosses_twice_has_two_crossovers() {
        let a: Vec<_> = [(1, 1.0), (2, 3.0), (4, 1.0)].map(|(b, v)| (b, sure(v))).into();
        let b: Vec<_> = [1, 2, 4].map(|bytes| (bytes, sure(2.0))).into();
        let found = crossings(&a, &b);
        assert_eq!(
            found.iter().map(|c| (c.first_below, c.low, c.high)).collect::<Vec<_>>(),
            [(true, 1, 2), (false, 2, 4)]
        );
        assert_eq!(found.iter().map(|c| c.value).collect::<Vec<_>>(), [1.5, 3.0]);
    }

    #[test]
    fn lowest_lists_ties() {
        let found = lowest(&[about(5.0, 1.0), about(3.0, 0.5), about(3.4, 0.2)]).expect("there are three");
        assert_eq!((found.first, found.ties), (1, vec![2]));
        assert_eq!(lowest(&[sure(1.0)]), Some(Lowest { first: 0, ties: vec![] }));
        assert_eq!(lowest(&[]), None);
    }
}
