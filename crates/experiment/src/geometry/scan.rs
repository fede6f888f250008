//! The scan of a level: conflicts at many periods, from which sets and ways are derived.

use std::collections::HashMap;

use fathom_analysis::interval::median;
use fathom_analysis::sets::{self, Conflict, Geometry, SetConstraints, Verdict};
use fathom_probe::pattern::{PatternKind, Trial};

use super::arrangement::{Arrangement, Domain, informative, multiples};
use super::{Step, confirmation};
use crate::record::{Record, TrialRun};
use crate::scale::Scale;

/// All numbers of groups up to this one are tested: the ways of nearly every cache.
const ALL_GROUPS: u64 = 24;
/// Largest number of groups.
const MAX_GROUPS: u64 = 72;
/// Relative error of a latency curve's capacity on a machine without other users, in adjacent frames, beyond the interval of the capacity: rounding. Of 497 levels of described machines
/// (wide generator, clean) whose ways were found, all right ones without exclusive levels are within it; 7 ways of 6.5 KiB for 4 of 11.5 were 0.5 % below.
const FULL_ERROR: f64 = 0.002;
/// Relative error of the time of a hit.
const HIT_ERROR: f64 = 0.003;
/// Error of a share of misses in addition to that of its ends.
const SHARE_ERROR: f64 = 0.008;
/// Relative distance from a tier's time within which a time counts as that tier's.
const TIER_TOLERANCE: f64 = 0.04;

/// Returns every arrangement of a level's scan. Periods are powers of two, from one at which a cache of that capacity
/// holds about thirty cells, to twice the capacity, at which no cache holds more than its ways.
pub(super) fn scan(domain: &Domain, step: &Step, nearer: Option<Geometry>) -> Vec<Arrangement> {
    let capacity = step.capacity.value.clamp(1.0, 1e12) as u64;
    let longest = domain.periods.1.min(2 * capacity.next_power_of_two());
    let shortest = nearer.map_or(domain.periods.0, |n| n.way_bytes.next_power_of_two());
    let mut period = (capacity / 32).next_power_of_two().max(shortest).min(longest);
    let mut all = Vec::new();
    while period <= longest {
        let max_groups = (23 * capacity / period / 10 + 2).clamp(ALL_GROUPS, MAX_GROUPS);
        let groups = (1..=ALL_GROUPS).chain((ALL_GROUPS + 1..=max_groups).step_by(3));
        all.extend(groups.map(|groups| domain.arrange(groups, period, nearer)));
        period *= 2;
    }
    all.retain(|a| a.groups * a.period <= domain.span);
    all
}

/// The scan of one level: its conflicts so far, and the geometries that they allow. The geometries are computed once,
/// because every round of a plan needs them more than once.
pub(crate) struct Scan<'a> {
    record: &'a Record,
    scale: &'a Scale,
    step: &'a Step,
    nearer: Option<Geometry>,
    domain: Domain,
    measured: Measured,
    /// The geometries that the conflicts allow.
    left: Verdict,
    /// Whether none of the arrangements that tell the only one of them from others contradicts it.
    confirmed: bool,
}

