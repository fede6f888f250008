//! Random descriptions of a wider range of machines than [`random`](crate::random).
//!
//! Rules of what is physically sensible. Each machine keeps them:
//!
//! - One to five levels for data, the nearest of 512 B to 64 KiB, the last of at most 512 MiB. With its nearer levels a level
//!   has at least twice their size; a victim buffer (exclusive, fully associative, of 64 lines at most) half of it or more.
//! - Each farther level is slower by a factor of at least 1.3, and memory by 1.3 again and by 20 ns or more; it takes at least
//!   50 ns. A line is as long as those of nearer levels, or twice as long, at most 256 bytes.
//! - The nearest level has a power of two of sets. Farther ones may have any number, and where it is a power of two, a last
//!   level beyond the first may be hashed.
//! - Each page size of mappings is held by at least one TLB. A farther TLB has at least three times the entries of a nearer one
//!   for the same pages. Some hold only base pages or only huge ones, some hold huge pages in pieces.
//! - Frames may be scattered; huge pages are contiguous.
//! - The timer has 1 MHz to 4 GHz, and a reading takes up to 60 cycles.
//! - Costs of translation differ as [`tlbs_distinct`](fathom_model::expected::tlbs_distinct) demands.
//!
//! The description's own checks hold too. [`noisy`] adds neighbours: see there.

use fathom_model::description::{
    Alternatives, Between, Classes, Core, Description, Frames, Holds, Inclusion, Index, Level, Memory,
    Neighbour, Refresh, Rows, Time, Timer, Tlb, Uncached, Walk, WalkFrom, Write,
};
use fathom_model::expected::{expected, tlbs_distinct};

use crate::random::{POLICIES, Rng};

/// Returns a random description without neighbours.
pub fn clean(seed: u64) -> Description {
    let mut rng = Rng::new(seed ^ 0x71de);
    loop {
        let d = attempt(&mut rng, seed);
        if d.check().is_ok() && tlbs_distinct(&d, &expected(&d)) {
            return d;
        }
    }
}

/// Returns the machine of [`clean`] with one to three neighbours: a second thread of the core, which takes ways of private
/// levels and of TLBs; cores that take ways of shared levels and bandwidth of memory; and a slower clock. Bursts last from
/// 1 ms to 10 s. Pauses are not shorter than bursts, in both ends of their ranges.
pub fn noisy(seed: u64) -> Description {
    let mut d = clean(seed);
    let mut rng = Rng::new(seed ^ 0x4015e);
    while d.neighbours.is_empty() {
        d.neighbours = neighbours(&mut rng, &d);
    }
    d.name = format!("noisy-{seed}");
    assert!(d.check().is_ok(), "{}", d.to_toml());
    d
}

