//! What a survey of a described machine ought to find: from the description alone, by arithmetic that
//! shares nothing with the analysis, and runs nothing.
//!
//! The oracle tests hold surveys of the model against it, and `fathom report --against` any survey. What it
//! knows of how a survey looks (the spacing and the number of a TLB pair's pages, the window of its chains,
//! the turns of its loop) are its constants.

use crate::description::{Description, Holds, Inclusion, Level, WalkFrom};

/// A range within which a value is right.
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

    /// Is `value` within the range, or off by at most `relative` or `absolute`?
    #[must_use]
    pub fn holds(&self, value: f64, relative: f64, absolute: f64) -> bool {
        let slack = |end: f64| (relative * end).max(absolute);
        value >= self.low - slack(self.low) && value <= self.high + slack(self.high)
    }
}

/// An expected tier.
#[derive(Clone, Debug, PartialEq)]
pub struct Tier {
    /// Load-to-use in cycles.
    pub cycles: Range,
    /// Bytes where it ends; `exact` when the onset of misses is the size.
    pub capacity: Option<Capacity>,
}

/// An expected capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Where loads begin to miss, bytes.
    pub bytes: Range,
    /// Is that the size itself? Not of an exclusive level, which adds to what is nearer.
    pub exact: bool,
}

/// An expected TLB: pages, and what its miss adds, in cycles.
#[derive(Clone, Debug, PartialEq)]
pub struct Tlb {
    /// Its place among the description's TLBs, from 0; those that no survey can see are not expected.
    pub nth: usize,
    /// Its entries.
    pub entries: u32,
    /// As many spaced lines as it has entries fill a level within 1.5: its onset and the level's are one
    /// rise, which must be found and noted, but need not be told apart.
    pub hidden: bool,
    /// What a load pays more when it misses and the next one serves, or the walk, cycles.
    pub penalty: Range,
}

/// All that is expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// One a level that holds data, nearest first, and memory.
    pub tiers: Vec<Tier>,
    /// One a TLB that can be seen in base pages, nearest first.
    pub tlbs: Vec<Tlb>,
}

/// Spacing of the lines in the survey's TLB pairs, bytes.
const SPACING: f64 = 128.0;
/// Most pages of a TLB pair.
const MAX_PAGES: u64 = 8192;

/// The levels that loads see, nearest first: those of the expected tiers but the last.
#[must_use]
pub fn data_levels(d: &Description) -> Vec<&Level> {
    d.levels.iter().filter(|l| l.holds != Holds::Instructions).collect()
}

/// What a survey of `d` ought to find. Cycles are those of `d.core.clock_hz`.
#[must_use]
pub fn expected(d: &Description) -> Expected {
    let data = data_levels(d);
    let hz = d.core.clock_hz;
    // One decrement and one branch in every 32 loads.
    let turn = (d.core.alu.in_cycles(hz) + d.core.branch.in_cycles(hz)) / 32.0;
    let mut tiers = Vec::new();
    let mut held = 0.0;
    for level in &data {
        let size = level.size as f64;
        let exclusive = level.inclusion == Inclusion::Exclusive && held > 0.0;
        // An exclusive level adds to what is nearer; how much of it a cyclic walk can use depends on how
        // the lines that left spread over its sets, between nothing and all.
        let bytes = Range { low: size, high: if exclusive { size + held } else { size } };
        held = if exclusive { size + held } else { size };
        tiers.push(Tier {
            cycles: Range::exactly(level.latency.in_cycles(hz) + turn),
            capacity: Some(Capacity { bytes, exact: !exclusive }),
        });
    }
    tiers.push(Tier { cycles: Range::exactly(memory(d) + turn), capacity: None });
    Expected { tiers, tlbs: tlbs(d, &data) }
}

/// Mean load-to-use from memory of a random chain, cycles.
fn memory(d: &Description) -> f64 {
    let hz = d.core.clock_hz;
    let m = &d.memory;
    let mut latency = m.latency.in_cycles(hz);
    if let Some(rows) = &m.rows {
        // The survey's window is four pages of the largest size; a random one of its rows is open in
        // its bank when it was the last one used there.
        let window = 4.0 * m.pages.last().copied().unwrap_or_default() as f64;
        let rows_a_bank = (window / rows.row as f64 / f64::from(rows.banks)).max(1.0);
        latency += (rows.open.in_cycles(hz) - latency) / rows_a_bank;
    }
    latency * stretched(d, latency)
}

