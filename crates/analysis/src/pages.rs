//! Pages at random frames in a physically indexed cache.
//!
//! Where a way is larger than a page, the frame that a page got decides in which of the cache's page sets (its
//! colours) its lines lie, and user space does not know it. One line of each of `pages` pages, at the same offset,
//! then falls into `colours` sets at random: a set holds a binomial number of them, and what it misses per round is
//! what the policy lets a cycle of so many lines miss. So the share of lines that miss rises smoothly over the pages
//! where on contiguous memory it would step, and its shape tells ways and colours all the same. The method is that of
//! Servet (J. Gonzalez-Dominguez et al., "Servet: a benchmark suite for autotuning on multicore clusters", IPDPS 2010),
//! which takes the sets with more lines than ways for wholly missing, as they are under LRU; here each policy has its
//! own misses.

use statrs::function::{factorial::ln_binomial, gamma::gamma_ur};

use crate::interval::Interval;
use crate::replacement::{Policy, misses_roughly};

/// A cache as pages see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Geometry {
    /// Ways of a set.
    pub ways: usize,
    /// Page sets: bytes of a way / bytes of a page.
    pub colours: usize,
}

impl Geometry {
    /// Pages that the cache holds.
    #[must_use]
    pub fn pages(self) -> usize {
        self.ways * self.colours
    }
}

/// A measured point: one line of each of so many pages, cyclically.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Pages.
    pub pages: usize,
    /// Time a load, in any unit, the mean of several placements. What a hit and what a miss take is fitted along.
    pub time: f64,
    /// Its standard error, that of the placements included.
    pub error: f64,
}

/// The misses of one set under a policy, tabulated for many points.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    ways: usize,
    /// Misses a round of so many lines.
    misses: Vec<f64>,
}

/// Lines in a set beyond which all are taken to miss, in ways: random replacement still hits on 2 % of them.
const TIMES: usize = 4;
/// Occupancies this many standard deviations from the mean are left out: together below 1e-8 of the sets.
const WIDTH: f64 = 8.0;

impl Curve {
    /// Simulates one set of `ways` ways (at least 1) with 0 to four times as many lines.
    #[must_use]
    pub fn new(policy: Policy, ways: usize) -> Curve {
        let ways = ways.max(1);
        let most = TIMES * ways;
        // What fits stays. Beyond, misses grow smoothly but for the first lines too many.
        let step = (ways / 4).max(1);
        let at = |n: usize| (n, misses_roughly(policy, ways, n));
        let mut known: Vec<(usize, f64)> = vec![(0, 0.0), (ways, 0.0)];
        known.extend((ways + 1..ways + 1 + step).chain((ways + 1 + step..most).step_by(step)).map(at));
        known.push(at(most));
        let between = |n: usize| {
            let after = known.partition_point(|(at, _)| *at < n).clamp(1, known.len() - 1);
            let ((a, low), (b, high)) = (known[after - 1], known[after]);
            low + (high - low) * (n - a) as f64 / (b - a) as f64
        };
        Curve { ways, misses: (0..=most).map(between).collect() }
    }

    /// Expected share of lines that miss, 0 to 1, of one line of each of `pages` pages at random in `colours` page sets.
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
        let from = ((mean - WIDTH * sigma - WIDTH).max(0.0) as usize).max(self.ways + 1);
        let to = ((mean + WIDTH * sigma + WIDTH) as usize).min(pages);
        let missed = (from..=to).map(|k| {
            let chance =
                ln_binomial(pages as u64, k as u64) + k as f64 * one.ln() + (n - k as f64) * (1.0 - one).ln();
            chance.exp() * in_set(k)
        });
        (missed.sum::<f64>() * colours as f64 / n).min(1.0)
    }
}

/// What fits a measured curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The best, which is no finding where not `decided`.
    pub best: (Geometry, Policy),
    /// Pages that the cache holds: the best's, from the least to the most of all that explain the curve.
    pub pages: Interval,
    /// All that explain it, the best first.
    pub consistent: Vec<(Geometry, Policy)>,
    /// Is there one geometry, and only one, that explains it?
    pub decided: bool,
    /// One clause that says why.
    pub reason: String,
}

/// A point's error is at least this, in what times range over: a share is not told better (0.5 %).
const FLOOR: f64 = 0.005;
/// What chi-squared may lose against the best: 3 standard errors of one parameter.
const LOSS: f64 = 9.0;
/// Chance at which even the best is rejected.
const REJECT: f64 = 1e-4;
/// Geometries that are listed where several explain a curve.
const SHOWN: usize = 3;
/// Points that must lie on the rise (a share from 2 to 98 %) of the best: two parameters and one to spare.
const MIN_POINTS: usize = 3;
/// Parameters: ways, page sets, and the times of a hit and of a miss.
const PARAMETERS: usize = 4;

/// Fits the candidates, each under each of the policies, to measured points. `None` without points or candidates.
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
    let &(least, geometry, policy) = fits.first().filter(|_| !points.is_empty())?;
    let degrees = points.len().saturating_sub(PARAMETERS).max(1) as f64;
    // Errors that were given too small show in the best fit, and count for the others.
    let scale = (least / degrees).max(1.0);
    let explain = fits.iter().filter(|f| (f.0 - least) / scale <= LOSS);
    let consistent: Vec<(Geometry, Policy)> = explain.map(|f| (f.1, f.2)).collect();
    let sizes = || consistent.iter().map(|c| c.0.pages() as f64);
    let value = geometry.pages() as f64;
    let pages = Interval { value, low: sizes().fold(value, f64::min), high: sizes().fold(value, f64::max) };
    let curve = Curve::new(policy, geometry.ways);
    let rising =
        points.iter().filter(|p| (0.02..0.98).contains(&curve.share(geometry.colours, p.pages))).count();
    let others = consistent.iter().filter(|c| c.0 != geometry).count();
    let (decided, reason) = if !least.is_finite() || gamma_ur(degrees / 2.0, least / 2.0) < REJECT {
        (false, format!("no candidate explains the curve: chi-squared {least:.0} of {degrees:.0} degrees"))
    } else if rising < MIN_POINTS {
        (false, format!("too few points on the rise: {rising} of {MIN_POINTS}"))
    } else if others > 0 {
        let shown = |g: Geometry| format!("{} ways of {} page sets", g.ways, g.colours);
        let mut all: Vec<Geometry> = consistent.iter().map(|c| c.0).collect();
        all.sort_unstable();
        all.dedup();
        let more = if all.len() > SHOWN { format!(", or {} more", all.len() - SHOWN) } else { String::new() };
        let all: Vec<String> = all.into_iter().take(SHOWN).map(shown).collect();
        (false, format!("{}{more} explain how misses rise", all.join(", or ")))
    } else {
        (true, format!("only {} ways and {} page sets explain the curve", geometry.ways, geometry.colours))
    };
    Some(Fit { best: (geometry, policy), pages, consistent, decided, reason })
}

/// Chi-squared of the straight line from a hit's time to a miss's that fits best over the expected shares; infinite
/// where a miss would take no longer than a hit.
fn chi_squared(points: &[Point], curve: &Curve, colours: usize) -> f64 {
    let times = || points.iter().map(|p| p.time);
    let range = times().fold(f64::NEG_INFINITY, f64::max) - times().fold(f64::INFINITY, f64::min);
    let floor = FLOOR * range;
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
