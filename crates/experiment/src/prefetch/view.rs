//! What prefetch gains: a ladder of orders, and a sentence for each conclusion.

use fathom_analysis::findings::{Axis, Finding};
use fathom_analysis::metrics::survey as metrics;
use fathom_report::finding_index::FindingIndex;
use fathom_report::notes;
use fathom_report::number::{self, Shown};
use fathom_report::page::{INTERVAL, Page, TextRole, left, measured, right};

/// Columns of the longest bar.
const BAR: f64 = 20.0;

/// The ladder of orders.
pub(crate) fn section(page: &mut Page, finding_index: &mut FindingIndex) {
    // The list of orders is from the kindest to the hardest.
    let found = finding_index.of(&[&metrics::PREFETCH_ORDER_TIME]);
    let steps: Vec<(String, &Finding)> =
        found.into_iter().map(|f| (f.key.word(Axis::Order).unwrap_or_default(), f)).collect();
    if steps.is_empty() {
        return;
    }
    let positive = |f: &Finding| f.finite().filter(|v| *v > 0.0);
    let random = steps.iter().find(|(order, _)| order == "random").and_then(|(_, f)| positive(f));
    let most = steps.iter().filter_map(|(_, f)| positive(f)).fold(0.0, f64::max);
    let block = if page.style().unicode { "\u{2588}" } else { "#" };
    let row = |(order, f): &(String, &Finding)| {
        let [value, interval] = number::cells(Some(f));
        let ratio = match (random, positive(f)) {
            (Some(random), Some(own)) => format!("{}x", number::shown_ratio(random / own)),
            _ => String::new(),
        };
        let bar = positive(f).map_or(0.0, |v| (BAR * (v / most)).round().max(1.0));
        vec![order.clone(), value, interval, ratio, block.repeat(bar as usize), f.count.to_string()]
    };
    page.heading("What prefetch gains: time of one load by order");
    let columns =
        [left("order"), measured("ns"), INTERVAL, right("random takes"), left("ns to scale"), right("n")];
    page.table(&columns, &steps.iter().map(row).collect::<Vec<_>>(), &[]);
    notes(page, &steps);
    // What follows from them: a sentence each.
    for (key, says) in [
        ((&metrics::PREFETCH_GAIN).into(), "Random over ascending"),
        (metrics::PREFETCH_MAX_STRIDE_LINES.at(["forward".into()]), "Reach forward, lines"),
        (metrics::PREFETCH_MAX_STRIDE_LINES.at(["backward".into()]), "Reach backward, lines"),
        ((&metrics::PREFETCH_REPEAT_GAIN).into(), "A new order each lap over one that comes again"),
    ] {
        if let Some(f) = finding_index.one(key) {
            let Shown { value, interval } = number::value(f);
            let text = format!("{says}: {}", format!("{value} {interval}").trim());
            page.text(TextRole::Plain, &format!("{text}; {}", f.notes.join("; ")), "", "  ");
        }
    }
}
