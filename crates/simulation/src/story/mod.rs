//! Why accesses miss: the reason of each miss, the data that misses, and the lines that take one another's place.
//!
//! The reasons are those of Hill and Smith ("Evaluating associativity in CPU caches", IEEE Trans. Computers 38(12), 1989),
//! for each cache: a miss is cold if the line was never there; a conflict if a fully associative LRU cache with as many
//! lines, and the same accesses, would have hit; else capacity. Conflicts are thus due to sets, to replacement that is not
//! LRU, and to lines that an inclusive level has taken from nearer ones. A line that another CPU's store has
//! invalidated is shared if the access touches bytes that other CPUs have stored since, else falsely shared (the definition
//! of Torrellas, Lam and Hennessy, IEEE Trans. Computers 43(6), 1994). A store that misses in a level that allocates for
//! loads only has a reason of its own, unless its line had been there.
//!
//! TLBs miss for the first three of these reasons, with pages in place of lines (`translation`).
//!
//! Exclusive levels hold what nearer ones have lost, so that their accesses do not tell what they would hold: their misses
//! have no reason.

mod pairs;
mod shadow;
mod tally;
mod translation;

use fathom_model::description::{Holds, Inclusion};
use fathom_model::{Access, Description, Event, Kind, Loss, Model, Outcome, Traced};

use crate::counts::{REASONS, Reason, SharingCounts, StoryCounts};
use crate::heap::Owner;
use crate::origin::{accessor_of, place_of};
use pairs::{End, Pairs};
use shadow::{Before, Lost, Shadow};
use tally::Tally;
use translation::Translations;

/// A level, reduced to what matters here.
#[derive(Clone, Copy, Debug)]
struct Level {
    shift: u32,
    lines: usize,
    allocates_stores: bool,
    /// Its misses have reasons.
    told: bool,
    shared: bool,
}

/// The story of a machine's misses.
#[derive(Debug)]
pub(crate) struct Story {
    levels: Vec<Level>,
    /// Levels on the way of data, and of instructions.
    data: Vec<usize>,
    code: Vec<usize>,
    /// By agent and level. Those of a shared level are the first agent's.
    shadows: Vec<Shadow>,
    agents: usize,
    reasons: Vec<[u64; REASONS]>,
    /// By place, of the nearest level.
    places: Vec<[u64; REASONS]>,
    lines: Tally,
    pairs: Pairs,
    translations: Translations,
    /// What the access has displaced: agent, level, physical address, how, and by what. Empty between accesses.
    losses: Vec<(usize, usize, u64, Loss, End)>,
}

impl Story {
    pub fn new(description: &Description) -> Story {
        let on = |other: Holds| {
            let all = description.levels.iter().enumerate();
            all.filter(|(_, level)| level.holds != other).map(|(index, _)| index).collect::<Vec<_>>()
        };
        let (data, code) = (on(Holds::Instructions), on(Holds::Data));
        let levels = description.levels.iter().map(|level| Level {
            shift: level.line.trailing_zeros(),
            lines: usize::try_from(level.sets() * u64::from(level.ways)).unwrap_or(usize::MAX),
            allocates_stores: level.allocate,
            told: level.inclusion != Inclusion::Exclusive,
            shared: level.shared,
        });
        let levels: Vec<Level> = levels.collect();
        let nearest = data.first().map_or(3, |&level| levels[level].shift);
        Story {
            reasons: vec![[0; REASONS]; levels.len()],
            lines: Tally::new(levels.len(), nearest),
            pairs: Pairs::new(nearest),
            translations: Translations::new(description),
            levels,
            data,
            code,
            shadows: Vec::new(),
            agents: 0,
            places: Vec::new(),
            losses: Vec::new(),
        }
    }

    /// Notes an access that the model has made, with its events. It took `times` units more than a hit: if each access waits for the
    /// one before, and if they overlap.
    pub fn note(
        &mut self,
        model: &Model,
        cpu: u32,
        (access, owner): (&Access, Owner),
        traced: &Traced,
        times: [u64; 2],
    ) {
        let Traced { agent, physical, outcome, nearest, sharing } = *traced;
        let sharing = SharingCounts::from(sharing);
        self.add_agents(agent);
        let (place, accessor) = (place_of(access.pc), accessor_of(access.pc));
        let own = End { address: access.address, place: place as u32, cpu, owner, accessor };
        self.translations.note(agent, model.translations(agent), own);
        self.before(model.events(), agent, own);
        let reason = self.misses(model, agent, access, physical, outcome, own);
        if access.kind != Kind::Fetch && (!nearest || sharing.has_any()) {
            let path = self.data.iter().take_while(|&&level| Some(level) != outcome.level);
            self.lines.add(own, path, (outcome.walked, times), (reason, sharing));
        }
        if let Some(reason) = reason {
            if self.places.len() <= place {
                self.places.resize((place + 1).next_multiple_of(1024), [0; REASONS]);
            }
            self.places[place][reason as usize] += 1;
        }
        for (agent, level, address, how, by) in std::mem::take(&mut self.losses) {
            let slot = self.slot(agent, level);
            let line = address >> self.levels[level].shift;
            self.shadows[slot].lose(line, Lost { how, by, stored: 0 });
        }
        if access.kind == Kind::Store {
            self.stored(agent, physical, access.bytes);
        }
    }

