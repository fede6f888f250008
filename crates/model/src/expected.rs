//! Expected results of a survey of a described machine, computed from the description.
//!
//! The computation shares no code with the analysis and does not run the model. The oracle tests compare surveys of the
//! model with it, and `fathom report --against` any survey. The constants are properties of the survey: the spacing and
//! the maximum number of pages of a TLB pair, the window of its chains, the instructions of its loop.

use crate::description::{Description, Holds, Inclusion, Level, WalkFrom};
use crate::rng::{Rng, Use};

/// A range of valid values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Range {
    fn exactly(value: f64) -> Range {
        Range { low: value, high: value }
    }

    /// Returns whether `value` is within the range, with a tolerance of `relative` or `absolute`.
    #[must_use]
    pub fn holds(&self, value: f64, relative: f64, absolute: f64) -> bool {
        let slack = |end: f64| (relative * end).max(absolute);
        value >= self.low - slack(self.low) && value <= self.high + slack(self.high)
    }
}

/// An expected tier.
#[derive(Clone, Debug, PartialEq)]
pub struct Tier {
    /// Load-to-use latency in cycles.
    pub cycles: Range,
    /// Its end; `None` for memory.
    pub capacity: Option<Capacity>,
}

/// An expected capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// The onset of misses, bytes.
    pub bytes: Range,
    /// Whether the onset is the size of the level. Not for an exclusive level, which adds to the nearer ones.
    pub exact: bool,
}

/// An expected TLB.
#[derive(Clone, Debug, PartialEq)]
pub struct Tlb {
    /// Its index among the description's TLBs, from 0. TLBs that no survey can detect are not expected.
    pub nth: usize,
    /// Its entries.
    pub entries: u32,
    /// Whether as many spaced lines as it has entries fill a level within a factor of 1.5. Its onset and the level's
    /// are then one rise, which must be found and noted, but need not be separated.
    pub hidden: bool,
    /// Additional cycles of a load that misses in it and hits in the next one, or needs a walk.
    pub penalty: Range,
}

/// All expected results.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// One per level that holds data, nearest first, and memory.
    pub tiers: Vec<Tier>,
    /// One per TLB that can be detected with base pages, nearest first.
    pub tlbs: Vec<Tlb>,
    /// Cycles of a load in the order of addresses, over many lines of huge pages; `None` if nothing is prefetched.
    pub stream: Option<Range>,
}

/// Spacing of the lines in the survey's TLB pairs, bytes.
const SPACING: f64 = 128.0;
/// Maximum pages of a TLB pair.
const MAX_PAGES: u64 = 8192;

/// Returns the levels on the path of loads, nearest first: those of the expected tiers but the last.
#[must_use]
pub fn data_levels(d: &Description) -> Vec<&Level> {
    d.levels.iter().filter(|l| l.holds != Holds::Instructions).collect()
}

/// Returns the expected results of a survey of `d`. Cycles are those of `d.core.clock_hz`.
#[must_use]
pub fn expected(d: &Description) -> Expected {
    let data = data_levels(d);
    let hz = d.core.clock_hz;
    // One decrement and one branch per 32 loads.
    let loop_overhead = (d.core.alu.in_cycles(hz) + d.core.branch.in_cycles(hz)) / 32.0;
    let mut tiers = Vec::new();
    let mut held = 0.0;
    for level in &data {
        let size = level.size as f64;
        let exclusive = level.inclusion == Inclusion::Exclusive && held > 0.0;
        // An exclusive level adds to the nearer ones. How much of it a cyclic walk can use depends on how the evicted
        // lines are distributed over its sets: between nothing and all.
        let bytes = Range { low: size, high: if exclusive { size + held } else { size } };
        held = if exclusive { size + held } else { size };
        tiers.push(Tier {
            cycles: Range::exactly(level.latency.in_cycles(hz) + loop_overhead),
            capacity: Some(Capacity { bytes, exact: !exclusive }),
        });
    }
    let beyond = refreshed(d);
    let cycles = Range { low: beyond.low + loop_overhead, high: beyond.high + loop_overhead };
    tiers.push(Tier { cycles, capacity: None });
    let stream = d.core.streams.map(|streams| Range::exactly(streams.cost.in_cycles(hz) + loop_overhead));
    Expected { tiers, tlbs: tlbs(d, &data), stream }
}

/// Returns the mean load-to-use latency of memory for a random chain, cycles. Accesses begin at any phase of a refresh.
fn memory(d: &Description) -> f64 {
    let latency = unrefreshed(d);
    latency * refresh_factor(d, latency)
}

