//! Loads of two chains with instructions between them, which overlap within the window of the core.

use fathom_probe::machine::{Machine, Refusal};

use super::Model;
use crate::hierarchy::Path;
use crate::machine::Cell;
use crate::overlap::Overlap;

impl Model {
    /// Makes `n` steps, each a load of every chain, with `fillers` operations between a load and the next. What a load takes is what it
    /// takes after all loads before it; then the clock is set to the time by which all of them are complete.
    ///
    /// # Errors
    /// A [`Refusal`] if it is not described how many accesses overlap, and within how many instructions.
    pub(crate) fn chase_apart(&mut self, cells: &mut [Cell], fillers: u64, n: u64) -> Result<(), Refusal> {
        let Some(mut overlap) =
            Overlap::of(&self.description, 1).filter(|_| self.description.core.window.is_some())
        else {
            let reason = "how many instructions are in flight is not described: `window` of [core]";
            return Err(Refusal::new(reason, "describe `outstanding` and `window`"));
        };
        let nearest = self.hierarchy.nearest(Path::Data);
        let fills = |model: &Model| nearest.map_or(0, |level| model.hierarchy.cache(0, level).refills);
        let mut complete = vec![0; cells.len()];
        let start = self.clock();
        for _ in 0..n {
            for (cell, complete) in cells.iter_mut().zip(&mut complete) {
                let (before, missed) = (self.clock(), fills(self));
                let address = cell.offset();
                *cell = self.follow(*cell);
                overlap.pass(0, fillers + 1);
                let filled = (fills(self) > missed).then_some(address);
                *complete = overlap.add_after(0, *complete, filled, self.clock() - before);
            }
        }
        let instructions = n * cells.len() as u64 * (fillers + 1) * self.ops.0;
        self.agents[0].clock = start + overlap.end(0).max(instructions);
        Ok(())
    }
}
