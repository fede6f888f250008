//! TLBs: sets and ways from conflicts of pages, and the curve of huge pages.
//!
//! The scan of [`super::scan`] with pages in place of lines. Cells are a number of pages apart, each a little farther
//! into its page than the last, so that they spread over the sets of the caches. A control trial measures the time that
//! is not translation: the same cells in a few huge pages. Without huge pages, or if too many are needed, the control
//! is the same number of lines packed.

pub(crate) mod huge;

use fathom_analysis::findings::{Basis, Refused, Report};
use fathom_analysis::metrics::survey as metrics;
use fathom_analysis::sets::{self, Conflict, Geometry, Verdict};
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{PatternKind, Trial};
use fathom_units::facts;
use fathom_units::size;

use super::arrangement::{self, Arrangement, Domain};
use super::scan::{self, Times};
use super::{Level, Step, confirmation};
use crate::budget::Budget;
use crate::latency_curve::{self, Curves, DESCRIPTOR};
use crate::reading::number;
use crate::record::Record;
use crate::scale::{Scale, mappable};

/// Cells per group that keep the nearer TLB busy, at most: a fully associative nearer TLB has up to 64 entries, and
/// with random replacement some loads hit until twice as many are in use.
const MAX_GROUP: u64 = 128;
/// Bytes between the first and the last cell, at most, as a multiple of the capacity: ways + 1 groups at twice the
/// length of a way are three capacities or less.
const SCAN_RATIO: f64 = 6.0;
/// The same for small capacities, bytes, where memory does not matter.
const SPAN_BYTES: u64 = 16 << 20;
/// Huge pages of a control trial, at most: the smallest first-level TLB known has 8 entries.
const CONTROL_PAGES: u64 = 8;
/// Bytes added to each cell's step: the most common line size.
const CONTROL_OFFSET: u64 = sets::MIN_SEPARATION;
/// Maximum share of the clock's resolution in the added time of misses: a fully associative TLB of 64 entries with
/// random replacement misses in 2 of 65 loads, of which a third must be visible.
const CLOCK_SHARE: f64 = 0.003;

/// Returns the domain of a TLB.
fn domain(record: &Record, scale: &Scale, step: &Step) -> Domain {
    let mappable = record.int(mappable(scale.base_pages()));
    let mappable = mappable.or_else(|| record.int(facts::MEMORY_CEILING_BYTES).map(|bytes| bytes / 2));
    let span = ((SCAN_RATIO * step.capacity.value) as u64).clamp(SPAN_BYTES, arrangement::MAX_SPAN);
    Domain {
        grain: scale.base,
        pages: (scale.base_pages(), scale.base),
        cell_offset: CONTROL_OFFSET,
        control_offset: CONTROL_OFFSET,
        periods: (scale.base, arrangement::MAX_SPAN),
        span: span.min(mappable.unwrap_or(span)),
        max_group: MAX_GROUP,
        clock_share: CLOCK_SHARE,
        capacity_error: arrangement::CAPACITY_ERROR,
    }
}

/// Returns the control trial: the same cells in huge pages, with groups so close that a few huge pages hold them all;
/// else as many lines packed.
fn control(scale: &Scale, domain: &Domain, of: Arrangement) -> Arrangement {
    let huge = scale.huge.unwrap_or(0);
    let mut period = domain.period(of);
    let drift = of.period - period;
    let too_far = |period: u64| of.groups.saturating_mul(period + drift) > CONTROL_PAGES * huge;
    // Groups stay whole pages apart, so that the cells use the same sets of a first-level cache.
    while too_far(period) && period / 2 >= of.group * of.stride && (period / 2).is_multiple_of(domain.grain) {
        period /= 2;
    }
    if !too_far(period) {
        return Arrangement { period: period + drift, ..of };
    }
    // The stride has no effect with one cell per group; this value separates these trials from those of a cache's scan.
    Arrangement { groups: of.cells(), group: 1, stride: 2 * CONTROL_OFFSET, period: CONTROL_OFFSET }
}

/// All times that the conflicts of a TLB are derived from, ns.
struct Measured {
    own: Times,
    controls: Times,
    /// A line that hits in cache, on a page that hits in the TLB.
    hit: f64,
}

impl Measured {
    fn of(record: &Record, scale: &Scale, domain: &Domain, step: &Step) -> Measured {
        let own = scan::times(record, scale, domain);
        let controls = Domain { pages: super::pages(scale), ..*domain };
        let controls = scan::times(record, scale, &controls);
        let hit = scan::alone(&own).unwrap_or(step.here);
        Measured { own, controls, hit }
    }

