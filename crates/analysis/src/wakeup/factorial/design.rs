//! Two-level designs: all combinations of up to four factors, and sixteen selected ones of up to eight.

use super::super::random::SeededRng;

/// Largest number of factors: beyond eight, sixteen cases confound an effect with a two-factor interaction.
pub const MAX_FACTORS: usize = 8;

/// Products of the first four factors that define the others: Box, Hunter and Hunter, "Statistics for Experimenters"
/// (2005), table 6.22, designs 2^(5-1) (resolution V), 2^(6-2), 2^(7-3) and 2^(8-4) (resolution IV).
const GENERATORS: [&[&[usize]]; 5] = [
    &[],
    &[&[0, 1, 2, 3]],
    &[&[0, 1, 2], &[1, 2, 3]],
    &[&[0, 1, 2], &[1, 2, 3], &[0, 2, 3]],
    &[&[1, 2, 3], &[0, 2, 3], &[0, 1, 2], &[0, 1, 3]],
];

/// Cases of a design.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Design {
    /// Factors that are on, for each case.
    levels: Vec<Vec<bool>>,
}

impl Design {
    /// Creates a design for `factors` factors: full up to four, sixteen cases up to [`MAX_FACTORS`]. `None` for 0 or
    /// more than that.
    #[must_use]
    pub fn new(factors: usize) -> Option<Design> {
        if factors == 0 || factors > MAX_FACTORS {
            return None;
        }
        let base = factors.min(4);
        let case = |case: usize| {
            let mut levels: Vec<bool> = (0..base).map(|f| case >> f & 1 == 1).collect();
            for made_of in GENERATORS[factors - base] {
                // Product of levels -1 and 1: positive if the number of factors that are off is even.
                let off = made_of.iter().filter(|&&f| !levels[f]).count();
                levels.push(off % 2 == 0);
            }
            levels
        };
        Some(Design { levels: (0..1 << base).map(case).collect() })
    }

    /// Returns the number of cases.
    #[must_use]
    pub fn cases(&self) -> usize {
        self.levels.len()
    }

    /// Returns the number of factors.
    #[must_use]
    pub fn factors(&self) -> usize {
        self.levels[0].len()
    }

    /// Returns which factors are on in a case; empty for an unknown case.
    #[must_use]
    pub fn levels(&self, case: usize) -> &[bool] {
        self.levels.get(case).map_or(&[], Vec::as_slice)
    }

    /// Returns the order of the cases in each block: random, and different in each block, so that drift does not
    /// correlate with a factor.
    #[must_use]
    pub fn order(&self, blocks: usize, seed: u64) -> Vec<Vec<usize>> {
        let mut rng = SeededRng::new(seed);
        let block = |_| {
            let mut cases: Vec<usize> = (0..self.cases()).collect();
            rng.shuffle(&mut cases);
            cases
        };
        (0..blocks).map(block).collect()
    }

    /// Returns -1 or 1 for each case: the product of the factors' levels.
    pub(super) fn signs(&self, of: &[usize]) -> Vec<f64> {
        let sign = |levels: &Vec<bool>| of.iter().map(|&f| if levels[f] { 1.0 } else { -1.0 }).product();
        self.levels.iter().map(sign).collect()
    }

    /// Returns the pairs of factors; pairs that no case separates are in one group.
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
