//! Miss curves: share of the loads of a cyclic walk that miss if the walk is larger than the cache.
//!
//! A working set of r times the cache's size puts r x ways lines into each set on average; some sets get one line more
//! than others. A set that holds all its lines never misses; one with more lines than ways misses according to its
//! replacement policy. Under LRU and FIFO a cyclic walk then misses on every line (the next line needed is always the
//! one just evicted). For random replacement and tree-PLRU the share is found by simulating one set, once. The
//! simulation shares no code with the model.

use std::sync::OnceLock;

/// Family of a miss curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// LRU or FIFO with this many ways: all lines of an overfull set miss.
    Lru(u32),
    /// Random replacement with this many ways.
    Random(u32),
    /// Tree-PLRU with this many ways. If that is not a power of two, the tree of the next one is used; a half without
    /// ways is never entered.
    TreePlru(u32),
    /// NRU with this many ways. One reference bit per way: evicts the lowest way whose bit is clear; if none is clear,
    /// all are cleared first.
    Nru(u32),
    /// Not a single cache: misses grow with the logarithm of the working set over this many quarter octaves. Typical of
    /// hashed, shared or disturbed last levels.
    Gradual(u32),
}

/// All shapes that a fit tries. Ways from direct-mapped to 24; with more ways LRU's ramp is narrower than the distance
/// of the points.
pub const ALL: &[Shape] = &{
    use Shape::{Gradual, Lru, Nru, Random, TreePlru};
    [
        Lru(64),
        Lru(24),
        Lru(20),
        Lru(16),
        Lru(12),
        Lru(8),
        Lru(6),
        Lru(5),
        Lru(4),
        Lru(3),
        Lru(2),
        Lru(1),
        Random(2),
        Random(3),
        Random(4),
        Random(5),
        Random(6),
        Random(8),
        Random(12),
        Random(16),
        Random(20),
        Random(64),
        TreePlru(3),
        TreePlru(4),
        TreePlru(5),
        TreePlru(6),
        TreePlru(8),
        TreePlru(12),
        TreePlru(16),
        TreePlru(20),
        Nru(2),
        Nru(3),
        Nru(4),
        Nru(5),
        Nru(6),
        Nru(8),
        Nru(12),
        Nru(16),
        Nru(20),
        Gradual(2),
        Gradual(4),
        Gradual(6),
        Gradual(8),
        Gradual(12),
        Gradual(16),
    ]
};

/// Largest simulated number of lines in a set, in ways; beyond it every load misses. Random replacement still hits on 2
/// % at four times the size, so the tables go to eight.
const MAX_OCCUPANCY_RATIO: usize = 8;

/// A shape's miss curve, looked up once for many points.
#[derive(Clone, Copy, Debug)]
pub struct Curve {
    shape: Shape,
    /// Misses per load in a set of ways + 1, ways + 2, ... lines; empty if all loads miss.
    table: &'static [f64],
}

impl Curve {
    /// Returns the share of loads that miss at `ratio` times the capacity: 0 up to 1, then rising to 1.
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
        if lines >= (MAX_OCCUPANCY_RATIO * ways) as f64 {
            return 1.0;
        }
        let (few, share) = (lines as usize, lines.fract());
        // `share` of the sets hold one line more than the others.
        let missed =
            (1.0 - share) * few as f64 * self.in_set(few) + share * (few + 1) as f64 * self.in_set(few + 1);
        missed / lines
    }

    /// Returns the share of misses in one set that holds `lines` lines.
    fn in_set(&self, lines: usize) -> f64 {
        match lines.checked_sub(self.shape.ways() as usize + 1) {
            None => 0.0,
            Some(_) if self.table.is_empty() => 1.0,
            Some(over) => self.table.get(over).copied().unwrap_or(1.0),
        }
    }
}

impl Shape {
    /// Returns the share of loads that miss at `ratio` times the capacity.
    #[must_use]
    pub fn misses(self, ratio: f64) -> f64 {
        self.curve().at(ratio)
    }

    /// Returns the miss curve.
    #[must_use]
    pub fn curve(self) -> Curve {
        Curve { shape: self, table: self.table() }
    }

    /// Returns the number of ways; 0 for gradual shapes.
    #[must_use]
    pub fn ways(self) -> u32 {
        match self {
            Shape::Lru(w) | Shape::Random(w) | Shape::TreePlru(w) | Shape::Nru(w) => w,
            Shape::Gradual(_) => 0,
        }
    }

    fn table(self) -> &'static [f64] {
        if matches!(self, Shape::Lru(_) | Shape::Gradual(_)) {
            return &[];
        }
        static TABLES: OnceLock<Vec<(Shape, Vec<f64>)>> = OnceLock::new();
        let tables = TABLES.get_or_init(|| {
            let simulated = |s: &&Shape| !matches!(s, Shape::Lru(_) | Shape::Gradual(_));
            ALL.iter().filter(simulated).map(|s| (*s, s.simulate())).collect()
        });
        tables.iter().find(|(s, _)| *s == self).map_or(&[], |(_, t)| t.as_slice())
    }

    fn simulate(self) -> Vec<f64> {
        let ways = self.ways() as usize;
        // Under tree-PLRU and NRU, a set with more than three times its ways of lines always misses; under random
        // replacement only beyond eight.
        let max = if matches!(self, Shape::Random(_)) { MAX_OCCUPANCY_RATIO * ways } else { 3 * ways };
        (ways + 1..=max)
            .map(|lines| match self {
                Shape::Random(16..) => mean_field(ways, lines),
                _ => one_set(self, ways, lines),
            })
            .collect()
    }
}