impl<'a> Scan<'a> {
    /// Returns the scan of a level, behind a nearer cache if there is one.
    pub(crate) fn of(
        record: &'a Record,
        scale: &'a Scale,
        step: &'a Step,
        nearer: Option<Geometry>,
    ) -> Scan<'a> {
        let domain = Domain::lines(scale, step);
        let measured = Measured::of(record, scale, &domain, step);
        let untranslated = |of: &Arrangement, time: f64| measured.untranslated(&domain, of, time);
        let conflicts =
            conflicts(&measured.times, untranslated, scale, &domain, (step, measured.hit), nearer);
        let constraints = constraints(&domain, step, nearer, !scale.is_hardware());
        let left = sets::read(&conflicts, &constraints);
        let confirmed = match left {
            Verdict::One(one) => confirmation::of_lines(&domain, &conflicts, &constraints, one),
            _ => true,
        };
        Scan { record, scale, step, nearer, domain, measured, left, confirmed }
    }

    /// Returns the next trials of the level; empty if its scan is complete.
    pub(crate) fn next_trials(&self, exact: bool) -> Vec<Trial> {
        let Scan { record, scale, step, nearer, ref domain, .. } = *self;
        let page_bytes = domain.pages.1;
        let mut all = scan(domain, step, nearer);
        all.extend(informative(domain, self.left.candidates(), nearer));
        all.extend(multiples(domain, self.left.candidates(), nearer));
        all.retain(|a| !a.translates(page_bytes) || control_hits(a, domain, step, nearer));
        all.extend(
            all.iter().filter(|a| a.translates(page_bytes)).map(|a| a.control(domain)).collect::<Vec<_>>(),
        );
        let trials = missing_trials(record, scale, domain, step, exact, all);
        if !trials.is_empty() {
            return trials;
        }
        let Some(of) = contiguous(&self.left, scale, domain, step, nearer) else { return Vec::new() };
        let control = of.translates(page_bytes).then(|| of.control(domain));
        let mut trials = missing_trials(record, scale, domain, step, exact, control.into_iter().collect());
        let had = record.trials.iter().filter(|run| self.is_of(run, of)).count();
        trials.extend((had as u64..PLACEMENTS).map(|nth| of.trial(scale, domain, step, exact, nth)));
        trials
    }

    /// Returns the verdict on the level's sets and ways. Part of a scan without conflicts shows no hashed index.
    pub(crate) fn verdict(&self) -> Verdict {
        let Scan { scale, step, ref domain, ref left, .. } = *self;
        if !self.confirmed {
            return Verdict::None;
        }
        if *left == Verdict::NoModulo && !self.next_trials(!scale.is_hardware()).is_empty() {
            return Verdict::Insufficient;
        }
        let Some(of) = contiguous(left, scale, domain, step, self.nearer) else { return left.clone() };
        let runs = self.record.of(PatternKind::Conflict).filter(|run| self.is_of(run, of));
        let shares: Vec<f64> = runs
            .filter_map(|run| self.measured.untranslated(domain, &of, median(&scale.steady(run))?))
            .map(|time| (time - step.here) / (step.next - step.here))
            .collect();
        match shares.iter().all(|share| *share > MIN_CONFLICT_SHARE) {
            _ if (shares.len() as u64) < PLACEMENTS => Verdict::Insufficient,
            true => left.clone(),
            false => Verdict::None,
        }
    }

    /// Returns whether a trial has this arrangement.
    fn is_of(&self, run: &TrialRun, of: Arrangement) -> bool {
        self.domain.contains(&run.trial) && Arrangement::of(&run.trial) == of
    }
}

/// Returns whether a control's cells all hit in the nearest level, regardless of their positions.
fn control_hits(of: &Arrangement, domain: &Domain, step: &Step, nearer: Option<Geometry>) -> bool {
    let fit = nearer.map_or(step.capacity.value, |nearest| nearest.bytes() as f64);
    (of.cells() * 2 * domain.control_offset) as f64 <= fit
}

/// Placements of one arrangement that show whether pages are contiguous in physical memory.
const PLACEMENTS: u64 = 6;
/// Minimum share of misses of twice as many lines as ways in one set, under any policy. The optimal policy (Belady)
/// misses in ways of 2 ways - 1; less a tenth for errors of times.
const MIN_CONFLICT_SHARE: f64 = 0.45;

/// Returns the arrangement that tests whether pages are contiguous, needed if a way is longer than a page: twice as
/// many lines as ways at the length of a way. At any position, they all miss only if their pages are contiguous. `None`
/// if the test is not needed or not possible.
fn contiguous(
    left: &Verdict,
    scale: &Scale,
    domain: &Domain,
    step: &Step,
    nearer: Option<Geometry>,
) -> Option<Arrangement> {
    let Verdict::One(one) = left else { return None };
    let needed = scale.huge.is_none() && one.way_bytes > scale.base;
    let of = informative(domain, &[*one], nearer).pop().filter(|_| needed)?;
    (of.groups == 2 * one.ways && (!of.translates(domain.pages.1) || control_hits(&of, domain, step, nearer)))
        .then_some(of)
}

/// Returns the trials that are missing from the arrangements.
pub(super) fn missing_trials(
    record: &Record,
    scale: &Scale,
    domain: &Domain,
    step: &Step,
    exact: bool,
    all: Vec<Arrangement>,
) -> Vec<Trial> {
    // Refused trials count too, so that they are not repeated forever.
    let mut had: HashMap<Arrangement, u64> = HashMap::new();
    for run in record.trials.iter().filter(|r| domain.contains(&r.trial)) {
        *had.entry(Arrangement::of(&run.trial)).or_default() += 1;
    }
    let times = if exact { 1 } else { 2 };
    let mut trials = Vec::new();
    for a in all {
        let have = had.entry(a).or_default();
        while *have < times {
            trials.push(a.trial(scale, domain, step, exact, *have));
            *have += 1;
        }
    }
    trials
}

