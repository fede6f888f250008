//! Random descriptions: every feature of the format, in machines small enough to conflict often.
#![allow(dead_code, reason = "each test binary uses its part")]

use fathom_model::description::{
    Alternatives, Between, Classes, Coherence, Core, Description, Device, DeviceCosts, Frames, Gathering,
    Holds, Inclusion, Index, Level, Memory, Mixed, Neighbour, Refresh, Replacement, Rows, Stage, Streams,
    Through, Time, Timer, Tlb, Uncached, Wakeup, Walk, WalkFrom, Write,
};
use fathom_probe::machine::dma::Maintenance;
use fathom_probe::splitmix::{SplitMix64, mix};
use fathom_units::facts::ValueClass;

/// Random draws from a seed.
pub struct Draw(SplitMix64);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        let mut random = SplitMix64::new(mix(seed));
        // The first draw is skipped, so that each seed keeps its description.
        random.next();
        Draw(random)
    }

    pub fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// Returns a uniform number in `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    pub fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }

    pub fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    fn time(&mut self, most: u64) -> Time {
        let part = |d: &mut Draw| d.below(most * 8 + 1) as f64 / 8.0;
        match self.below(4) {
            0 => Time::ns(part(self)),
            1 => Time { cycles: part(self), ns: part(self) },
            _ => Time::cycles(part(self)),
        }
    }
}

/// Returns a random machine. It passes the checks of a description, so the generator follows the rules that relate
/// the levels to each other.
pub fn random_description(seed: u64) -> Description {
    let d = &mut Draw::new(seed);
    let page = d.one_of(&[4096u64, 4096, 4096, 16384]);
    let memory = random_memory(d, page);
    let levels = random_levels(d);
    let (tlbs, walk) = if d.chance(4) { (Vec::new(), None) } else { random_translation(d, &memory, &levels) };
    let description = Description {
        name: format!("random-{seed}"),
        about: format!("a \"random\" machine of seed {seed}"),
        core: Core {
            clock_hz: d.one_of(&[600e6, 700e6, 1e9, 1.8e9, 2.95e9]),
            cpus: 1 + d.below(3) as u32,
            alu: d.one_of(&[Time::ZERO, Time::cycles(1.0), Time::cycles(0.25)]),
            branch: d.one_of(&[Time::ZERO, Time::cycles(1.0)]),
            store: None,
            maintain: None,
            outstanding: None,
            window: None,
            set_fill: None,
            streams: None,
            events: None,
        },
        timer: Timer {
            clock_hz: d.one_of(&[600e6, 54e6, 1e9]),
            overhead: d.time(30),
            jitter: if d.chance(2) { Time::ZERO } else { d.time(4) },
            resolution: d.one_of(&[1, 1, 5, 64]),
        },
        levels,
        tlbs,
        walk,
        memory,
        uncached: Uncached::default(),
        dma: None,
        neighbours: Vec::new(),
        wakeup: random_wakeup(&mut Draw::new(seed ^ 0x3ff)),
        classes: Classes::default(),
        alternatives: Alternatives::default(),
    };
    let mut description = random_uncached(description, &mut Draw::new(seed ^ 0x0ff));
    random_streams(&mut description, &mut Draw::new(seed ^ 0x5ff));
    random_splits(&mut description, &mut Draw::new(seed ^ 0xfff));
    description.dma = random_device(&description, &mut Draw::new(seed ^ 0x7ff));
    random_sources(&mut description, &mut Draw::new(seed ^ 0x1ff));
    description.check().unwrap_or_else(|flaw| panic!("seed {seed}: {flaw}"));
    description
}

/// Gives values classes, ranges and other values. It has its own draws.
fn random_sources(description: &mut Description, d: &mut Draw) {
    for (value, _) in description.values() {
        if d.chance(2) {
            description.classes.set(value, d.one_of(ValueClass::ALL));
        }
    }
    for variation in description.variations() {
        let end = variation.ends[d.below(2) as usize].clone();
        let possible = description.with(&[(variation.key, end.clone())].into()).is_ok();
        if d.chance(8) && possible && end != variation.here {
            let alternatives = &mut description.alternatives;
            alternatives.ranges.insert(variation.key, [end.clone(), variation.here]);
            if variation.class.study().is_some() {
                alternatives.instead.insert(variation.key, (ValueClass::Assumed, end));
            }
        }
    }
}

