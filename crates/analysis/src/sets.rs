//! Fits sets and ways to measured conflicts.
//!
//! A conflict is a cycle of loads over cells whose addresses are known up to a page, and the share of these loads that
//! missed. In a cache of `ways` ways whose set is the line number modulo the sets, cells conflict exactly if more than
//! `ways` of them fall into one set. This is counted for every candidate, without a formula. A candidate that a
//! conflict contradicts is dropped. The remaining ones are reported, also if there are several or none.

use self::counting::{Counter, Filled};

/// An arrangement of cells, and the measured misses of its loads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conflict {
    /// Groups.
    pub groups: u64,
    /// Cells in a group.
    pub group: u64,
    /// Bytes from cell to cell in a group.
    pub stride: u64,
    /// Bytes from group to group.
    pub period: u64,
    /// Share of the loads that missed in the cache in constraints, 0 to 1, less the base share of misses; slightly outside
    /// this range by noise.
    pub share: f64,
    /// Error of the share.
    pub error: f64,
}

impl Conflict {
    /// Returns the total number of cells.
    #[must_use]
    pub fn cells(&self) -> u64 {
        self.groups.saturating_mul(self.group)
    }
}

/// A cache whose set is the line number modulo the sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Geometry {
    /// Ways.
    pub ways: u64,
    /// Bytes of a way: line x sets.
    pub way_bytes: u64,
}

impl Geometry {
    /// Returns the total size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.ways * self.way_bytes
    }
}

/// Constraints of a fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetConstraints {
    /// Bytes that belong to one set regardless of the line size: [`MIN_SEPARATION`] for caches, a page for TLBs. Every
    /// stride and period is a multiple of it, apart from offsets that keep cells on different lines.
    pub grain: u64,
    /// Capacity from the latency curve, bytes, and its error.
    pub capacity: (f64, f64),
    /// Least and most bytes at which the cache may be full, if it is full of adjacent bytes at its size: on a machine without
    /// other users, in adjacent frames.
    pub full: Option<(f64, f64)>,
    /// Nearer cache, if it exists and is known: its hits do not reach this cache.
    pub nearer: Option<Geometry>,
}

impl SetConstraints {
    /// Returns whether the geometry has a power of two of sets.
    fn is_power(&self, of: Geometry) -> bool {
        (of.way_bytes / self.grain).is_power_of_two()
    }

    /// Returns whether the cache can be full where it seems to be: at its size, or together with the nearer cache if it is
    /// exclusive. Between the two only the replacement of an exclusive cache explains it: accepted with a power of two of
    /// sets.
    fn is_full(&self, of: Geometry) -> bool {
        let Some((low, high)) = self.full else { return true };
        let within = |bytes: u64| (low..=high).contains(&(bytes as f64));
        let nearer = self.nearer.map_or(0, |nearer| nearer.bytes());
        within(of.bytes())
            || within(of.bytes() + nearer)
            || self.is_power(of) && (of.bytes() as f64) < low && (of.bytes() + nearer) as f64 > high
    }

    /// Returns another geometry with the same conflicts: an exclusive cache with no more sets than the nearer one.
    /// Lines that conflict in one also conflict in the other, and the pair holds more lines, by the ways of the nearer
    /// cache.
    fn equivalent(&self, of: Geometry) -> Option<Geometry> {
        let nearer = self.nearer.filter(|nearer| nearer.way_bytes >= of.way_bytes)?;
        let ways = of.ways.checked_sub(nearer.bytes() / of.way_bytes).filter(|&ways| ways > 0)?;
        Some(Geometry { ways, ..of })
    }
}

/// Assumed line size, bytes. Arrangements keep cells at least 512 bytes apart, so all lines of up to 512 bytes give the
/// same conflicts.
pub const MIN_SEPARATION: u64 = 64;

/// Result of the fit.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// One geometry explains every conflict.
    One(Geometry),
    /// Several geometries explain every conflict.
    Several(Vec<Geometry>),
    /// There are no conflicts where any number of sets would cause some. The index is not a modulo, as in sliced or
    /// hashed caches, or there are more ways than were tried.
    NoModulo,
    /// No geometry explains the conflicts.
    None,
    /// The conflicts measured are too few or too uncertain.
    Insufficient,
}