    /// Returns whether the time exceeds what the nearer TLB's misses explain. Only then a control is needed, because it
    /// can only reduce the time.
    fn rises(&self, time: f64, step: &Step, nearer: Option<Geometry>) -> bool {
        let base = if nearer.is_none() { self.hit } else { step.here };
        time > base + CLOCK_SHARE * (step.next - base).max(0.0)
    }

    fn conflicts(
        &self,
        scale: &Scale,
        domain: &Domain,
        step: &Step,
        nearer: Option<Geometry>,
    ) -> Vec<Conflict> {
        let less = |of: &Arrangement, time: f64| {
            if !self.rises(time, step, nearer) {
                return Some(time);
            }
            Some(time - (self.controls.get(&control(scale, domain, *of))? - self.hit).max(0.0))
        };
        scan::conflicts(&self.own, less, scale, domain, (step, self.hit), nearer)
    }
}

/// Results for one TLB.
struct Tlb {
    /// The geometries that the conflicts allow.
    left: Verdict,
    /// The same, confirmed.
    verdict: Verdict,
    conflicts: Vec<Conflict>,
    domain: Domain,
}

fn read(record: &Record, scale: &Scale, step: &Step, nearer: Option<Geometry>) -> Tlb {
    let domain = domain(record, scale, step);
    let conflicts = Measured::of(record, scale, &domain, step).conflicts(scale, &domain, step, nearer);
    let left = sets::read(&conflicts, &scan::constraints(&domain, step, nearer, false));
    let verdict = match left {
        Verdict::One(one) if !scale.is_hardware() && !has_reach(one, step, scale.base) => Verdict::None,
        Verdict::One(one) => match confirmation::of_pages(&domain, &conflicts, one, nearer) {
            Some(true) => Verdict::One(one),
            Some(false) => Verdict::None,
            None => Verdict::Insufficient,
        },
        ref other => other.clone(),
    };
    Tlb { left, verdict, conflicts, domain }
}

/// Returns whether all entries of this geometry reach as far as the pairs of a described machine show, to the page.
fn has_reach(of: Geometry, step: &Step, page: u64) -> bool {
    let (reach, page) = (of.bytes() as f64, page as f64);
    (step.capacity.low - page..=step.capacity.high + page).contains(&reach)
}

/// Returns the next trials of a TLB with these results; empty if its scan is complete.
fn scan(
    record: &Record,
    scale: &Scale,
    tlb: &Tlb,
    (step, nearer): (&Step, Option<Geometry>),
    exact: bool,
) -> Vec<Trial> {
    let domain = tlb.domain;
    let mut all = scan::scan(&domain, step, nearer);
    all.extend(arrangement::informative(&domain, tlb.left.candidates(), nearer));
    all.extend(arrangement::multiples(&domain, tlb.left.candidates(), nearer));
    let trials = scan::missing_trials(record, scale, &domain, step, exact, all);
    if trials.is_empty() { controls(record, scale, (&domain, step, nearer), exact) } else { trials }
}

fn controls(
    record: &Record,
    scale: &Scale,
    (domain, step, nearer): (&Domain, &Step, Option<Geometry>),
    exact: bool,
) -> Vec<Trial> {
    let measured = Measured::of(record, scale, domain, step);
    let rising = measured.own.iter().filter(|(_, time)| measured.rises(**time, step, nearer));
    let own = |of: &&Arrangement| domain.arrange(of.groups, domain.period(**of), nearer) == **of;
    let mut rising: Vec<Arrangement> = rising.map(|(of, _)| of).filter(own).copied().collect();
    rising.sort_by_key(|of| (of.period, of.groups));
    let controls: Vec<Arrangement> = rising.into_iter().map(|of| control(scale, domain, of)).collect();
    let pages = super::pages(scale);
    scan::missing_trials(record, scale, &Domain { pages, ..*domain }, step, exact, controls)
}

/// Returns the next trials: TLBs nearest first, then huge pages.
pub(crate) fn next_trials(record: &Record, scale: &Scale, curves: &Curves, budget: &Budget) -> Vec<Trial> {
    let mut nearer = None;
    for step in curves.tlbs(scale) {
        let tlb = read(record, scale, &step, nearer);
        let trials = scan(record, scale, &tlb, (&step, nearer), budget.exact);
        if !trials.is_empty() {
            return trials;
        }
        let Verdict::One(one) = tlb.verdict else { break };
        nearer = Some(one);
    }
    huge::next_trials(record, scale, curves, budget)
}