/// Lets some TLBs hold large pages in pieces. It has its own draws.
fn random_splits(description: &mut Description, d: &mut Draw) {
    let (base, largest) = (description.memory.pages[0], *description.memory.pages.last().unwrap());
    for tlb in &mut description.tlbs {
        let splits = d.chance(3) && largest > base && tlb.pages.contains(&largest);
        tlb.splits = splits.then_some(base);
    }
}

/// Lets the CPUs of some machines prefetch runs of lines. It has its own draws.
fn random_streams(description: &mut Description, d: &mut Draw) {
    let hz = description.core.clock_hz;
    let nearest = description.levels.iter().find(|level| level.holds != Holds::Instructions);
    let Some(nearest) = nearest.filter(|_| d.chance(2)) else { return };
    let cost = Time::cycles(nearest.latency.in_cycles(hz) + d.below(40) as f64 / 4.0);
    description.core.streams = Some(Streams { cost, number: 1 + d.below(5) as u32 });
}

/// Returns a random wake-up path. It has its own draws.
fn random_wakeup(d: &mut Draw) -> Option<Wakeup> {
    let mut stage =
        |most: u64| Stage { instructions: 1 + d.below(3000), code: 1 + d.below(most), data: d.below(most) };
    let stages = [stage(8000), stage(400), stage(4000), stage(4000), stage(1)];
    let (instruction, common) = (d.time(3), d.below(2048));
    (!d.chance(2)).then(|| Wakeup { instruction, common, within: 64 << (10 + d.below(8)), stages })
}

/// Returns a random device if the machine describes the maintenance that the device needs. It has its own draws.
fn random_device(description: &Description, d: &mut Draw) -> Option<Device> {
    let coherence = d.one_of(Coherence::ALL);
    let behind = coherence == Coherence::None;
    if d.chance(3) || (behind && description.core.maintain.is_none()) || description.levels.is_empty() {
        return None;
    }
    Some(Device {
        rate: d.one_of(&[24e6, 125e6, 3.125e9, 12.5e9]),
        burst: 4 << d.below(8),
        setup: d.time(3000),
        interrupt: d.time(9000),
        coherence,
        maintenance: behind.then(|| d.one_of(Maintenance::ALL)),
        map: d.time(200),
        write_back: d.time(100),
        widest: 4 << d.below(5),
        stream: if d.chance(2) { Some(d.time(40)) } else { None },
    })
}

/// Adds the keys of memory that is not write-back. They have their own draws, so the rest of the machine is unchanged.
fn random_uncached(mut description: Description, d: &mut Draw) -> Description {
    if d.chance(2) {
        description.core.store = Some(d.time(4));
    }
    if d.chance(2) {
        description.core.maintain = Some(d.time(40));
    }
    if d.chance(4) {
        return description;
    }
    description.uncached = Uncached {
        load: Some(Time::ns(d.below(200) as f64)),
        gathering: Some(Gathering {
            store: d.time(4),
            buffers: 1 + d.below(6) as u32,
            gather: 8 << d.below(5),
            drain: d.time(60),
        }),
        device: Some(DeviceCosts { load: d.time(400), store: d.time(300) }),
        write_through: d.one_of(&[None, Some(Through::WriteThrough), Some(Through::NormalNc)]),
        mixed: d.one_of(Mixed::ALL),
    };
    description
}

fn random_memory(d: &mut Draw, page: u64) -> Memory {
    let pages = match d.below(3) {
        0 => vec![page],
        1 => vec![page, page * 512],
        _ => vec![page, page * 16, page * 512],
    };
    let latency = Time { cycles: d.below(30) as f64, ns: 80.0 + d.below(100) as f64 };
    let spread = if d.chance(2) { Time::ZERO } else { Time::ns(d.below(20) as f64) };
    let rows = d.chance(2).then(|| Rows {
        row: 1 << (10 + d.below(4)),
        banks: 1 + d.below(9) as u32,
        open: Time::ns(40.0 + d.below(30) as f64),
    });
    let refresh = d.chance(3).then(|| Refresh {
        every: Time::ns(1000.0 + d.below(7000) as f64),
        takes: Time::ns(50.0 + d.below(300) as f64),
    });
    let frames = d.one_of(Frames::ALL);
    Memory {
        size: page * 512 * (32 + d.below(64)),
        pages,
        frames,
        page_map: true,
        latency,
        spread,
        rows,
        refresh,
    }
}

