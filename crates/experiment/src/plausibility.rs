//! Refuses implausible findings of every experiment: values outside the physical bounds of their metric, tiers that are
//! faster than a nearer one, and cycles of a core clock that contradicts what is known of it.

use fathom_analysis::findings::{Axis, Finding, Refused, Report, Value};
use fathom_analysis::metrics::{common, survey};
use fathom_units::facts;

use crate::record::Record;

/// Largest deviation of the measured core clock from the known one, as a share. The calibration of all described
/// machines is within 0.1 %; crystals deviate by 0.01 %.
const MAX_CLOCK_DEVIATION: f64 = 0.02;

/// Moves all implausible findings to the refusals, with the reason.
pub(crate) fn refuse(record: &Record, report: &mut Report) {
    refuse_impossible(report);
    refuse_faster_tiers(report);
    refuse_wrong_core_clock(record, report);
}

/// Returns why a value is impossible; `None` if it is possible.
fn impossible(finding: &Finding) -> Option<String> {
    let Value::Number(value) = finding.value else { return None };
    let bounds = finding.key.metric.bounds;
    if bounds.hold(value) {
        return None;
    }
    let unit = if finding.unit.is_empty() { String::new() } else { format!(" {}", finding.unit) };
    let low = if bounds.low.is_finite() { format!("at least {}", bounds.low) } else { String::new() };
    let high = if bounds.high.is_finite() { format!("at most {}", bounds.high) } else { String::new() };
    let and = if low.is_empty() || high.is_empty() { "" } else { " and " };
    Some(format!("the result is {value:.3}{unit}, but must be {low}{and}{high}"))
}

/// Refuses findings outside the bounds of their metric. Ends of intervals are cut there: the truth is not beyond them.
fn refuse_impossible(report: &mut Report) {
    let findings = std::mem::take(&mut report.findings);
    for mut finding in findings {
        let Some(why) = impossible(&finding) else {
            let bounds = finding.key.metric.bounds;
            if matches!(finding.value, Value::Number(_)) {
                let cut = |end: Option<f64>| end.map(|end| end.clamp(bounds.low, bounds.high));
                (finding.low, finding.high) = (cut(finding.low), cut(finding.high));
            }
            report.findings.push(finding);
            continue;
        };
        report.refusals.push(Refused {
            what: finding.name(),
            reason: format!("{why}: the samples contradict each other"),
            remedy: "run it again on a quieter machine, or give it a larger --budget".into(),
        });
    }
}

/// Refuses the latency of a tier that is faster than a nearer one, by their intervals: a load that passes a tier takes
/// longer than one that it serves.
fn refuse_faster_tiers(report: &mut Report) {
    let end = |f: &Finding, end: Option<f64>| end.or_else(|| f.finite()).unwrap_or(f64::NAN);
    let mut nearest: Option<(u64, f64)> = None;
    let mut wrong = Vec::new();
    for f in report.of(&survey::TIER_LATENCY).filter(|f| f.finite().is_some()) {
        let tier = f.key.number(Axis::Tier).unwrap_or(0);
        match nearest {
            Some((nearer, low)) if end(f, f.high) < low => wrong.push((tier, nearer)),
            _ => nearest = Some((tier, end(f, f.low))),
        }
    }
    for (tier, nearer) in wrong {
        let of_tier = |f: &Finding| {
            (f.is(&survey::TIER_LATENCY) || f.is(&survey::TIER_LATENCY_CYCLES))
                && f.key.number(Axis::Tier) == Some(tier)
        };
        report.findings.retain(|f| !of_tier(f));
        report.refusals.push(Refused {
            what: format!("tier.{tier}.latency"),
            reason: format!("the result is below that of tier {nearer}, which is nearer: the samples contradict each other"),
            remedy: "run it again on a quieter machine, or give it a larger --budget".into(),
        });
    }
}

/// Returns why the measured core clock is wrong, if it is. A description states the clock. The kernel states the
/// highest frequency, which boost may exceed.
fn wrong_core_clock(record: &Record, clock: &Finding) -> Option<String> {
    let low = clock.low.or_else(|| clock.finite())?;
    let high = clock.high.or_else(|| clock.finite())?;
    let mhz = |hz: f64| format!("{:.0} MHz", hz / 1e6);
    if let Some(described) = record.int(facts::CORE_HZ).filter(|hz| *hz > 0) {
        let described = described as f64;
        // A described neighbour may slow the core down.
        let alone = record.int(facts::DESCRIBED_NEIGHBOURS).is_none();
        let slow = alone && high < described * (1.0 - MAX_CLOCK_DEVIATION);
        let agrees = low <= described * (1.0 + MAX_CLOCK_DEVIATION) && !slow;
        return (!agrees).then(|| format!("{} measured, {} described", mhz(low), mhz(described)));
    }
    let highest = record.int(facts::FREQ_MAX_KHZ).filter(|khz| *khz > 0)? as f64 * 1e3;
    let boosts = record.text(facts::FREQ_BOOST) == Some("1");
    (!boosts && low > highest * (1.0 + MAX_CLOCK_DEVIATION))
        .then(|| format!("{} measured, {} is the highest frequency by the kernel", mhz(low), mhz(highest)))
}

