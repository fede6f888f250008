//! The findings that suffer from disturbed trials.

use std::collections::BTreeSet;

use fathom_analysis::findings::{Finding, Key, Report, Value, Warning, WarningKind};
use fathom_analysis::metrics::common::{DISTURBANCE_STATE, DisturbanceState};
use fathom_report::ReportKind;

use super::trials;
use crate::record::Record;
use crate::scale::Scale;

/// One in so many of a finding's trials may be disturbed. If a disturbance only adds time, the median over all trials is
/// the 75 % quantile of the undisturbed ones at a third (0.5 / (1 - 1/3)), the end of their middle half; at a half it is
/// the largest of them.
const MAX_DISTURBED: usize = 3;

/// Most doubtful findings that the warning names.
const MAX_NAMES: usize = 6;

/// Counts the disturbed trials of each finding that suffers from them. If there is one, the session is at least noisy; the
/// warning lowers confidence only if the headline quotes one.
pub(crate) fn mark(record: &Record, kind: &ReportKind, report: &mut Report) {
    let Some(state) = DisturbanceState::of(report).filter(|_| !record.is_modelled()) else {
        return;
    };
    let disturbed = trials::disturbed(record, &Scale::of(record).cycle_ticks);
    let disturbed: BTreeSet<u64> = disturbed.into_iter().map(|(id, _)| id).collect();
    for finding in &mut report.findings {
        let of: BTreeSet<u64> = finding.trials.iter().copied().collect();
        let bad = of.intersection(&disturbed).count();
        if bad * MAX_DISTURBED > of.len() {
            finding.disturbed_trials = bad as u64;
        }
    }
    if state == DisturbanceState::Unusable || !report.findings.iter().any(Finding::is_doubtful) {
        return;
    }
    for finding in report.findings.iter_mut().filter(|f| f.is(&DISTURBANCE_STATE)) {
        finding.value = Value::Text(DisturbanceState::Noisy.token().to_owned());
    }
    let quoted = (kind.headline)(report).quoted;
    warn(&quoted, report);
}

/// Adds the names of the doubtful findings to the warning of a noisy machine, or adds the warning.
fn warn(quoted: &[Key], report: &mut Report) {
    let doubtful = || report.findings.iter().filter(|f| f.is_doubtful());
    let in_headline = |f: &&Finding| quoted.contains(&f.key);
    let (first, others): (Vec<_>, Vec<_>) = doubtful().partition(in_headline);
    let kind = if first.is_empty() { WarningKind::Noisy } else { WarningKind::Disturbed };
    let count = first.len() + others.len();
    let name = |f: &&Finding| {
        format!("{} ({} of its {})", f.name(), f.disturbed_trials, counted(f.distinct_trials(), "trial"))
    };
    let names: Vec<String> = first.iter().chain(&others).take(MAX_NAMES).map(name).collect();
    let more = if count > MAX_NAMES { format!(" and {} more", count - MAX_NAMES) } else { String::new() };
    let text = format!(
        "{} doubtful, because so many of the trials were disturbed: {}{more}",
        if count == 1 { "1 finding is".to_owned() } else { format!("{count} findings are") },
        names.join(", ")
    );
    match report.warnings.iter_mut().find(|warning| warning.kind == WarningKind::Noisy) {
        Some(warning) => {
            warning.kind = kind;
            warning.text = format!("{text}; {}", warning.text);
        }
        None => {
            let remedy = "run it again on a quieter machine, or give it a larger --budget";
            report.warnings.push(Warning::new(kind, text, remedy));
        }
    }
}

/// Returns a number with its noun: `1 trial`, `7 trials`.
fn counted(n: u64, noun: &str) -> String {
    if n == 1 { format!("{n} {noun}") } else { format!("{n} {noun}s") }
}

#[cfg(test)]
mod tests;
