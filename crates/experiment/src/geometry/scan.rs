//! The scan of a level: conflicts at many periods, and what they say of its sets and ways.

use std::collections::HashMap;

use fathom_analysis::interval::median;
use fathom_analysis::sets::{self, Conflict, Geometry, MIN_SEPARATION, SetConstraints, Verdict};
use fathom_probe::machine::{COLOUR_SPAN, Pages};
use fathom_probe::pattern::{self, Groups, Memory, PatternKind, Trial};
use fathom_probe::splitmix::mix;

use super::{Step, pages};
use crate::record::Record;
use crate::scale::Scale;

/// Groups up to this many are all tried: the ways of nearly every cache.
const ALL_GROUPS: u64 = 24;
/// No more groups than this are.
const MAX_GROUPS: u64 = 72;
/// Cells of one trial, at most.
const MAX_CELLS: u64 = 512;
/// Cells that keep the nearer level busy for every group, at most.
const MAX_GROUP: u64 = 32;
/// Bytes between the first and the last cell, at most.
pub(super) const MAX_SPAN: u64 = 512 << 20;
/// The same in pages of chosen colours, of which there are fewer: half of what Fathom's driver holds as it comes.
const COLOURED_SPAN: u64 = 32 << 20;
/// No period is shorter: the longest line known is 128 bytes, adjacent ones are fetched together.
const MIN_PERIOD: u64 = 512;
/// The longest period where there are no huge pages to say how far addresses are known.
const MAX_PERIOD: u64 = 2 << 20;
/// Cells on more pages than this have a twin on as many pages and in other sets: it tells what translation
/// adds. The smallest first-level TLB known has 8 entries.
const UNTRANSLATED: u64 = 4;
/// What a twin's cells are moved apart by.
const CONTROL_OFFSET: u64 = MIN_SEPARATION;
/// What a latency curve's capacity may be off by at least, relative: its onset is found within 6 % on models, and on
/// hardware shared levels keep a part of theirs.
const CAPACITY_ERROR: f64 = 0.12;
/// The same of a latency curve in pages that lie anywhere: with 16 ways of 32 colours each, a level's pages overfill one of
/// them from half of its capacity on (the Poisson distribution).
const SCATTERED_ERROR: f64 = 1.0;
/// What the time of a hit may be off by, relative.
const HIT_ERROR: f64 = 0.003;
/// So many loads are timed that two steps of the clock are no more than this share of what they take longer when
/// they miss: what a sample's two ends may be off by.
const CLOCK_SHARE: f64 = 0.006;
/// A share of misses may be off by this beside what its ends are off by.
const SHARE_ERROR: f64 = 0.008;
/// Times this near to a tier's are its own.
const TIER_TOLERANCE: f64 = 0.04;
/// First cells are at a multiple of this, so that none of the distances of [`super::line`] crosses a line's end
/// by chance.
const ALIGNED: u64 = 256;
/// Places of the first cell in its page: a set that other work needs (the stack, the kernel's own) is met by a
/// few trials only.
const PLACES: u64 = 16;
/// Geometries that are told apart by trials of their own, at most.
const MAX_DISTINGUISHED: usize = 12;

/// Where the first cell of a trial lies in its page, bytes.
pub(crate) fn place(nth: u64) -> u64 {
    mix(nth) % PLACES * ALIGNED
}

/// What cells are told apart by: the line that they lie on, or the page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Domain {
    /// Bytes that lie together in one set whatever the line: [`MIN_SEPARATION`] for lines, a page for pages.
    pub(super) grain: u64,
    /// The pages that cells lie in, and their bytes.
    pub(super) pages: (Pages, u64),
    /// What each cell is moved on by beside its step, bytes: pages lie in sets of a TLB, and their cells must not
    /// meet in those of a cache.
    pub(super) apart: u64,
    /// The shortest period and the longest, bytes.
    pub(super) periods: (u64, u64),
    /// Bytes between the first and the last cell, at most.
    pub(super) span: u64,
    /// Cells that keep the nearer level busy for every group, at most.
    pub(super) most_group: u64,
    /// Steps of the clock over what misses add, at most.
    pub(super) clock_share: f64,
}

impl Domain {
    /// Lines of a cache.
    pub(super) fn lines(scale: &Scale) -> Domain {
        let pages = pages(scale);
        let (longest, span) = match pages.0 {
            Pages::Coloured => (COLOUR_SPAN, COLOURED_SPAN),
            _ => (scale.huge.unwrap_or(MAX_PERIOD), MAX_SPAN),
        };
        Domain {
            grain: MIN_SEPARATION,
            pages,
            apart: 0,
            periods: (MIN_PERIOD, longest),
            span,
            most_group: MAX_GROUP,
            clock_share: CLOCK_SHARE,
        }
    }

