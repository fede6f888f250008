//! The coarse scan: dependent loads over octaves. From it follow the sizes to sweep, inside and beyond each tier, and
//! what serves loads at each of them, which sweeps alone do not tell where the core fetches ahead.

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

/// Smallest and largest working set, bytes: inside every first level, and beyond all but the last levels of
/// servers, at which one trial on hardware takes a fifth of a second.
const SCANNED_BYTES: [u64; 2] = [2 << 10, 64 << 20];
/// Share of the budget that the coarse scan may take, as of a round of the survey.
const SHARE: f64 = 0.3;
/// Samples a trial: two agree or do not.
const SAMPLES: u64 = 2;
/// A size beyond the last rise is this many times its capacity: where random replacement leaves 2 % of the hits.
const BEYOND: f64 = 4.0;
/// The least size taken for beyond everything, bytes: also of a machine that shows one tier.
const MIN_FAR_BYTES: u64 = 16 << 20;
/// A size that many machines have between their first level and memory, bytes: looked at wherever no other one
/// lies near, because what is missing shows there.
const BETWEEN: u64 = 256 << 10;
/// Sizes nearer to each other than this show nothing new: an octave, less what rounding to one moves.
const MIN_SIZE_RATIO: f64 = 1.9;
/// A size of no tier's own keeps this far from where one ends.
const EDGE: f64 = 1.5;
/// Times that differ by less are of one tier, as in [`Options::min_ratio`].
const ALIKE: f64 = 1.25;

/// Is there one? Whoever names the sizes wants those.
pub(super) fn wanted(record: &Record) -> bool {
    super::options::Options::of(record).bytes.is_empty()
}

