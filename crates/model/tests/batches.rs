//! Batches of accesses against the reference model, which makes them one by one: outcomes, costs and counters, on random
//! machines with every policy. All of 10,000 cases with `FATHOM_FULL`.

mod common;
#[path = "common/reference.rs"]
mod reference;

use common::{Draw, random_description};
use fathom_model::description::Time;
use fathom_model::{Access, Description, Detail, Kind, Model, catalog};
use fathom_probe::machine::{Attribute, Counters, Machine, MapRequest, Pages};
use reference::{Reference, Seen};

/// Machines by default, and with `FATHOM_FULL`.
const CASES: [u64; 2] = [500, 10_000];
const BATCHES: u64 = 6;

fn cases() -> u64 {
    CASES[usize::from(std::env::var_os("FATHOM_FULL").is_some())]
}

/// The two models, and where both have their memory.
struct Pair {
    model: Model,
    naive: Reference,
    /// Places: base pages, and huge pages if there are any.
    places: Vec<u64>,
    huge: std::ops::Range<u64>,
    /// Bytes of a chunk.
    chunk: u64,
    /// Virtual chunks in the order of their first use.
    used: Vec<(u32, u64)>,
    full: bool,
    /// Time of CPU 0 in the reference model.
    clock: u64,
}

impl Pair {
    fn new(machine: &Description, reference: &Description, seed: u64, full: bool) -> Pair {
        let mut model = Model::new(machine, seed);
        let request = |pages| MapRequest {
            bytes: if pages == Pages::Base { 8 << 20 } else { 1 },
            pages,
            attribute: Attribute::WriteBack,
            place: 1,
        };
        let mut places = Vec::new();
        let mut huge = 0..0;
        for pages in [Pages::Base, Pages::Huge] {
            let Ok(mapping) = model.map(&request(pages)) else { continue };
            places.push(mapping.base);
            if pages == Pages::Huge {
                huge = mapping.base..mapping.base + mapping.bytes;
            }
        }
        let naive = Reference::new(reference, seed, model.arena_bytes(), huge.clone());
        let chunk = model.chunk_bytes();
        Pair { model, naive, places, huge, chunk, used: Vec::new(), full, clock: 0 }
    }

    fn detail(&self) -> Detail {
        if self.full { Detail::Full } else { Detail::Counts }
    }

    /// Makes one access in the reference model.
    fn naive(&mut self, cpu: u32, at: u64, kind: Kind) -> Seen {
        let seen = self.naive.access(cpu, Attribute::WriteBack, at, kind);
        self.clock += if cpu == 0 && self.full { seen.cost } else { 0 };
        seen
    }

    fn loads(&mut self, draw: &mut Draw) -> Result<(), String> {
        let places = self.places.clone();
        let mut walk = Walk::new(draw, &places);
        let offsets: Vec<u64> = (0..draw.below(1500)).map(|_| walk.next(draw)).collect();
        match self.full {
            true => self.model.loads(&offsets),
            false => self.model.count_loads(&offsets),
        }
        .expect("inside");
        for &at in &offsets {
            let _ = self.naive(0, at, Kind::Load);
        }
        Ok(())
    }

    fn run(&mut self, draw: &mut Draw) -> Result<(), String> {
        let kind = draw.one_of(&[Kind::Load, Kind::Load, Kind::Store, Kind::Fetch]);
        let stride = draw.one_of(&[0i64, 1, 3, 8, 8, 16, 24, 64, 72, 4096, -8, -20, -64]);
        let count = draw.below(1500);
        // Backwards from the end of the place, forwards from its beginning.
        let start = draw.one_of(&self.places) + if stride < 0 { 4096 * 16 } else { draw.below(100) };
        let end = start as i64 + count.saturating_sub(1) as i64 * stride;
        let inside = |at: i64| self.huge.contains(&(at as u64));
        if end < 0 || end as u64 >= self.model.arena_bytes() || inside(end) != inside(start as i64) {
            return Ok(());
        }
        self.model.run(self.detail(), kind, start, stride, count).expect("inside");
        let at = |n: u64| start.wrapping_add_signed(stride * n as i64);
        for n in 0..count {
            let _ = self.naive(0, at(n), kind);
        }
        Ok(())
    }

