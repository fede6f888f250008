//! Random descriptions from a seed. Successive levels differ by at least 2x in size and 1.3x in latency.

use fathom_model::description::{
    Alternatives, Classes, Core, Description, Frames, Holds, Inclusion, Index, Level, Memory, Refresh,
    Replacement, Rows, Time, Timer, Tlb, Uncached, Walk, WalkFrom, Write,
};
use fathom_probe::splitmix::mix;

pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(mix(seed))
    }

    fn next(&mut self) -> u64 {
        self.0 = mix(self.0);
        self.0
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Returns a number whose logarithm is uniformly distributed.
    pub fn scaled(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }

    pub fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }
}

/// Replacement policies, by their share.
pub const POLICIES: &[Replacement] = &[
    Replacement::Lru,
    Replacement::Lru,
    Replacement::Fifo,
    Replacement::Random,
    Replacement::TreePlru,
    Replacement::Nru,
];

/// Difference between successive levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spacing {
    /// At least 2x in size and 1.3x in latency.
    Apart,
    /// The second level has only 1.2 to 1.9 times the size of the first.
    Close,
}

/// Returns a random description that passes its own check.
pub fn description(seed: u64, spacing: Spacing) -> Description {
    let mut rng = Rng::new(seed);
    loop {
        let d = attempt(&mut rng, seed, spacing);
        let expected = fathom_model::expected::expected(&d);
        if d.check().is_ok()
            && (spacing == Spacing::Close || fathom_model::expected::tlbs_distinct(&d, &expected))
        {
            return d;
        }
    }
}

fn attempt(rng: &mut Rng, seed: u64, spacing: Spacing) -> Description {
    let hz = rng.scaled(0.4e9, 4e9).round();
    // Only a fast clock has a coarser resolution (a 3 GHz counter driven by 100 MHz).
    let (ticks, resolution) = rng.pick(&[(hz, 1), (1e9, 1), (1e9, 10), (2.4e9, 24), (54e6, 1), (19.2e6, 1)]);
    let cpus = rng.pick(&[1, 2, 4]);
    let levels = levels(rng, spacing, cpus);
    let last = levels.last().unwrap().latency.in_ns(hz);
    let memory = rng.between((1.3 * last).max(50.0), (1.3 * last).max(50.0) + 150.0);
    let pages = rng.pick(&[
        vec![4096, 2 << 20],
        vec![4096, 2 << 20],
        vec![4096, 2 << 20],
        vec![4096],
        vec![16384, 2 << 20],
        vec![65536, 2 << 20],
    ]);
    let (tlbs, walk) = translation(rng, &pages, &levels);
    Description {
        name: format!("random-{seed}"),
        about: "random".into(),
        core: Core {
            clock_hz: hz,
            cpus,
            alu: Time::cycles(rng.pick(&[0.0, 0.0, 1.0])),
            branch: Time::cycles(rng.pick(&[0.0, 1.0, 2.0])),
            store: None,
            maintain: None,
            outstanding: None,
            window: None,
            set_fill: None,
            streams: None,
            events: None,
        },
        timer: Timer {
            clock_hz: ticks,
            overhead: Time::cycles(rng.between(0.0, 60.0).round()),
            jitter: Time::cycles(rng.pick(&[0.0, 0.0, 1.0, 4.0])),
            resolution,
        },
        levels,
        tlbs,
        walk,
        memory: Memory {
            size: 2 << 30,
            pages,
            frames: Frames::Contiguous,
            page_map: true,
            latency: Time::ns(memory),
            spread: Time::ns(rng.between(0.0, 0.1 * memory)),
            rows: rng.chance(0.3).then(|| Rows {
                row: 8192,
                banks: rng.pick(&[8, 16]),
                open: Time::ns(0.85 * memory),
            }),
            refresh: rng
                .chance(0.3)
                .then(|| Refresh { every: Time::ns(7800.0), takes: Time::ns(rng.between(110.0, 350.0)) }),
        },
        uncached: Uncached::default(),
        wakeup: None,
        dma: None,
        neighbours: Vec::new(),
        classes: Classes::default(),
        alternatives: Alternatives::default(),
    }
}

