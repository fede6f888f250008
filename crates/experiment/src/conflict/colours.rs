//! Page colours: the cost of loads from pages that share one frame, from pages of one colour, and of several.
//!
//! Virtual pages that share a frame, like untouched memory that maps to the kernel's zero page, are one physical line
//! per offset, so they cannot conflict. Different frames of one colour conflict, and less so if spread over more
//! colours. A level has as many colours as its way has pages. If its way is not larger than a page, it has one colour,
//! and colouring has no effect.

use fathom_analysis::findings::{Refused, Report};
use fathom_analysis::interval::{Interval, grouped_interval, quantile};
use fathom_analysis::metrics::conflict as metrics;
use fathom_analysis::sets::Geometry;
use fathom_probe::machine::{COLOUR_SPAN, Pages};
use fathom_probe::pattern::{Conflict, Groups, Memory, PatternKind, Single, Stride, Trial};
use fathom_probe::splitmix::mix;
use fathom_units::divisor::gcd;
use fathom_units::facts;
use fathom_units::size;

use super::options::Options;
use crate::clock::resolution_ticks;
use crate::geometry::arrangement::place;
use crate::geometry::{self, Level};
use crate::latency_curve::Step;
use crate::reading::{measured, text};
use crate::record::{Record, TrialRun};
use crate::scale::Scale;

/// Maximum number of pages, in ways: more than four colours of them, to show the fourth conflict.
const MAX_WAYS: u64 = 5;
/// Points per way of pages, in addition to those at which a colour overflows.
const POINTS_PER_WAY: u64 = 4;
/// Maximum share of twice the clock's resolution in the added time of misses, as for the scan: it determines the number
/// of timed loads.
const CLOCK_SHARE: f64 = 0.006;
/// Samples per trial of the patterns that time many loads.
const SAMPLES: u64 = 3;
/// Single loads per trial: 400 give a share of misses within 5 percentage points.
const SINGLE_LOADS: u64 = 400;
/// Minimum number of untimed loads between two single ones: the lines that reading the clock used are evicted by then.
const MIN_SPACING: u64 = 64;
/// Minimum difference of hit and miss in resolutions of the clock: each end of a reading is off by up to one.
const MIN_RESOLUTIONS_APART: f64 = 2.0;
/// Warm-up laps: random replacement takes some to settle.
const WARM_LAPS: u64 = 32;
/// Minimum share of misses of twice as many lines as ways in one set, cyclically, under any policy. The optimal policy
/// (Belady) misses (2 ways - ways) of 2 ways - 1; less a tenth for errors of times.
const MIN_CONFLICT_SHARE: f64 = 0.45;
/// Maximum share of misses of as many lines as ways or fewer.
const MAX_STRAY_SHARE: f64 = 0.2;
/// Remedy that provides coloured pages, if the machine does not name another.
const DRIVER_REMEDY: &str = "make -C driver && sudo insmod driver/fathom.ko";

/// The colour test of one level.
#[derive(Clone, Debug)]
struct ColourTest {
    /// The level, from 1.
    tier: usize,
    geometry: Geometry,
    step: Step,
    /// The page that has colours, bytes: the base page, the unit of mappings.
    page: u64,
    /// Pages of the cells.
    kind: Pages,
    colours: Vec<u64>,
}

/// Returns the levels to test: the nearest, and if its way is not larger than a page, the nearest level whose way is.
/// An error if the nearest level is unknown.
fn tests(
    record: &Record,
    scale: &Scale,
    steps: &[Step],
    levels: &[Level],
) -> Result<Vec<ColourTest>, String> {
    let mut colours = Options::of(record).colours;
    colours.push(1);
    colours.sort_unstable();
    colours.dedup();
    let at = |index: usize| {
        let (step, geometry) = (*steps.get(index)?, levels.get(index)?.geometry()?);
        let (kind, page) = (geometry::pages(scale).0, scale.base);
        Some(ColourTest { tier: index + 1, geometry, step, page, kind, colours: colours.clone() })
    };
    let first = at(0).ok_or("the ways of the nearest level are unknown")?;
    let more = (1..levels.len()).filter_map(at).find(|one| one.colours_of_way() > 1);
    let more = more.filter(|_| first.colours_of_way() == 1);
    Ok(std::iter::once(first).chain(more).collect())
}

