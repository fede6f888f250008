//! Shared by all headlines: figures in sentences, confidence, the headline without a result.

use fathom_analysis::findings::{Finding, Report};
use fathom_analysis::metrics::common::DisturbanceState;
use fathom_report::{Headline, number};

/// Relative half-width of a 95 % interval, in percent, above which the headline names it.
const WIDE_PERCENT: f64 = 1.0;

/// Significant digits of a figure in a sentence. Tables show as many as the interval justifies.
const DIGITS: i32 = 3;

/// Returns a finding's value with its unit, for a sentence: `1.69 ns`, `48 KiB`.
pub(crate) fn figure(f: &Finding) -> String {
    match f.finite() {
        Some(bytes) if f.unit == "bytes" && bytes >= 0.0 => size(bytes),
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

/// Returns a size for a sentence: `48 KiB`.
pub(crate) fn size(bytes: f64) -> String {
    fathom_units::size(bytes).replace(".0 ", " ")
}

/// Returns the headline of a report without a result: reason and remedy.
pub(crate) fn none(report: &Report) -> Headline {
    let refused = report.refusals.first();
    let why = refused.map(|r| format!(": {}: {}", r.what, r.reason)).unwrap_or_default();
    let remedies = refused.map(|r| &r.remedy).into_iter().chain(report.warnings.iter().map(|w| &w.remedy));
    let action = remedies.into_iter().find(|remedy| !remedy.is_empty()).cloned().unwrap_or_default();
    headline(report, &format!("no result{why}"), &[], &action)
}

/// Returns the headline of a result that quotes these findings.
pub(crate) fn headline(report: &Report, answer: &str, quoted: &[&Finding], action: &str) -> Headline {
    Headline {
        answer: sentence(answer),
        confidence: confidence(report, quoted),
        action: sentence(action),
        quoted: quoted.iter().map(|f| f.key.clone()).collect(),
    }
}

/// Returns the finding with the largest value.
pub(crate) fn largest<'a>(all: impl Iterator<Item = &'a Finding>) -> Option<&'a Finding> {
    let value = |f: &Finding| f.finite().unwrap_or(f64::NEG_INFINITY);
    all.filter(|f| f.finite().is_some()).max_by(|a, b| value(a).total_cmp(&value(b)))
}

/// Returns half the width of a finding's 95 % interval, in percent of the value.
fn half_width_percent(f: &Finding) -> Option<f64> {
    let (value, low, high) = (f.finite()?, f.low?, f.high?);
    let percent = 50.0 * (high - low) / value.abs();
    percent.is_finite().then_some(percent)
}

/// Returns the confidence of a headline: the widest interval of the quoted findings, disturbance, and the kind of
/// subject.
fn confidence(report: &Report, quoted: &[&Finding]) -> String {
    let mut parts: Vec<String> = Vec::new();
    match quoted.iter().filter_map(|f| half_width_percent(f)).reduce(f64::max) {
        Some(widest) if widest >= WIDE_PERCENT => {
            parts.push(format!("95 % intervals within {widest:.0} % of the values"));
        }
        Some(_) => parts.push(format!("95 % intervals within {WIDE_PERCENT:.0} % of the values")),
        None => {}
    }
    let doubtful = quoted.iter().filter(|f| f.is_doubtful()).count();
    match DisturbanceState::of(report) {
        Some(DisturbanceState::Ok) => parts.push("undisturbed".to_owned()),
        Some(DisturbanceState::Noisy) if quoted.is_empty() => parts.push("noisy".to_owned()),
        Some(DisturbanceState::Noisy) if doubtful == 0 => {
            parts.push("noisy, but no value above is doubtful because of it".to_owned());
        }
        Some(DisturbanceState::Noisy) => parts.push(match (doubtful, quoted.len()) {
            (1, 1) => "noisy: the value above is doubtful".to_owned(),
            (1, all) => format!("noisy: 1 of the {all} values above is doubtful"),
            (n, all) => format!("noisy: {n} of the {all} values above are doubtful"),
        }),
        Some(DisturbanceState::Unusable) => parts.push("unusable: every value is doubtful".to_owned()),
        None => {}
    }
    let subject = match report.trust.as_str() {
        "real" => "measured on hardware",
        "virtual" => "measured in a guest: this is the guest's behaviour, not the hardware's",
        "modelled" => "calculated from the description, not measured on hardware",
        _ => "",
    };
    if !subject.is_empty() {
        parts.push(subject.to_owned());
    }
    sentence(&parts.join("; "))
}

