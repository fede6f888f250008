//! How a tier is built: its sets and ways, its line, its replacement.
//!
//! What a latency curve found is taken apart level by level, nearest first, by loads whose addresses are known up
//! to a page: cells at a period fall into few sets, and where more of them fall into one than it has ways, they
//! miss ([`scan`]). No single threshold decides: every cache that could be there is asked what it would do with
//! each arrangement, and those that are contradicted are dropped ([`fathom_analysis::sets`]).

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
use self::policy::Request;
use self::scattered::Scattered;
use crate::budget::Budget;
use crate::latency_curve::{self, Curves, Step};
use crate::record::Record;
use crate::round;
use crate::scale::Scale;

/// Is it a pattern that only this room plans?
fn is_own(pattern: PatternKind) -> bool {
    matches!(pattern, PatternKind::Conflict | PatternKind::Pair | PatternKind::EvictionSet)
}

/// What is known of a level.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Level {
    /// Its sets and ways.
    pub(crate) verdict: Verdict,
    /// Its line, bytes, by what falls into another set.
    pub(crate) line: Option<u64>,
    /// What pairs of addresses say.
    pub(crate) pairs: Option<Pairs>,
    /// What pages that lie anywhere say, where nothing else does; read for a report only.
    pub(crate) scattered: Option<Fit>,
}

impl Level {
    /// Its sets and ways, where they are known.
    pub(crate) fn geometry(&self) -> Option<Geometry> {
        if let Verdict::One(one) = self.verdict { Some(one) } else { None }
    }

    /// The same, or what pages that lie anywhere say: nothing can be placed by that.
    pub(crate) fn built(&self, base: u64) -> Option<Geometry> {
        let of_pages = |fit: &Fit| Geometry {
            ways: fit.best.0.ways as u64,
            way_bytes: fit.best.0.colours as u64 * base,
        };
        self.geometry().or_else(|| self.scattered.as_ref().filter(|fit| fit.decided).map(of_pages))
    }

    /// Its line, bytes: by sets, else by pairs.
    pub(crate) fn line(&self) -> Option<u64> {
        self.line.or_else(|| self.pairs.as_ref()?.reach)
    }
}

/// What is known of the levels behind a latency curve, nearest first; as far as the record has got.
pub(crate) fn levels(record: &Record, scale: &Scale, steps: &[Step]) -> Vec<Level> {
    let mut nearer: Option<Geometry> = None;
    let mut all = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let pairs = pair::read(record, scale, step, steps.get(index + 1), steps[0].here);
        let mut level = Level { verdict: Verdict::Insufficient, line: None, pairs, scattered: None };
        if index == 0 || nearer.is_some() {
            level.verdict = scan::read(record, scale, step, nearer);
            let one = level.geometry();
            level.line = one.and_then(|one| line::read(record, scale, step, (one, nearer)));
            nearer = one;
        }
        all.push(level);
    }
    all
}

/// Levels whose replacement is asked: behind a second one too much filters what arrives.
const ASKED: usize = 2;

/// What is known of a level's replacement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Replacement {
    /// It was asked; without observations of single loads it is the times of whole laps that say it.
    Observed(replacement::Verdict, Vec<Observation>),
    /// It cannot be asked, for this reason.
    Refused(String),
}

/// The replacement of the nearest levels, as far as the record has got.
pub(crate) fn replacements(
    record: &Record,
    scale: &Scale,
    steps: &[Step],
    levels: &[Level],
) -> Vec<Replacement> {
    let mut all: Vec<Replacement> = Vec::new();
    for index in 0..levels.len().min(ASKED) {
        let before = all.last().map(|r| consistent(r).to_vec()).unwrap_or_default();
        if index > 0 && before.is_empty() {
            all.push(Replacement::Refused("the nearer level's replacement is not known".into()));
            break;
        }
        let Some(requested) = requested(steps, levels, index, &before) else {
            all.push(Replacement::Refused("its ways, its sets or its line are not known".into()));
            break;
        };
        all.push(
            match (requested.why_not_testable(record, scale), policy::read(record, scale, &requested)) {
                (Some(why_not_testable), _) => Replacement::Refused(why_not_testable),
                (None, Some((verdict, observations))) => Replacement::Observed(verdict, observations),
                (None, None) => {
                    Replacement::Refused("not asked, or hits and misses were not told apart".into())
                }
            },
        );
    }
    all
}

fn consistent(replacement: &Replacement) -> &[Policy] {
    if let Replacement::Observed(verdict, _) = replacement { &verdict.consistent } else { &[] }
}

/// The question to a level whose sets and ways are known; `policies` are those of the nearer one.
fn requested<'a>(
    steps: &'a [Step],
    levels: &[Level],
    index: usize,
    policies: &'a [Policy],
) -> Option<Request<'a>> {
    let level = levels.get(index)?;
    let nearer = index.checked_sub(1).and_then(|nearer| levels[nearer].geometry());
    Some(Request {
        stride: &steps[index],
        geometry: level.geometry()?,
        line: level.line()?,
        nearer: nearer.map(|nearer| (nearer, policies)),
        next: steps.get(index + 1).map(|step| step.capacity.value),
    })
}

/// The pages that cells lie in: huge ones, whose addresses are known far enough, where there are any; else base pages
/// of chosen colours.
pub(crate) fn pages(scale: &Scale) -> (Pages, u64) {
    match (scale.huge, scale.coloured) {
        (Some(huge), _) => (Pages::Huge, huge),
        (None, true) => (Pages::Coloured, scale.base),
        (None, false) => (Pages::Base, scale.base),
    }
}