impl ColourTest {
    /// Returns the number of colours of its pages.
    fn colours_of_way(&self) -> u64 {
        (self.geometry.way_bytes / self.page).max(1)
    }

    /// Returns why colours cannot be tested, and a remedy.
    fn why_not_testable(&self, record: &Record) -> Option<(String, String)> {
        let (way, page) = (self.geometry.way_bytes, self.page);
        if way > page && !way.is_multiple_of(page) {
            let what = format!("a way of {} is not a whole number of pages", size(way as f64));
            return Some((what, String::new()));
        }
        let unknown = self.kind == Pages::Base && !record.is_modelled();
        if way > page && unknown {
            // If the driver cannot be opened, the machine names the remedy.
            let driver = record.text(facts::DRIVER_REMEDY).unwrap_or(DRIVER_REMEDY);
            let what = "no huge pages are available, and the colours of base pages are unknown".to_owned();
            let huge = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
            return Some((
                what,
                format!("{huge}; or root, to whom the page map tells them; or Fathom's driver: {driver}"),
            ));
        }
        if self.kind != Pages::Coloured {
            return None;
        }
        if !COLOUR_SPAN.is_multiple_of(way) {
            let (way, span) = (size(way as f64), size(COLOUR_SPAN as f64));
            let what = format!("pages are placed within {span}, which is not a multiple of a way of {way}");
            return Some((what, "larger huge pages of the kernel".to_owned()));
        }
        let own = |run: &&TrialRun| {
            run.trial.memory.page == Pages::Coloured && run.trial.counted == self.tier as u64
        };
        record.trials.iter().filter(own).find_map(|run| run.refusal.clone())
    }

