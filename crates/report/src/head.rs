//! First lines of every report: subject, clock trust, disturbance.

use fathom_analysis::findings::{Finding, Report};
use fathom_analysis::metrics::common::{CLOCK_CORE_HZ, DISTURBANCE_STATE, DisturbanceState};

use fathom_units::facts::{self, Study, ValueClass};

use crate::number;
use crate::page::TextRole;

/// Returns a caveat for a clock trust below `real`.
pub(crate) fn caveat(report: &Report) -> Option<String> {
    let text = match report.trust.as_str() {
        "virtual" => "A guest on real caches: figures describe the behaviour of the guest, not the hardware.",
        "emulated" => "Emulated: shows that the code works; times are meaningless.",
        "modelled" => return Some(modelled(report)),
        _ => return None,
    };
    Some(text.to_owned())
}

/// Returns the caveat of a described machine: how many of its values are no more than assumed.
fn modelled(report: &Report) -> String {
    let count = |name: &str| {
        let (_, value) = report.facts.iter().find(|(known, _)| known == name)?;
        value.parse::<u64>().ok()
    };
    let class = |class| count(&facts::described_values(class)).unwrap_or(0);
    let neighbours = count(facts::DESCRIBED_NEIGHBOURS).unwrap_or(0);
    let exact = match neighbours {
        0 => "exact for the description".to_owned(),
        1 => "not exact, because a described neighbour uses the machine in bursts".to_owned(),
        n => format!("not exact, because {n} described neighbours use the machine in bursts"),
    };
    // Records of other tools do not have the counts.
    let Some(all) = count(facts::DESCRIBED_VALUES) else {
        return "Modelled: exact, valid for the description only.".to_owned();
    };
    let are = |n: u64| if n == 1 { "is" } else { "are" };
    let assumed = class(ValueClass::Assumed);
    let mut parts = vec![format!("{assumed} of its {all} values {} assumed", are(assumed))];
    for &study in Study::ALL {
        let from = class(ValueClass::Study(study));
        if from > 0 {
            parts.push(format!("{from} {} from study {}", are(from), study.token()));
        }
    }
    let unclassified = count(facts::DESCRIBED_VALUES_UNCLASSIFIED).unwrap_or(0);
    if unclassified > 0 {
        parts.push(format!("{unclassified} unclassified"));
    }
    if report.sensitivity.is_none() {
        parts.push("sensitivity not computed".to_owned());
    }
    format!("Modelled: {exact}; {}.", parts.join(", "))
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
        // A described machine is the subject itself, or a program's on it: its name is not repeated.
        identity(report)
            .map(|at| report.facts[at].1.clone())
            .filter(|name| *name != report.subject && !report.subject.ends_with(&format!(" on {name}"))),
        core.map(|(shown, unit)| format!("core {} {unit}", shown.value)),
        report.elapsed_s.is_finite().then(|| format!("{:.1} s", report.elapsed_s)),
    ];
    for part in more.into_iter().flatten() {
        line += &format!(", {part}");
    }
    line
}

/// Returns the text of the disturbance, and its causes; `None` if it was not judged.
pub(crate) fn disturbance(report: &Report) -> Option<(TextRole, String, &[String])> {
    let finding = report.find(&DISTURBANCE_STATE)?;
    let doubtful = report.findings.iter().filter(|f| f.is_doubtful()).count();
    let (role, text) = match (DisturbanceState::of(report), doubtful) {
        (Some(DisturbanceState::Ok), _) => (TextRole::Dim, "Undisturbed.".to_owned()),
        (Some(DisturbanceState::Noisy), 0) => {
            (TextRole::Warn, "Noisy: no finding is doubtful because of it.".to_owned())
        }
        (Some(DisturbanceState::Noisy), n) => (
            TextRole::Warn,
            format!(
                "Noisy: {n} of {} findings {} doubtful ({}): too many of their trials were disturbed.",
                report.findings.len(),
                if n == 1 { "is" } else { "are" },
                number::DOUBTFUL
            ),
        ),
        (Some(DisturbanceState::Unusable), _) => (
            TextRole::Bad,
            "UNUSABLE: so much was disturbed that every value is doubtful; causes:".to_owned(),
        ),
        (None, _) => (TextRole::Bad, format!("disturbance: {}", number::value(finding).value)),
    };
    Some((role, text, &finding.notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caveat_of_a_model_counts_what_is_assumed() {
        let mut report = Report { trust: "modelled".into(), ..Report::default() };
        assert_eq!(caveat(&report).as_deref(), Some("Modelled: exact, valid for the description only."));
        let mut set = |name: &str, n: u64| report.facts.push((name.to_owned(), n.to_string()));
        set("described.values", 66);
        set("described.values.assumed", 36);
        set("described.values.study.S2", 4);
        set("described.values.unclassified", 5);
        let expected = "Modelled: exact for the description; 36 of its 66 values are assumed, 4 are from study S2, \
                        5 unclassified, sensitivity not computed.";
        assert_eq!(caveat(&report).as_deref(), Some(expected));
        report.facts.truncate(2);
        report.facts[1].1 = "1".to_owned();
        let expected = "Modelled: exact for the description; 1 of its 66 values is assumed.";
        report.sensitivity = Some((false, Vec::new()));
        assert_eq!(caveat(&report).as_deref(), Some(expected));
        report.facts.push(("described.neighbours".to_owned(), "2".to_owned()));
        let expected = "Modelled: not exact, because 2 described neighbours use the machine in bursts; 1 of its 66 \
                        values is assumed.";
        assert_eq!(caveat(&report).as_deref(), Some(expected));
        report.trust = "real".to_owned();
        assert_eq!(caveat(&report), None);
    }
}
