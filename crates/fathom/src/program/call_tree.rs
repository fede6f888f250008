//! Trees of calls, and what of them a record holds.

use std::collections::HashMap;
use std::hash::Hash;

use fathom_experiment::record::MAX_CALLS;

/// Name of calls that are too rare to be told apart.
pub const RARE: &str = "[rare calls]";

/// What is counted of a call.
pub trait Amount: Clone + Default {
    /// Adds another one.
    fn add(&mut self, other: &Self);
    /// Returns what calls are compared by.
    fn weight(&self) -> u64;
    /// Returns whether nothing was counted.
    fn is_none(&self) -> bool;
}

/// A call: who called, and from where, or where it executed.
#[derive(Debug)]
pub struct Call<P, A> {
    /// Number of the call before it; the first call of all is its own.
    pub caller: usize,
    /// Where it is.
    pub place: P,
    /// What is counted in it, without what is in its callees.
    pub own: A,
}

/// A tree of calls. Callers come before callees.
#[derive(Debug)]
pub struct Tree<P, A> {
    /// By number.
    pub calls: Vec<Call<P, A>>,
    numbers: HashMap<(usize, P), usize>,
}

/// A call that a record holds.
#[derive(Clone, Debug)]
pub struct Kept<P, A> {
    /// Number of the call that made it, from 1; 0 if none did.
    pub caller: u64,
    /// Where it is; `None` stands for all rare callees of the caller.
    pub place: Option<P>,
    /// What is counted in it.
    pub own: A,
}

impl<P: Copy + Eq + Hash, A: Amount> Tree<P, A> {
    /// Creates it with a first call, which has no caller.
    pub fn new(root: P) -> Tree<P, A> {
        let root = Call { caller: 0, place: root, own: A::default() };
        Tree { calls: vec![root], numbers: HashMap::new() }
    }

    /// Returns whether a call is known.
    pub fn has(&self, caller: usize, place: P) -> bool {
        self.numbers.contains_key(&(caller, place))
    }

    /// Returns the number of a call.
    pub fn number(&mut self, caller: usize, place: P) -> usize {
        let next = self.calls.len();
        let number = *self.numbers.entry((caller, place)).or_insert(next);
        if number == next {
            self.calls.push(Call { caller, place, own: A::default() });
        }
        number
    }

    /// Returns what is counted in each call and its callees.
    pub fn totals(&self) -> Vec<A> {
        let mut totals: Vec<A> = self.calls.iter().map(|call| call.own.clone()).collect();
        for at in (1..self.calls.len()).rev() {
            let of_callee = totals[at].clone();
            totals[self.calls[at].caller].add(&of_callee);
        }
        totals
    }

    /// Returns whether a call is of the same place as one of its callers.
    pub fn recurs(&self, at: usize) -> bool {
        let mut caller = self.calls[at].caller;
        while caller != 0 {
            if self.calls[caller].place == self.calls[at].place {
                return true;
            }
            caller = self.calls[caller].caller;
        }
        false
    }

    /// Returns the calls with the most weight, callers before callees; the others of each caller as one. Together they have
    /// everything that is counted in calls.
    pub fn kept(&self, totals: &[A]) -> Vec<Kept<P, A>> {
        let mut order: Vec<usize> = (1..totals.len()).filter(|at| !totals[*at].is_none()).collect();
        // A caller has at least as much as its callees, and comes first.
        order.sort_by_key(|at| (std::cmp::Reverse(totals[*at].weight()), *at));
        // Each may get one more for its rare callees, and so may the first call of all.
        let mut most: Vec<usize> = order.iter().copied().take(MAX_CALLS / 2 - 1).collect();
        most.sort_unstable();
        let mut numbers: HashMap<usize, u64> = HashMap::from([(0, 0)]);
        let mut kept = Vec::new();
        for at in most {
            let call = &self.calls[at];
            let caller = numbers.get(&call.caller).copied().unwrap_or(0);
            kept.push(Kept { caller, place: Some(call.place), own: call.own.clone() });
            numbers.insert(at, kept.len() as u64);
        }
        let mut rare: Vec<(u64, A)> = Vec::new();
        let mut positions: HashMap<u64, usize> = HashMap::new();
        for at in order.into_iter().skip(MAX_CALLS / 2 - 1) {
            // One whose caller is rare too is in that one's count.
            let Some(caller) = numbers.get(&self.calls[at].caller) else { continue };
            let position = *positions.entry(*caller).or_insert(rare.len());
            if position == rare.len() {
                rare.push((*caller, A::default()));
            }
            rare[position].1.add(&totals[at]);
        }
        kept.extend(rare.into_iter().map(|(caller, own)| Kept { caller, place: None, own }));
        kept
    }
}
