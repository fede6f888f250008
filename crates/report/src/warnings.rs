//! Warnings and refusals: one line at the head of a report, and the full text with remedies at its end.

use fathom_analysis::findings::{Refused, Report, Warning};

use crate::page::{Page, TextRole};

/// Largest number of names per part of the line at the head.
const MAX_NAMES: usize = 4;

/// Returns the number of warnings and of refusals, each with its names:
/// `2 warnings: no-huge-pages, throttled; 1 refusal: counters`. `None` if there are none.
pub(crate) fn folded(report: &Report) -> Option<String> {
    let warnings = report.warnings.iter().map(|w| w.kind.token());
    let refusals = report.refusals.iter().map(|r| r.what.as_str());
    let parts = [listed("warning", warnings), listed("refusal", refusals)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns the number of items and their distinct names, [`MAX_NAMES`] at most. `None` if there are none.
fn listed<'a>(what: &str, items: impl Iterator<Item = &'a str>) -> Option<String> {
    let (mut count, mut names) = (0, Vec::new());
    for name in items {
        count += 1;
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    let more = match names.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.truncate(MAX_NAMES);
    let plural = if count == 1 { "" } else { "s" };
    (count > 0).then(|| format!("{count} {what}{plural}: {}{more}", names.join(", ")))
}

/// Prints a statement and, on a separate line, its remedy.
fn item(page: &mut Page, mark: &str, text: &str, remedy: &str) {
    page.text(TextRole::Warn, &format!("{mark}: {text}"), "- ", "  ");
    if !remedy.is_empty() {
        page.text(TextRole::Plain, &format!("remedy: {remedy}"), "  ", "    ");
    }
}

/// Prints warnings with their remedies.
pub(crate) fn warnings(page: &mut Page, warnings: &[Warning]) {
    if warnings.is_empty() {
        return;
    }
    page.heading("Warnings");
    for w in warnings {
        item(page, w.kind.token(), &w.text, &w.remedy);
    }
}

/// Prints refusals with reasons and remedies.
pub(crate) fn refusals(page: &mut Page, refusals: &[Refused]) {
    if refusals.is_empty() {
        return;
    }
    page.heading("Refused");
    for r in refusals {
        item(page, &r.what, &r.reason, &r.remedy);
    }
}
