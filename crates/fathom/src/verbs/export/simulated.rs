//! The calls of a simulated program.

use fathom_experiment::record::{Record, Simulated, SimulatedCall};

use super::{Amount, Exported, Sequence, callers, with_others};
use crate::failure::Failure;

/// Units of a record's times per cycle.
const UNITS_PER_CYCLE: u64 = fathom_model::UNITS_PER_CYCLE;

/// Returns what is exported of a simulated program. `file` is the record's.
pub fn exported<'a>(
    record: &'a Record,
    simulated: &'a Simulated,
    file: &str,
) -> Result<Exported<'a>, Failure> {
    if simulated.calls.is_empty() {
        return Err(Failure::usage(
            format!("{file}: the record has no calls"),
            "simulate it again, with --calls",
        ));
    }
    let amount = |name: String| Amount { name, unit: "count" };
    let mut amounts: Vec<Amount> =
        ["cycles", "instructions", "accesses", "walks"].map(|name| amount(name.to_owned())).to_vec();
    amounts.extend(simulated.levels.iter().map(|level| amount(format!("misses.{}", level.name))));
    let levels = simulated.levels.len();
    let values = |call: &SimulatedCall| {
        let mut values = vec![cycles(call.units), call.executed, call.accesses, call.walks];
        values.extend((0..levels).map(|level| call.misses.get(level).copied().unwrap_or(0)));
        values
    };
    let call =
        |at: usize| simulated.calls.get(at).map(|of| (of.function.as_str(), of.file.as_str(), of.caller));
    let counted = simulated.calls.iter().enumerate().filter(|(_, call)| call.executed > 0 || call.units > 0);
    let sequences: Vec<Sequence> =
        counted.map(|(at, of)| Sequence { calls: callers(at, call), values: values(of) }).collect();
    Ok(Exported {
        program: &simulated.program,
        command: record.run.as_ref().map_or("", |run| run.command.as_str()),
        shown: 0,
        period: (amounts[0].clone(), 1),
        sequences: with_others(sequences, &[]),
        amounts,
        duration_ns: 0,
        step_ns: (1_000_000_000 / simulated.clock_hz.max(1)).max(1),
    })
}

/// Returns whole cycles.
fn cycles(units: u64) -> u64 {
    units.saturating_add(UNITS_PER_CYCLE / 2) / UNITS_PER_CYCLE
}
