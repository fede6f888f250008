//! Metrics of `fathom simulate`: a program's accesses, answered by a described machine.

use crate::findings::{Compared, Field, metrics};

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
/// Executed instructions.
pub const EXECUTED: Field = Field::new("executed", "number of executed instructions");
/// Data accesses.
pub const ACCESSES: Field = Field::new("accesses", "number of loads and stores");
/// Misses by level.
pub const MISSES: Field = Field::new(
    "misses",
    "by level: data accesses that it did not serve, or fetches, if it holds instructions only",
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
    CYCLES "simulated.cycles" ["cycles"]
        "time of the program, if every access waits for the one before"
        .less_is_better().timed();
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
    WALK_COUNT "simulated.walks" [""]
        "number of page-table walks"
        .less_is_better();
    TRANSLATION_CYCLES "simulated.translation.cycles" ["cycles"]
        "time of translations that the nearest TLB did not have: farther TLBs and walks"
        .less_is_better();
    FUNCTION_CYCLES "simulated.function.{rank}.cycles" ["cycles"]
        "time of a function's accesses beyond hits of the nearest level and TLB; the longest first"
        .less_is_better().compared(Compared::OnRequest)
        .detail(&[FUNCTION, FILE, EXECUTED, ACCESSES, MISSES, WALKS]);
    LINE_CYCLES "simulated.line.{rank}.cycles" ["cycles"]
        "the same for a line of the source"
        .less_is_better().compared(Compared::OnRequest)
        .detail(&[SOURCE, FUNCTION, FILE, EXECUTED, ACCESSES, MISSES, WALKS]);
}
