//! What every report begins with: subject, clock trust, disturbance.

use fathom_analysis::findings::{Finding, Report};
use fathom_analysis::metrics::common::CLOCK_CORE_HZ;

use crate::number;
use crate::page::TextRole;

/// What a clock trust below `real` means for whoever reads the figures.
pub(crate) fn caveat(trust: &str) -> Option<&'static str> {
    match trust {
        "virtual" => Some("A guest on real caches: the figures say what it behaves like, not what it is."),
        "emulated" => Some("Emulated: proves that code works, never how fast anything is."),
        "modelled" => Some("Modelled: exact, and about the description only."),
        _ => None,
    }
}

/// Facts that say what the subject is, best first.
const WHAT_IT_IS: [&str; 4] = ["about", "cpu", "model", "machine"];

/// Where among the facts stands what the subject is?
pub(crate) fn identity(report: &Report) -> Option<usize> {
    WHAT_IT_IS
        .iter()
        .find_map(|name| report.facts.iter().position(|(n, _)| n == name))
        .or(if report.facts.is_empty() { None } else { Some(0) })
}

/// The first line: experiment, subject, its clock trust, what it is, its core clock, the time it took.
pub(crate) fn lead(report: &Report) -> String {
    // Its interval is among the clocks: here it has the digits of a number without one.
    let core = report.find(&CLOCK_CORE_HZ);
    let core = core.map(|f| number::in_cells(&Finding { low: None, high: None, ..f.clone() }));
    let mut line = format!("{}: {}", report.experiment, report.subject);
    if !report.trust.is_empty() {
        line += &format!(" ({})", report.trust);
    }
    let more = [
        identity(report).map(|at| report.facts[at].1.clone()),
        core.map(|(shown, unit)| format!("core {} {unit}", shown.value)),
        report.elapsed_s.is_finite().then(|| format!("{:.1} s", report.elapsed_s)),
    ];
    for part in more.into_iter().flatten() {
        line += &format!(", {part}");
    }
    line
}

/// What the finding `disturbed` says, in words.
pub(crate) fn disturbance(f: &Finding) -> (TextRole, String) {
    match f.word() {
        Some("yes") => (
            TextRole::Bad,
            "DISTURBED: other work ran beside the measurement; figures may be wrong.".to_string(),
        ),
        Some("no") => (TextRole::Dim, "Undisturbed.".to_string()),
        _ => (TextRole::Bad, format!("disturbed: {}", number::value(f).value)),
    }
}