fn attempt(rng: &mut Rng, seed: u64) -> Description {
    let hz = rng.scaled(0.4e9, 4e9).round();
    let cpus = rng.pick(&[1, 2, 4]);
    let largest = rng.pick(&[4e6, 12e6, 12e6, 64e6, 512e6]);
    let levels = levels(rng, cpus, largest);
    let last = levels.last().unwrap().latency.in_ns(hz);
    let memory = rng.between((1.3 * last).max(last + 20.0).max(50.0), 1.3 * last + 200.0);
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
        name: format!("wide-{seed}"),
        about: "random, of a wide range".into(),
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
        timer: timer(rng, hz),
        levels,
        tlbs,
        walk,
        memory: Memory {
            // Mappings of four times the largest level.
            size: if largest > 64e6 { 8 << 30 } else { 2 << 30 },
            pages,
            frames: if rng.chance(0.3) { Frames::Scattered } else { Frames::Contiguous },
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

/// Returns a timer. A third are coarse: 1 to 25 MHz, as the generic timer of Arm cores and the PM timer of PCs.
fn timer(rng: &mut Rng, hz: f64) -> Timer {
    let fine = [(hz, 1), (1e9, 1), (1e9, 10), (2.4e9, 24), (54e6, 1), (hz, 1)];
    let coarse = [(1e6, 1), (3.579_545e6, 1), (10e6, 1), (19.2e6, 1), (24e6, 1), (25e6, 1)];
    let (ticks, resolution) = if rng.chance(1.0 / 3.0) { rng.pick(&coarse) } else { rng.pick(&fine) };
    Timer {
        clock_hz: ticks,
        overhead: Time::cycles(rng.between(0.0, 60.0).round()),
        jitter: Time::cycles(rng.pick(&[0.0, 0.0, 1.0, 4.0])),
        resolution,
    }
}

/// Maximum lines of a victim buffer.
const MAX_VICTIM_LINES: u64 = 64;

/// The levels that are nearer than the next one.
struct Nearer {
    size: u64,
    latency: f64,
    line: u64,
}

fn levels(rng: &mut Rng, cpus: u32, largest: f64) -> Vec<Level> {
    let count = rng.pick(&[1, 2, 2, 3, 3, 3, 4, 4, 5]);
    let tiny = rng.chance(0.15);
    let size = if tiny { rng.scaled(512.0, 4096.0) } else { rng.scaled(4096.0, 65536.0) };
    let line = rng.pick(&[64, 64, 64, 32, 128, 256]);
    let first = nearest(rng, size, line);
    let mut nearer = Nearer { size: first.size, latency: first.latency.cycles, line };
    let mut levels = vec![first];
    for n in 1..count {
        let few = nearer.size / nearer.line <= 2 * MAX_VICTIM_LINES;
        let victim = n == 1 && few && rng.chance(0.2);
        let level = if victim {
            victim_buffer(rng, &nearer)
        } else {
            farther(rng, (n, n + 1 == count), &nearer, largest)
        };
        let exclusive = level.inclusion == Inclusion::Exclusive;
        if !victim && level.size < if exclusive { nearer.size } else { 2 * nearer.size } {
            break;
        }
        nearer = Nearer {
            size: level.size + if exclusive { nearer.size } else { 0 },
            latency: level.latency.cycles,
            line: level.line,
        };
        levels.push(level);
    }
    let mut shared = false;
    for level in &mut levels[1..] {
        shared |= cpus > 1 && rng.chance(0.5);
        level.shared = shared;
    }
    if rng.chance(0.3) && levels[0].holds == Holds::Data {
        let mut code = levels[0].clone();
        (code.name, code.holds) = ("L1I".into(), Holds::Instructions);
        levels.insert(1, code);
    }
    levels
}

/// Returns a level of about `size` bytes with this number of sets, before it gets its place.
fn level(rng: &mut Rng, n: usize, (line, ways, sets): (u64, u32, u64)) -> Level {
    Level {
        name: format!("L{}", n + 1),
        holds: Holds::Unified,
        size: line * u64::from(ways) * sets,
        line,
        ways,
        index: Index::Bits,
        latency: Time::ZERO,
        replacement: rng.pick(POLICIES),
        write: rng.pick(&[Write::Back, Write::Through]),
        allocate: rng.chance(0.7),
        inclusion: Inclusion::Neither,
        shared: false,
    }
}

fn nearest(rng: &mut Rng, size: f64, line: u64) -> Level {
    let ways: u32 = rng.pick(&[1, 2, 3, 4, 4, 5, 6, 8, 8, 12]);
    let sets = (size / (line * u64::from(ways)) as f64).max(1.0) as u64;
    let mut level = level(rng, 0, (line, ways, sets.next_power_of_two()));
    level.holds = if rng.chance(0.8) { Holds::Data } else { Holds::Unified };
    level.latency = Time::cycles(rng.between(2.0, 5.0).round());
    level
}

fn farther(rng: &mut Rng, (n, last): (usize, bool), nearer: &Nearer, largest: f64) -> Level {
    let line = if nearer.line < 256 && rng.chance(0.15) { nearer.line * 2 } else { nearer.line };
    let ways: u32 = rng.pick(&[1, 2, 3, 4, 4, 5, 6, 8, 8, 12, 16, 16, 20]);
    let held = nearer.size as f64;
    // The last level of a server may be a thousand times as large as the first two.
    let least = if last && n >= 2 && largest > 64e6 { (2.05 * held).max(16e6) } else { 2.05 * held };
    let most = if least > 2.05 * held { largest } else { 24.0 * held };
    let size = rng.scaled(least, most.max(least)).min(largest);
    let sets = (size / (line * u64::from(ways)) as f64).max(2.0).ceil() as u64;
    let sets = if rng.chance(0.35) { sets } else { sets.next_power_of_two() };
    let mut level = level(rng, n, (line, ways, sets));
    level.latency = Time::cycles((nearer.latency * rng.scaled(1.35, 3.5)).ceil());
    let kinds = [Inclusion::Neither, Inclusion::Neither, Inclusion::Inclusive, Inclusion::InclusiveData];
    let exclusive = line == nearer.line && rng.chance(0.25);
    level.inclusion = if exclusive { Inclusion::Exclusive } else { rng.pick(&kinds) };
    if last && sets.is_power_of_two() && rng.chance(0.4) {
        level.index = Index::Hashed;
    }
    level
}

/// Returns a small fully associative level that holds what the nearest one evicts.
fn victim_buffer(rng: &mut Rng, nearer: &Nearer) -> Level {
    let lines = nearer.size / nearer.line;
    let ways = rng.scaled(0.5 * lines as f64, lines as f64).clamp(2.0, MAX_VICTIM_LINES as f64) as u32;
    let mut level = level(rng, 1, (nearer.line, ways, 1));
    level.inclusion = Inclusion::Exclusive;
    level.latency = Time::cycles((nearer.latency * rng.scaled(1.35, 2.0)).ceil());
    level
}

/// Which pages the TLBs of a machine hold.
#[derive(Clone, Copy, PartialEq)]
enum Pages {
    /// Each TLB all pages.
    All,
    /// The first TLB base pages only, the second all.
    FirstBase,
    /// Separate first TLBs for base and for huge pages.
    Separate,
    /// All pages, huge ones in pieces: in the first TLB, or in all.
    Split { all: bool },
}

fn translation(rng: &mut Rng, pages: &[u64], levels: &[Level]) -> (Vec<Tlb>, Option<Walk>) {
    let count = rng.pick(&[0, 1, 2, 2, 2]);
    if count == 0 {
        return (Vec::new(), None);
    }
    let kind = match pages.len() {
        1 => Pages::All,
        _ => rng.pick(&[
            Pages::All,
            Pages::All,
            Pages::All,
            if count == 2 { Pages::FirstBase } else { Pages::Separate },
            Pages::Separate,
            Pages::Separate,
            Pages::Split { all: false },
            Pages::Split { all: true },
        ]),
    };
    let mut tlbs: Vec<Tlb> = Vec::new();
    let mut entries = rng.pick(&[10, 16, 32, 48, 64, 72, 96]);
    let mut latency = 0.0;
    for n in 0..count {
        let mut tlb = tlb(rng, format!("T{}", n + 1), entries, latency);
        tlb.pages = match kind {
            Pages::FirstBase if n == 0 => vec![pages[0]],
            Pages::Separate if n == 0 => vec![pages[0]],
            _ => pages.to_vec(),
        };
        let splits = matches!(kind, Pages::Split { all } if all || n == 0);
        tlb.splits = splits.then_some(pages[0]);
        entries = (f64::from(tlb.entries) * rng.scaled(3.0, 24.0)).min(2048.0) as u32 / 4 * 4;
        tlbs.push(tlb);
        if kind == Pages::Separate && n == 0 {
            let few = rng.pick(&[4, 8, 16, 32]);
            let mut huge = self::tlb(rng, "T1H".into(), few, 0.0);
            huge.pages = vec![pages[1]];
            tlbs.push(huge);
        }
        latency = rng.between(3.0, 9.0).round();
    }
    (tlbs, Some(walk(rng, levels)))
}

fn tlb(rng: &mut Rng, name: String, entries: u32, latency: f64) -> Tlb {
    let ways = rng.pick(&[entries, 4, 2]);
    Tlb {
        name,
        entries: entries / ways * ways,
        ways,
        pages: Vec::new(),
        latency: Time::cycles(latency),
        replacement: rng.pick(POLICIES),
        splits: None,
    }
}

fn walk(rng: &mut Rng, levels: &[Level]) -> Walk {
    let data: Vec<&Level> = levels.iter().filter(|l| l.holds != Holds::Instructions).collect();
    let from = match rng.below(4) {
        0 => WalkFrom::Level(data[data.len() - 1].name.clone()),
        1 => WalkFrom::Memory,
        _ => WalkFrom::Nowhere,
    };
    let fetches = if from == WalkFrom::Nowhere { 0 } else { rng.pick(&[1, 2]) };
    Walk { fetches, from, latency: Time::cycles(rng.between(15.0, 60.0).round()) }
}

fn neighbours(rng: &mut Rng, d: &Description) -> Vec<Neighbour> {
    let mut all = Vec::new();
    let private = |l: &&Level| l.holds != Holds::Instructions && !l.shared;
    if rng.chance(0.5) {
        let mut sibling = neighbour(rng, "sibling");
        let ways = range(rng, (10, 30), (40, 75));
        let taken = |of: u32| u64::from(of) * ways.most >= 100;
        let levels = d.levels.iter().filter(private).filter(|l| taken(l.ways));
        sibling.levels = levels.map(|l| l.name.clone()).collect();
        sibling.tlbs = d.tlbs.iter().filter(|t| taken(t.ways)).map(|t| t.name.clone()).collect();
        let some = !(sibling.levels.is_empty() && sibling.tlbs.is_empty());
        sibling.ways_taken = some.then_some(ways);
        all.extend(some.then_some(sibling));
    }
    if rng.chance(0.6) {
        let mut cores = neighbour(rng, "cores");
        let ways = range(rng, (10, 30), (40, 75));
        let shared = d.levels.iter().filter(|l| l.shared && u64::from(l.ways) * ways.most >= 100);
        cores.levels = shared.map(|l| l.name.clone()).collect();
        cores.ways_taken = (!cores.levels.is_empty()).then_some(ways);
        cores.memory_slower = Some(range(rng, (10, 20), (40, 200)));
        all.push(cores);
    }
    if rng.chance(0.4) {
        let mut clock = neighbour(rng, "clock");
        clock.clock_slower = Some(range(rng, (3, 5), (6, 30)));
        all.push(clock);
    }
    all
}

/// Returns a range with its ends in the given ones.
fn range(rng: &mut Rng, least: (u64, u64), most: (u64, u64)) -> Between {
    let mut draw = |(low, high): (u64, u64)| low + rng.below(high - low + 1);
    Between { least: draw(least), most: draw(most) }
}

/// Returns a neighbour that takes nothing yet.
fn neighbour(rng: &mut Rng, name: &str) -> Neighbour {
    let ms = |ms: f64| (ms * 1e6).round() as u64;
    let (short, long) = (rng.scaled(1.0, 20.0), rng.scaled(100.0, 10_000.0));
    let short_pause = short * rng.scaled(1.0, 8.0);
    let long_pause = (long * rng.scaled(1.0, 2.0)).max(short_pause);
    Neighbour {
        name: name.into(),
        bursts: Between { least: ms(short), most: ms(long) },
        pauses: Between { least: ms(short_pause), most: ms(long_pause) },
        levels: Vec::new(),
        tlbs: Vec::new(),
        ways_taken: None,
        memory_slower: None,
        clock_slower: None,
    }
}
