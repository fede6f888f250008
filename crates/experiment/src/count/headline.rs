//! Headline of `fathom count`: the time, and what the counters say about it.

use fathom_analysis::findings::{Finding, Report};
use fathom_analysis::metrics::count as metrics;
use fathom_report::Headline;

use crate::headline::{figure, headline as of_report, none};

pub(crate) fn headline(report: &Report) -> Headline {
    let find = |metric| report.find(metric).filter(|finding| finding.finite().is_some());
    let event = |name: &str| report.findings.iter().find(|f| f.key == metrics::COUNT.at([name.into()]));
    let mut quoted: Vec<&Finding> = Vec::new();
    let mut parts: Vec<String> = Vec::new();
    if let (Some(wall), Some(cpu)) = (find(&metrics::WALL), find(&metrics::CPU)) {
        parts.push(format!("a run takes {}, {} of it on a CPU", figure(wall), figure(cpu)));
        quoted.extend([wall, cpu]);
    }
    if let Some(instructions) = event("instructions") {
        let per_cycle = find(&metrics::PER_CYCLE);
        let rate = per_cycle.map(|f| format!(", {} a cycle", figure(f))).unwrap_or_default();
        parts.push(format!("{:.0} instructions{rate}", instructions.finite().unwrap_or(0.0)));
        quoted.push(instructions);
        quoted.extend(per_cycle);
    }
    if parts.is_empty() {
        return none(report);
    }
    let uncounted = report.of(&metrics::COUNT).next().is_none();
    let action = if uncounted {
        "No event of the processor was counted (below): `fathom simulate -- PROGRAM` counts misses on described machines"
    } else {
        ""
    };
    of_report(report, &parts.join("; "), &quoted, action)
}
