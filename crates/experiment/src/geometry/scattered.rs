//! Sets and ways with scattered pages: one line of each of a number of base pages, all at one offset.
//!
//! Without huge pages the address of a line is known only within its page, and beyond the nearest level no longer
//! period is meaningful. Pages then fall into a level's page sets at random. The rise of the share of misses with the
//! number of pages gives ways and page sets ([`fathom_analysis::pages`]). A control trial gives the translation cost,
//! which is subtracted: as many lines on as many pages, each one line farther into its page than the last, so that the
//! nearest level holds them.

use fathom_analysis::interval::median;
use fathom_analysis::pages::{self, Fit, Geometry, Point};
use fathom_analysis::replacement::Policy;
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{Conflict, Groups, Memory, PatternKind, Trial};

use super::arrangement;
use super::{Level, Step};
use crate::record::Record;
use crate::scale::Scale;

/// Numbers of pages to test, as multiples of the level's capacity (by the latency curve) over [`EIGHTHS`]. The rise
/// begins where the first page set overflows; with scattered pages the latency curve sees the level end there.
const MIN_EIGHTHS: u64 = 4;
const MAX_EIGHTHS: u64 = 32;
const EIGHTHS: u64 = 8;
/// Placements of each number of pages: the scatter between them gives the error of their mean.
const PLACEMENTS: usize = 8;
/// The same on a model, where they are cheap.
const PLACEMENTS_MODELLED: usize = 24;
const CONTROLS: usize = 2;
/// Factors for the placements on the rise, where candidates differ: the first, and those after it while several explain the
/// rise.
const RISE_FACTORS: [usize; 3] = [4, 8, 16];
/// The rise, as a range of relative time.
const RISE: (f64, f64) = (0.03, 0.97);
/// Maximum share of pages that the level before this one may hold. Unless its replacement is LRU, it still serves some of four
/// times as many, and the time of a hit is then a mixture.
const MAX_FILTERED: f64 = 0.25;
/// Smallest number of timed loads: placements scatter more than the loads of one, so the time is better spent on placements.
const MIN_LOADS: u64 = 256;
/// Warm-up laps: random replacement takes some to settle.
const WARM_LAPS: u64 = 16;
/// Returns the value of `counted` that marks these trials; a scan's own trials have 0. Levels are counted from 1.
fn mark(index: usize) -> u64 {
    index as u64 + 1
}
/// Largest numbers of ways and page sets that are fitted. Page sets are powers of two, or three times one.
const MAX_WAYS: usize = 20;
const MAX_SETS: usize = 1 << 10;
/// Range of the level's capacity, as a multiple of the latency curve's: with few ways the curve sees the end of the
/// long rise, with many ways its beginning.
const CAPACITY_RANGE: (f64, f64) = (0.3, 4.0);
/// Relative error of a time on hardware in addition to its scatter.
const TIME_ERROR: f64 = 0.01;
/// Maximum share of twice the clock's resolution in the cost of a miss.
const CLOCK_SHARE: f64 = 0.01;
/// One policy per family that differs in the misses of a set with cyclic accesses: FIFO, NRU and SRRIP miss like LRU
/// there.
const POLICIES: [Policy; 5] =
    [Policy::Lru, Policy::TreePlru, Policy::BitPlru, Policy::NruRandom, Policy::Random];

/// A level whose pages are scattered.
pub(crate) struct Scattered<'a> {
    index: usize,
    steps: &'a [Step],
    /// Line of the nearest level, bytes.
    line: u64,
    base: u64,
}

