//! Statistics of pages at random frames in a physically indexed cache.
//!
//! If a way is larger than a page, the physical frame of a page determines in which of the cache's page sets (colours)
//! its lines are, and user space does not know the frame. One line of each of `pages` pages, at the same offset, then
//! falls into one of `colours` sets at random. A set holds a binomial number of them, and its misses per round are
//! those of the policy for a cycle of that many lines.
//!
//! So the share of misses rises smoothly with the pages, where on contiguous memory it would rise in one step. Its
//! shape still determines ways and colours. The method is that of Servet (J. Gonzalez-Dominguez et al., "Servet: a
//! benchmark suite for autotuning on multicore clusters", IPDPS 2010). Servet assumes that all lines of a set with more
//! lines than ways miss, as under LRU; here each policy has its own misses.

use statrs::function::{factorial::ln_binomial, gamma::gamma_ur};

use crate::interval::Interval;
use crate::replacement::{Policy, approximate_misses};

/// Cache geometry in units of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Geometry {
    /// Ways of a set.
    pub ways: usize,
    /// Page sets: bytes of a way / bytes of a page.
    pub colours: usize,
}

impl Geometry {
    /// Returns the number of pages that the cache holds.
    #[must_use]
    pub fn pages(self) -> usize {
        self.ways * self.colours
    }
}

/// A measured point: cyclic loads of one line of each of `pages` pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Pages.
    pub pages: usize,
    /// Time per load, in any unit, the mean of several placements. The times of a hit and of a miss are fitted too.
    pub time: f64,
    /// Standard error, including that of the placements.
    pub error: f64,
}

/// Misses of one set under a policy, tabulated by the number of lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    ways: usize,
    /// Misses per round, by the number of lines.
    misses: Vec<f64>,
}

/// Largest tabulated number of lines in a set, in ways. Beyond it all lines are assumed to miss; random replacement
/// still hits on 2 % of them.
const MAX_OCCUPANCY_RATIO: usize = 4;
/// Occupancies more standard deviations from the mean than this are ignored: together below 1e-8 of the sets.
const MAX_SIGMAS: f64 = 8.0;

impl Curve {
    /// Simulates one set of `ways` ways (at least 1) with 0 to four times as many lines.
    #[must_use]
    pub fn new(policy: Policy, ways: usize) -> Curve {
        let ways = ways.max(1);
        let max = MAX_OCCUPANCY_RATIO * ways;
        // Up to `ways` lines there are no misses. Beyond, misses grow smoothly except for the first few lines.
        let step = (ways / 4).max(1);
        let at = |n: usize| (n, approximate_misses(policy, ways, n));
        let mut known: Vec<(usize, f64)> = vec![(0, 0.0), (ways, 0.0)];
        known.extend((ways + 1..ways + 1 + step).chain((ways + 1 + step..max).step_by(step)).map(at));
        known.push(at(max));
        let between = |n: usize| {
            let after = known.partition_point(|(at, _)| *at < n).clamp(1, known.len() - 1);
            let ((a, low), (b, high)) = (known[after - 1], known[after]);
            low + (high - low) * (n - a) as f64 / (b - a) as f64
        };
        Curve { ways, misses: (0..=max).map(between).collect() }
    }

    /// Returns the expected share of misses, 0 to 1, for one line of each of `pages` pages at random in `colours` page
    /// sets.
    #[must_use]
    pub fn share(&self, colours: usize, pages: usize) -> f64 {
        let in_set = |lines: usize| self.misses.get(lines).copied().unwrap_or(lines as f64);
        if pages == 0 {
            return 0.0;
        }
        if colours <= 1 {
            return in_set(pages) / pages as f64;
        }
        let (n, one) = (pages as f64, 1.0 / colours as f64);
        let (mean, sigma) = (n * one, (n * one * (1.0 - one)).sqrt());
        let from = ((mean - MAX_SIGMAS * sigma - MAX_SIGMAS).max(0.0) as usize).max(self.ways + 1);
        let to = ((mean + MAX_SIGMAS * sigma + MAX_SIGMAS) as usize).min(pages);
        let missed = (from..=to).map(|k| {
            let ln_probability =
                ln_binomial(pages as u64, k as u64) + k as f64 * one.ln() + (n - k as f64) * (1.0 - one).ln();
            ln_probability.exp() * in_set(k)
        });
        (missed.sum::<f64>() * colours as f64 / n).min(1.0)
    }
}

/// Result of a fit to a measured curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Best candidate; not a finding unless `decided`.
    pub best: (Geometry, Policy),
    /// Pages that the cache holds: value of the best, range over all consistent candidates.
    pub pages: Interval,
    /// Candidates that explain the curve, the best first.
    pub consistent: Vec<(Geometry, Policy)>,
    /// Whether exactly one geometry explains the curve.
    pub decided: bool,
    /// Reason, one clause.
    pub reason: String,
}

