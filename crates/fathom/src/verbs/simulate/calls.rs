//! The calls of a program, as what a record holds.

use std::collections::HashMap;

use fathom_experiment::record::{MAX_HOT, SimulatedCall};
use fathom_simulation::calls::{CallTree, MAX_DEPTH};
use fathom_simulation::{MachineCounts, OverlapCounts, PlaceCounts};

use crate::program::call_tree::{Amount, Kept, RARE, Tree};
use crate::program::symbols::Named;

/// The calls of a program with the names of their functions.
pub struct Calls<'a> {
    tree: &'a CallTree,
    /// Functions by number, and the number of that of each call.
    functions: Vec<Named>,
    of_call: Vec<usize>,
}

/// What is counted of a call.
#[derive(Clone, Debug, Default)]
struct Cost {
    executed: u64,
    accesses: u64,
    walks: u64,
    units: u64,
    /// Its part of the least time, if that is described.
    least: Option<u64>,
    misses: Vec<u64>,
}

impl Amount for Cost {
    fn add(&mut self, other: &Cost) {
        self.executed += other.executed;
        self.accesses += other.accesses;
        self.walks += other.walks;
        self.units += other.units;
        if let Some(more) = other.least {
            *self.least.get_or_insert_default() += more;
        }
        self.misses.resize(self.misses.len().max(other.misses.len()), 0);
        self.misses.iter_mut().zip(&other.misses).for_each(|(sum, more)| *sum += more);
    }

    fn weight(&self) -> u64 {
        self.units
    }

    fn is_none(&self) -> bool {
        self.executed == 0 && self.units == 0
    }
}

/// What a record holds of calls.
#[derive(Debug, Default)]
pub struct Told {
    /// The most calls within one another, and how many of them are told apart.
    pub nested: [u64; 2],
    /// Calls that are counted as their callers.
    pub merged: u64,
    /// Functions with all that they call.
    pub totals: Vec<SimulatedCall>,
    /// Calls.
    pub calls: Vec<SimulatedCall>,
}

impl Calls<'_> {
    /// Finds the names of the functions. `name` returns that of an address.
    pub fn new(tree: &CallTree, mut name: impl FnMut(u64) -> Named) -> Calls<'_> {
        let (mut functions, mut numbers) = (Vec::new(), HashMap::new());
        let mut number = |pc| {
            let function = Named { source: None, ..name(pc) };
            *numbers.entry(function).or_insert_with_key(|function| {
                functions.push(function.clone());
                functions.len() - 1
            })
        };
        let of_call = tree.calls.iter().map(|call| number(call.pc)).collect();
        Calls { tree, functions, of_call }
    }

    /// Returns what a machine has counted.
    pub fn told(&self, machine: &MachineCounts) -> Told {
        let tree = self.costs(machine);
        let totals = tree.totals();
        let mut by_function: HashMap<usize, Cost> = HashMap::new();
        for (at, total) in totals.iter().enumerate().skip(1).filter(|(at, _)| !tree.recurs(*at)) {
            by_function.entry(tree.calls[at].place).or_default().add(total);
        }
        let whole = by_function.into_iter().map(|(place, own)| Kept { caller: 0, place: Some(place), own });
        let mut whole: Vec<SimulatedCall> = whole.map(|kept| self.call(kept)).collect();
        whole.sort_by(|a, b| {
            b.units.cmp(&a.units).then_with(|| (&a.function, &a.file).cmp(&(&b.function, &b.file)))
        });
        whole.truncate(MAX_HOT);
        Told {
            nested: [self.tree.deepest, MAX_DEPTH as u64],
            merged: self.tree.merged,
            totals: whole,
            calls: tree.kept(&totals).into_iter().map(|kept| self.call(kept)).collect(),
        }
    }

    /// Returns the calls with what was counted in each, without its callees.
    fn costs(&self, machine: &MachineCounts) -> Tree<usize, Cost> {
        let executed: u64 = self.tree.calls.iter().map(|call| call.executed).sum();
        let longest = machine.overlap.map(|of| of.longest(executed * machine.operation_units));
        let counts: HashMap<u64, &PlaceCounts> = machine.calls.iter().map(|of| (of.place, of)).collect();
        let mut tree = Tree::<usize, Cost>::new(usize::MAX);
        // Number in the tree of names, by that in the tree of addresses.
        let mut same = vec![0; self.tree.calls.len()];
        for (number, call) in self.tree.calls.iter().enumerate().skip(1) {
            let missed = counts.get(&(number as u64)).copied();
            let [loads, stores] = [0, 1].map(|kind: usize| {
                let made = machine.call_accesses.get(number).map_or(0, |made| made[kind]);
                made + call.repeated[kind]
            });
            let hits = loads * machine.hit_units[0] + stores * machine.hit_units[1];
            let beyond = missed.map_or(0, |of| of.units);
            let instruction_units = call.executed * machine.operation_units;
            let overlap = missed.map_or_else(OverlapCounts::default, |of| of.overlap);
            let cost = Cost {
                executed: call.executed,
                accesses: loads + stores,
                walks: missed.map_or(0, |of| of.walks),
                units: instruction_units + hits + beyond,
                least: longest.map(|side| overlap.of(side, instruction_units)),
                misses: missed.map_or_else(|| vec![0; machine.levels.len()], |of| of.by_level(machine)),
            };
            same[number] = tree.number(same[call.caller as usize], self.of_call[number]);
            tree.calls[same[number]].own.add(&cost);
        }
        tree
    }

    fn call(&self, kept: Kept<usize, Cost>) -> SimulatedCall {
        let (function, file) = match kept.place {
            Some(place) => (self.functions[place].function.clone(), self.functions[place].file.clone()),
            None => (RARE.to_owned(), String::new()),
        };
        let Cost { executed, accesses, walks, units, least, misses } = kept.own;
        SimulatedCall { caller: kept.caller, function, file, executed, accesses, walks, units, least, misses }
    }
}