/// Its trials: two sizes an octave, as far as a share of the budget and the memory reach.
pub(super) fn trials(record: &Record, budget: &Budget, loads: u64) -> Vec<Trial> {
    let scale = Scale::of(record);
    let cost = Cost { modelled: budget.modelled, latency_curve: &[] };
    let mut left = budget.share(SHARE);
    let octaves = (SCANNED_BYTES[0].ilog2()..=SCANNED_BYTES[1].ilog2()).flat_map(|k| [1 << k, 3 << (k - 1)]);
    octaves
        .take_while(|bytes| *bytes <= top(record))
        .map(|bytes| {
            let cells = bytes / STRIDE;
            // Whole laps would prove nothing.
            let mut loads = loads + 1;
            while (2 * loads).is_multiple_of(cells) {
                loads += 1;
            }
            // Laying warms hardware as a lap does; a model begins empty, and random replacement has to settle.
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

/// The largest size worth a try, bytes.
fn top(record: &Record) -> u64 {
    let stated =
        record.int(facts::MEMORY_MAPPABLE_BASE_BYTES).or_else(|| record.int(facts::MEMORY_CEILING_BYTES));
    stated.unwrap_or(SCANNED_BYTES[1]).min(SCANNED_BYTES[1])
}

/// The coarse scan as it was measured.
pub(super) struct CoarseScan {
    at: Vec<At>,
    tiers: Vec<Tier>,
    flat_end: bool,
}

/// What serves loads at a working set.
enum Answer {
    Nearest,
    /// The nth tier, which is neither the first nor the last.
    Level(usize),
    Between,
    Memory,
}

impl Answer {
    /// The word for it in findings.
    fn token(&self) -> &'static str {
        match self {
            Answer::Nearest => "nearest",
            Answer::Level(_) => "level",
            Answer::Between => "between",
            Answer::Memory => "memory",
        }
    }
}

impl CoarseScan {
    /// None where nothing was sketched.
    pub(super) fn of(record: &Record, scale: &Scale) -> Option<CoarseScan> {
        if !wanted(record) {
            return None;
        }
        let at = scale.gather(record, PatternKind::Chase, |t| {
            let window = t.pattern.walk() == Walk::windows(WINDOW_PAGES * scale.base);
            window && t.memory.page == Pages::Base && t.memory.stride == STRIDE
        });
        let points: Vec<Point> =
            at.iter().map(|a| Point { x: a.bytes as f64, y: a.time(), sigma: a.sigma() }).collect();
        let reading = tiers::read(&points, &Options { share: scale.share, ..Options::default() })?;
        Some(CoarseScan { at, tiers: reading.tiers, flat_end: reading.flat_end })
    }

    /// Where each tier but the last ends, bytes.
    fn ends(&self) -> Vec<f64> {
        self.tiers.iter().filter_map(|t| t.capacity).map(|c| c.onset.value).collect()
    }

    /// What a dependent load takes at a working set, ns, where it was measured.
    pub(super) fn time(&self, bytes: u64) -> Option<f64> {
        self.at.iter().find(|a| a.bytes == bytes).map(At::time)
    }

    /// Sizes inside each tier and beyond the last rise, inside each level that is claimed, and between the first
    /// level and memory; ascending.
    pub(super) fn sizes(&self, record: &Record) -> Vec<u64> {
        let octave = |bytes: f64| 1u64 << (bytes.log2().round().clamp(0.0, 40.0) as u32);
        let mut wanted = Vec::new();
        let mut inside = |ends: &[f64]| {
            let mut before = None;
            for &end in ends {
                wanted.push(octave(before.map_or(end / 2.0, |before: f64| (before * end).sqrt())));
                before = Some(end);
            }
        };
        let ends = self.ends();
        inside(&ends);
        inside(&claimed(record).iter().map(|c| c.1).collect::<Vec<f64>>());
        let far = octave(BEYOND * ends.last().copied().unwrap_or(0.0)).clamp(MIN_FAR_BYTES, SCANNED_BYTES[1]);
        // At a tier's very end page tables and a coarse sketch make it neither this tier nor the next.
        let clear =
            |bytes: &u64| ends.iter().all(|end| !(end / EDGE..=end * EDGE).contains(&(*bytes as f64)));
        wanted.extend([BETWEEN, SIZES[0]].iter().filter(|b| clear(b)));
        wanted.push(far);
        let mut sizes: Vec<u64> = Vec::new();
        for bytes in wanted.into_iter().filter(|b| *b <= top(record)) {
            let apart = |other: &u64| (bytes.max(*other) as f64) >= MIN_SIZE_RATIO * bytes.min(*other) as f64;
            if sizes.iter().all(apart) {
                sizes.push(bytes);
            }
        }
        sizes.sort_unstable();
        sizes
    }

    /// The curve, and what serves loads at each of `sizes`.
    pub(super) fn rows(&self, sizes: &[u64], record: &Record, report: &mut Report) {
        for at in &self.at {
            let values = at.values();
            if let Some(i) = median_interval(&values) {
                let key = latency::LATENCY_TIME.at([at.bytes.into()]);
                report.findings.push(measured(key, i, "ns", values.len(), &at.trials));
            }
        }
        // One tier only: nothing says what serves loads.
        if self.tiers.len() < 2 {
            return;
        }
        let at = |bytes: u64| self.at.iter().find(|a| a.bytes == bytes);
        report.findings.extend(sizes.iter().filter_map(|b| at(*b)).map(|at| self.answer(at, record)));
    }

    fn answer(&self, at: &At, record: &Record) -> Finding {
        let answer = self.answers(at);
        let mut row = text(metrics::STRIDE_SERVED_BY.at([at.bytes.into()]), answer.token());
        (row.count, row.trials) = (at.values().len() as u64, at.trials.clone());
        let absent = Absent::of(at, self.ends().len(), record);
        self.details(&answer, absent, &mut row);
        row.notes.push(self.sentence(at, &answer, absent));
        row
    }

    /// Between which capacities a level serves, and what does not answer where memory does.
    fn details(&self, answer: &Answer, absent: Absent, row: &mut Finding) {
        let ends = self.ends();
        let (nearer, own) = match answer {
            Answer::Nearest => (None, ends.first()),
            Answer::Level(nth) => (ends.get(nth - 1), ends.get(*nth)),
            Answer::Between => (None, None),
            Answer::Memory => (ends.last(), None),
        };
        for (field, end) in [(metrics::BEYOND, nearer), (metrics::UP_TO, own)] {
            if let Some(end) = end {
                row.detail.set(field, Item::Number(*end));
            }
        }
        match absent {
            _ if !matches!(answer, Answer::Memory) => {}
            Absent::Claimed(level, bytes, source) => {
                row.detail.set(metrics::ABSENT_LEVEL, Item::Number(f64::from(level)));
                row.detail.set(metrics::ABSENT_BYTES, Item::Number(bytes));
                row.detail.set(metrics::ABSENT_SOURCE, Item::Token(source.to_owned()));
            }
            Absent::Second => row.detail.set(metrics::ONE_LEVEL, Item::Flag(true)),
            Absent::Nothing => {}
        }
    }

    fn answers(&self, at: &At) -> Answer {
        let (bytes, time) = (at.bytes as f64, at.time());
        let nth =
            self.tiers.iter().position(|t| t.capacity.is_none_or(|c| bytes <= c.onset.value)).unwrap_or(0);
        let ratio = time / self.tiers[nth].latency.value;
        match nth {
            _ if !(1.0 / ALIKE..=ALIKE).contains(&ratio) => Answer::Between,
            0 => Answer::Nearest,
            nth if nth + 1 == self.tiers.len() => Answer::Memory,
            nth => Answer::Level(nth),
        }
    }

    fn sentence(&self, at: &At, answer: &Answer, absent: Absent) -> String {
        let ends: Vec<String> = self.ends().into_iter().map(size).collect();
        let far = self.at.last().unwrap_or(at);
        let own = format!("{}: {:.1} ns a dependent load", size(at.bytes as f64), at.time());
        let beside = format!("{own} beside {:.1} at {}", far.time(), size(far.bytes as f64));
        match answer {
            Answer::Nearest => format!("{beside}: the nearest level answers, up to {}", ends[0]),
            Answer::Level(nth) => {
                format!("{beside}: a level answers between {} and {}", ends[nth - 1], ends[*nth])
            }
            Answer::Between => format!("{beside}: between two tiers, a part of it is answered nearer"),
            Answer::Memory => {
                let open = if self.flat_end { "" } else { ", where the curve still rose" };
                let slow = match at.bytes == far.bytes {
                    true => format!("{own}, the slowest{open}"),
                    false => format!("{own}, as slow as {}{open}", size(far.bytes as f64)),
                };
                let last = &ends[ends.len() - 1];
                format!("{slow}: no level beyond {last} answers{}", absent.sentence())
            }
        }
    }
}

/// What should answer at a size that memory serves.
#[derive(Clone, Copy)]
enum Absent {
    /// A level that is claimed: its number, its bytes, and who claims it.
    Claimed(u8, f64, &'static str),
    /// A second level, if there should be one.
    Second,
    /// Nothing that is known.
    Nothing,
}

impl Absent {
    fn of(at: &At, ends: usize, record: &Record) -> Absent {
        match claimed(record).iter().find(|(_, bytes, _)| *bytes >= ALIKE * at.bytes as f64) {
            Some(&(level, bytes, source)) => Absent::Claimed(level, bytes, source),
            None if ends == 1 => Absent::Second,
            None => Absent::Nothing,
        }
    }

    fn sentence(self) -> String {
        match self {
            Absent::Claimed(level, bytes, source) => format!(
                "; level {level}, {} as {source} claims, is off, bypassed or not this machine's to use",
                size(bytes)
            ),
            Absent::Second => "; a second level, if there should be one, is off or bypassed".to_owned(),
            Absent::Nothing => String::new(),
        }
    }
}

/// Levels of data that are claimed: level, bytes and who says so; ascending, each size once.
fn claimed(record: &Record) -> Vec<(u8, f64, &'static str)> {
    let size = |c: &Claim| Some((c.level, c.size? as f64, c.source.token()));
    let claims = decode(&record.facts).claims;
    let mut all: Vec<_> = claims.iter().filter(|c| c.holds.data()).filter_map(size).collect();
    all.retain(|(_, bytes, _)| *bytes > 0.0);
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    all.dedup_by(|b, a| a.1 == b.1);
    all
}
