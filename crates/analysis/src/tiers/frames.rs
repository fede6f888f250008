//! Levels in random frames: the whole curve as a stack of rises that are known by theory.
//!
//! Where pages have random frames, a level does not end in a step, but in a rise over an octave and more (`colours`). A direct-mapped
//! one misses from its second page on and has no plateau at all, and its rise goes over into that of the next level. The number of levels
//! is then told from the whole curve: stacks of one level, two and more are fitted by likelihood (`stack`), and each level has its
//! price. Each working set is measured in several placements, because few colours
//! overflow by chance; a placement in which none does shows the latency of a tier without misses.

mod colours;
mod stack;

use super::memo::Memo;
use super::shape::{self, Shape};
use super::{Capacity, Point, Reading, Tier, by_octave_thirds, widened};
use crate::interval::{Interval, median, median_interval};
use colours::Level;
use stack::{Explained, MAX_LEVELS, Stack};

/// A latency in one placement of the working set's pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// Latency, ns.
    pub y: f64,
    /// Its relative standard error.
    pub sigma: f64,
}

/// A working set, measured in some placements.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// Working set, bytes.
    pub x: f64,
    /// Its placements.
    pub placements: Vec<Placement>,
    /// Translation in it, ns.
    pub translation: f64,
}

impl Placed {
    /// Returns the median of its placements, without their translation, as a point.
    fn point(&self, translation: f64) -> Point {
        let values = |of: fn(&Placement) -> f64| self.placements.iter().map(of).collect::<Vec<f64>>();
        let middle = |of| median(&values(of)).unwrap_or(0.0);
        Point {
            x: self.x,
            y: middle(|p| p.y) - translation * self.translation,
            sigma: middle(|p| p.sigma),
            shared: 0.0,
        }
    }
}

/// Smallest ratio of two capacities, of which the larger has colours. Successive caches of known machines differ by 2 and more.
const MIN_RATIO: f64 = 1.85;
/// The same without colours: both end in a step.
const MIN_STEP_RATIO: f64 = 1.35;
/// Largest capacity, as a share of the largest working set: beyond it nothing shows the tier behind the level.
const MAX_CAPACITY: f64 = 0.7;
/// Capacities that are tried first, in an octave.
const PER_OCTAVE: f64 = 4.0;
/// Shapes that are tried first.
const FEW: [Shape; 8] = [
    Shape::Lru(1),
    Shape::Lru(2),
    Shape::Lru(4),
    Shape::Lru(8),
    Shape::Lru(16),
    Shape::Random(4),
    Shape::Random(16),
    Shape::TreePlru(8),
];
/// Places at which another level is tried, by the cost before the others are moved.
const STARTS: usize = 4;
/// Capacities of two levels that are tried in place of one, relative to it.
const SPLITS: [(f64, f64); 5] = [(0.8, 1.2), (0.65, 1.3), (0.45, 1.0), (0.2, 1.0), (1.0, 2.5)];
/// Relative steps of the search for a capacity.
const STEPS: [f64; 3] = [0.15, 0.05, 0.015];
/// Sweeps over all levels, at most, and the gain below which none follows.
const SWEEPS: (usize, f64) = (8, 0.5);
/// Price of a level: its capacity, shape and latency, and what the theory leaves out. Least and most, and between them what decides. Of 68
/// described machines (wide generator, clean seeds 190004 to 570241, without huge pages), prices of 25 to 40 gave 50 to 55 times the right
/// number; where the least and the most gave the same number, it was right.
const PRICES: [f64; 3] = [18.0, 32.0, 50.0];
/// Additional cost of the capacities in an interval: 95 % of a chi-squared of one is 3.84. The other levels are not fitted again, so
/// twice that.
const NEAR: f64 = 7.68;
/// Values of a plateau, one for each third of an octave, from which on they count alone.
const SHORT: usize = 4;
/// Distance of the logarithms of a fitted capacity and of a step by measured points up to which the step counts, if the level has fewer colours
/// than this.
const STEP_NEAR: f64 = 0.15;
const FEW_COLOURS: f64 = 2.0;
/// Parts of the steps before and behind a tier without a plateau that may be none of it. Of 27 described machines (wide generator, seeds 190000
/// to 310059), six had a latency that the errors of the fit did not hold; these parts hold all of them.
const NEIGHBOURS: (f64, f64) = (0.6, 0.1);
/// Relative standard error of a fitted latency, and factor of a capacity's interval: what the theory leaves out.
const FITTED: f64 = 0.02;
const MORE: f64 = 1.06;
/// Share of the loads that leave a level up to which it has a plateau, and from which on the next one has.
const PLATEAU: (f64, f64) = (0.003, 0.995);

