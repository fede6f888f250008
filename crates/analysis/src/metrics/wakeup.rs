//! Metrics of `fathom wakeup`: wake-up latency of a periodic task, by load, and its causes.

use crate::findings::{Field, metrics, tokens};

/// Conditions that readings and views treat by name: tokens of [`tokens::CONDITION`].
pub mod condition {
    /// No co-running load.
    pub const UNLOADED: &str = "unloaded";
    /// The load of study S3: CPU, I/O and disk workers.
    pub const STRESS_MIX: &str = "stress-mix";
    /// The same with memory workers.
    pub const STRESS_MIX_VM: &str = "stress-mix-vm";
    /// The same, its workers confined to the smallest share of the caches.
    pub const STRESS_MIX_VM_CONFINED: &str = "stress-mix-vm-confined";
}

/// The condition of an activation.
pub const CONDITION: Field = Field::new("condition", "condition of the activation").of(&tokens::CONDITION);
/// Periods without an activation before one.
pub const SLEPT: Field = Field::new("slept", "periods without an activation before this one");
/// Involuntary context switches of the task before an activation.
pub const PREEMPTED: Field =
    Field::new("preempted", "involuntary context switches of the task before this activation");
/// The stages of an activation.
pub const STAGES: Field =
    Field::new("stages", "stages of the activation in order, each with its time in the unit of the value")
        .of(&tokens::STAGE);
/// Traced events around an activation.
pub const EVENTS: Field =
    Field::new("events", "traced events, each with its time in us after the expiry of the timer");
/// Task or interrupt that ran before the task.
pub const RAN_BEFORE: Field =
    Field::new("ran_before", "task or interrupt that ran until the CPU was switched to the task");
/// Number of the worst activations in which a stage takes most of the time.
pub const DOMINATES: Field =
    Field::new("dominates", "number of the worst activations in which this stage takes most of the time");
/// Other causes with the same period.
pub const OTHERS: Field = Field::new("others", "other causes with the same period").of(&tokens::CAUSE);
/// The quantile to which a value applies.
pub const QUANTILE: Field =
    Field::new("quantile", "quantile to which the value applies").of(&tokens::PERCENTILE);
/// The rate by which the dose of a factor is measured.
pub const BY: Field =
    Field::new("by", "rate by which the workers' dose of the factor is measured").of(&tokens::RATE);
/// Whether the value is a lower bound.
pub const AT_LEAST: Field = Field::new(
    "at_least",
    "true if the value is a lower bound: the workers do more of the factor than the load that was measured alone",
);
/// Activity of the workers of a curve.
pub const STRESSOR: Field = Field::new("stressor", "curve: activity of its workers").of(&tokens::STRESS);
/// Treatment of a worker's block on a curve.
pub const MODE: Field =
    Field::new("mode", "curve: treatment of a worker's block after each pass").of(&tokens::MODE);
/// The stride of the curve's workers.
pub const STRIDE: Field = Field::new("stride", "curve: stride of its workers, bytes");

/// The curve of the sweep that changes.
const CURVE: &[Field] = &[STRESSOR, MODE, STRIDE];

