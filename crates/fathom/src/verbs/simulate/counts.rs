//! The counts of a program or trace as what a record holds: levels, TLBs, and the worst functions and lines by name.

use std::collections::HashMap;
use std::hash::Hash;

use fathom_experiment::record::{
    Hot, Instruction, MAX_HOT, Simulated, SimulatedGuest, SimulatedLevel, SimulatedOverlap, SimulatedRegion,
    SimulatedSharing, SimulatedTlb,
};
use fathom_simulation::protocol::{Answer, End, NO_ADDRESS, OTHER_PROGRAMS};
use fathom_simulation::{MachineCounts, PlaceCounts, RegionCounts, SharingCounts};

use super::calls::{self, Calls};
use super::conversation::Ran;
use super::guest_data::GuestData;
use super::kernel::Kernel;
use super::source::Sources;
use super::why::{self, Data, Site};
use crate::failure::print_message;
use crate::program::objects::Objects;
use crate::program::symbols::{Named, Symbols, UNKNOWN};

/// Returns what each machine counted. `source`: with the source around the lines with the longest time. `kernel`: that of a guest.
pub fn simulated(ran: &Ran, source: bool, kernel: Option<&Kernel>) -> Vec<Simulated> {
    let answer = &ran.answer;
    let mut symbols = Symbols::new(&answer.mappings);
    let name =
        |pc: u64, symbols: &mut Symbols| match (ran.trace.is_empty(), kernel.and_then(|of| of.name(pc))) {
            (true, None) => symbols.instruction(pc),
            (true, Some(named)) => of_kernel(pc, named),
            (false, _) => (by_address(pc), None),
        };
    let (names, instructions): (Vec<Named>, Vec<Option<Instruction>>) =
        answer.places.iter().map(|place| name(place.pc, &mut symbols)).unzip();
    for file in symbols.changed() {
        print_message(&format!("{file} has changed since the trace was made: its functions are not named"));
    }
    let explained = answer.machines.iter().any(|machine| machine.story.is_some());
    let data = match (kernel.zip(answer.guest.as_ref()), explained && ran.trace.is_empty()) {
        (Some((kernel, guest)), true) => Data::Guest(GuestData::new(kernel, guest, &answer.mappings)),
        (None, true) => {
            Data::Objects(Objects::new(&answer.mappings, &ran.program), Site::all(&answer.heap, &mut symbols))
        }
        (_, false) => Data::Addresses,
    };
    let calls = answer.calls.as_ref().map(|tree| Calls::new(tree, |pc| name(pc, &mut symbols).0));
    let mut sources = source.then(|| Sources::new(&answer.mappings));
    let counted = |machine| {
        let mut of = of_machine(ran, machine, &names, &data);
        of.hot_instructions = hot_instructions(answer, machine, &names, &instructions);
        if let Some(calls) = &calls {
            let calls::Told { nested, merged, totals, calls } = calls.told(machine);
            of = Simulated { nested, merged, totals, calls, ..of };
        }
        if let Some(sources) = &mut sources {
            of.source = sources.around(summed(answer, machine, |number| line_of(&names[number])));
        }
        of
    };
    answer.machines.iter().map(counted).collect()
}

/// Returns the line of the source, and the file of the program, of an instruction.
fn line_of(named: &Named) -> Option<Named> {
    let (file, source) = (named.file.clone(), Some(named.source.clone()?));
    Some(Named { file, source, ..Named::default() })
}

/// Returns the name of an instruction of a trace that does not tell its program.
fn by_address(pc: u64) -> Named {
    let function = if pc == NO_ADDRESS { UNKNOWN.to_owned() } else { format!("{pc:#x}") };
    Named { function, ..Named::default() }
}

/// Returns the place of an instruction of a guest's kernel; none of what stands for other programs.
fn of_kernel(pc: u64, named: Named) -> (Named, Option<Instruction>) {
    let instruction = Instruction { address: pc, offset: pc.saturating_sub(named.at) };
    (named, (pc != OTHER_PROGRAMS).then_some(instruction))
}

