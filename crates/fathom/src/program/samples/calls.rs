//! Samples by the calls that led to them.

use std::collections::HashMap;

use fathom_experiment::record::{Instruction, MAX_HOT, Profile, ProfileCall, ProfilePlace};

use crate::program::call_tree::{Amount, Kept, RARE, Tree};
use crate::program::symbols::Named;

/// Sequences of calls that are told apart, at most.
pub const MAX_NODES: usize = 1 << 20;
/// What all stacks hang from whose begin is not known.
const UNKNOWN_CALLERS: &str = "[unknown callers]";

/// Samples and their weight.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    pub samples: u64,
    pub weight: u64,
    /// Sum of the squares of weights.
    squares: f64,
}

impl Count {
    /// One sample.
    pub fn one(weight: u64) -> Count {
        Count { samples: 1, weight, squares: weight as f64 * weight as f64 }
    }

    /// Returns the samples of equal weight that tell as much about a share.
    pub fn effective(self) -> u64 {
        let weight = self.weight as f64;
        if self.squares > 0.0 { (weight * weight / self.squares).round() as u64 } else { 0 }
    }
}

impl Amount for Count {
    fn add(&mut self, other: &Count) {
        self.samples += other.samples;
        self.weight = self.weight.saturating_add(other.weight);
        self.squares += other.squares;
    }

    fn weight(&self) -> u64 {
        self.weight
    }

    fn is_none(&self) -> bool {
        self.samples == 0
    }
}

/// Where a program executes, or has called from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Code of no file.
    Unknown,
    /// The caller of a function whose caller is not known.
    UnknownCallers,
    /// Code that is no file's, with the number of its name.
    Other(usize),
    /// Offset of a file with this number.
    At(usize, u64),
}

/// A function: those of one name in different files, or at different addresses of one, are several.
type Function = (Option<usize>, Named);

/// Counts of functions, of lines of the source, or of instructions.
type Counts = HashMap<(Function, Option<Instruction>), Count>;

/// Samples by the calls that led to them.
#[derive(Debug)]
pub struct Calls(Tree<Place, Count>);

impl Default for Calls {
    fn default() -> Calls {
        Calls(Tree::new(Place::Unknown))
    }
}

impl Calls {
    /// Adds a sample of these calls, the first one of all first. Returns false if they could not be told apart.
    pub fn add(&mut self, calls: impl Iterator<Item = Place>, count: Count) -> bool {
        let Calls(tree) = self;
        let mut at = 0;
        for place in calls {
            if tree.calls.len() >= MAX_NODES && !tree.has(at, place) {
                let unknown = tree.number(0, Place::Unknown);
                tree.calls[unknown].own.add(&count);
                return false;
            }
            at = tree.number(at, place);
        }
        tree.calls[at].own.add(&count);
        true
    }

    /// Returns functions, lines of the source, and the instructions whose place `name` tells; and, if `with_callers`, functions with
    /// all that they call, and the tree of calls. The rest of the profile is empty.
    pub fn named(
        &self,
        with_callers: bool,
        mut name: impl FnMut(Place) -> (Named, Option<Instruction>),
    ) -> Profile {
        let Calls(tree) = self;
        let mut names: HashMap<Place, (Named, Option<Instruction>)> = HashMap::new();
        let (mut functions, mut lines, mut instructions) = (Counts::new(), Counts::new(), Counts::new());
        let (mut known, mut numbers): (Vec<Function>, HashMap<Function, usize>) = Default::default();
        let mut by_name = Tree::<usize, Count>::new(usize::MAX);
        // Number in the tree of names, by that in the tree of places.
        let mut same = vec![0; tree.calls.len()];
        for (at, call) in tree.calls.iter().enumerate().skip(1) {
            let (named, instruction) = names.entry(call.place).or_insert_with(|| name(call.place)).clone();
            let file = file(call.place);
            if named.source.is_some() && call.own.samples > 0 {
                add(&mut lines, ((file, named.clone()), None), call.own);
            }
            if instruction.is_some() && call.own.samples > 0 {
                add(&mut instructions, ((file, named.clone()), instruction), call.own);
            }
            let function = (file, Named { source: None, ..named });
            if call.own.samples > 0 {
                add(&mut functions, (function.clone(), None), call.own);
            }
            let number = *numbers.entry(function.clone()).or_insert_with(|| {
                known.push(function);
                known.len() - 1
            });
            same[at] = by_name.number(same[call.caller], number);
            by_name.calls[same[at]].own.add(&call.own);
        }
        let (functions, lines, instructions) = (worst(functions), worst(lines), worst(instructions));
        let mut profile = Profile { functions, lines, instructions, ..Profile::default() };
        if with_callers {
            let totals = by_name.totals();
            let mut with_callees = Counts::new();
            for at in 1..totals.len() {
                let function = &known[by_name.calls[at].place];
                if !by_name.recurs(at) && function.1.function != UNKNOWN_CALLERS {
                    add(&mut with_callees, (function.clone(), None), totals[at]);
                }
            }
            profile.totals = worst(with_callees);
            profile.calls = by_name.kept(&totals).into_iter().map(|kept| call(kept, &known)).collect();
        }
        profile
    }
}

/// Returns the number of a place's file.
fn file(place: Place) -> Option<usize> {
    match place {
        Place::Unknown | Place::UnknownCallers => None,
        Place::Other(file) | Place::At(file, _) => Some(file),
    }
}

