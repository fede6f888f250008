//! Warnings and refusals: one line at the head of a report, and the whole text with remedies at its end.

use fathom_analysis::findings::{Refused, Report, Warning};

use crate::page::{Page, TextRole};

/// Most tokens that the line at the head names.
const NAMED: usize = 6;

/// How many warnings and refusals there are, and of what: `2 warnings, 1 refusal: no-huge-pages, counters`. Nothing where
/// there is none.
pub(crate) fn folded(report: &Report) -> Option<String> {
    let counted = |n: usize, what: &str| match n {
        0 => None,
        1 => Some(format!("1 {what}")),
        n => Some(format!("{n} {what}s")),
    };
    let counts = [counted(report.warnings.len(), "warning"), counted(report.refusals.len(), "refusal")];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    if counts.is_empty() {
        return None;
    }
    let mut tokens: Vec<&str> = Vec::new();
    let all = report.warnings.iter().map(|w| w.token).chain(report.refusals.iter().map(|r| r.what.as_str()));
    for token in all.filter(|token| !token.is_empty()) {
        if !tokens.contains(&token) {
            tokens.push(token);
        }
    }
    let more = tokens.len().saturating_sub(NAMED);
    tokens.truncate(NAMED);
    let mut text = format!("{}: {}", counts.join(", "), tokens.join(", "));
    if more > 0 {
        text += &format!(" and {more} more");
    }
    Some(text)
}

/// A statement and, on a line of its own, what to do about it.
fn item(page: &mut Page, mark: &str, text: &str, remedy: &str) {
    page.text(TextRole::Warn, &format!("{mark}: {text}"), "- ", "  ");
    if !remedy.is_empty() {
        page.text(TextRole::Plain, &format!("remedy: {remedy}"), "  ", "    ");
    }
}

/// Warnings with their remedies.
pub(crate) fn warnings(page: &mut Page, warnings: &[Warning]) {
    if warnings.is_empty() {
        return;
    }
    page.heading("Warnings");
    for w in warnings {
        item(page, w.token, &w.text, &w.remedy);
    }
}

/// What was refused, why, and what would help.
pub(crate) fn refusals(page: &mut Page, refusals: &[Refused]) {
    if refusals.is_empty() {
        return;
    }
    page.heading("Refused");
    for r in refusals {
        item(page, &r.what, &r.reason, &r.remedy);
    }
}
