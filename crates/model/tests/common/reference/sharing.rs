//! What CPUs do to one another's lines.

use super::*;

impl Reference {
    /// Counts what an access is about to do to lines of other CPUs, by what their caches hold.
    pub(super) fn count_sharing(
        &mut self,
        (cpu, others): (u32, &[u32]),
        private: &[usize],
        address: u64,
        (start, grain): (u64, u64),
        store: bool,
    ) {
        let (mut all_held, mut modified) = (false, None);
        for &other in others {
            let mut held = false;
            for &level in private {
                for at in (start..start + grain).step_by(self.level(level).line as usize) {
                    let block = self.block(level, at);
                    let Some(slot) = self.cache(level, other).slot(block) else { continue };
                    let dirty = slot.dirty;
                    held = true;
                    self.sharing[level][0] += u64::from(store);
                    modified = if dirty && modified.is_none() { Some(level) } else { modified };
                }
            }
            all_held |= held;
            self.sharing.last_mut().unwrap()[0] += u64::from(held && store);
        }
        let (which, level) = match store {
            false => (1, modified),
            true if all_held => {
                let own: Vec<usize> = self.path(false).into_iter().filter(|l| private.contains(l)).collect();
                let mut holds = |&level: &usize| {
                    let block = self.block(level, address);
                    self.cache(level, cpu).slot(block).is_some()
                };
                (2, own.into_iter().find(|level| holds(level)))
            }
            true => return,
        };
        if let Some(level) = level {
            self.sharing[level][which] += 1;
            self.sharing.last_mut().unwrap()[which] += 1;
        }
    }

    /// Returns the first difference to what the model says that CPUs have done to one another's lines.
    pub fn differs_in_sharing(&self, model: &fathom_model::Model) -> Option<String> {
        let totals = model.totals();
        let list = |of: fathom_model::Sharing| [of.invalidated, of.transfers, of.upgrades];
        let all = totals.levels.iter().map(|level| level.sharing).chain([totals.sharing]).map(list);
        let all: Vec<[u64; 3]> = all.collect();
        (all != self.sharing).then(|| format!("sharing by level {all:?}, naive {:?}", self.sharing))
    }
}
