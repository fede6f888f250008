//! The answer in a few sentences: what memory workers add, where the worst wake-ups went, what comes back.

use fathom_analysis::findings::Finding;
use fathom_analysis::metrics::wakeup::condition;

use fathom_analysis::metrics::wakeup as metrics;

use super::stages::{Cause, condition, dominant, meaning};
use super::{MAX, Statistic, Wakeups, percent, said, spoken};
use fathom_report::number;
use fathom_report::page::{Page, TextRole};

/// Percentiles by which two conditions are compared, the furthest first.
const COMPARED: [&str; 6] = ["p99999", "p9999", "p999", "p99", "p90", "p50"];
/// The latest with nothing beside is as bad as the latest of all from this share of it on: maxima of the same tail
/// differ by more than that.
const AS_BAD: f64 = 0.5;
/// Share of the late ones from which on a cause has most of them.
const MAJORITY: f64 = 0.5;

/// Sentences, where there is anything to say.
pub(super) fn section(page: &mut Page, wakeups: &Wakeups) {
    let mut said: Vec<String> = increase(wakeups).into_iter().collect();
    said.extend(worst(wakeups));
    said.extend(not_memory(wakeups));
    said.extend(periodic(wakeups));
    if said.is_empty() {
        return;
    }
    page.heading("How late, and why");
    for sentence in said {
        page.text(TextRole::Plain, &sentence, "", "  ");
    }
}

/// What the study's memory workers add; without them, how late the task is at all.
fn increase(wakeups: &Wakeups) -> Option<String> {
    if let Some(f) = wakeups.increase {
        let at = quantile(f);
        let zero = f.low.zip(f.high).is_some_and(|(low, high)| low <= 0.0 && high >= 0.0);
        let nothing = if zero { ", which may be nothing" } else { "" };
        return Some(format!("The study's memory workers add {}{at}{nothing}.", said(f)));
    }
    if let Some((word, [before, after])) =
        furthest(wakeups, "user", [condition::STRESS_MIX, condition::STRESS_MIX_VM])
    {
        return Some(format!(
            "At {} the task is {} late under the study's load, and {} with its memory workers.",
            spoken(word),
            said(before),
            said(after)
        ));
    }
    let (word, [far, _]) = furthest(wakeups, "user", [condition::UNLOADED; 2])?;
    let max = wakeups.at("user", condition::UNLOADED, MAX)?;
    Some(format!(
        "With no load beside it, the task is {} late at {}; the latest of {} came {} late.",
        said(far),
        spoken(word),
        max.count,
        said(max)
    ))
}

/// The latest of all, and the stage in which most of the worst were held up.
fn worst(wakeups: &Wakeups) -> Option<String> {
    let latest = wakeups.worst.first()?;
    let under = condition(latest).map(|word| format!(", under {word}")).unwrap_or_default();
    let mut text = format!("The latest wake-up of all came {} late{under}", said(latest));
    if let Some((stage, count)) = dominant(wakeups) {
        text += &format!("; of the {} worst, {count} lost most time {}", wakeups.worst.len(), meaning(stage));
    }
    match latest.detail.word(metrics::RAN_BEFORE) {
        Some(other) => Some(format!("{text}. Until the latest had the CPU, {other} ran.")),
        None => Some(text + "."),
    }
}

/// Is the latest as late where no memory worker runs?
fn not_memory(wakeups: &Wakeups) -> Option<String> {
    let latest = wakeups.worst.first().filter(|_| wakeups.loaded())?;
    match condition(latest)? {
        condition::UNLOADED => Some("Not the load's memory: it came with no load beside it.".to_owned()),
        "cpu" | "io" | "disk" | condition::STRESS_MIX => {
            Some("Not the load's memory: it came with no memory workers beside it.".to_owned())
        }
        _ => {
            let alone = wakeups.at("user", condition::UNLOADED, MAX)?;
            let as_bad = alone.finite()? >= AS_BAD * latest.finite()?;
            as_bad.then(|| {
                format!(
                    "Not the load's memory: with no load beside it, the latest came {} late.",
                    said(alone)
                )
            })
        }
    }
}

/// Late ones that come back, with what has their period.
fn periodic(wakeups: &Wakeups) -> Option<String> {
    let all: Vec<String> = wakeups
        .causes
        .iter()
        .filter_map(|cause| {
            let (share, period) = (cause.share?, cause.period?);
            let every = number::value(period).value;
            let name = match (cause.name.as_str(), share.detail.words(metrics::OTHERS)) {
                ("unknown", _) => "of a cause that has no name here".to_owned(),
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
    let most = wakeups.causes.iter().filter_map(share).fold(0.0, f64::max) >= MAJORITY;
    let memory = if most && wakeups.loaded() { "; memory has no period" } else { "" };
    Some(format!("Of the late ones some come back periodically: {}{memory}.", all.join(", ")))
}

/// ` at p99.9`: the quantile that an effect is of; empty where it says none.
pub(super) fn quantile(f: &Finding) -> String {
    f.detail.word(metrics::QUANTILE).map(|word| format!(" at {}", spoken(word))).unwrap_or_default()
}

/// The furthest percentile that is told of both.
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
