//! Metrics of `fathom count`: a program on this machine, by the counters of the processor and of the kernel.

pub use super::simulate::REGION;
use crate::findings::{Compared, Field, metrics, tokens};

/// Count of an event in a loop that must have it.
pub const TRIED: Field = Field::new(
    "tried",
    "events that were counted in a loop that must have them, before the program ran; absent without such a loop",
);

/// Survey with the access times.
pub const SURVEY: Field = Field::new("survey", "record of the survey that measured the access times");

/// An event of a processor's table: its mnemonic.
pub const EVENT_NAME: Field =
    Field::new("event", "name of the event in the processor's table (fathom events)");
/// The number that selects it.
pub const EVENT_CODE: Field = Field::new("code", "number that selects the event, in hexadecimal");
/// What it is evidence of.
pub const EVENT_OF: Field = Field::new("of", "quantity of which the event is evidence; absent without one");
/// In which way its count is not what its name suggests.
pub const CAVEAT: Field =
    Field::new("caveat", "in which way the count is not what the event's name suggests, on the processor");
/// In which way the simulated count is not that of the processor.
pub const DIFFERS: Field =
    Field::new("differs", "in which way the simulated count is not that of the processor");

/// Range of a quantity over slices of time.
pub const P10: Field = Field::new("p10", "tenth percentile over slices");
/// The same, from above.
pub const P90: Field = Field::new("p90", "ninetieth percentile over slices");
/// How marks read the counters.
pub const READ_BY: Field = Field::new(
    "read_by",
    "how marks read the counters: by read(2), by instructions of the processor, or by both",
)
.of(&tokens::READ_BY);
/// Time of a pair of marks.
pub const PAIR: Field = Field::new("pair", "time that a pair of marks takes that reads this event, ns");
/// Slices of time.
pub const SLICES: Field = Field::new("slices", "number of slices");

metrics! {
    WALL "program.wall" ["ms"]
        "time of the program from start to end, with everything that it waits for"
        .less_is_better().timed();
    CPU "program.cpu" ["ms"]
        "CPU time of the program and of what it starts and waits for, in user space and in the kernel"
        .less_is_better().timed();
    USER "program.user" ["ms"]
        "CPU time of the program and of what it starts and waits for, in user space"
        .less_is_better().timed();
    SYSTEM "program.system" ["ms"]
        "CPU time of the program and of what it starts and waits for, in the kernel"
        .less_is_better().timed();
    MINOR_FAULTS "program.faults.minor" [""]
        "number of minor page faults, which needed no I/O"
        .less_is_better();
    MAJOR_FAULTS "program.faults.major" [""]
        "number of major page faults, which needed I/O"
        .less_is_better();
    VOLUNTARY "program.switches.voluntary" [""]
        "number of voluntary context switches: the program waited for something"
        .less_is_better();
    INVOLUNTARY "program.switches.involuntary" [""]
        "number of involuntary context switches: its CPU was taken away"
        .less_is_better();
    COUNT "program.event.{event}.count" [""]
        "number of events of the program and of what it starts, in user space; with the kernel only if a warning tells"
        .timed().detail(&[TRIED]);
    PER_THOUSAND "program.event.{event}.per_thousand" [""]
        "number of events per thousand instructions of the same run";
    SHARE "program.event.{event}.share" [""]
        "misses as a share of the loads that were counted in the same run"
        .share().less_is_better();
    PER_CYCLE "program.instructions_per_cycle" [""]
        "instructions per cycle of the same run"
        .more_is_better();
    EXPLAINED_CACHES "program.explained.caches" ["cycles"]
        "cycles that load misses which farther caches served would take one at a time, by the survey's times";
    EXPLAINED_EITHER "program.explained.caches_or_memory" ["cycles"]
        "the same, where misses of the last level are not counted, so that memory may have served them";
    EXPLAINED_MEMORY "program.explained.memory" ["cycles"]
        "cycles that loads which memory served would take one at a time, by the survey's time";
    EXPLAINED_TRANSLATION "program.explained.translation" ["cycles"]
        "cycles that TLB misses of loads would take one at a time, by the survey's times of walks";
    EXPLAINED "program.explained.all" ["cycles"]
        "cycles that all counted load misses would take one at a time, by access times of an idle machine"
        .detail(&[SURVEY]);
    UNEXPLAINED "program.explained.rest" ["cycles"]
        "cycles that the program took beyond those: instructions, hits, and what the counted events do not show"
        .signed();
    WAITS "program.waits" ["cycles"]
        "cycles of loads, stores and translations beyond hits of the nearest level and TLB, as the simulation accounts for them"
        .less_is_better();
    ENTRY_COUNT "program.entry.{entry}.count" [""]
        "number of events of the described processor, or of cycles, counted in a simulation"
        .timed().detail(&[EVENT_NAME, EVENT_CODE, EVENT_OF, CAVEAT, DIFFERS]);
    ENTRY_PER_THOUSAND "program.entry.{entry}.per_thousand" [""]
        "number of these events per thousand instructions"
        .detail(&[EVENT_NAME]);
    COUNTING_COST "program.counting_cost" [""]
        "CPU time of runs that were counted over that of runs that were not, less 1"
        .signed().compared(Compared::OnRequest);
    COUNTED_TIME "program.counted_time" ["ms"]
        "time in which slices were counted"
        .detail(&[SLICES]);
    CPUS "program.cpus" [""]
        "CPU time over time, of all slices together"
        .timed().detail(&[P10, P90]);
    RATE "program.event.{event}.rate" ["1/s"]
        "number of events a second, of all slices together that counted it"
        .timed().detail(&[P10, P90]);
    SLICE_CPUS "program.slice.{elapsed}.cpus" [""]
        "CPU time over time in a slice; in long series, in some slices together"
        .compared(Compared::OnRequest);
    SLICE_RATE "program.slice.{elapsed}.event.{event}.rate" ["1/s"]
        "number of events a second in a slice, or in some together"
        .compared(Compared::OnRequest);
    SLICE_PER_CYCLE "program.slice.{elapsed}.instructions_per_cycle" [""]
        "instructions per cycle in a slice, or in some together"
        .compared(Compared::OnRequest);
    REGION_TIME "program.region.{region}.time" ["ms"]
        "time in a region and in what it calls, of all threads together"
        .less_is_better().timed().detail(&[REGION]);
    REGION_ENTERED "program.region.{region}.entered" [""]
        "times that threads have entered a region from outside, and left it"
        .detail(&[REGION]);
    REGION_COUNT "program.region.{region}.event.{event}.count" [""]
        "number of events in a region and in what it calls, of all threads together"
        .timed().detail(&[REGION]);
    REGION_PER_THOUSAND "program.region.{region}.event.{event}.per_thousand" [""]
        "number of events in a region per thousand instructions there, of the same run"
        .detail(&[REGION]);
    REGION_PER_CYCLE "program.region.{region}.instructions_per_cycle" [""]
        "instructions per cycle in a region"
        .more_is_better().detail(&[REGION]);
    MARKS_TIME "program.marks.time" ["ns"]
        "time between two marks with nothing in between: the part of each entry of a region that is that of its marks"
        .timed().compared(Compared::OnRequest);
    MARKS_COST "program.marks.cost" ["ns"]
        "time that a pair of marks takes that reads the clock"
        .timed().compared(Compared::OnRequest);
    MARKS_COUNT "program.marks.event.{event}.count" [""]
        "number of events between two marks with nothing in between: the part of each entry of a region that is that of its marks"
        .compared(Compared::OnRequest).detail(&[READ_BY, PAIR]);
}
