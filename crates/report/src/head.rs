//! First lines of every report: subject, clock trust, disturbance.

use fathom_analysis::findings::{Finding, Report};
use fathom_analysis::metrics::common::CLOCK_CORE_HZ;

use crate::number;
use crate::page::TextRole;

/// Returns a caveat for a clock trust below `real`.
pub(crate) fn caveat(trust: &str) -> Option<&'static str> {
    match trust {
        "virtual" => {
            Some("A guest on real caches: figures describe the behaviour of the guest, not the hardware.")
        }
        "emulated" => Some("Emulated: shows that the code works; times are meaningless."),
        "modelled" => Some("Modelled: exact, valid for the description only."),
        _ => None,
    }
}

/// Facts that identify the subject, best first.
const IDENTITY_FACTS: [&str; 4] = ["about", "cpu", "model", "machine"];

/// Returns the index of the fact that identifies the subject.
pub(crate) fn identity(report: &Report) -> Option<usize> {
    IDENTITY_FACTS
        .iter()
        .find_map(|name| report.facts.iter().position(|(n, _)| n == name))
        .or(if report.facts.is_empty() { None } else { Some(0) })
}

/// Returns the first line: experiment, subject, clock trust, identity, core clock, elapsed time.
pub(crate) fn lead(report: &Report) -> String {
    // The interval is shown in the table of clocks; here the number has the digits of one without interval.
    let core = report.find(&CLOCK_CORE_HZ);
    let core = core.map(|f| number::in_cells(&Finding { low: None, high: None, ..f.clone() }));
    let mut line = format!("{}: {}", report.experiment, report.subject);
    if !report.trust.is_empty() {
        line += &format!(" ({})", report.trust);
    }
    let more = [
        // A described machine is the subject itself: its name is not repeated.
        identity(report).map(|at| report.facts[at].1.clone()).filter(|name| *name != report.subject),
        core.map(|(shown, unit)| format!("core {} {unit}", shown.value)),
        report.elapsed_s.is_finite().then(|| format!("{:.1} s", report.elapsed_s)),
    ];
    for part in more.into_iter().flatten() {
        line += &format!(", {part}");
    }
    line
}

/// Returns the text for the finding `disturbed`.
pub(crate) fn disturbance(f: &Finding) -> (TextRole, String) {
    match f.word() {
        Some("yes") => (TextRole::Bad, "DISTURBED: times may be wrong; causes:".to_string()),
        Some("no") => (TextRole::Dim, "Undisturbed.".to_string()),
        _ => (TextRole::Bad, format!("disturbed: {}", number::value(f).value)),
    }
}