    /// `groups` groups at a period. Behind a nearer level a group is as many cells of one of its sets as half a
    /// period has: enough to keep that busy; half, so that a period of two ways is told from one of one.
    pub(super) fn arrange(&self, groups: u64, period: u64, nearer: Option<Geometry>) -> Arrangement {
        let (group, step) = nearer.map_or((1, self.grain), |nearer| {
            let most = self.most_group.min((MAX_CELLS / groups.max(1)).max(1));
            ((period / 2 / nearer.way_bytes).clamp(1, most), nearer.way_bytes)
        });
        let period = period + self.drift(groups, group);
        Arrangement { groups, group, stride: step + self.apart, period }
    }

    /// What a group is moved on by, bytes: past the last one's cells, but so little that all groups' first cells
    /// are within a page's length of their periods.
    fn drift(&self, groups: u64, group: u64) -> u64 {
        let room = self.grain.checked_div(self.apart).unwrap_or(0) / groups.max(1);
        self.apart * room.clamp(1, group.max(1))
    }

    /// The period that an arrangement was made for.
    pub(super) fn period(&self, of: Arrangement) -> u64 {
        of.period.saturating_sub(self.drift(of.groups, of.group))
    }

    /// Is this a trial of the domain?
    fn has(&self, trial: &Trial) -> bool {
        // Which page a cell lies in must not depend on where in its page the first one does.
        // What counts refills asks other questions, later.
        trial.kind() == PatternKind::Conflict
            && trial.counted == 0
            && trial.memory.page == self.pages.0
            && (self.apart == 0 || trial.pattern.groups().offset == 0)
    }
}

/// An arrangement of cells: (groups, group, step, period).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Arrangement {
    pub(super) groups: u64,
    pub(super) group: u64,
    pub(super) stride: u64,
    pub(super) period: u64,
}

impl Arrangement {
    /// The same number of cells on as many pages, in other sets.
    fn control(self) -> Arrangement {
        Arrangement {
            stride: self.stride + CONTROL_OFFSET,
            period: self.period + CONTROL_OFFSET * self.group,
            ..self
        }
    }

    /// Does a lap go through more pages than any TLB holds?
    fn translates(self, page: u64) -> bool {
        let pages = match (self.stride >= page, self.period >= page) {
            (true, _) => self.cells(),
            (false, true) => self.groups,
            (false, false) => self.groups * self.period / page + 1,
        };
        pages > UNTRANSLATED
    }

    pub(super) fn of(trial: &Trial) -> Arrangement {
        let Groups { period, group, .. } = trial.pattern.groups();
        let group = group.max(1);
        Arrangement { groups: trial.memory.cells() / group, group, stride: trial.memory.stride, period }
    }

    pub(super) fn cells(self) -> u64 {
        self.groups * self.group
    }

    /// Its `nth` trial: each in another set.
    fn trial(self, scale: &Scale, domain: &Domain, step: &Step, modelled: bool, nth: u64) -> Trial {
        let cells = self.cells();
        let place = place(self.period ^ mix(self.groups ^ mix(nth)));
        let offset = if domain.apart == 0 { place } else { 0 };
        let groups = Groups { period: self.period, group: self.group, offset };
        Trial {
            memory: Memory { page: domain.pages.0, ..Memory::of(cells * self.stride, self.stride) },
            loads: loads(scale, domain.clock_share * (step.next - step.here), cells),
            samples: if modelled { 1 } else { 3 },
            // Random replacement takes laps to settle.
            warm: (32 * cells).min(1 << 14),
            ..Trial::of(pattern::Conflict::of(groups))
        }
    }
}

/// n for a lap of `cells`: whole laps and a load more, so many that two steps of the clock are no more than `error`
/// a load, ns.
pub(super) fn loads(scale: &Scale, error: f64, cells: u64) -> u64 {
    let clock = 2.0 * scale.resolution * scale.tick_ns / error.max(0.1 * CLOCK_SHARE);
    let mut loads = (clock as u64).clamp(2048, 1 << 17).div_ceil(cells) * cells + 1;
    while cells > 2 && (2 * loads).is_multiple_of(cells) {
        loads += 1;
    }
    loads
}

/// Every arrangement of a level's scan: periods that are powers of two, from one at which every cache of that
/// capacity holds some thirty cells to twice the capacity, at which none holds more than its ways.
pub(super) fn scan(domain: &Domain, step: &Step, nearer: Option<Geometry>) -> Vec<Arrangement> {
    let capacity = step.capacity.value.clamp(1.0, 1e12) as u64;
    let longest = domain.periods.1.min(2 * capacity.next_power_of_two());
    let least = nearer.map_or(domain.periods.0, |n| n.way_bytes.next_power_of_two());
    let mut period = (capacity / 32).next_power_of_two().max(least).min(longest);
    let mut all = Vec::new();
    while period <= longest {
        let most = (23 * capacity / period / 10 + 2).clamp(ALL_GROUPS, MAX_GROUPS);
        let groups = (1..=ALL_GROUPS).chain((ALL_GROUPS + 1..=most).step_by(3));
        all.extend(groups.map(|groups| domain.arrange(groups, period, nearer)));
        period *= 2;
    }
    all.retain(|a| a.groups * a.period <= domain.span);
    all
}

