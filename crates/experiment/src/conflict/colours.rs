//! Page colours: what pages that share one frame cost beside pages of one colour, and of several.
//!
//! Virtual pages that share a frame, as untouched memory shares the kernel's page of zeros, are one line at one
//! offset: they cannot conflict. What conflicts are different frames of one colour, and they do so less where they
//! are spread over more colours. A level has as many colours as its way has pages, so one whose way is no larger
//! than a page has one, and colour changes nothing there.

use fathom_analysis::findings::{Refused, Report};
use fathom_analysis::interval::{Interval, grouped_interval, quantile};
use fathom_analysis::metrics::conflict as metrics;
use fathom_analysis::sets::Geometry;
use fathom_probe::divisor::gcd;
use fathom_probe::machine::{COLOUR_SPAN, ClockTrust, Pages};
use fathom_probe::pattern::{Conflict, Groups, Memory, PatternKind, Single, Stride, Trial};
use fathom_probe::splitmix::mix;
use fathom_units::facts;
use fathom_units::size;

use super::options::Options;
use crate::clock::step_ticks;
use crate::geometry::scan::place;
use crate::geometry::{self, Level};
use crate::latency_curve::Step;
use crate::reading::{measured, text};
use crate::record::{Record, TrialRun};
use crate::scale::Scale;

/// Most pages, in ways: beyond four colours' worth of them, to see the fourth conflict.
const MAX_WAYS: u64 = 5;
/// Points a way's worth of pages, beside those at which a colour more is full.
const POINTS: u64 = 4;
/// So many loads are timed that two steps of the clock are no more than this share of what a miss takes longer:
/// as of the scan.
const CLOCK_SHARE: f64 = 0.006;
/// Samples a trial of the patterns that time many loads.
const SAMPLES: u64 = 3;
/// Single loads per trial: 400 show a share of misses within 5 points.
const SINGLES: u64 = 400;
/// Untimed loads between two single ones, at least: what reading the clock brings in is used and gone.
const SPACING: u64 = 64;
/// A miss is told from a hit where they are more steps of the clock apart than this: a reading is off by up to one at
/// each end.
const STEPS_APART: f64 = 2.0;
/// Laps that warm: random replacement takes some to settle.
const WARM_LAPS: u64 = 32;
/// Twice as many lines as ways of one set, cyclically: whatever is replaced, at least half of them miss, since
/// the best that can be (Belady's) misses (2 ways - ways) of 2 ways - 1. A tenth off for what times are off by.
const CONFLICTS: f64 = 0.45;
/// As many lines as ways or fewer do not miss, but for stray ones.
const STRAY: f64 = 0.2;
/// What gives them, where the machine has not said what stands in its way.
const DRIVER: &str = "make -C driver && sudo insmod driver/fathom.ko";

/// What one level is asked.
#[derive(Clone, Debug)]
struct Request {
    /// The level, from 1.
    tier: usize,
    one: Geometry,
    stride: Step,
    /// The page whose colours these are, bytes: the base page, which is what mappings are made of.
    page: u64,
    /// Pages that the cells lie in.
    kind: Pages,
    colours: Vec<u64>,
}

/// Which levels are asked: the nearest in any case, and if its way is no larger than a page the nearest one whose
/// way is. And why not, where nothing is known of a nearest level.
fn requested(
    record: &Record,
    scale: &Scale,
    steps: &[Step],
    levels: &[Level],
) -> Result<Vec<Request>, String> {
    let mut colours = Options::of(record).colours;
    colours.push(1);
    colours.sort_unstable();
    colours.dedup();
    let at = |index: usize| {
        let (step, one) = (*steps.get(index)?, levels.get(index)?.geometry()?);
        let (kind, page) = (geometry::pages(scale).0, scale.base);
        Some(Request { tier: index + 1, one, stride: step, page, kind, colours: colours.clone() })
    };
    let first = at(0).ok_or("the ways of the nearest level are not known")?;
    let more = (1..levels.len()).filter_map(at).find(|one| one.colours_of_way() > 1);
    let more = more.filter(|_| first.colours_of_way() == 1);
    Ok(std::iter::once(first).chain(more).collect())
}

impl Request {
    /// How many colours its pages have.
    fn colours_of_way(&self) -> u64 {
        (self.one.way_bytes / self.page).max(1)
    }

