//! Neighbours that take parts of the machine from CPU 0 in bursts.
//!
//! A pause and a burst alternate, in the time of CPU 0. At the beginning of a burst the neighbour draws what it takes,
//! and at the end it returns it. What several neighbours take at the same time adds up. A neighbour accesses nothing: ways
//! that it has taken are absent, memory answers later, and each cycle of the core takes longer.

use super::{Model, NO_LINE};
use crate::description::{Between, Description, Neighbour};
use crate::rng::{Rng, Use};
use crate::translate::Page;

/// Modelled time before each trial, in which the probe maps and writes its memory: 5 ms. In two records of a survey of a
/// guest (AMD EPYC "Genoa") a trial took 3 and 7 ms in the mean, and 0.2 ms in the median.
const SET_UP_NS: u64 = 5_000_000;
/// Largest loss of core clock of all neighbours together, percent.
const MAX_CLOCK_SLOWER: u64 = 90;

/// What a neighbour takes in one burst, percent.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    ways: u64,
    memory: u64,
    clock: u64,
}

/// One neighbour and the time of its next change, in units.
#[derive(Clone, Debug)]
struct Bursts {
    described: Neighbour,
    rng: Rng,
    /// What it has taken; `None` in a pause.
    taken: Option<Taken>,
    until: u64,
}

/// All neighbours of a machine.
#[derive(Clone, Debug)]
pub(super) struct Neighbours {
    all: Vec<Bursts>,
    /// The time of the next change of any.
    next: u64,
    units_hz: u128,
    /// The loss of core clock, percent.
    clock_slower: u64,
    /// The time until which cycles have been stretched, and the remainder of the division.
    stretched_to: u64,
    remainder: u64,
    /// Units that were added to the clock of CPU 0, which are no cycles of it.
    pub stretched: u64,
}

/// Draws a number from a range: first one of its octaves, then uniformly in it. So the logarithm is nearly uniform, in
/// integers.
fn draw_octave(rng: &mut Rng, range: Between) -> u64 {
    let octaves = (0..64).take_while(|n| range.least << n < range.most).count() as u64;
    if octaves == 0 {
        return range.least;
    }
    let least = range.least << rng.below(octaves);
    least + rng.below(least.min(range.most - least) + 1)
}

/// Draws a number uniformly from a range; 0 if there is none.
fn draw(rng: &mut Rng, range: Option<Between>) -> u64 {
    range.map_or(0, |range| range.least + rng.below(range.most - range.least + 1))
}

impl Neighbours {
    /// Returns the neighbours of a description, if it has any. All begin with a pause.
    pub fn new(description: &Description, seed: u64, units_hz: u128) -> Option<Box<Neighbours>> {
        let all = description.neighbours.iter().enumerate().map(|(number, described)| Bursts {
            described: described.clone(),
            rng: Rng::new(seed, Use::Neighbour, number as u64),
            // Ends at the first access, with a pause.
            taken: Some(Taken::default()),
            until: 0,
        });
        let neighbours = Neighbours {
            all: all.collect(),
            next: 0,
            units_hz,
            clock_slower: 0,
            stretched_to: 0,
            remainder: 0,
            stretched: 0,
        };
        (!neighbours.all.is_empty()).then(|| Box::new(neighbours))
    }

    fn units(units_hz: u128, ns: u64) -> u64 {
        u64::try_from(u128::from(ns) * units_hz / 1_000_000_000).unwrap_or(u64::MAX)
    }

    /// Returns the units by which the time until `clock` is longer, because the core was slower.
    fn stretch(&mut self, clock: u64) -> u64 {
        let passed = clock.saturating_sub(self.stretched_to);
        let (product, divisor) = (passed * self.clock_slower + self.remainder, 100 - self.clock_slower);
        let more = product / divisor;
        self.remainder = product % divisor;
        self.stretched_to = clock + more;
        self.stretched += more;
        more
    }

