//! Warm against cold: the task finds its working set as it left it, flushed, or evicted; and what of a load's effect
//! goes with its share of the caches.

use fathom_analysis::findings::Finding;
use fathom_analysis::metrics::wakeup::condition;

use super::summary::furthest;
use super::{MAX, MEAN, MIN, P50, P999, Statistic, Wakeups, said};
use fathom_report::number;
use fathom_report::page::{INTERVAL, Page, TextRole, left, measured, right};

/// The states, the warm one first.
const STATES: [&str; 3] = ["warm", "flushed", "evicted"];

/// The table, where a cold state was measured, and the confined load, where caches can be partitioned.
pub(super) fn section(page: &mut Page, wakeups: &Wakeups) {
    states(page, wakeups);
    if let Some(text) = confined(wakeups) {
        page.heading("The study's load kept to the least share of the caches (resctrl)");
        page.text(TextRole::Plain, &text, "", "  ");
    }
}

/// How late the task is beside the load with all of the caches, with a share of them, and without it.
fn confined(wakeups: &Wakeups) -> Option<String> {
    const CONDITIONS: [&str; 3] =
        [condition::STRESS_MIX_VM, condition::STRESS_MIX_VM_CONFINED, condition::UNLOADED];
    let (word, [all, some]) = furthest(wakeups, "user", [CONDITIONS[0], CONDITIONS[1]])?;
    let mut text = format!(
        "At {} the task is {} late beside it with all of the caches, and {} with that share of them: what lies \
         between comes with the caches.",
        super::spoken(word),
        said(all),
        said(some)
    );
    if let Some(none) = wakeups.at("user", CONDITIONS[2], Statistic::Quantile(word)) {
        text += &format!(" With no load it is {}.", said(none));
    }
    Some(text)
}

fn states(page: &mut Page, wakeups: &Wakeups) {
    let any = |state: &str| ["user", "work"].iter().any(|p| wakeups.at(p, state, P50).is_some());
    if !any("warm") || !STATES[1..].iter().any(|state| any(state)) {
        return;
    }
    page.heading(&format!("Warm against cold: the task awake, and its work done, {}", wakeups.unit()));
    let mut rows = Vec::new();
    for place in ["user", "work"] {
        for (nth, state) in STATES.iter().enumerate() {
            let at = |what: Statistic| wakeups.at(place, state, what);
            if at(P50).is_none() {
                continue;
            }
            let plain = |what: Statistic| at(what).map(|f| number::value(f).value).unwrap_or_default();
            let place = if nth == 0 { place } else { "" };
            let mut row = vec![place.to_owned(), (*state).to_owned(), plain(MIN), plain(MEAN)];
            row.extend(number::cells(at(P50)));
            row.extend(number::cells(at(P999)));
            row.push(plain(MAX));
            rows.push(row);
        }
    }
    let columns = [
        left("").key(),
        left("").key(),
        right("min"),
        right("mean"),
        measured("p50"),
        INTERVAL,
        measured("p99.9"),
        INTERVAL,
        right("max"),
    ];
    page.table(&columns, &rows, &[]);
    for state in &STATES[1..] {
        if let Some(text) = cost(wakeups, state) {
            page.text(TextRole::Plain, &text, "", "  ");
        }
    }
}

/// What a cold state costs until the work is done.
fn cost(wakeups: &Wakeups, state: &str) -> Option<String> {
    let [warm, cold]: [&Finding; 2] = [wakeups.at("work", "warm", P50)?, wakeups.at("work", state, P50)?];
    let ratio = cold.finite()? / warm.finite().filter(|v| *v > 0.0)?;
    let (word, [far_warm, far_cold]) = furthest(wakeups, "work", ["warm", state])?;
    let far = match word {
        "p50" => String::new(),
        word => format!("; at {}, {} after {}", super::spoken(word), said(far_cold), said(far_warm)),
    };
    Some(format!(
        "{state}: the work is done after {} in the median, {} times the {} of a warm one{far}.",
        said(cold),
        number::shown_ratio(ratio),
        said(warm)
    ))
}
