//! The description of a machine: what one of `machines/*.toml` says, read, checked and written.
//!
//! The format is documented in `machines/README.md`; the structures here mirror it one to one, in
//! plain units. Whoever writes a description in code calls [`Description::check`]; whoever reads a
//! file gets it checked.

pub use device::{Coherence, Device};
pub use error::{DescriptionError, DescriptionFlaw, nearest};
pub use units::Time;

/// Declares an enum whose values are words of the format: one list serves reading, writing, and the
/// suggestions for a misspelt word.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $value:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $value,)* }

        impl Default for $name {
            /// The first.
            fn default() -> $name {
                $name::ALL[0]
            }
        }

        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [$name] = &[$($name::$value,)*];

            /// The word that stands for it in a description.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $($name::$value => $word,)* }
            }
        }
    };
}

mod check;
mod device;
mod error;
mod place;
mod read;
mod show;
mod table;
mod units;

words! {
    /// Which accesses per level serves.
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
    /// Which way a fill replaces when no way of the set is free.
    Replacement {
        /// The way whose last use is longest ago.
        Lru = "lru",
        /// The way filled longest ago.
        Fifo = "fifo",
        /// Any way, from a seeded generator.
        Random = "random",
        /// A tree of bits, each pointing away from the half used last. With a number of ways that
        /// is no power of two the tree is that of the next power of two, and a search that would
        /// enter a half without ways takes the other.
        TreePlru = "tree-plru",
        /// One reference bit a way, set by a use. The victim is the lowest way whose bit is clear;
        /// when none is, all are cleared first.
        Nru = "nru",
        /// One bit a way, set by a use; a use that would leave no bit clear clears all others. The victim
        /// is the lowest way whose bit is clear. Also called MRU (Abel and Reineke's nanoBench).
        BitPlru = "bit-plru",
        /// The bits of [`Nru`](Replacement::Nru); the victim is any way whose bit is clear, from a seeded
        /// generator.
        NruRandom = "nru-random",
        /// Any way but that of the last use, from a seeded generator.
        NotMruRandom = "not-mru-random",
        /// SRRIP with hit priority (Jaleel, Theobald, Steely and Emer, ISCA 2010): a 2-bit re-reference
        /// value a way, 2 by a fill and 0 by a hit. The victim is the lowest way of value 3; until there
        /// is one, every value grows by 1.
        Srrip = "srrip",
        /// QLRU_H00_M1_R2_U1 in the naming of uops.info and nanoBench (Abel and Reineke, ISPASS 2020): a
        /// 2-bit age a way, 3 when empty, 1 by a fill and 0 by a hit; after each use and fill the other
        /// ways' ages grow alike until one of them is 3. Of free ways the highest is filled first; the
        /// victim is the lowest way of age 3.
        Qlru = "qlru-h00-m1-r2-u1",
    }
}

words! {
    /// How the set of a line follows from its number (physical address / line).
    Index {
        /// The number modulo the sets: its low bits, where the sets are a power of two.
        Bits = "bits",
        /// An exclusive-or of all bits of the number, as in sliced last-level caches: the number as a
        /// polynomial over GF(2), modulo the smallest primitive polynomial of log2(sets) degrees.
        Hashed = "hashed",
    }
}

words! {
    /// Which physical page lies under which page of a mapping.
    Frames {
        /// Consecutive ones, from a start that depends on the placement.
        Contiguous = "contiguous",
        /// Base pages lie in pages of memory by a seeded bijection; a huge page is contiguous.
        Scattered = "scattered",
    }
}

words! {
    /// Where a store that a level holds ends.
    Write {
        /// In the level, which is then dirty and written back when it leaves.
        Back = "back",
        /// In the level and in the next one as well; the level is never dirty.
        Through = "through",
    }
}

words! {
    /// What a level has to do with the lines of nearer levels.
    Inclusion {
        /// It holds them all: a line that leaves here leaves the nearer levels too.
        Inclusive = "inclusive",
        /// It holds those of the levels that serve data: a line that leaves here leaves these too, and stays in levels
        /// for instructions alone.
        InclusiveData = "inclusive-data",
        /// It holds what nearer levels evict, and hands a line over when it is asked for.
        Exclusive = "exclusive",
        /// Nothing: both fill, each replaces for itself.
        Neither = "neither",
    }
}

