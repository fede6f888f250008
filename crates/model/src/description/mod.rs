//! The description of a machine: the contents of one of `machines/*.toml`, parsed, checked and written.
//!
//! `machines/README.md` documents the format. The structures here correspond to it one to one, in plain units. A file
//! is checked when it is parsed; a description made in code is checked with [`Description::check`].

pub use alternatives::{Variation, WithoutStudy};
pub use classes::{Classes, ValueKey};
pub use device::{Coherence, Device};
pub use error::{DescriptionError, DescriptionFlaw, nearest};
pub use neighbour::{Between, Neighbour};
pub use other_values::Alternatives;
pub use units::Time;

use fathom_units::facts::ValueClass;

/// Declares an enum with words of the format: one list for parsing, writing, and the suggestions for a misspelt word.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $value:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $value,)* }

        impl Default for $name {
            /// Returns the first value.
            fn default() -> $name {
                $name::ALL[0]
            }
        }

        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [$name] = &[$($name::$value,)*];

            /// Returns its word in a description.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $($name::$value => $word,)* }
            }
        }
    };
}

mod alternatives;
mod check;
mod classes;
mod device;
mod error;
mod neighbour;
mod other_values;
mod place;
mod ranges;
mod read;
mod show;
mod source;
mod table;
mod units;
mod varied;

words! {
    /// Accesses that a level serves.
    Holds {
        /// Loads and stores.
        Data = "data",
        /// Instruction fetches.
        Instructions = "instructions",
        /// Both.
        Unified = "unified",
    }
}

words! {
    /// The victim of a fill if no way of the set is free.
    Replacement {
        /// The least recently used way.
        Lru = "lru",
        /// The way that was filled first.
        Fifo = "fifo",
        /// Any way, from a seeded generator.
        Random = "random",
        /// A tree of bits, each pointing away from the half used last. If the number of ways is not a power of two, the
        /// tree has the next power of two, and a search that would enter a half without ways enters the other.
        TreePlru = "tree-plru",
        /// One reference bit per way, set by a use. The victim is the lowest way whose bit is clear; if none is, all
        /// are cleared first.
        Nru = "nru",
        /// One bit per way, set by a use; a use that would leave no bit clear clears all others. The victim is the
        /// lowest way whose bit is clear. Also called MRU (Abel and Reineke's nanoBench).
        BitPlru = "bit-plru",
        /// The bits of [`Nru`](Replacement::Nru); the victim is a random way whose bit is clear, from a seeded
        /// generator.
        NruRandom = "nru-random",
        /// Any way but that of the last use, from a seeded generator.
        NotMruRandom = "not-mru-random",
        /// SRRIP with hit priority (Jaleel, Theobald, Steely and Emer, ISCA 2010): a 2-bit re-reference value per way,
        /// set to 2 by a fill and to 0 by a hit. The victim is the lowest way of value 3; until there is one, every
        /// value grows by 1.
        Srrip = "srrip",
        /// QLRU_H00_M1_R2_U1 in the naming of uops.info and nanoBench (Abel and Reineke, ISPASS 2020): a 2-bit age per
        /// way, 3 when empty, 1 by a fill and 0 by a hit. After each use and fill the ages of the other ways grow
        /// equally until one of them is 3. The highest free way is filled first; the victim is the lowest way of age 3.
        Qlru = "qlru-h00-m1-r2-u1",
    }
}

words! {
    /// How the set follows from the number of a line (physical address / line).
    Index {
        /// The number modulo the sets: its low bits if the number of sets is a power of two.
        Bits = "bits",
        /// An exclusive-or of all bits of the number, as in sliced last-level caches: the number as a polynomial over
        /// GF(2), modulo the smallest primitive polynomial of degree log2(sets).
        Hashed = "hashed",
    }
}

words! {
    /// Placement of a mapping's pages in physical memory.
    Frames {
        /// Consecutive pages, from a start that depends on the placement.
        Contiguous = "contiguous",
        /// Base pages are scattered by a seeded bijection; a huge page is contiguous.
        Scattered = "scattered",
    }
}

words! {
    /// Destination of a store that hits in a level.
    Write {
        /// In the level, which is then dirty and written back when the line is evicted.
        Back = "back",
        /// In the level and in the next one; the level is never dirty.
        Through = "through",
    }
}

words! {
    /// Relation of a level to the lines of nearer levels.
    Inclusion {
        /// It contains them all: an eviction here removes the line from the nearer levels.
        Inclusive = "inclusive",
        /// It contains the lines of the levels for data: an eviction here removes the line from these, and not from
        /// levels for instructions.
        InclusiveData = "inclusive-data",
        /// It contains what nearer levels evict, and gives the line up when they read it.
        Exclusive = "exclusive",
        /// Independent: both are filled, and each replaces separately.
        Neither = "neither",
    }
}

words! {
    /// Behaviour of memory that is requested as write-through.
    Through {
        /// Write-through.
        WriteThrough = "write-through",
        /// Normal non-cacheable memory.
        NormalNc = "normal-nc",
    }
}

