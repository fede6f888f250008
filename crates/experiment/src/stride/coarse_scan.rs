//! Coarse scan: dependent loads at two sizes per octave. It gives the sizes to sweep, inside and beyond each tier, and
//! which level serves loads at each of them. Sweeps alone do not show that if the core prefetches.

use fathom_analysis::claims::{Claim, decode};
use fathom_analysis::findings::{Finding, Item, Report};
use fathom_analysis::interval::median_interval;
use fathom_analysis::metrics::{latency, stride as metrics};
use fathom_analysis::tiers::{self, Options, Point, Tier};
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{Chase, Memory, PatternKind, Trial, Walk};
use fathom_units::facts;
use fathom_units::size;

use super::SIZES;
use crate::budget::Budget;
use crate::cost::Cost;
use crate::reading::{measured, text};
use crate::record::Record;
use crate::scale::{At, Scale};
use crate::scale::{STRIDE, WINDOW_PAGES};

/// Smallest and largest working set, bytes: inside every first level, and beyond all but the last levels of servers. At
/// the largest one trial takes a fifth of a second on hardware.
const SCANNED_BYTES: [u64; 2] = [2 << 10, 64 << 20];
/// Share of the budget that the coarse scan may take, as for a round of the survey.
const BUDGET_SHARE: f64 = 0.3;
/// Samples per trial: two, to compare them.
const SAMPLES: u64 = 2;
/// Ratio of the size beyond the last rise to the capacity: random replacement leaves 2 % of the hits there.
const FAR_RATIO: f64 = 4.0;
/// Minimum size beyond all tiers, bytes, also on a machine with one tier.
const MIN_FAR_BYTES: u64 = 16 << 20;
/// A size between first level and memory on many machines, bytes. It is measured if no other size is near, because a
/// missing level shows there.
const BETWEEN_BYTES: u64 = 256 << 10;
/// Minimum ratio of two sizes: an octave, less the effect of rounding to one.
const MIN_SIZE_RATIO: f64 = 1.9;
/// Minimum ratio between an additional size and the end of a tier.
const MIN_EDGE_RATIO: f64 = 1.5;
/// Ratio of times below which they belong to one tier, as in [`Options::min_ratio`].
const MAX_TIER_RATIO: f64 = 1.25;

/// Returns whether a coarse scan is needed: only if no sizes are given.
pub(super) fn is_needed(record: &Record) -> bool {
    super::options::Options::of(record).bytes.is_empty()
}

/// Returns its trials: two sizes per octave, within a share of the budget and the memory.
pub(super) fn trials(record: &Record, budget: &Budget, loads: u64) -> Vec<Trial> {
    let scale = Scale::of(record);
    let cost = Cost { modelled: budget.modelled, latency_curve: &[] };
    let mut left = budget.share(BUDGET_SHARE);
    let octaves = (SCANNED_BYTES[0].ilog2()..=SCANNED_BYTES[1].ilog2()).flat_map(|k| [1 << k, 3 << (k - 1)]);
    octaves
        .take_while(|bytes| *bytes <= max_bytes(record))
        .map(|bytes| {
            let cells = bytes / STRIDE;
            // Whole laps would prove nothing.
            let mut loads = loads + 1;
            while (2 * loads).is_multiple_of(cells) {
                loads += 1;
            }
            // Initialising warms hardware like a lap. A model starts with empty caches, and random replacement has to
            // settle.
            let laps = if budget.modelled && cells <= 1 << 15 { 3 } else { 1 };
            Trial {
                memory: Memory::of(bytes, STRIDE),
                loads,
                samples: SAMPLES,
                warm: laps * cells,
                ..Trial::of(Chase::over(Walk::windows(WINDOW_PAGES * scale.base)))
            }
        })
        .take_while(|trial| {
            let price = cost.of(trial);
            let fits = price <= left;
            left = left.saturating_sub(price);
            fits
        })
        .collect()
}

/// Returns the largest possible size, bytes.
fn max_bytes(record: &Record) -> u64 {
    let stated =
        record.int(facts::MEMORY_MAPPABLE_BASE_BYTES).or_else(|| record.int(facts::MEMORY_CEILING_BYTES));
    stated.unwrap_or(SCANNED_BYTES[1]).min(SCANNED_BYTES[1])
}

/// The measured coarse scan.
pub(super) struct CoarseScan {
    at: Vec<At>,
    tiers: Vec<Tier>,
    flat_end: bool,
}

/// The level that serves loads at a working set.
enum ServedBy {
    Nearest,
    /// The nth tier, neither the first nor the last.
    Level(usize),
    Between,
    Memory,
}

