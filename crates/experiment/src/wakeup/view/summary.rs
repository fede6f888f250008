//! Summary sentences: effect of memory workers, stages of the worst wake-ups, periodic causes.

use fathom_analysis::findings::Finding;
use fathom_analysis::metrics::wakeup::condition;

use fathom_analysis::metrics::wakeup as metrics;

use super::stages::{Cause, condition, load_text, longest, stage_phrase, waits_for_cpu};
use super::{MAX, Statistic, Wakeups, formatted, percent, percentile_text};
use fathom_report::number;
use fathom_report::page::{Page, TextRole};

/// Percentiles for comparing two conditions, the farthest first.
const COMPARED: [&str; 6] = ["p99999", "p9999", "p999", "p99", "p90", "p50"];
/// Ratio of the maximum without load to the overall maximum, from which the load is not the cause. Maxima of the same
/// tail differ by more than that.
const SAME_MAXIMUM_RATIO: f64 = 0.5;
/// Share of the late activations from which on a cause dominates.
const MAJORITY: f64 = 0.5;

/// Renders the sentences, if any.
pub(super) fn section(page: &mut Page, wakeups: &Wakeups) {
    let mut sentences: Vec<String> = increase(wakeups).into_iter().collect();
    sentences.extend(worst(wakeups));
    sentences.extend(not_memory(wakeups));
    sentences.extend(periodic(wakeups));
    if sentences.is_empty() {
        return;
    }
    page.heading("Summary of latency and causes");
    for sentence in sentences {
        page.text(TextRole::Plain, &sentence, "", "  ");
    }
}

/// Returns the effect of the study's memory workers; without them, the latency of the task.
fn increase(wakeups: &Wakeups) -> Option<String> {
    if let Some(f) = wakeups.increase {
        let at = quantile(f);
        let zero = f.low.zip(f.high).is_some_and(|(low, high)| low <= 0.0 && high >= 0.0);
        let nothing = if zero { ", which is not significant" } else { "" };
        return Some(format!("The memory workers of stress-mix-vm add {}{at}{nothing}.", formatted(f)));
    }
    if let Some((word, [before, after])) =
        furthest(wakeups, "user", [condition::STRESS_MIX, condition::STRESS_MIX_VM])
    {
        return Some(format!(
            "Latency at {}: {} under stress-mix, {} with memory workers (stress-mix-vm).",
            percentile_text(word),
            formatted(before),
            formatted(after)
        ));
    }
    let (word, [far, _]) = furthest(wakeups, "user", [condition::UNLOADED; 2])?;
    let max = wakeups.at("user", condition::UNLOADED, MAX)?;
    Some(format!(
        "Without load: {} at {}, maximum {} of {} activations.",
        formatted(far),
        percentile_text(word),
        formatted(max),
        max.count
    ))
}

/// Returns the maximum, its longest stage, and the number of other worst wake-ups with the same longest stage.
fn worst(wakeups: &Wakeups) -> Option<String> {
    let latest = wakeups.worst.first()?;
    let under = condition(latest).map(|word| format!(" ({})", load_text(word))).unwrap_or_default();
    let mut text = format!("Maximum: {}{under}", formatted(latest));
    let Some((stage, time)) = longest(latest) else { return Some(text + ".") };
    text += &format!(", of which {time:.1} {} {}", latest.unit, stage_phrase(stage));
    if let Some(other) = latest.detail.word(metrics::RAN_BEFORE).filter(|_| waits_for_cpu(stage)) {
        text += &format!("; {other} ran before");
    }
    let others = wakeups.worst.iter().skip(1);
    let same = others.clone().filter(|f| longest(f).is_some_and(|(other, _)| other == stage)).count();
    if others.len() > 0 {
        text +=
            &format!(". {same} of the {} next worst lost most of their time in the same stage", others.len());
    }
    Some(text + ".")
}

/// Returns a sentence if the maximum also occurs without memory workers.
fn not_memory(wakeups: &Wakeups) -> Option<String> {
    let latest = wakeups.worst.first().filter(|_| wakeups.loaded())?;
    match condition(latest)? {
        condition::UNLOADED => {
            Some("The maximum is not caused by memory load: it occurred without load.".to_owned())
        }
        "cpu" | "io" | "disk" | condition::STRESS_MIX => {
            Some("The maximum is not caused by memory load: it occurred without memory workers.".to_owned())
        }
        _ => {
            let alone = wakeups.at("user", condition::UNLOADED, MAX)?;
            let same_maximum = alone.finite()? >= SAME_MAXIMUM_RATIO * latest.finite()?;
            same_maximum.then(|| {
                format!(
                    "The maximum is not caused by memory load: without load the maximum is {}.",
                    formatted(alone)
                )
            })
        }
    }
}

/// Returns a sentence on periodic causes of late activations.
fn periodic(wakeups: &Wakeups) -> Option<String> {
    let all: Vec<String> = wakeups
        .causes
        .iter()
        .filter_map(|cause| {
            let (share, period) = (cause.share?, cause.period?);
            let every = number::value(period).value;
            let name = match (cause.name.as_str(), share.detail.words(metrics::OTHERS)) {
                ("unknown", _) => "unknown cause".to_owned(),
                (name, []) => name.to_owned(),
                (name, more) => format!("{name} or {}", more.join(" or ")),
            };
            Some(format!("{} % every {every} ms ({name})", percent(share).value))
        })
        .collect();
    if all.is_empty() {
        return None;
    }
    let share = |c: &Cause| c.share?.finite().filter(|_| c.name != "unknown");
    let dominant = wakeups.causes.iter().filter_map(share).fold(0.0, f64::max) >= MAJORITY;
    let memory = if dominant && wakeups.loaded() { ". Memory load is not periodic" } else { "" };
    Some(format!("Periodic late activations: {}{memory}.", all.join(", ")))
}

/// Returns ` at p99.9`: the quantile of an effect; empty if it has none.
pub(super) fn quantile(f: &Finding) -> String {
    f.detail.word(metrics::QUANTILE).map(|word| format!(" at {}", percentile_text(word))).unwrap_or_default()
}

/// Returns the farthest percentile that both conditions have.
pub(super) fn furthest<'a>(
    wakeups: &Wakeups<'a>,
    place: &str,
    conditions: [&str; 2],
) -> Option<(&'static str, [&'a Finding; 2])> {
    COMPARED.into_iter().find_map(|p| {
        let [one, other] = conditions.map(|condition| wakeups.at(place, condition, Statistic::Quantile(p)));
        Some((p, [one?, other?]))
    })
}
