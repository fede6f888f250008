//! Findings of a sampled program.

use fathom_analysis::findings::{Finding, Item, Metric, Refused, Report, Warning, WarningKind};
use fathom_analysis::interval::Interval;
use fathom_analysis::metrics::profile as metrics;
use fathom_probe::machine::ClockTrust;
use fathom_units::facts;

use super::NAME;
use crate::reading::{measured, new_report};
use crate::record::{Profile, ProfilePlace, Record};

/// Samples below which shares say little: the interval of a half is then from 0.4 to 0.6.
const FEW: u64 = 100;
/// Share of the time in user space that samples must stand for. The kernel accounts that time by its own timer, too.
const MOST: f64 = 0.8;

/// Reads the report of a record.
#[must_use]
pub fn read(record: &Record) -> Report {
    let mut report = new_report(record, NAME);
    // The probe's, and not the program's.
    report.facts.retain(|(name, _)| name != facts::CPU_PINNED);
    let Some(profile) = &record.profile else {
        report.refusals.push(Refused {
            what: "the program".to_owned(),
            reason: "the record has no lines `profile`".to_owned(),
            remedy: "sample it again".to_owned(),
        });
        return report;
    };
    if record.trust == Some(ClockTrust::Emulated) {
        let evidence = record.text(facts::TRUST_EVIDENCE).unwrap_or("as the probe reports");
        report.refusals.push(Refused {
            what: "times and shares of them".to_owned(),
            reason: format!("this is an emulator ({evidence}): its time is not that of the emulated machine"),
            remedy: "run it on the real machine, or on a described one: fathom simulate -- PROGRAM"
                .to_owned(),
        });
        return report;
    }
    totals(profile, &mut report);
    for (metric, places) in
        [(&metrics::FUNCTION_SHARE, &profile.functions), (&metrics::LINE_SHARE, &profile.lines)]
    {
        let rows =
            places.iter().zip(1u64..).filter_map(|(place, rank)| of_place(metric, place, rank, profile));
        report.findings.extend(rows);
    }
    doubts(profile, &mut report);
    report
}

fn totals(profile: &Profile, report: &mut Report) {
    let [samples, lost, _] = profile.counts;
    let [user, system] = profile.cpu_us.map(|us| us as f64 / 1e3);
    let mut all = Finding::number(&metrics::SAMPLE_COUNT, samples as f64);
    all.detail.set(metrics::EVENT, Item::Token(profile.event.clone()));
    report.findings.extend([
        Finding::number(&metrics::WALL, profile.wall_ns as f64 / 1e6),
        Finding::number(&metrics::USER, user),
        Finding::number(&metrics::SYSTEM, system),
        all,
        Finding::number(&metrics::LOST, lost as f64),
    ]);
}

/// Returns the row of a function or line; `None` without samples, or if a record claims more than there are.
fn of_place(metric: &'static Metric, place: &ProfilePlace, rank: u64, profile: &Profile) -> Option<Finding> {
    let all = profile.counts[0];
    if place.samples == 0 || place.samples > all || place.weight > profile.weight || profile.weight == 0 {
        return None;
    }
    let share = place.weight as f64 / profile.weight as f64;
    let mut finding =
        measured(metric.at([rank.into()]), interval(share, all), "", place.samples as usize, &[]);
    let detail = &mut finding.detail;
    if !place.source.is_empty() {
        detail.set(metrics::SOURCE, Item::Token(place.source.clone()));
    }
    detail.set(metrics::FUNCTION, Item::Token(place.function.clone()));
    if !place.file.is_empty() {
        detail.set(metrics::FILE, Item::Token(place.file.clone()));
    }
    detail.set(metrics::SAMPLES, Item::Number(place.samples as f64));
    Some(finding)
}

/// Returns a share of so many samples with its 95 % interval: Wilson's, which holds for small shares too (E. B. Wilson, 1927,
/// J. Am. Stat. Assoc. 22, 209). Samples are taken as independent; those of a short loop in step with the timer are not.
fn interval(share: f64, samples: u64) -> Interval {
    const Z: f64 = 1.96;
    let n = samples as f64;
    let middle = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    Interval { value: share, low: (middle - half).clamp(0.0, share), high: (middle + half).clamp(share, 1.0) }
}

/// Adds what limits the results.
fn doubts(profile: &Profile, report: &mut Report) {
    let [instead, remedy] = &profile.instead;
    if !instead.is_empty() {
        report.refusals.push(Refused {
            what: format!("samples by cycles ({} instead)", profile.event),
            reason: instead.clone(),
            remedy: remedy.clone(),
        });
    }
    let mut warn = |kind, text: String, remedy: &str| report.warnings.push(Warning::new(kind, text, remedy));
    if !profile.ended.is_empty() {
        let text = format!("the program did not end with status 0: {}", profile.ended);
        warn(
            WarningKind::ProgramFailed,
            text,
            "if that is unexpected, run the program without fathom to see why",
        );
    }
    let [samples, lost, throttled] = profile.counts;
    if samples < FEW {
        let text =
            format!("{samples} samples: shares are known to some {:.0} %", 100.0 * half_width(samples));
        warn(WarningKind::FewSamples, text, "let the program work longer, or sample more often: --rate");
    }
    let user_ns = profile.cpu_us[0] as f64 * 1e3;
    let sampled_ns = profile.period.map(|period| samples as f64 * period as f64);
    let missing = sampled_ns.is_some_and(|ns| samples >= FEW && ns < MOST * user_ns);
    if lost > 0 || throttled > 0 || missing {
        let stand = sampled_ns.map(|ns| {
            format!("; samples stand for {:.0} ms of {:.0} ms in user space", ns / 1e6, user_ns / 1e6)
        });
        let text = format!(
            "{lost} samples were lost, and the kernel stopped sampling {throttled} times{}",
            stand.unwrap_or_default()
        );
        warn(WarningKind::SamplesLost, text, "sample less often: --rate 100");
    }
}

/// Returns half the width of the interval of a half.
fn half_width(samples: u64) -> f64 {
    let i = interval(0.5, samples.max(1));
    (i.high - i.low) / 2.0
}

#[cfg(test)]
mod tests;