impl ServedBy {
    /// Returns its word in findings.
    fn token(&self) -> &'static str {
        match self {
            ServedBy::Nearest => "nearest",
            ServedBy::Level(_) => "level",
            ServedBy::Between => "between",
            ServedBy::Memory => "memory",
        }
    }
}

impl CoarseScan {
    /// Reads the coarse scan; `None` if there was none.
    pub(super) fn of(record: &Record, scale: &Scale) -> Option<CoarseScan> {
        if !is_needed(record) {
            return None;
        }
        let at = scale.gather(record, PatternKind::Chase, |t| {
            let window = t.pattern.walk() == Walk::windows(WINDOW_PAGES * scale.base);
            window && t.memory.page == Pages::Base && t.memory.stride == STRIDE
        });
        let points: Vec<Point> = at
            .iter()
            .map(|a| Point { x: a.bytes as f64, y: a.time(), sigma: a.sigma(), shared: 0.0 })
            .collect();
        let reading = tiers::read(&points, &Options { share: scale.share, ..Options::default() })?;
        Some(CoarseScan { at, tiers: reading.tiers, flat_end: reading.flat_end })
    }

    /// Returns the ends of all tiers but the last, bytes.
    fn ends(&self) -> Vec<f64> {
        self.tiers.iter().filter_map(|t| t.capacity).map(|c| c.onset.value).collect()
    }

    /// Returns the time of a dependent load at a working set, ns, if measured.
    pub(super) fn time(&self, bytes: u64) -> Option<f64> {
        self.at.iter().find(|a| a.bytes == bytes).map(At::time)
    }

    /// Returns sizes inside each tier, beyond the last rise, inside each claimed level, and between the first level and
    /// memory; ascending.
    pub(super) fn sizes(&self, record: &Record) -> Vec<u64> {
        let octave = |bytes: f64| 1u64 << (bytes.log2().round().clamp(0.0, 40.0) as u32);
        let mut candidates = Vec::new();
        let mut inside = |ends: &[f64]| {
            let mut before = None;
            for &end in ends {
                candidates.push(octave(before.map_or(end / 2.0, |before: f64| (before * end).sqrt())));
                before = Some(end);
            }
        };
        let ends = self.ends();
        inside(&ends);
        inside(&claimed(record).iter().map(|c| c.1).collect::<Vec<f64>>());
        let far =
            octave(FAR_RATIO * ends.last().copied().unwrap_or(0.0)).clamp(MIN_FAR_BYTES, SCANNED_BYTES[1]);
        // Close to a tier's end, page tables and the scan's low resolution make the tier ambiguous.
        let clear = |bytes: &u64| {
            ends.iter().all(|end| !(end / MIN_EDGE_RATIO..=end * MIN_EDGE_RATIO).contains(&(*bytes as f64)))
        };
        candidates.extend([BETWEEN_BYTES, SIZES[0]].iter().filter(|b| clear(b)));
        candidates.push(far);
        let mut sizes: Vec<u64> = Vec::new();
        for bytes in candidates.into_iter().filter(|b| *b <= max_bytes(record)) {
            let apart = |other: &u64| (bytes.max(*other) as f64) >= MIN_SIZE_RATIO * bytes.min(*other) as f64;
            if sizes.iter().all(apart) {
                sizes.push(bytes);
            }
        }
        sizes.sort_unstable();
        sizes
    }

    /// Adds the curve, and the level that serves loads at each of `sizes`.
    pub(super) fn rows(&self, sizes: &[u64], record: &Record, report: &mut Report) {
        for at in &self.at {
            let values = at.values();
            if let Some(i) = median_interval(&values) {
                let key = latency::LATENCY_TIME.at([at.bytes.into()]);
                report.findings.push(measured(key, i, "ns", values.len(), &at.trials));
            }
        }
        // With a single tier, the serving level is unknown.
        if self.tiers.len() < 2 {
            return;
        }
        let at = |bytes: u64| self.at.iter().find(|a| a.bytes == bytes);
        report.findings.extend(sizes.iter().filter_map(|b| at(*b)).map(|at| self.served_by_row(at, record)));
    }

    fn served_by_row(&self, at: &At, record: &Record) -> Finding {
        let served_by = self.served_by(at);
        let mut row = text(metrics::STRIDE_SERVED_BY.at([at.bytes.into()]), served_by.token());
        (row.count, row.trials) = (at.values().len() as u64, at.trials.clone());
        let absent = Absent::of(at, self.ends().len(), record);
        self.details(&served_by, absent, &mut row);
        row.notes.push(self.sentence(at, &served_by, absent));
        row
    }

