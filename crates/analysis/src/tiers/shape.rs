//! Miss curves: what share of a cyclic walk's loads miss, when the walk is larger than the cache.
//!
//! A working set of r times the cache's size puts r x ways lines into each set on average: some sets
//! get one line more than others. A set that holds all its lines never misses; one with more lines
//! than ways misses as its replacement lets it. For LRU and FIFO a cyclic walk then misses on every
//! line (the next line wanted is always the one just evicted); for random replacement and tree-PLRU
//! the share is found by simulating one set, once. This little simulation knows one set and nothing
//! of the model: the model's truth is not computed with it.

use std::sync::OnceLock;

/// The family of a miss curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// LRU or FIFO with this many ways: all lines of an overfull set miss.
    Lru(u32),
    /// Random replacement with this many ways.
    Random(u32),
    /// Tree-PLRU with this many ways (a power of two).
    TreePlru(u32),
    /// Not a cache of one machine: misses grow with the logarithm of the working set over this many
    /// quarter octaves. What hashed, shared or disturbed last levels look like.
    Gradual(u32),
}

/// Every shape that a fit tries. Ways from direct-mapped to 24; above that LRU's ramp is narrower than
/// the points are apart.
pub const ALL: &[Shape] = &[
    Shape::Lru(64),
    Shape::Lru(24),
    Shape::Lru(16),
    Shape::Lru(12),
    Shape::Lru(8),
    Shape::Lru(6),
    Shape::Lru(5),
    Shape::Lru(4),
    Shape::Lru(3),
    Shape::Lru(2),
    Shape::Lru(1),
    Shape::Random(2),
    Shape::Random(3),
    Shape::Random(4),
    Shape::Random(6),
    Shape::Random(8),
    Shape::Random(12),
    Shape::Random(16),
    Shape::Random(64),
    Shape::TreePlru(4),
    Shape::TreePlru(8),
    Shape::TreePlru(16),
    Shape::Gradual(2),
    Shape::Gradual(4),
    Shape::Gradual(6),
    Shape::Gradual(8),
    Shape::Gradual(12),
    Shape::Gradual(16),
];

/// Up to this many times its ways, a set is simulated; beyond, every load misses (random replacement
/// still hits on 2 % at four times the size, so the tables go to eight).
const TIMES: usize = 8;

/// A shape's miss curve, looked up once for many points.
#[derive(Clone, Copy, Debug)]
pub struct Curve {
    shape: Shape,
    /// Misses a load in a set of ways + 1, ways + 2, ... lines; empty where all miss.
    table: &'static [f64],
}

impl Curve {
    /// The share of loads that miss at `ratio` times the capacity: 0 up to 1, then rising to 1.
    #[must_use]
    pub fn at(&self, ratio: f64) -> f64 {
        if ratio <= 1.0 {
            return 0.0;
        }
        if let Shape::Gradual(quarters) = self.shape {
            return (4.0 * ratio.log2() / f64::from(quarters)).min(1.0);
        }
        let ways = self.shape.ways() as usize;
        let lines = ratio * ways as f64;
        if lines >= (TIMES * ways) as f64 {
            return 1.0;
        }
        let (few, share) = (lines as usize, lines.fract());
        // `share` of the sets hold one line more than the others.
        let missed =
            (1.0 - share) * few as f64 * self.in_set(few) + share * (few + 1) as f64 * self.in_set(few + 1);
        missed / lines
    }

    /// Share of misses in one set that holds `lines` lines.
    fn in_set(&self, lines: usize) -> f64 {
        match lines.checked_sub(self.shape.ways() as usize + 1) {
            None => 0.0,
            Some(_) if self.table.is_empty() => 1.0,
            Some(over) => self.table.get(over).copied().unwrap_or(1.0),
        }
    }
}

impl Shape {
    /// The share of loads that miss at `ratio` times the capacity.
    #[must_use]
    pub fn misses(self, ratio: f64) -> f64 {
        self.curve().at(ratio)
    }

    /// The miss curve.
    #[must_use]
    pub fn curve(self) -> Curve {
        Curve { shape: self, table: self.table() }
    }