/// Returns the name of a caller that is not known.
pub fn unknown_callers() -> Named {
    Named { function: UNKNOWN_CALLERS.to_owned(), ..Named::default() }
}

fn add(to: &mut Counts, key: (Function, Option<Instruction>), count: Count) {
    to.entry(key).or_default().add(&count);
}

/// Returns the places with the most events.
fn worst(counts: Counts) -> Vec<ProfilePlace> {
    let place = |(((_, named), instruction), count): ((Function, _), Count)| ProfilePlace {
        source: named.source(),
        function: named.function,
        file: named.file,
        instruction,
        samples: count.samples,
        weight: count.weight,
    };
    let mut all: Vec<ProfilePlace> = counts.into_iter().map(place).collect();
    all.sort_by(|a, b| {
        let by_name =
            |p: &ProfilePlace| (p.function.clone(), p.file.clone(), p.source.clone(), p.instruction);
        b.weight.cmp(&a.weight).then_with(|| by_name(a).cmp(&by_name(b)))
    });
    all.truncate(MAX_HOT);
    all
}

/// Returns a call as a record holds it.
fn call(kept: Kept<usize, Count>, known: &[Function]) -> ProfileCall {
    let (function, file) = match kept.place {
        Some(place) => (known[place].1.function.clone(), known[place].1.file.clone()),
        None => (RARE.to_owned(), String::new()),
    };
    let Count { samples, weight, .. } = kept.own;
    ProfileCall { caller: kept.caller, function, file, samples, weight }
}

#[cfg(test)]
mod tests {
    use fathom_experiment::record::MAX_CALLS;

    use super::*;

    /// A place for each letter.
    fn place(letter: char) -> Place {
        Place::At(0, letter as u64)
    }

    fn named(place: Place) -> (Named, Option<Instruction>) {
        match place {
            Place::At(_, address) => {
                // Two addresses of one function.
                let letter = char::from(address as u8).to_ascii_lowercase();
                let named =
                    Named { function: letter.to_string(), file: "program".to_owned(), ..Named::default() };
                (named, Some(Instruction { address, offset: u64::from(letter) - address }))
            }
            _ => (unknown_callers(), None),
        }
    }

    fn of(stacks: &[(&str, u64)]) -> Profile {
        let mut calls = Calls::default();
        for (stack, samples) in stacks {
            for _ in 0..*samples {
                assert!(calls.add(stack.chars().map(place), Count::one(10)));
            }
        }
        calls.named(true, named)
    }

    fn samples(places: &[ProfilePlace]) -> Vec<(&str, u64, u64)> {
        places.iter().map(|p| (p.function.as_str(), p.samples, p.weight)).collect()
    }

    /// Returns the calls as `number of the caller, function, samples`.
    fn lines(profile: &Profile) -> Vec<(u64, &str, u64)> {
        profile.calls.iter().map(|call| (call.caller, call.function.as_str(), call.samples)).collect()
    }

    #[test]
    fn calls_are_told_apart_by_their_callers() {
        let profile = of(&[("ab", 3), ("ac", 1), ("acb", 2), ("a", 1)]);
        assert_eq!(samples(&profile.functions), [("b", 5, 50), ("a", 1, 10), ("c", 1, 10)]);
        assert_eq!(samples(&profile.totals), [("a", 7, 70), ("b", 5, 50), ("c", 3, 30)]);
        assert_eq!(lines(&profile), [(0, "a", 1), (1, "b", 3), (1, "c", 1), (3, "b", 2)]);
    }

    #[test]
    fn addresses_of_a_function_are_one_call() {
        let profile = of(&[("ab", 3), ("Ab", 1), ("AB", 1)]);
        assert_eq!(lines(&profile), [(0, "a", 0), (1, "b", 5)]);
        let instructions: Vec<_> = profile
            .instructions
            .iter()
            .map(|p| (p.function.as_str(), p.instruction.map(|at| at.offset), p.samples))
            .collect();
        assert_eq!(instructions, [("b", Some(0), 4), ("b", Some(32), 1)]);
    }

    /// A function that calls itself is in the total once.
    #[test]
    fn recursion_counts_once() {
        let profile = of(&[("abab", 3), ("ab", 1)]);
        assert_eq!(samples(&profile.totals), [("a", 4, 40), ("b", 4, 40)]);
        assert_eq!(samples(&profile.functions), [("b", 4, 40)]);
    }

    #[test]
    fn rare_calls_are_one_for_each_caller() {
        let mut calls = Calls::default();
        let many = 2 * MAX_CALLS as u64;
        for at in 0..many {
            let weight = if at < 10 { 1000 } else { 1 };
            calls.add([Place::At(1, 0), Place::At(2, at)].into_iter(), Count::one(weight));
        }
        let name = |place| match place {
            Place::At(file, at) => (Named { function: format!("{file} {at}"), at, ..Named::default() }, None),
            _ => (unknown_callers(), None),
        };
        let profile = calls.named(true, name);
        assert!(profile.calls.len() <= MAX_CALLS, "{}", profile.calls.len());
        let last = profile.calls.last().expect("some");
        assert_eq!((last.caller, last.function.as_str()), (1, RARE));
        let sum = |of: fn(&ProfileCall) -> u64| profile.calls.iter().map(of).sum::<u64>();
        assert_eq!((sum(|c| c.samples), sum(|c| c.weight)), (many, 10 * 1000 + many - 10));
        assert!(profile.calls.iter().zip(1..).all(|(call, number)| call.caller < number));
    }
}
