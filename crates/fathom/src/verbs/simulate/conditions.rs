//! The counts that `--fail-if` and `--best-of` name, checked before the program runs.

use std::collections::BTreeSet;

use fathom_experiment::record::{
    Record, Simulated, SimulatedLevel, SimulatedOverlap, SimulatedRegion, SimulatedTlb,
};
use fathom_experiment::simulate::quantity::Quantity;
use fathom_simulation::Note;

use super::machines::Machine;
use super::program::Program;
use super::{Options, record};
use crate::failure::Failure;
use crate::records;

/// Returns the counts that options name, with the option.
fn named(options: &Options) -> impl Iterator<Item = (&'static str, &Quantity)> {
    let limits = options.fail_if.iter().map(|limit| ("--fail-if", &limit.quantity));
    limits.chain(options.best_of.iter().map(|quantity| ("--best-of", quantity)))
}

/// Checks that a program has the regions that the options name, before it runs. Those of a trace and of libraries are not
/// known before.
pub fn check_regions(options: &Options, program: &Program) -> Result<(), Failure> {
    let mut named =
        named(options).filter_map(|(option, of)| Some((option, of, of.region.as_ref()?))).peekable();
    if named.peek().is_none() || program.is_dynamic {
        return Ok(());
    }
    let names: BTreeSet<String> = Note::all_of(&program.path).into_iter().map(|note| note.region).collect();
    let Some((option, of, region)) = named.find(|(_, _, region)| !names.contains(*region)) else {
        return Ok(());
    };
    let what = format!("{option} '{}': {} marks no region '{region}'", of.text, program.name());
    Err(Failure::usage(
        what,
        match Vec::from_iter(names).join(", ") {
            none if none.is_empty() => "mark it with FATHOM_BEGIN and FATHOM_END of fathom.h".to_owned(),
            names => format!("its regions are {names}"),
        },
    ))
}

/// Checks that each machine has what the options name, before the program runs.
pub fn check_limits(options: &Options, common: &record::Common, machines: &[Machine]) -> Result<(), Failure> {
    for Machine { name, description, .. } in machines {
        let level = |level: &fathom_model::description::Level| SimulatedLevel {
            name: level.name.clone(),
            holds: level.holds.word().to_owned(),
            ..SimulatedLevel::default()
        };
        let tlb = |tlb: &fathom_model::description::Tlb| SimulatedTlb {
            name: tlb.name.clone(),
            ..Default::default()
        };
        let overlap = description.core.outstanding.map(|outstanding| SimulatedOverlap {
            outstanding: outstanding.into(),
            ..SimulatedOverlap::default()
        });
        let zeros = vec![0; description.levels.len()];
        let region = |(_, of): (&str, &Quantity)| {
            let (reached, misses) = (zeros.clone(), zeros.clone());
            let name = of.region.clone()?;
            let least = overlap.map(|_| 0);
            Some(SimulatedRegion { name, entered: 1, least, reached, misses, ..SimulatedRegion::default() })
        };
        let nothing = Simulated {
            regions: named(options).filter_map(region).collect(),
            levels: description.levels.iter().map(level).collect(),
            tlbs: description.tlbs.iter().map(tlb).collect(),
            overlap,
            ..Simulated::default()
        };
        let lines = record::lines(common, description, name, &nothing)?;
        let record = Record::parse(&lines.join("\n")).map_err(|e| Failure::new(e, ""))?;
        let report = records::judged(&record)?;
        for (option, of) in named(options) {
            of.of(&report).map_err(|why| Failure::usage(format!("{option} {why} ({name})"), ""))?;
        }
    }
    Ok(())
}
