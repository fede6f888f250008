//! Cold caches: latency with the task's working set warm, flushed or evicted; and the part of a load's effect that
//! depends on its share of the caches.

use fathom_analysis::findings::Finding;
use fathom_analysis::metrics::wakeup::condition;

use super::summary::furthest;
use super::{MAX, MEAN, MIN, P50, P999, Statistic, Wakeups, formatted};
use fathom_report::number;
use fathom_report::page::{INTERVAL, Page, TextRole, left, measured, right};

/// The states, the warm one first.
const STATES: [&str; 3] = ["warm", "flushed", "evicted"];

/// Renders the table if a cold state was measured, and the result of the confined load if caches can be partitioned.
pub(super) fn section(page: &mut Page, wakeups: &Wakeups) {
    states(page, wakeups);
    if let Some(text) = confined(wakeups) {
        page.heading("stress-mix-vm confined to the smallest share of the caches (resctrl)");
        page.text(TextRole::Plain, &text, "", "  ");
    }
}

/// Compares the latency under the load with all of the caches, with a share of them, and without load.
fn confined(wakeups: &Wakeups) -> Option<String> {
    const CONDITIONS: [&str; 3] =
        [condition::STRESS_MIX_VM, condition::STRESS_MIX_VM_CONFINED, condition::UNLOADED];
    let (word, [all, some]) = furthest(wakeups, "user", [CONDITIONS[0], CONDITIONS[1]])?;
    let mut text = format!(
        "Latency at {}: {} under the load with all of the caches, {} with that share of them. The difference is due to \
         the caches.",
        super::percentile_text(word),
        formatted(all),
        formatted(some)
    );
    if let Some(none) = wakeups.at("user", CONDITIONS[2], Statistic::Quantile(word)) {
        text += &format!(" Without load: {}.", formatted(none));
    }
    Some(text)
}

fn states(page: &mut Page, wakeups: &Wakeups) {
    let any = |state: &str| ["user", "work"].iter().any(|p| wakeups.at(p, state, P50).is_some());
    if !any("warm") || !STATES[1..].iter().any(|state| any(state)) {
        return;
    }
    page.heading(&format!(
        "Warm and cold caches: latency in the task and after its work, {}",
        wakeups.unit()
    ));
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

/// Returns a sentence on the cost of a cold state until the work is done.
fn cost(wakeups: &Wakeups, state: &str) -> Option<String> {
    let [warm, cold]: [&Finding; 2] = [wakeups.at("work", "warm", P50)?, wakeups.at("work", state, P50)?];
    let ratio = cold.finite()? / warm.finite().filter(|v| *v > 0.0)?;
    let (word, [far_warm, far_cold]) = furthest(wakeups, "work", ["warm", state])?;
    let far = match word {
        "p50" => String::new(),
        word => format!(
            "; at {}: {} instead of {}",
            super::percentile_text(word),
            formatted(far_cold),
            formatted(far_warm)
        ),
    };
    Some(format!(
        "{state}: the work is done after {} (median), {} times the {} with warm caches{far}.",
        formatted(cold),
        number::shown_ratio(ratio),
        formatted(warm)
    ))
}
