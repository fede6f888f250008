//! What `fathom wakeup` finds: how late a periodic task is woken, under which load, and why.

use crate::findings::{Field, metrics, words};

/// The condition that an activation came under.
pub const CONDITION: Field =
    Field::new("condition", "the condition that it came under").of(&words::CONDITION);
/// Periods without an activation before one.
pub const SLEPT: Field = Field::new("slept", "periods without an activation before it");
/// Involuntary context switches of the task before an activation.
pub const PREEMPTED: Field = Field::new("preempted", "involuntary context switches before it");
/// The stages of an activation.
pub const STAGES: Field =
    Field::new("stages", "its stages in order, with the time in each, in the unit of the value")
        .of(&words::STAGE);
/// What the trace shows of an activation.
pub const EVENTS: Field =
    Field::new("events", "what the trace shows, with us after the time that the timer was set for");
/// What had the CPU before the task.
pub const RAN_BEFORE: Field = Field::new("ran_before", "what ran until the CPU was switched to the task");
/// Of how many of the worst activations a stage is the one that explains most.
pub const DOMINATES: Field =
    Field::new("dominates", "of how many of the worst it is the stage that explains most");
/// Causes that have the same period.
pub const OTHERS: Field = Field::new("others", "other causes that have the same period").of(&words::CAUSE);
/// The quantile that a value is of.
pub const QUANTILE: Field = Field::new("quantile", "quantile that it is of").of(&words::PERCENTILE);
/// The rate that says how much of a factor there is.
pub const BY: Field =
    Field::new("by", "rate that says how much of the factor the workers do").of(&words::RATE);
/// Is a part explained only in part?
pub const AT_LEAST: Field =
    Field::new("at_least", "true where the workers do more of it than the load that was measured alone");
/// What a worker of the curve's load does.
pub const STRESSOR: Field =
    Field::new("stressor", "the curve: what a worker of its load does").of(&words::STRESS);
/// What becomes of a worker's block on the curve.
pub const MODE: Field = Field::new("mode", "the curve: what becomes of a worker's block").of(&words::MODE);
/// The stride of the curve's workers.
pub const STRIDE: Field = Field::new("stride", "the curve: its stride, bytes");

/// Which curve of the sweep changes.
const CURVE: &[Field] = &[STRESSOR, MODE, STRIDE];