/// The times that a level's conflicts are derived from.
struct Measured {
    times: Times,
    /// Time of a single line, which hits in the nearest level, ns.
    hit: f64,
}

impl Measured {
    fn of(record: &Record, scale: &Scale, domain: &Domain, step: &Step) -> Measured {
        let times = times(record, scale, domain);
        let hit = alone(&times).unwrap_or(step.here);
        Measured { times, hit }
    }

    /// Returns a time less its translation, ns; `None` without a control.
    fn untranslated(&self, domain: &Domain, of: &Arrangement, time: f64) -> Option<f64> {
        if !of.translates(domain.pages.1) {
            return Some(time);
        }
        Some(time - (self.times.get(&of.control(domain))? - self.hit).max(0.0))
    }
}

/// Returns the constraints for the fit of sets and ways. Of a machine without other users, `exact`, a cache is full at its size.
pub(super) fn constraints(
    domain: &Domain,
    step: &Step,
    nearer: Option<Geometry>,
    exact: bool,
) -> SetConstraints {
    let capacity = step.capacity;
    let off = (capacity.high - capacity.low).max(domain.capacity_error * capacity.value);
    let full = exact.then_some((capacity.low * (1.0 - FULL_ERROR), capacity.high * (1.0 + FULL_ERROR)));
    SetConstraints { grain: domain.grain, capacity: (capacity.value, off), full, nearer }
}

/// Times per load of every measured arrangement, ns.
pub(super) type Times = HashMap<Arrangement, f64>;

pub(super) fn times(record: &Record, scale: &Scale, domain: &Domain) -> Times {
    let mut times = Times::new();
    for run in record.of(PatternKind::Conflict).filter(|r| domain.contains(&r.trial)) {
        let Some(time) = median(&scale.steady(run)) else { continue };
        // The minimum: other users of a cache only add time.
        times.entry(Arrangement::of(&run.trial)).and_modify(|t| *t = t.min(time)).or_insert(time);
    }
    times
}

/// Returns the time of a single cell, ns.
pub(super) fn alone(times: &Times) -> Option<f64> {
    median(&times.iter().filter(|(a, _)| a.cells() == 1).map(|(_, time)| *time).collect::<Vec<_>>())
}

/// Returns the conflicts of a level, with the share of their loads that missed. `less` subtracts time that is not due
/// to this level; `hit` is the time of a load that the nearest level serves, ns.
pub(super) fn conflicts(
    times: &Times,
    less: impl Fn(&Arrangement, f64) -> Option<f64>,
    scale: &Scale,
    domain: &Domain,
    (step, hit): (&Step, f64),
    nearer: Option<Geometry>,
) -> Vec<Conflict> {
    let mut own: Vec<(Arrangement, f64)> = times
        .iter()
        .filter(|(a, _)| **a == domain.arrange(a.groups, domain.period(**a), nearer))
        .filter_map(|(a, time)| Some((*a, less(a, *time)?)))
        .collect();
    own.sort_by_key(|(a, _)| (a.period, a.groups));
    let base = if nearer.is_none() { (hit, HIT_ERROR) } else { base(&own, step) };
    let rise = step.next - base.0;
    if rise <= 0.0 {
        return Vec::new();
    }
    // `share` is 0 on a model.
    let neighbours = if scale.share > 0.0 { SHARE_ERROR } else { 0.0 };
    let error = neighbours + domain.clock_share + base.1 * base.0 / rise;
    let one = |(a, time): &(Arrangement, f64)| Conflict {
        groups: a.groups,
        group: a.group,
        stride: a.stride,
        period: a.period,
        share: (time - base.0) / rise,
        error,
    };
    own.iter().map(one).collect()
}

/// Returns the time of loads that the level serves, ns, and its error: the median of all times close to the tier's,
/// else the tier's.
fn base(own: &[(Arrangement, f64)], step: &Step) -> (f64, f64) {
    let near = |time: &f64| (time / step.here - 1.0).abs() < TIER_TOLERANCE;
    let times: Vec<f64> = own.iter().map(|(_, time)| *time).filter(near).collect();
    match median(&times) {
        Some(base) if times.len() >= 6 => (base, 1.5 * HIT_ERROR),
        _ => (step.here, 5.0 * HIT_ERROR),
    }
}
