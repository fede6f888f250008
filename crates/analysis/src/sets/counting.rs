//! Counts the cells of an arrangement in the sets of a cache.

use fathom_units::divisor::gcd;

use super::Conflict;

/// Sets with the same number of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Filled {
    /// Cells in each of these sets, at least 1.
    pub(super) cells: u64,
    /// Number of these sets.
    pub(super) sets: u64,
}

/// Largest number of sets that are counted in a table. With more sets the cells are sorted.
const MAX_TABLE: u64 = 1 << 16;

/// Counts cells in the sets of ways of one size, for one arrangement after another. If an arrangement only adds groups
/// to the one before, only their cells are counted: a scan has each period with increasing numbers of groups.
#[derive(Debug)]
pub(super) struct Counter {
    way_bytes: u64,
    grain: u64,
    /// Cells in each set; empty if there are more sets than [`MAX_TABLE`].
    cells: Vec<u16>,
    /// Sets with a cell.
    used: Vec<usize>,
    /// Number of sets by their cells; the first is not used.
    sets_with: Vec<u64>,
    /// Group, stride and period of the counted cells, and the number of their groups.
    arrangement: (u64, u64, u64),
    groups: u64,
    /// Offset of the first cell that is not counted, modulo the bytes of a way.
    next: u64,
}

impl Counter {
    /// Creates a counter for ways of `way_bytes` whose set is the number of the `grain` bytes, modulo the sets.
    pub(super) fn new(way_bytes: u64, grain: u64) -> Counter {
        let sets = way_bytes / grain;
        // The last grain of a way may be shorter.
        let table = if sets <= MAX_TABLE { sets as usize + 1 } else { 0 };
        Counter {
            way_bytes,
            grain,
            cells: vec![0; table],
            used: Vec::new(),
            sets_with: Vec::new(),
            arrangement: (0, 0, 0),
            groups: 0,
            next: 0,
        }
    }

    /// Returns how many sets have how many cells, ascending by cells, without empty sets.
    pub(super) fn counts(&mut self, conflict: &Conflict) -> Vec<Filled> {
        if let Some(regular) = self.regular_counts(conflict) {
            return regular;
        }
        if self.cells.is_empty() {
            return self.sorted_counts(conflict);
        }
        let arrangement = (conflict.group, conflict.stride, conflict.period);
        if arrangement != self.arrangement || conflict.groups < self.groups {
            self.clear();
            self.arrangement = arrangement;
        }
        let (cells, used, sets_with) = (&mut self.cells, &mut self.used, &mut self.sets_with);
        self.next = each_offset(conflict, self.way_bytes, (self.groups, self.next), |offset| {
            let set = (offset / self.grain) as usize;
            let cells = &mut cells[set];
            match *cells {
                0 => used.push(set),
                before => sets_with[usize::from(before)] -= 1,
            }
            *cells += 1;
            let now = usize::from(*cells);
            if sets_with.len() <= now {
                sets_with.resize(now + 1, 0);
            }
            sets_with[now] += 1;
        });
        self.groups = conflict.groups;
        let all = (1..).zip(self.sets_with.iter().skip(1));
        all.filter(|(_, sets)| **sets > 0).map(|(cells, sets)| Filled { cells, sets: *sets }).collect()
    }

    fn clear(&mut self) {
        self.used.drain(..).for_each(|set| self.cells[set] = 0);
        self.sets_with.clear();
        (self.groups, self.next) = (0, 0);
    }

    /// Returns the same as [`Counter::counts`], by sorting the cells by set.
    fn sorted_counts(&self, conflict: &Conflict) -> Vec<Filled> {
        let mut sets = Vec::new();
        each_offset(conflict, self.way_bytes, (0, 0), |offset| sets.push(offset / self.grain));
        sets.sort_unstable();
        let mut cells: Vec<u64> = sets.chunk_by(|a, b| a == b).map(|one| one.len() as u64).collect();
        cells.sort_unstable();
        let alike = cells.chunk_by(|a, b| a == b);
        alike.map(|all| Filled { cells: all[0], sets: all.len() as u64 }).collect()
    }

    /// Returns the same for single cells at a multiple of the grain: they visit sets/gcd(sets, step) sets in turn.
    /// `None` for other arrangements.
    pub(super) fn regular_counts(&self, conflict: &Conflict) -> Option<Vec<Filled>> {
        if conflict.group != 1 || conflict.groups == 0 {
            return None;
        }
        if !conflict.period.is_multiple_of(self.grain) || !self.way_bytes.is_multiple_of(self.grain) {
            return None;
        }
        let sets = self.way_bytes / self.grain;
        let visited = sets / gcd(sets, conflict.period / self.grain % sets);
        let (each, more) = (conflict.groups / visited, conflict.groups % visited);
        let all = [Filled { cells: each, sets: visited - more }, Filled { cells: each + 1, sets: more }];
        Some(all.into_iter().filter(|filled| filled.cells > 0 && filled.sets > 0).collect())
    }
}

/// Calls `each` with the offset of every cell from group `from` on, modulo `modulus`; `first` is the offset of that
/// group. Returns the offset of the group after the last. Additions only: a division per cell takes longer than the
/// rest.
fn each_offset(
    conflict: &Conflict,
    modulus: u64,
    (from, first): (u64, u64),
    mut each: impl FnMut(u64),
) -> u64 {
    let reduced = |sum: u64| if sum >= modulus { sum - modulus } else { sum };
    let (stride, period) = (conflict.stride % modulus, conflict.period % modulus);
    let mut first = first;
    for _ in from..conflict.groups {
        let mut offset = first;
        for _ in 0..conflict.group {
            each(offset);
            offset = reduced(offset + stride);
        }
        first = reduced(first + period);
    }
    first
}