/// Returns the same without refresh.
fn unrefreshed(d: &Description) -> f64 {
    let hz = d.core.clock_hz;
    let latency = d.memory.latency.in_cycles(hz);
    match &d.memory.rows {
        // A random row of the survey's window is open in its bank if it was the last one used there.
        Some(rows) => latency + (rows.open.in_cycles(hz) - latency) * open_share(d),
        None => latency,
    }
}

/// Returns the share of a random chain's accesses to memory that find their row open.
fn open_share(d: &Description) -> f64 {
    let Some(rows) = &d.memory.rows else { return 0.0 };
    1.0 / (window(d) / rows.row as f64 / f64::from(rows.banks)).max(1.0)
}

/// Returns the mean latency of memory with the phases in which a chain's accesses really begin, cycles. The first access after
/// a refresh begins at its end, and the others follow at nearly equal distances: those of small spread meet the next refresh at
/// one phase. What else a chain does (translation) disturbs the phases by an unknown amount.
fn refreshed(d: &Description) -> Range {
    let any_phase = memory(d);
    let Some(refresh) = &d.memory.refresh else { return Range::exactly(any_phase) };
    let hz = d.core.clock_hz;
    let (every, takes) = (refresh.every.in_cycles(hz), refresh.takes.in_cycles(hz));
    let (latency, spread) = (d.memory.latency.in_cycles(hz), d.memory.spread.in_cycles(hz));
    let open = d.memory.rows.as_ref().map_or(latency, |rows| rows.open.in_cycles(hz));
    let mut rng = Rng::new(0, Use::Spread, 0);
    let mut share = || rng.below(1 << 20) as f64 / f64::from(1 << 20);
    let mut time = 0.0;
    for _ in 0..FOLLOWED_ACCESSES {
        let phase = time % every;
        let wait = if phase >= every - takes { every - phase } else { 0.0 };
        let access = if share() < open_share(d) { open } else { latency };
        time += wait + access + spread * (2.0 * share() - 1.0);
    }
    let followed = time / f64::from(FOLLOWED_ACCESSES);
    match d.tlbs.is_empty() {
        true => Range::exactly(followed),
        false => Range { low: followed.min(any_phase), high: followed.max(any_phase) },
    }
}

/// Accesses whose phases are followed: some thousand refreshes.
const FOLLOWED_ACCESSES: u32 = 50_000;

/// Returns the survey's window, bytes: 64 KiB in huge pages. In base pages it has as much, at least four pages; or four
/// pages, if the first TLB does not hold twice the pages.
fn window(d: &Description) -> f64 {
    const WINDOW: u64 = 64 << 10;
    const FEW_PAGES: u64 = 4;
    let base = d.memory.pages.first().copied().unwrap_or(1);
    let pages = (WINDOW / base).max(FEW_PAGES);
    let first = d.tlbs.iter().find(|t| t.pages.contains(&base)).map_or(u64::MAX, |t| u64::from(t.entries));
    match (is_in_huge_pages(d), first >= 2 * pages) {
        (true, _) => WINDOW as f64,
        (false, true) => (pages * base) as f64,
        (false, false) => (FEW_PAGES * base) as f64,
    }
}

/// Returns whether the survey's latency curve is in huge pages.
fn is_in_huge_pages(d: &Description) -> bool {
    d.memory.pages.len() > 1 && !huge_is_slower(d)
}

/// Returns whether loads that hit in the nearest level take a tenth longer in huge pages than in base pages, because the
/// nearest TLB of huge pages is a farther one.
fn huge_is_slower(d: &Description) -> bool {
    let hz = d.core.clock_hz;
    let Some(huge) = d.memory.pages.get(1) else { return false };
    let lookup = d.tlbs.iter().find(|t| t.pages.contains(huge)).map_or(0.0, |t| t.latency.in_cycles(hz));
    data_levels(d).first().is_some_and(|level| lookup > 0.1 * level.latency.in_cycles(hz))
}

/// Returns the factor by which refresh slows continuous accesses: `takes` of each period is lost, less half an access
/// that is still in progress when it begins.
fn refresh_factor(d: &Description, latency: f64) -> f64 {
    let hz = d.core.clock_hz;
    d.memory.refresh.as_ref().map_or(1.0, |refresh| {
        let (every, takes) = (refresh.every.in_cycles(hz), refresh.takes.in_cycles(hz));
        every / (every - (takes - latency / 2.0).max(0.0))
    })
}

