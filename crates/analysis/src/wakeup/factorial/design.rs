//! Two-level designs: all combinations of up to four factors, sixteen chosen ones of up to eight.

use super::super::random::SeededRng;

/// Factors at most: beyond eight, sixteen cells confound an effect with an interaction of two.
pub const MAX_FACTORS: usize = 8;

/// What makes the factors behind the fourth of those before: Box, Hunter and Hunter, "Statistics for Experimenters"
/// (2005), table 6.22, designs 2^(5-1) (resolution V), 2^(6-2), 2^(7-3) and 2^(8-4) (resolution IV).
const GENERATORS: [&[&[usize]]; 5] = [
    &[],
    &[&[0, 1, 2, 3]],
    &[&[0, 1, 2], &[1, 2, 3]],
    &[&[0, 1, 2], &[1, 2, 3], &[0, 2, 3]],
    &[&[1, 2, 3], &[0, 2, 3], &[0, 1, 2], &[0, 1, 3]],
];

/// Which cells there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Design {
    /// Of each cell, which factors are on.
    levels: Vec<Vec<bool>>,
}

impl Design {
    /// A design for so many factors: full up to four, in sixteen cells up to [`MAX_FACTORS`]. `None` of none or more.
    #[must_use]
    pub fn new(factors: usize) -> Option<Design> {
        if factors == 0 || factors > MAX_FACTORS {
            return None;
        }
        let base = factors.min(4);
        let case = |case: usize| {
            let mut levels: Vec<bool> = (0..base).map(|f| case >> f & 1 == 1).collect();
            for made_of in GENERATORS[factors - base] {
                // A product of levels -1 and 1: on where an even number of an even set, or an odd of an odd, is on.
                let off = made_of.iter().filter(|&&f| !levels[f]).count();
                levels.push(off % 2 == 0);
            }
            levels
        };
        Some(Design { levels: (0..1 << base).map(case).collect() })
    }

    /// Cells.
    #[must_use]
    pub fn cases(&self) -> usize {
        self.levels.len()
    }

    /// Factors.
    #[must_use]
    pub fn factors(&self) -> usize {
        self.levels[0].len()
    }

    /// Which factors are on in a cell; none in one that there is not.
    #[must_use]
    pub fn levels(&self, case: usize) -> &[bool] {
        self.levels.get(case).map_or(&[], Vec::as_slice)
    }

    /// The order in which to run the cells of each block: random, and another in each, so that nothing that drifts
    /// goes with a factor.
    #[must_use]
    pub fn order(&self, blocks: usize, seed: u64) -> Vec<Vec<usize>> {
        let mut chance = SeededRng::new(seed);
        let block = |_| {
            let mut cases: Vec<usize> = (0..self.cases()).collect();
            chance.shuffle(&mut cases);
            cases
        };
        (0..blocks).map(block).collect()
    }

    /// -1 or 1 of each cell: the product of the factors' levels.
    pub(super) fn signs(&self, of: &[usize]) -> Vec<f64> {
        let sign = |levels: &Vec<bool>| of.iter().map(|&f| if levels[f] { 1.0 } else { -1.0 }).product();
        self.levels.iter().map(sign).collect()
    }

    /// The pairs of factors, those that no cell tells apart in one group.
    #[must_use]
    pub fn groups(&self) -> Vec<Vec<(usize, usize)>> {
        let mut groups: Vec<Vec<(usize, usize)>> = Vec::new();
        for a in 0..self.factors() {
            for b in a + 1..self.factors() {
                let signs = self.signs(&[a, b]);
                match groups.iter_mut().find(|g| self.signs(&[g[0].0, g[0].1]) == signs) {
                    Some(group) => group.push((a, b)),
                    None => groups.push(vec![(a, b)]),
                }
            }
        }
        groups
    }
}
