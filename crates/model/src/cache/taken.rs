//! Ways that a neighbour has taken.

use super::{Cache, DIRTY, Evicted, FLAG_BITS, FLAGS, FREE, State};

impl Cache {
    /// Leaves all but `taken` ways of each set in use, at least one. Returns the lines of the ways that are lost, set by
    /// set: under LRU and FIFO the oldest, else those of the highest ways. Ways that are returned are free. Policies that
    /// keep bits begin anew.
    pub fn leave(&mut self, taken: usize) -> Vec<Evicted> {
        let ways = self.all_ways.saturating_sub(taken).max(1);
        let mut evicted = Vec::new();
        if ways == self.ways {
            return evicted;
        }
        for set in 0..self.sets as usize {
            self.sort_by_age(set);
            let order = self.order(set);
            for &way in order.iter().take(self.ways).skip(ways) {
                let old = std::mem::replace(self.entry(set, way), FREE);
                match old {
                    FREE => self.free -= 1,
                    _ => evicted.push(Evicted { number: old >> FLAG_BITS, flags: old & FLAGS }),
                }
            }
            self.begin_anew(set, &order, ways);
        }
        self.free += ways.saturating_sub(self.ways) * self.sets as usize;
        self.ways = ways;
        self.writebacks += evicted.iter().filter(|old| old.flags & DIRTY != 0).count() as u64;
        evicted
    }

    /// Puts the entries of a set whose order is a matrix in the order of age, so that the ways that stay are the first ones.
    fn sort_by_age(&mut self, set: usize) {
        if self.state == State::Matrix {
            let order = super::replacement_state::matrix_order(self.words[set], self.ways);
            let entries: Vec<u32> = order.into_iter().map(|way| *self.entry(set, way)).collect();
            entries.into_iter().enumerate().for_each(|(way, entry)| *self.entry(set, way) = entry);
        }
    }

    /// Returns all ways of a set: those in use in the order in which they are kept, then the others.
    fn order(&self, set: usize) -> Vec<usize> {
        let State::Nibbles { .. } = self.state else { return (0..self.all_ways).collect() };
        // Nibbles beyond the ways in use are undefined.
        let used = (0..self.ways).map(|place| (self.words[set] >> (4 * place) & 15) as usize);
        let mut order: Vec<usize> = used.collect();
        order.extend((0..self.all_ways).filter(|way| !order[..self.ways].contains(way)).collect::<Vec<_>>());
        order
    }

    /// Sets the policy's state of a set after a change to `ways` ways: `order` for LRU and FIFO, else that of an empty set.
    fn begin_anew(&mut self, set: usize, order: &[usize], ways: usize) {
        let words = self.state.words();
        match self.state {
            State::Nibbles { .. } => {
                let nibbles = order.iter().enumerate().map(|(place, way)| (*way as u64) << (4 * place));
                self.words[set] = nibbles.fold(0, |word, nibble| word | nibble);
            }
            _ => self.words[set * words..(set + 1) * words].fill(self.state.start(ways)),
        }
    }
}