metrics! {
    WAKEUPS "wakeup.{place}.{condition}" ["us", "instructions"]
        "distribution of the wake-up latencies at a place under a condition"
        .histogram();
    WAKEUP_MIN "wakeup.{place}.{condition}.min" ["us", "instructions"]
        "wake-up latency at a place under a condition: the least"
        .signed().less_is_better();
    WAKEUP_MEAN "wakeup.{place}.{condition}.mean" ["us", "instructions"]
        "its mean"
        .signed().less_is_better().timed();
    WAKEUP_STDDEV "wakeup.{place}.{condition}.stddev" ["us", "instructions"]
        "its standard deviation"
        .less_is_better();
    WAKEUP_QUANTILE "wakeup.{place}.{condition}.{quantile}" ["us", "instructions"]
        "its percentile, where enough activations were seen"
        .signed().less_is_better().timed();
    WAKEUP_MAX "wakeup.{place}.{condition}.max" ["us", "instructions"]
        "the largest of `count` activations"
        .signed().less_is_better();
    WAKEUP_MISSED "wakeup.{place}.{condition}.missed" ["activations"]
        "periods that had no activation"
        .less_is_better();
    WAKEUP_UNSEEN "wakeup.{place}.{condition}.unseen" ["activations"]
        "activations in which the trace did not show the place";
    WAKEUP_P999_CORRECTED "wakeup.{place}.{condition}.p999_corrected" ["us", "instructions"]
        "p99.9 with the periods that were slept through, each as late as it would have been"
        .signed().less_is_better();
    WAKEUP_HOURLY "wakeup.{place}.{condition}.hourly" ["us", "instructions"]
        "what is exceeded once an hour, extrapolated (peaks over threshold)"
        .signed().less_is_better();
    LOAD_RATE "load.{condition}.{rate}" ["1/s"]
        "what the co-running load did in a second, all its workers together";
    STALL "stall.{condition}.{resource}" [""]
        "share of the time in which some task waited for it (PSI)"
        .share();
    BIAS_TRACE "bias.trace" ["us", "instructions"]
        "what watching the earlier places of a wake-up adds to it; not subtracted"
        .signed();
    STAGE_ALL "stage.{stage}.all" ["us", "instructions"]
        "time in a stage of a wake-up: median over all activations"
        .signed();
    STAGE_WORST "stage.{stage}.worst" ["us", "instructions"]
        "median over the worst activations"
        .signed().detail(&[DOMINATES]);
    WORST_LATENCY "worst.{rank}.latency" ["us", "instructions"]
        "the Nth latest activation"
        .signed().less_is_better().detail(&[CONDITION, SLEPT, PREEMPTED, STAGES, EVENTS, RAN_BEFORE]).timed();
    CAUSE_PERIOD "cause.{cause}.period" ["ms"]
        "period in which late activations come back";
    CAUSE_SHARE "cause.{cause}.share" [""]
        "share of the late activations that come back so"
        .share().detail(&[OTHERS]);
    EFFECT_NONE "effect.none" ["us", "instructions"]
        "randomised design: a percentile of the task with every factor off"
        .signed().detail(&[QUANTILE]);
    EFFECT "effect.{factor}" ["us", "instructions"]
        "what a factor adds to it"
        .signed().detail(&[QUANTILE]);
    INTERACTION "interaction.{factor}.{with}" ["us", "instructions"]
        "what two factors together add beyond what each adds alone"
        .signed().detail(&[QUANTILE]);
    EXPLAINED_INCREASE "explained.increase" ["us", "instructions"]
        "what the study's memory workers add to its load"
        .signed().detail(&[QUANTILE]);
    EXPLAINED "explained.{factor}" ["us", "instructions"]
        "of that, what a factor explains by how much of it the workers do"
        .signed().detail(&[QUANTILE, BY, AT_LEAST]);
    EXPLAINED_REST "explained.rest" ["us", "instructions"]
        "of that, what no factor explains"
        .signed().detail(&[QUANTILE]);
    SWEEP_P50 "sweep.{stressor}.{mode}.{stride}.{size}.p50" ["us", "instructions"]
        "median under workers that write blocks of BYTES every STEP bytes"
        .less_is_better().timed();
    SWEEP_TAIL "sweep.{stressor}.{mode}.{stride}.{size}.tail" ["us", "instructions"]
        "their p99.9, or p99 where series are short: median over the series"
        .less_is_better().detail(&[QUANTILE]);
    SWEEP_MAX "sweep.{stressor}.{mode}.{stride}.{size}.max" ["us", "instructions"]
        "the largest of `count` activations"
        .less_is_better();
    SWEEP_FAULTS "sweep.{stressor}.{mode}.{stride}.{size}.faults" ["1/s"]
        "page faults of one worker in a second"
        .less_is_better();
    INFLECTIONS "sweep.{stressor}.{mode}.{stride}.inflections" [""]
        "how many changes the curve has; none is said where that could not be told";
    INFLECTION_BYTES "inflection.{index}.bytes" ["bytes"]
        "block size at which a curve changes: between the interval's ends"
        .detail(CURVE);
    INFLECTION_EFFECT "inflection.{index}.effect" [""]
        "by how much of what it was before"
        .signed().detail(CURVE);
    INFLECTION_KIND "inflection.{index}.kind" [""]
        "does it change at once, or over several sizes"
        .word(&words::BREAK).detail(CURVE);
    INFLECTION_STATISTIC "inflection.{index}.statistic" [""]
        "what changes: of its latencies, or what the load does"
        .word(&words::STATISTIC).detail(CURVE);
    INFLECTION_BEFORE "inflection.{index}.before" ["1/s"]
        "where page faults change: those of one worker in a second before it"
        .detail(CURVE);
    INFLECTION_BEHIND "inflection.{index}.behind" ["1/s"]
        "and behind it"
        .detail(CURVE);
    INFLECTION_ACROSS "inflection.{index}.across.{statistic}" [""]
        "by how much a latency changes there, of what it was before; also what is too little to be told by itself"
        .signed().detail(CURVE);
}