/// Arrangements that tell geometries apart: at the length of each one's way (or the multiple of it that is long
/// enough) exactly its ways, and one more.
pub(super) fn informative(
    domain: &Domain,
    several: &[Geometry],
    nearer: Option<Geometry>,
) -> Vec<Arrangement> {
    let mut all = Vec::new();
    for one in several.iter().take(MAX_DISTINGUISHED) {
        let least = nearer.map_or(domain.periods.0, |n| n.way_bytes);
        let period = one.way_bytes * least.div_ceil(one.way_bytes).next_power_of_two();
        all.extend([one.ways, one.ways + 1, 2 * one.ways].map(|n| domain.arrange(n, period, nearer)));
    }
    all.retain(|a| a.groups * a.period <= domain.span);
    all
}

/// The trials of a level that are wanted next; none when its scan is done and nothing more can be told.
pub(crate) fn wanted(
    record: &Record,
    scale: &Scale,
    step: &Step,
    nearer: Option<Geometry>,
    modelled: bool,
) -> Vec<Trial> {
    let domain = Domain::lines(scale);
    let page_bytes = domain.pages.1;
    let mut all = scan(&domain, step, nearer);
    let left = Measured::of(record, scale, &domain, step).left(scale, &domain, step, nearer);
    if let Verdict::Several(several) = &left {
        all.extend(informative(&domain, several, nearer));
    }
    all.retain(|a| !a.translates(page_bytes) || in_reach(a, step, nearer));
    all.extend(all.iter().filter(|a| a.translates(page_bytes)).map(|a| a.control()).collect::<Vec<_>>());
    let wanted = unrequested(record, scale, &domain, step, modelled, all);
    if !wanted.is_empty() {
        return wanted;
    }
    let Some(of) = contiguous(&left, scale, &domain, step, nearer) else { return Vec::new() };
    let control = of.translates(page_bytes).then(|| of.control());
    let mut wanted = unrequested(record, scale, &domain, step, modelled, control.into_iter().collect());
    let had =
        record.trials.iter().filter(|r| domain.has(&r.trial) && Arrangement::of(&r.trial) == of).count();
    wanted.extend((had as u64..PLACEMENTS).map(|nth| of.trial(scale, &domain, step, modelled, nth)));
    wanted
}

/// A twin's cells must all hit in the nearest level, wherever they lie.
fn in_reach(of: &Arrangement, step: &Step, nearer: Option<Geometry>) -> bool {
    let fit = nearer.map_or(step.capacity.value, |nearest| nearest.bytes() as f64);
    (of.cells() * 2 * MIN_SEPARATION) as f64 <= fit
}

/// Placements of one arrangement that show whether pages lie side by side in memory too.
const PLACEMENTS: u64 = 6;
/// Twice as many lines as ways of one set miss at least so often, whatever is replaced: the best that can be (Belady's)
/// misses ways of 2 ways - 1; a tenth off for what times are off by.
const CONFLICTS: f64 = 0.45;

/// What shows that addresses beyond a page are what they seem, where a way is longer than the pages that there are:
/// twice as many lines as ways at the length of one, which miss wherever they lie only if their pages do lie side by
/// side. `None` where that is no question, or cannot be asked.
fn contiguous(
    left: &Verdict,
    scale: &Scale,
    domain: &Domain,
    step: &Step,
    nearer: Option<Geometry>,
) -> Option<Arrangement> {
    let Verdict::One(one) = left else { return None };
    let requested = scale.huge.is_none() && one.way_bytes > scale.base;
    let of = informative(domain, &[*one], nearer).pop().filter(|_| requested)?;
    (of.groups == 2 * one.ways && (!of.translates(domain.pages.1) || in_reach(&of, step, nearer)))
        .then_some(of)
}

/// Those of the arrangements that were not asked for as often as they should be.
pub(super) fn unrequested(
    record: &Record,
    scale: &Scale,
    domain: &Domain,
    step: &Step,
    modelled: bool,
    all: Vec<Arrangement>,
) -> Vec<Trial> {
    // Whatever was asked counts, so that nothing that is refused is asked again and again.
    let mut had: HashMap<Arrangement, u64> = HashMap::new();
    for run in record.trials.iter().filter(|r| domain.has(&r.trial)) {
        *had.entry(Arrangement::of(&run.trial)).or_default() += 1;
    }
    let times = if modelled { 1 } else { 2 };
    let mut wanted = Vec::new();
    for a in all {
        let have = had.entry(a).or_default();
        while *have < times {
            wanted.push(a.trial(scale, domain, step, modelled, *have));
            *have += 1;
        }
    }
    wanted
}

