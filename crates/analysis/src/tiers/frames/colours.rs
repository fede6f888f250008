//! Misses of a level whose pages are in random frames.
//!
//! A way of the level holds c pages (its colours), so every page competes with the pages of one colour. Of n pages in random
//! frames a colour has a binomially distributed number; the pages of a colour with more than the ways miss according to the
//! replacement policy ([`Shape`]). A level with one way thus misses in 1 - exp(-n/c) of its loads long before it is full, one with
//! 16 ways from 0.6 of its size on. A level whose ways are no larger than a page ends in a step.

use crate::tiers::shape::{Curve, Shape};

/// A level of a stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Level {
    /// Bytes that it holds.
    pub(super) capacity: f64,
    /// Ways and replacement.
    pub(super) shape: Shape,
}

/// Misses of a level by working set.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Misses {
    /// Expected share of the loads that miss.
    pub(super) shares: Vec<f64>,
    /// Variance of that share between placements.
    pub(super) variances: Vec<f64>,
    /// Probability that no load misses in a placement. Without colours 0: no placement differs from another.
    pub(super) fitting: Vec<f64>,
}

/// Misses of the pages of one colour.
struct OfColour {
    /// Expected pages that miss.
    missing: f64,
    /// Variance of their number if the number of pages of all colours is given.
    variance: f64,
    /// Probability that none misses.
    fitting: f64,
}

/// Number of colours from which on there are several.
const SEVERAL: f64 = 1.05;
/// Standard deviations of the pages of a colour that are summed up.
const TAIL: f64 = 10.0;

impl Level {
    /// Returns the number of colours: the base pages of `page` bytes in a way.
    pub(super) fn colours(&self, page: f64) -> f64 {
        (self.capacity / (f64::from(self.shape.ways().max(1)) * page)).max(1.0)
    }

    /// Returns whether random frames matter: whether a way is larger than a page.
    pub(super) fn has_colours(&self, page: f64) -> bool {
        self.colours(page) >= SEVERAL
    }

    /// Returns the misses at each working set, bytes.
    pub(super) fn misses(&self, sizes: impl Iterator<Item = f64>, page: f64) -> Misses {
        let (curve, colours) = (self.shape.curve(), self.colours(page));
        let of = |bytes: f64| {
            if !self.has_colours(page) {
                return (curve.at(bytes / self.capacity), (0.0, 0.0));
            }
            // The sets of the last page, which is used in part, have one page more than the others.
            let (pages, part) = (bytes / page, (bytes / page).fract());
            let few = self.of_a_colour(&curve, pages.floor(), colours);
            let many = self.of_a_colour(&curve, pages.floor() + 1.0, colours);
            let mean = |few: f64, many: f64| ((1.0 - part) * few + part * many) * colours;
            let share = (mean(few.missing, many.missing) / pages).min(1.0);
            let fitting = if part > 0.0 { many.fitting } else { few.fitting }.powf(colours);
            (share, (mean(few.variance, many.variance) / (pages * pages), fitting))
        };
        let (shares, (variances, fitting)) = sizes.map(of).unzip();
        Misses { shares, variances, fitting }
    }

    /// Returns the misses of one of so many colours, of `pages` in all.
    fn of_a_colour(&self, curve: &Curve, pages: f64, colours: f64) -> OfColour {
        let ways = f64::from(self.shape.ways());
        let mean = pages / colours;
        let deviation = TAIL * mean.sqrt();
        // Far from zero the distribution begins at its tail, in any unit.
        let (mut n, mut density) = match ((mean - deviation).floor(), (1.0 - 1.0 / colours).powf(pages)) {
            (from, few) if from > 0.0 || few < 1e-200 => (from.max(0.0), 1e-40),
            (_, few) => (0.0, few),
        };
        let (mut all, mut pages_of, mut squares) = (0.0, 0.0, 0.0);
        let (mut missing, mut missing_squares, mut products, mut fitting) = (0.0, 0.0, 0.0, 0.0);
        while n <= (mean + deviation + TAIL).min(pages) {
            let misses = if n <= ways { 0.0 } else { n * curve.at(n / ways) };
            all += density;
            fitting += if n <= ways { density } else { 0.0 };
            pages_of += density * n;
            squares += density * n * n;
            missing += density * misses;
            missing_squares += density * misses * misses;
            products += density * misses * n;
            density *= (pages - n) / ((n + 1.0) * (colours - 1.0));
            n += 1.0;
        }
        let of = |sum: f64| sum / all;
        let covariance = of(products) - of(missing) * of(pages_of);
        let explained = covariance * covariance / (of(squares) - of(pages_of).powi(2)).max(1e-12);
        let variance = (of(missing_squares) - of(missing).powi(2) - explained).max(0.0);
        OfColour { missing: of(missing), variance, fitting: of(fitting) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: f64 = 4096.0;

    fn share(level: &Level, bytes: f64) -> f64 {
        level.misses([bytes].into_iter(), PAGE).shares[0]
    }

    #[test]
    fn direct_mapped_level_misses_as_pages_share_a_colour() {
        // 256 colours: a page misses if one of the n - 1 others has its colour.
        let level = Level { capacity: 256.0 * PAGE, shape: Shape::Lru(1) };
        for pages in [2.0, 64.0, 256.0, 1000.0] {
            let expected = 1.0 - (1.0f64 - 1.0 / 256.0).powf(pages - 1.0);
            let found = share(&level, pages * PAGE);
            assert!((found - expected).abs() < 1e-9, "{pages}: {found} {expected}");
        }
    }

    #[test]
    fn half_of_the_loads_miss_at_the_capacity() {
        let level = Level { capacity: 512.0 * 16.0 * PAGE, shape: Shape::Lru(16) };
        // Share of pages whose colour has more than 16, Poisson: 0.53.
        assert!((share(&level, level.capacity) - 0.53).abs() < 0.01);
        assert!(share(&level, 0.4 * level.capacity) < 0.01 && share(&level, 2.0 * level.capacity) > 0.99);
    }

    #[test]
    fn way_of_a_page_ends_in_a_step() {
        let level = Level { capacity: 8.0 * PAGE, shape: Shape::Lru(8) };
        assert_eq!(share(&level, level.capacity), 0.0);
        // Under LRU all lines of the sets with nine of them miss.
        assert!(share(&level, 1.125 * level.capacity) > 0.99);
        assert_eq!(level.misses([1e6].into_iter(), PAGE).variances, [0.0]);
    }

    /// Planted: 2000 placements of 40 pages in 8 colours of 4 ways.
    #[test]
    fn mean_and_variance_are_those_of_placements() {
        let level = Level { capacity: 8.0 * 4.0 * PAGE, shape: Shape::Lru(4) };
        let mut state = 1u64;
        let mut colour = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as usize % 8
        };
        let shares: Vec<f64> = (0..2000)
            .map(|_| {
                let mut held = [0u32; 8];
                (0..40).for_each(|_| held[colour()] += 1);
                f64::from(held.iter().filter(|n| **n > 4).sum::<u32>()) / 40.0
            })
            .collect();
        let mean = shares.iter().sum::<f64>() / 2000.0;
        let variance = shares.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / 2000.0;
        let found = level.misses([40.0 * PAGE].into_iter(), PAGE);
        assert!((found.shares[0] - mean).abs() < 0.01, "{found:?} {mean}");
        assert!((found.variances[0] / variance - 1.0).abs() < 0.2, "{found:?} {variance}");
    }
}
