//! Geometry of a tier: sets, ways, line size, replacement.
//!
//! Each level of a latency curve is examined in turn, nearest first, by loads whose addresses are known up to a page.
//! Cells at a period fall into few sets; if more of them fall into one set than it has ways, they miss ([`scan`]). No
//! single threshold decides: every possible cache predicts the misses of each arrangement, and those that the
//! measurements contradict are dropped ([`fathom_analysis::sets`]).

pub(crate) mod arrangement;
mod confirmation;
pub(crate) mod line;
pub(crate) mod pair;
pub(crate) mod policy;
pub(crate) mod rows;
pub(crate) mod scan;
pub(crate) mod scattered;
pub(crate) mod tlb;
pub(crate) mod view;

use fathom_analysis::findings::Metric;
use fathom_analysis::findings::Report;
use fathom_analysis::metrics::conflict;
use fathom_analysis::pages::Fit;
use fathom_analysis::replacement::{self, Observation, Policy};
use fathom_analysis::sets::{Geometry, Verdict};
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{PatternKind, Trial};

use self::pair::Pairs;
use self::policy::ReplacementTest;
use self::scan::Scan;
use self::scattered::Scattered;
use crate::budget::Budget;
use crate::latency_curve::{self, Curves, Step};
use crate::record::Record;
use crate::round;
use crate::scale::Scale;

/// Returns whether only this module plans such trials.
fn is_of_geometry(trial: &Trial) -> bool {
    matches!(trial.kind(), PatternKind::Conflict | PatternKind::Pair | PatternKind::EvictionSet)
        && !latency_curve::tests_translation(trial)
}

/// Results for one level.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Level {
    /// Its sets and ways.
    pub(crate) verdict: Verdict,
    /// Its line, bytes: the distance at which addresses fall into another set.
    pub(crate) line: Option<u64>,
    /// Results of the pairs of addresses.
    pub(crate) pairs: Option<Pairs>,
    /// Fit of scattered pages, if nothing else gives a result; computed only for reports.
    pub(crate) scattered: Option<Fit>,
}

impl Level {
    /// Returns its sets and ways, if known.
    pub(crate) fn geometry(&self) -> Option<Geometry> {
        if let Verdict::One(one) = self.verdict { Some(one) } else { None }
    }

    /// Returns the same, or the fit of scattered pages. That fit cannot be used to place cells.
    pub(crate) fn built(&self, base: u64) -> Option<Geometry> {
        let of_pages = |fit: &Fit| Geometry {
            ways: fit.best.0.ways as u64,
            way_bytes: fit.best.0.colours as u64 * base,
        };
        self.geometry().or_else(|| self.scattered.as_ref().filter(|fit| fit.decided).map(of_pages))
    }

    /// Returns its line, bytes: by sets, else by pairs.
    pub(crate) fn line(&self) -> Option<u64> {
        self.line.or_else(|| self.pairs.as_ref()?.reach)
    }
}

/// Returns the levels of a latency curve, nearest first, as far as the record allows.
pub(crate) fn levels(record: &Record, scale: &Scale, steps: &[Step]) -> Vec<Level> {
    let mut nearer: Option<Geometry> = None;
    let mut all = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let scan = (index == 0 || nearer.is_some()).then(|| Scan::of(record, scale, step, nearer));
        let level = level(record, scale, step, nearer, scan.as_ref());
        nearer = level.geometry();
        all.push(level);
    }
    with_pairs(record, scale, steps, &all)
}

/// Returns a level without its pairs. A level behind one of unknown geometry has no scan.
fn level(
    record: &Record,
    scale: &Scale,
    step: &Step,
    nearer: Option<Geometry>,
    scan: Option<&Scan>,
) -> Level {
    let verdict = scan.map_or(Verdict::Insufficient, Scan::verdict);
    let mut level = Level { verdict, line: None, pairs: None, scattered: None };
    level.line = level.geometry().and_then(|one| line::read(record, scale, step, (one, nearer)));
    level
}

/// Returns the levels of these steps with the results of their pairs.
fn with_pairs(record: &Record, scale: &Scale, steps: &[Step], levels: &[Level]) -> Vec<Level> {
    let pairs = |index: usize| pair::read(record, scale, &steps[index], steps.get(index + 1), steps[0].here);
    levels.iter().enumerate().map(|(index, level)| Level { pairs: pairs(index), ..level.clone() }).collect()
}

/// Levels whose replacement is tested: beyond the second one the nearer levels filter too many accesses.
const TESTED_LEVELS: usize = 2;