/// Returns the load-to-use latency of an open row, cycles.
fn open_row(d: &Description) -> Option<f64> {
    d.memory.rows.as_ref().map(|r| r.open.in_cycles(d.core.clock_hz))
}

/// Returns the load-to-use latency of a closed row, cycles: the cost of lines and descriptors that are far apart.
fn closed_row(d: &Description) -> f64 {
    memory(d).max(d.memory.latency.in_cycles(d.core.clock_hz))
}

fn tlbs(d: &Description, data: &[&Level]) -> Vec<Tlb> {
    let hz = d.core.clock_hz;
    let base = d.memory.pages.first().copied().unwrap_or_default();
    let usable: Vec<_> = d.tlbs.iter().enumerate().filter(|(_, t)| t.pages.contains(&base)).collect();
    let Some(w) = &d.walk else { return Vec::new() };
    let walk = {
        let fixed = w.latency.in_cycles(hz);
        let each = match &w.from {
            WalkFrom::Nowhere => Range::exactly(0.0),
            // Neighbouring descriptors may be in an open row.
            WalkFrom::Memory => Range { low: open_row(d).unwrap_or_else(|| memory(d)), high: closed_row(d) },
            // An exclusive level is filled by evictions of the nearer one, never by a walk that starts at it.
            WalkFrom::Level(name)
                if data.iter().skip(1).any(|l| l.name == *name && l.inclusion == Inclusion::Exclusive) =>
            {
                Range { low: open_row(d).unwrap_or_else(|| memory(d)), high: closed_row(d) }
            }
            WalkFrom::Level(name) => {
                let from = data.iter().position(|l| l.name == *name).unwrap_or(0);
                // With the largest pair: one spaced line and one descriptor per page.
                let footprint = MAX_PAGES as f64 * (SPACING + 8.0);
                let held = data.iter().position(|l| l.size as f64 >= footprint).map(|l| l.max(from));
                let far = held.map_or_else(|| closed_row(d), |l| data[l].latency.in_cycles(hz));
                Range { low: data[from].latency.in_cycles(hz), high: far }
            }
        };
        let n = f64::from(w.fetches);
        Range { low: fixed + n * each.low, high: fixed + n * each.high }
    };
    usable
        .iter()
        .enumerate()
        .filter(|(_, (_, t))| u64::from(t.entries) * 2 <= MAX_PAGES)
        // A miss without a cost cannot be detected (the MicroTLB of the ARM1176).
        .filter(|(i, _)| usable.get(i + 1).is_none_or(|(_, next)| next.latency.in_cycles(hz) > 0.0))
        .map(|(i, (nth, t))| {
            let mut penalty =
                usable.get(i + 1).map_or(walk, |(_, next)| Range::exactly(next.latency.in_cycles(hz)));
            // If the lines themselves come from memory, packed lines are in an open row and spaced lines are not. The
            // pair cannot separate that from translation.
            let in_cache = data.iter().any(|l| l.size >= 8 * 128 * u64::from(t.entries));
            if let (false, Some(open)) = (in_cache, open_row(d)) {
                penalty.high += closed_row(d) - open;
            }
            if !in_cache {
                // Work between accesses to memory waits for a refresh like the accesses themselves.
                penalty.high *= refresh_factor(d, 0.0);
            }
            let reach = 128.0 * f64::from(t.entries);
            let hidden = data.iter().any(|l| (1.0 / 1.5..=1.5).contains(&(reach / l.size as f64)));
            Tlb { nth: *nth, entries: t.entries, hidden, penalty }
        })
        .collect()
}

/// Returns whether these TLBs and walks can be separated at all. A translation must raise the cost of a load by a
/// factor of 1.3 over the previous one, based on the level that holds twice as many spaced lines as the TLB has
/// entries. This is the same ratio as for successive levels.
#[must_use]
pub fn tlbs_distinct(d: &Description, e: &Expected) -> bool {
    let hz = d.core.clock_hz;
    let mut before = 0.0;
    e.tlbs.iter().all(|t| {
        let footprint = 2 * 128 * u64::from(t.entries);
        let level = d.levels.iter().find(|l| l.holds != Holds::Instructions && l.size >= footprint);
        let latency = level.map_or_else(|| memory(d), |l| l.latency.in_cycles(hz));
        let separable = (latency + t.penalty.low) / (latency + before) >= 1.3;
        before = t.penalty.high;
        separable
    })
}