fn levels(rng: &mut Rng, spacing: Spacing, cpus: u32) -> Vec<Level> {
    let mut levels: Vec<Level> = Vec::new();
    let count = if spacing == Spacing::Close { 2 } else { rng.pick(&[1, 2, 2, 3, 3]) };
    let (mut size, mut latency) = (rng.scaled(4096.0, 65536.0), rng.between(2.0, 5.0).round());
    let mut held = 0;
    for n in 0..count {
        if n > 0 {
            let grow = if spacing == Spacing::Close { rng.between(1.2, 1.9) } else { rng.scaled(2.05, 24.0) };
            size = (held as f64 * grow).min(12e6);
            latency = (latency * rng.scaled(1.35, 4.0)).ceil();
        }
        let level = level(rng, n, size, latency, cpus);
        if spacing == Spacing::Apart && n > 0 && level.size < 2 * held {
            break;
        }
        held = level.size + if level.inclusion == Inclusion::Exclusive { held } else { 0 };
        levels.push(level);
    }
    if rng.chance(0.3) && levels[0].holds == Holds::Data {
        let mut code = levels[0].clone();
        code.name = "L1I".into();
        code.holds = Holds::Instructions;
        levels.insert(1, code);
    }
    levels
}

fn level(rng: &mut Rng, n: usize, size: f64, latency: f64, cpus: u32) -> Level {
    let line: u64 = rng.pick(&[64, 64, 64, 32, 128]);
    let ways: u32 = rng.pick(&[1, 2, 3, 4, 4, 5, 6, 8, 8, 12, 16, 16, 20]);
    let sets = (size / (line * u64::from(ways)) as f64).max(2.0);
    let sets = match n {
        // The first two levels are indexed by address bits; farther ones may have any number of sets.
        2.. if line >= 64 && rng.chance(0.5) => (sets / 16.0).ceil() as u64 * 16,
        _ => (sets as u64).next_power_of_two(),
    };
    Level {
        name: format!("L{}", n + 1),
        holds: if n == 0 && rng.chance(0.8) { Holds::Data } else { Holds::Unified },
        size: line * u64::from(ways) * sets,
        line,
        ways,
        index: Index::Bits,
        latency: Time::cycles(latency),
        replacement: rng.pick(POLICIES),
        write: rng.pick(&[Write::Back, Write::Through]),
        allocate: rng.chance(0.7),
        inclusion: if n == 0 {
            Inclusion::Neither
        } else {
            rng.pick(&[Inclusion::Neither, Inclusion::Neither, Inclusion::Inclusive, Inclusion::Exclusive])
        },
        shared: n > 0 && cpus > 1 && rng.chance(0.5),
    }
}

fn translation(rng: &mut Rng, pages: &[u64], levels: &[Level]) -> (Vec<Tlb>, Option<Walk>) {
    let count = rng.pick(&[0, 1, 2, 2]);
    if count == 0 {
        return (Vec::new(), None);
    }
    let mut tlbs = Vec::new();
    let mut entries = rng.pick(&[10, 16, 32, 48, 64, 96]);
    let mut latency = 0.0;
    for n in 0..count {
        let ways = rng.pick(&[entries, 4, 2]);
        let entries_here = entries / ways * ways;
        tlbs.push(Tlb {
            name: format!("T{}", n + 1),
            entries: entries_here,
            ways,
            pages: pages.to_vec(),
            latency: Time::cycles(latency),
            replacement: rng.pick(POLICIES),
            splits: None,
        });
        entries = (f64::from(entries_here) * rng.scaled(3.0, 24.0)).min(1536.0) as u32 / 4 * 4;
        latency = rng.between(3.0, 9.0).round();
    }
    let unified: Vec<&Level> = levels.iter().filter(|l| l.holds != Holds::Instructions).collect();
    let from = match rng.below(4) {
        0 => WalkFrom::Level(unified[unified.len() - 1].name.clone()),
        1 => WalkFrom::Memory,
        _ => WalkFrom::Nowhere,
    };
    let fetches = if from == WalkFrom::Nowhere { 0 } else { rng.pick(&[1, 2]) };
    (tlbs, Some(Walk { fetches, from, latency: Time::cycles(rng.between(15.0, 60.0).round()) }))
}