impl Verdict {
    /// Returns the geometries that explain every conflict.
    #[must_use]
    pub fn candidates(&self) -> &[Geometry] {
        match self {
            Verdict::One(one) => core::slice::from_ref(one),
            Verdict::Several(several) => several,
            Verdict::NoModulo | Verdict::None | Verdict::Insufficient => &[],
        }
    }
}

/// Largest number of ways considered. Small fully associative caches (micro-TLBs) have up to 64 and are found by their
/// capacity.
pub const MAX_WAYS: u64 = 64;

/// Largest cache considered, bytes: a thousand times those on sale.
const MAX_BYTES: f64 = (1u64 << 40) as f64;

/// Numbers of sets are a power of two times one of these: 3, 5, 6 and other numbers of slices or banks exist.
const ODD_FACTORS: [u64; 8] = [1, 3, 5, 7, 9, 11, 13, 15];

/// Prediction of a candidate for one conflict.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Predicted {
    Fits,
    /// At least this share misses.
    Misses(f64),
    /// Depends on the replacement policy of the nearer cache.
    Open,
}

/// Returns a lower bound, for any policy, of the misses per lap of `count` cells in a set of `ways`. Random replacement
/// has the fewest misses on a cycle: two with one line more than ways (simulated), and one more per further line.
fn min_misses(count: u64, ways: u64) -> f64 {
    if ways == 1 { count as f64 } else { (count - ways + 1) as f64 }
}

/// Predicts the misses of a cache of `ways` ways with these numbers of cells in its sets. `nearer` is the largest
/// number of cells in a set of the nearer cache, and its ways.
fn predict(counts: &[Filled], ways: u64, nearer: Option<(u64, u64)>) -> Predicted {
    let over = counts.iter().filter(|filled| filled.cells > ways);
    let misses: f64 = over.map(|filled| filled.sets as f64 * min_misses(filled.cells, ways)).sum();
    match nearer {
        _ if misses == 0.0 => Predicted::Fits,
        Some((max, ways)) if max <= ways => Predicted::Fits,
        // With random replacement in the nearer cache, some loads hit there until twice as many lines as ways compete.
        Some((max, ways)) if max <= 2 * ways => Predicted::Open,
        _ => {
            let cells: u64 = counts.iter().map(|filled| filled.cells * filled.sets).sum();
            Predicted::Misses(misses / cells.max(1) as f64)
        }
    }
}

/// Smallest measured share of misses, relative to the predicted one. The margin allows for misses served by lines left
/// in a nearer level, in addition to random replacement's two misses per lap.
const MIN_SEEN_SHARE: f64 = 0.35;

/// Returns whether a conflict contradicts one geometry; `None` if it decides nothing.
#[must_use]
pub fn contradicts(conflict: &Conflict, one: Geometry, constraints: &SetConstraints) -> Option<bool> {
    let counts = |way_bytes: u64| Counter::new(way_bytes, constraints.grain).counts(conflict);
    let most = |nearer: Geometry| counts(nearer.way_bytes).last().map_or(0, |filled| filled.cells);
    let nearer = constraints.nearer.map(|nearer| (most(nearer), nearer.ways));
    contradicts_prediction(conflict, predict(&counts(one.way_bytes), one.ways, nearer))
}

/// Returns whether a conflict contradicts its prediction; `None` if it decides nothing.
fn contradicts_prediction(conflict: &Conflict, predicted: Predicted) -> Option<bool> {
    match predicted {
        Predicted::Open => None,
        Predicted::Fits => Some(conflict.share > 2.0 * conflict.error),
        Predicted::Misses(share) if MIN_SEEN_SHARE * share > 2.0 * conflict.error => {
            Some(conflict.share < MIN_SEEN_SHARE * share - conflict.error)
        }
        Predicted::Misses(_) => None,
    }
}

/// Returns the numbers of ways of `way_bytes` whose size agrees with the capacity.
fn ways(way_bytes: u64, constraints: &SetConstraints) -> std::ops::RangeInclusive<u64> {
    let (capacity, off) = constraints.capacity;
    // An exclusive cache's latency curve ends where both caches are full.
    let nearer = constraints.nearer.map_or(0.0, |n| n.bytes() as f64);
    let min = (capacity - off - nearer).max(0.4 * capacity) / way_bytes as f64;
    let max = (capacity + off) / way_bytes as f64;
    (min.ceil().max(1.0) as u64)..=(max.floor() as u64).min(MAX_WAYS)
}

