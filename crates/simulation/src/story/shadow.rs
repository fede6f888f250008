//! Beside each cache: a fully associative LRU cache with as many lines, and what became of each line.

use fathom_model::Loss;
use rustc_hash::FxHashMap;

use super::pairs::End;

/// How a line was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    pub how: Loss,
    pub by: End,
    /// Bytes that other CPUs have stored since, if a store invalidated it.
    pub stored: u64,
}

/// What was known of a line before an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Before {
    /// A line was allocated for it once.
    pub seen: bool,
    /// The fully associative cache had it.
    pub resident: bool,
    /// How the real cache has lost it.
    pub lost: Option<Lost>,
}

/// No node.
const NONE: u32 = u32::MAX;

/// A line.
#[derive(Clone, Debug)]
struct Node {
    /// Neighbours in the order of use, if it is resident.
    older: u32,
    newer: u32,
    resident: bool,
    seen: bool,
    lost: Option<Lost>,
}

/// The fully associative cache.
#[derive(Clone, Debug)]
pub(super) struct Shadow {
    capacity: usize,
    index: FxHashMap<u64, u32>,
    nodes: Vec<Node>,
    resident: usize,
    newest: u32,
    oldest: u32,
}

impl Shadow {
    pub fn new(capacity: usize) -> Shadow {
        Shadow {
            capacity,
            index: FxHashMap::default(),
            nodes: Vec::new(),
            resident: 0,
            newest: NONE,
            oldest: NONE,
        }
    }

    /// Uses a line, which becomes resident if the use allocates it. Returns what was known before.
    pub fn touch(&mut self, line: u64, allocates: bool) -> Before {
        let next = self.nodes.len() as u32;
        let number = *self.index.entry(line).or_insert(next);
        if number == next {
            let (older, newer) = (NONE, NONE);
            self.nodes.push(Node { older, newer, resident: false, seen: false, lost: None });
        }
        let node = &mut self.nodes[number as usize];
        let before = Before { seen: node.seen, resident: node.resident, lost: node.lost.take() };
        node.seen |= allocates;
        if before.resident {
            if self.newest != number {
                self.unlink(number);
                self.link(number);
            }
        } else if allocates {
            self.nodes[number as usize].resident = true;
            self.link(number);
            self.resident += 1;
            if self.resident > self.capacity {
                let oldest = self.oldest;
                self.unlink(oldest);
                self.nodes[oldest as usize].resident = false;
                self.resident -= 1;
            }
        }
        before
    }

    /// The real cache has lost a line.
    pub fn lose(&mut self, line: u64, lost: Lost) {
        if let Some(&number) = self.index.get(&line) {
            self.nodes[number as usize].lost = Some(lost);
        }
    }

    /// Another CPU has stored bytes of a line, which matters if a store has taken it from this cache.
    pub fn stored(&mut self, line: u64, bytes: u64) {
        let Some(&number) = self.index.get(&line) else { return };
        if let Some(lost) = &mut self.nodes[number as usize].lost
            && lost.how == Loss::Invalidated
        {
            lost.stored |= bytes;
        }
    }

    fn unlink(&mut self, number: u32) {
        let Node { older, newer, .. } = self.nodes[number as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
    }

    /// Makes a line the newest.
    fn link(&mut self, number: u32) {
        let newest = self.newest;
        let node = &mut self.nodes[number as usize];
        (node.older, node.newer) = (newest, NONE);
        match newest {
            NONE => self.oldest = number,
            newest => self.nodes[newest as usize].newer = number,
        }
        self.newest = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same, as a list.
    fn naive(list: &mut Vec<u64>, capacity: usize, line: u64, allocates: bool) -> bool {
        let at = list.iter().position(|&known| known == line);
        if let Some(at) = at {
            list.remove(at);
            list.push(line);
        } else if allocates {
            list.push(line);
            if list.len() > capacity {
                list.remove(0);
            }
        }
        at.is_some()
    }

    #[test]
    fn residents_are_those_of_a_list() {
        for capacity in [1, 2, 7, 64] {
            let (mut shadow, mut list, mut state) = (Shadow::new(capacity), Vec::new(), 9u64);
            let mut hits = 0;
            for _ in 0..20_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (line, allocates) = ((state >> 40) % (2 * capacity as u64), state >> 60 != 3);
                let resident = shadow.touch(line, allocates).resident;
                assert_eq!(resident, naive(&mut list, capacity, line, allocates));
                hits += u32::from(resident);
            }
            assert!(hits > 5000, "{hits}");
        }
    }
}