    /// A program's accesses on one of two CPUs.
    fn accesses(&mut self, draw: &mut Draw, cpu: u32) -> Result<(), String> {
        let bytes = self.chunk;
        let starts: Vec<u64> = (0..3).map(|n| 0x7f00_0000_0000 + 5 * bytes * n).collect();
        let (stores, fetches) = (draw.below(6), draw.below(4));
        let mut walk = Walk::new(draw, &starts);
        let batch: Vec<Access> = (0..draw.below(1500))
            .map(|_| {
                let kind = match draw.below(10) {
                    roll if roll < stores => Kind::Store,
                    roll if roll >= 10 - fetches => Kind::Fetch,
                    _ => Kind::Load,
                };
                Access {
                    address: walk.next(draw),
                    pc: 0,
                    bytes: 1 + draw.below(16) as u16,
                    space: 0,
                    instructions: 1,
                    kind,
                }
            })
            .collect();
        let mut told = Vec::new();
        let result =
            self.model.accesses(cpu, self.detail(), &batch, |index, outcome| told.push((index, outcome)));
        result.map_err(|refusal| format!("{refusal:?}"))?;
        let mut told = told.into_iter().peekable();
        for (index, access) in batch.iter().enumerate() {
            for at in self.split(access) {
                let place = self.place(access.space, at);
                let seen = self.naive(cpu, place, access.kind);
                let expected = if self.full { seen.clone() } else { Seen { cost: 0, ..seen.clone() } };
                let outcome = told.next_if(|(told, outcome)| {
                    *told == index
                        && (outcome.level, outcome.cost, outcome.walked, outcome.tlb_missed)
                            == (expected.level, expected.cost, expected.walked, expected.tlb_missed)
                });
                if let Some((_, outcome)) = outcome {
                    self.translation_adds_up(access.kind, outcome)?;
                }
                if outcome.is_none() && (seen.level != self.nearest(access.kind) || seen.tlb_missed) {
                    return Err(format!(
                        "access {index} {access:x?}: told {:?}, naive {expected:?}",
                        told.peek()
                    ));
                }
            }
        }
        told.next().map_or(Ok(()), |more| Err(format!("told {more:?} in another order, or of a hit")))
    }

    /// Checks that what an access cost beyond its translation is the latency of the level that served it.
    fn translation_adds_up(&self, kind: Kind, outcome: fathom_model::Outcome) -> Result<(), String> {
        let machine = self.model.description();
        let Some(level) = outcome.level.filter(|_| self.full && machine.neighbours.is_empty()) else {
            return Ok(());
        };
        if kind == Kind::Store && machine.core.store.is_some() {
            return Ok(());
        }
        let units = |time: Time| {
            let cycles = time.in_cycles(machine.core.clock_hz);
            (cycles * fathom_model::UNITS_PER_CYCLE as f64).round() as u64
        };
        let latency = units(machine.levels[level].latency);
        // A line of a run costs less.
        let least = machine.core.streams.map_or(latency, |streams| latency.min(units(streams.cost)));
        match outcome.cost.checked_sub(outcome.translation) {
            Some(rest) if rest == latency || rest == least => Ok(()),
            _ => Err(format!("{outcome:?}: the level takes {latency}")),
        }
    }

    fn nearest(&self, kind: Kind) -> Option<usize> {
        let other = if kind == Kind::Fetch { "data" } else { "instructions" };
        self.model.description().levels.iter().position(|level| level.holds.word() != other)
    }

    fn split(&self, access: &Access) -> Vec<u64> {
        let line = self.nearest(access.kind).map_or(8, |level| self.model.description().levels[level].line);
        let end = access.address + u64::from(access.bytes);
        let first = access.address / line + 1;
        std::iter::once(access.address)
            .chain((first..).map(|n| n * line).take_while(|&at| at < end))
            .collect()
    }