/// Results for a level's replacement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Replacement {
    /// It was tested. Without observations of single loads, the times of whole laps are used.
    Observed(replacement::Verdict, Vec<Observation>),
    /// It cannot be tested, for this reason.
    Refused(String),
}

/// Returns the replacement of the nearest levels, as far as the record allows.
pub(crate) fn replacements(
    record: &Record,
    scale: &Scale,
    steps: &[Step],
    levels: &[Level],
) -> Vec<Replacement> {
    let mut all: Vec<Replacement> = Vec::new();
    for index in 0..levels.len().min(TESTED_LEVELS) {
        let before = all.last().map(|r| consistent(r).to_vec()).unwrap_or_default();
        if index > 0 && before.is_empty() {
            all.push(Replacement::Refused("the replacement of the nearer cache is unknown".into()));
            break;
        }
        let Some(test) = replacement_test(steps, levels, index, &before) else {
            all.push(Replacement::Refused("its ways, sets or line are unknown".into()));
            break;
        };
        all.push(match (test.why_not_testable(record, scale), policy::read(record, scale, &test)) {
            (Some(reason), _) => Replacement::Refused(reason),
            (None, Some((verdict, observations))) => Replacement::Observed(verdict, observations),
            (None, None) => {
                Replacement::Refused("not tested, or hits could not be distinguished from misses".into())
            }
        });
    }
    all
}

fn consistent(replacement: &Replacement) -> &[Policy] {
    if let Replacement::Observed(verdict, _) = replacement { &verdict.consistent } else { &[] }
}

/// Returns the replacement test of a level with known sets and ways; `policies` are those of the nearer level.
fn replacement_test<'a>(
    steps: &'a [Step],
    levels: &[Level],
    index: usize,
    policies: &'a [Policy],
) -> Option<ReplacementTest<'a>> {
    let level = levels.get(index)?;
    let nearer = index.checked_sub(1).and_then(|nearer| levels[nearer].geometry());
    Some(ReplacementTest {
        step: &steps[index],
        geometry: level.geometry()?,
        line: level.line()?,
        nearer: nearer.map(|nearer| (nearer, policies)),
        next: steps.get(index + 1).map(|step| step.capacity.value),
    })
}

/// Returns the pages for the cells: huge pages, whose addresses are known far enough, if available; else base pages of
/// chosen colours.
pub(crate) fn pages(scale: &Scale) -> (Pages, u64) {
    match (scale.huge, scale.coloured) {
        (Some(huge), _) => (Pages::Huge, huge),
        (None, true) => (Pages::Coloured, scale.base),
        (None, false) => (Pages::Base, scale.base),
    }
}

/// Adds the findings of levels and TLBs, and returns the levels. `with_replacement`: whether replacement was tested.
pub(crate) fn read(
    record: &Record,
    scale: &Scale,
    curves: &Curves,
    with_replacement: bool,
    report: &mut Report,
) -> Vec<Level> {
    let steps = curves.steps();
    let mut levels = levels(record, scale, &steps);
    for index in 0..levels.len() {
        let scattered = Scattered::of(scale, &steps, &levels, index);
        let fit = scattered.and_then(|scattered| scattered.read(record, scale));
        // Each rise belongs to one level: if two steps give the same fit, the nearer one keeps it.
        let same = |level: &Level| {
            level.scattered.as_ref().map(|fit| fit.best.0) == fit.as_ref().map(|fit| fit.best.0)
        };
        let again = levels[..index].iter().any(|level| level.scattered.is_some() && same(level));
        levels[index].scattered = fit.filter(|_| !again);
    }
    rows::built(&steps, &levels, scale.base, report);
    if with_replacement {
        rows::replaced(&replacements(record, scale, &steps, &levels), report);
    }
    tlb::rows(record, scale, curves, &levels, report);
    levels
}

/// The input of a plan.
pub(crate) struct GeometryRequest<'a> {
    pub(crate) record: &'a Record,
    pub(crate) scale: &'a Scale,
    pub(crate) curves: &'a Curves,
    pub(crate) budget: &'a Budget,
}

/// Returns the next round of an experiment that measures the latency curve with a `share` of its budget (seed and ms)
/// and then the `next_trials`; empty at the end.
pub(crate) fn plan(
    record: &Record,
    (seed, budget_ms): (u64, u64),
    share: f64,
    next_trials: impl FnOnce(&GeometryRequest) -> Vec<Trial>,
) -> Vec<Trial> {
    if !record.trials.iter().any(|run| is_of_geometry(&run.trial)) {
        let first = latency_curve::plan(record, seed, (budget_ms as f64 * share) as u64);
        if !first.is_empty() {
            return first;
        }
    }
    let (scale, budget) = (Scale::of(record), Budget::of(record, budget_ms));
    let curves = Curves::of(record, &scale);
    let trials = next_trials(&GeometryRequest { record, scale: &scale, curves: &curves, budget: &budget });
    round::assemble(record, &budget, trials, |_| 0, (seed, SALT))
}