/// How levels and TLBs are built: rows of a report, and the levels themselves. `with_replacement`: their replacement was asked.
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
        let requested = Scattered::of(scale, &steps, &levels, index);
        let fit = requested.and_then(|requested| requested.read(record, scale));
        // One level's rise is no other's: of two steps that show the same, the nearer one keeps it.
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

/// What a plan asks on.
pub(crate) struct GeometryRequest<'a> {
    pub(crate) record: &'a Record,
    pub(crate) scale: &'a Scale,
    pub(crate) curves: &'a Curves,
    pub(crate) budget: &'a Budget,
}

/// The next round of an experiment that finds the latency curve with a `share` of its budget (seed and ms), and then asks
/// what is `wanted`; empty at the end.
pub(crate) fn plan(
    record: &Record,
    (seed, budget_ms): (u64, u64),
    share: f64,
    wanted: impl FnOnce(&GeometryRequest) -> Vec<Trial>,
) -> Vec<Trial> {
    if !record.trials.iter().any(|run| is_own(run.trial.kind())) {
        let first = latency_curve::plan(record, seed, (budget_ms as f64 * share) as u64);
        if !first.is_empty() {
            return first;
        }
    }
    let (scale, budget) = (Scale::of(record), Budget::of(record, budget_ms));
    let curves = Curves::of(record, &scale);
    let wanted = wanted(&GeometryRequest { record, scale: &scale, curves: &curves, budget: &budget });
    round::close(record, &budget, wanted, |_| 0, (seed, SALT))
}

/// Keeps its draws apart from the latency curve's.
const SALT: u64 = 0xc0f1;

/// The trials that are wanted next; none when nothing more can be asked. `with_replacement`: the replacement too.
pub(crate) fn wanted(
    record: &Record,
    scale: &Scale,
    curves: &Curves,
    budget: &Budget,
    with_replacement: bool,
) -> Vec<Trial> {
    let steps = curves.steps();
    let mut all = caches(record, scale, &steps, budget.modelled, with_replacement);
    all.extend(tlb::wanted(record, scale, curves, budget));
    // What neighbours a load brings along is the least of it.
    if all.is_empty() {
        all = (0..steps.len()).flat_map(|n| pairs(record, scale, &steps, n, budget.modelled)).collect();
    }
    if all.is_empty() {
        let levels = levels(record, scale, &steps);
        let scattered = (0..steps.len()).filter_map(|n| Scattered::of(scale, &steps, &levels, n));
        all = scattered.flat_map(|one| one.wanted(record, scale, budget.modelled)).collect();
    }
    all
}

fn pairs(record: &Record, scale: &Scale, steps: &[Step], index: usize, modelled: bool) -> Vec<Trial> {
    pair::wanted(record, scale, &steps[index], steps.get(index + 1), modelled)
}

/// The same of the caches: level by level, as far as nothing that is still asked stands in the way.
fn caches(
    record: &Record,
    scale: &Scale,
    steps: &[Step],
    modelled: bool,
    with_replacement: bool,
) -> Vec<Trial> {
    let (mut nearer, mut all) = (None, Vec::new());
    // Is nothing asked any more of the replacement of all levels so far?
    let mut settled = with_replacement;
    for (index, step) in steps.iter().enumerate() {
        let known = if index == 0 || nearer.is_some() {
            let scan = scan::wanted(record, scale, step, nearer, modelled);
            if !scan.is_empty() {
                all.extend(scan);
                break;
            }
            scan::read(record, scale, step, nearer)
        } else {
            Verdict::Insufficient
        };
        let mut line = Vec::new();
        if let Verdict::One(one) = known {
            line = line::wanted(record, scale, step, (one, nearer), modelled);
            if line.is_empty() && line::read(record, scale, step, (one, nearer)).is_none() {
                line = pairs(record, scale, steps, index, modelled);
            }
        }
        settled &= line.is_empty() && index < ASKED;
        all.extend(line);
        if settled {
            let replacement = replacement(record, scale, &steps[..=index], modelled);
            settled = replacement.is_empty();
            all.extend(replacement);
        }
        nearer = if let Verdict::One(one) = known { Some(one) } else { None };
    }
    all
}

/// The same of the replacement of the last of these levels; those before have been asked.
fn replacement(record: &Record, scale: &Scale, steps: &[Step], modelled: bool) -> Vec<Trial> {
    let levels = levels(record, scale, steps);
    let index = steps.len() - 1;
    if requested(steps, &levels, index, &[]).is_none() {
        return Vec::new();
    }
    let mut policies = Vec::new();
    if let Some(nearer) = index.checked_sub(1) {
        // What the nearer level's answers say is worked out only where it is used.
        let Some(requested) = requested(steps, &levels, nearer, &[]) else { return Vec::new() };
        let presumed = policy::presumed(record, &requested).map(<[Policy]>::to_vec);
        let known = || policy::read(record, scale, &requested).map(|known| known.0.consistent);
        policies = presumed.or_else(known).unwrap_or_default();
        if policies.is_empty() {
            return Vec::new();
        }
    }
    requested(steps, &levels, index, &policies)
        .map_or_else(Vec::new, |requested| policy::wanted(record, scale, &requested, modelled))
}

/// Metrics of how levels are built.
pub(crate) static METRICS: &[&Metric] = &[
    &conflict::TIER_LINE,
    &conflict::TIER_WAYS,
    &conflict::TIER_SETS,
    &conflict::TIER_POLICIES,
    &conflict::EVICTED_SHARE,
    &conflict::PAIR_TIME,
    &conflict::PAIR_REACH,
];
