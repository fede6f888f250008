//! Warnings and refusals: one line at the head of a report, and the full text with remedies at its end.

use fathom_analysis::findings::{Refused, Report, Warning};

use crate::page::{Page, TextRole};

/// Largest number of tokens in the line at the head.
const MAX_TOKENS: usize = 6;

/// Returns the number of warnings and refusals, with their tokens: `2 warnings, 1 refusal: no-huge-pages, counters`.
/// `None` if there are none.
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
    let more = tokens.len().saturating_sub(MAX_TOKENS);
    tokens.truncate(MAX_TOKENS);
    let mut text = format!("{}: {}", counts.join(", "), tokens.join(", "));
    if more > 0 {
        text += &format!(" and {more} more");
    }
    Some(text)
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
        item(page, w.token, &w.text, &w.remedy);
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