words! {
    /// What a core makes of memory that is asked for as write-through.
    Through {
        /// What it says.
        WriteThrough = "write-through",
        /// Normal non-cacheable memory.
        NormalNc = "normal-nc",
    }
}

words! {
    /// What a core makes of normal memory whose inner and outer policy differ.
    Mixed {
        /// Normal non-cacheable memory.
        NormalNc = "normal-nc",
        /// What its inner policy says.
        Inner = "inner",
    }
}

/// A described machine. All quantities in plain units: bytes, Hz, [`Time`].
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// The name that users type: the file's name without its ending.
    pub name: String,
    /// One line about the machine.
    pub about: String,
    /// The CPUs.
    pub core: Core,
    /// The clock that the probe reads.
    pub timer: Timer,
    /// Caches, nearest first.
    pub levels: Vec<Level>,
    /// Translation caches, nearest first; with none, translation is free.
    pub tlbs: Vec<Tlb>,
    /// What a miss in every TLB costs; present when and only when there is a TLB.
    pub walk: Option<Walk>,
    /// The memory behind all levels.
    pub memory: Memory,
    /// Memory that is not write-back; what is not described is refused.
    pub uncached: Uncached,
    /// How a sleeping task is woken; where it is not described, wake-ups are refused.
    pub wakeup: Option<Wakeup>,
    /// A device that moves data by itself; where it is not described, transfers are refused.
    pub dma: Option<Device>,
}

/// `[core]`: the CPUs and what operations cost beside loads.
#[derive(Clone, Debug, PartialEq)]
pub struct Core {
    /// Core clock in Hz.
    pub clock_hz: f64,
    /// CPUs that can run at once.
    pub cpus: u32,
    /// One independent integer operation of a loop's overhead.
    pub alu: Time,
    /// A loop's taken branch.
    pub branch: Time,
    /// What a store adds whose line the nearest level holds, where it is buffered; without it, what a load there
    /// takes.
    pub store: Option<Time>,
    /// What a line costs that is cleaned and invalidated; without it, maintenance is refused.
    pub maintain: Option<Time>,
}

/// `[timer]`: the counter that the probe reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Timer {
    /// Ticks a second, in Hz.
    pub clock_hz: f64,
    /// What an interval with nothing in it reads.
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
    /// Which accesses it serves.
    pub holds: Holds,
    /// Size in bytes: line x ways x sets.
    pub size: u64,
    /// Line in bytes.
    pub line: u64,
    /// Ways.
    pub ways: u32,
    /// How a line finds its set; absent in a file means by bits.
    pub index: Index,
    /// Load-to-use of an access that this level serves, in all.
    pub latency: Time,
    /// Replacement policy.
    pub replacement: Replacement,
    /// Write policy.
    pub write: Write,
    /// Whether a write miss fills a line here.
    pub allocate: bool,
    /// Relation to the nearer levels.
    pub inclusion: Inclusion,
    /// One for all CPUs, or one each.
    pub shared: bool,
}

impl Level {
    /// Sets: size / line / ways.
    #[must_use]
    pub fn sets(&self) -> u64 {
        self.size / self.line.max(1) / u64::from(self.ways.max(1))
    }
}

/// `[[tlb]]`: one translation cache, private to its CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Tlb {
    /// Its name; unique among the TLBs.
    pub name: String,
    /// Entries in all.
    pub entries: u32,
    /// Ways; entries / ways sets, indexed by the page number modulo the sets.
    pub ways: u32,
    /// Page sizes that it can hold, bytes.
    pub pages: Vec<u64>,
    /// What a translation answered here adds to the access, in all.
    pub latency: Time,
    /// Replacement policy.
    pub replacement: Replacement,
}

/// Where a walk's descriptor fetches look first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalkFrom {
    /// The level of this name, then outwards.
    Level(String),
    /// Memory, past the caches.
    Memory,
    /// Nowhere: no fetches, only the fixed cost.
    Nowhere,
}