    fn add_agents(&mut self, agent: usize) {
        while self.agents <= agent {
            self.shadows.extend(self.levels.iter().map(|level| Shadow::new(level.lines)));
            self.translations.add_agent();
            self.agents += 1;
        }
    }

    fn slot(&self, agent: usize, level: usize) -> usize {
        if self.levels[level].shared { level } else { agent * self.levels.len() + level }
    }

    /// Follows what came before the access itself: walks, and lines that went outwards. What was lost is noted afterwards.
    fn before(&mut self, events: &[Event], agent: usize, own: End) {
        // Losses before a walk's end are its own; they have no culprit in the program.
        let mut first = 0;
        for event in events {
            match *event {
                Event::Lost { agent, level, address, how } => {
                    self.losses.push((agent, level, address, how, own));
                }
                Event::Written { agent, level, address } => {
                    let slot = self.slot(agent, level);
                    let Level { shift, allocates_stores, .. } = self.levels[level];
                    self.shadows[slot].touch(address >> shift, allocates_stores);
                }
                Event::Walked { address, from, served } => {
                    for loss in &mut self.losses[first..] {
                        loss.4 = End::walk(own.cpu);
                    }
                    first = self.losses.len();
                    for position in from..self.data.len() {
                        let level = self.data[position];
                        let slot = self.slot(agent, level);
                        self.shadows[slot].touch(address >> self.levels[level].shift, true);
                        if Some(level) == served {
                            break;
                        }
                    }
                }
            }
        }
    }

    /// Follows the access through the levels. Returns why it missed in the nearest one, if it did.
    fn misses(
        &mut self,
        model: &Model,
        agent: usize,
        access: &Access,
        physical: u64,
        outcome: Outcome,
        own: End,
    ) -> Option<Reason> {
        let path = if access.kind == Kind::Fetch { &self.code } else { &self.data };
        let mut nearest = None;
        for position in 0..path.len() {
            let path = if access.kind == Kind::Fetch { &self.code } else { &self.data };
            let level = path[position];
            let Level { shift, allocates_stores, told, .. } = self.levels[level];
            let slot = self.slot(agent, level);
            let allocates = access.kind != Kind::Store || allocates_stores;
            let before = self.shadows[slot].touch(physical >> shift, allocates);
            if Some(level) == outcome.level {
                break;
            }
            if !told {
                continue;
            }
            let reason = reason(&before, allocates, bytes_in_line(physical, access.bytes, shift));
            self.reasons[level][reason as usize] += 1;
            if position == 0 {
                nearest = Some(reason);
            }
            if let Some(lost) = before.lost.filter(|_| reason.has_pair()) {
                let set = model.set_of(level, physical);
                self.pairs.add(level, reason, set, own, lost.by);
            }
        }
        nearest
    }

    /// Notes a store for the CPUs whose copies have been invalidated.
    fn stored(&mut self, agent: usize, physical: u64, bytes: u16) {
        if self.agents < 2 {
            return;
        }
        for other in (0..self.agents).filter(|&other| other != agent) {
            for &level in &self.data {
                if self.levels[level].shared {
                    continue;
                }
                let shift = self.levels[level].shift;
                let slot = other * self.levels.len() + level;
                self.shadows[slot].stored(physical >> shift, bytes_in_line(physical, bytes, shift));
            }
        }
    }

    /// The machine has begun with new pages: the numbers of its TLBs' entries mean others from now on.
    pub fn begin_pages(&mut self) {
        self.translations.forget();
    }

    /// Returns what has been counted so far.
    pub fn counts(&self) -> StoryCounts {
        let told = |(level, reasons): (&Level, &[u64; REASONS])| level.told.then_some(*reasons);
        let places = self.places.iter().zip(0u64..).filter(|(of, _)| of.iter().any(|&count| count > 0));
        StoryCounts {
            levels: self.levels.iter().zip(&self.reasons).map(told).collect(),
            places: places.map(|(of, place)| (place, *of)).collect(),
            lines: self.lines.counts(),
            line_bytes: self.lines.bytes(),
            sites: self.lines.sites(),
            heap: Vec::new(),
            pairs: self.pairs.counts(),
            tlbs: self.translations.reasons(),
            page_pairs: self.translations.pairs(),
        }
    }
}

/// Returns why an access has missed.
fn reason(before: &Before, allocates: bool, bytes: u64) -> Reason {
    match before.lost {
        Some(lost) if lost.how == Loss::Invalidated && lost.stored & bytes != 0 => Reason::Shared,
        Some(lost) if lost.how == Loss::Invalidated => Reason::FalselyShared,
        _ if before.resident => Reason::Conflict,
        _ if !allocates => Reason::Unallocated,
        _ if before.seen => Reason::Capacity,
        _ => Reason::Cold,
    }
}

/// Returns a mask of the bytes of a line of 2^`shift` bytes. Lines of more than 64 bytes are masked in parts of more bytes.
fn bytes_in_line(physical: u64, bytes: u16, shift: u32) -> u64 {
    let part = shift.saturating_sub(6);
    let within = physical & ((1 << shift) - 1);
    let first = within >> part;
    let last = ((within + u64::from(bytes.max(1)) - 1) >> part).min(63);
    (u64::MAX >> (63 - (last - first))) << first
}

#[cfg(test)]
mod naive_sharing;
#[cfg(test)]
mod tests;