/// Returns the tiers of a machine whose pages of `page` bytes have random frames; `None` if no level explains the curve better than none.
/// Points ascend. `steps` is the reading of the same curve by its points, whose capacities are kept where a level ends in a step.
#[must_use]
pub fn read(points: &[Placed], page: f64, steps: &Reading) -> Option<Reading> {
    if points.len() < 3 {
        return None;
    }
    KNOWN.with(|known| {
        known
            .get((points.to_vec(), page, steps.clone()), |(points, page, steps)| fitted(points, *page, steps))
    })
}

/// What a reading depends on.
type Curve = (Vec<Placed>, f64, Reading);

thread_local! {
    static KNOWN: Memo<Curve, Option<Reading>> = const { Memo::new() };
}

/// Returns the reading of [`read`], computed.
fn fitted(points: &[Placed], page: f64, steps: &Reading) -> Option<Reading> {
    let stack = Stack::new(points, page);
    let fits = fits(&stack, steps);
    let number = |price: f64| {
        let cost = |i: &usize| fits[*i].cost + price * (i + 1) as f64;
        (0..fits.len()).min_by(|a, b| cost(a).total_cmp(&cost(b)))
    };
    let [most, best, least] = PRICES.map(number);
    let (most, best, least) = (most?, best?, least?);
    let mut notes =
        vec![format!("pages are in random frames: {} levels explain the whole curve best", best + 1)];
    if most != least {
        notes.push(format!(
            "{} to {} levels explain it nearly as well: the number of tiers is not sure",
            least + 1,
            most + 1
        ));
    }
    let near = Near::of(&stack, &fits[best]);
    let tiers = (0..=fits[best].levels.len()).map(|i| tier(&stack, (&fits[best], &near), i, steps)).collect();
    Some(Reading { tiers, scatter: steps.scatter, flat_end: steps.flat_end, notes })
}

/// Returns the best stack of one level, of two and so on, until more levels explain no more.
fn fits(stack: &Stack, steps: &Reading) -> Vec<Explained> {
    let mut all: Vec<Explained> = Vec::new();
    while all.len() < MAX_LEVELS {
        let levels = all.last().map_or(&[][..], |fit| &fit.levels);
        let refined = starts(stack, levels).into_iter().map(|fit| refine(stack, fit));
        let Some(best) = refined.min_by(|a, b| a.cost.total_cmp(&b.cost)) else { break };
        all.push(best);
    }
    if let Some(fit) = by_steps(stack, steps) {
        let same = fit.levels.len() - 1;
        if let Some(best) = all.get_mut(same).filter(|best| fit.cost < best.cost) {
            *best = fit;
        }
    }
    // A search that adds levels may have missed a better stack of fewer.
    for more in (1..all.len()).rev() {
        for without in 0..=more {
            let mut levels = all[more].levels.clone();
            levels.remove(without);
            let fit = stack.explain(&levels).filter(|fit| fit.cost < all[more - 1].cost + PRICES[1]);
            if let Some(fit) = fit.map(|fit| refine(stack, fit)).filter(|fit| fit.cost < all[more - 1].cost) {
                all[more - 1] = fit;
            }
        }
    }
    all
}