/// What a level's conflicts rest on.
struct Measured {
    times: Times,
    /// A line by itself, which hits in the nearest level, ns.
    hit: f64,
}

impl Measured {
    fn of(record: &Record, scale: &Scale, domain: &Domain, step: &Step) -> Measured {
        let times = times(record, scale, domain);
        let hit = alone(&times).unwrap_or(step.here);
        Measured { times, hit }
    }

    /// A time without its translation, ns; `None` where nothing tells that.
    fn untranslated(&self, domain: &Domain, of: &Arrangement, time: f64) -> Option<f64> {
        if !of.translates(domain.pages.1) {
            return Some(time);
        }
        Some(time - (self.times.get(&of.control())? - self.hit).max(0.0))
    }

    /// What the conflicts leave.
    fn left(&self, scale: &Scale, domain: &Domain, step: &Step, nearer: Option<Geometry>) -> Verdict {
        let untranslated = |of: &Arrangement, time: f64| self.untranslated(domain, of, time);
        let conflicts = conflicts(&self.times, untranslated, scale, domain, (step, self.hit), nearer);
        sets::read(&conflicts, &question(domain, step, nearer))
    }
}

/// What a level's conflicts say of its sets and ways.
pub(crate) fn read(record: &Record, scale: &Scale, step: &Step, nearer: Option<Geometry>) -> Verdict {
    let domain = Domain::lines(scale);
    let measured = Measured::of(record, scale, &domain, step);
    let left = measured.left(scale, &domain, step, nearer);
    let Some(of) = contiguous(&left, scale, &domain, step, nearer) else { return left };
    let runs =
        record.of(PatternKind::Conflict).filter(|r| domain.has(&r.trial) && Arrangement::of(&r.trial) == of);
    let shares: Vec<f64> = runs
        .filter_map(|run| measured.untranslated(&domain, &of, median(&scale.steady(run))?))
        .map(|time| (time - step.here) / (step.next - step.here))
        .collect();
    match shares.iter().all(|share| *share > CONFLICTS) {
        _ if (shares.len() as u64) < PLACEMENTS => Verdict::Insufficient,
        true => left,
        false => Verdict::None,
    }
}

/// What conflicts are asked.
pub(super) fn question(domain: &Domain, step: &Step, nearer: Option<Geometry>) -> SetConstraints {
    let capacity = step.capacity;
    // The latency curve is measured in base pages that lie anywhere: where the way is longer than a page, some colour is
    // full long before the level is.
    let least = if domain.pages.0 == Pages::Coloured { SCATTERED_ERROR } else { CAPACITY_ERROR };
    let off = (capacity.high - capacity.low).max(least * capacity.value);
    SetConstraints { grain: domain.grain, capacity: (capacity.value, off), nearer }
}

/// Times a load of every arrangement that was measured, ns.
pub(super) type Times = HashMap<Arrangement, f64>;

pub(super) fn times(record: &Record, scale: &Scale, domain: &Domain) -> Times {
    let mut times = Times::new();
    for run in record.of(PatternKind::Conflict).filter(|r| domain.has(&r.trial)) {
        let Some(time) = median(&scale.steady(run)) else { continue };
        // The least: what other work does to a cache only ever adds.
        times.entry(Arrangement::of(&run.trial)).and_modify(|t| *t = t.min(time)).or_insert(time);
    }
    times
}

/// The time of a cell by itself, ns.
pub(super) fn alone(times: &Times) -> Option<f64> {
    median(&times.iter().filter(|(a, _)| a.cells() == 1).map(|(_, time)| *time).collect::<Vec<_>>())
}

/// The conflicts of a level, with the share of their loads that missed. `less` takes off a time what is none of
/// this level's, `hit` is what a load takes that the nearest one serves, ns.
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

/// The time of loads that the level serves, ns, and how far it may be off: the median of all that are near the
/// tier's own, else the tier's.
fn base(own: &[(Arrangement, f64)], step: &Step) -> (f64, f64) {
    let near = |time: &f64| (time / step.here - 1.0).abs() < TIER_TOLERANCE;
    let times: Vec<f64> = own.iter().map(|(_, time)| *time).filter(near).collect();
    match median(&times) {
        Some(base) if times.len() >= 6 => (base, 1.5 * HIT_ERROR),
        _ => (step.here, 5.0 * HIT_ERROR),
    }
}