fn random_level(d: &mut Draw, name: &str, holds: Holds, line: u64, sets: u64) -> Level {
    let ways = if d.chance(6) { 1 + d.below(40) } else { 1 + d.below(9) } as u32;
    Level {
        name: name.to_string(),
        holds,
        size: line * u64::from(ways) * sets,
        line,
        ways,
        index: if sets.is_power_of_two() { d.one_of(Index::ALL) } else { Index::Bits },
        latency: d.time(12),
        replacement: d.one_of(Replacement::ALL),
        write: d.one_of(Write::ALL),
        allocate: !d.chance(3),
        inclusion: d.one_of(&[Inclusion::Neither, Inclusion::Inclusive, Inclusion::InclusiveData]),
        shared: false,
    }
}

fn random_levels(d: &mut Draw) -> Vec<Level> {
    let mut line = 16 << d.below(3);
    let mut levels = Vec::new();
    let mut shared = false;
    let depth = d.below(4);
    let split = d.chance(2);
    for n in 0..depth {
        if d.chance(3) {
            line *= 2;
        }
        let sets = (1 + d.below(9)) << (n * 2);
        shared |= d.chance(3);
        let name = format!("L{}", n + 1);
        if n == 0 && split {
            let mut instructions = random_level(d, "L1I", Holds::Instructions, line, sets);
            instructions.shared = shared;
            levels.push(instructions);
        }
        let holds = if n == 0 && split { Holds::Data } else { Holds::Unified };
        let mut level = random_level(d, &name, holds, line, sets);
        level.shared = shared;
        if n > 0 && levels.iter().all(|l: &Level| l.line == line) && d.chance(3) {
            level.inclusion = Inclusion::Exclusive;
        }
        levels.push(level);
    }
    levels
}

fn random_translation(d: &mut Draw, memory: &Memory, levels: &[Level]) -> (Vec<Tlb>, Option<Walk>) {
    let tlbs = (0..1 + d.below(2))
        .map(|n| {
            let ways = if d.chance(4) { 1 + d.below(30) } else { 1 + d.below(6) } as u32;
            let sizes = if d.chance(3) { vec![memory.pages[0]] } else { memory.pages.clone() };
            Tlb {
                name: format!("T{n}"),
                entries: (ways * (1 + d.below(6) as u32)) << n,
                ways,
                pages: sizes,
                latency: d.time(6),
                replacement: d.one_of(Replacement::ALL),
                splits: None,
            }
        })
        .collect();
    let data = levels.iter().filter(|l| l.holds != Holds::Instructions);
    let mut from: Vec<WalkFrom> = data.map(|l| WalkFrom::Level(l.name.clone())).collect();
    from.push(WalkFrom::Memory);
    from.push(WalkFrom::Nowhere);
    let from = d.one_of(&from);
    let fetches = if from == WalkFrom::Nowhere { 0 } else { 1 + d.below(4) as u32 };
    (tlbs, Some(Walk { fetches, from, latency: d.time(30) }))
}

/// Returns random neighbours of a machine: up to three, with separate draws.
pub fn random_neighbours(description: &Description, seed: u64) -> Vec<Neighbour> {
    let d = &mut Draw::new(seed ^ 0x1fff);
    let between = |d: &mut Draw, least: u64, most: u64| {
        let first = least + d.below(most - least + 1);
        Between { least: first, most: first + d.below(most - first + 1) }
    };
    let one = |d: &mut Draw, n: u64| {
        let ways = Between { most: 90, ..between(d, 1, 90) };
        let enough = |ways: u32| u64::from(ways) * 90 >= 100;
        let named = |d: &mut Draw, names: Vec<(String, u32)>| {
            let names = names.into_iter().filter(|(_, ways)| enough(*ways));
            names.filter(|_| !d.chance(3)).map(|(name, _)| name).collect::<Vec<String>>()
        };
        let levels = named(d, description.levels.iter().map(|l| (l.name.clone(), l.ways)).collect());
        let tlbs = named(d, description.tlbs.iter().map(|t| (t.name.clone(), t.ways)).collect());
        let ways_taken = (!(levels.is_empty() && tlbs.is_empty())).then_some(ways);
        Neighbour {
            name: format!("N{n}"),
            bursts: between(d, 1_000_000, 10_000_000_000),
            pauses: between(d, 1_000, 1_000_000_000_000),
            levels,
            tlbs,
            ways_taken,
            memory_slower: d.chance(2).then(|| between(d, 1, 900)),
            clock_slower: Some(between(d, 1, 90)),
        }
    };
    (0..d.below(4)).map(|n| one(d, n)).collect()
}
