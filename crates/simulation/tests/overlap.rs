//! The time of accesses that overlap, compared with a second, simple implementation of its rules (`machines/README.md`, `docs/simulate.md`)
//! that looks at every access before each one.

use std::collections::BTreeMap;

use fathom_model::description::{Core, Holds, Index, Time};
use fathom_model::{Access, Description, Detail, Kind, Model, catalog};
use fathom_simulation::{Machine, Machines};

/// An access that is no hit: its CPU, its place, its instruction's position and its time beyond a hit.
#[derive(Clone, Copy, Debug)]
struct Missed {
    cpu: u32,
    place: u64,
    position: u64,
    units: u64,
    /// The set of the nearest data level that it fills.
    set: Option<u64>,
}

/// Returns what each access adds to the end of all of its CPU.
fn added(missed: &[Missed], outstanding: usize, window: Option<u64>, apart: Option<u64>) -> Vec<u64> {
    let mut made: Vec<(Missed, u64, u64)> = Vec::new();
    // When fills began, by CPU and set.
    let mut fills: Vec<(u32, u64, u64)> = Vec::new();
    let mut all = Vec::new();
    for &one in missed {
        let before: Vec<&(Missed, u64, u64)> = made.iter().filter(|other| other.0.cpu == one.cpu).collect();
        let far_from = |other: &Missed| window.is_some_and(|window| one.position - other.position >= window);
        let possible = |time: u64| {
            let under_way = before.iter().filter(|(_, _, complete)| *complete > time).count();
            let far = before.iter().any(|(other, _, complete)| far_from(other) && *complete > time);
            let in_order = before.iter().all(|(_, begun, _)| *begun <= time);
            under_way < outstanding && !far && in_order
        };
        // Nothing changes but when one begins or is complete.
        let times = before.iter().flat_map(|(_, begun, complete)| [*begun, *complete]).chain([0]);
        let begins = times.filter(|time| possible(*time)).min().expect("when all are complete");
        let end = |made: &[&(Missed, u64, u64)]| made.iter().map(|(_, _, complete)| *complete).max();
        let mut filled = begins;
        if let (Some(set), Some(apart)) = (one.set, apart) {
            let same = fills.iter().filter(|fill| (fill.0, fill.1) == (one.cpu, set));
            filled = same.map(|fill| fill.2 + apart).max().unwrap_or(0).max(begins);
            fills.push((one.cpu, set, filled));
        }
        let (earlier, complete) = (end(&before).unwrap_or(0), filled + one.units);
        all.push(complete.max(earlier) - earlier);
        made.push((one, begins, complete));
    }
    all
}

struct Draw(u64);

