//! Table of load times by access order, and one sentence per conclusion.

use fathom_analysis::findings::{Axis, Finding};
use fathom_analysis::metrics::survey as metrics;
use fathom_report::finding_index::FindingIndex;
use fathom_report::notes;
use fathom_report::number::{self, Shown};
use fathom_report::page::{INTERVAL, Page, TextRole, left, measured, right};

/// Columns of the longest bar.
const BAR: f64 = 20.0;

/// Renders the section.
pub(crate) fn section(page: &mut Page, finding_index: &mut FindingIndex) {
    // The orders are listed from the easiest to prefetch to the hardest.
    let found = finding_index.of(&[&metrics::PREFETCH_ORDER_TIME]);
    let steps: Vec<(String, &Finding)> =
        found.into_iter().map(|f| (f.key.word(Axis::Order).unwrap_or_default(), f)).collect();
    if steps.is_empty() {
        return;
    }
    let positive = |f: &Finding| f.finite().filter(|v| *v > 0.0);
    let random = steps.iter().find(|(order, _)| order == "random").and_then(|(_, f)| positive(f));
    let longest = steps.iter().filter_map(|(_, f)| positive(f)).fold(0.0, f64::max);
    let block = if page.style().unicode { "\u{2588}" } else { "#" };
    let row = |(order, f): &(String, &Finding)| {
        let [value, interval] = number::cells(Some(f));
        let ratio = match (random, positive(f)) {
            (Some(random), Some(time)) => format!("{}x", number::shown_ratio(random / time)),
            _ => String::new(),
        };
        let bar = positive(f).map_or(0.0, |v| (BAR * (v / longest)).round().max(1.0));
        vec![order.clone(), value, interval, ratio, block.repeat(bar as usize), f.count.to_string()]
    };
    page.heading("Prefetch: load time by access order");
    let columns = [left("order"), measured("ns"), INTERVAL, right("vs random"), left(""), right("n")];
    page.table(&columns, &steps.iter().map(row).collect::<Vec<_>>(), &[]);
    notes(page, &steps);
    // Conclusions, one sentence each.
    for (key, label) in [
        ((&metrics::PREFETCH_GAIN).into(), "Random over ascending"),
        (
            metrics::PREFETCH_MAX_STRIDE_LINES.at(["forward".into()]),
            "Largest stride gained from, forward, lines",
        ),
        (
            metrics::PREFETCH_MAX_STRIDE_LINES.at(["backward".into()]),
            "Largest stride gained from, backward, lines",
        ),
        ((&metrics::PREFETCH_REPEAT_GAIN).into(), "A new order each lap over the same order each lap"),
    ] {
        if let Some(f) = finding_index.one(key) {
            let Shown { value, interval } = number::value(f);
            let text = format!("{label}: {}", format!("{value} {interval}").trim());
            page.text(TextRole::Plain, &format!("{text}; {}", f.notes.join("; ")), "", "  ");
        }
    }
}