/// Returns the stack of the capacities that the points show one by one, of which some may be bends of one rise.
fn by_steps(stack: &Stack, steps: &Reading) -> Option<Explained> {
    let mut levels: Vec<Level> = Vec::new();
    for capacity in steps.tiers.iter().filter_map(|tier| tier.capacity) {
        let level = Level { capacity: capacity.onset.value, shape: FEW[3] };
        if levels.last().is_none_or(|last| level.capacity >= MIN_RATIO * last.capacity)
            && levels.len() < MAX_LEVELS
        {
            levels.push(level);
        }
    }
    (!levels.is_empty()).then(|| attempt(stack, &levels)).flatten().map(|fit| refine(stack, fit))
}

/// Returns stacks with one level more, at the places where it explains most.
fn starts(stack: &Stack, levels: &[Level]) -> Vec<Explained> {
    let (least, most) = (stack.points[0].x, stack.points[stack.points.len() - 1].x);
    let count = (PER_OCTAVE * (MAX_CAPACITY * most / least).log2()).max(0.0) as usize;
    let at = |i: usize| {
        let capacity = least * (i as f64 / PER_OCTAVE).exp2();
        let with = |shape: Shape| {
            let mut all = levels.to_vec();
            all.push(Level { capacity, shape });
            all.sort_by(|a, b| a.capacity.total_cmp(&b.capacity));
            attempt(stack, &all)
        };
        FEW.into_iter().filter_map(with).min_by(|a, b| a.cost.total_cmp(&b.cost))
    };
    let all: Vec<Option<Explained>> = (0..=count).map(at).collect();
    let split = (0..levels.len()).filter_map(|i| split(stack, levels, i));
    let cost = |i: Option<usize>| i.and_then(|i| all.get(i)?.as_ref()).map_or(f64::INFINITY, |fit| fit.cost);
    let lowest = |i: &usize| cost(Some(*i)) < cost(i.checked_sub(1)) && cost(Some(*i)) <= cost(Some(i + 1));
    let mut starts: Vec<Explained> =
        (0..all.len()).filter(lowest).filter_map(|i| all[i].clone()).chain(split).collect();
    starts.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    starts.truncate(STARTS);
    starts
}

/// Returns the best stack with two levels in place of level `i`.
fn split(stack: &Stack, levels: &[Level], i: usize) -> Option<Explained> {
    let here = levels[i].capacity;
    let two = |(nearer, farther): (f64, f64)| {
        let with = move |a: Shape, b: Shape| {
            let [a, b] =
                [(nearer, a), (farther, b)].map(|(part, shape)| Level { capacity: part * here, shape });
            let mut all = levels.to_vec();
            all.splice(i..=i, [a, b]);
            attempt(stack, &all)
        };
        FEW.into_iter().flat_map(move |a| FEW.into_iter().filter_map(move |b| with(a, b)))
    };
    SPLITS.into_iter().flat_map(two).min_by(|a, b| a.cost.total_cmp(&b.cost))
}

/// Returns the stack of these levels if they are far enough apart, and explained.
fn attempt(stack: &Stack, levels: &[Level]) -> Option<Explained> {
    let most = stack.points[stack.points.len() - 1].x;
    let ratio = |level: &Level| if level.has_colours(stack.page) { MIN_RATIO } else { MIN_STEP_RATIO };
    let apart = levels.windows(2).all(|two| two[1].capacity >= ratio(&two[1]) * two[0].capacity);
    (apart && levels.last().is_none_or(|last| last.capacity <= MAX_CAPACITY * most)).then_some(())?;
    stack.explain(levels)
}

/// Returns the stack with level `i` replaced.
fn with(stack: &Stack, fit: &Explained, i: usize, level: Level) -> Option<Explained> {
    let mut levels = fit.levels.clone();
    levels[i] = level;
    attempt(stack, &levels)
}