fn of_machine(ran: &Ran, machine: &MachineCounts, names: &[Named], data: &Data) -> Simulated {
    let (answer, story) = (&ran.answer, machine.story.as_ref());
    let executed = answer.places.iter().map(|place| place.executed).sum();
    let instructions = if ran.all_instructions { executed } else { 0 };
    let by = |key: fn(&Named) -> Option<Named>| {
        let all = summed(answer, machine, |number| key(&names[number]));
        worst(all.into_iter().map(|(named, hot)| with_name(named, None, hot)).collect())
    };
    Simulated {
        program: ran.program.clone(),
        target: answer.target.clone(),
        trace: ran.trace.clone(),
        refused: machine.refused.clone().unwrap_or_default(),
        ended: if ran.status().success() { String::new() } else { ran.status().to_string() },
        replaced: answer.end == End::Replaced,
        threads: answer.threads.into(),
        guest: answer.guest.as_ref().map(|of| SimulatedGuest { devices: of.devices, unplaced: of.unplaced }),
        instructions,
        unseen: answer.unseen.iter().map(|(_, count)| count).sum(),
        accesses: machine.accesses,
        walks: machine.walks,
        memory: machine.memory.iter().sum(),
        memory_writes: machine.memory_writes,
        units: [
            instructions * machine.operation_units,
            machine.memory_units,
            machine.translation_units,
            machine.fetch_units,
        ],
        sharing: machine.sharing.map(sharing),
        overlap: overlap(machine),
        events: None,
        clock_hz: machine.clock_hz,
        levels: machine.levels.iter().enumerate().map(|(nth, of)| level(of, nth, machine)).collect(),
        tlbs: machine.tlbs.iter().enumerate().map(|(nth, of)| tlb(of, nth, machine)).collect(),
        functions: by(|named| Some(Named { source: None, ..named.clone() })),
        lines: by(|named| named.source.is_some().then(|| named.clone()))
            .into_iter()
            .filter(|hot| hot.units > 0)
            .collect(),
        hot_instructions: Vec::new(),
        source: Vec::new(),
        regions: regions(answer, machine),
        nested: [0; 2],
        merged: 0,
        totals: Vec::new(),
        calls: Vec::new(),
        unfollowed: story.and(answer.heap.problem.clone()).unwrap_or_default(),
        granule: story.map_or(0, |story| story.line_bytes),
        objects: story.map_or_else(Vec::new, |story| why::objects(story, machine.overlap.is_some(), data)),
        pairs: story.map_or_else(Vec::new, |story| why::pairs(&story.pairs, story.line_bytes, data, names)),
        page_pairs: story
            .map_or_else(Vec::new, |story| why::pairs(&story.page_pairs, story.line_bytes, data, names)),
    }
}

fn level(of: &fathom_simulation::LevelCounts, nth: usize, machine: &MachineCounts) -> SimulatedLevel {
    SimulatedLevel {
        name: of.name.clone(),
        holds: of.holds.clone(),
        accesses: of.accesses.iter().sum(),
        misses: of.misses(),
        writebacks: of.writebacks,
        units: of.units,
        sharing: of.sharing.map(sharing),
        reasons: machine.story.as_ref().and_then(|story| story.levels.get(nth).copied().flatten()),
    }
}

/// Returns counts as a record has them.
fn sharing(of: SharingCounts) -> SimulatedSharing {
    let SharingCounts { invalidated, transfers, upgrades } = of;
    SimulatedSharing { invalidated, transfers, upgrades }
}

fn overlap(machine: &MachineCounts) -> Option<SimulatedOverlap> {
    let (outstanding, of) = machine.outstanding.zip(machine.overlap)?;
    Some(SimulatedOverlap {
        outstanding: outstanding.into(),
        window: machine.window.unwrap_or(0).into(),
        data: of.data_units,
        fetches: of.fetch_units,
    })
}

