//! Headline of `fathom wakeup`: the maximum latency, its largest contribution, and the task that held the CPU.

use fathom_analysis::findings::{Axis, Finding, Report};
use fathom_analysis::metrics::wakeup as metrics;
use fathom_analysis::metrics::wakeup::condition;
use fathom_analysis::metrics::wakeup::{
    CHANGEPOINT_BYTES, EFFECT, EXPLAINED_INCREASE, RAN_BEFORE, SWEEP_MAX, WAKEUP_MAX, WORST_LATENCY,
};
use fathom_probe::machine::ClockTrust;
use fathom_report::Headline;

use super::view::stages::{longest, stage_phrase, waits_for_cpu};
use crate::headline::{self as shared, figure, largest, none};

/// The place at which the task itself runs again.
const TASK: &str = "user";

pub(crate) fn headline(report: &Report) -> Headline {
    let at_task = report.of(&WAKEUP_MAX).filter(|f| f.key.word(Axis::Place).as_deref() == Some(TASK));
    let Some(largest_latency) = largest(at_task).or_else(|| largest(report.of(&WAKEUP_MAX))) else {
        return swept(report);
    };
    let condition = largest_latency.key.word(Axis::Condition).unwrap_or_default();
    let mut answer = format!("maximum wake-up latency {} {}", figure(largest_latency), under(&condition));
    answer += &format!(", in {} activations", largest_latency.count);
    if let Some(unloaded) = without_load(report, largest_latency).filter(|_| condition != condition::UNLOADED)
    {
        answer += &format!("; {} without load", figure(unloaded));
    }
    if let Some(added) = report.find(&EXPLAINED_INCREASE).filter(|f| is_above_zero(f)) {
        answer += &format!("; memory workers add {}", figure(added));
    } else if let Some(effect) = largest(report.of(&EFFECT).filter(|f| is_above_zero(f))) {
        let factor = effect.key.word(Axis::Factor).unwrap_or_default();
        answer += &format!("; largest effect: {factor}, {}", figure(effect));
    }
    // The stage and the task of the maximum itself: those of other activations are unrelated.
    let traced = report.of(&WORST_LATENCY).find(|f| f.finite() == largest_latency.finite());
    let stage = traced.and_then(longest);
    if let Some((stage, time)) = stage {
        answer += &format!("; {time:.0} {} of it {}", largest_latency.unit, stage_phrase(stage));
    }
    let waited = stage.is_some_and(|(stage, _)| waits_for_cpu(stage));
    if let Some(other) = traced.filter(|_| waited).and_then(|f| f.detail.word(RAN_BEFORE)) {
        answer += &format!("; {other} held the CPU before it");
    }
    let action = stage.map_or_else(String::new, |(stage, _)| action(stage, report));
    with_caveat_of_maximum(shared::headline(report, &answer, &[largest_latency], &action))
}

/// Adds to the confidence what holds for every maximum.
fn with_caveat_of_maximum(headline: Headline) -> Headline {
    let more = "A maximum is the largest observed value, not a bound.";
    let confidence = format!("{} {more}", headline.confidence).trim_start().to_owned();
    Headline { confidence, ..headline }
}

/// Returns the headline of a sweep of a load's block sizes.
fn swept(report: &Report) -> Headline {
    let Some(largest_latency) = largest(report.of(&SWEEP_MAX)) else { return none(report) };
    let size = |f: &Finding| f.key.number(Axis::Size).unwrap_or(0);
    let stressor = largest_latency.key.word(Axis::Stressor).unwrap_or_default();
    let mut answer = format!(
        "maximum wake-up latency {}, under {stressor} workers with blocks of {}",
        figure(largest_latency),
        fathom_units::exact(size(largest_latency))
    );
    let changes: Vec<&Finding> = report.of(&CHANGEPOINT_BYTES).filter(|f| f.finite().is_some()).collect();
    match changes.as_slice() {
        [] => answer += "; no change by block size was found",
        [first, ..] => {
            let statistic = report.of(&metrics::CHANGEPOINT_STATISTIC).next().and_then(Finding::word);
            let what = statistic.unwrap_or("the latency");
            answer += &format!("; {what} changes at blocks of {}", figure(first));
        }
    }
    shared::headline(report, &answer, &changes, "")
}

/// Returns the maximum at the same place without load.
fn without_load<'a>(report: &'a Report, largest_latency: &Finding) -> Option<&'a Finding> {
    let place = largest_latency.key.word(Axis::Place);
    report.of(&WAKEUP_MAX).find(|f| {
        f.key.word(Axis::Place) == place
            && f.key.word(Axis::Condition).as_deref() == Some(condition::UNLOADED)
            && f.finite().is_some()
    })
}

/// Returns a condition as part of a sentence.
fn under(condition: &str) -> String {
    match condition {
        condition::UNLOADED => "without load".to_owned(),
        "timerlat" => "under the kernel's tracer timerlat".to_owned(),
        other => format!("under {other}"),
    }
}

/// Returns whether it is significantly above zero, by its interval.
fn is_above_zero(f: &Finding) -> bool {
    f.low.is_some_and(|low| low > 0.0)
}

/// Returns the advice for the longest stage of the maximum; none for a described machine, which has no interrupt handler,
/// scheduler or other task that could be moved.
fn action(stage: &str, report: &Report) -> String {
    match stage {
        _ if report.trust == ClockTrust::Modelled.token() => "",
        "before-irq" if report.trust == ClockTrust::Virtual.token() => {
            "compare with a run on the host: in a virtual machine, the host may take the CPU at any time"
        }
        "before-irq" => {
            "find code that disables interrupts or takes the CPU (firmware, a hypervisor, the real-time throttle)"
        }
        "irq-to-wakeup" => "move interrupt handlers to other CPUs (IRQ affinity)",
        stage if waits_for_cpu(stage) => {
            "give the task a dedicated CPU (isolcpus, affinity) or a higher priority: it waited for the CPU"
        }
        _ => "keep the task's memory small and locked: the time was lost after it got the CPU",
    }
    .to_owned()
}
