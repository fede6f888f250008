//! Two chains with instructions between their loads: the time of golden cases by arithmetic, and that of random machines by the reference
//! model and a search over all loads before each one.

mod common;
#[allow(dead_code, reason = "each test binary uses its part")]
#[path = "common/reference.rs"]
mod reference;

use common::{Draw, random_description};
use fathom_model::description::{Holds, Time};
use fathom_model::{Description, Kind, Model, UNITS_PER_CYCLE, catalog};
use fathom_probe::chain::{Chain, Layout, Order};
use fathom_probe::machine::{Attribute, Machine, MapRequest, Pages};
use fathom_probe::pattern::{self, Memory, SpacedChains, Trial};
use reference::Reference;

/// Returns a machine whose loads of memory take 100 cycles and instructions nothing.
fn plain() -> Description {
    let mut d = catalog::load("bcm2835").expect("embedded").expect("valid");
    (d.tlbs, d.walk) = (Vec::new(), None);
    d.levels.retain(|level| level.holds == Holds::Data);
    d.levels.truncate(1);
    (d.memory.latency, d.memory.spread) = (Time::cycles(100.0), Time::ZERO);
    (d.memory.rows, d.memory.refresh) = (None, None);
    (d.core.alu, d.core.branch) = (Time::ZERO, Time::ZERO);
    (d.core.outstanding, d.core.window) = (Some(2), Some(40));
    d
}

/// Returns the cells of a mapped chain at these positions, on a new machine.
fn begun(d: &Description, seed: u64, cells: u64) -> (Model, Chain) {
    let mut model = Model::new(d, seed);
    let request =
        MapRequest { bytes: 64 * cells, pages: Pages::Base, attribute: Attribute::WriteBack, place: seed };
    let mapping = model.map(&request).expect("memory");
    let chain = Chain::new(mapping.base, cells, 64, Layout::Packed, Order::Random, seed);
    model.initialise(&chain).expect("it fits");
    (model, chain)
}

/// Returns the cycles of a step.
fn step(d: &Description, fillers: u64) -> f64 {
    let (mut model, chain) = begun(d, 3, 1 << 14);
    let mut cells = [0, 5000].map(|at| model.cell(chain.at(at)).expect("a cell"));
    let before = model.clock();
    model.chase_spaced(&mut cells, fillers, 1000).expect("described");
    assert_eq!(cells.map(|cell| model.offset(cell)), [1000, 6000].map(|at| chain.at(at)));
    (model.clock() - before) as f64 / 1000.0 / UNITS_PER_CYCLE as f64
}

#[test]
fn a_step_takes_one_latency_within_the_window_and_two_beyond() {
    let mut d = plain();
    for window in [4, 40, 448] {
        d.core.window = Some(window);
        let last = u64::from(window) - 2;
        assert_eq!(
            [2, last, last + 1, last + 50].map(|fillers| step(&d, fillers)),
            [100.0, 100.0, 200.0, 200.0]
        );
    }
    // Instructions pass meanwhile: two times 41 of a cycle each, and then two times 131.
    (d.core.alu, d.core.window) = (Time::cycles(1.0), Some(400));
    assert_eq!([40, 130].map(|fillers| step(&d, fillers)), [100.0, 262.0]);
    // A core that waits for each load has no pair.
    d.core.outstanding = Some(1);
    assert_eq!(step(&d, 2), 200.0);
}

/// The rules of `Overlap`, by a search: returns when all loads are complete.
fn complete(costs: &[u64], fillers: u64, outstanding: usize, window: u64) -> u64 {
    let mut made: Vec<(u64, u64)> = Vec::new();
    for (nth, cost) in costs.iter().enumerate() {
        let possible = |time: u64| {
            let under_way = made.iter().filter(|(_, complete)| *complete > time).count();
            let far = made.iter().enumerate().any(|(other, (_, complete))| {
                (nth - other) as u64 * (fillers + 1) >= window && *complete > time
            });
            let depends = nth >= 2 && made[nth - 2].1 > time;
            let in_order = made.iter().all(|(begun, _)| *begun <= time);
            under_way < outstanding && !far && !depends && in_order
        };
        let times = made.iter().flat_map(|(begun, complete)| [*begun, *complete]).chain([0]);
        let begins = times.filter(|time| possible(*time)).min().expect("when all are complete");
        made.push((begins, begins + cost));
    }
    made.iter().map(|(_, complete)| *complete).max().unwrap_or(0)
}

#[test]
fn random_machines_take_the_time_of_the_reference() {
    let cases = if std::env::var_os("FATHOM_FULL").is_some() { 10_000 } else { 400 };
    let mut narrowed = 0;
    for seed in 0..cases {
        let draw = &mut Draw::new(seed ^ 0x0b5);
        let mut d = random_description(seed);
        let outstanding = 1 + draw.below(4) as u32;
        let window = outstanding + draw.below(60) as u32;
        (d.core.outstanding, d.core.window) = (Some(outstanding), Some(window));
        let (mut model, chain) = begun(&d, seed, 64);
        let mut naive = Reference::new(&d, seed, model.arena_bytes(), 0..0);
        let (mut at, n, fillers) = ([0, 32], 1 + draw.below(12), 2 + draw.below(60));
        let mut cells = at.map(|at| model.cell(chain.at(at)).expect("a cell"));
        let mut costs = Vec::new();
        for _ in 0..n {
            for at in &mut at {
                let offset = chain.at(*at);
                costs.push(naive.access(0, Attribute::WriteBack, offset, Kind::Load).cost);
                *at += 1;
            }
        }
        let before = model.clock();
        model.chase_spaced(&mut cells, fillers, n).expect("described");
        let alu = (d.core.alu.in_cycles(d.core.clock_hz) * UNITS_PER_CYCLE as f64).round() as u64;
        let loads = complete(&costs, fillers, outstanding as usize, window.into());
        let expected = loads.max(2 * n * (fillers + 1) * alu);
        assert_eq!(model.clock() - before, expected, "seed {seed}");
        let endless = complete(&costs, fillers, outstanding as usize, u64::MAX);
        narrowed += u64::from(loads != endless);
    }
    assert!(narrowed > cases / 10, "a window mattered in {narrowed} of {cases}");
}

#[test]
fn what_is_not_described_is_refused() {
    let mut d = plain();
    d.core.window = None;
    let trial = Trial {
        memory: Memory::of(1 << 20, 64),
        loads: 100,
        samples: 2,
        ..Trial::of(SpacedChains { fillers: vec![2, 30] })
    };
    let refusal = pattern::run(&mut Model::new(&d, 5), &trial).expect_err("no window");
    assert!(refusal.reason.contains("`window` of [core]"), "{}", refusal.reason);
    d.core.window = Some(20);
    let output = pattern::run(&mut Model::new(&d, 5), &trial).expect("described");
    assert_eq!(output.unverified(&trial), []);
}
