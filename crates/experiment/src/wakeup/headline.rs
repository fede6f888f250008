//! The answer of `fathom wakeup`: the latest activation, what adds to it, and what had the CPU.

use fathom_analysis::findings::{Axis, Finding, Report};
use fathom_analysis::metrics::wakeup as metrics;
use fathom_analysis::metrics::wakeup::condition;
use fathom_analysis::metrics::wakeup::{
    CHANGEPOINT_BYTES, EFFECT, EXPLAINED_INCREASE, RAN_BEFORE, STAGE_WORST, SWEEP_MAX, WAKEUP_MAX,
    WORST_LATENCY,
};
use fathom_report::Headline;

use crate::headline::{confidence, figure, largest, none, sentence};

/// The place at which the task itself runs again.
const TASK: &str = "user";

pub(crate) fn headline(report: &Report) -> Headline {
    let at_task = report.of(&WAKEUP_MAX).filter(|f| f.key.word(Axis::Place).as_deref() == Some(TASK));
    let Some(latest) = largest(at_task).or_else(|| largest(report.of(&WAKEUP_MAX))) else {
        return swept(report);
    };
    let condition = latest.key.word(Axis::Condition).unwrap_or_default();
    let mut answer = format!("maximum wake-up latency {} {}", figure(latest), under(&condition));
    answer += &format!(", in {} activations", latest.count);
    if let Some(quiet) = alone(report, latest).filter(|_| condition != condition::UNLOADED) {
        answer += &format!("; {} without load", figure(quiet));
    }
    if let Some(added) = report.find(&EXPLAINED_INCREASE).filter(|f| surely_more(f)) {
        answer += &format!("; memory workers add {}", figure(added));
    } else if let Some(effect) = largest(report.of(&EFFECT).filter(|f| surely_more(f))) {
        let factor = effect.key.word(Axis::Factor).unwrap_or_default();
        answer += &format!("; most is added by {factor}: {}", figure(effect));
    }
    // Of this activation alone: what ran before another one says nothing of it.
    let worst = report.of(&WORST_LATENCY).find(|f| f.finite() == latest.finite());
    if let Some(other) = worst.and_then(|f| f.detail.word(RAN_BEFORE)) {
        answer += &format!("; {other} held the CPU before it");
    }
    Headline {
        answer: sentence(&answer),
        // A maximum has no interval.
        confidence: confidence_of_maximum(report),
        action: sentence(&action(report)),
    }
}

/// How sure a maximum is.
fn confidence_of_maximum(report: &Report) -> String {
    let said = confidence(report, &[]);
    let more = "A maximum is the largest that was seen, not a bound.";
    if said.is_empty() { more.to_owned() } else { format!("{said} {more}") }
}

/// What a sweep of a load's block sizes finds.
fn swept(report: &Report) -> Headline {
    let Some(latest) = largest(report.of(&SWEEP_MAX)) else { return none(report) };
    let size = |f: &Finding| f.key.number(Axis::Size).unwrap_or(0);
    let stressor = latest.key.word(Axis::Stressor).unwrap_or_default();
    let mut answer = format!(
        "maximum wake-up latency {}, under {stressor} workers with blocks of {}",
        figure(latest),
        fathom_units::exact(size(latest))
    );
    let changes: Vec<&Finding> = report.of(&CHANGEPOINT_BYTES).filter(|f| f.finite().is_some()).collect();
    match changes.as_slice() {
        [] => answer += "; no block size was found from which on it is later",
        [first, ..] => {
            let statistic = report.of(&metrics::CHANGEPOINT_STATISTIC).next().and_then(Finding::word);
            let what = statistic.unwrap_or("the latency");
            answer += &format!("; from blocks of {} on {what} changes", figure(first));
        }
    }
    Headline {
        answer: sentence(&answer),
        confidence: confidence(report, &changes),
        action: sentence(&action(report)),
    }
}

/// The latest at the same place with nothing beside.
fn alone<'a>(report: &'a Report, latest: &Finding) -> Option<&'a Finding> {
    let place = latest.key.word(Axis::Place);
    report.of(&WAKEUP_MAX).find(|f| {
        f.key.word(Axis::Place) == place
            && f.key.word(Axis::Condition).as_deref() == Some(condition::UNLOADED)
            && f.finite().is_some()
    })
}

/// A condition in a sentence.
fn under(condition: &str) -> String {
    match condition {
        condition::UNLOADED => "without load".to_owned(),
        "timerlat" => "under the kernel's tracer timerlat".to_owned(),
        other => format!("under {other}"),
    }
}

/// Is it more than nothing, by its interval?
fn surely_more(f: &Finding) -> bool {
    f.low.is_some_and(|low| low > 0.0)
}

/// What helps against the stage in which most of the worst activations lost their time.
fn action(report: &Report) -> String {
    let dominates = |f: &&Finding| f.detail.number(metrics::DOMINATES).unwrap_or(0.0);
    let stage = report
        .of(&STAGE_WORST)
        .filter(|f| dominates(f) > 0.0)
        .max_by(|a, b| dominates(a).total_cmp(&dominates(b)));
    match stage.and_then(|f| f.key.word(Axis::Stage)).as_deref() {
        Some("before-irq") => {
            "look for what keeps interrupts off, or takes the CPU away (firmware, a hypervisor, the real-time throttle)".to_owned()
        }
        Some("irq-to-wakeup") => "look at the interrupt handlers of that CPU: move their affinity away".to_owned(),
        Some("wakeup-to-switch" | "wakeup-to-user") => {
            "give the task a CPU of its own (isolcpus, affinity) or a higher priority: it waited for the CPU".to_owned()
        }
        Some(_) => "keep the task's memory small and locked: it lost the time after it had the CPU".to_owned(),
        None => String::new(),
    }
}
