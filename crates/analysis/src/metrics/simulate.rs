//! Metrics of `fathom simulate`: a program's accesses, answered by a described machine.

use super::common::{ADDRESS, INSTRUCTION_OFFSET};
use crate::findings::{Compared, Field, Metric, metrics};

/// Name of a level or TLB.
pub const NAME: Field = Field::new("name", "name in the description");
/// Contents of a level.
pub const HOLDS: Field = Field::new("holds", "data, instructions or unified");
/// The function.
pub const FUNCTION: Field = Field::new(
    "function",
    "function, demangled; the section, if no symbol covers it; the address, of a trace without its program",
);
/// The program or library.
pub const FILE: Field = Field::new("file", "name of the program or library");
/// Line of the source.
pub const SOURCE: Field = Field::new("source", "file and line of the source");
/// File of the source.
pub const SOURCE_FILE: Field = Field::new("source_file", "name of the file of the source");
/// Number of a line.
pub const LINE_NUMBER: Field = Field::new("line_number", "number of the line in that file");
/// Text of a line.
pub const TEXT: Field = Field::new("text", "the line; none if it is blank");
/// Executed instructions.
pub const EXECUTED: Field = Field::new("executed", "number of executed instructions");
/// Data accesses.
pub const ACCESSES: Field = Field::new("accesses", "number of loads and stores");
/// Misses by level.
pub const MISSES: Field = Field::new(
    "misses",
    "by level: data accesses that it did not serve, or fetches, if it holds instructions only",
);
/// Accesses by level.
pub const REACHED: Field = Field::new("reached", "by level: accesses that reached it, fetches included");
/// All misses by level.
pub const PASSED_ON: Field =
    Field::new("misses", "by level: accesses that it did not serve, fetches included");
/// Accesses of memory.
pub const MEMORY: Field = Field::new("memory", "number of accesses that memory served");
/// Name of a region.
pub const REGION: Field = Field::new("region", "name that the program gives it");
/// Entries.
pub const ENTERED: Field = Field::new("entered", "times that a thread has entered it from outside");
/// Ends and beginnings without the other.
pub const UNMATCHED: Field =
    Field::new("unmatched", "number of ends without a beginning, and of beginnings without an end");
/// Times of entries of a region.
pub const SHORTEST: Field = Field::new("shortest", "shortest time of an entry that was left, cycles");
/// The median.
pub const MEDIAN: Field = Field::new("median", "median time of these entries, cycles");
/// The 99th percentile.
pub const P99: Field = Field::new("p99", "what 99 % of them do not exceed, cycles");
/// The longest.
pub const LONGEST: Field = Field::new("longest", "longest time of them, cycles");
/// Names of the reasons of misses, in the order of the lists in a record.
pub const REASON_NAMES: [&str; 6] =
    ["cold", "capacity", "conflict", "shared", "falsely-shared", "unallocated"];
/// The metric of a level for each of them.
pub static LEVEL_REASONS: [&Metric; REASON_NAMES.len()] =
    [&LEVEL_COLD, &LEVEL_CAPACITY, &LEVEL_CONFLICT, &LEVEL_SHARED, &LEVEL_FALSELY_SHARED, &LEVEL_UNALLOCATED];
/// The metric of a TLB for each of those that a TLB may have: the first ones.
pub static TLB_REASONS: [&Metric; 3] = [&TLB_COLD, &TLB_CAPACITY, &TLB_CONFLICT];
/// Misses by reason.
pub const REASONS: Field = Field::new("reasons", "misses of the nearest level by reason");
/// The metrics of what CPUs do to one another's lines in all levels.
pub static SHARING: [&Metric; 3] = [&SHARING_INVALIDATED, &SHARING_TRANSFERS, &SHARING_UPGRADES];
/// The same of a level.
pub static LEVEL_SHARING: [&Metric; 3] = [&LEVEL_INVALIDATED, &LEVEL_TRANSFERS, &LEVEL_UPGRADES];
/// The same of an object.
pub const INVALIDATED: Field =
    Field::new("invalidated", "times that a CPU lost a line because another CPU stored to the object");
/// The same.
pub const TRANSFERS: Field =
    Field::new("dirty_transfers", "loads of the object from a line that another CPU had modified");
/// The same.
pub const UPGRADES: Field =
    Field::new("upgrades", "stores to the object in a line that the CPU itself and others had, clean");
