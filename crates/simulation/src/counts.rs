//! What is counted on one machine.

use fathom_model::{Kind, Sharing};
use serde::{Deserialize, Serialize};

use crate::heap::SiteCounts;
use crate::origin::Accessor;

/// The kinds of accesses, in the order of arrays by kind.
pub const KINDS: [Kind; 3] = [Kind::Load, Kind::Store, Kind::Fetch];

/// What CPUs have done to one another's lines in private levels ([`Sharing`] says what is counted).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharingCounts {
    /// Of a level: lines that stores of other CPUs have invalidated there. Else: CPUs that have lost a line so.
    pub invalidated: u64,
    /// Loads and fetches of a line that another CPU had modified.
    pub transfers: u64,
    /// Stores to a line that the CPU itself and others had, clean.
    pub upgrades: u64,
}

impl SharingCounts {
    /// Returns whether there is anything.
    #[must_use]
    pub fn has_any(self) -> bool {
        self != SharingCounts::default()
    }

    /// Adds others.
    pub fn add(&mut self, more: SharingCounts) {
        self.invalidated += more.invalidated;
        self.transfers += more.transfers;
        self.upgrades += more.upgrades;
    }
}

impl From<Sharing> for SharingCounts {
    fn from(of: Sharing) -> SharingCounts {
        let Sharing { invalidated, transfers, upgrades } = of;
        SharingCounts { invalidated, transfers, upgrades }
    }
}

/// Counts of a level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelCounts {
    /// Name in the description.
    pub name: String,
    /// `data`, `instructions` or `unified`.
    pub holds: String,
    /// Accesses that reached it, by kind: those that no nearer level served. Fetches of walks are not among them.
    pub accesses: [u64; 3],
    /// Accesses that it served, by kind.
    pub hits: [u64; 3],
    /// Lines that it filled, for walks too.
    pub fills: u64,
    /// Dirty lines that it evicted.
    pub writebacks: u64,
    /// What CPUs have done to one another's lines in it; `None` if only one has made accesses, and of a shared level.
    pub sharing: Option<SharingCounts>,
    /// Time that it served data accesses, units of 1 / [`fathom_model::UNITS_PER_CYCLE`] cycle, without translation.
    pub units: u64,
}

/// Counts of a TLB.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlbCounts {
    /// Name in the description.
    pub name: String,
    /// Translations that reached it.
    pub accesses: u64,
    /// Translations that it did not have.
    pub misses: u64,
}

/// Counts of an instruction that the nearest level or the nearest TLB did not always serve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceCounts {
    /// Its number.
    pub place: u64,
    /// Misses of data accesses by level, in the order of the description: those that the level passed on.
    pub misses: Vec<u64>,
    /// Misses of instruction fetches by level.
    pub fetch_misses: Vec<u64>,
    /// Walks, of fetches too.
    pub walks: u64,
    /// Time beyond hits of the nearest level and TLB, in units.
    pub units: u64,
    /// What remains of it if data accesses overlap; none if that is not described.
    pub overlap: OverlapCounts,
}

impl PlaceCounts {
    /// Returns the misses by level of a machine: of data, or of fetches, if it holds instructions only.
    #[must_use]
    pub fn by_level(&self, machine: &MachineCounts) -> Vec<u64> {
        let of = |(level, counts): (usize, &LevelCounts)| {
            let misses = if counts.holds == "instructions" { &self.fetch_misses } else { &self.misses };
            misses.get(level).copied().unwrap_or(0)
        };
        machine.levels.iter().enumerate().map(of).collect()
    }
}

/// Reasons of misses.
pub const REASONS: usize = 6;

/// Why an access missed in a cache, as the head of `story` defines it. The number is its position in arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The line was never there.
    Cold,
    /// A fully associative LRU cache of the same size would have missed, too.
    Capacity,
    /// It would have hit.
    Conflict,
    /// Another CPU has stored what the access touches.
    Shared,
    /// Another CPU has stored other bytes of the line.
    FalselyShared,
    /// A store for which the level allocates no line.
    Unallocated,
}

impl Reason {
    /// All, in the order of their numbers.
    pub const ALL: [Reason; REASONS] = [
        Reason::Cold,
        Reason::Capacity,
        Reason::Conflict,
        Reason::Shared,
        Reason::FalselyShared,
        Reason::Unallocated,
    ];

    /// Returns whether another access is to blame.
    #[must_use]
    pub fn has_pair(self) -> bool {
        matches!(self, Reason::Conflict | Reason::Shared | Reason::FalselyShared)
    }
}