    /// Ways of the shape; 0 for the gradual ones.
    #[must_use]
    pub fn ways(self) -> u32 {
        match self {
            Shape::Lru(w) | Shape::Random(w) | Shape::TreePlru(w) => w,
            Shape::Gradual(_) => 0,
        }
    }

    fn table(self) -> &'static [f64] {
        if matches!(self, Shape::Lru(_) | Shape::Gradual(_)) {
            return &[];
        }
        static TABLES: OnceLock<Vec<(Shape, Vec<f64>)>> = OnceLock::new();
        let tables = TABLES.get_or_init(|| {
            let simulated = |s: &&Shape| matches!(s, Shape::Random(_) | Shape::TreePlru(_));
            ALL.iter().filter(simulated).map(|s| (*s, s.simulate())).collect()
        });
        tables.iter().find(|(s, _)| *s == self).map_or(&[], |(_, t)| t.as_slice())
    }

    fn simulate(self) -> Vec<f64> {
        let ways = self.ways() as usize;
        (ways + 1..=TIMES * ways).map(|lines| one_set(self, ways, lines)).collect()
    }
}

/// Misses a load of a cyclic walk over `lines` lines in one set of `ways` ways, after a warm-up.
fn one_set(shape: Shape, ways: usize, lines: usize) -> f64 {
    let mut held = vec![usize::MAX; ways];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut tree = vec![false; ways];
    let laps = (24_000 / lines).max(60);
    let warm = laps / 6;
    let mut misses = 0u32;
    for lap in 0..laps {
        for line in 0..lines {
            let way = held.iter().position(|&h| h == line).unwrap_or_else(|| {
                misses += u32::from(lap >= warm);
                let way = held.iter().position(|&h| h == usize::MAX).unwrap_or_else(|| match shape {
                    Shape::TreePlru(_) => plru_victim(&tree, ways),
                    _ => {
                        // Knuth's MMIX multiplier; the high bits are good enough to draw a way.
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        ((state >> 33) as usize) % ways
                    }
                });
                held[way] = line;
                way
            });
            plru_touch(&mut tree, ways, way);
        }
    }
    f64::from(misses) / ((laps - warm) * lines) as f64
}

/// The way that tree-PLRU's bits point to: `true` at a node means "the right half is older".
fn plru_victim(tree: &[bool], ways: usize) -> usize {
    let (mut node, mut low, mut width) = (1, 0, ways);
    while width > 1 {
        width /= 2;
        let right = tree[node];
        low += if right { width } else { 0 };
        node = 2 * node + usize::from(right);
    }
    low
}

fn plru_touch(tree: &mut [bool], ways: usize, way: usize) {
    let (mut node, mut low, mut width) = (1, 0, ways);
    while width > 1 {
        width /= 2;
        let right = way >= low + width;
        tree[node] = !right;
        low += if right { width } else { 0 };
        node = 2 * node + usize::from(right);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_counts_come_out() {
        // 9 lines cycling in one 8-way set: LRU 9.00 misses a round, tree-PLRU 9.00, random 2.00
        // (measured for this project on three simulators).
        assert_eq!(9.0 * Shape::Lru(8).curve().in_set(9), 9.0);
        assert_eq!(9.0 * Shape::TreePlru(8).curve().in_set(9), 9.0);
        assert!((9.0 * Shape::Random(8).curve().in_set(9) - 2.0).abs() < 0.1);
    }

    #[test]
    fn a_large_random_cache_hits_as_theory_says() {
        // Fixed point of h = exp(-r (1 - h)): 0.203 at twice the size, 0.0198 at four times.
        for (ratio, hits) in [(2.0, 0.203), (4.0, 0.0198)] {
            let got = 1.0 - Shape::Random(64).misses(ratio);
            assert!((got - hits).abs() < 0.012, "at {ratio}: {got}");
        }
    }

    #[test]
    fn every_shape_starts_at_the_capacity_and_never_leaves_0_to_1() {
        for shape in ALL {
            assert_eq!(shape.misses(1.0), 0.0);
            for i in 1..4000 {
                let m = shape.misses(1.0 + f64::from(i) / 200.0);
                assert!((0.0..=1.0).contains(&m), "{shape:?} {i} {m}");
            }
            assert!(shape.misses(30.0) > 0.999);
        }
    }
}
