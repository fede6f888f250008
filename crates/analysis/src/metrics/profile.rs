//! Metrics of `fathom profile`: where a program executes, by samples.

use super::common::{ADDRESS, INSTRUCTION_OFFSET};
use crate::findings::{Compared, Field, metrics};

/// The function.
pub const FUNCTION: Field =
    Field::new("function", "function, demangled; the section, if no symbol covers it; ? for code of no file");
/// The program or library.
pub const FILE: Field = Field::new("file", "name of the program or library");
/// Line of the source.
pub const SOURCE: Field = Field::new("source", "file and line of the source");
/// The data.
pub const OBJECT: Field = Field::new(
    "object",
    "variable, or the section without a symbol; stack, heap, mapped file; other memory by its first address; ? if no mapping of it is known",
);
/// The PMU.
pub const PMU: Field = Field::new("pmu", "name of the PMU in sysfs");
/// Its CPUs.
pub const CPUS: Field = Field::new("cpus", "CPUs of the PMU, as the kernel lists them");
/// Events that it counted.
pub const PMU_COUNTED: Field =
    Field::new("counted", "number of events that it counted, sampled or not; not of a trace");
/// Where data were.
pub const LEVEL: Field = Field::new(
    "level",
    "where the data of an access were: a level of the caches, a fill buffer (the line was on its way), a cache of the system, of another core or node, memory of this or another node, a remote cache or memory, a device; or behind which level, if the processor does not tell more; unknown if it tells nothing",
);
/// Number of such a place.
pub const LEVEL_NUMBER: Field = Field::new(
    "number",
    "number of the place where the data were, as the processor tells it, if its numbers are not known",
);
/// Latency.
pub const LATENCY: Field =
    Field::new("latency", "median latency of the sampled accesses as the processor tells it, cycles");
/// Long latency.
pub const LATENCY_P90: Field = Field::new("latency_p90", "90th percentile of the latency, cycles");
/// Samples.
pub const SAMPLES: Field = Field::new("samples", "number of samples");
/// The call from which a call was made.
pub const CALLER: Field = Field::new("caller", "number of the call that made this one; 0 if none did");
/// Whether the kernel was sampled too.
pub const KERNEL: Field = Field::new("kernel", "whether samples are in the kernel too");
/// Whether time is counted in instructions.
pub const INSTRUCTION_CLOCK: Field = Field::new(
    "instruction_clock",
    "whether the clock counts instructions: shares of time are shares of instructions",
);
/// What makes samples.
pub const EVENT: Field = Field::new("event", "event that makes samples, by its name in perf-list(1)");

metrics! {
    WALL "profile.wall" ["ms"]
        "time of the program from start to end, while it was sampled; of an import, from the first sample to the last"
        .timed();
    USER "profile.user" ["ms"]
        "CPU time of the program and of what it starts, in user space, as the kernel accounts it"
        .timed();
    SYSTEM "profile.system" ["ms"]
        "the same in the kernel, which is not sampled"
        .timed();
    SAMPLE_COUNT "profile.samples" [""]
        "number of samples, all in user space unless `kernel` is set"
        .detail(&[EVENT, KERNEL, INSTRUCTION_CLOCK]);
    COUNTED "profile.counted" [""]
        "number of events, sampled or not, of processes that have ended; not of the kernel's clock";
    PMU_SAMPLES "profile.pmu.{pmu}.samples" [""]
        "number of samples of one of several PMUs of CPUs, in the order of their numbers"
        .detail(&[PMU, CPUS, PMU_COUNTED]);
    LOST "profile.lost" [""]
        "number of records that were lost, not kept, or may have been lost: samples, mappings, starts of processes"
        .less_is_better();
    FUNCTION_SHARE "profile.function.{rank}.share" [""]
        "share of the time in user space, or of the events, in a function; the largest first"
        .share().timed().less_is_better().compared(Compared::OnRequest).detail(&[FUNCTION, FILE, SAMPLES]);
    TOTAL_SHARE "profile.total.{rank}.share" [""]
        "share in a function and in all that it calls; the largest first"
        .share().less_is_better().compared(Compared::OnRequest).detail(&[FUNCTION, FILE, SAMPLES]);
    CALL_SHARE "profile.call.{call}.share" [""]
        "share in a function, called by a certain sequence of callers, and in all that it calls from there"
        .share().less_is_better().compared(Compared::OnRequest).detail(&[FUNCTION, FILE, CALLER, SAMPLES]);
    WHOLE_SHARE "profile.callers.known" [""]
        "share of the samples whose callers are known back to what started the thread"
        .share();
    LINE_SHARE "profile.line.{rank}.share" [""]
        "the same for a line of the source"
        .share().less_is_better().compared(Compared::OnRequest).detail(&[SOURCE, FUNCTION, FILE, SAMPLES]);
    INSTRUCTION_SHARE "profile.instruction.{rank}.share" [""]
        "the same for an instruction; an interrupt may arrive a few instructions after the one that took the time (skid)"
        .share().less_is_better().compared(Compared::OnRequest)
        .detail(&[SOURCE, FUNCTION, FILE, ADDRESS, INSTRUCTION_OFFSET, SAMPLES]);
    OBJECT_SHARE "profile.object.{rank}.share" [""]
        "share of the samples whose access was to an object of data, of events that tell its address; the largest first"
        .share().less_is_better().compared(Compared::OnRequest)
        .detail(&[OBJECT, FILE, SAMPLES, LATENCY, LATENCY_P90]);
    LEVEL_SHARE "profile.level.{rank}.share" [""]
        "share of the sampled accesses whose data were in one place, the nearest first"
        .share().compared(Compared::OnRequest).detail(&[LEVEL, LEVEL_NUMBER, SAMPLES, LATENCY, LATENCY_P90]);
    WALK_SHARE "profile.walks.share" [""]
        "share of the sampled accesses that tell it whose translation was in no TLB: page tables were walked"
        .share().less_is_better().compared(Compared::OnRequest).detail(&[SAMPLES, LATENCY, LATENCY_P90]);
}