/// Adds the findings of TLBs: reach and geometry.
pub(crate) fn rows(record: &Record, scale: &Scale, curves: &Curves, levels: &[Level], report: &mut Report) {
    latency_curve::tlb_rows(curves, scale, report);
    let mut nearer = None;
    let mut known = true;
    for (index, step) in curves.tlbs(scale).iter().enumerate() {
        let n = index + 1;
        if !known {
            let reason = "associativity of a nearer TLB is unknown, so accesses that reach this TLB cannot be selected";
            refuse(report, n, reason.into(), String::new());
            continue;
        }
        let tlb = read(record, scale, step, nearer);
        let one = if let Verdict::One(one) = tlb.verdict { Some(one) } else { None };
        let objection = |one| page_tables(scale, one, levels).or_else(|| another_reach(scale, one, step));
        if let Some(reason) = one.and_then(objection) {
            refuse(report, n, reason, String::new());
            known = false;
        } else if let Some(one) = one {
            decided(record, scale, n, (&tlb, one), report);
            nearer = Some(one);
        } else {
            undecided(scale, (n, step), &tlb, report);
            known = false;
        }
    }
    huge::rows(record, scale, curves, report);
}

/// Returns a reason if the conflicts may be due to page tables leaving a cache, not to a TLB: pages conflict like their
/// descriptors do there.
fn page_tables(scale: &Scale, one: Geometry, levels: &[Level]) -> Option<String> {
    let bytes = one.way_bytes / scale.base * DESCRIPTOR;
    let same = |level: &Level| level.geometry().is_some_and(|g| (g.ways, g.way_bytes) == (one.ways, bytes));
    let at = levels.iter().position(same)?;
    Some(format!("pages conflict like their descriptors in cache level {}: this may not be a TLB", at + 1))
}

/// Relative error of a reach in addition to its interval: one and a half points of the pairs.
const REACH_ERROR: f64 = 0.01;

/// Returns a reason to reject ways and sets that explain every conflict: their number of entries differs from the
/// number of pages that translate without a rise. Only small odd numbers of sets are candidates, so other numbers may
/// look like one of them.
fn another_reach(scale: &Scale, one: Geometry, step: &Step) -> Option<String> {
    let (sets, all) = (one.way_bytes / scale.base, one.bytes() / scale.base);
    let reach = step.capacity.scaled(1.0 / scale.base as f64);
    let within = reach.low.floor() * (1.0 - REACH_ERROR)..=reach.high.ceil() * (1.0 + REACH_ERROR);
    (!within.contains(&(all as f64))).then(|| {
        format!(
            "{} ways of {sets} sets explain the conflicts, but have {all} entries, while {:.0} pages translate without a rise",
            one.ways, reach.value
        )
    })
}

fn refuse(report: &mut Report, n: usize, reason: String, remedy: String) {
    report.refusals.push(Refused { what: metrics::TLB_WAYS.at([n.into()]).name(), reason, remedy });
}

/// Returns the trials that the conflicts of a TLB are derived from.
fn trials(record: &Record, tlb: &Tlb) -> Vec<u64> {
    let of = |trial: &Trial| {
        let cells = (Arrangement::of(trial), trial.memory.page == Pages::Huge);
        let same = |c: &&Conflict| {
            let Conflict { groups, group, stride: step, period, .. } = **c;
            cells == (Arrangement { groups, group, stride: step, period }, false)
        };
        trial.pattern.groups().offset == 0 && tlb.conflicts.iter().any(|c| same(&c))
    };
    record.of(PatternKind::Conflict).filter(|run| of(&run.trial)).map(|run| run.trial.id).collect()
}

fn decided(record: &Record, scale: &Scale, n: usize, (tlb, one): (&Tlb, Geometry), report: &mut Report) {
    let page = size(scale.base as f64);
    let sets = one.way_bytes / scale.base;
    let trials = trials(record, tlb);
    let mut row = number(metrics::TLB_WAYS.at([n.into()]), one.ways as f64, "");
    row.basis = Basis::Fitted;
    (row.count, row.trials) = (tlb.conflicts.len() as u64, trials.clone());
    row.notes.push(format!("base pages of {page}, in groups one period apart"));
    // The shortest period that is long enough for the nearer TLB.
    let periods = tlb.conflicts.iter().map(|c| nominal(&tlb.domain, c));
    let own = periods.filter(|period| period.is_multiple_of(one.way_bytes)).min();
    row.notes.extend(own.and_then(|period| rise_text(scale, tlb, period)));
    let mut other = number(metrics::TLB_SETS.at([n.into()]), sets as f64, "");
    other.basis = Basis::Fitted;
    (other.count, other.trials) = (row.count, trials);
    if sets == 1 {
        row.notes.push("fully associative".into());
        other.notes.push("fully associative".into());
    }
    report.findings.extend([row, other]);
}

