//! What the headlines of all experiments share: figures for a sentence, and how sure they are.

use fathom_analysis::findings::{Finding, Report};
use fathom_analysis::metrics::common::DISTURBED;
use fathom_report::{Headline, number};

/// Relative half-width of a 95 % interval, in percent, from which on the headline names it.
const WIDE_PERCENT: f64 = 1.0;

/// Significant digits of a figure in a sentence; the tables have as many as the interval justifies.
const DIGITS: i32 = 3;

/// A finding's value with its unit, for a sentence: `1.69 ns`, `48 KiB`.
pub(crate) fn figure(f: &Finding) -> String {
    match f.finite() {
        Some(bytes) if f.unit == "bytes" && bytes >= 0.0 => fathom_units::size(bytes),
        Some(value) if f.unit != "Hz" => {
            let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
            let decimals = (DIGITS - 1 - magnitude).clamp(0, 6) as usize;
            format!("{value:.decimals$} {}", f.unit).trim_end().to_owned()
        }
        _ => {
            let (shown, unit) = number::in_cells(f);
            format!("{} {unit}", shown.value).trim_end().to_owned()
        }
    }
}

/// What a report says that has no answer: why not, and the remedy.
pub(crate) fn none(report: &Report) -> Headline {
    let refused = report.refusals.first();
    let why = refused.map(|r| format!(": {}: {}", r.what, r.reason)).unwrap_or_default();
    let remedies = refused.map(|r| &r.remedy).into_iter().chain(report.warnings.iter().map(|w| &w.remedy));
    let action = remedies.into_iter().find(|remedy| !remedy.is_empty()).cloned().unwrap_or_default();
    Headline {
        answer: sentence(&format!("this session does not answer its question{why}")),
        confidence: confidence(report, &[]),
        action: sentence(&action),
    }
}

/// The finding with the largest value.
pub(crate) fn largest<'a>(all: impl Iterator<Item = &'a Finding>) -> Option<&'a Finding> {
    let value = |f: &Finding| f.finite().unwrap_or(f64::NEG_INFINITY);
    all.filter(|f| f.finite().is_some()).max_by(|a, b| value(a).total_cmp(&value(b)))
}

/// Half the width of a finding's 95 % interval, in percent of the value.
fn doubt(f: &Finding) -> Option<f64> {
    let (value, low, high) = (f.finite()?, f.low?, f.high?);
    let percent = 50.0 * (high - low) / value.abs();
    percent.is_finite().then_some(percent)
}

/// How sure the answer is: the widest interval of the findings that it quotes, disturbance, and what the subject is.
pub(crate) fn confidence(report: &Report, quoted: &[&Finding]) -> String {
    let mut parts: Vec<String> = Vec::new();
    match quoted.iter().filter_map(|f| doubt(f)).reduce(f64::max) {
        Some(widest) if widest >= WIDE_PERCENT => {
            parts.push(format!("95 % intervals within {widest:.0} % of the values"));
        }
        Some(_) => parts.push(format!("95 % intervals within {WIDE_PERCENT:.0} % of the values")),
        None => {}
    }
    match report.find(&DISTURBED).and_then(Finding::word) {
        Some("yes") => parts.push("other work disturbed the measurement".to_owned()),
        Some("no") => parts.push("undisturbed".to_owned()),
        _ => {}
    }
    let subject = match report.trust.as_str() {
        "real" => "measured on hardware",
        "virtual" => "measured in a guest: how the guest behaves, not what the silicon is",
        "modelled" => "calculated from the description, not measured on hardware",
        _ => "",
    };
    if !subject.is_empty() {
        parts.push(subject.to_owned());
    }
    sentence(&parts.join("; "))
}

/// A text as a sentence: with a capital and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let Some(first) = letters.next() else { return String::new() };
    let stop = if text.ends_with('.') { "" } else { "." };
    format!("{}{}{stop}", first.to_uppercase(), letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::Headline;
    use crate::record::Record;
    use crate::{cacheability, conflict, dma, latency, read, stride, survey, wakeup};

    /// The headline of a kept record.
    fn of(name: &str) -> [String; 3] {
        let file = format!("{}/../../records/{name}.fathom", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(file).expect("a kept record");
        let report = read(&Record::parse(&text).expect("a record"));
        let Headline { answer, confidence, action } = match report.experiment.as_str() {
            "survey" => survey::headline::headline(&report),
            "latency" => latency::headline::headline(&report),
            "stride" => stride::headline::headline(&report),
            "conflict" => conflict::headline::headline(&report),
            "cacheability" => cacheability::headline::headline(&report),
            "dma" => dma::headline::headline(&report),
            _ => wakeup::headline::headline(&report),
        };
        [answer, confidence, action]
    }

    #[test]
    fn kept_records_are_answered_in_three_lines() {
        for name in [
            "v1-bcm2835-survey",
            "v1-guest-survey",
            "v1-bcm2835-latency",
            "v1-bcm2835-ladder",
            "v1-am5728-stride",
            "v1-cortex-a8-conflict",
            "v1-bcm2837-cacheability",
            "v1-qemu-virt-cacheability",
            "v1-omap3-sdio-dma",
            "v1-guest-wakeup",
            "v1-imported-wakeups",
        ] {
            println!("{name} {:#?}", of(name));
        }
    }
}