words! {
    /// Behaviour of normal memory whose inner and outer policy differ.
    Mixed {
        /// Normal non-cacheable memory.
        NormalNc = "normal-nc",
        /// As its inner policy.
        Inner = "inner",
    }
}

/// A described machine. All quantities are in plain units: bytes, Hz, [`Time`].
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// The name that users type: the file's name without its extension.
    pub name: String,
    /// One line about the machine.
    pub about: String,
    /// The CPUs.
    pub core: Core,
    /// The clock that the probe reads.
    pub timer: Timer,
    /// Caches, nearest first.
    pub levels: Vec<Level>,
    /// TLBs, nearest first; without any, translation has no cost.
    pub tlbs: Vec<Tlb>,
    /// Cost of a miss in every TLB; present if and only if there is a TLB.
    pub walk: Option<Walk>,
    /// The memory beyond all levels.
    pub memory: Memory,
    /// Memory that is not write-back; attributes without a description are refused.
    pub uncached: Uncached,
    /// The wake-up path of a sleeping task; if absent, wake-ups are refused.
    pub wakeup: Option<Wakeup>,
    /// A DMA device; if absent, transfers are refused.
    pub dma: Option<Device>,
    /// Other users of the machine; with one, measured values are not exact.
    pub neighbours: Vec<Neighbour>,
    /// Where each value comes from.
    pub classes: Classes,
    /// Other values that it gives for its own.
    pub alternatives: Alternatives,
}

/// `[core]`: the CPUs and the cost of operations other than loads.
#[derive(Clone, Debug, PartialEq)]
pub struct Core {
    /// Core clock in Hz.
    pub clock_hz: f64,
    /// CPUs that can run at the same time.
    pub cpus: u32,
    /// Cost of one independent integer operation of a loop's overhead.
    pub alu: Time,
    /// Cost of a loop's taken branch.
    pub branch: Time,
    /// Cost of a buffered store whose line is in the nearest level; if absent, the cost of a load there.
    pub store: Option<Time>,
    /// Cost of cleaning and invalidating a line; if absent, maintenance is refused.
    pub maintain: Option<Time>,
    /// Accesses that the nearest data level does not serve and that can be under way at the same time; 1 if the core waits for each. If
    /// absent, it is not known.
    pub outstanding: Option<u32>,
    /// Instructions that can be in flight at the same time: two accesses that are so many apart never overlap. If absent, they are not
    /// limited.
    pub window: Option<u32>,
    /// Least time between two accesses that fill the same set of the nearest data level; if absent, such accesses overlap like others.
    pub set_fill: Option<Time>,
    /// Data in the order of addresses, which is prefetched; if absent, nothing is.
    pub streams: Option<Streams>,
    /// Name of the table of the events that its counters count (`fathom events`). If absent, none is known.
    pub events: Option<String>,
}

/// Runs of adjacent lines of data, which arrive before they are needed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Streams {
    /// The most that an access of a run costs, without translation.
    pub cost: Time,
    /// Runs that a CPU follows at the same time.
    pub number: u32,
}

/// `[timer]`: the counter that the probe reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Timer {
    /// Ticks per second, in Hz.
    pub clock_hz: f64,
    /// Time that the timer shows for an empty interval.
    pub overhead: Time,
    /// Half-width of a uniform error of each reading.
    pub jitter: Time,
    /// A reading is rounded down to a multiple of this many ticks.
    pub resolution: u64,
}

/// `[[level]]`: one cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Its name; unique in the description.
    pub name: String,
    /// Accesses that it serves.
    pub holds: Holds,
    /// Size in bytes: line x ways x sets.
    pub size: u64,
    /// Line in bytes.
    pub line: u64,
    /// Ways.
    pub ways: u32,
    /// Index function; if absent in a file, by bits.
    pub index: Index,
    /// Load-to-use latency of an access that this level serves, in total.
    pub latency: Time,
    /// Replacement policy.
    pub replacement: Replacement,
    /// Write policy.
    pub write: Write,
    /// Whether a write miss fills a line here.
    pub allocate: bool,
    /// Relation to the nearer levels.
    pub inclusion: Inclusion,
    /// Whether all CPUs share it; otherwise each has one.
    pub shared: bool,
}

impl Level {
    /// Returns the number of sets: size / line / ways.
    #[must_use]
    pub fn sets(&self) -> u64 {
        self.size / self.line.max(1) / u64::from(self.ways.max(1))
    }
}

/// `[[tlb]]`: one TLB, private to its CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Tlb {
    /// Its name; unique among the TLBs.
    pub name: String,
    /// Entries in total.
    pub entries: u32,
    /// Ways; entries / ways sets, indexed by the page number modulo the sets.
    pub ways: u32,
    /// Page sizes that it can hold, bytes.
    pub pages: Vec<u64>,
    /// Total additional cost of an access whose translation hits here.
    pub latency: Time,
    /// Replacement policy.
    pub replacement: Replacement,
    /// Bytes of the pieces in which it holds larger pages: the base page. If absent, it holds them whole.
    pub splits: Option<u64>,
}

/// First level in which a walk's descriptor fetches are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalkFrom {
    /// The level of this name, then outwards.
    Level(String),
    /// Memory, without the caches.
    Memory,
    /// No fetches, only the fixed cost.
    Nowhere,
}

