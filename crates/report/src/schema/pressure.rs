//! What `fathom pressure` finds: how late a periodic task is woken, under which load, and why.

use super::{NamePattern, number, word};

/// Units of a wake-up latency: instructions where an emulated guest's clock counts those.
const LATE: &[&str] = &["us", "instructions"];

/// Latencies by place and condition, what the load did, stages, causes, effects and the sweep.
pub(super) const NAMES: &[NamePattern] = &[
    number("wakeup.PLACE.CONDITION.min", LATE, "wake-up latency at a place under a condition: the least"),
    number("wakeup.PLACE.CONDITION.mean", LATE, "its mean"),
    number("wakeup.PLACE.CONDITION.stddev", LATE, "its standard deviation"),
    number("wakeup.PLACE.CONDITION.PERCENTILE", LATE, "its percentile, where enough activations were seen"),
    number("wakeup.PLACE.CONDITION.max", LATE, "the largest of `count` activations"),
    number("wakeup.PLACE.CONDITION.missed", &["activations"], "periods that had no activation"),
    number(
        "wakeup.PLACE.CONDITION.unseen",
        &["activations"],
        "activations in which the trace did not show the place",
    ),
    number(
        "wakeup.PLACE.CONDITION.p999_corrected",
        LATE,
        "p99.9 with the periods that were slept through, each as late as it would have been",
    ),
    number(
        "wakeup.PLACE.CONDITION.hourly",
        LATE,
        "what is exceeded once an hour, extrapolated (peaks over threshold)",
    ),
    number(
        "pressure.CONDITION.RATE",
        &["1/s"],
        "what the co-running load did in a second, all its workers together",
    ),
    number("stall.CONDITION.RESOURCE", &[""], "share of the time in which some task waited for it (PSI)"),
    number("bias.trace", LATE, "what watching the earlier places of a wake-up adds to it; not subtracted"),
    number("stage.STAGE.all", LATE, "time in a stage of a wake-up: median over all activations"),
    number("stage.STAGE.worst", LATE, "median over the worst activations"),
    number(
        "worst.N.latency",
        LATE,
        "the Nth latest activation; its condition, its stages and what ran are in the notes",
    ),
    number("cause.CAUSE.period", &["ms"], "period in which late activations come back"),
    number("cause.CAUSE.share", &[""], "share of the late activations that come back so"),
    number("effect.none", LATE, "randomised design: a percentile of the task with every factor off"),
    number("effect.FACTOR", LATE, "what a factor adds to it"),
    number("interaction.FACTOR.FACTOR", LATE, "what two factors together add beyond what each adds alone"),
    number("explained.increase", LATE, "what the study's memory workers add to its load"),
    number("explained.FACTOR", LATE, "of that, what a factor explains by how much of it the workers do"),
    number("explained.rest", LATE, "of that, what no factor explains"),
    number(
        "sweep.STRESS.MODE.STEP.BYTES.p50",
        LATE,
        "median under workers that write blocks of BYTES every STEP bytes",
    ),
    number(
        "sweep.STRESS.MODE.STEP.BYTES.tail",
        LATE,
        "their p99.9, or p99 where series are short: see the notes",
    ),
    number("sweep.STRESS.MODE.STEP.BYTES.max", LATE, "the largest of `count` activations"),
    number("sweep.STRESS.MODE.STEP.BYTES.faults", &["1/s"], "page faults of one worker in a second"),
    number(
        "inflection.N.bytes",
        &["bytes"],
        "block size at which a curve changes: between the interval's ends",
    ),
    number("inflection.N.effect", &[""], "by how much of what it was before"),
    word("inflection.N.kind", "BREAK", "does it change at once, or over several sizes"),
    word("inflection.N.curve", "CURVE", "the curve of the sweep that changes there"),
    word("inflection.N.statistic", "STATISTIC", "what changes: of its latencies, or what the load does"),
    number(
        "inflection.N.before",
        &["1/s"],
        "where page faults change: those of one worker in a second before it",
    ),
    number("inflection.N.behind", &["1/s"], "and behind it"),
    number(
        "inflection.N.across.STATISTIC",
        &[""],
        "by how much a latency changes there, of what it was before; also what is too little to be told by itself",
    ),
];
