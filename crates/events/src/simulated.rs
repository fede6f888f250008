//! What an event is in a simulation of the processor's caches: a sum of quantities that it counts exactly, or the reason why it has none.
//! Also compiled into the build script, which checks the tokens of the files.

/// A cache, by its place on the way from the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// The first one of instructions.
    L1I,
    /// The first one of data.
    L1D,
    /// The second one on the way of data.
    L2,
    /// The third one.
    L3,
    /// The last one, whichever that is.
    Last,
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads data.
    Load,
    /// Writes data.
    Store,
    /// Reads an instruction.
    Fetch,
}

/// A quantity that a simulation counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// Cycles of the program.
    Cycles,
    /// Executed instructions.
    Instructions,
    /// Executed instructions that load.
    Loads,
    /// Executed instructions that store.
    Stores,
    /// Loads or stores of data. One that crosses a line is two.
    Accesses(Access),
    /// Loads and stores that do not follow their predecessor in the same line.
    LineChanges,
    /// Accesses that reached a cache, because no nearer one served them. Walks are not among them.
    Reached(Cache, Access),
    /// Accesses that reached a cache and that it did not serve.
    Missed(Cache, Access),
    /// Stores that a cache did not serve and for which it filled a line.
    FilledByStores(Cache),
    /// Stores that a cache did not serve and passed on.
    PassedStores(Cache),
    /// Lines that were filled, for walks too.
    Filled(Cache),
    /// Dirty lines that other lines have displaced.
    WrittenBack(Cache),
    /// Reads of walks that reached a cache.
    ReachedByWalks(Cache),
    /// Translations that the nearest TLB did not have.
    TlbMisses(Access),
    /// Walks.
    Walks(Access),
    /// Accesses that memory served.
    Memory(Access),
    /// Lines that were read from memory, for walks too.
    MemoryReads,
    /// Lines and stores that were written to memory.
    MemoryWrites,
    /// Cycles of accesses beyond hits of the nearest cache, without their translation.
    Wait(Access),
    /// Cycles of translations that a farther TLB served, beyond hits of the nearest one.
    TlbWait(Access),
    /// Cycles of translations that needed a walk, beyond hits of the nearest TLB.
    WalkWait(Access),
}

/// Tokens of kinds of accesses.
const ACCESSES: [(Access, &str); 3] =
    [(Access::Load, "load"), (Access::Store, "store"), (Access::Fetch, "fetch")];
/// Tokens of caches.
const CACHES: [(Cache, &str); 5] =
    [(Cache::L1I, "L1I"), (Cache::L1D, "L1D"), (Cache::L2, "L2"), (Cache::L3, "L3"), (Cache::Last, "last")];

fn of_token<T: Copy>(all: &[(T, &str)], token: &str) -> Option<T> {
    all.iter().find(|(_, own)| *own == token).map(|(of, _)| *of)
}

impl Term {
    /// Returns the term of a token of `events/*.toml`: `cycles`, `walk.load`, `reach.L2.fetch`.
    #[must_use]
    pub fn from_token(token: &str) -> Option<Term> {
        let mut parts = token.split('.');
        let all = [parts.next()?, parts.next().unwrap_or_default(), parts.next().unwrap_or_default()];
        if parts.next().is_some() {
            return None;
        }
        let kind = |token| of_token(&ACCESSES, token);
        let cache = |token| of_token(&CACHES, token);
        Some(match all {
            ["cycles", "", ""] => Term::Cycles,
            ["instructions", "", ""] => Term::Instructions,
            ["loads", "", ""] => Term::Loads,
            ["stores", "", ""] => Term::Stores,
            ["line-changes", "", ""] => Term::LineChanges,
            ["access", of, ""] => Term::Accesses(kind(of)?),
            ["reach", of, "walk"] => Term::ReachedByWalks(cache(of)?),
            ["reach", of, by] => Term::Reached(cache(of)?, kind(by)?),
            ["miss", of, by] => Term::Missed(cache(of)?, kind(by)?),
            ["fill", of, "store"] => Term::FilledByStores(cache(of)?),
            ["pass", of, "store"] => Term::PassedStores(cache(of)?),
            ["fill", of, ""] => Term::Filled(cache(of)?),
            ["write-back", of, ""] => Term::WrittenBack(cache(of)?),
            ["tlb", of, ""] => Term::TlbMisses(kind(of)?),
            ["walk", of, ""] => Term::Walks(kind(of)?),
            ["memory", "reads", ""] => Term::MemoryReads,
            ["memory", "writes", ""] => Term::MemoryWrites,
            ["memory", of, ""] => Term::Memory(kind(of)?),
            ["wait", "tlb", of] => Term::TlbWait(kind(of)?),
            ["wait", "walk", of] => Term::WalkWait(kind(of)?),
            ["wait", of, ""] => Term::Wait(kind(of)?),
            _ => return None,
        })
    }

