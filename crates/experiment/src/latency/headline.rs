//! Headline of `fathom latency`: the time of a load at the smallest and at the largest working set.

use fathom_analysis::findings::{Axis, Finding, Report};
use fathom_analysis::metrics::latency::{LATENCY_ORDER_TIME, LATENCY_PAGE_TIME, LATENCY_TIME};
use fathom_report::Headline;

use crate::headline::{self as shared, figure, largest, none};

/// Share of the time that a recommendation must save.
const MIN_SAVING: f64 = 0.1;

pub(crate) fn headline(report: &Report) -> Headline {
    let mut times: Vec<&Finding> = report.of(&LATENCY_TIME).filter(|f| f.finite().is_some()).collect();
    times.sort_by_key(|f| size(f));
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return none(report) };
    let at = |f: &Finding| format!("{} at {}", figure(f), fathom_units::exact(size(f)));
    let answer = match (first.finite(), last.finite()) {
        _ if size(first) == size(last) => format!("a load takes {}", at(first)),
        (Some(near), Some(far)) if near > 0.0 => {
            format!("a load takes {} and {}: {:.1} times as long", at(first), at(last), far / near)
        }
        _ => format!("a load takes {} and {}", at(first), at(last)),
    };
    shared::headline(report, &answer, &[*first, *last], &action(report))
}

fn size(f: &Finding) -> u64 {
    f.key.number(Axis::Size).unwrap_or(0)
}

/// Returns the recommendation from the ladders at the largest size, if measured.
fn action(report: &Report) -> String {
    let max_size = |metric| report.of(metric).map(size).max();
    let of = |metric, axis: Axis, word: &str| {
        let size_of = max_size(metric)?;
        report.of(metric).find(|f| size(f) == size_of && f.key.word(axis).as_deref() == Some(word))
    };
    let order = of(&LATENCY_ORDER_TIME, Axis::Order, "random").zip(of(
        &LATENCY_ORDER_TIME,
        Axis::Order,
        "sequential",
    ));
    let pages = of(&LATENCY_PAGE_TIME, Axis::Page, "base").zip(of(&LATENCY_PAGE_TIME, Axis::Page, "huge"));
    let mut advice = Vec::new();
    for (slow, fast, what) in [
        order.map(|(slow, fast)| (slow, fast, "read in ascending order")),
        pages.map(|(slow, fast)| (slow, fast, "use huge pages")),
    ]
    .into_iter()
    .flatten()
    {
        let gain = fast.finite().zip(slow.finite()).map_or(0.0, |(fast, slow)| 1.0 - fast / slow);
        if is_below(fast, slow) && gain >= MIN_SAVING {
            advice.push(format!("{what}: {} instead of {}", figure(fast), figure(slow)));
        }
    }
    if advice.is_empty()
        && let Some(slowest) = largest(report.of(&LATENCY_TIME))
        && report.of(&LATENCY_TIME).count() > 1
    {
        let bytes = fathom_units::exact(size(slowest));
        return format!(
            "run `fathom survey` to see at which sizes latency rises, and why; the slowest here is {bytes}"
        );
    }
    advice.join("; ")
}

/// Returns whether the intervals do not overlap.
fn is_below(a: &Finding, b: &Finding) -> bool {
    let end = |f: &Finding, end: Option<f64>| end.or(f.finite());
    end(a, a.high).zip(end(b, b.low)).is_some_and(|(high, low)| high < low)
}
