//! The graph of uses between modules, and its cycles.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Module, Names};

/// Modules by path, each with the modules that it uses.
pub struct Graph {
    names: Vec<Names>,
    uses: Vec<BTreeSet<usize>>,
}

/// Maximum number of re-exports that are followed; no path has more.
const DEPTH: usize = 16;

impl Graph {
    /// Returns the graph of a crate. A parent and its descendants may use each other: such uses are not edges.
    pub fn of(modules: &[Module]) -> Graph {
        let places: BTreeMap<&Names, usize> = modules.iter().enumerate().map(|(n, m)| (&m.path, n)).collect();
        let uses = modules
            .iter()
            .enumerate()
            .map(|(from, module)| {
                let reached = module.uses.iter().filter_map(|path| target(modules, &places, path, DEPTH));
                reached.filter(|to| !related(&modules[from].path, &modules[*to].path)).collect()
            })
            .collect();
        Graph { names: modules.iter().map(|m| m.path.clone()).collect(), uses }
    }

    /// Returns the number of edges.
    pub fn edges(&self) -> usize {
        self.uses.iter().map(BTreeSet::len).sum()
    }

    /// Returns the sets of modules that all reach each other, each sorted.
    pub fn circles(&self) -> Vec<Vec<String>> {
        let reached = |from: usize| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
            while let Some(at) = open.pop() {
                open.extend(self.uses[at].iter().copied().filter(|to| seen.insert(*to)));
            }
            seen
        };
        let reached: Vec<BTreeSet<usize>> = (0..self.names.len()).map(reached).collect();
        let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
        for (from, all) in reached.iter().enumerate() {
            let mut circle: Vec<String> = all
                .iter()
                .filter(|to| reached[**to].contains(&from))
                .map(|to| self.names[*to].join("::"))
                .collect();
            circle.sort();
            if !circle.is_empty() {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }
}

/// Returns whether the modules are equal or one contains the other.
fn related(a: &Names, b: &Names) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

/// Returns the module that a path from the root leads to: the deepest one in the path, or the one that a re-export
/// leads to.
fn target(modules: &[Module], places: &BTreeMap<&Names, usize>, path: &Names, depth: usize) -> Option<usize> {
    let known = (0..=path.len()).rev().find(|n| places.contains_key(&path[..*n].to_vec()))?;
    let at = *places.get(&path[..known].to_vec())?;
    let rest = &path[known..];
    let Some(first) = rest.first() else { return Some(at) };
    match modules[at].names.get(first) {
        Some(named) if depth > 0 => {
            let path = [&named[..], &rest[1..]].concat();
            target(modules, places, &path, depth - 1).or(Some(at))
        }
        _ => Some(at),
    }
}