/// Smallest error of a point, as a share of the range of times (0.5 %).
const MIN_RELATIVE_ERROR: f64 = 0.005;
/// Largest chi-squared above the best of a consistent candidate: 3 standard errors of one parameter.
const MAX_CHI_SQUARED_LOSS: f64 = 9.0;
/// p-value below which even the best is rejected.
const REJECTION_P_VALUE: f64 = 1e-4;
/// Maximum number of geometries listed if several explain a curve.
const MAX_LISTED: usize = 3;
/// Smallest number of points on the rise (a share from 2 to 98 %) of the best: two parameters and one spare.
const MIN_POINTS: usize = 3;
/// Parameters: ways, page sets, and the times of a hit and of a miss.
const PARAMETERS: usize = 4;

/// Fits each candidate under each policy to measured points. `None` without points or candidates.
#[must_use]
pub fn fit(points: &[Point], candidates: &[Geometry], policies: &[Policy]) -> Option<Fit> {
    let mut ways: Vec<usize> = candidates.iter().map(|c| c.ways).collect();
    ways.sort_unstable();
    ways.dedup();
    let mut fits: Vec<(f64, Geometry, Policy)> = Vec::new();
    for (policy, ways) in policies.iter().flat_map(|p| ways.iter().map(move |w| (*p, *w))) {
        let curve = Curve::new(policy, ways);
        for geometry in candidates.iter().filter(|c| c.ways == ways) {
            fits.push((chi_squared(points, &curve, geometry.colours), *geometry, policy));
        }
    }
    fits.sort_by(|a, b| a.0.total_cmp(&b.0));
    let &(min, geometry, policy) = fits.first().filter(|_| !points.is_empty())?;
    let degrees = points.len().saturating_sub(PARAMETERS).max(1) as f64;
    // If the errors given are too small, the best fit shows it; all are scaled by the same factor.
    let scale = (min / degrees).max(1.0);
    let explain = fits.iter().filter(|f| (f.0 - min) / scale <= MAX_CHI_SQUARED_LOSS);
    let consistent: Vec<(Geometry, Policy)> = explain.map(|f| (f.1, f.2)).collect();
    let sizes = || consistent.iter().map(|c| c.0.pages() as f64);
    let value = geometry.pages() as f64;
    let pages = Interval { value, low: sizes().fold(value, f64::min), high: sizes().fold(value, f64::max) };
    let curve = Curve::new(policy, geometry.ways);
    let rising =
        points.iter().filter(|p| (0.02..0.98).contains(&curve.share(geometry.colours, p.pages))).count();
    let others = consistent.iter().filter(|c| c.0 != geometry).count();
    let (decided, reason) = if !min.is_finite() || gamma_ur(degrees / 2.0, min / 2.0) < REJECTION_P_VALUE {
        (
            false,
            format!(
                "no candidate explains the curve: chi-squared {min:.0} with {degrees:.0} degrees of freedom"
            ),
        )
    } else if rising < MIN_POINTS {
        (false, format!("too few points on the rise: {rising} of {MIN_POINTS}"))
    } else if others > 0 {
        let shown = |g: Geometry| format!("{} ways of {} page sets", g.ways, g.colours);
        let mut all: Vec<Geometry> = consistent.iter().map(|c| c.0).collect();
        all.sort_unstable();
        all.dedup();
        let more = if all.len() > MAX_LISTED {
            format!(", or {} more", all.len() - MAX_LISTED)
        } else {
            String::new()
        };
        let all: Vec<String> = all.into_iter().take(MAX_LISTED).map(shown).collect();
        (false, format!("{}{more} explain the rise of misses", all.join(", or ")))
    } else {
        (true, format!("only {} ways and {} page sets explain the curve", geometry.ways, geometry.colours))
    };
    Some(Fit { best: (geometry, policy), pages, consistent, decided, reason })
}

/// Returns chi-squared of the best linear fit of times to the expected shares; infinite if a miss would take no longer
/// than a hit.
fn chi_squared(points: &[Point], curve: &Curve, colours: usize) -> f64 {
    let times = || points.iter().map(|p| p.time);
    let range = times().fold(f64::NEG_INFINITY, f64::max) - times().fold(f64::INFINITY, f64::min);
    let floor = MIN_RELATIVE_ERROR * range;
    let all: Vec<(f64, f64, f64)> = points
        .iter()
        .map(|p| {
            let variance = (p.error * p.error + floor * floor).max(f64::MIN_POSITIVE);
            (curve.share(colours, p.pages), p.time, 1.0 / variance)
        })
        .collect();
    let sum = |of: &dyn Fn(&(f64, f64, f64)) -> f64| all.iter().map(|p| p.2 * of(p)).sum::<f64>();
    let weight = sum(&|_| 1.0);
    let (share, time) = (sum(&|p| p.0) / weight, sum(&|p| p.1) / weight);
    let slope = sum(&|p| (p.0 - share) * (p.1 - time)) / sum(&|p| (p.0 - share).powi(2));
    if slope > 0.0 { sum(&|p| (p.1 - time - slope * (p.0 - share)).powi(2)) } else { f64::INFINITY }
}

#[cfg(test)]
mod tests;