    /// Why nothing can be said of its colours, and what would help.
    fn why_not_testable(&self, record: &Record) -> Option<(String, String)> {
        let (way, page) = (self.one.way_bytes, self.page);
        if way > page && !way.is_multiple_of(page) {
            let what = format!("a way of {} is no whole number of pages", size(way as f64));
            return Some((what, String::new()));
        }
        let unknown = self.kind == Pages::Base && record.trust != Some(ClockTrust::Modelled);
        if way > page && unknown {
            // What the driver's remedy is where it cannot be opened, the machine says.
            let driver = record.text(facts::DRIVER_REMEDY).unwrap_or(DRIVER);
            let what =
                "no huge pages are to be had, and nothing else says which colour a page has".to_owned();
            let huge = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
            return Some((what, format!("{huge}; or Fathom's driver: {driver}")));
        }
        if self.kind != Pages::Coloured {
            return None;
        }
        if !COLOUR_SPAN.is_multiple_of(way) {
            let (way, span) = (size(way as f64), size(COLOUR_SPAN as f64));
            let what = format!("pages are placed within {span}, of which a way of {way} is no part");
            return Some((what, "huge pages of the kernel's, where they are larger".to_owned()));
        }
        let own = |run: &&TrialRun| {
            run.trial.memory.page == Pages::Coloured && run.trial.counted == self.tier as u64
        };
        record.trials.iter().filter(own).find_map(|run| run.refusal.clone())
    }

