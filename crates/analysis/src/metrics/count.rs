//! Metrics of `fathom count`: a program on this machine, by the counters of the processor and of the kernel.

use crate::findings::{Compared, Field, metrics};

/// Count of an event in a loop that must have it.
pub const TRIED: Field = Field::new(
    "tried",
    "events that were counted in a loop that must have them, before the program ran; none if there is no such loop",
);

/// Survey with the access times.
pub const SURVEY: Field = Field::new("survey", "record of the survey that measured the access times");

metrics! {
    WALL "program.wall" ["ms"]
        "time of the program from start to end, with everything that it waits for"
        .less_is_better().timed();
    CPU "program.cpu" ["ms"]
        "CPU time of the program and of what it starts, in user space and in the kernel"
        .less_is_better().timed();
    USER "program.user" ["ms"]
        "CPU time of the program and of what it starts, in user space"
        .less_is_better().timed();
    SYSTEM "program.system" ["ms"]
        "CPU time of the program and of what it starts, in the kernel"
        .less_is_better().timed();
    MINOR_FAULTS "program.faults.minor" [""]
        "number of page faults that read no file"
        .less_is_better();
    MAJOR_FAULTS "program.faults.major" [""]
        "number of page faults that read a file"
        .less_is_better();
    VOLUNTARY "program.switches.voluntary" [""]
        "number of times that the program waited for something"
        .less_is_better();
    INVOLUNTARY "program.switches.involuntary" [""]
        "number of times that the program's CPU was taken away"
        .less_is_better();
    COUNT "program.event.{event}.count" [""]
        "number of events in user space, of the program and of what it starts"
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
        "cycles of misses that farther caches served, by their access times, if each is waited for";
    EXPLAINED_MEMORY "program.explained.memory" ["cycles"]
        "cycles of accesses that memory served, by its access time, if each is waited for";
    EXPLAINED_TRANSLATION "program.explained.translation" ["cycles"]
        "cycles of TLB misses, by the time of walks, if each is waited for";
    EXPLAINED "program.explained.all" ["cycles"]
        "cycles that misses take at most: caches, memory and translation"
        .detail(&[SURVEY]);
    COUNTING_COST "program.counting_cost" [""]
        "CPU time in user space of runs that were counted over that of runs that were not, less 1"
        .signed().compared(Compared::OnRequest);
}
