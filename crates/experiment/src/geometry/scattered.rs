//! Sets and ways where pages lie anywhere: one line of each of so many base pages, all at one offset.
//!
//! Without huge pages the address of a line is known up to its page, and no period longer than that means anything
//! behind the nearest level. Pages then fall into a level's page sets by lot, and how the share of misses rises over
//! their number tells ways and page sets ([`fathom_analysis::pages`]). What translation adds is taken off by a twin:
//! as many lines on as many pages, each a line farther into its page than the last, which the nearest level holds.

use fathom_analysis::interval::median;
use fathom_analysis::pages::{self, Fit, Geometry, Point};
use fathom_analysis::replacement::Policy;
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{Conflict, Groups, Memory, PatternKind, Trial};

use super::scan;
use super::{Level, Step};
use crate::record::Record;
use crate::scale::Scale;

/// Numbers of pages, in what the latency curve says the level holds, times [`EACH`]: the rise begins where the first page
/// set has a page too many, and on pages that lie anywhere that is where the latency curve sees the level end.
const FROM: u64 = 4;
const TO: u64 = 32;
const EACH: u64 = 8;
/// Placements of each number: the scatter between them is the error of their mean.
const PLACEMENTS: usize = 8;
/// The same on a model, where they cost little.
const PLACEMENTS_MODELLED: usize = 24;
const CONTROLS: usize = 2;
/// On the rise so many times as many: there levels differ.
const RISING: usize = 4;
/// The rise, in what times range over.
const RISE: (f64, f64) = (0.03, 0.97);
/// A nearer level between the nearest one and this one hits with at most this share of its pages among those asked.
const FILTERED: f64 = 0.25;
/// Laps that warm: random replacement takes some to settle.
const WARM_LAPS: u64 = 16;
/// Marks these trials: a scan's own count nothing. Levels are counted from 1.
fn mark(index: usize) -> u64 {
    index as u64 + 1
}
/// Most ways that are fitted, and page sets: powers of two, or three times one.
const MAX_WAYS: usize = 20;
const MAX_SETS: usize = 1 << 10;
/// The level holds so many times what the latency curve says, at least and at most: with few ways its rise is so long that
/// the latency curve sees the end of it, with many it sees the beginning.
const HOLDS: (f64, f64) = (0.3, 4.0);
/// What a time may be off by on hardware beside its scatter, relative.
const TIME_ERROR: f64 = 0.01;
/// Two steps of the clock are at most this share of what a miss takes longer.
const CLOCK_SHARE: f64 = 0.01;
/// One of each family whose misses differ in a set that cycles through its lines: FIFO, NRU and SRRIP miss there as
/// LRU does.
const POLICIES: [Policy; 5] =
    [Policy::Lru, Policy::TreePlru, Policy::BitPlru, Policy::NruRandom, Policy::Random];

/// A level whose pages lie anywhere.
pub(crate) struct Scattered<'a> {
    index: usize,
    steps: &'a [Step],
    /// Line of the nearest level, bytes.
    line: u64,
    base: u64,
}