/// `[walk]`: a page-table walk.
#[derive(Clone, Debug, PartialEq)]
pub struct Walk {
    /// Descriptors fetched, the last level's first.
    pub fetches: u32,
    /// Where they are looked for.
    pub from: WalkFrom,
    /// Fixed cost on top of the fetches.
    pub latency: Time,
}

/// `[memory]`: what is behind all levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Size in bytes.
    pub size: u64,
    /// Page sizes that mappings get, ascending: the first is the base page, the last the huge page.
    pub pages: Vec<u64>,
    /// Physical pages under a mapping's; absent in a file means contiguous.
    pub frames: Frames,
    /// Load-to-use, in all; the mean of the spread.
    pub latency: Time,
    /// Half-width of a uniform variation.
    pub spread: Time,
    /// Open rows, where they are described.
    pub rows: Option<Rows>,
    /// Refresh, where it is described.
    pub refresh: Option<Refresh>,
}

/// `row`, `banks` and `open` of `[memory]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// Bytes in a row; consecutive rows lie in consecutive banks.
    pub row: u64,
    /// Banks, each with one open row.
    pub banks: u32,
    /// Load-to-use when the row is open.
    pub open: Time,
}

/// `refresh` and `refresh_takes` of `[memory]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Refresh {
    /// Time from a refresh to the next.
    pub every: Time,
    /// How long one takes, at the end of each such time.
    pub takes: Time,
}

/// `[uncached]`: accesses to memory that is not write-back. What is absent is refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Uncached {
    /// A load of normal non-cacheable memory.
    pub load: Option<Time>,
    /// Stores that gather: those of normal non-cacheable and of write-through memory.
    pub gathering: Option<Gathering>,
    /// Device memory.
    pub device: Option<DeviceCosts>,
    /// What becomes of write-through.
    pub write_through: Option<Through>,
    /// What becomes of unlike inner and outer policies; absent in a file means normal non-cacheable.
    pub mixed: Mixed,
}

/// `store`, `buffers`, `gather` and `drain` of `[uncached]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Gathering {
    /// What each store costs.
    pub store: Time,
    /// Blocks that gather at once.
    pub buffers: u32,
    /// Bytes in a block.
    pub gather: u64,
    /// What it costs to wait until a block has left.
    pub drain: Time,
}

/// `device_load` and `device_store` of `[uncached]`.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceCosts {
    /// A load, in all.
    pub load: Time,
    /// A store, until it has arrived.
    pub store: Time,
}

/// `[wakeup]`: the way from a timer's expiry to the task that waits for it, as the lines that it touches.
#[derive(Clone, Debug, PartialEq)]
pub struct Wakeup {
    /// What an instruction costs beside the lines that its stage touches.
    pub instruction: Time,
    /// Bytes of data that every stage touches.
    pub common: u64,
    /// Bytes of memory in which the code lies anywhere, and as many in which the data do.
    pub within: u64,
    /// The stages, in the order of [`Wakeup::STAGES`].
    pub stages: [Stage; 5],
}

impl Wakeup {
    /// What each stage leads to, as `[wakeup.NAME]`: the task's sleep, which nobody waits for, then the timer's handler,
    /// the task runnable, the switch to the task, and its own reading of the clock.
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
    /// Reads and checks the text of a description. The machine's name is the file's name without
    /// its folder and its `.toml`.
    ///
    /// # Errors
    /// A [`DescriptionError`] with place, value and remedy for anything that is not a description
    /// of a possible machine; an unknown key is one.
    pub fn parse(file_name: &str, text: &str) -> Result<Description, DescriptionError> {
        read::parse(file_name, text)
    }

    /// Checks a description that was made in code, by the same rules as one that was read.
    ///
    /// # Errors
    /// The first [`DescriptionFlaw`] found.
    pub fn check(&self) -> Result<(), DescriptionFlaw> {
        check::check(self)
    }

    /// The effective description as a file of the format; it reads back as an equal one.
    #[must_use]
    pub fn to_toml(&self) -> String {
        self.to_string()
    }
}