    /// Numbers of pages that are tried: up to [`MAX_WAYS`] ways' worth, and where the first, second, third and
    /// fourth colour is full and one beyond.
    fn counts(&self) -> Vec<u64> {
        let ways = self.one.ways;
        let every = (ways / POINTS).max(1);
        let mut all: Vec<u64> = (1..=MAX_WAYS * ways / every).map(|n| n * every).collect();
        all.extend((1..MAX_WAYS).flat_map(|n| [n * ways, n * ways + 1]));
        all.push(1);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// From so many pages side by side to the next as many of the same colours, bytes. More than a way has are
    /// laid out as if it had them.
    fn period(&self, colours: u64) -> u64 {
        (colours * self.page).next_multiple_of(self.one.way_bytes.max(self.page))
    }

    /// Loads of so many pages: of several colours, or sharing a frame.
    fn trial(&self, colours: Option<u64>, pages: u64, scale: &Scale, modelled: bool, nth: u64) -> Trial {
        let miss = (self.stride.next - self.stride.here).max(0.1);
        let clock = 2.0 * scale.resolution * scale.tick_ns / (CLOCK_SHARE * miss);
        let mut loads = (clock as u64).clamp(2048, 1 << 17).next_multiple_of(pages) + 1;
        while pages > 2 && (2 * loads).is_multiple_of(pages) {
            loads += 1;
        }
        let memory = Memory::of(pages * self.page, self.page);
        let trial = Trial {
            counted: self.tier as u64,
            loads,
            samples: if modelled { 1 } else { SAMPLES },
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

    /// Single loads of the same pages. Their spacing, the timed one included, has no divisor with the lines or the
    /// ways in common: else only some of the states that the set goes through would be asked.
    fn single(&self, colours: u64, pages: u64, scale: &Scale, nth: u64) -> Trial {
        let prime_to = |n: u64| gcd(n, pages * self.one.ways) == 1;
        let spacing = (SPACING..).find(|&n| prime_to(n)).unwrap_or(SPACING);
        let many = self.trial(Some(colours), pages, scale, false, nth);
        let single = Single::of(many.pattern.groups());
        Trial { pattern: single.into(), loads: spacing - 1, samples: SINGLES, ..many }
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

    /// Every arrangement.
    fn arrangements(&self) -> Vec<(Option<u64>, u64)> {
        let kinds = self.colours.iter().map(|&k| Some(k)).chain([None]);
        kinds.flat_map(|kind| self.counts().into_iter().map(move |n| (kind, n))).collect()
    }
}

/// The trials that are wanted next: none where no colours are asked for, or all has been asked.
pub(super) fn wanted(record: &Record, scale: &Scale, steps: &[Step], modelled: bool) -> Vec<Trial> {
    if Options::of(record).colours.is_empty() {
        return Vec::new();
    }
    let levels = geometry::levels(record, scale, steps);
    let Ok(all) = requested(record, scale, steps, &levels) else { return Vec::new() };
    let all: Vec<Request> = all.into_iter().filter(|one| one.why_not_testable(record).is_none()).collect();
    let times = if modelled { 1 } else { 2 };
    let mut wanted = Vec::new();
    for one in &all {
        for (colours, pages) in one.arrangements() {
            let patterns = [PatternKind::Conflict, PatternKind::Stride];
            let had = had(record, one, &patterns, colours, pages);
            wanted.extend((had..times).map(|nth| one.trial(colours, pages, scale, modelled, nth)));
        }
    }
    if !wanted.is_empty() {
        return wanted;
    }
    for one in all.iter().filter(|one| !one.is_counted(record)) {
        for (colours, pages) in one.arrangements() {
            let Some(colours) = colours else { continue };
            let had = had(record, one, &[PatternKind::Single], Some(colours), pages);
            wanted.extend((had..times).map(|nth| one.single(colours, pages, scale, nth)));
        }
    }
    wanted
}

/// How often it was asked, whatever came of it.
fn had(record: &Record, one: &Request, patterns: &[PatternKind], colours: Option<u64>, pages: u64) -> u64 {
    let of = |run: &&TrialRun| patterns.contains(&run.trial.kind()) && one.is_of(&run.trial, colours, pages);
    record.trials.iter().filter(of).count() as u64
}

/// What was measured of one arrangement.
struct Row {
    /// Misses a round, and what they rest on.
    misses: Option<(Interval, usize, Vec<u64>)>,
    /// Time a round, ns.
    time: (Interval, usize, Vec<u64>),
}

impl Request {
    fn runs<'a>(
        &'a self,
        record: &'a Record,
        pattern: PatternKind,
        colours: Option<u64>,
        pages: u64,
    ) -> impl Iterator<Item = &'a TrialRun> {
        record.of(pattern).filter(move |run| self.is_of(&run.trial, colours, pages))
    }

    /// Does anybody count this level's refills?
    fn is_counted(&self, record: &Record) -> bool {
        let counted = |run: &TrialRun| run.samples.iter().any(|s| s.misses.is_some());
        self.counts().iter().any(|&n| self.runs(record, PatternKind::Conflict, Some(1), n).any(counted))
    }

    /// The time from which on a single load is a miss, ticks: half way from the upper quartile of as many lines as
    /// ways, which hit but for stray ones, to the lower one of five times as many, of which no policy keeps more than
    /// a fifth. Quartiles, because misses are of many kinds, by whatever answers behind, and hits of one. `None` where
    /// the two are not told apart.
    fn threshold(&self, record: &Record) -> Option<f64> {
        let quartile = |pages: u64, of: f64| {
            let runs = self.runs(record, PatternKind::Single, Some(1), pages);
            let mut all: Vec<f64> = runs.flat_map(TrialRun::single_ticks).collect();
            all.sort_by(f64::total_cmp);
            quantile(&all, of)
        };
        let (hit, miss) = (quartile(self.one.ways, 0.75)?, quartile(MAX_WAYS * self.one.ways, 0.25)?);
        let steps = STEPS_APART * step_ticks(record) as f64;
        (miss - hit > steps).then(|| f64::midpoint(hit, miss))
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
        let a_round = pages as f64;
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
        let time = gather(pattern, &|run| scale.steady(run).iter().map(|t| t * a_round).collect())?;
        let counted = gather(pattern, &|run| {
            let loads = run.trial.loads as f64;
            // n and 2n loads, a few of them beside whole laps.
            let of = |s: &fathom_probe::rows::Sample| {
                s.misses.map(|(n, twice)| (n as f64 + twice as f64) / (3.0 * loads) * a_round)
            };
            run.samples.iter().filter_map(of).collect()
        });
        let misses = counted.or_else(|| {
            gather(PatternKind::Single, &|run| {
                let Some(threshold) = threshold else { return Vec::new() };
                let all: Vec<f64> = run.single_ticks().collect();
                let missed = all.iter().filter(|&&t| t > threshold).count();
                if all.is_empty() { all } else { vec![missed as f64 / all.len() as f64 * a_round] }
            })
        });
        Some(Row { misses, time })
    }

    /// Share of the loads that miss: of what was counted or classified, else by the time.
    fn share(&self, row: &Row, pages: u64) -> f64 {
        match &row.misses {
            Some((misses, ..)) => misses.value / pages as f64,
            None => {
                let load = row.time.0.value / pages as f64;
                (load - self.stride.here) / (self.stride.next - self.stride.here).max(f64::MIN_POSITIVE)
            }
        }
    }

    /// Are the colours those that the pages' places say? Pages of one must conflict, and as many of several must
    /// not.
    fn conflict_test(&self, rows: &dyn Fn(u64, u64) -> Option<Row>) -> Result<(), (String, &'static str)> {
        let pages = 2 * self.one.ways;
        let share = |colours| rows(colours, pages).map(|row| 100.0 * self.share(&row, pages));
        let unknown = |colours: u64, misses: f64, expected: &str| {
            let of = if colours == 1 { "one colour".to_owned() } else { format!("{colours} colours") };
            let what = format!(
                "of {pages} pages that should be of {of} {misses:.0} % miss and not {expected}: what colours \
                 pages have is not known"
            );
            Err((what, "a machine whose huge pages are contiguous and whose level is not hashed"))
        };
        let Some(one) = share(1) else {
            return Err(("the budget ended before they were measured".into(), "a larger --budget"));
        };
        if one < 100.0 * CONFLICTS {
            return unknown(1, one, "half or more");
        }
        for &colours in self.colours.iter().filter(|&&k| k > 1 && k <= self.colours_of_way()) {
            match share(colours) {
                Some(several) if several > 100.0 * STRAY => return unknown(colours, several, "next to none"),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Adds what is known of colours to the report, where they were asked for.
pub(super) fn read(record: &Record, scale: &Scale, steps: &[Step], levels: &[Level], report: &mut Report) {
    if Options::of(record).colours.is_empty() {
        return;
    }
    let mut refuse = |what: String, reason: String, remedy: &str| {
        report.refusals.push(Refused { what, reason, remedy: remedy.to_owned() });
    };
    let all = match requested(record, scale, steps, levels) {
        Ok(all) => all,
        Err(why) => return refuse("page colours".into(), why, "give it more time: --budget"),
    };
    let mut sound = Vec::new();
    for one in &all {
        let threshold = one.threshold(record);
        let what = format!("the page colours of tier {}", one.tier);
        let row = |k: u64, n: u64| one.row(record, scale, threshold, Some(k), n);
        if let Some((why, remedy)) = one.why_not_testable(record) {
            refuse(what, why, &remedy);
        } else if let Err((why, remedy)) = one.conflict_test(&row) {
            refuse(what, why, remedy);
        } else {
            sound.push((one, threshold));
        }
    }
    for (one, threshold) in sound {
        help(one, levels, report);
        rows(one, record, scale, threshold, report);
    }
}

/// Can colour help in this level, and what would it take?
fn help(one: &Request, levels: &[Level], report: &mut Report) {
    let (way, page, ways) = (one.one.way_bytes, one.page, one.one.ways);
    let colours = one.colours_of_way();
    let mut row =
        text(metrics::TIER_COLOUR_USEFUL.at([one.tier.into()]), if colours > 1 { "yes" } else { "no" });
    let (way, page) = (size(way as f64), size(page as f64));
    row.notes.push(if colours > 1 {
        format!(
            "a way of {way} is {colours} pages of {page}, so pages have {colours} colours: those of one \
             conflict from {} on, those of K, up to {colours}, from K times {ways} and one on",
            ways + 1
        )
    } else {
        let larger = levels.iter().enumerate().find_map(|(index, level)| {
            let bytes = level.geometry()?.way_bytes;
            (bytes > one.page).then(|| (index + 1, size(bytes as f64), bytes / one.page))
        });
        let where_to = match larger {
            Some((tier, way, colours)) => format!("tier {tier} has one of {way}, {colours} colours"),
            None => "no tier whose ways are known has one".to_owned(),
        };
        format!(
            "a way of {way} is no larger than a page of {page}: every page has the same colour, and no choice of \
             pages spreads them; it would take a way larger than a page, and {where_to}"
        )
    });
    row.notes.push(
        "pages that share a frame are one line: what conflicts are different frames of one colour".into(),
    );
    report.findings.push(row);
}

fn rows(one: &Request, record: &Record, scale: &Scale, threshold: Option<f64>, report: &mut Report) {
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
                finding.notes.push("nobody counts them here: single loads, classified by their time".into());
            }
            report.findings.push(finding);
        }
        let (i, count, ids) = &row.time;
        let mut finding = measured(time, *i, "ns", *count, ids);
        match colours {
            None => finding.notes.push(
                "pages of zeros hold no links: the next address is computed from what was loaded, some cycles \
                 a load; base pages, and as many translations as pages"
                    .into(),
            ),
            Some(k) if k > one.colours_of_way() => finding.notes.push(format!(
                "laid out as for {k} colours; there {}",
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