impl<'a> Scattered<'a> {
    /// The question to a level, where there is one: none where huge pages tell more, or a level's sets are known.
    pub(crate) fn of(
        scale: &Scale,
        steps: &'a [Step],
        levels: &[Level],
        index: usize,
    ) -> Option<Scattered<'a>> {
        let unknown = levels.get(index)?.geometry().is_none();
        let line = levels.first()?.line()?;
        let one = Scattered { index, steps, line, base: scale.base };
        (index > 0 && scale.huge.is_none() && unknown && one.counts().len() >= EACH as usize).then_some(one)
    }

    /// Pages that the level holds, by the latency curve.
    fn pages(&self) -> u64 {
        (self.steps[self.index].capacity.value / self.base as f64) as u64
    }

    /// Numbers of pages that are asked for.
    fn counts(&self) -> Vec<u64> {
        let most = (self.steps[0].capacity.value / self.line as f64) as u64;
        let nearer = self.steps[..self.index].last().map_or(0.0, |step| step.capacity.value);
        let nearer = if self.index > 1 { nearer / self.base as f64 / FILTERED } else { 0.0 };
        let mut all: Vec<u64> = (FROM..=TO).map(|n| n * self.pages() / EACH).collect();
        all.retain(|&n| n >= 4 && n <= most && n as f64 >= nearer);
        all.dedup();
        all
    }

    fn trial(&self, scale: &Scale, pages: u64, apart: u64, modelled: bool) -> Trial {
        let step = &self.steps[self.index];
        Trial {
            memory: Memory::of(pages * self.line, self.line),
            counted: mark(self.index),
            loads: scan::loads(scale, CLOCK_SHARE * (step.next - step.here).max(0.1), pages),
            samples: if modelled { 1 } else { 3 },
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

    /// The trials that are wanted next.
    pub(crate) fn wanted(&self, record: &Record, scale: &Scale, modelled: bool) -> Vec<Trial> {
        let placements = if modelled { PLACEMENTS_MODELLED } else { PLACEMENTS };
        let mut wanted = Vec::new();
        let mut ask = |pages: u64, apart: u64, times: usize| {
            let had = record.trials.iter().filter(|r| self.is_of(&r.trial, pages, apart)).count();
            wanted.extend((had..times).map(|_| self.trial(scale, pages, apart, modelled)));
        };
        let points = self.points(record, scale);
        let all = || points.iter().map(|p| p.time);
        let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        let rising = |p: &&Point| {
            let share = (p.time - low) / (high - low).max(f64::MIN_POSITIVE);
            (RISE.0..RISE.1).contains(&share)
        };
        for pages in self.counts() {
            ask(pages, 0, placements);
            ask(pages, self.line, CONTROLS);
        }
        for point in points.iter().filter(rising) {
            ask(point.pages as u64, 0, RISING * placements);
        }
        wanted
    }

    /// Median times a load of each placement, ns.
    fn times(&self, record: &Record, scale: &Scale, pages: u64, apart: u64) -> Vec<f64> {
        let runs = record.of(PatternKind::Conflict).filter(|r| self.is_of(&r.trial, pages, apart));
        runs.filter_map(|run| median(&scale.steady(run))).collect()
    }

    /// Times a load without their translation, ns, over numbers of pages.
    fn points(&self, record: &Record, scale: &Scale) -> Vec<Point> {
        let point = |pages: u64| {
            let own = self.times(record, scale, pages, 0);
            let control = self.times(record, scale, pages, self.line).into_iter().min_by(f64::total_cmp)?;
            let translation = (control - self.steps[0].here).max(0.0);
            let n = own.len() as f64;
            if own.len() < 2 {
                return None;
            }
            let mean = own.iter().sum::<f64>() / n;
            let scatter = own.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let clock = if scale.share > 0.0 { TIME_ERROR * mean } else { 0.0 };
            let error = (scatter / n).sqrt().hypot(clock);
            Some(Point { pages: pages as usize, time: mean - translation, error })
        };
        self.counts().into_iter().filter_map(point).collect()
    }

    /// Every level that could be there.
    fn candidates(&self) -> Vec<Geometry> {
        let sets = (0..).map(|k| 1 << k).take_while(|&sets| sets <= MAX_SETS);
        let sets: Vec<usize> = sets.flat_map(|sets| [sets, 3 * sets]).collect();
        let holds = self.pages() as f64;
        let could =
            |g: &Geometry| (HOLDS.0 * holds..=HOLDS.1 * holds).contains(&(g.pages() as f64)) && g.colours > 1;
        (1..=MAX_WAYS)
            .flat_map(|ways| sets.iter().map(move |&colours| Geometry { ways, colours }))
            .filter(could)
            .collect()
    }

    /// What the pages say; `None` where none were asked.
    pub(crate) fn read(&self, record: &Record, scale: &Scale) -> Option<Fit> {
        let points = self.points(record, scale);
        (points.len() >= EACH as usize).then(|| pages::fit(&points, &self.candidates(), &POLICIES))?
    }
}