/// Largest share of informative conflicts that may contradict a candidate: other processes use lines too.
const MAX_CONTRADICTING_SHARE: f64 = 0.02;
/// Smallest number of informative conflicts of either kind for a candidate: arrangements that fit and arrangements that
/// miss.
const MIN_INFORMATIVE: usize = 2;

/// Evidence of the conflicts for and against one candidate.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    fits: usize,
    misses: usize,
    /// Number of contradictions of either kind.
    against: [usize; 2],
    /// Conflicts with few cells relative to the capacity that the candidate predicts to miss, and that do.
    few_missed: usize,
    /// The same, but they hit.
    few_hit: usize,
}

impl Evidence {
    fn acceptable(&self) -> bool {
        let few = |against: usize, of: usize| against as f64 <= MAX_CONTRADICTING_SHARE * of as f64;
        few(self.against[0], self.fits) && few(self.against[1], self.misses)
    }
}

/// Largest number of cells of an arrangement, and of arrangements, that are used: twice those of any plan. A record may
/// be untrusted, and each cell is counted for about fifty way sizes.
const MAX_CELLS: u64 = 1 << 10;
const MAX_CONFLICTS: usize = 1 << 11;

/// Maximum number of longest periods that are left out.
const MAX_LEFT_OUT_PERIODS: usize = 4;

/// Fits all candidates to the conflicts.
///
/// If no candidate explains all of them, the longest periods are left out, one after another: an inclusive outer level
/// evicts lines from this one, first at periods of its own ways.
#[must_use]
pub fn read(conflicts: &[Conflict], constraints: &SetConstraints) -> Verdict {
    let sound = |c: &&Conflict| c.share.is_finite() && c.error.is_finite() && c.cells() <= MAX_CELLS;
    let mut conflicts: Vec<&Conflict> = conflicts.iter().filter(sound).take(MAX_CONFLICTS).collect();
    let whole = explained(&conflicts, constraints);
    if whole != Verdict::None {
        return whole;
    }
    for _ in 0..MAX_LEFT_OUT_PERIODS {
        let longest = conflicts.iter().map(|c| c.period).max().unwrap_or(0);
        conflicts.retain(|c| c.period < longest);
        match explained(&conflicts, constraints) {
            // Fewer arrangements are weaker evidence, so only a power of two of sets is accepted.
            Verdict::One(one) if !constraints.is_power(one) => return Verdict::None,
            part @ (Verdict::One(_) | Verdict::Several(_)) => return part,
            _ => {}
        }
    }
    whole
}

fn explained(conflicts: &[&Conflict], constraints: &SetConstraints) -> Verdict {
    let nearer: Vec<Option<(u64, u64)>> = match constraints.nearer {
        None => vec![None; conflicts.len()],
        Some(nearer) => {
            let mut counter = Counter::new(nearer.way_bytes, constraints.grain);
            let most = |counts: Vec<Filled>| counts.last().map_or(0, |filled| filled.cells);
            conflicts.iter().map(|c| Some((most(counter.counts(c)), nearer.ways))).collect()
        }
    };
    let of = |way_bytes: u64| -> Vec<(Geometry, Evidence)> {
        let ways = ways(way_bytes, constraints);
        if ways.is_empty() {
            return Vec::new();
        }
        let mut counter = Counter::new(way_bytes, constraints.grain);
        let counted: Vec<Vec<Filled>> = conflicts.iter().map(|c| counter.counts(c)).collect();
        let evidence = |ways| {
            let of = conflicts.iter().zip(&counted).zip(&nearer);
            collect_evidence(of.map(|((c, n), near)| (**c, predict(n, ways, *near))), constraints)
        };
        ways.map(|ways| (Geometry { ways, way_bytes }, evidence(ways))).collect()
    };
    let most = (constraints.capacity.0 + constraints.capacity.1).min(MAX_BYTES);
    let doubled = |odd: u64| core::iter::successors(Some(odd * constraints.grain), |bytes| Some(2 * bytes));
    let sizes =
        ODD_FACTORS.into_iter().flat_map(|odd| doubled(odd).take_while(|bytes| *bytes as f64 <= most));
    let candidates: Vec<(Geometry, Evidence)> = sizes.flat_map(&of).collect();
    match decide(&candidates, constraints) {
        Verdict::One(one) if !constraints.is_power(one) => {
            let sets = one.way_bytes / constraints.grain;
            let near =
                (sets.saturating_sub(NEAR_SETS).max(1)..=sets + NEAR_SETS).filter(|near| *near != sets);
            only(
                one,
                &candidates,
                &near.flat_map(|sets| of(sets * constraints.grain)).collect::<Vec<_>>(),
                constraints,
            )
        }
        verdict => verdict,
    }
}

