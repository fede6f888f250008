//! `fathom report --against`: checks reports against a description. `fathom_model::expected` computes the expected
//! findings, and `fathom_analysis::against` compares them. These crates do not depend on each other, so the numbers are
//! passed here.

use fathom_analysis::against::{self, Described, Level, Span, Tlb};
use fathom_analysis::findings::Report;
use fathom_model::Description;
use fathom_model::expected::{Range, data_levels, expected};

use crate::failure::Failure;
use crate::subjects;

/// Adds the verdicts of a check against the description `machine` to every report.
pub fn check(named: &mut [(String, Report)], machine: &str) -> Result<(), Failure> {
    let description = subjects::description(machine)?;
    for (name, report) in named {
        let expected = described(&description, against::clock(report));
        *report = against::check(report, &expected)
            .map_err(|missing| Failure::usage(format!("{name}: {}", missing.what), missing.remedy))?;
    }
    Ok(())
}

/// Returns the findings that a survey of the described machine should give, at the measured core clock `hz` if known.
fn described(d: &Description, hz: Option<f64>) -> Described {
    let hz = hz.unwrap_or(d.core.clock_hz);
    let mut clocked = d.clone();
    clocked.core.clock_hz = hz;
    let expected_findings = expected(&clocked);
    let span = |r: Range| -> Span { (r.low, r.high) };
    let levels = data_levels(d).into_iter().zip(&expected_findings.tiers).map(|(level, tier)| {
        let size = level.size as f64;
        Level {
            name: level.name.clone(),
            latency: span(tier.cycles),
            size: tier.capacity.map_or((size, size), |c| span(c.bytes)),
            line: level.line,
            ways: level.ways,
            sets: level.sets(),
            replacement: level.replacement.word().to_owned(),
        }
    });
    let tlbs = expected_findings.tlbs.iter().map(|t| Tlb {
        nth: t.nth + 1,
        name: d.tlbs[t.nth].name.clone(),
        entries: t.entries,
        ways: d.tlbs[t.nth].ways,
        penalty: span(t.penalty),
        merged: t.hidden,
    });
    Described {
        name: d.name.clone(),
        core_hz: d.core.clock_hz,
        hz,
        levels: levels.collect(),
        memory: expected_findings.tiers.last().map_or((0.0, 0.0), |t| span(t.cycles)),
        outstanding: d.core.outstanding,
        window: d.core.window,
        set_fill: d.core.set_fill.map(|time| (time.in_cycles(hz), time.in_cycles(hz))),
        stream: expected_findings.stream.map(span),
        tlbs: tlbs.collect(),
    }
}