metrics! {
    WAKEUPS "wakeup.{place}.{condition}" ["us", "instructions"]
        "distribution of the wake-up latency"
        .histogram();
    WAKEUP_MIN "wakeup.{place}.{condition}.min" ["us", "instructions"]
        "minimum wake-up latency"
        .signed().less_is_better();
    WAKEUP_MEAN "wakeup.{place}.{condition}.mean" ["us", "instructions"]
        "mean wake-up latency"
        .signed().less_is_better().timed();
    WAKEUP_STDDEV "wakeup.{place}.{condition}.stddev" ["us", "instructions"]
        "standard deviation of the wake-up latency"
        .less_is_better();
    WAKEUP_QUANTILE "wakeup.{place}.{condition}.{quantile}" ["us", "instructions"]
        "percentile of the wake-up latency, if there are enough activations"
        .signed().less_is_better().timed();
    WAKEUP_MAX "wakeup.{place}.{condition}.max" ["us", "instructions"]
        "maximum wake-up latency of `count` activations"
        .signed().less_is_better();
    WAKEUP_MISSED "wakeup.{place}.{condition}.missed" ["activations"]
        "periods without an activation"
        .less_is_better();
    WAKEUP_UNTRACED "wakeup.{place}.{condition}.untraced" ["activations"]
        "activations whose trace lacks this place";
    WAKEUP_P999_CORRECTED "wakeup.{place}.{condition}.p999_corrected" ["us", "instructions"]
        "p99.9 with the missed periods included, each as late as it would have been"
        .signed().less_is_better();
    WAKEUP_RETURN_LEVEL_1H "wakeup.{place}.{condition}.return_level_1h" ["us", "instructions"]
        "latency that is exceeded once per hour, extrapolated (peaks over threshold)"
        .signed().less_is_better();
    LOAD_RATE "load.{condition}.{rate}" ["1/s"]
        "work of the co-running load per second, all workers together";
    STALL "stall.{condition}.{resource}.share" [""]
        "share of the time in which some task waited for the resource (PSI)"
        .share();
    BIAS_TRACE "bias.trace" ["us", "instructions"]
        "latency that tracing the earlier places adds to a wake-up; not subtracted"
        .signed();
    STAGE_ALL "stage.{stage}.all" ["us", "instructions"]
        "median time in a stage of a wake-up, all activations"
        .signed();
    STAGE_WORST "stage.{stage}.worst" ["us", "instructions"]
        "median time in a stage of a wake-up, worst activations"
        .signed().detail(&[DOMINATES]);
    WORST_LATENCY "worst.{rank}.latency" ["us", "instructions"]
        "wake-up latency of one of the worst activations"
        .signed().less_is_better().detail(&[CONDITION, SLEPT, PREEMPTED, STAGES, EVENTS, RAN_BEFORE]).timed();
    CAUSE_PERIOD "cause.{cause}.period" ["ms"]
        "period with which late activations recur";
    CAUSE_SHARE "cause.{cause}.share" [""]
        "share of the late activations that recur with this period"
        .share().detail(&[OTHERS]);
    EFFECT_BASELINE "effect.baseline" ["us", "instructions"]
        "randomised design: a percentile of the wake-up latency with every factor off"
        .signed().detail(&[QUANTILE]);
    EFFECT "effect.{factor}" ["us", "instructions"]
        "randomised design: latency that a factor adds to that percentile"
        .signed().detail(&[QUANTILE]);
    INTERACTION "interaction.{factor}.{with}" ["us", "instructions"]
        "randomised design: latency that two factors add together beyond the sum of their effects"
        .signed().detail(&[QUANTILE]);
    EXPLAINED_INCREASE "explained.increase" ["us", "instructions"]
        "increase of that percentile from stress-mix to stress-mix-vm"
        .signed().detail(&[QUANTILE]);
    EXPLAINED "explained.{factor}" ["us", "instructions"]
        "part of the increase that a factor explains, by the workers' dose of it"
        .signed().detail(&[QUANTILE, BY, AT_LEAST]);
    EXPLAINED_RESIDUAL "explained.residual" ["us", "instructions"]
        "part of the increase that no factor explains"
        .signed().detail(&[QUANTILE]);
    SWEEP_P50 "sweep.{stressor}.{mode}.{stride}.{size}.p50" ["us", "instructions"]
        "median wake-up latency while two workers write blocks of this size at this stride"
        .less_is_better().timed();
    SWEEP_TAIL "sweep.{stressor}.{mode}.{stride}.{size}.tail" ["us", "instructions"]
        "p99.9 of the wake-up latency in the sweep (p99 if series are short), median of the series"
        .less_is_better().detail(&[QUANTILE]);
    SWEEP_MAX "sweep.{stressor}.{mode}.{stride}.{size}.max" ["us", "instructions"]
        "maximum wake-up latency of `count` activations in the sweep"
        .less_is_better();
    SWEEP_FAULTS "sweep.{stressor}.{mode}.{stride}.{size}.faults" ["1/s"]
        "page faults of one worker per second"
        .less_is_better();
    CHANGEPOINTS "sweep.{stressor}.{mode}.{stride}.changepoints" [""]
        "number of change-points of a curve; absent if it could not be determined";
    CHANGEPOINT_BYTES "changepoint.{index}.bytes" ["bytes"]
        "block size at which a curve changes: within the interval"
        .detail(CURVE);
    CHANGEPOINT_EFFECT "changepoint.{index}.effect" [""]
        "relative change of the statistic at the change-point"
        .signed().detail(CURVE);
    CHANGEPOINT_KIND "changepoint.{index}.kind" [""]
        "whether the change is a step or a ramp over several sizes"
        .token(&tokens::CHANGE_KIND).detail(CURVE);
    CHANGEPOINT_STATISTIC "changepoint.{index}.statistic" [""]
        "statistic that changes: of the latencies, or of the load"
        .token(&tokens::STATISTIC).detail(CURVE);
    CHANGEPOINT_BEFORE "changepoint.{index}.before" ["1/s"]
        "page faults of one worker per second below the change-point"
        .detail(CURVE);
    CHANGEPOINT_AFTER "changepoint.{index}.after" ["1/s"]
        "page faults of one worker per second above the change-point"
        .detail(CURVE);
    CHANGEPOINT_ACROSS "changepoint.{index}.across.{statistic}" [""]
        "relative change of a latency statistic there, significant or not"
        .signed().detail(CURVE);
}