    /// Adds the capacities between which a level serves loads, and the level that should serve them if memory does.
    fn details(&self, served_by: &ServedBy, absent: Absent, row: &mut Finding) {
        let ends = self.ends();
        let (nearer, end_of_level) = match served_by {
            ServedBy::Nearest => (None, ends.first()),
            ServedBy::Level(nth) => (ends.get(nth - 1), ends.get(*nth)),
            ServedBy::Between => (None, None),
            ServedBy::Memory => (ends.last(), None),
        };
        for (field, end) in [(metrics::BEYOND, nearer), (metrics::UP_TO, end_of_level)] {
            if let Some(end) = end {
                row.detail.set(field, Item::Number(*end));
            }
        }
        match absent {
            _ if !matches!(served_by, ServedBy::Memory) => {}
            Absent::Claimed(level, bytes, source) => {
                row.detail.set(metrics::ABSENT_LEVEL, Item::Number(f64::from(level)));
                row.detail.set(metrics::ABSENT_BYTES, Item::Number(bytes));
                row.detail.set(metrics::ABSENT_SOURCE, Item::Token(source.to_owned()));
            }
            Absent::Second => row.detail.set(metrics::ONE_LEVEL, Item::Flag(true)),
            Absent::Nothing => {}
        }
    }

    fn served_by(&self, at: &At) -> ServedBy {
        let (bytes, time) = (at.bytes as f64, at.time());
        let nth =
            self.tiers.iter().position(|t| t.capacity.is_none_or(|c| bytes <= c.onset.value)).unwrap_or(0);
        let ratio = time / self.tiers[nth].latency.value;
        match nth {
            _ if !(1.0 / MAX_TIER_RATIO..=MAX_TIER_RATIO).contains(&ratio) => ServedBy::Between,
            0 => ServedBy::Nearest,
            nth if nth + 1 == self.tiers.len() => ServedBy::Memory,
            nth => ServedBy::Level(nth),
        }
    }

    fn sentence(&self, at: &At, served_by: &ServedBy, absent: Absent) -> String {
        let ends: Vec<String> = self.ends().into_iter().map(size).collect();
        let far = self.at.last().unwrap_or(at);
        let own = format!("{:.1} ns per dependent load", at.time());
        let compared = format!("{own} ({}: {:.1})", size(far.bytes as f64), far.time());
        match served_by {
            ServedBy::Nearest => format!("{compared}: the nearest level, up to {}", ends[0]),
            ServedBy::Level(nth) => {
                format!("{compared}: a level between {} and {}", ends[nth - 1], ends[*nth])
            }
            ServedBy::Between => format!("{compared}: between two tiers, partly served by the nearer one"),
            ServedBy::Memory => {
                let open = if self.flat_end { "" } else { ", where the curve still rises" };
                let slow = match at.bytes == far.bytes {
                    true => format!("{own}, the slowest{open}"),
                    false => format!("{own}, as slow as {}{open}", size(far.bytes as f64)),
                };
                let last = &ends[ends.len() - 1];
                format!("{slow}: no level beyond {last} serves it{}", absent.sentence())
            }
        }
    }
}

/// The level that should serve loads at a size that memory serves.
#[derive(Clone, Copy)]
enum Absent {
    /// A claimed level: number, bytes, and source.
    Claimed(u8, f64, &'static str),
    /// A second level, if one exists.
    Second,
    /// None that is known.
    Nothing,
}

impl Absent {
    fn of(at: &At, ends: usize, record: &Record) -> Absent {
        match claimed(record).iter().find(|(_, bytes, _)| *bytes >= MAX_TIER_RATIO * at.bytes as f64) {
            Some(&(level, bytes, source)) => Absent::Claimed(level, bytes, source),
            None if ends == 1 => Absent::Second,
            None => Absent::Nothing,
        }
    }

    fn sentence(self) -> String {
        match self {
            Absent::Claimed(level, bytes, source) => format!(
                "; level {level}, {} as claimed by {source}, is off, bypassed or not available to this machine",
                size(bytes)
            ),
            Absent::Second => "; a second level, if present, is off or bypassed".to_owned(),
            Absent::Nothing => String::new(),
        }
    }
}

/// Returns the claimed levels of data: level, bytes and source; ascending, each size once.
fn claimed(record: &Record) -> Vec<(u8, f64, &'static str)> {
    let size = |c: &Claim| Some((c.level, c.size? as f64, c.source.token()));
    let claims = decode(&record.facts).claims;
    let mut all: Vec<_> = claims.iter().filter(|c| c.holds.data()).filter_map(size).collect();
    all.retain(|(_, bytes, _)| *bytes > 0.0);
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    all.dedup_by(|b, a| a.1 == b.1);
    all
}
