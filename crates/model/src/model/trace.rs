//! Accesses by address, for traces; and writes by non-coherent devices.

use fathom_probe::machine::Refusal;

use super::Model;
use super::batch::{Loads, Nobody, Run};
use super::outcome::{Detail, Kind, Outcome};
use crate::hierarchy::{MEMORY, Path};
use crate::uncached::{WINDOW, place, window};

impl Model {
    /// Makes one access of CPU `cpu` to offset `offset` of the arena, at that CPU's time: the interface for traces. An
    /// offset in a mapping that is not write-back is accessed with its attribute, with 8 bytes. The CPUs are coherent:
    /// a store invalidates other CPUs' copies of its line, a load has dirty copies written back. Neither takes time.
    ///
    /// # Errors
    /// A [`Refusal`] if the machine has no such CPU or the arena no such offset.
    pub fn access(&mut self, cpu: u32, offset: u64, kind: Kind) -> Result<Outcome, Refusal> {
        let bytes = self.arena.bytes;
        let granted = self.windows.behaves.get(window(offset)).is_some_and(Option::is_some);
        if place(offset) >= bytes || !granted {
            return Err(self.no_offset(offset));
        }
        let agent = self.known_agent(cpu)?;
        Ok(self.outcome_of(agent, offset, kind, 8))
    }

    /// Makes one access to an offset that exists. `bytes` matters for memory that is not write-back.
    pub(super) fn outcome_of(&mut self, agent: usize, offset: u64, kind: Kind, bytes: u64) -> Outcome {
        let (walks, missed) = (self.agents[agent].tlbs.walks, self.agents[agent].tlbs.missed);
        let before = self.agents[agent].clock;
        self.agents[agent].tlbs.anew = None;
        let path = if kind == Kind::Fetch { Path::Code } else { Path::Data };
        let level = match kind {
            Kind::Load if offset >= WINDOW => self.load_through(agent, offset, bytes),
            Kind::Store if offset >= WINDOW => self.store_through(agent, offset, bytes),
            Kind::Load => self.load_line::<true>(agent, offset),
            Kind::Store => self.store(agent, offset),
            Kind::Fetch => self.fetch(agent, place(offset)),
        };
        let physical = self.physical(offset);
        let stale = kind != Kind::Store && self.hierarchy.is_stale(agent, path, physical);
        let agent = &self.agents[agent];
        Outcome {
            stale,
            level: (level != MEMORY).then_some(level),
            cost: agent.clock - before,
            translation: agent.tlbs.charged(),
            walked: agent.tlbs.walks > walks,
            tlb_missed: agent.tlbs.missed > missed,
        }
    }

    /// Returns the agent of a CPU of the description, for accesses to addresses that the caller chooses.
    pub(super) fn known_agent(&mut self, cpu: u32) -> Result<usize, Refusal> {
        let cpus = self.description.core.cpus;
        if cpu >= cpus {
            let remedy = format!("CPUs are 0 to {}", cpus - 1);
            return Err(Refusal::new(format!("there is no CPU {cpu}"), remedy));
        }
        let agent = self.agent_of(cpu);
        self.sharing |= agent > 0;
        Ok(agent)
    }

    /// Returns the physical address of an offset.
    pub(crate) fn physical(&self, offset: u64) -> u64 {
        self.frames.of(place(offset))
    }

    /// Records that a non-coherent device has written `bytes` bytes of memory from `offset` on. Cached copies are stale
    /// from then on, until they are evicted. Nothing is tracked before the first such write.
    ///
    /// # Errors
    /// A [`Refusal`] if the range exceeds the arena.
    pub fn written_behind(&mut self, offset: u64, bytes: u64) -> Result<(), Refusal> {
        self.check_range(offset, bytes)?;
        for (physical, bytes) in self.frames.pieces(offset, bytes) {
            self.hierarchy.written_behind(physical, bytes);
        }
        Ok(())
    }

    /// Returns whether a non-coherent device would read the newest version of a range from memory: not while a cache
    /// holds a dirty line of it.
    ///
    /// # Errors
    /// A [`Refusal`] if the range exceeds the arena.
    pub fn memory_is_current(&mut self, offset: u64, bytes: u64) -> Result<bool, Refusal> {
        self.check_range(offset, bytes)?;
        let pieces = self.frames.pieces(offset, bytes);
        Ok(pieces.into_iter().all(|(physical, bytes)| self.hierarchy.memory_is_current(physical, bytes)))
    }

    fn check_range(&self, offset: u64, bytes: u64) -> Result<(), Refusal> {
        if offset.checked_add(bytes).is_some_and(|end| end <= self.arena.bytes && bytes > 0) {
            return Ok(());
        }
        let remedy = format!("the arena has {} bytes", self.arena.bytes);
        Err(Refusal::new(format!("{bytes} bytes from {offset} exceed the arena"), remedy))
    }

    /// Loads from `offsets` of the arena on CPU 0, in order, at full cost.
    ///
    /// # Errors
    /// A [`Refusal`] if an offset is outside the arena; the loads before it have been made.
    pub fn loads(&mut self, offsets: &[u64]) -> Result<(), Refusal> {
        self.loads_in(Detail::Full, offsets)
    }

    /// Loads on CPU 0 without translation and time; levels and refills as usual.
    ///
    /// # Errors
    /// A [`Refusal`] if an offset is outside the arena; the loads before it have been made.
    pub fn count_loads(&mut self, offsets: &[u64]) -> Result<(), Refusal> {
        self.loads_in(Detail::Counts, offsets)
    }

    fn loads_in(&mut self, detail: Detail, offsets: &[u64]) -> Result<(), Refusal> {
        // An upper bound, for which no offset is compared.
        let bound = offsets.iter().fold(0, |all, &offset| all | offset);
        let bytes = self.arena.bytes;
        let outside = (bound >= bytes).then(|| offsets.iter().position(|&offset| offset >= bytes)).flatten();
        let inside = &offsets[..outside.unwrap_or(offsets.len())];
        self.run_batch(0, detail, &mut Loads { places: inside, next: 0 }, &mut Nobody);
        match outside {
            None => Ok(()),
            Some(index) => Err(self.no_offset(offsets[index])),
        }
    }

    /// Makes `count` accesses of CPU 0 to offsets of the arena at a constant distance, which may be negative or zero.
    ///
    /// # Errors
    /// A [`Refusal`] if an offset is outside the arena; no access has been made then.
    pub fn run(
        &mut self,
        detail: Detail,
        kind: Kind,
        start: u64,
        stride: i64,
        count: u64,
    ) -> Result<(), Refusal> {
        let ends = [0, count.saturating_sub(1)]
            .map(|number| i128::from(start) + i128::from(stride) * i128::from(number));
        if let Some(end) = ends.into_iter().find(|end| !(0..i128::from(self.arena.bytes)).contains(end)) {
            return Err(self.no_offset(end as u64));
        }
        self.run_batch(0, detail, &mut Run { place: start, stride, count, kind, done: 0 }, &mut Nobody);
        Ok(())
    }

    fn no_offset(&self, offset: u64) -> Refusal {
        let remedy = format!("offsets are 0 to {}", self.arena.bytes - 1);
        Refusal::new(format!("the arena has no offset {offset}"), remedy)
    }
}