/// Refuses a core clock that contradicts what is known of it, and with it all findings in cycles.
fn refuse_wrong_core_clock(record: &Record, report: &mut Report) {
    let Some(why) = report.find(&common::CLOCK_CORE_HZ).and_then(|clock| wrong_core_clock(record, clock))
    else {
        return;
    };
    let in_cycles = |f: &Finding| f.is(&common::CLOCK_CORE_HZ) || f.unit == "cycles";
    let count = report.findings.iter().filter(|f| in_cycles(f)).count();
    report.findings.retain(|f| !in_cycles(f));
    report.histograms.retain(|h| h.unit != "cycles");
    report.refusals.push(Refused {
        what: format!("{} and {} findings in cycles", common::CLOCK_CORE_HZ.pattern, count - 1),
        reason: format!("the calibration of the core clock is wrong: {why}"),
        remedy: "use the findings in ns; compare the clock with `perf stat -e cycles` or the description"
            .into(),
    });
}

#[cfg(test)]
mod tests {
    use fathom_analysis::claims::FactValue;
    use fathom_analysis::findings::{Coordinate, Key, Kind, Metric};
    use fathom_analysis::metrics::REGISTRY;
    use proptest::prelude::*;

    use super::*;

    use crate::reading::number;

    #[test]
    fn impossible_values_are_refused_and_others_kept() {
        let refused = [
            ("latency.8192.peak", -2.5, "cycles"),
            ("stride.512.64.read.time_per_access", -10.8, "ns"),
            ("tier.1.latency", -0.1, "ns"),
            ("walk.share", -0.06, ""),
            ("cause.quota.share", 1.2, ""),
            ("stall.stress-mix.cpu.share", 1.01, ""),
        ];
        let kept = [
            ("latency.8192.time", 0.0, "ns"),
            ("walk.share", 1.0, ""),
            ("latency.8192.order.random.time", f64::NAN, "ns"),
            ("evicted.1.2.share", f64::NAN, ""),
            ("bias.sample", -0.3, "cycles"),
            ("effect.copy", -1.0, "us"),
            ("translation.16.added", -0.2, "ns"),
            ("wakeup.user.imported-1.min", -3.0, "us"),
        ];
        let findings = refused.iter().chain(&kept).map(|(name, value, unit)| {
            number(REGISTRY.key(name).expect("a name of the schema"), *value, unit)
        });
        let mut report = Report { findings: findings.collect(), ..Report::default() };
        refuse(&Record::default(), &mut report);
        let names: Vec<String> = report.findings.iter().map(Finding::name).collect();
        assert_eq!(names, kept.map(|k| k.0));
        let names: Vec<&str> = report.refusals.iter().map(|r| r.what.as_str()).collect();
        assert_eq!(names, refused.map(|r| r.0));
        assert!(report.refusals[1].reason.contains("-10.8"), "{:?}", report.refusals[1]);
    }