/// `[walk]`: a page-table walk.
#[derive(Clone, Debug, PartialEq)]
pub struct Walk {
    /// Descriptors fetched, the last level's first.
    pub fetches: u32,
    /// First level in which they are looked up.
    pub from: WalkFrom,
    /// Fixed cost on top of the fetches.
    pub latency: Time,
}

/// `[memory]`: the memory beyond all levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Size in bytes.
    pub size: u64,
    /// Page sizes that mappings get, ascending: the first is the base page, the last the huge page.
    pub pages: Vec<u64>,
    /// Physical placement of a mapping's pages; contiguous if absent in a file.
    pub frames: Frames,
    /// Whether the machine tells the frames of its pages, as Linux does to root; true if absent in a file.
    pub page_map: bool,
    /// Load-to-use latency in total; the mean of the spread.
    pub latency: Time,
    /// Half-width of a uniform variation.
    pub spread: Time,
    /// Row buffers, if described.
    pub rows: Option<Rows>,
    /// Refresh, if described.
    pub refresh: Option<Refresh>,
}

/// `row`, `banks` and `open` of `[memory]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// Bytes in a row; consecutive rows are in consecutive banks.
    pub row: u64,
    /// Banks, each with one open row.
    pub banks: u32,
    /// Load-to-use latency if the row is open.
    pub open: Time,
}

/// `refresh` and `refresh_takes` of `[memory]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Refresh {
    /// Time from one refresh to the next.
    pub every: Time,
    /// Duration of a refresh, at the end of each interval.
    pub takes: Time,
}

/// `[uncached]`: accesses to memory that is not write-back. What is absent is refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Uncached {
    /// Cost of a load of normal non-cacheable memory.
    pub load: Option<Time>,
    /// Costs of gathering stores: those of normal non-cacheable and of write-through memory.
    pub gathering: Option<Gathering>,
    /// Costs of device memory.
    pub device: Option<DeviceCosts>,
    /// Behaviour of write-through.
    pub write_through: Option<Through>,
    /// Behaviour of different inner and outer policies; if absent in a file, normal non-cacheable.
    pub mixed: Mixed,
}

/// `store`, `buffers`, `gather` and `drain` of `[uncached]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Gathering {
    /// Cost of each store.
    pub store: Time,
    /// Blocks that can gather at the same time.
    pub buffers: u32,
    /// Bytes in a block.
    pub gather: u64,
    /// Cost of waiting until a block has been written.
    pub drain: Time,
}

/// `device_load` and `device_store` of `[uncached]`.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceCosts {
    /// Cost of a load, in total.
    pub load: Time,
    /// Cost of a store, until it has arrived.
    pub store: Time,
}

/// `[wakeup]`: the path from a timer's expiry to the waiting task, as the lines that it touches.
#[derive(Clone, Debug, PartialEq)]
pub struct Wakeup {
    /// Cost of an instruction, in addition to the lines that its stage touches.
    pub instruction: Time,
    /// Bytes of data that every stage touches.
    pub common: u64,
    /// Bytes of memory in which the code is scattered, and of another range for the data.
    pub within: u64,
    /// The stages, in the order of [`Wakeup::STAGES`].
    pub stages: [Stage; 5],
}

impl Wakeup {
    /// The stages, as in `[wakeup.NAME]`: the task's sleep, which is not part of the latency, the timer's handler,
    /// making the task runnable, the switch to the task, and the task's reading of the clock.
    pub const STAGES: [&'static str; 5] = ["sleep", "irq", "wake", "switch", "user"];
    /// Their tables.
    const TABLES: [&'static str; 5] =
        ["wakeup.sleep", "wakeup.irq", "wakeup.wake", "wakeup.switch", "wakeup.user"];
}

/// `[wakeup.NAME]`: one stage of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Instructions executed.
    pub instructions: u64,
    /// Bytes of code touched that no other stage touches.
    pub code: u64,
    /// Bytes of data touched that no other stage touches.
    pub data: u64,
}

impl Description {
    /// Parses and checks the text of a description. The machine's name is the file's name without folder and `.toml`.
    ///
    /// # Errors
    /// A [`DescriptionError`] with place, value and remedy if the text is not a description of a possible machine. An
    /// unknown key is an error.
    pub fn parse(file_name: &str, text: &str) -> Result<Description, DescriptionError> {
        read::parse(file_name, text)
    }

    /// Checks a description that was made in code, by the same rules as a file.
    ///
    /// # Errors
    /// The first [`DescriptionFlaw`] found.
    pub fn check(&self) -> Result<(), DescriptionFlaw> {
        check::check(self)
    }

    /// Returns every value of the effective description, in the order of the file, with its class; `None` if it is
    /// unclassified.
    #[must_use]
    pub fn values(&self) -> Vec<(ValueKey, Option<ValueClass>)> {
        show::values(self)
    }

    /// Returns the effective description in the format of a file, which parses to an equal description.
    #[must_use]
    pub fn to_toml(&self) -> String {
        self.to_string()
    }
}
