//! TLBs: sets and ways by conflicts of pages, and the curve of huge pages.
//!
//! The scan of [`super::scan`], with a page for a line. Cells lie a number of pages apart, and each a little farther
//! into its page than the last, so that they spread over the sets of the caches. What is no translation is taken off
//! by a twin: the same cells in huge pages, of which a few hold them all; where there are none, or too many would be
//! needed, equally many lines packed.

pub(crate) mod huge;

use fathom_analysis::findings::{Basis, Refused, Report};
use fathom_analysis::metrics::survey as metrics;
use fathom_analysis::sets::{self, Conflict, Geometry, Verdict};
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{PatternKind, Trial};
use fathom_units::facts;
use fathom_units::size;

use super::scan::{self, Arrangement, Domain, Times};
use super::{Level, Step};
use crate::budget::Budget;
use crate::latency_curve::{self, Curves};
use crate::reading::number;
use crate::record::Record;
use crate::scale::Scale;

/// Cells that keep the nearer TLB busy for every group, at most: a nearer one without sets has up to 64 entries, and
/// random replacement lets some loads hit until twice as many are in use.
const MAX_GROUP: u64 = 128;
/// Bytes between the first and the last cell, at most, in capacities: ways + 1 groups at twice the length of a way are
/// three of them or less.
const SCAN_RATIO: f64 = 6.0;
/// The same where that is less, bytes: memory is no matter then.
const SPAN_BYTES: u64 = 16 << 20;
/// Twins lie in so many huge pages at most: the smallest first-level TLB known has 8 entries.
const TWIN_PAGES: u64 = 8;
/// What each cell is moved on by, bytes: the commonest line.
const CONTROL_OFFSET: u64 = sets::MIN_SEPARATION;
/// Steps of the clock over what misses add: a fully associative TLB of 64 entries misses in 2 of 65 loads under random
/// replacement, of which a third must be seen.
const CLOCK_SHARE: f64 = 0.003;

/// Pages as what conflicts.
fn domain(record: &Record, scale: &Scale, step: &Step) -> Domain {
    let mappable = record.int(facts::MEMORY_MAPPABLE_BASE_BYTES);
    let mappable = mappable.or_else(|| record.int(facts::MEMORY_CEILING_BYTES).map(|bytes| bytes / 2));
    let span = ((SCAN_RATIO * step.capacity.value) as u64).clamp(SPAN_BYTES, scan::MAX_SPAN);
    Domain {
        grain: scale.base,
        pages: (Pages::Base, scale.base),
        apart: CONTROL_OFFSET,
        periods: (scale.base, scan::MAX_SPAN),
        span: span.min(mappable.unwrap_or(span)),
        most_group: MAX_GROUP,
        clock_share: CLOCK_SHARE,
    }
}

/// What takes as long but for translation: the same cells in huge pages, groups so near each other that a few of
/// these hold them all; else equally many lines packed.
fn control(scale: &Scale, domain: &Domain, of: Arrangement) -> Arrangement {
    let huge = scale.huge.unwrap_or(0);
    let mut period = domain.period(of);
    let drift = of.period - period;
    let too_far = |period: u64| of.groups.saturating_mul(period + drift) > TWIN_PAGES * huge;
    // Groups stay whole pages apart: what cells share a set of a first-level cache does not change.
    while too_far(period) && period / 2 >= of.group * of.stride && (period / 2).is_multiple_of(domain.grain) {
        period /= 2;
    }
    if !too_far(period) {
        return Arrangement { period: period + drift, ..of };
    }
    // The step of a group of one cell places nothing; this one tells these trials from those of a cache's scan.
    Arrangement { groups: of.cells(), group: 1, stride: 2 * CONTROL_OFFSET, period: CONTROL_OFFSET }
}

/// Every time that the conflicts of a TLB rest on, ns.
struct Measured {
    own: Times,
    controls: Times,
    /// A line on a page, both of which are at hand.
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