    /// Lets time pass until `clock` in which the core does nothing.
    pub fn idle_until(&mut self, clock: u64) {
        self.stretched_to = clock;
    }

    /// Begins and ends the bursts that are due at `clock`.
    fn change(&mut self, clock: u64) {
        for one in &mut self.all {
            while one.until <= clock {
                let (rng, described) = (&mut one.rng, &one.described);
                let ends = one.taken.is_some();
                let lasts = draw_octave(rng, if ends { described.pauses } else { described.bursts });
                one.taken = (!ends).then(|| Taken {
                    ways: draw(rng, described.ways_taken),
                    memory: draw(rng, described.memory_slower),
                    clock: draw(rng, described.clock_slower),
                });
                one.until = one.until.saturating_add(Neighbours::units(self.units_hz, lasts).max(1));
            }
        }
        self.next = self.all.iter().map(|one| one.until).min().unwrap_or(u64::MAX);
        self.clock_slower = self.sum(|taken, _| taken.clock).min(MAX_CLOCK_SLOWER);
    }

    /// Returns the sum over what is taken.
    fn sum(&self, of: impl Fn(&Taken, &Neighbour) -> u64) -> u64 {
        self.all.iter().filter_map(|one| Some(of(one.taken.as_ref()?, &one.described))).sum()
    }

    /// Returns the ways taken of a store of `ways` ways, if the neighbours that `takes` selects take it.
    fn ways(&self, ways: u32, takes: impl Fn(&Neighbour) -> bool) -> usize {
        self.sum(|taken, one| if takes(one) { taken.ways * u64::from(ways) / 100 } else { 0 }) as usize
    }
}

impl Model {
    /// Returns whether neighbours are described.
    pub(super) fn has_neighbours(&self) -> bool {
        self.neighbours.is_some()
    }

    /// Lets the neighbours act until the time of CPU 0. Never inlined, to keep the loops of loads small.
    #[inline(never)]
    pub(crate) fn run_neighbours(&mut self) {
        let Some(neighbours) = &mut self.neighbours else { return };
        let clock = &mut self.agents[0].clock;
        if neighbours.clock_slower > 0 {
            *clock += neighbours.stretch(*clock);
        }
        if *clock >= neighbours.next {
            neighbours.idle_until(*clock);
            neighbours.change(*clock);
            self.apply_neighbours();
        }
    }

    /// Puts in force what the neighbours have taken.
    fn apply_neighbours(&mut self) {
        let Some(neighbours) = self.neighbours.take() else { return };
        for (index, level) in self.description.levels.iter().enumerate() {
            let taken = neighbours.ways(level.ways, |one| one.levels.contains(&level.name));
            self.hierarchy.take_ways(0, index, taken);
        }
        for (tlb, store) in self.description.tlbs.iter().zip(&mut self.agents[0].tlbs.stores) {
            store.leave(neighbours.ways(tlb.ways, |one| one.tlbs.contains(&tlb.name)));
        }
        // Memory keeps its own time: with a slower core it takes fewer of the core's cycles.
        let slower = neighbours.sum(|taken, _| taken.memory);
        self.memory.slow_down(((100 + slower) * (100 - neighbours.clock_slower), 10_000));
        for agent in &mut self.agents {
            (agent.tlbs.last, agent.tlbs.last_cost) = (Page::NONE, 0);
            agent.last_line = NO_LINE;
        }
        self.neighbours = Some(neighbours);
    }

    /// Lets the time of a trial's set-up pass, if there are neighbours. Without them its length has no effect.
    pub(crate) fn set_up_trial(&mut self) {
        self.run_neighbours();
        let Some(neighbours) = &mut self.neighbours else { return };
        let clock = &mut self.agents[0].clock;
        *clock += Neighbours::units(neighbours.units_hz, SET_UP_NS);
        neighbours.idle_until(*clock);
        self.run_neighbours();
    }
}