/// The reason.
pub const REASON: Field = Field::new("reason", "conflict, shared or falsely-shared");
/// The set.
pub const SET: Field = Field::new("set", "number of the set of the first such miss");
/// Data.
pub const OBJECT: Field = Field::new(
    "object",
    "variable, stack, heap with the function and the line that allocate, other memory; the address, of a trace without its program",
);
/// Accesses of an allocation site.
pub const BLOCK_ACCESSES: Field =
    Field::new("accesses", "of an allocation site: number of loads and stores in its blocks");
/// Blocks of an allocation site.
pub const BLOCKS: Field = Field::new("blocks", "of an allocation site: number of blocks of the heap");
/// Their bytes.
pub const BLOCK_BYTES: Field = Field::new("bytes", "of an allocation site: bytes of all its blocks");
/// The most of them.
pub const PEAK_BYTES: Field = Field::new(
    "peak_bytes",
    "of an allocation site: the most bytes that were in use at the same time; of a line of the source with several, their sum",
);
/// Place in an object.
pub const OFFSET: Field = Field::new("offset", "offset in the object of the pair that misses most, bytes");
/// CPU.
pub const CPU: Field = Field::new("cpu", "number of the CPU that missed");
/// The other object.
pub const BY_OBJECT: Field =
    Field::new("by_object", "object that had taken the line; page tables for a walk");
/// Its place.
pub const BY_OFFSET: Field = Field::new("by_offset", "offset in that object, bytes");
/// Its function.
pub const BY_FUNCTION: Field = Field::new("by_function", "function that accessed it");
/// Its line of the source.
pub const BY_SOURCE: Field = Field::new("by_source", "file and line of the source that accessed it");
/// Its CPU.
pub const BY_CPU: Field = Field::new("by_cpu", "number of the CPU that accessed it");
/// The call from which a call was made.
pub const CALLER: Field = Field::new("caller", "number of the call that made this one; 0 if none did");
/// Time of a call.
pub const TIME: Field = Field::new("cycles", "time, if every access waits for the one before, cycles");
/// The same time, if accesses overlap.
pub const OVERLAPPED: Field = Field::new(
    "overlapped",
    "what remains of this time if accesses that are no hits overlap as described, cycles",
);
/// The least time.
pub const LEAST: Field =
    Field::new("least", "the least time, if accesses that are no hits overlap as described, cycles");
/// A call's part of it.
pub const LEAST_PART: Field = Field::new(
    "least",
    "its part of the least time of the program: what it has of the instructions, the fetches or the data accesses, whichever of \
     them takes the longest in the whole program, cycles",
);
/// What passes side by side in the least time.
pub const SIDES: Field = Field::new(
    "sides",
    "what passes side by side then, the longest of which is this time: instructions, fetches beyond hits, data accesses beyond hits, \
     cycles",
);
/// One of them.
pub const INSTRUCTION_SIDE: &str = "instructions";
/// One of them.
pub const FETCH_SIDE: &str = "fetches";
/// One of them.
pub const DATA_SIDE: &str = "data";
/// Instructions in flight.
pub const WINDOW: Field = Field::new(
    "window",
    "instructions that may be in flight: accesses that are so many apart do not overlap",
);
/// Walks.
pub const WALKS: Field = Field::new("walks", "number of page-table walks");