impl<'a> Scattered<'a> {
    /// Returns the level for the test; `None` if huge pages are available, if the level's sets are known, or if frames are known to follow one another.
    pub(crate) fn of(
        scale: &Scale,
        steps: &'a [Step],
        levels: &[Level],
        index: usize,
    ) -> Option<Scattered<'a>> {
        let unknown = levels.get(index)?.geometry().is_none();
        let line = levels.first()?.line()?;
        let one = Scattered { index, steps, line, base: scale.base };
        let are_random = !scale.are_in_order();
        (index > 0 && are_random && unknown && one.counts().len() >= EIGHTHS as usize).then_some(one)
    }

    /// Returns the number of pages that the level holds, by the latency curve.
    fn pages(&self) -> u64 {
        (self.steps[self.index].capacity.value / self.base as f64) as u64
    }

    /// Returns the numbers of pages to test.
    fn counts(&self) -> Vec<u64> {
        let max_pages = (self.steps[0].capacity.value / self.line as f64) as u64;
        let nearer = self.steps[..self.index].last().map_or(0.0, |step| step.capacity.value);
        let nearer = nearer / self.base as f64 / MAX_FILTERED;
        let mut all: Vec<u64> = (MIN_EIGHTHS..=MAX_EIGHTHS).map(|n| n * self.pages() / EIGHTHS).collect();
        all.retain(|&n| n >= 4 && n <= max_pages && n as f64 >= nearer);
        all.dedup();
        all
    }

    fn trial(&self, scale: &Scale, pages: u64, apart: u64, exact: bool) -> Trial {
        let step = &self.steps[self.index];
        Trial {
            memory: Memory::of(pages * self.line, self.line),
            counted: mark(self.index),
            loads: arrangement::loads(
                scale,
                CLOCK_SHARE * (step.next - step.here).max(0.1),
                pages,
                MIN_LOADS,
            ),
            samples: if exact { 1 } else { 3 },
            warm: WARM_LAPS * pages,
            ..Trial::of(Conflict::of(Groups::apart(self.base + apart)))
        }
    }

    fn is_of(&self, trial: &Trial, pages: u64, apart: u64) -> bool {
        let groups = trial.pattern.groups();
        trial.kind() == PatternKind::Conflict
            && (trial.counted, trial.memory.page) == (mark(self.index), Pages::Base)
            && (groups.group, trial.memory.stride, groups.period) == (1, self.line, self.base + apart)
            && trial.memory.cells() == pages
    }

    /// Returns the next trials.
    pub(crate) fn next_trials(&self, record: &Record, scale: &Scale, exact: bool) -> Vec<Trial> {
        let placements = if exact { PLACEMENTS_MODELLED } else { PLACEMENTS };
        let missing = |pages: u64, apart: u64, times: usize| {
            let had = record.trials.iter().filter(|r| self.is_of(&r.trial, pages, apart)).count();
            (had..times).map(move |_| self.trial(scale, pages, apart, exact))
        };
        let points = self.points(record, scale);
        let all = || points.iter().map(|p| p.time);
        let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        let rising = |p: &&Point| {
            let share = (p.time - low) / (high - low).max(f64::MIN_POSITIVE);
            (RISE.0..RISE.1).contains(&share)
        };
        let mut trials: Vec<Trial> = Vec::new();
        for pages in self.counts() {
            trials.extend(missing(pages, 0, placements).chain(missing(pages, self.line, CONTROLS)));
        }
        let rising: Vec<u64> = points.iter().filter(rising).map(|p| p.pages as u64).collect();
        for factor in RISE_FACTORS {
            trials.extend(rising.iter().flat_map(|&pages| missing(pages, 0, factor * placements)));
            if !trials.is_empty() || self.read(record, scale).is_none_or(|fit| fit.decided) {
                break;
            }
        }
        trials
    }

    /// Returns the median time per load of each placement, ns.
    fn times(&self, record: &Record, scale: &Scale, pages: u64, apart: u64) -> Vec<f64> {
        let runs = record.of(PatternKind::Conflict).filter(|r| self.is_of(&r.trial, pages, apart));
        runs.filter_map(|run| median(&scale.steady(run))).collect()
    }

    /// Returns the times per load less their translation, ns, by number of pages.
    fn points(&self, record: &Record, scale: &Scale) -> Vec<Point> {
        let point = |pages: u64| {
            let times = self.times(record, scale, pages, 0);
            let control = self.times(record, scale, pages, self.line).into_iter().min_by(f64::total_cmp)?;
            let translation = (control - self.steps[0].here).max(0.0);
            let n = times.len() as f64;
            if times.len() < 2 {
                return None;
            }
            let mean = times.iter().sum::<f64>() / n;
            let scatter = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let clock = if scale.share > 0.0 { TIME_ERROR * mean } else { 0.0 };
            let error = (scatter / n).sqrt().hypot(clock);
            Some(Point { pages: pages as usize, time: mean - translation, error })
        };
        self.counts().into_iter().filter_map(point).collect()
    }

    /// Returns every possible geometry of the level.
    fn candidates(&self) -> Vec<Geometry> {
        let sets = (0..).map(|k| 1 << k).take_while(|&sets| sets <= MAX_SETS);
        let sets: Vec<usize> = sets.flat_map(|sets| [sets, 3 * sets]).collect();
        let holds = self.pages() as f64;
        let possible = |g: &Geometry| {
            (CAPACITY_RANGE.0 * holds..=CAPACITY_RANGE.1 * holds).contains(&(g.pages() as f64))
                && g.colours > 1
        };
        (1..=MAX_WAYS)
            .flat_map(|ways| sets.iter().map(move |&colours| Geometry { ways, colours }))
            .filter(possible)
            .collect()
    }

    /// Returns the fit; `None` without trials.
    pub(crate) fn read(&self, record: &Record, scale: &Scale) -> Option<Fit> {
        let points = self.points(record, scale);
        (points.len() >= EIGHTHS as usize).then(|| pages::fit(&points, &self.candidates(), &POLICIES))?
    }
}
