//! What an event is evidence of, in terms that all processors share. Also compiled into the build script, which checks
//! the tokens of the files.

/// The part of the question "where do the cycles go" that an event helps to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Time, and what the core does in it.
    Work,
    /// Time in which the core waits.
    Stalls,
    /// Caches.
    Caches,
    /// Translation of addresses.
    Translation,
    /// Memory and bus beyond the caches.
    Memory,
    /// Anything else.
    Other,
}

impl Group {
    /// All groups, in the order of output.
    pub const ALL: [Group; 6] =
        [Group::Work, Group::Stalls, Group::Caches, Group::Translation, Group::Memory, Group::Other];

    /// Heading of the group.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            Group::Work => "Time and work",
            Group::Stalls => "Stalls",
            Group::Caches => "Caches",
            Group::Translation => "Translation",
            Group::Memory => "Memory and bus",
            Group::Other => "Other",
        }
    }
}

macro_rules! quantities {
    ($($(#[$doc:meta])* $name:ident, $token:literal, $group:ident;)*) => {
        /// What an event is evidence of. Two events of one quantity, of two processors, need not count the same: each
        /// has its own caveat.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Quantity {
            $($(#[$doc])* $name,)*
        }

        impl Quantity {
            /// All quantities.
            pub const ALL: &'static [Quantity] = &[$(Quantity::$name,)*];

            /// Token in files, records and JSON.
            #[must_use]
            pub fn token(self) -> &'static str {
                match self { $(Quantity::$name => $token,)* }
            }

            /// Group in which it is listed.
            #[must_use]
            pub fn group(self) -> Group {
                match self { $(Quantity::$name => Group::$group,)* }
            }
        }
    };
}

quantities! {
    /// Cycles of the core's clock.
    Cycles, "cycles", Work;
    /// Executed instructions.
    Instructions, "instructions", Work;
    /// Executed loads.
    Loads, "loads", Work;
    /// Executed stores.
    Stores, "stores", Work;
    /// Branches.
    Branches, "branches", Work;
    /// Branches that were predicted wrongly.
    Mispredictions, "mispredictions", Work;
    /// Cycles without an instruction to execute.
    StallFrontend, "stall.frontend", Stalls;
    /// Cycles in which instructions wait for a resource.
    StallBackend, "stall.backend", Stalls;
    /// Cycles in which an instruction waits for a value.
    StallData, "stall.data", Stalls;
    /// Cycles in which the core waits for a cache miss.
    StallMemory, "stall.memory", Stalls;
    /// Cycles in which the core waits for a walk of the page tables.
    StallTlb, "stall.tlb", Stalls;
    /// Waits for the store buffer.
    StallStore, "stall.store", Stalls;
    /// Accesses of the first instruction cache.
    AccessL1I, "access.L1I", Caches;
    /// Refills of the first instruction cache.
    RefillL1I, "refill.L1I", Caches;
    /// Accesses of the first data cache.
    AccessL1D, "access.L1D", Caches;
    /// Loads in it.
    AccessL1DLoad, "access.L1D.load", Caches;
    /// Stores in it.
    AccessL1DStore, "access.L1D.store", Caches;
    /// Refills of the first data cache.
    RefillL1D, "refill.L1D", Caches;
    /// Refills for loads.
    RefillL1DLoad, "refill.L1D.load", Caches;
    /// Refills for stores.
    RefillL1DStore, "refill.L1D.store", Caches;
    /// Lines that the first data cache writes back.
    WriteBackL1D, "write-back.L1D", Caches;
    /// Half lines that it writes back.
    WriteBackL1DHalf, "write-back.L1D.half", Caches;
    /// Accesses of the second cache.
    AccessL2, "access.L2", Caches;
    /// Reads of it.
    AccessL2Load, "access.L2.load", Caches;
    /// Writes to it.
    AccessL2Store, "access.L2.store", Caches;
    /// Refills of the second cache.
    RefillL2, "refill.L2", Caches;
    /// Refills for reads.
    RefillL2Load, "refill.L2.load", Caches;
    /// Refills for writes.
    RefillL2Store, "refill.L2.store", Caches;
    /// Lines that the second cache writes back.
    WriteBackL2, "write-back.L2", Caches;
    /// Accesses of the third cache.
    AccessL3, "access.L3", Caches;
    /// Refills of the third cache.
    RefillL3, "refill.L3", Caches;
    /// Accesses of the last cache, whichever that is.
    AccessLast, "access.last", Caches;
    /// Refills of the last cache.
    RefillLast, "refill.last", Caches;
    /// Prefetched lines.
    Prefetches, "prefetches", Caches;
    /// Accesses of the first data TLB.
    AccessTlbData, "access.tlb.data", Translation;
    /// Accesses of the first instruction TLB.
    AccessTlbInstruction, "access.tlb.instruction", Translation;
    /// Accesses of the second TLB.
    AccessTlbSecond, "access.tlb.second", Translation;
    /// Refills of the first data TLB.
    RefillTlbData, "refill.tlb.data", Translation;
    /// Refills for loads.
    RefillTlbDataLoad, "refill.tlb.data.load", Translation;
    /// Refills for stores.
    RefillTlbDataStore, "refill.tlb.data.store", Translation;
    /// Refills of the first instruction TLB.
    RefillTlbInstruction, "refill.tlb.instruction", Translation;
    /// Refills of the second TLB.
    RefillTlbSecond, "refill.tlb.second", Translation;
    /// Walks of the page tables, for data and instructions.
    Walks, "walks", Translation;
    /// Walks for data.
    WalksData, "walks.data", Translation;
    /// Walks for instructions.
    WalksInstruction, "walks.instruction", Translation;
    /// Accesses of data, wherever they are served.
    AccessData, "access.data", Memory;
    /// Loads of data.
    AccessDataLoad, "access.data.load", Memory;
    /// Stores of data.
    AccessDataStore, "access.data.store", Memory;
    /// Transfers on the bus.
    AccessBus, "access.bus", Memory;
    /// Transfers of reads.
    AccessBusLoad, "access.bus.load", Memory;
    /// Transfers of writes.
    AccessBusStore, "access.bus.store", Memory;
    /// Requests to external memory.
    AccessExternal, "access.external", Memory;
}

impl Quantity {
    /// Returns the quantity of a token.
    #[must_use]
    pub fn from_token(token: &str) -> Option<Quantity> {
        Quantity::ALL.iter().copied().find(|quantity| quantity.token() == token)
    }
}