fn nominal(domain: &Domain, of: &Conflict) -> u64 {
    let Conflict { groups, group, stride: step, period, .. } = *of;
    domain.period(Arrangement { groups, group, stride: step, period })
}

/// Returns how many pages at a period translate without a rise.
fn rise_text(scale: &Scale, tlb: &Tlb, period: u64) -> Option<String> {
    let mut at: Vec<&Conflict> = tlb.conflicts.iter().filter(|c| nominal(&tlb.domain, c) == period).collect();
    at.sort_by_key(|c| c.groups);
    let pages = period / scale.base;
    let what = |c: &Conflict| {
        let each = if c.group > 1 { format!("groups of {} pages", c.group) } else { "pages".into() };
        format!("{} {each}", c.groups)
    };
    let apart = if pages == 1 { "adjacent".into() } else { format!("{pages} pages apart") };
    let first = at.iter().position(|c| c.share > 2.0 * c.error);
    Some(match first {
        Some(0) | None => {
            format!("up to {}, {apart}, translate without a rise", what(at.last()?))
        }
        Some(rise) => {
            format!("{}, {apart}, translate without a rise, {} do not", what(at[rise - 1]), what(at[rise]))
        }
    })
    .filter(|_| first != Some(0))
}

fn undecided(scale: &Scale, (n, step): (usize, &Step), tlb: &Tlb, report: &mut Report) {
    // The shortest period of at least half the capacity: there pages conflict first, for any number of sets.
    let periods = tlb.conflicts.iter().map(|c| nominal(&tlb.domain, c));
    let long = periods.filter(|&period| 2.0 * period as f64 >= step.capacity.value).min();
    let seen = long.and_then(|period| rise_text(scale, tlb, period));
    let (reason, remedy) = why_unknown(scale, step, &tlb.verdict);
    let reason = seen.map_or_else(|| reason.clone(), |seen| format!("{reason}; {seen}"));
    refuse(report, n, reason, remedy.into());
}

/// Returns why a TLB's sets are unknown, and a remedy.
fn why_unknown(scale: &Scale, step: &Step, verdict: &Verdict) -> (String, &'static str) {
    match verdict {
        Verdict::Several(several) => {
            let one = |g: &Geometry| format!("{} ways of {} entries", g.ways, g.way_bytes / scale.base);
            let shown: Vec<String> = several.iter().take(MAX_SHOWN).map(one).collect();
            let more = several.len().saturating_sub(MAX_SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            (format!("several geometries explain the conflicts: {}{more}", shown.join(", ")), "give it a larger --budget")
        }
        Verdict::NoModulo => (
            format!(
                "pages one period apart do not conflict: it is fully associative with more than {} entries, or its \
                 index is not a simple modulo, or another TLB masks it",
                sets::MAX_WAYS
            ),
            "",
        ),
        Verdict::None => (
            "no number of sets and ways explains the conflicts: it is fully associative with many entries, or another TLB masks it".into(),
            "",
        ),
        Verdict::Insufficient | Verdict::One(_) => (
            format!(
                "too few measurements, or the nearer TLB may hide it: a miss adds {:.1} ns, the clock's resolution is {:.1} ns",
                step.next - step.here,
                scale.resolution * scale.tick_ns
            ),
            "give it a larger --budget",
        ),
    }
}

/// Number of geometries that are listed.
const MAX_SHOWN: usize = 4;

#[cfg(test)]
mod tests {
    use fathom_analysis::interval::Interval;

    use super::*;

    /// Seen on a described machine of 190 sets and two ways, whose pairs begin to rise at 378 to 382 pages.
    #[test]
    fn geometry_has_the_reach_of_its_pairs_to_the_page() {
        let of = |pages: u64| pages as f64 * 4096.0;
        let capacity = Interval { value: of(380), low: of(378), high: of(382) };
        let step = Step { capacity, here: 1.0, next: 5.0, in_pieces: false };
        let has = |sets: u64| has_reach(Geometry { ways: 2, way_bytes: 4096 * sets }, &step, 4096);
        assert!(has(190) && has(191));
        assert!(!has(192) && !has(188));
    }
}