/// Returns the shapes of caches: a gradual one is none, and with more ways the rise is narrower than the distance of the points.
fn shapes() -> impl Iterator<Item = Shape> {
    shape::ALL.iter().copied().filter(|shape| (1..=24).contains(&shape.ways()))
}

/// Moves one level after the other until the cost falls no more: its capacity, its shape, and both.
fn refine(stack: &Stack, mut best: Explained) -> Explained {
    let keep = |found: Option<Explained>, best: &mut Explained| {
        if let Some(found) = found.filter(|found| found.cost < best.cost - 1e-9) {
            *best = found;
        }
    };
    for _ in 0..SWEEPS.0 {
        let before = best.cost;
        for step in STEPS {
            for i in 0..best.levels.len() {
                let moved = |level: Level, steps: f64| Level {
                    capacity: level.capacity * (step * steps).exp(),
                    ..level
                };
                let here = best.levels[i];
                for steps in [-3.0, -2.0, -1.0, 1.0, 2.0, 3.0] {
                    keep(with(stack, &best, i, moved(here, steps)), &mut best);
                }
                let here = best.levels[i];
                let (some, all): (&[f64], &[f64]) = (&[-1.0, 0.0, 1.0], &[0.0]);
                let tried: Vec<Shape> = if step == STEPS[1] { shapes().collect() } else { FEW.to_vec() };
                for shape in tried {
                    for steps in if step == STEPS[0] { some } else { all } {
                        keep(with(stack, &best, i, moved(Level { shape, ..here }, *steps)), &mut best);
                    }
                }
            }
        }
        if before - best.cost < SWEEPS.1 {
            break;
        }
    }
    best
}

/// What explains the curve nearly as well as a fit.
struct Near {
    /// Least and most capacity of each level, with any shape.
    capacities: Vec<(f64, f64)>,
    /// Least and most latency of each tier, ns.
    latencies: Vec<(f64, f64)>,
}

impl Near {
    /// Finds them by moving one level at a time.
    fn of(stack: &Stack, fit: &Explained) -> Near {
        let exactly = |value: f64| (value, value);
        let mut near = Near {
            capacities: fit.levels.iter().map(|level| exactly(level.capacity)).collect(),
            latencies: fit.latencies.iter().map(|(value, _)| exactly(*value)).collect(),
        };
        let step = 1.0 + STEPS[1];
        for (i, level) in fit.levels.iter().enumerate() {
            for factor in [1.0 / step, step] {
                for n in 1..24 {
                    let capacity = level.capacity * factor.powi(n);
                    // One step more is held: the next capacity was not tried.
                    let held = &mut near.capacities[i];
                    *held = (held.0.min(capacity), held.1.max(capacity));
                    let cases = shapes().filter_map(|shape| with(stack, fit, i, Level { capacity, shape }));
                    let cases: Vec<Explained> = cases.filter(|case| case.cost < fit.cost + NEAR).collect();
                    if cases.is_empty() {
                        break;
                    }
                    for (held, of) in cases
                        .iter()
                        .flat_map(|case| case.latencies.iter().enumerate())
                        .map(|(tier, of)| (tier, of.0))
                    {
                        let range = &mut near.latencies[held];
                        *range = (range.0.min(of), range.1.max(of));
                    }
                }
            }
        }
        near
    }
}

/// Shares of misses between which a level is full: 0.53 with 16 ways and 0.63 with one if it is LRU, 0.3 under random replacement, and less
/// if a lap is too long to be repeated until the misses settle.
const SURE: (f64, f64) = (0.2, 0.8);

/// Returns the working set at which this share of the loads misses in the level.
fn reached(level: &Level, page: f64, share: f64) -> f64 {
    let at = |i: usize| level.capacity * ((i as f64 - 300.0) / 100.0).exp2();
    let shares = level.misses((0..600).map(at), page).shares;
    at(shares.iter().position(|misses| *misses >= share).unwrap_or(600))
}