/// What refresh makes of a second in which memory is used all the time: of each period, `takes` is lost,
/// less the half access that is still under way when it begins.
fn stretched(d: &Description, latency: f64) -> f64 {
    let hz = d.core.clock_hz;
    d.memory.refresh.as_ref().map_or(1.0, |refresh| {
        let (every, takes) = (refresh.every.in_cycles(hz), refresh.takes.in_cycles(hz));
        every / (every - (takes - latency / 2.0).max(0.0))
    })
}

/// Load-to-use from an open row, cycles.
fn open_row(d: &Description) -> Option<f64> {
    d.memory.rows.as_ref().map(|r| r.open.in_cycles(d.core.clock_hz))
}

/// Load-to-use from memory when its row is not open, cycles: what lines and descriptors far apart cost.
fn closed_row(d: &Description) -> f64 {
    memory(d).max(d.memory.latency.in_cycles(d.core.clock_hz))
}

fn tlbs(d: &Description, data: &[&Level]) -> Vec<Tlb> {
    let hz = d.core.clock_hz;
    let base = d.memory.pages.first().copied().unwrap_or_default();
    let able: Vec<_> = d.tlbs.iter().enumerate().filter(|(_, t)| t.pages.contains(&base)).collect();
    let Some(w) = &d.walk else { return Vec::new() };
    let walk = {
        let fixed = w.latency.in_cycles(hz);
        let each = match &w.from {
            WalkFrom::Nowhere => Range::exactly(0.0),
            // Neighbouring descriptors may find their row open.
            WalkFrom::Memory => Range { low: open_row(d).unwrap_or_else(|| memory(d)), high: closed_row(d) },
            // An exclusive level is filled by what leaves the nearer one, never by a walk that begins at it.
            WalkFrom::Level(name)
                if data.iter().skip(1).any(|l| l.name == *name && l.inclusion == Inclusion::Exclusive) =>
            {
                Range { low: open_row(d).unwrap_or_else(|| memory(d)), high: closed_row(d) }
            }
            WalkFrom::Level(name) => {
                let from = data.iter().position(|l| l.name == *name).unwrap_or(0);
                // At the largest pair: a spaced line and a descriptor a page.
                let footprint = MAX_PAGES as f64 * (SPACING + 8.0);
                let held = data.iter().position(|l| l.size as f64 >= footprint).map(|l| l.max(from));
                let far = held.map_or_else(|| closed_row(d), |l| data[l].latency.in_cycles(hz));
                Range { low: data[from].latency.in_cycles(hz), high: far }
            }
        };
        let n = f64::from(w.fetches);
        Range { low: fixed + n * each.low, high: fixed + n * each.high }
    };
    able.iter()
        .enumerate()
        .filter(|(_, (_, t))| u64::from(t.entries) * 2 <= MAX_PAGES)
        // A miss that costs nothing cannot be seen (the MicroTLB of the ARM1176).
        .filter(|(i, _)| able.get(i + 1).is_none_or(|(_, next)| next.latency.in_cycles(hz) > 0.0))
        .map(|(i, (nth, t))| {
            let mut penalty =
                able.get(i + 1).map_or(walk, |(_, next)| Range::exactly(next.latency.in_cycles(hz)));
            // Where the lines themselves come from memory, packed ones find their row open and spread ones
            // do not: the pair cannot tell that from translation.
            let in_cache = data.iter().any(|l| l.size >= 8 * 128 * u64::from(t.entries));
            if let (false, Some(open)) = (in_cache, open_row(d)) {
                penalty.high += closed_row(d) - open;
            }
            if !in_cache {
                // What is done between accesses to memory waits for its refresh like the accesses themselves.
                penalty.high *= stretched(d, 0.0);
            }
            let reach = 128.0 * f64::from(t.entries);
            let hidden = data.iter().any(|l| (1.0 / 1.5..=1.5).contains(&(reach / l.size as f64)));
            Tlb { nth: *nth, entries: t.entries, hidden, penalty }
        })
        .collect()
}

/// Can these TLBs and walks be told apart at all? What a translation adds must raise the cost of a load
/// by 1.3 over the one before it, on the ground of the level that holds twice as many spaced lines as the
/// TLB has entries: the same ratio that successive levels keep.
#[must_use]
pub fn tlbs_distinct(d: &Description, e: &Expected) -> bool {
    let hz = d.core.clock_hz;
    let mut before = 0.0;
    e.tlbs.iter().all(|t| {
        let footprint = 2 * 128 * u64::from(t.entries);
        let level = d.levels.iter().find(|l| l.holds != Holds::Instructions && l.size >= footprint);
        let ground = level.map_or_else(|| memory(d), |l| l.latency.in_cycles(hz));
        let reported = (ground + t.penalty.low) / (ground + before) >= 1.3;
        before = t.penalty.high;
        reported
    })
}