    /// Returns the numbers of pages to test: up to [`MAX_WAYS`] ways' worth, and those at which the first, second,
    /// third and fourth colour is full, and one more.
    fn counts(&self) -> Vec<u64> {
        let ways = self.geometry.ways;
        let every = (ways / POINTS_PER_WAY).max(1);
        let mut all: Vec<u64> = (1..=MAX_WAYS * ways / every).map(|n| n * every).collect();
        all.extend((1..MAX_WAYS).flat_map(|n| [n * ways, n * ways + 1]));
        all.push(1);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the distance between groups of adjacent pages of the same colours, bytes. More colours than a way has
    /// are laid out as if it had them.
    fn period(&self, colours: u64) -> u64 {
        (colours * self.page).next_multiple_of(self.geometry.way_bytes.max(self.page))
    }

    /// Returns a trial of loads from pages of several colours, or from pages that share a frame.
    fn trial(&self, colours: Option<u64>, pages: u64, scale: &Scale, exact: bool, nth: u64) -> Trial {
        let miss = (self.step.next - self.step.here).max(0.1);
        let clock = 2.0 * scale.resolution * scale.tick_ns / (CLOCK_SHARE * miss);
        let mut loads = (clock as u64).clamp(2048, 1 << 17).next_multiple_of(pages) + 1;
        while pages > 2 && (2 * loads).is_multiple_of(pages) {
            loads += 1;
        }
        let memory = Memory::of(pages * self.page, self.page);
        let trial = Trial {
            counted: self.tier as u64,
            loads,
            samples: if exact { 1 } else { SAMPLES },
            warm: WARM_LAPS * pages,
            ..Trial::default()
        };
        let Some(colours) = colours else {
            return Trial { memory, pattern: Stride { frames: 1, ..Stride::default() }.into(), ..trial };
        };
        let offset = place(colours ^ mix(pages ^ mix(nth)));
        let groups = Groups { period: self.period(colours), group: colours, offset };
        Trial { memory: Memory { page: self.kind, ..memory }, pattern: Conflict::of(groups).into(), ..trial }
    }

    /// Returns a trial of single loads from the same pages. Their spacing, the timed load included, is coprime to the
    /// lines and the ways: otherwise only some states of the set would be timed.
    fn single(&self, colours: u64, pages: u64, scale: &Scale, nth: u64) -> Trial {
        let prime_to = |n: u64| gcd(n, pages * self.geometry.ways) == 1;
        let spacing = (MIN_SPACING..).find(|&n| prime_to(n)).unwrap_or(MIN_SPACING);
        let many = self.trial(Some(colours), pages, scale, false, nth);
        let single = Single::of(many.pattern.groups());
        Trial { pattern: single.into(), loads: spacing - 1, samples: SINGLE_LOADS, ..many }
    }

    fn is_of(&self, trial: &Trial, colours: Option<u64>, pages: u64) -> bool {
        let own = (trial.counted, trial.memory.stride, trial.memory.cells())
            == (self.tier as u64, self.page, pages);
        let groups = trial.pattern.groups();
        own && match colours {
            None => trial.is::<Stride>(|stride| stride.frames == 1),
            Some(k) => (groups.group, groups.period) == (k, self.period(k)),
        }
    }

    /// Returns every arrangement.
    fn arrangements(&self) -> Vec<(Option<u64>, u64)> {
        let kinds = self.colours.iter().map(|&k| Some(k)).chain([None]);
        kinds.flat_map(|kind| self.counts().into_iter().map(move |n| (kind, n))).collect()
    }
}

/// Returns the next trials; empty if no colours are requested, or if the plan is complete.
pub(super) fn next_trials(record: &Record, scale: &Scale, steps: &[Step], exact: bool) -> Vec<Trial> {
    if Options::of(record).colours.is_empty() {
        return Vec::new();
    }
    let levels = geometry::levels(record, scale, steps);
    let Ok(all) = tests(record, scale, steps, &levels) else { return Vec::new() };
    let all: Vec<ColourTest> = all.into_iter().filter(|one| one.why_not_testable(record).is_none()).collect();
    let times = if exact { 1 } else { 2 };
    let mut trials = Vec::new();
    for one in &all {
        for (colours, pages) in one.arrangements() {
            let patterns = [PatternKind::Conflict, PatternKind::Stride];
            let had = count_of(record, one, &patterns, colours, pages);
            trials.extend((had..times).map(|nth| one.trial(colours, pages, scale, exact, nth)));
        }
    }
    if !trials.is_empty() {
        return trials;
    }
    for one in all.iter().filter(|one| !one.is_counted(record)) {
        for (colours, pages) in one.arrangements() {
            let Some(colours) = colours else { continue };
            let had = count_of(record, one, &[PatternKind::Single], Some(colours), pages);
            trials.extend((had..times).map(|nth| one.single(colours, pages, scale, nth)));
        }
    }
    trials
}

/// Returns how often a trial was run, including refused ones.
fn count_of(
    record: &Record,
    one: &ColourTest,
    patterns: &[PatternKind],
    colours: Option<u64>,
    pages: u64,
) -> u64 {
    let of = |run: &&TrialRun| patterns.contains(&run.trial.kind()) && one.is_of(&run.trial, colours, pages);
    record.trials.iter().filter(of).count() as u64
}

/// Measurements of one arrangement.
struct Row {
    /// Misses per round, with count and trials.
    misses: Option<(Interval, usize, Vec<u64>)>,
    /// Time per round, ns, with count and trials.
    time: (Interval, usize, Vec<u64>),
}

impl ColourTest {
    fn runs<'a>(
        &'a self,
        record: &'a Record,
        pattern: PatternKind,
        colours: Option<u64>,
        pages: u64,
    ) -> impl Iterator<Item = &'a TrialRun> {
        record.of(pattern).filter(move |run| self.is_of(&run.trial, colours, pages))
    }

    /// Returns whether the machine counts this level's refills.
    fn is_counted(&self, record: &Record) -> bool {
        let counted = |run: &TrialRun| run.samples.iter().any(|s| s.misses.is_some());
        self.counts().iter().any(|&n| self.runs(record, PatternKind::Conflict, Some(1), n).any(counted))
    }

    /// Returns the time above which a single load is a miss, ticks. It is halfway between two quartiles. The upper
    /// quartile of as many lines as ways, which hit but for a few. The lower quartile of five times as many, of which
    /// no policy keeps more than a fifth. Quartiles, because misses take various times, depending on the level that
    /// serves them. `None` if the two cannot be distinguished.
    fn threshold(&self, record: &Record) -> Option<f64> {
        let quartile = |pages: u64, of: f64| {
            let runs = self.runs(record, PatternKind::Single, Some(1), pages);
            let mut all: Vec<f64> = runs.flat_map(TrialRun::single_ticks).collect();
            all.sort_by(f64::total_cmp);
            quantile(&all, of)
        };
        let (hit, miss) =
            (quartile(self.geometry.ways, 0.75)?, quartile(MAX_WAYS * self.geometry.ways, 0.25)?);
        let apart = MIN_RESOLUTIONS_APART * resolution_ticks(record) as f64;
        (miss - hit > apart).then(|| f64::midpoint(hit, miss))
    }

    fn row(
        &self,
        record: &Record,
        scale: &Scale,
        threshold: Option<f64>,
        colours: Option<u64>,
        pages: u64,
    ) -> Option<Row> {
        let pattern = if colours.is_some() { PatternKind::Conflict } else { PatternKind::Stride };
        let loads_per_round = pages as f64;
        let gather = |pattern, values: &dyn Fn(&TrialRun) -> Vec<f64>| {
            let (mut ids, mut groups) = (Vec::new(), Vec::new());
            for run in self.runs(record, pattern, colours, pages) {
                let of_run = values(run);
                if !of_run.is_empty() {
                    ids.push(run.trial.id);
                    groups.push(of_run);
                }
            }
            let count = groups.iter().map(Vec::len).sum();
            Some((grouped_interval(&groups)?, count, ids))
        };
        let time = gather(pattern, &|run| scale.steady(run).iter().map(|t| t * loads_per_round).collect())?;
        let counted = gather(pattern, &|run| {
            let loads = run.trial.loads as f64;
            // n and 2n loads, a few more than whole laps.
            let of = |s: &fathom_probe::rows::Sample| {
                s.misses.map(|(n, twice)| (n as f64 + twice as f64) / (3.0 * loads) * loads_per_round)
            };
            run.samples.iter().filter_map(of).collect()
        });
        let misses = counted.or_else(|| {
            gather(PatternKind::Single, &|run| {
                let Some(threshold) = threshold else { return Vec::new() };
                let all: Vec<f64> = run.single_ticks().collect();
                let missed = all.iter().filter(|&&t| t > threshold).count();
                if all.is_empty() { all } else { vec![missed as f64 / all.len() as f64 * loads_per_round] }
            })
        });
        Some(Row { misses, time })
    }

    /// Returns the share of loads that miss: counted or classified, else derived from the time.
    fn share(&self, row: &Row, pages: u64) -> f64 {
        match &row.misses {
            Some((misses, ..)) => misses.value / pages as f64,
            None => {
                let load = row.time.0.value / pages as f64;
                (load - self.step.here) / (self.step.next - self.step.here).max(f64::MIN_POSITIVE)
            }
        }
    }

    /// Checks that the pages have the expected colours: pages of one colour must conflict, and as many pages of several
    /// must not.
    fn conflict_test(&self, rows: &dyn Fn(u64, u64) -> Option<Row>) -> Result<(), (String, &'static str)> {
        let pages = 2 * self.geometry.ways;
        let share = |colours| rows(colours, pages).map(|row| 100.0 * self.share(&row, pages));
        let unknown = |colours: u64, misses: f64, expected: &str| {
            let of = if colours == 1 { "one colour".to_owned() } else { format!("{colours} colours") };
            let what = format!(
                "of {pages} pages expected to be of {of}, {misses:.0} % miss instead of {expected}: the colours of \
                 pages are unknown"
            );
            Err((what, "use a machine with contiguous huge pages and a level without hashing"))
        };
        let Some(one) = share(1) else {
            return Err(("not measured within the budget".into(), "give it a larger --budget"));
        };
        if one < 100.0 * MIN_CONFLICT_SHARE {
            return unknown(1, one, "half or more");
        }
        for &colours in self.colours.iter().filter(|&&k| k > 1 && k <= self.colours_of_way()) {
            match share(colours) {
                Some(several) if several > 100.0 * MAX_STRAY_SHARE => {
                    return unknown(colours, several, "almost none");
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Adds the findings of colours to the report, if requested.
pub(super) fn read(record: &Record, scale: &Scale, steps: &[Step], levels: &[Level], report: &mut Report) {
    if Options::of(record).colours.is_empty() {
        return;
    }
    let mut refuse = |what: String, reason: String, remedy: &str| {
        report.refusals.push(Refused { what, reason, remedy: remedy.to_owned() });
    };
    let all = match tests(record, scale, steps, levels) {
        Ok(all) => all,
        Err(why) => return refuse("page colours".into(), why, "give it a larger --budget"),
    };
    let mut testable = Vec::new();
    for one in &all {
        let threshold = one.threshold(record);
        let what = format!("the page colours of tier {}", one.tier);
        let row = |k: u64, n: u64| one.row(record, scale, threshold, Some(k), n);
        if let Some((why, remedy)) = one.why_not_testable(record) {
            refuse(what, why, &remedy);
        } else if let Err((why, remedy)) = one.conflict_test(&row) {
            refuse(what, why, remedy);
        } else {
            testable.push((one, threshold));
        }
    }
    for (one, threshold) in testable {
        add_useful(one, levels, report);
        rows(one, record, scale, threshold, report);
    }
}

/// Adds whether colouring helps in this level, and the requirements.
fn add_useful(one: &ColourTest, levels: &[Level], report: &mut Report) {
    let (way, page, ways) = (one.geometry.way_bytes, one.page, one.geometry.ways);
    let colours = one.colours_of_way();
    let mut row =
        text(metrics::TIER_COLOUR_USEFUL.at([one.tier.into()]), if colours > 1 { "yes" } else { "no" });
    let (way, page) = (size(way as f64), size(page as f64));
    row.notes.push(if colours > 1 {
        format!(
            "a way of {way} is {colours} pages of {page}, so pages have {colours} colours: pages of one colour \
             conflict from {} on, pages of K colours (up to {colours}) from K times {ways} plus one on",
            ways + 1
        )
    } else {
        let larger = levels.iter().enumerate().find_map(|(index, level)| {
            let bytes = level.geometry()?.way_bytes;
            (bytes > one.page).then(|| (index + 1, size(bytes as f64), bytes / one.page))
        });
        let where_to = match larger {
            Some((tier, way, colours)) => format!("tier {tier} has one of {way}, {colours} colours"),
            None => "no tier with known ways has one".to_owned(),
        };
        format!(
            "a way of {way} is not larger than a page of {page}: every page has the same colour, and no choice of \
             pages spreads them; colouring needs a way larger than a page, and {where_to}"
        )
    });
    row.notes.push("pages that share a frame do not conflict; different frames of one colour do".into());
    report.findings.push(row);
}

fn rows(one: &ColourTest, record: &Record, scale: &Scale, threshold: Option<f64>, report: &mut Report) {
    let counted = one.is_counted(record);
    for (colours, pages) in one.arrangements() {
        let Some(row) = one.row(record, scale, threshold, colours, pages) else { continue };
        let (tier, at) = (one.tier.into(), pages.into());
        let (missed, time) = match colours {
            Some(k) => {
                let at = [tier, k.into(), at];
                (metrics::TIER_COLOUR_MISSES_PER_ROUND.at(at), metrics::TIER_COLOUR_TIME_PER_ROUND.at(at))
            }
            None => {
                let at = [tier, at];
                let time = metrics::TIER_COLOUR_SHARED_TIME_PER_ROUND.at(at);
                (metrics::TIER_COLOUR_SHARED_MISSES_PER_ROUND.at(at), time)
            }
        };
        if let Some((i, count, ids)) = &row.misses {
            let mut finding = measured(missed, *i, "", *count, ids);
            if !counted {
                finding.notes.push("no counter available: single loads, classified by their time".into());
            }
            report.findings.push(finding);
        }
        let (i, count, ids) = &row.time;
        let mut finding = measured(time, *i, "ns", *count, ids);
        match colours {
            None => finding.notes.push(
                "zero pages hold no links: the next address is computed from the loaded value, a few cycles \
                 per load; base pages, as many translations as pages"
                    .into(),
            ),
            Some(k) if k > one.colours_of_way() => finding.notes.push(format!(
                "laid out for {k} colours; there {}",
                match one.colours_of_way() {
                    1 => "is one".to_owned(),
                    there => format!("are {there}"),
                }
            )),
            Some(_) => {}
        }
        report.findings.push(finding);
    }
}