    /// Returns whether it is a time, and no number of events.
    #[must_use]
    pub fn is_time(self) -> bool {
        matches!(self, Term::Cycles | Term::Wait(_) | Term::TlbWait(_) | Term::WalkWait(_))
    }

    /// Returns in which way the simulated quantity is not that of the processor, as a sentence.
    #[must_use]
    pub fn differs(self) -> Option<&'static str> {
        Some(match self {
            Term::Cycles => "Those of the description: each access waits for the one before.",
            Term::Wait(_) | Term::TlbWait(_) | Term::WalkWait(_) => {
                "Those of the description, where each access waits for the one before."
            }
            Term::Missed(Cache::L1I, _) => {
                "Fetched when execution enters another line, and nothing is fetched ahead."
            }
            Term::Missed(..) | Term::FilledByStores(_) | Term::Filled(_) | Term::Reached(..) => {
                "Nothing is prefetched, and each miss is complete before the next access."
            }
            Term::TlbMisses(_) | Term::Walks(_) => {
                "A described machine has the same TLBs for instructions and data, which displace one another's pages."
            }
            _ => return None,
        })
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $token:literal $text:literal;)*) => {
        /// Why a simulation cannot count an event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Unsimulated {
            $($(#[$doc])* $name,)*
        }

        impl Unsimulated {
            /// All reasons.
            pub const ALL: &'static [Unsimulated] = &[$(Unsimulated::$name,)*];

            /// Token in `events/*.toml`.
            #[must_use]
            pub fn token(self) -> &'static str {
                match self { $(Unsimulated::$name => $token,)* }
            }

            /// The reason, as a clause.
            #[must_use]
            pub fn reason(self) -> &'static str {
                match self { $(Unsimulated::$name => $text,)* }
            }
        }
    };
}

reasons! {
    /// Branches and their prediction.
    Branches "branches" "branches are not told apart from other instructions, and none is predicted";
    /// Paths that are discarded.
    Speculation "speculation" "no instruction is executed on a path that is discarded";
    /// Kinds of instructions.
    Kinds "kinds" "instructions are not told apart by what they calculate";
    /// The core's pipeline.
    Pipeline "pipeline" "a description has no pipeline: what instructions wait for, beside accesses, is not known";
    /// Queues of accesses.
    Buffers "buffers" "a description has no buffer of stores and no queue of accesses for this";
    /// Prediction of ways.
    Prediction "prediction" "a description has no prediction of ways";
    /// Prefetchers.
    Prefetch "prefetch" "a description has no prefetcher";
    /// The bus.
    Bus "bus" "a description has no bus: how many transfers a line takes is not known";
    /// Half lines.
    Halves "halves" "a description has one dirty bit for a line, and not one for each half";
    /// Parts of a sum.
    Parts "parts" "only the sum with other accesses, as those of walks, is known";
    /// The number of instructions that a fetch brings.
    FetchWidth "fetch-width" "how many instructions a fetch brings is not described";
    /// Alignment.
    Alignment "alignment" "the alignment of accesses is not counted";
    /// Memory that is not write-back.
    Attributes "attributes" "all memory of a simulated program is write-back";
    /// Maintenance of caches, and barriers.
    Maintenance "maintenance" "maintenance of caches and barriers take no part in a simulation";
    /// Coherence.
    OtherCores "other-cores" "which other core or socket serves an access is not counted here";
    /// Exceptions.
    Exceptions "exceptions" "exceptions and interrupts are not simulated";
    /// What software writes.
    Software "software" "only software, or a counter itself, makes this event";
    /// Errors of memories.
    Errors "errors" "a described machine has no errors";
    /// The trace unit.
    TraceUnit "trace-unit" "a description has no trace unit";
    /// Another clock.
    Clock "clock" "a description has no second clock";
    /// The manual.
    Unclear "unclear" "the manual does not tell exactly enough what counts";
}

impl Unsimulated {
    /// Returns the reason of a token.
    #[must_use]
    pub fn from_token(token: &str) -> Option<Unsimulated> {
        Unsimulated::ALL.iter().copied().find(|of| of.token() == token)
    }
}
