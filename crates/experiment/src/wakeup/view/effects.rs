//! Effects of the pure factors, and the part of the memory workers' effect that they explain.

use fathom_analysis::findings::{Axis, Finding};
use fathom_analysis::metrics::wakeup as metrics;

use super::summary::quantile;
use super::{Wakeups, formatted, word};
use fathom_report::chart::{Chart, Kind, Scale, Series};
use fathom_report::finding_index::FindingIndex;
use fathom_report::notes;
use fathom_report::number;
use fathom_report::page::{INTERVAL, Page, TextRole, left, measured, right};

/// Returns a factor's name in the field's terms.
fn factor_name(factor: &str) -> &str {
    match factor {
        "copy" => "bandwidth",
        "chase" => "cache footprint",
        "pages" => "page walks",
        "fault" => "page faults",
        "unmap" => "TLB shootdowns",
        other => other,
    }
}

/// Renders chart, tables and sentence.
pub(super) fn section(page: &mut Page, wakeups: &Wakeups, finding_index: &mut FindingIndex) {
    let none = finding_index.one(&metrics::EFFECT_BASELINE);
    let explained = finding_index.of(&[&metrics::EXPLAINED]);
    let rest = finding_index.one(&metrics::EXPLAINED_RESIDUAL);
    let factor = |f: &Finding| word(f, Axis::Factor);
    let mut rows: Vec<(String, &Finding)> = none.into_iter().map(|f| ("all off".to_owned(), f)).collect();
    let effects = finding_index.of(&[&metrics::EFFECT]).into_iter();
    rows.extend(effects.map(|f| (format!("{} ({})", factor(f), factor_name(&factor(f))), f)));
    let pairs = finding_index.of(&[&metrics::INTERACTION]).into_iter();
    rows.extend(pairs.map(|f| (format!("{} with {}", factor(f), word(f, Axis::With)), f)));
    if let Some((_, first)) = rows.first() {
        page.heading(&format!("Effect of each factor, {}", first.unit));
        let caption = "Effect of each factor, with 95 % intervals; filled if the interval excludes zero.";
        let chart = intervals("effects.effect", first.unit, caption)
            .with(Series::of(&metrics::EFFECT, "{factor}"))
            .with(Series::of(&metrics::INTERACTION, "{factor} with {with}"));
        page.picture(chart, Vec::new());
        table(page, &rows);
    }
    let mut shares: Vec<(String, &Finding)> =
        wakeups.increase.into_iter().map(|f| ("memory workers".to_owned(), f)).collect();
    shares.extend(explained.iter().map(|f| (factor_name(&factor(f)).to_owned(), *f)));
    shares.extend(rest.map(|f| ("unexplained".to_owned(), f)));
    if let Some((_, first)) = shares.first() {
        page.heading(&format!(
            "Effect of the memory workers of stress-mix-vm by explaining factor, {}",
            first.unit
        ));
        if let Some(text) = wakeups.increase.map(|f| sentence(f, explained, rest)) {
            page.text(TextRole::Plain, &text, "", "  ");
        }
        let caption = "Effect of the memory workers of stress-mix-vm, and the part that each factor explains, with 95 % intervals; \
                       filled if the interval excludes zero.";
        let chart = intervals("effects.explained", first.unit, caption)
            .with(Series::of(&metrics::EXPLAINED_INCREASE, "increase"))
            .with(Series::of(&metrics::EXPLAINED, "{factor}"))
            .with(Series::of(&metrics::EXPLAINED_RESIDUAL, "rest"));
        page.picture(chart, Vec::new());
        table(page, &shares);
    }
}

/// Returns a chart of points with intervals.
fn intervals(name: &str, unit: &'static str, caption: &str) -> Chart {
    let x = Scale::values(unit).zero();
    Chart::new(name, Kind::Intervals, x.clone(), x, caption)
}

fn table(page: &mut Page, labelled: &[(String, &Finding)]) {
    let rows: Vec<Vec<String>> = labelled
        .iter()
        .map(|(label, f)| {
            let [value, interval] = number::cells(Some(f));
            vec![label.clone(), value, interval, f.count.to_string()]
        })
        .collect();
    page.table(&[left(""), measured("adds"), INTERVAL, right("n")], &rows, &[]);
    notes(page, labelled);
}

/// Returns "Of the +14.8 us at p99.9: page faults 11.0 (9..13) us, ..., unexplained ...".
fn sentence(increase: &Finding, mut explained: Vec<&Finding>, rest: Option<&Finding>) -> String {
    let at = quantile(increase);
    let sign = if increase.finite().is_some_and(|v| v > 0.0) { "+" } else { "" };
    let size = |f: &Finding| f.finite().unwrap_or(0.0).abs();
    explained.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let factor = |f: &Finding| factor_name(&word(f, Axis::Factor)).to_owned();
    let mut parts: Vec<String> =
        explained.iter().map(|f| format!("{} {}", factor(f), formatted(f))).collect();
    match rest {
        Some(f) => parts.push(format!("unexplained {}", formatted(f))),
        None if parts.is_empty() => parts.push("nothing is explained".to_owned()),
        None => {}
    }
    format!("Of the {sign}{}{at}: {}.", formatted(increase), parts.join(", "))
}