/// Why accesses missed, if that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoryCounts {
    /// Misses by level and [`Reason`], data and fetches together; `None` for an exclusive level.
    pub levels: Vec<Option<[u64; REASONS]>>,
    /// Misses of the nearest level by reason, of places that have any, with their numbers.
    pub places: Vec<(u64, [u64; REASONS])>,
    /// Data that the nearest level or TLB did not always serve, in the order of addresses.
    pub lines: Vec<LineCounts>,
    /// Bytes that are counted as one line: those of the nearest level's line, or more if there would be too many.
    pub line_bytes: u64,
    /// Data in blocks of the heap, by number of the allocation site: it is not among `lines`. The address is the first that missed.
    pub sites: Vec<LineCounts>,
    /// What the blocks of each site add up to.
    pub heap: Vec<SiteCounts>,
    /// Pairs of lines, the most misses first.
    pub pairs: Vec<PairCounts>,
    /// Misses of each TLB by [`Reason`].
    pub tlbs: Vec<[u64; REASONS]>,
    /// Pairs of pages, the most misses first. Their level is the number of a TLB.
    pub page_pairs: Vec<PairCounts>,
}

/// Counts of a line of data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineCounts {
    /// The first of its addresses that missed.
    pub address: u64,
    /// Whose code has accessed it. If several have, each has counts of its own.
    pub accessor: Accessor,
    /// Misses by level, in the order of the description.
    pub misses: Vec<u64>,
    /// Walks.
    pub walks: u64,
    /// Time of these accesses, in units.
    pub units: u64,
    /// What remains of it if accesses overlap; 0 if that is not described.
    pub overlapped_units: u64,
    /// Misses of the nearest level by reason.
    pub reasons: [u64; REASONS],
    /// What accesses to it have done to lines of other CPUs.
    pub sharing: SharingCounts,
}

impl LineCounts {
    /// Adds those of another line.
    pub fn add(&mut self, other: &LineCounts) {
        self.misses.iter_mut().zip(&other.misses).for_each(|(sum, more)| *sum += more);
        self.reasons.iter_mut().zip(other.reasons).for_each(|(sum, more)| *sum += more);
        self.walks += other.walks;
        self.units += other.units;
        self.overlapped_units += other.overlapped_units;
        self.sharing.add(other.sharing);
    }
}

/// Misses of one line because of another one, or because of another CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairCounts {
    /// The level or TLB, in the order of the description from 0.
    pub level: u64,
    /// Number of the [`Reason`].
    pub reason: u64,
    /// The set, of the first such miss.
    pub set: u64,
    /// Misses.
    pub count: u64,
    /// What missed first.
    pub address: u64,
    /// Its allocation site and the offset in the block, if it is in the heap.
    pub block: Option<(u32, u32)>,
    /// The instruction that missed first.
    pub place: u64,
    /// Whose code that is.
    pub accessor: Accessor,
    /// Its CPU.
    pub cpu: u32,
    /// Address and instruction of what had taken the line; `None` for a walk of page tables.
    pub by: Option<(u64, u64)>,
    /// The block of that address.
    pub by_block: Option<(u32, u32)>,
    /// Whose code that instruction is.
    pub by_accessor: Accessor,
    /// The CPU of that.
    pub by_cpu: u32,
}

/// Times of the entries of a region that have been left, in units, the instructions' own time included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryTimes {
    /// The shortest.
    pub least: u64,
    /// The median: half of them take at most this. Of the first 2^20 entries, like the next.
    pub median: u64,
    /// 99 of 100 take at most this.
    pub p99: u64,
    /// The longest.
    pub most: u64,
}

/// Time in which accesses that are no hits overlap, as `fathom_model::Overlap` defines it, if nothing depends on another access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlapCounts {
    /// Time of data accesses beyond hits, in units, translation included.
    pub data_units: u64,
    /// The same of fetches, which wait for each other.
    pub fetch_units: u64,
}

/// What passes side by side in the least time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Instructions themselves.
    Instructions,
    /// Fetches beyond hits.
    Fetches,
    /// Data accesses beyond hits.
    Data,
}

impl OverlapCounts {
    /// Returns the least time, in units: that of the side that takes the longest. `instruction_units` is the time of the instructions
    /// themselves.
    #[must_use]
    pub fn least(self, instruction_units: u64) -> u64 {
        self.of(self.longest(instruction_units), instruction_units)
    }

    /// Returns the side that takes the longest.
    #[must_use]
    pub fn longest(self, instruction_units: u64) -> Side {
        let sides = [Side::Instructions, Side::Fetches, Side::Data];
        sides.into_iter().max_by_key(|&side| self.of(side, instruction_units)).unwrap_or(Side::Data)
    }

