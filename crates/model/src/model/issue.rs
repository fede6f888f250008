//! Accesses that are translated by the page tables of a guest, which give physical address and attribute.

use fathom_probe::machine::Refusal;

use super::Model;
use super::outcome::{Kind, Outcome};
use super::windows::accesses;
use crate::cache::MAX_NUMBERS;
use crate::hierarchy::{MEMORY, Path};
use crate::uncached::{behaviour_of_byte, place};

/// The translation of an access by a guest's page tables.
#[derive(Clone, Copy, Debug)]
pub struct GuestTranslation<'a> {
    /// Virtual address, for TLBs.
    pub va: u64,
    /// Physical address, for caches and memory.
    pub pa: u64,
    /// Bytes in the page that the last descriptor maps.
    pub page_bytes: u64,
    /// The byte of `MAIR_EL1` that it is mapped with.
    pub mair: u8,
    /// Physical addresses of the descriptors of the walk, the last level's first. Empty if translation is disabled; it
    /// then has no cost.
    pub descriptors: &'a [u64],
}

impl Model {
    /// Makes one access of `bytes` bytes by CPU `cpu`, translated by a guest's tables. Do not use it together with the
    /// arena, whose addresses have another meaning.
    ///
    /// # Errors
    /// A [`Refusal`] if the CPU or address does not exist, or the attribute is not described.
    pub fn issue(
        &mut self,
        cpu: u32,
        kind: Kind,
        at: &GuestTranslation<'_>,
        bytes: u64,
    ) -> Result<Outcome, Refusal> {
        let behaves = behaviour_of_byte(&self.description.uncached, at.mair)?;
        let agent = self.known_agent(cpu)?;
        let page = self.paging.page_elsewhere(at.va, at.page_bytes);
        let out_of_range = |address: u64| address >> self.narrowest_line() >= MAX_NUMBERS;
        let Some(page) = page.filter(|_| !out_of_range(at.pa.saturating_add(bytes))) else {
            let reason = format!("the model has no address {:#x} at {:#x}", at.pa, at.va);
            return Err(Refusal::new(reason, "the maximum is 2^30 lines and 2^29 pages"));
        };
        let own = &self.agents[agent];
        let (walks, missed, before) = (own.tlbs.walks, own.tlbs.missed, own.clock);
        let (mut level, mut translation) = (MEMORY, 0);
        for (pa, bytes) in accesses(at.pa, bytes) {
            self.accesses += 1;
            if self.sharing {
                self.hierarchy.snoop(agent, pa, kind == Kind::Store);
            }
            self.forget_lines();
            if self.paging.costs && !at.descriptors.is_empty() {
                let before = self.agents[agent].clock;
                self.translate_page(agent, page, Some(at.descriptors));
                translation += self.agents[agent].clock - before;
            }
            level = match kind {
                Kind::Load => self.load_as(agent, behaves, pa, bytes),
                Kind::Store => self.store_as(agent, behaves, pa, bytes),
                Kind::Fetch => {
                    let level = self.hierarchy.read(agent, Path::Code, 0, pa);
                    self.pay(agent, level, pa);
                    level
                }
            };
        }
        let own = &self.agents[agent];
        Ok(Outcome {
            tlb_missed: own.tlbs.missed > missed,
            level: (level != MEMORY).then_some(level),
            cost: own.clock - before,
            translation,
            walked: own.tlbs.walks > walks,
            stale: false,
        })
    }

    /// Cleans and invalidates the lines of physical memory, at the described cost per line.
    ///
    /// # Errors
    /// A [`Refusal`] if that cost is not described.
    pub fn maintain_at(&mut self, pa: u64, bytes: u64) -> Result<(), Refusal> {
        self.maintainable()?;
        self.maintain_physical(place(pa), bytes);
        Ok(())
    }

    /// Reads CPU 0's cycle counter, at the cost of reading the timer.
    pub fn read_cycles(&mut self) -> u64 {
        let cycles = self.cycles();
        self.advance(self.timer.overhead);
        cycles
    }

    /// Removes all translations from the TLBs of all CPUs.
    pub fn drop_translations(&mut self) {
        for agent in &mut self.agents {
            agent.tlbs.empty();
        }
        self.forget_lines();
    }
}