fn tlb(of: &fathom_simulation::TlbCounts, nth: usize, machine: &MachineCounts) -> SimulatedTlb {
    let reasons = machine.story.as_ref().and_then(|story| story.tlbs.get(nth).copied());
    SimulatedTlb { name: of.name.clone(), accesses: of.accesses, misses: of.misses, reasons }
}

/// Returns the regions, the longest time first.
fn regions(answer: &Answer, machine: &MachineCounts) -> Vec<SimulatedRegion> {
    let named = |of: &RegionCounts| {
        let number = of.region as usize;
        let instruction_units = of.instructions.saturating_mul(machine.operation_units);
        SimulatedRegion {
            name: answer.regions.get(number).cloned().unwrap_or_else(|| format!("region {number}")),
            entered: of.entered,
            unmatched: of.unmatched,
            instructions: of.instructions,
            accesses: of.accesses[0] + of.accesses[1],
            walks: of.walks,
            memory: of.memory,
            units: of.units.saturating_add(instruction_units),
            entries: of.entries.map(|of| [of.least, of.median, of.p99, of.most]),
            least: of.overlap.map(|overlap| overlap.least(instruction_units)),
            reached: of.reached.clone(),
            misses: of.misses.clone(),
        }
    };
    let mut all: Vec<SimulatedRegion> = machine.regions.iter().map(named).collect();
    all.sort_by(|a, b| b.units.cmp(&a.units).then_with(|| a.name.cmp(&b.name)));
    all.truncate(MAX_HOT);
    all
}

fn with_name(named: Named, instruction: Option<Instruction>, hot: Hot) -> Hot {
    Hot { source: named.source(), function: named.function, file: named.file, instruction, ..hot }
}

/// Returns the instructions with the longest time, those that have any.
fn hot_instructions(
    answer: &Answer,
    machine: &MachineCounts,
    names: &[Named],
    instructions: &[Option<Instruction>],
) -> Vec<Hot> {
    let key = |number: usize| Some((names[number].clone(), instructions[number]?));
    let all = summed(answer, machine, key).into_iter().filter(|(_, hot)| hot.units > 0);
    worst(all.map(|((named, at), hot)| with_name(named, Some(at), hot)).collect())
}

/// Returns those with the longest time, then with the most instructions.
fn worst(mut all: Vec<Hot>) -> Vec<Hot> {
    let order = |hot: &Hot| (u64::MAX - hot.units, u64::MAX - hot.executed);
    all.sort_by(|a, b| {
        order(a)
            .cmp(&order(b))
            .then_with(|| (&a.file, &a.function, &a.source).cmp(&(&b.file, &b.function, &b.source)))
            .then_with(|| a.instruction.cmp(&b.instruction))
    });
    all.truncate(MAX_HOT);
    all
}

/// Adds up the executed instructions with the same key, which `key` returns by their numbers.
fn summed<K: Eq + Hash>(
    answer: &Answer,
    machine: &MachineCounts,
    key: impl Fn(usize) -> Option<K>,
) -> Vec<(K, Hot)> {
    let mut counts: Vec<Option<&PlaceCounts>> = vec![None; answer.places.len()];
    for place in &machine.places {
        if let Some(slot) = counts.get_mut(place.place as usize) {
            *slot = Some(place);
        }
    }
    let reasons = machine.story.as_ref().map(|story| why::by_place(story, answer.places.len()));
    let mut all: HashMap<K, Hot> = HashMap::new();
    for (number, (place, counted)) in answer.places.iter().zip(counts).enumerate() {
        let Some(key) = key(number) else { continue };
        let hot =
            all.entry(key).or_insert_with(|| Hot { misses: vec![0; machine.levels.len()], ..Hot::default() });
        hot.executed += place.executed;
        hot.accesses += place.loads + place.stores;
        if let Some(reasons) = &reasons {
            let sums = hot.reasons.get_or_insert_default();
            sums.iter_mut().zip(reasons[number]).for_each(|(sum, more)| *sum += more);
        }
        if machine.overlap.is_some() {
            *hot.overlapped.get_or_insert_default() +=
                counted.map_or(0, |of| of.overlap.data_units + of.overlap.fetch_units);
        }
        let Some(counted) = counted else { continue };
        hot.walks += counted.walks;
        hot.units += counted.units;
        hot.misses.iter_mut().zip(counted.by_level(machine)).for_each(|(sum, more)| *sum += more);
    }
    all.into_iter().filter(|(_, hot)| hot.executed > 0).collect()
}