/// Returns the misses per load under random replacement in a set of many ways. A line survives a lap if none of the
/// lap's misses takes its way: h = (1 - 1/ways)^(lines (1 - h)). The fixed point is within 0.2 % of the simulation from
/// 16 ways on.
fn mean_field(ways: usize, lines: usize) -> f64 {
    let mut hits = 0.0f64;
    for _ in 0..2000 {
        let before = hits;
        hits = (1.0 - 1.0 / ways as f64).powf(lines as f64 * (1.0 - hits));
        if hits == before {
            break;
        }
    }
    1.0 - hits
}

/// Returns the misses per load of a cyclic walk over `lines` lines in one set of `ways` ways, after a warm-up.
fn one_set(shape: Shape, ways: usize, lines: usize) -> f64 {
    let mut set = Set {
        shape,
        held: Vec::with_capacity(ways),
        ways,
        places: vec![NOWHERE; lines],
        bits: 0,
        state: 0x9e37_79b9_7f4a_7c15,
    };
    let laps = (12_000 / lines).max(40);
    let warm = laps / 6;
    let mut misses = 0u32;
    for lap in 0..laps {
        for line in 0..lines {
            misses += u32::from(set.visit(line) && lap >= warm);
        }
    }
    f64::from(misses) / ((laps - warm) * lines) as f64
}

/// Way of a line that is not in the set.
const NOWHERE: usize = usize::MAX;

struct Set {
    shape: Shape,
    /// Line in each way; free ways are filled in order.
    held: Vec<usize>,
    ways: usize,
    /// Way of each line.
    places: Vec<usize>,
    /// Tree-PLRU's bits, the root at 1: 1 means "the right half is older". NRU's reference bits, one per way.
    bits: u64,
    /// State of the random replacement.
    state: u64,
}

impl Set {
    /// Visits a line; returns whether it was a miss.
    fn visit(&mut self, line: usize) -> bool {
        let miss = self.places[line] == NOWHERE;
        if miss {
            let way = self.held.len();
            if way < self.ways {
                self.held.push(line);
                self.places[line] = way;
            } else {
                let way = self.victim();
                self.places[self.held[way]] = NOWHERE;
                self.held[way] = line;
                self.places[line] = way;
            }
        }
        self.touch(self.places[line]);
        miss
    }

    fn victim(&mut self) -> usize {
        match self.shape {
            Shape::TreePlru(_) => self.older(),
            Shape::Nru(_) => {
                if self.bits.count_ones() as usize == self.ways {
                    self.bits = 0;
                }
                self.bits.trailing_ones() as usize
            }
            _ => {
                // Knuth's MMIX multiplier; its high bits are random enough to choose a way.
                self.state = self
                    .state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                ((self.state >> 33) as u32 % self.ways as u32) as usize
            }
        }
    }

    /// Returns the way that tree-PLRU's bits point to.
    fn older(&self) -> usize {
        let (mut node, mut low, mut width) = (1, 0, self.ways.next_power_of_two());
        while width > 1 {
            width /= 2;
            let right = self.bits >> node & 1 == 1 && low + width < self.ways;
            low += if right { width } else { 0 };
            node = 2 * node + usize::from(right);
        }
        low
    }

    /// Records a use of a way.
    fn touch(&mut self, way: usize) {
        match self.shape {
            Shape::Nru(_) => self.bits |= 1 << way,
            Shape::TreePlru(_) => {
                // Every bit on the way's path points to the other half.
                let mut node = self.ways.next_power_of_two() + way;
                while node > 1 {
                    let left = u64::from(node.is_multiple_of(2));
                    node /= 2;
                    self.bits = self.bits & !(1 << node) | left << node;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_reproduce_published_misses() {
        // 9 lines cycling in one 8-way set: LRU, tree-PLRU and NRU 9.00 misses per round, random 2.00 (from three
        // simulators, for this project).
        assert_eq!(9.0 * Shape::Lru(8).curve().in_set(9), 9.0);
        assert_eq!(9.0 * Shape::TreePlru(8).curve().in_set(9), 9.0);
        assert_eq!(9.0 * Shape::Nru(8).curve().in_set(9), 9.0);
        assert!((9.0 * Shape::Random(8).curve().in_set(9) - 2.0).abs() < 0.1);
    }

    #[test]
    fn large_random_cache_follows_the_theory() {
        // Fixed point of h = exp(-r (1 - h)): 0.203 at twice the size, 0.0198 at four times.
        for (ratio, hits) in [(2.0, 0.203), (4.0, 0.0198)] {
            let got = 1.0 - Shape::Random(64).misses(ratio);
            assert!((got - hits).abs() < 0.012, "at {ratio}: {got}");
        }
    }

    #[test]
    fn every_shape_starts_at_the_capacity_and_stays_within_0_to_1() {
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
