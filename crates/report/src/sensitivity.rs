//! What findings on a described machine depend on, as text.

use fathom_analysis::findings::{Dependence, Outcome, Varied};
use fathom_analysis::findings::{Finding, Report, Value};

use crate::number;
use crate::page::{Page, TextRole};

/// Findings that are named, at most. JSON has all of them.
const MAX_FINDINGS: usize = 16;

/// Writes the values on which findings depend, with what the findings become: those that change most first.
pub(crate) fn section(page: &mut Page, report: &Report) {
    let Some((ahead, varied)) = &report.sensitivity else { return };
    page.heading("What the findings depend on most, of the values that are assumed or from a study");
    let mut all: Vec<(f64, &Finding, &Dependence)> = report
        .findings
        .iter()
        .filter_map(|f| f.depends_on.as_ref().map(|on| (relative(f, &on.outcome), f, on)))
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut groups: Vec<(&Varied, Vec<String>)> = Vec::new();
    for (_, f, on) in all.iter().take(MAX_FINDINGS) {
        let at = groups.iter().position(|(value, _)| **value == on.varied).unwrap_or_else(|| {
            groups.push((&on.varied, Vec::new()));
            groups.len() - 1
        });
        groups[at].1.push(format!("{} {}", f.name(), becomes(f, &on.outcome)));
    }
    for (value, findings) in &groups {
        let study =
            value.class.study().map_or(String::new(), |study| format!(", from study {}", study.token()));
        let text = format!("{} {}{study}: {}", value.value, over(value), findings.join("; "));
        page.text(TextRole::Plain, &text, "- ", "    ");
    }
    let more = all.len().saturating_sub(MAX_FINDINGS);
    let more = if more > 0 { format!("; {more} more findings: --json") } else { String::new() };
    let when = if *ahead { "computed ahead for this description: " } else { "" };
    let text = format!("{when}{} values were varied one at a time, with the same seed{more}", varied.len());
    page.text(TextRole::Dim, &text, "  ", "    ");
}

/// Returns what a finding becomes: a range with its unit, words, or nothing.
fn becomes(f: &Finding, outcome: &Outcome) -> String {
    let shown =
        |v: f64| number::in_cells(&Finding { low: None, high: None, value: Value::Number(v), ..f.clone() });
    let mut parts: Vec<String> = Vec::new();
    if let Some((low, high)) = outcome.range {
        let ((low, of_low), (high, unit)) = (shown(low), shown(high));
        // Frequencies may have different units.
        let of_low = if of_low == unit { String::new() } else { format!(" {of_low}") };
        parts.push(format!("{}{of_low}..{} {unit}", low.value, high.value).trim_end().to_owned());
    }
    if !outcome.words.is_empty() {
        parts.push(outcome.words.join(" or "));
    }
    if outcome.missing {
        parts.push("or none".to_owned());
    }
    parts.join(" ")
}

/// Returns the range of a value: an end that is not a possible machine is left out.
fn over(varied: &Varied) -> String {
    match &varied.ends {
        [Some(low), Some(high)] => format!("{low}..{high}"),
        [low, high] => low.iter().chain(high).map(String::as_str).collect(),
    }
}

/// Returns the width of a finding's range relative to the finding; infinite if it is lost or a word changes.
fn relative(f: &Finding, outcome: &Outcome) -> f64 {
    match (outcome.range, f.finite()) {
        (Some((low, high)), Some(here)) if !outcome.missing => {
            (high - low) / here.abs().max(f64::MIN_POSITIVE)
        }
        _ => f64::INFINITY,
    }
}

/// Writes that these findings are no independent results, if values of the study with which they are compared are in
/// the machine's description.
pub fn fitted<'a>(page: &mut Page, findings: impl IntoIterator<Item = &'a Finding>) {
    if let Some(study) = findings.into_iter().find_map(|f| f.fitted) {
        let text = format!(
            "fitted: values of this description are taken from study {}, so agreement with it is no confirmation",
            study.token()
        );
        page.text(TextRole::Warn, &text, "  ", "    ");
    }
}