metrics! {
    INSTRUCTIONS "simulated.instructions" [""]
        "number of executed instructions";
    LOADS "simulated.loads" [""]
        "number of loads; one that crosses lines is one for each";
    STORES "simulated.stores" [""]
        "number of stores; one that crosses lines is one for each";
    FETCHES "simulated.fetches" [""]
        "number of lines of instructions that execution entered";
    DEVICE_LOADS "simulated.device.loads" [""]
        "number of a guest's loads from devices, which are not simulated";
    DEVICE_STORES "simulated.device.stores" [""]
        "number of a guest's stores to devices, which are not simulated";
    CYCLES "simulated.cycles" ["cycles"]
        "time of the program, if every access waits for the one before"
        .less_is_better().timed();
    LEAST_CYCLES "simulated.cycles.least" ["cycles"]
        "the least time of the program: accesses that are no hits overlap as described, as if none depended on another"
        .less_is_better().timed().detail(&[SIDES]);
    OUTSTANDING "simulated.outstanding" [""]
        "number of accesses that are no hits and that may be under way at the same time, as described"
        .detail(&[WINDOW]);
    OPERATION_CYCLES "simulated.operations.cycles" ["cycles"]
        "time of the instructions themselves";
    LEVEL_ACCESSES "simulated.level.{level}.accesses" [""]
        "number of accesses that reached a level, by its number in the description"
        .detail(&[NAME, HOLDS]);
    LEVEL_MISSES "simulated.level.{level}.misses" [""]
        "number of accesses that a level did not serve"
        .less_is_better().detail(&[NAME]);
    LEVEL_SHARE "simulated.level.{level}.miss_share" [""]
        "share of the accesses that reached a level and that it did not serve"
        .share().less_is_better().detail(&[NAME]);
    LEVEL_WRITEBACKS "simulated.level.{level}.writebacks" [""]
        "number of dirty lines that a level evicted"
        .less_is_better().detail(&[NAME]);
    LEVEL_COLD "simulated.level.{level}.cold" [""]
        "number of misses of lines that were never there"
        .detail(&[NAME]);
    LEVEL_CAPACITY "simulated.level.{level}.capacity" [""]
        "number of misses that a fully associative LRU cache of the same size would have, too"
        .less_is_better().detail(&[NAME]);
    LEVEL_CONFLICT "simulated.level.{level}.conflict" [""]
        "number of misses that it would not have"
        .less_is_better().detail(&[NAME]);
    LEVEL_SHARED "simulated.level.{level}.shared" [""]
        "number of misses of lines that another CPU's store had taken, and whose bytes other CPUs had stored"
        .less_is_better().detail(&[NAME]);
    LEVEL_FALSELY_SHARED "simulated.level.{level}.falsely_shared" [""]
        "number of misses of lines that another CPU's store had taken, while nobody had stored the bytes"
        .less_is_better().detail(&[NAME]);
    LEVEL_UNALLOCATED "simulated.level.{level}.unallocated" [""]
        "number of stores that missed in a level that allocates no lines for stores"
        .detail(&[NAME]);
    LEVEL_INVALIDATED "simulated.level.{level}.invalidated" [""]
        "number of lines that stores of other CPUs invalidated in private caches of a level"
        .less_is_better().detail(&[NAME]);
    LEVEL_TRANSFERS "simulated.level.{level}.dirty_transfers" [""]
        "number of loads and fetches of a line that another CPU had modified in its cache of this level, and in none nearer to it"
        .less_is_better().detail(&[NAME]);
    LEVEL_UPGRADES "simulated.level.{level}.upgrades" [""]
        "number of stores to a line that others had, and the CPU itself in this level and in none nearer to it, all clean"
        .less_is_better().detail(&[NAME]);
    SHARING_INVALIDATED "simulated.sharing.invalidated" [""]
        "number of times that a CPU lost a line in its private levels because another one stored to it"
        .less_is_better();
    SHARING_TRANSFERS "simulated.sharing.dirty_transfers" [""]
        "number of loads and fetches of a line that another CPU had modified"
        .less_is_better();
    SHARING_UPGRADES "simulated.sharing.upgrades" [""]
        "number of stores to a line that the CPU itself and others had, clean"
        .less_is_better();
    LEVEL_CYCLES "simulated.level.{level}.cycles" ["cycles"]
        "time in which a level served data accesses, without their translation"
        .detail(&[NAME]);
    MEMORY_ACCESSES "simulated.memory.accesses" [""]
        "number of accesses that memory served"
        .less_is_better();
    MEMORY_WRITES "simulated.memory.writes" [""]
        "number of lines written back to memory, and of stores that reached it"
        .less_is_better();
    MEMORY_CYCLES "simulated.memory.cycles" ["cycles"]
        "time in which memory served data accesses, without their translation"
        .less_is_better();
    FETCH_CYCLES "simulated.fetch.cycles" ["cycles"]
        "time of instruction fetches that the nearest level did not serve, beyond a hit"
        .less_is_better();
    TLB_ACCESSES "simulated.tlb.{tlb}.accesses" [""]
        "number of translations that reached a TLB, by its number in the description"
        .detail(&[NAME]);
    TLB_MISSES "simulated.tlb.{tlb}.misses" [""]
        "number of translations that a TLB did not have"
        .less_is_better().detail(&[NAME]);
    TLB_COLD "simulated.tlb.{tlb}.cold" [""]
        "number of misses of pages that were never there"
        .detail(&[NAME]);
    TLB_CAPACITY "simulated.tlb.{tlb}.capacity" [""]
        "number of misses that a fully associative LRU TLB with as many entries would have, too"
        .less_is_better().detail(&[NAME]);
    TLB_CONFLICT "simulated.tlb.{tlb}.conflict" [""]
        "number of misses that it would not have"
        .less_is_better().detail(&[NAME]);
    WALK_COUNT "simulated.walks" [""]
        "number of page-table walks"
        .less_is_better();
    TRANSLATION_CYCLES "simulated.translation.cycles" ["cycles"]
        "time of translations that the nearest TLB did not have: farther TLBs and walks"
        .less_is_better();
    FUNCTION_CYCLES "simulated.function.{rank}.cycles" ["cycles"]
        "time of a function's accesses beyond hits of the nearest level and TLB; the longest first"
        .less_is_better().compared(Compared::OnRequest)
        .detail(&[FUNCTION, FILE, EXECUTED, ACCESSES, MISSES, WALKS, OVERLAPPED, REASONS]);
    LINE_CYCLES "simulated.line.{rank}.cycles" ["cycles"]
        "the same for a line of the source"
        .less_is_better().compared(Compared::OnRequest)
        .detail(&[SOURCE, FUNCTION, FILE, EXECUTED, ACCESSES, MISSES, WALKS, OVERLAPPED, REASONS]);
    INSTRUCTION_CYCLES "simulated.instruction.{rank}.cycles" ["cycles"]
        "the same for an instruction"
        .less_is_better().compared(Compared::OnRequest)
        .detail(&[
            SOURCE, FUNCTION, FILE, ADDRESS, INSTRUCTION_OFFSET, EXECUTED, ACCESSES, MISSES, WALKS, OVERLAPPED, REASONS,
        ]);
    SOURCE_CYCLES "simulated.source.{rank}.cycles" ["cycles"]
        "the same for the lines of the source around those with the longest time, in the order of the source"
        .less_is_better().compared(Compared::OnRequest)
        .detail(&[SOURCE_FILE, LINE_NUMBER, TEXT, EXECUTED, ACCESSES, MISSES, WALKS, OVERLAPPED]);
    REGION_CYCLES "simulated.region.{rank}.cycles" ["cycles"]
        "time of a region that marks in the program bound, and of the regions within it; the longest first"
        .less_is_better().compared(Compared::OnRequest)
        .detail(&[
            REGION, ENTERED, UNMATCHED, LEAST, EXECUTED, ACCESSES, REACHED, PASSED_ON, WALKS, MEMORY, SHORTEST, MEDIAN, P99,
            LONGEST,
        ]);
    TOTAL_SHARE "simulated.total.{rank}.share" [""]
        "share of the program's time in a function and in all that it calls; the largest first"
        .share().less_is_better().compared(Compared::OnRequest)
        .detail(&[FUNCTION, FILE, TIME, LEAST_PART, EXECUTED, ACCESSES, MISSES, WALKS]);
    CALL_SHARE "simulated.call.{call}.share" [""]
        "share of the time in a function, called by a certain sequence of callers, and in all that it calls from there"
        .share().less_is_better().compared(Compared::OnRequest)
        .detail(&[FUNCTION, FILE, CALLER, TIME, LEAST_PART, EXECUTED, ACCESSES, MISSES, WALKS]);
    CALL_LEAST_SHARE "simulated.call.{call}.least_share" [""]
        "the same share of the least time"
        .share().less_is_better().compared(Compared::OnRequest)
        .detail(&[FUNCTION, FILE, CALLER, LEAST_PART]);
    OBJECT_CYCLES "simulated.object.{rank}.cycles" ["cycles"]
        "time of accesses to an object beyond hits of the nearest level and TLB; the longest first"
        .less_is_better().compared(Compared::OnRequest)
        .detail(&[
            OBJECT, FILE, BLOCKS, BLOCK_BYTES, PEAK_BYTES, BLOCK_ACCESSES, MISSES, WALKS, OVERLAPPED, REASONS, INVALIDATED,
            TRANSFERS, UPGRADES,
        ]);
    PAIR_MISSES "simulated.pair.{rank}.misses" [""]
        "number of misses of an object because of another one; the most first"
        .less_is_better().compared(Compared::OnRequest)
        .detail(&[
            REASON, NAME, SET, OBJECT, OFFSET, FUNCTION, SOURCE, CPU, BY_OBJECT, BY_OFFSET, BY_FUNCTION, BY_SOURCE, BY_CPU,
        ]);
    PAGE_PAIR_MISSES "simulated.page_pair.{rank}.misses" [""]
        "number of misses of a TLB for pages of an object because of those of another one; the most first"
        .less_is_better().compared(Compared::OnRequest)
        .detail(&[
            REASON, NAME, SET, OBJECT, OFFSET, FUNCTION, SOURCE, CPU, BY_OBJECT, BY_OFFSET, BY_FUNCTION, BY_SOURCE, BY_CPU,
        ]);
    GRANULE "simulated.granule" ["bytes"]
        "bytes of data that are counted as one line by object: the nearest level's line, or more where there are many lines";
}
