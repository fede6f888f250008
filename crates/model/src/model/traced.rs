//! Accesses of programs one by one, with what they do to lines: for those who explain misses. [`Model::accesses`] is faster.

use fathom_probe::machine::Refusal;

use super::Model;
use super::accesses::Access;
use super::outcome::{Kind, Outcome};
use crate::hierarchy::{Event, Path, Sharing};
use crate::translate::Translation;

/// An access that was made alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// The number of the CPU's agent, from 0 in the order of first accesses.
    pub agent: usize,
    /// Its physical address.
    pub physical: u64,
    /// Its outcome.
    pub outcome: Outcome,
    /// Whether the nearest level and the nearest TLB served it, so that [`Model::accesses`] would not tell it.
    pub nearest: bool,
    /// What it did to lines of other CPUs.
    pub sharing: Sharing,
}

impl Model {
    /// Keeps what happens to lines from now on: [`Model::events`].
    pub fn keep_events(&mut self) {
        self.hierarchy.keep_events();
    }

    /// Returns what the last [`Model::traced`] did to lines beside its own, in order: the fills of a walk are before its
    /// [`Event::Walked`], those of the access itself after all walks.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        self.hierarchy.events()
    }

    /// Prepares for so many [`Model::traced`], so that state and counts are those of [`Model::accesses`] with a batch of them. Returns
    /// whether the TLBs have been emptied, and the numbers of their entries mean other pages from now on: on a guest's machine there is
    /// no end of pages.
    pub fn prepare_traced(&mut self, accesses: usize) -> bool {
        self.prepare_spaces();
        self.prepare_guest(accesses)
    }

    /// Makes one access of a CPU, at full detail. State, counts and time are those of [`Model::accesses`].
    ///
    /// # Errors
    /// A [`Refusal`] if the machine has no such CPU, no memory left for the address, or a shorter line than the access.
    pub fn traced(&mut self, cpu: u32, access: &Access) -> Result<Traced, Refusal> {
        let agent = self.known_agent(cpu)?;
        self.prepare_spaces();
        self.prepare_guest(1);
        let shift = self.nearest_shift(access.kind);
        let end = access.address.wrapping_add(u64::from(access.bytes.max(1)) - 1);
        if access.address >> shift != end >> shift {
            let reason = format!("{} bytes at {:#x} cross a line", access.bytes, access.address);
            return Err(Refusal::new(reason, "divide it at the lines of the nearest level"));
        }
        let offset = self.placed(access.space, access.address)?;
        self.hierarchy.forget_events();
        let tlbs = &mut self.agents[agent].tlbs;
        tlbs.told.get_or_insert_default().clear();
        let before = self.hierarchy.sharing();
        let outcome = self.outcome_of(agent, offset, access.kind, u64::from(access.bytes.max(1)));
        let path = if access.kind == Kind::Fetch { Path::Code } else { Path::Data };
        let nearest = outcome.level == self.hierarchy.nearest(path) && !outcome.tlb_missed;
        let sharing = self.hierarchy.sharing().since(before);
        Ok(Traced { agent, physical: self.physical(offset), outcome, nearest, sharing })
    }

    /// Returns what the last [`Model::traced`] did to the TLBs of its agent, in order. None if it was a use of the page that the agent had
    /// translated last.
    #[must_use]
    pub fn translations(&self, agent: usize) -> &[Translation] {
        self.agents[agent].tlbs.told.as_deref().unwrap_or_default()
    }

    /// Returns the set of a level in which the line of a physical address is.
    #[must_use]
    pub fn set_of(&self, level: usize, physical: u64) -> u64 {
        let number = (physical >> self.hierarchy.line_shift(level)) as u32;
        self.hierarchy.cache(0, level).set_of(number) as u64
    }
}