    /// Returns a finding of a metric at some coordinates.
    fn any_finding(metric: &'static Metric, at: u64, [value, low, high]: [f64; 3]) -> Finding {
        let coordinate = |axis: Axis| match axis.tokens() {
            None => Coordinate::Number(1 + at),
            Some(words) => Coordinate::Word(at as usize % words.values.len(), 1),
        };
        let at = metric.axes().map(|axis| (axis, coordinate(axis))).collect();
        let finding = Finding::number(Key { metric, at }, value);
        Finding { low: Some(low), high: Some(high), ..finding }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever an experiment computes: no number outside the bounds of its metric passes, nor an end of its interval.
        /// What is within them passes, unless it contradicts another finding.
        #[test]
        fn no_impossible_number_passes(
            numbers in prop::collection::vec(
                (-1e9f64..1e9, prop::num::f64::ANY, prop::num::f64::ANY).prop_map(|(v, low, high)| [v, low, high]), 4..8),
            shares in prop::collection::vec([-1.0f64..2.0, -1.0f64..2.0, -1.0f64..2.0], 4..8),
        ) {
            let all = numbers.iter().chain(&shares).enumerate();
            let findings: Vec<Finding> = all
                .flat_map(|(at, numbers)| {
                    let metrics = REGISTRY.metrics().filter(|metric| metric.kind == Kind::Number);
                    metrics.map(move |metric| any_finding(metric, at as u64, *numbers))
                })
                .collect();
            let possible = findings.iter().filter(|f| impossible(f).is_none()).count();
            let of_tiers = |f: &&Finding| f.is(&survey::TIER_LATENCY) || f.is(&survey::TIER_LATENCY_CYCLES);
            let contradictory = findings.iter().filter(of_tiers).count();
            let mut report = Report { findings, ..Report::default() };
            refuse(&Record::default(), &mut report);
            prop_assert!(report.findings.len() <= possible && report.findings.len() + contradictory >= possible);
            for f in &report.findings {
                let bounds = f.key.metric.bounds;
                for number in [f.finite(), f.low, f.high].into_iter().flatten() {
                    prop_assert!(bounds.hold(number), "{} {number}", f.name());
                }
            }
        }
    }

    fn interval(name: &str, value: f64, width: f64, unit: &'static str) -> Finding {
        let finding = number(REGISTRY.key(name).expect("a name of the schema"), value, unit);
        Finding { low: Some(value - width), high: Some(value + width), ..finding }
    }

    #[test]
    fn tier_that_is_faster_than_a_nearer_one_is_refused() {
        let tiers = [(1, 1.5, 0.1), (2, 10.0, 1.0), (3, 8.0, 1.5), (4, 5.0, 1.0), (5, 90.0, 2.0)];
        let findings =
            tiers.map(|(tier, ns, width)| interval(&format!("tier.{tier}.latency"), ns, width, "ns"));
        let mut report = Report { findings: findings.to_vec(), ..Report::default() };
        refuse(&Record::default(), &mut report);
        // The intervals of tiers 2 and 3 overlap.
        let names: Vec<String> = report.findings.iter().map(Finding::name).collect();
        assert_eq!(names, [1, 2, 3, 5].map(|tier| format!("tier.{tier}.latency")));
        assert_eq!(report.refusals.len(), 1);
        assert!(report.refusals[0].what == "tier.4.latency" && report.refusals[0].reason.contains("tier 3"));
    }

    /// Returns the refusals if a clock of `hz` is measured and these facts are known.
    fn refusals(hz: f64, known: &[(&str, FactValue)]) -> Vec<Refused> {
        let mut record = Record::default();
        record.facts.extend(known.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let findings = vec![
            interval("clock.core_hz", hz, 1e3, "Hz"),
            interval("tier.1.latency_cycles", 4.0, 0.1, "cycles"),
            interval("tier.1.latency", 2.0, 0.1, "ns"),
        ];
        let mut report = Report { findings, ..Report::default() };
        refuse(&record, &mut report);
        assert_eq!(report.findings.len(), if report.refusals.is_empty() { 3 } else { 1 });
        assert!(report.find(survey::TIER_LATENCY.at([1u64.into()])).is_some());
        report.refusals
    }

    #[test]
    fn core_clock_that_contradicts_the_known_one_refuses_cycles() {
        let described = [(facts::CORE_HZ, FactValue::Int(1_500_000_000))];
        assert_eq!(refusals(1.51e9, &described), []);
        // An emulated Raspberry Pi 4 once calibrated to 1.548 GHz.
        for hz in [1.548e9, 1.45e9] {
            let refused = refusals(hz, &described);
            assert!(refused[0].reason.contains("1500 MHz described"), "{refused:?}");
        }
        // A neighbour may slow the core down, not speed it up.
        let beside = [described[0].clone(), (facts::DESCRIBED_NEIGHBOURS, FactValue::Int(1))];
        assert_eq!(refusals(1.2e9, &beside), []);
        assert!(refusals(1.548e9, &beside)[0].reason.contains("1500 MHz described"));
        let kernel = [(facts::FREQ_MAX_KHZ, FactValue::Int(2_000_000))];
        assert_eq!(refusals(1.2e9, &kernel), []);
        assert!(refusals(2.2e9, &kernel)[0].reason.contains("highest frequency"));
        let boost = [kernel[0].clone(), (facts::FREQ_BOOST, FactValue::Text("1".into()))];
        assert_eq!(refusals(2.2e9, &boost), []);
        assert_eq!(refusals(2.2e9, &[]), []);
    }
}