/// Distance within which other numbers of sets may explain the conflicts of groups of cells as well: groups that the nearer cache cannot hold are that
/// much longer than one cell for each of 16 ways.
const NEAR_SETS: u64 = 8;

/// Returns the geometry, which is no power of two of sets, if no other number of sets near it explains the conflicts as well. These are no candidates by
/// themselves: groups of 16 pages 80 pages apart conflict in 4 ways of 81 sets like in those of 80.
fn only(
    one: Geometry,
    candidates: &[(Geometry, Evidence)],
    near: &[(Geometry, Evidence)],
    constraints: &SetConstraints,
) -> Verdict {
    let against = |evidence: &Evidence| evidence.against.iter().sum::<usize>();
    let own = candidates.iter().find(|(of, _)| *of == one).map_or(0, |(_, evidence)| against(evidence));
    let as_well = |(of, evidence): &&(Geometry, Evidence)| {
        evidence.acceptable() && against(evidence) <= own && constraints.is_full(*of)
    };
    let others = near.iter().filter(as_well).map(|(of, _)| *of);
    let all: Vec<Geometry> = [one].into_iter().chain(others).collect();
    if all.len() == 1 { Verdict::One(one) } else { Verdict::Several(all) }
}

fn collect_evidence(
    conflicts: impl Iterator<Item = (Conflict, Predicted)>,
    constraints: &SetConstraints,
) -> Evidence {
    let mut evidence = Evidence::default();
    for (conflict, predicted) in conflicts {
        let Some(contradiction) = contradicts_prediction(&conflict, predicted) else { continue };
        evidence.against[usize::from(predicted != Predicted::Fits)] += usize::from(contradiction);
        if predicted == Predicted::Fits {
            evidence.fits += 1;
            continue;
        }
        evidence.misses += 1;
        if conflict.cells() * constraints.grain < constraints.capacity.0 as u64 / 4 {
            let missed = conflict.share > 2.0 * conflict.error;
            *(if missed { &mut evidence.few_missed } else { &mut evidence.few_hit }) += 1;
        }
    }
    evidence
}

fn decide(candidates: &[(Geometry, Evidence)], constraints: &SetConstraints) -> Verdict {
    let judged =
        || candidates.iter().filter(|(_, h)| h.fits >= MIN_INFORMATIVE && h.misses >= MIN_INFORMATIVE);
    let left: Vec<&(Geometry, Evidence)> = judged().filter(|(_, h)| h.acceptable()).collect();
    let best = left.iter().map(|(_, h)| h.against.iter().sum::<usize>()).min();
    let best: Vec<Geometry> =
        left.iter().filter(|(_, h)| Some(h.against.iter().sum()) == best).map(|l| l.0).collect();
    match best.as_slice() {
        // To leave out such candidates beforehand would decide for another one, though these explain the conflicts too.
        [one] if !constraints.is_full(*one) => return Verdict::None,
        [one] => {
            return constraints
                .equivalent(*one)
                .map_or(Verdict::One(*one), |other| Verdict::Several(vec![other, *one]));
        }
        [_, _, ..] => return Verdict::Several(best),
        [] => {}
    }
    // With a power of two of sets, some small arrangements would conflict for any number of ways, but none does.
    let power = |g: Geometry| constraints.is_power(g) && g.ways <= MAX_WAYS / 2;
    let powers: Vec<&Evidence> = candidates.iter().filter(|(g, _)| power(*g)).map(|(_, h)| h).collect();
    let quiet = powers.iter().all(|h| h.few_missed == 0);
    if quiet && powers.iter().map(|h| h.few_hit).sum::<usize>() >= MIN_INFORMATIVE {
        return Verdict::NoModulo;
    }
    if judged().next().is_none() { Verdict::Insufficient } else { Verdict::None }
}

mod counting;

#[cfg(test)]
mod tests;