    /// Returns the time of a side. What parts of a run have on one side adds up to that of the run.
    #[must_use]
    pub fn of(self, side: Side, instruction_units: u64) -> u64 {
        match side {
            Side::Instructions => instruction_units,
            Side::Fetches => self.fetch_units,
            Side::Data => self.data_units,
        }
    }
}

/// Counts of a region that marks in the program bound; regions within it are included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionCounts {
    /// Its number.
    pub region: u32,
    /// Times that a thread has entered it from outside.
    pub entered: u64,
    /// Ends without a beginning, and beginnings without an end.
    pub unmatched: u64,
    /// Executed instructions.
    pub instructions: u64,
    /// Accesses by kind.
    pub accesses: [u64; 3],
    /// Accesses that reached each level, in the order of the description.
    pub reached: Vec<u64>,
    /// Those that it did not serve.
    pub misses: Vec<u64>,
    /// Walks.
    pub walks: u64,
    /// Accesses that memory served.
    pub memory: u64,
    /// Time of accesses, translations and fetches, in units, without that of the instructions themselves.
    pub units: u64,
    /// Times of its entries, if any has been left.
    pub entries: Option<EntryTimes>,
    /// The same, if accesses overlap; `None` if that is not described.
    pub overlap: Option<OverlapCounts>,
}

/// What the processor's counters tell apart and no other counts do: arrays are by kind of access, times in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterCounts {
    /// Loads and stores that do not follow their predecessor on the same CPU in the same line of the nearest level.
    pub line_changes: u64,
    /// Translations that the nearest TLB did not have.
    pub tlb_misses: [u64; 3],
    /// Walks.
    pub walks: [u64; 3],
    /// Time beyond hits of the nearest level, without translation.
    pub waits: [u64; 3],
    /// Time of translations that a farther TLB served, beyond hits of the nearest one.
    pub tlb_waits: [u64; 3],
    /// Time of translations that needed a walk, beyond hits of the nearest TLB.
    pub walk_waits: [u64; 3],
}

/// Counts of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineCounts {
    /// Name of the request.
    pub name: String,
    /// Why the simulation ended before the program did, if so.
    pub refused: Option<String>,
    /// Accesses by kind: loads, stores, fetches. One that crosses a line is one for each line.
    pub accesses: [u64; 3],
    /// Levels, in the order of the description.
    pub levels: Vec<LevelCounts>,
    /// TLBs, in the order of the description.
    pub tlbs: Vec<TlbCounts>,
    /// Walks.
    pub walks: u64,
    /// What only counters tell apart.
    pub counters: CounterCounts,
    /// Accesses that memory served, by kind.
    pub memory: [u64; 3],
    /// Reads of memory, those of walks included.
    pub memory_reads: u64,
    /// Lines written back to memory, and stores that reached it.
    pub memory_writes: u64,
    /// Time that memory served data accesses, in units, without translation.
    pub memory_units: u64,
    /// Time of translations, in units: TLBs and walks.
    pub translation_units: u64,
    /// Time that fetches took beyond hits of the nearest level, in units, without translation.
    pub fetch_units: u64,
    /// Time of one operation, in units.
    pub operation_units: u64,
    /// Core clock, Hz, rounded.
    pub clock_hz: u64,
    /// Accesses that may overlap, as described: `outstanding` and `window`.
    pub outstanding: Option<u32>,
    /// See [`MachineCounts::outstanding`].
    pub window: Option<u32>,
    /// Time if they do; `None` if `outstanding` is not described.
    pub overlap: Option<OverlapCounts>,
    /// Instructions with misses.
    pub places: Vec<PlaceCounts>,
    /// Regions, in the order of their numbers.
    pub regions: Vec<RegionCounts>,
    /// Calls with misses, if calls are told; `place` is the number of the call.
    pub calls: Vec<PlaceCounts>,
    /// Accesses by kind of each call, by number; none if calls are not told.
    pub call_accesses: Vec<[u64; 3]>,
    /// Time of a load and of a store that hit in the nearest level and TLB, in units, without translation.
    pub hit_units: [u64; 2],
    /// What CPUs have done to one another's lines; `None` if only one has made accesses.
    pub sharing: Option<SharingCounts>,
    /// Why they missed, if that was asked for.
    pub story: Option<StoryCounts>,
}

impl MachineCounts {
    /// Returns the accesses that level `number` (from 1, in the order of the description) did not serve.
    #[must_use]
    pub fn level_misses(&self, number: usize) -> u64 {
        self.levels.get(number - 1).map_or(0, LevelCounts::misses)
    }
}

impl LevelCounts {
    /// Returns the accesses that it did not serve.
    #[must_use]
    pub fn misses(&self) -> u64 {
        (0..3).map(|kind| self.accesses[kind] - self.hits[kind]).sum()
    }
}