    fn place(&mut self, space: u32, address: u64) -> u64 {
        let chunk = (space, address / self.chunk);
        let known = self.used.iter().position(|&used| used == chunk);
        let number = known.unwrap_or_else(|| {
            self.used.push(chunk);
            self.used.len() - 1
        });
        number as u64 * self.chunk + address % self.chunk
    }

    /// Compares time and counters.
    fn compare(&mut self) -> Result<(), String> {
        if self.model.clock() != self.clock {
            return Err(format!("clock {}, naive {}", self.model.clock(), self.clock));
        }
        if self.full && self.model.stalled() != self.naive.stalled() {
            return Err(format!("stalled {}, naive {}", self.model.stalled(), self.naive.stalled()));
        }
        if let Some(difference) = self.naive.differs_in_sharing(&self.model) {
            return Err(difference);
        }
        let counted: Vec<(String, u64)> =
            self.model.counters().unwrap().into_iter().map(|c| (c.name.into_owned(), c.value)).collect();
        let counters = self.naive.counters();
        let missing =
            |expected: &&(String, u64)| !counted.contains(expected) && (self.full || expected.0 != "cycles");
        match counters.iter().find(missing) {
            Some(first) => Err(format!("counted {counted:?}, naive {first:?}")),
            None => Ok(()),
        }
    }
}

/// A program's addresses: runs of consecutive words, and jumps among a few hundred spots.
struct Walk {
    spots: Vec<u64>,
    at: u64,
    straight: u64,
}

impl Walk {
    fn new(draw: &mut Draw, starts: &[u64]) -> Walk {
        let spread = 1 << (8 + draw.below(10));
        let spots = (0..1 + draw.below(300)).map(|_| draw.one_of(starts) + draw.below(spread)).collect();
        Walk { spots, at: 0, straight: 0 }
    }

    fn next(&mut self, draw: &mut Draw) -> u64 {
        if self.straight == 0 {
            self.at = draw.one_of(&self.spots);
            self.straight = if draw.chance(4) { 1 + draw.below(30) } else { 1 };
        }
        self.straight -= 1;
        let at = self.at;
        self.at += draw.one_of(&[0, 1, 8, 8, 24]);
        at
    }
}

/// Runs batches on `machine`, and their accesses on `reference`. Returns the first difference.
fn differ(machine: &Description, reference: &Description, seed: u64) -> Option<String> {
    let draw = &mut Draw::new(seed ^ 0xba7c4);
    let full = !draw.chance(3);
    let mut reference = reference.clone();
    if !full {
        (reference.tlbs, reference.walk) = (Vec::new(), None);
    }
    let mut pair = Pair::new(machine, &reference, seed, full);
    let one_cpu = machine.core.cpus == 1 || draw.chance(2);
    for batch in 0..BATCHES {
        let cpu = if one_cpu { 0 } else { draw.below(2) as u32 };
        let made = match draw.below(4) {
            0 => pair.loads(draw),
            1 => pair.run(draw),
            _ => pair.accesses(draw, cpu),
        };
        if let Err(difference) = made.and_then(|()| pair.compare()) {
            return Some(format!("batch {batch}, full {full}: {difference}"));
        }
    }
    None
}

#[test]
fn batches_equal_single_accesses_of_the_reference() {
    for seed in 0..cases() {
        let machine = random_description(seed);
        if let Some(difference) = differ(&machine, &machine, seed) {
            panic!("seed {seed}: {difference}\n{}", machine.to_toml());
        }
    }
}

#[test]
fn batches_equal_single_accesses_on_committed_machines() {
    for name in catalog::names() {
        let machine = catalog::load(name).expect("listed").unwrap_or_else(|e| panic!("{e}"));
        for seed in 0..10 {
            if let Some(difference) = differ(&machine, &machine, seed) {
                panic!("{name}, seed {seed}: {difference}");
            }
        }
    }
}