#[cfg(test)]
mod tests {
    use fathom_simulation::{LevelCounts, OverlapCounts};

    use fathom_simulation::protocol::Place;

    use super::*;
    use crate::program::symbols::SourceLine;

    #[test]
    fn instructions_of_a_function_add_up_and_the_longest_time_is_first() {
        let named = |function: &str, source: Option<u32>| Named {
            function: function.into(),
            at: 0,
            file: "program".into(),
            source: source.map(|number| SourceLine { path: "/of/p.c".into(), number }),
        };
        let names = [named("a", Some(1)), named("b", Some(9)), named("b", Some(8)), named("unused", Some(3))];
        let place = |executed| Place { pc: 0, executed, loads: executed, stores: 1 };
        let level =
            |holds: &str| LevelCounts { name: holds.into(), holds: holds.into(), ..Default::default() };
        let missed = |place, units| PlaceCounts {
            place,
            misses: vec![units, 0, 1],
            fetch_misses: vec![0, 7, 5],
            walks: 2,
            units,
            overlap: OverlapCounts { data_units: units / 5 - 1, fetch_units: 1 },
        };
        let machine = MachineCounts {
            levels: vec![level("data"), level("instructions"), level("unified")],
            places: vec![missed(0, 30), missed(1, 20), missed(2, 15)],
            operation_units: 4096,
            outstanding: Some(5),
            overlap: Some(OverlapCounts { data_units: 13, fetch_units: 0 }),
            ..Default::default()
        };
        let places = vec![place(100), place(10), place(20), place(0)];
        let answer = Answer {
            end: End::Complete,
            status: 0,
            target: "arm".into(),
            threads: 1,
            unseen: vec![],
            places,
            mappings: vec![],
            regions: vec![],
            heap: Default::default(),
            calls: None,
            guest: None,
            machines: vec![],
        };
        let ran = Ran {
            answer,
            program: "program".into(),
            trace: String::new(),
            all_instructions: true,
            signal: None,
            elapsed_ms: 0,
        };
        let of = of_machine(&ran, &machine, &names, &Data::Addresses);
        assert_eq!((of.instructions, of.units[0]), (130, 130 * 4096));
        let functions = of.functions.iter();
        let functions: Vec<_> =
            functions.map(|hot| (&*hot.function, hot.units, hot.overlapped, hot.executed)).collect();
        assert_eq!(functions, [("b", 35, Some(7), 30), ("a", 30, Some(6), 100)]);
        let overlap = SimulatedOverlap { outstanding: 5, window: 0, data: 13, fetches: 0 };
        assert_eq!(of.overlap, Some(overlap));
        assert_eq!((of.functions[0].misses.clone(), of.functions[0].walks), (vec![35, 14, 2], 4));
        assert_eq!((of.functions[0].accesses, of.functions[0].source.as_str()), (32, ""));
        // The third is no file's.
        let at = |address, offset| Some(Instruction { address, offset });
        let hot = hot_instructions(&ran.answer, &machine, &names, &[at(16, 0), at(40, 8), None, at(64, 0)]);
        let hot: Vec<_> = hot.iter().map(|hot| (hot.instruction, hot.units, hot.executed)).collect();
        assert_eq!(hot, [(at(16, 0), 30, 100), (at(40, 8), 20, 10)]);
        let lines: Vec<_> = of.lines.iter().map(|hot| hot.source.as_str()).collect();
        assert_eq!(lines, ["p.c:1", "p.c:9", "p.c:8"]);
    }
}