/// Returns a text as a sentence: with a capital and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let Some(first) = letters.next() else { return String::new() };
    let stop = if text.ends_with('.') { "" } else { "." };
    format!("{}{}{stop}", first.to_uppercase(), letters.as_str())
}

#[cfg(test)]
mod tests {
    use crate::record::file;
    use crate::{read, report_kinds};

    /// Returns the headline of a stored record: answer, confidence, action.
    fn of(name: &str) -> [String; 3] {
        let file = format!("{}/../../records/{name}.fathom", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(file).expect("a stored record");
        let report = read(&file::read(&text).expect("a record")).expect("an experiment");
        let kind = report_kinds::kind(&report.experiment).expect("a kind");
        let headline = (kind.headline)(&report);
        [headline.answer, headline.confidence, headline.action]
    }

    #[test]
    fn stored_records_have_three_line_headlines() {
        let described = "calculated from the description, not measured on hardware.";
        let confidence = format!("95 % intervals within 1 % of the values; undisturbed; {described}");
        for (name, headline) in [
            (
                "v1-bcm2835-latency",
                [
                    "A load takes 4.37 ns at 4 KiB and 79.0 ns at 64 KiB: 18.1 times as long.",
                    &confidence,
                    "Run `fathom survey` to see at which sizes latency rises, and why; the slowest here is 64 KiB.",
                ],
            ),
            (
                "v1-am5728-stride",
                [
                    "In 256 KiB a read takes 4.10 ns at a stride of 8 B and 22.0 ns at 4 KiB: 5.4 times as long.",
                    &confidence,
                    "",
                ],
            ),
            (
                "v1-cortex-a8-conflict",
                ["The cache of tier 1 has 4 ways.", &format!("Undisturbed; {described}"), ""],
            ),
            (
                "v1-bcm2837-cacheability",
                [
                    "Rmw in 2560 B of device memory takes up to 36.0 times as long as in write-back memory: 303 ns instead of \
                     8.44 ns for 8 bytes.",
                    &confidence,
                    "Prefer write-back memory (with cache maintenance) over device memory for data that the CPU accesses often.",
                ],
            ),
            (
                "v1-omap3-sdio-dma",
                [
                    "To the device: coherent at every size; from the device: uncached-copy below 240 B, zero-copy above \
                     (12 % between them at 1.5 KiB).",
                    &confidence,
                    "Choose by the size of the transfer, as above.",
                ],
            ),
            (
                "v1-guest-wakeup",
                [
                    "Maximum wake-up latency 339 us without load, in 400 activations; 326 us of it before the \
                     timer interrupt (interrupts off, or CPU taken away).",
                    "Noisy, but no value above is doubtful because of it; measured in a guest: this is the guest's \
                     behaviour, not the hardware's. A maximum is the largest observed value, not a bound.",
                    "Compare with a run on the host: in a virtual machine, the host may take the CPU at any time.",
                ],
            ),
        ] {
            assert_eq!(of(name), headline, "{name}");
        }
    }

    /// A report without a result names the reason.
    #[test]
    fn a_record_without_a_result_names_the_reason() {
        let [answer, _, action] = of("v1-qemu-virt-cacheability");
        assert!(answer.starts_with("No result: ") && answer.contains("every time"), "{answer}");
        assert!(!action.is_empty(), "{answer}");
    }
}
