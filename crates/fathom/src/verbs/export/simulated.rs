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
    let has_least = simulated.calls.iter().all(|call| call.least.is_some());
    let names = ["cycles"].into_iter().chain(has_least.then_some("cycles.least"));
    let names = names.chain(["instructions", "accesses", "walks"]);
    let mut amounts: Vec<Amount> = names.map(|name| amount(name.to_owned())).collect();
    amounts.extend(simulated.levels.iter().map(|level| amount(format!("misses.{}", level.name))));
    let levels = simulated.levels.len();
    let (mut cycles, mut least) = (Cycles::default(), Cycles::default());
    let mut values = |call: &SimulatedCall| {
        let mut values = vec![cycles.next(call.units)];
        values.extend(has_least.then(|| least.next(call.least.unwrap_or(0))));
        values.extend([call.executed, call.accesses, call.walks]);
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

/// Times in whole cycles, of which each is rounded so that those so far add up to their rounded sum.
#[derive(Default)]
struct Cycles {
    units: u64,
}

impl Cycles {
    fn next(&mut self, units: u64) -> u64 {
        let before = self.rounded();
        self.units = self.units.saturating_add(units);
        self.rounded() - before
    }

    fn rounded(&self) -> u64 {
        self.units.saturating_add(UNITS_PER_CYCLE / 2) / UNITS_PER_CYCLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_cycles_add_up() {
        let mut cycles = Cycles::default();
        let third = UNITS_PER_CYCLE / 3;
        let all: Vec<u64> = [third; 9].into_iter().map(|units| cycles.next(units)).collect();
        assert_eq!(all, [0, 1, 0, 0, 1, 0, 0, 1, 0]);
        assert_eq!(cycles.next(u64::MAX), u64::MAX / UNITS_PER_CYCLE - 3);
    }
}