    /// Does it take longer than what the nearer TLB's misses explain? Only then a twin is asked: it can but take
    /// something off.
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

/// What is known of a TLB.
struct Tlb {
    /// What the conflicts leave.
    left: Verdict,
    /// The same, confirmed.
    verdict: Verdict,
    conflicts: Vec<Conflict>,
    domain: Domain,
}

fn read(record: &Record, scale: &Scale, step: &Step, nearer: Option<Geometry>) -> Tlb {
    let domain = domain(record, scale, step);
    let conflicts = Measured::of(record, scale, &domain, step).conflicts(scale, &domain, step, nearer);
    let left = sets::read(&conflicts, &scan::question(&domain, step, nearer));
    let verdict = match left {
        Verdict::One(one) => match confirmed(&domain, &conflicts, one, nearer) {
            Some(true) => Verdict::One(one),
            Some(false) => Verdict::None,
            None => Verdict::Insufficient,
        },
        ref other => other.clone(),
    };
    Tlb { left, verdict, conflicts, domain }
}

/// Do pages at the length of one's way conflict as they should: not as many as it has ways, but one more and twice as
/// many? Large TLBs without sets and some odd numbers of sets are no candidates, and another may explain by chance
/// what they do. `None` where it was not measured, or where the nearer TLB may hold one more.
fn confirmed(
    domain: &Domain,
    conflicts: &[Conflict],
    one: Geometry,
    nearer: Option<Geometry>,
) -> Option<bool> {
    let reported = |groups: u64| {
        let same = |of: &&Arrangement| of.groups == groups;
        let of = scan::informative(domain, &[one], nearer).into_iter().find(|of| same(&of))?;
        let at =
            conflicts.iter().find(|c| (c.groups, c.group, c.period) == (of.groups, of.group, of.period))?;
        Some((at.share > 2.0 * at.error, at.cells()))
    };
    let (fits, over, far) = (reported(one.ways)?, reported(one.ways + 1)?, reported(2 * one.ways)?);
    // What the nearer TLB may hide was not seen, and confirms nothing.
    let hidden = nearer.is_some_and(|nearer| over.1 <= 2 * nearer.bytes() / domain.grain);
    if hidden && !over.0 {
        return None;
    }
    Some(!fits.0 && over.0 && far.0)
}

/// The trials of a TLB that are wanted next; none when nothing more can be told.
fn scan(record: &Record, scale: &Scale, step: &Step, nearer: Option<Geometry>, modelled: bool) -> Vec<Trial> {
    let tlb = read(record, scale, step, nearer);
    let domain = tlb.domain;
    let mut all = scan::scan(&domain, step, nearer);
    match &tlb.left {
        Verdict::Several(several) => all.extend(scan::informative(&domain, several, nearer)),
        Verdict::One(one) => all.extend(scan::informative(&domain, &[*one], nearer)),
        _ => {}
    }
    let mut seen = Vec::new();
    all.retain(|of| {
        !seen.contains(of) && {
            seen.push(*of);
            true
        }
    });
    let wanted = scan::unrequested(record, scale, &domain, step, modelled, all);
    if wanted.is_empty() { controls(record, scale, (&domain, step, nearer), modelled) } else { wanted }
}

fn controls(
    record: &Record,
    scale: &Scale,
    (domain, step, nearer): (&Domain, &Step, Option<Geometry>),
    modelled: bool,
) -> Vec<Trial> {
    let measured = Measured::of(record, scale, domain, step);
    let rising = measured.own.iter().filter(|(_, time)| measured.rises(**time, step, nearer));
    let own = |of: &&Arrangement| domain.arrange(of.groups, domain.period(**of), nearer) == **of;
    let mut rising: Vec<Arrangement> = rising.map(|(of, _)| of).filter(own).copied().collect();
    rising.sort_by_key(|of| (of.period, of.groups));
    let controls: Vec<Arrangement> = rising.into_iter().map(|of| control(scale, domain, of)).collect();
    let pages = super::pages(scale);
    scan::unrequested(record, scale, &Domain { pages, ..*domain }, step, modelled, controls)
}

/// The trials that are wanted next: TLBs nearest first, then huge pages.
pub(crate) fn wanted(record: &Record, scale: &Scale, curves: &Curves, budget: &Budget) -> Vec<Trial> {
    let mut nearer = None;
    for step in curves.tlbs(scale) {
        let wanted = scan(record, scale, &step, nearer, budget.modelled);
        if !wanted.is_empty() {
            return wanted;
        }
        let Verdict::One(one) = read(record, scale, &step, nearer).verdict else { break };
        nearer = Some(one);
    }
    huge::wanted(record, scale, curves, budget)
}

/// The rows of TLBs: what the pairs show, and how each is built.
pub(crate) fn rows(record: &Record, scale: &Scale, curves: &Curves, levels: &[Level], report: &mut Report) {
    latency_curve::tlb_rows(curves, scale, report);
    let mut nearer = None;
    let mut known = true;
    for (index, step) in curves.tlbs(scale).iter().enumerate() {
        let n = index + 1;
        if !known {
            let reason = "a nearer TLB's ways are not known, and what hits there never arrives here";
            refuse(report, n, reason.into(), String::new());
            continue;
        }
        let tlb = read(record, scale, step, nearer);
        let one = if let Verdict::One(one) = tlb.verdict { Some(one) } else { None };
        let doubt = |one| page_tables(scale, one, levels).or_else(|| another_reach(scale, one, step));
        if let Some(reason) = one.and_then(doubt) {
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

/// Bytes of a page's descriptor in the tables of every 64-bit architecture.
const DESCRIPTOR: u64 = 8;

/// Why what conflicts may be page tables that leave a cache, and no TLB: pages conflict as their descriptors do there.
fn page_tables(scale: &Scale, one: Geometry, levels: &[Level]) -> Option<String> {
    let bytes = one.way_bytes / scale.base * DESCRIPTOR;
    let alike = |level: &Level| level.geometry().is_some_and(|g| (g.ways, g.way_bytes) == (one.ways, bytes));
    let at = levels.iter().position(alike)?;
    Some(format!("pages conflict as their descriptors do in cache {}: it may be no TLB", at + 1))
}

/// What a reach may be off by beyond its interval, relative: a point of the pairs and a half.
const REACH_ERROR: f64 = 0.01;

/// Why ways and sets that explain every conflict are not believed: they hold another number of entries than pages
/// translate without a rise. Of odd numbers of sets only small ones are asked about, so what is none of those may look
/// like one.
fn another_reach(scale: &Scale, one: Geometry, step: &Step) -> Option<String> {
    let (sets, all) = (one.way_bytes / scale.base, one.bytes() / scale.base);
    let reach = step.capacity.scaled(1.0 / scale.base as f64);
    let within = reach.low.floor() * (1.0 - REACH_ERROR)..=reach.high.ceil() * (1.0 + REACH_ERROR);
    (!within.contains(&(all as f64))).then(|| {
        format!(
            "{} ways of {sets} sets explain what conflicts, but are {all} entries, and {:.0} pages translate without a rise",
            one.ways, reach.value
        )
    })
}

fn refuse(report: &mut Report, n: usize, reason: String, remedy: String) {
    report.refusals.push(Refused { what: metrics::TLB_WAYS.at([n.into()]).name(), reason, remedy });
}

/// Trials that the conflicts of a TLB rest on.
fn trials(record: &Record, tlb: &Tlb) -> Vec<u64> {
    let of = |trial: &Trial| {
        let cells = (Arrangement::of(trial), trial.memory.page);
        let same = |c: &&Conflict| {
            let Conflict { groups, group, stride: step, period, .. } = **c;
            cells == (Arrangement { groups, group, stride: step, period }, Pages::Base)
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
    row.notes.push(format!("base pages of {page}, groups of them a period apart"));
    // A period that is long enough for the nearer TLB.
    let periods = tlb.conflicts.iter().map(|c| nominal(&tlb.domain, c));
    let own = periods.filter(|period| period.is_multiple_of(one.way_bytes)).min();
    row.notes.extend(own.and_then(|period| apart(scale, tlb, period)));
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

/// How many pages a period apart translate without a rise.
fn apart(scale: &Scale, tlb: &Tlb, period: u64) -> Option<String> {
    let mut at: Vec<&Conflict> = tlb.conflicts.iter().filter(|c| nominal(&tlb.domain, c) == period).collect();
    at.sort_by_key(|c| c.groups);
    let pages = period / scale.base;
    let what = |c: &Conflict| {
        let each = if c.group > 1 { format!("groups of {} pages", c.group) } else { "pages".into() };
        format!("{} {each}", c.groups)
    };
    let apart = if pages == 1 { "side by side".into() } else { format!("{pages} pages apart") };
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
    // Of the periods as long as half of it and more, where pages of any number of sets meet soonest, the shortest.
    let periods = tlb.conflicts.iter().map(|c| nominal(&tlb.domain, c));
    let long = periods.filter(|&period| 2.0 * period as f64 >= step.capacity.value).min();
    let seen = long.and_then(|period| apart(scale, tlb, period));
    let (reason, remedy) = why_not(scale, step, &tlb.verdict);
    let reason = seen.map_or_else(|| reason.clone(), |seen| format!("{reason}; {seen}"));
    refuse(report, n, reason, remedy.into());
}

/// Why a TLB's sets are not told, and what would help.
fn why_not(scale: &Scale, step: &Step, verdict: &Verdict) -> (String, &'static str) {
    match verdict {
        Verdict::Several(several) => {
            let one = |g: &Geometry| format!("{} ways of {} entries", g.ways, g.way_bytes / scale.base);
            let shown: Vec<String> = several.iter().take(SHOWN).map(one).collect();
            let more = several.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            (format!("several explain what conflicts: {}{more}", shown.join(", ")), "a larger --budget")
        }
        Verdict::NoModulo => (
            format!(
                "pages a period apart do not conflict: it is fully associative with more than {} entries, or its \
                 index is none by modulo, or another TLB hides it",
                sets::MAX_WAYS
            ),
            "",
        ),
        Verdict::None => (
            "no number of sets and ways explains which pages conflict: it is fully associative with many entries, or another TLB answers for it".into(),
            "",
        ),
        Verdict::Insufficient | Verdict::One(_) => (
            format!(
                "too little was measured, or the nearer TLB may hide it: a miss adds {:.1} ns, a step of the clock is {:.1} ns",
                step.next - step.here,
                scale.resolution * scale.tick_ns
            ),
            "a larger --budget",
        ),
    }
}

/// Geometries that are listed.
const SHOWN: usize = 4;
