//! Refuses findings outside the physical bounds of their metric: a time below zero, a share above 1.

use fathom_analysis::findings::{Finding, Refused, Report, Value};

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

/// Moves impossible findings to the refusals, with the reason.
pub(crate) fn refuse_impossible(report: &mut Report) {
    let findings = std::mem::take(&mut report.findings);
    for finding in findings {
        let Some(why) = impossible(&finding) else {
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

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_analysis::metrics::REGISTRY;

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
        refuse_impossible(&mut report);
        let names: Vec<String> = report.findings.iter().map(Finding::name).collect();
        assert_eq!(names, kept.map(|k| k.0));
        let names: Vec<&str> = report.refusals.iter().map(|r| r.what.as_str()).collect();
        assert_eq!(names, refused.map(|r| r.0));
        assert!(report.refusals[1].reason.contains("-10.8"), "{:?}", report.refusals[1]);
    }
}
