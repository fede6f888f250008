//! Findings about the calls of a program.

use fathom_analysis::findings::{Detail, Finding, Item, Metric};
use fathom_analysis::metrics::simulate as metrics;

use super::overlap;
use crate::calls::{LEAST_CALL, with_callees};
use crate::record::{Simulated, SimulatedCall};

/// Returns functions with all that they call, and the calls with their callees, without those that are too rare to be seen in a
/// figure.
pub(super) fn calls(simulated: &Simulated) -> Vec<Finding> {
    let ranked = simulated.totals.iter().zip(1u64..);
    let mut all: Vec<Finding> =
        ranked.filter_map(|(total, rank)| of_call(&metrics::TOTAL_SHARE, total, rank, simulated)).collect();
    let callers: Vec<u64> = simulated.calls.iter().map(|call| call.caller).collect();
    let whole = |of: &dyn Fn(&SimulatedCall) -> u64| with_callees(&callers, simulated.calls.iter().map(of));
    let (executed, accesses) = (whole(&|call| call.executed), whole(&|call| call.accesses));
    let (walks, units) = (whole(&|call| call.walks), whole(&|call| call.units));
    let misses: Vec<Vec<u64>> = (0..simulated.levels.len())
        .map(|level| whole(&|call| call.misses.get(level).copied().unwrap_or(0)))
        .collect();
    let least = simulated.calls.iter().all(|call| call.least.is_some());
    let least = least.then(|| whole(&|call| call.least.unwrap_or(0)));
    let rare = LEAST_CALL * super::all_units(simulated) as f64;
    for (at, call) in simulated.calls.iter().enumerate().filter(|(at, _)| units[*at] as f64 >= rare) {
        let call = SimulatedCall {
            executed: executed[at],
            accesses: accesses[at],
            walks: walks[at],
            units: units[at],
            least: least.as_ref().map(|least| least[at]),
            misses: misses.iter().map(|of| of[at]).collect(),
            ..call.clone()
        };
        if let Some(mut finding) = of_call(&metrics::CALL_SHARE, &call, at as u64 + 1, simulated) {
            finding.detail.set(metrics::CALLER, Item::Number(call.caller as f64));
            all.push(finding);
        }
    }
    all.extend(least.iter().flat_map(|least| by_least(simulated, least)));
    all
}

/// Returns the calls by their parts of the least time, which `least` has with their callees.
fn by_least(simulated: &Simulated, least: &[u64]) -> Vec<Finding> {
    let Some(all) = overlap::least_units(simulated).filter(|all| *all > 0) else { return Vec::new() };
    let rare = LEAST_CALL * all as f64;
    let calls = simulated.calls.iter().zip(least).zip(1u64..);
    let shown = calls.filter(|((_, least), _)| **least as f64 >= rare && **least <= all);
    let finding = |((call, &least), number): ((&SimulatedCall, &u64), u64)| {
        let share = least as f64 / all as f64;
        let mut finding = Finding::number(metrics::CALL_LEAST_SHARE.at([number.into()]), share);
        name(&mut finding.detail, call);
        finding.detail.set(metrics::CALLER, Item::Number(call.caller as f64));
        finding.detail.set(metrics::LEAST_PART, Item::Number(super::cycles(least)));
        finding
    };
    shown.map(finding).collect()
}

/// Adds the function and the file of a call.
fn name(detail: &mut Detail, call: &SimulatedCall) {
    detail.set(metrics::FUNCTION, Item::Token(call.function.clone()));
    if !call.file.is_empty() {
        detail.set(metrics::FILE, Item::Token(call.file.clone()));
    }
}

/// Returns the row of a call; `None` if a record claims more than there is.
fn of_call(
    metric: &'static Metric,
    call: &SimulatedCall,
    number: u64,
    simulated: &Simulated,
) -> Option<Finding> {
    let all = super::all_units(simulated);
    if all == 0 || call.units > all {
        return None;
    }
    let mut finding = Finding::number(metric.at([number.into()]), call.units as f64 / all as f64);
    let detail = &mut finding.detail;
    name(detail, call);
    detail.set(metrics::TIME, Item::Number(super::cycles(call.units)));
    if let Some(least) = call.least {
        detail.set(metrics::LEAST_PART, Item::Number(super::cycles(least)));
    }
    detail.set(metrics::EXECUTED, Item::Number(call.executed as f64));
    detail.set(metrics::ACCESSES, Item::Number(call.accesses as f64));
    detail.set(metrics::MISSES, super::by_level(simulated, &call.misses));
    detail.set(metrics::WALKS, Item::Number(call.walks as f64));
    Some(finding)
}

/// Tells what calls are not told apart, with the remedy.
pub(super) fn merged(simulated: &Simulated) -> Option<(String, &'static str)> {
    let [deepest, told] = simulated.nested;
    let mut parts = Vec::new();
    if deepest >= told && told > 0 {
        parts.push(format!("calls are nested up to {deepest} deep, and are told apart up to {told}"));
    }
    if simulated.merged > 0 {
        parts.push(format!(
            "{} calls are counted as their callers, because there are too many",
            simulated.merged
        ));
    }
    (!parts.is_empty()).then(|| (parts.join("; "), "take the functions, whose counts are not concerned"))
}