impl Draw {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// A machine of a catalogue's, and batches of its threads.
fn case(seed: u64) -> (Description, Vec<(u32, Vec<Access>)>) {
    let mut draw = Draw(seed);
    for _ in 0..4 {
        draw.below(2);
    }
    let names: Vec<&str> = catalog::names().collect();
    let name = names[draw.below(names.len() as u64) as usize];
    let described = catalog::load(name).expect("embedded").expect("valid");
    let outstanding = 1 + draw.below(6) as u32;
    let window = (draw.below(4) > 0).then(|| outstanding + draw.below(60) as u32);
    let bits = described
        .levels
        .iter()
        .find(|l| l.holds != Holds::Instructions)
        .is_some_and(|l| l.index == Index::Bits);
    let set_fill = (bits && draw.below(2) > 0).then(|| Time::cycles(draw.below(80) as f64 / 4.0));
    let core = Core { outstanding: Some(outstanding), window, set_fill, alu: Time::ZERO, ..described.core };
    let batches = (0..1 + draw.below(6)).map(|_| {
        let accesses = (0..draw.below(30)).map(|_| {
            let bytes = 1 << (6 + draw.below(14));
            // Every other one is in one of few sets.
            let within = if draw.below(2) > 0 { !7 } else { !0xfff };
            let address = 1 << 20 | draw.below(bytes) & within;
            let access = match draw.below(8) {
                0 => Access::fetch(address, 4),
                1 | 2 => Access::store(address, 8),
                _ => Access::load(address, 8),
            };
            let far = 1 + draw.below(30);
            let instructions = if access.kind == Kind::Fetch { 0 } else { draw.below(far) as u32 };
            Access { instructions, ..access.at(draw.below(5)) }
        });
        let accesses = accesses.collect();
        (draw.below(3) as u32, accesses)
    });
    let batches = batches.collect();
    (Description { core, ..described }, batches)
}

/// Returns the misses, by a model that makes one access at a time.
fn missed(description: &Description, batches: &[(u32, Vec<Access>)]) -> Vec<Missed> {
    let mut model = Model::new(description, 5);
    let hits = model.hit_costs();
    let nearest = description.levels.iter().position(|level| level.holds != Holds::Instructions);
    let mut positions = vec![0; description.core.cpus as usize];
    let mut all = Vec::new();
    for (thread, access) in
        batches.iter().flat_map(|(thread, batch)| batch.iter().map(move |of| (*thread, of)))
    {
        let cpu = thread % description.core.cpus;
        positions[cpu as usize] += u64::from(access.instructions);
        let position = positions[cpu as usize];
        let mut tell = |_, outcome: fathom_model::Outcome| {
            if access.kind != Kind::Fetch {
                let units = outcome.cost.saturating_sub(hits[access.kind as usize]);
                let of = nearest.filter(|_| outcome.level != nearest).map(|level| &description.levels[level]);
                let set = of.map(|level| access.address / level.line % level.sets());
                all.push(Missed { cpu, place: access.pc, position, units, set });
            }
        };
        model.accesses(cpu, Detail::Full, std::slice::from_ref(access), &mut tell).expect("possible");
    }
    all
}

/// All of 10,000 cases with `FATHOM_FULL`.
#[test]
fn least_time_equals_the_reference_by_instruction_too() {
    let cases = if std::env::var_os("FATHOM_FULL").is_some() { 10_000 } else { 1500 };
    let (mut narrowed, mut conflicting) = (0, 0);
    for seed in 0..cases {
        let (description, batches) = case(seed);
        let machine = Machine { name: description.name.clone(), text: description.to_toml() };
        let mut machines = Machines::new(&[machine], 5, 1, seed % 5 == 0).expect("valid");
        assert_eq!(machines.need_instructions(), description.core.window.is_some());
        for (thread, batch) in &batches {
            machines.run(*thread, batch.clone());
        }
        let counts = machines.finish().remove(0);
        let missed = missed(&description, &batches);
        let (outstanding, window) = (description.core.outstanding, description.core.window.map(u64::from));
        let outstanding = outstanding.expect("described") as usize;
        let apart = description.core.set_fill.map(|time| {
            (time.in_cycles(description.core.clock_hz) * fathom_model::UNITS_PER_CYCLE as f64).round() as u64
        });
        let expected = added(&missed, outstanding, window, apart);
        let sum: u64 = expected.iter().sum();
        assert_eq!(counts.overlap.expect("described").data_units, sum, "seed {seed}");
        let mut places: BTreeMap<u64, u64> = BTreeMap::new();
        for (of, added) in missed.iter().zip(&expected) {
            *places.entry(of.place).or_default() += added;
        }
        for place in &counts.places {
            let expected = places.get(&place.place).copied().unwrap_or(0);
            assert_eq!(place.overlap.data_units, expected, "seed {seed}, place {}", place.place);
        }
        let other = |window, apart| sum != added(&missed, outstanding, window, apart).iter().sum::<u64>();
        narrowed += u32::from(other(None, apart));
        conflicting += u32::from(other(window, None));
    }
    assert!(u64::from(conflicting) > cases / 20, "sets mattered in {conflicting} of {cases} cases");
    assert!(u64::from(narrowed) > cases / 10, "a window mattered in {narrowed} of {cases} cases");
}

/// Two misses, `apart` instructions from one another: both are under way at the same time if the window has more than that.
#[test]
fn two_misses_overlap_within_the_window_only() {
    let mut described = catalog::load("am5728").expect("embedded").expect("valid");
    let memory = &mut described.memory;
    (memory.spread, memory.rows, memory.refresh) = (Time::ZERO, None, None);
    let least = |window: u32, apart: u32| {
        let core = Core { outstanding: Some(4), window: Some(window), ..described.core.clone() };
        let text = Description { core, ..described.clone() }.to_toml();
        let mut machines = Machines::new(&[Machine { name: "m".into(), text }], 1, 1, false).expect("valid");
        let second = Access { instructions: apart, ..Access::load(0x20_0000, 8) };
        // The pages are walked to before, so both cost the same.
        let warm = [0x10_0040, 0x20_0040].map(|at| Access { instructions: 5000, ..Access::load(at, 8) });
        machines.run(0, warm.to_vec());
        let before = machines.counts()[0].overlap.expect("described").data_units;
        machines.run(0, vec![Access { instructions: 5000, ..Access::load(0x10_0000, 8) }, second]);
        machines.finish()[0].overlap.expect("described").data_units - before
    };
    let one = least(4096, 5000) / 2;
    assert!(one > 0);
    for apart in [9, 80, 447] {
        let by_window = [apart - 1, apart, apart + 1].map(|window| least(window, apart));
        assert_eq!(by_window, [2 * one, 2 * one, one], "{apart} apart");
    }
    // Of one instruction, as a pair of loads.
    assert_eq!(least(4, 0), one);
}