/// Separates the random numbers from those of the latency curve.
const SALT: u64 = 0xc0f1;

/// Returns the next trials; empty if the plan is complete. `with_replacement`: whether to test replacement.
pub(crate) fn next_trials(
    record: &Record,
    scale: &Scale,
    curves: &Curves,
    budget: &Budget,
    with_replacement: bool,
) -> Vec<Trial> {
    let steps = curves.steps();
    let mut all = caches(record, scale, &steps, budget.exact, with_replacement);
    all.extend(tlb::next_trials(record, scale, curves, budget));
    // Pairs last: adjacent-line prefetch is the least important result.
    if all.is_empty() {
        all = (0..steps.len()).flat_map(|n| pairs(record, scale, &steps, n, budget.exact)).collect();
    }
    if all.is_empty() {
        let levels = levels(record, scale, &steps);
        let scattered = (0..steps.len()).filter_map(|n| Scattered::of(scale, &steps, &levels, n));
        all = scattered.flat_map(|one| one.next_trials(record, scale, budget.exact)).collect();
    }
    all
}

fn pairs(record: &Record, scale: &Scale, steps: &[Step], index: usize, exact: bool) -> Vec<Trial> {
    pair::next_trials(record, scale, &steps[index], steps.get(index + 1), exact)
}

/// Returns the next trials of the caches, level by level, up to the first level that still needs trials.
fn caches(record: &Record, scale: &Scale, steps: &[Step], exact: bool, with_replacement: bool) -> Vec<Trial> {
    let (mut nearer, mut all) = (None, Vec::new());
    let mut levels: Vec<Level> = Vec::new();
    // Whether the replacement of all levels so far needs no more trials.
    let mut complete = with_replacement;
    for (index, step) in steps.iter().enumerate() {
        let scan = (index == 0 || nearer.is_some()).then(|| Scan::of(record, scale, step, nearer));
        let trials = scan.as_ref().map_or_else(Vec::new, |scan| scan.next_trials(exact));
        if !trials.is_empty() {
            all.extend(trials);
            break;
        }
        let level = level(record, scale, step, nearer, scan.as_ref());
        let known = level.geometry();
        let mut line = Vec::new();
        if let Some(one) = known {
            line = line::next_trials(record, scale, step, (one, nearer), exact);
            if line.is_empty() && level.line.is_none() {
                line = pairs(record, scale, steps, index, exact);
            }
        }
        levels.push(level);
        complete &= line.is_empty() && index < TESTED_LEVELS;
        all.extend(line);
        if complete {
            let replacement = replacement(record, scale, &steps[..=index], &levels, exact);
            complete = replacement.is_empty();
            all.extend(replacement);
        }
        nearer = known;
    }
    all
}

/// Returns the next trials for the replacement of the last of these levels; the earlier ones are complete.
fn replacement(record: &Record, scale: &Scale, steps: &[Step], levels: &[Level], exact: bool) -> Vec<Trial> {
    let levels = with_pairs(record, scale, steps, levels);
    let index = steps.len() - 1;
    if replacement_test(steps, &levels, index, &[]).is_none() {
        return Vec::new();
    }
    let mut policies = Vec::new();
    if let Some(nearer) = index.checked_sub(1) {
        // The nearer level's result is computed only if needed.
        let Some(test) = replacement_test(steps, &levels, nearer, &[]) else { return Vec::new() };
        let presumed = policy::presumed(record, &test).map(<[Policy]>::to_vec);
        let known = || policy::read(record, scale, &test).map(|known| known.0.consistent);
        policies = presumed.or_else(known).unwrap_or_default();
        if policies.is_empty() {
            return Vec::new();
        }
    }
    replacement_test(steps, &levels, index, &policies)
        .map_or_else(Vec::new, |test| policy::next_trials(record, scale, &test, exact))
}

/// Metrics of the geometry of levels.
pub(crate) static METRICS: &[&Metric] = &[
    &conflict::TIER_LINE,
    &conflict::TIER_WAYS,
    &conflict::TIER_SETS,
    &conflict::TIER_POLICIES,
    &conflict::EVICTED_SHARE,
    &conflict::PAIR_TIME,
    &conflict::PAIR_FETCHED_BYTES,
];