/// Returns the fitted latency of tier `i`. Beside a rise before it that is a little wider the tier would be faster, and beside one behind it
/// slower: part of both steps may belong to the neighbours.
fn latency(fit: &Explained, near: &Near, i: usize) -> Interval {
    let (value, error) = fit.latencies[i];
    let error = 1.96 * error.hypot(FITTED * value);
    let (low, high) = near.latencies[i];
    let nearer = i.checked_sub(1).map_or(value, |before| fit.latencies[before].0);
    let farther = fit.latencies.get(i + 1).map_or(value, |next| next.0);
    Interval {
        value,
        low: (low - error).min(value - NEIGHBOURS.0 * (value - nearer)),
        high: (high + error).max(value + NEIGHBOURS.1 * (farther - value)),
    }
}

/// Returns tier `i` of a stack.
fn tier(stack: &Stack, (fit, near): (&Explained, &Near), i: usize, steps: &Reading) -> Tier {
    let leaves = |level: Option<usize>, at: usize| level.map_or(1.0, |level| fit.leaving[level].shares[at]);
    let before = i.checked_sub(1);
    let here = (i < fit.levels.len()).then_some(i);
    let left = |at: usize| here.map_or(0.0, |_| leaves(here, at));
    let is_on = |at: &usize| leaves(before, *at) > PLATEAU.1 && left(*at) < PLATEAU.0;
    let points = &stack.points;
    let on: Vec<Point> =
        (0..points.len()).filter(is_on).map(|at| points[at].point(fit.translation)).collect();
    let begin = on.first().map_or(f64::INFINITY, |p| p.x);
    let plateau = by_octave_thirds(on.iter());
    let fitted = latency(fit, near, i);
    let latency = match median_interval(&plateau) {
        Some(direct) if plateau.len() >= SHORT || i == 0 => widened(direct, 0.0025, plateau.len()),
        Some(direct) if plateau.len() >= 2 => {
            Interval { low: direct.low.min(fitted.low), high: direct.high.max(fitted.high), ..direct }
        }
        _ => fitted,
    };
    let capacity = here.map(|i| capacity(stack, (fit, near), i, steps));
    Tier { latency, capacity, points: plateau.len(), on_plateau: plateau.len(), begin }
}

/// Returns the end of tier `i`.
fn capacity(stack: &Stack, (fit, near): (&Explained, &Near), i: usize, steps: &Reading) -> Capacity {
    let level = fit.levels[i];
    let (low, high) = near.capacities[i];
    let (low, high) = (low / MORE, high * MORE);
    let measured = steps.tiers.iter().filter_map(|tier| tier.capacity);
    let is_same = |c: &Capacity| c.explained && (c.onset.value / level.capacity).ln().abs() < STEP_NEAR;
    if let Some(step) = measured.into_iter().find(is_same).filter(|_| level.colours(stack.page) < FEW_COLOURS)
    {
        return step;
    }
    let leaving = &fit.leaving[i].shares;
    let at =
        |share: f64| stack.points.iter().zip(leaving).find(|(_, leaves)| **leaves >= share).map(|(p, _)| p.x);
    let last = stack.points[stack.points.len() - 1].x;
    let fits = stack
        .points
        .iter()
        .zip(leaving)
        .rfind(|(_, leaves)| **leaves < PLATEAU.0)
        .map_or(stack.points[0].x, |(p, _)| p.x);
    // A step of fewer ways, without colours, looks much the same.
    let low = if level.colours(stack.page) < FEW_COLOURS { low.min(fits / MORE) } else { low };
    Capacity {
        onset: Interval {
            value: level.capacity,
            low: low.min(reached(&level, stack.page, SURE.0)),
            high: high.max(reached(&level, stack.page, SURE.1)),
        },
        below: fits,
        above: at(0.5).unwrap_or(last),
        shape: level.shape,
        explained: true,
        wide_rise: true,
        in_frames: true,
        covered: 0,
    }
}

#[cfg(test)]
mod tests;
