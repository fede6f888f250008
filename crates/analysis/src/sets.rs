//! Sets and ways: which caches are consistent with who conflicted with whom.
//!
//! A conflict is a cycle of loads over cells in an arrangement whose addresses are known up to a page, and the
//! share of these loads that missed. In a cache of `ways` ways whose set is the line number modulo the sets,
//! cells conflict exactly where more than `ways` of them fall into one set; that is counted here, for every
//! candidate, without a formula. A candidate that a conflict contradicts is dropped. What is left is reported; where
//! several are left, or none, that is reported too.

/// An arrangement of cells, and what its loads did.
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
    /// Share of the loads that missed in the cache in question, 0 to 1, less what misses anyway; a little
    /// beyond both by noise.
    pub share: f64,
    /// What that may be off by.
    pub error: f64,
}

impl Conflict {
    /// Cells in all.
    #[must_use]
    pub fn cells(&self) -> u64 {
        self.groups.saturating_mul(self.group)
    }

    fn offsets(&self) -> impl Iterator<Item = u64> {
        let (group, step, period) = (self.group, self.stride, self.period);
        (0..self.groups).flat_map(move |q| {
            (0..group).map(move |r| q.wrapping_mul(period).wrapping_add(r.wrapping_mul(step)))
        })
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
    /// Bytes in all.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.ways * self.way_bytes
    }
}

/// What a reading may assume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetConstraints {
    /// Bytes that lie together in one set whatever the line: [`MIN_SEPARATION`] for caches, a page for TLBs. Every
    /// step and period is a multiple, apart from what keeps cells off each other's lines.
    pub grain: u64,
    /// The capacity as the latency curve tells it, bytes, with what it may be off by.
    pub capacity: (f64, f64),
    /// The nearer cache, where there is one and it is known: what hits there never arrives here.
    pub nearer: Option<Geometry>,
}

impl SetConstraints {
    /// Has it a power of two of sets?
    fn is_power(&self, of: Geometry) -> bool {
        (of.way_bytes / self.grain).is_power_of_two()
    }

    /// What else would conflict alike: an exclusive cache with no more sets than the nearer one has, because
    /// what conflicts in the one does in the other, and it holds as many lines more as that one has ways.
    fn disguise(&self, of: Geometry) -> Option<Geometry> {
        let nearer = self.nearer.filter(|nearer| nearer.way_bytes >= of.way_bytes)?;
        let ways = of.ways.checked_sub(nearer.bytes() / of.way_bytes).filter(|&ways| ways > 0)?;
        Some(Geometry { ways, ..of })
    }
}

/// The line that is reckoned with: arrangements keep cells 512 bytes and more apart, so that shorter lines and
/// those of up to 512 bytes count alike.
pub const MIN_SEPARATION: u64 = 64;

/// What the conflicts leave.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// One geometry explains every conflict.
    One(Geometry),
    /// Several do: what was measured tells them not apart.
    Several(Vec<Geometry>),
    /// Nothing conflicts where any number of sets would make it: no index by modulo, as of sliced or hashed
    /// caches; or more ways than were tried.
    NoModulo,
    /// No geometry explains what conflicts.
    None,
    /// Too little was measured, or nothing that speaks.
    Silent,
}

/// The most ways that are thought of. Small fully associative caches (micro-TLBs) have up to 64 and are found
/// by their capacity.
pub const MAX_WAYS: u64 = 64;

/// The largest cache that is thought of, bytes: a thousand times those on sale.
const MAX_BYTES: f64 = (1u64 << 40) as f64;

/// Numbers of sets are a power of two times one of these: three, five, six and so on slices or banks exist.
const ODD: [u64; 8] = [1, 3, 5, 7, 9, 11, 13, 15];

/// What a candidate predicts of one conflict.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Predicted {
    Fits,
    /// At least this share misses.
    Misses(f64),
    /// Depends on how the nearer cache replaces.
    Open,
}

/// Of `count` cells in a set of `ways` at least this many miss in a lap, whatever the policy: random
/// replacement, the kindest to a cycle, misses twice where one line is too many (simulated), and a line more
/// costs a miss more.
fn least_misses(count: u64, ways: u64) -> f64 {
    if ways == 1 { count as f64 } else { (count - ways + 1) as f64 }
}

/// How many cells fall into each set that any falls into.
fn counts(conflict: &Conflict, way_bytes: u64, grain: u64) -> Vec<u64> {
    let mut sets: Vec<u64> = conflict.offsets().map(|offset| offset % way_bytes / grain).collect();
    sets.sort_unstable();
    sets.chunk_by(|a, b| a == b).map(|one| one.len() as u64).collect()
}

/// What a cache of `ways` ways with so many cells in its sets does; `nearer` is how many at most fall into a set
/// of the nearer cache, and that one's ways.
fn predict(counts: &[u64], ways: u64, nearer: Option<(u64, u64)>) -> Predicted {
    let over = counts.iter().filter(|&&count| count > ways);
    let misses: f64 = over.map(|&count| least_misses(count, ways)).sum();
    match nearer {
        _ if misses == 0.0 => Predicted::Fits,
        Some((most, ways)) if most <= ways => Predicted::Fits,
        // Random replacement there lets some loads hit until twice as many lines as ways compete.
        Some((most, ways)) if most <= 2 * ways => Predicted::Open,
        _ => Predicted::Misses(misses / counts.iter().sum::<u64>().max(1) as f64),
    }
}

/// Share of a predicted least share that must be seen: beside random replacement's two misses a lap, misses
/// that hit a nearer level's leftovers.
const SEEN: f64 = 0.35;

/// Does a conflict contradict what is predicted of it? `None` where it says nothing.
fn contradicts(conflict: &Conflict, predicted: Predicted) -> Option<bool> {
    match predicted {
        Predicted::Open => None,
        Predicted::Fits => Some(conflict.share > 2.0 * conflict.error),
        Predicted::Misses(least) if SEEN * least > 2.0 * conflict.error => {
            Some(conflict.share < SEEN * least - conflict.error)
        }
        Predicted::Misses(_) => None,
    }
}

/// Every number of ways of `way_bytes` whose size agrees with the capacity.
fn ways(way_bytes: u64, question: &SetConstraints) -> std::ops::RangeInclusive<u64> {
    let (capacity, off) = question.capacity;
    // An exclusive cache's latency curve ends where both are full.
    let nearer = question.nearer.map_or(0.0, |n| n.bytes() as f64);
    let least = (capacity - off - nearer).max(0.4 * capacity) / way_bytes as f64;
    let most = (capacity + off) / way_bytes as f64;
    (least.ceil().max(1.0) as u64)..=(most.floor() as u64).min(MAX_WAYS)
}

/// Share of the conflicts that speak of a candidate that may contradict it: neighbours' work takes lines too.
const FORGIVEN: f64 = 0.02;
/// Conflicts that must speak for a candidate on either side: some that fit in it and some that do not.
const SPEAKING: usize = 2;

/// How the conflicts speak of one candidate.
#[derive(Clone, Copy, Debug, Default)]
struct Hearing {
    fits: usize,
    misses: usize,
    /// How many of either speak against it.
    against: [usize; 2],
    /// Cells are a small part of the capacity, the candidate would have them miss, and they do.
    few_missed: usize,
    few_hit: usize,
}

impl Hearing {
    fn forgiven(&self) -> bool {
        let few = |against: usize, of: usize| against as f64 <= FORGIVEN * of as f64;
        few(self.against[0], self.fits) && few(self.against[1], self.misses)
    }
}

/// Cells of an arrangement and arrangements that are listened to, at most: twice what any plan asks for. A record may
/// come from anywhere, and each cell of each is counted for some fifty lengths of a way.
const MAX_CELLS: u64 = 1 << 10;
const MAX_CONFLICTS: usize = 1 << 11;

/// Longest periods that may be left out.
const LEFT_OUT: usize = 4;

/// What the conflicts leave of all candidates.
///
/// Where no candidate explains them all, the longest periods are left out, one after the other: an inclusive
/// level farther out takes from this one what conflicts there, and it does so at periods of its own ways first.
#[must_use]
pub fn read(conflicts: &[Conflict], question: &SetConstraints) -> Verdict {
    let sound = |c: &&Conflict| c.share.is_finite() && c.error.is_finite() && c.cells() <= MAX_CELLS;
    let mut conflicts: Vec<&Conflict> = conflicts.iter().filter(sound).take(MAX_CONFLICTS).collect();
    let whole = explained(&conflicts, question);
    if whole != Verdict::None {
        return whole;
    }
    for _ in 0..LEFT_OUT {
        let longest = conflicts.iter().map(|c| c.period).max().unwrap_or(0);
        conflicts.retain(|c| c.period < longest);
        match explained(&conflicts, question) {
            // Fewer arrangements say less: only what any cache might be is believed on them.
            Verdict::One(one) if !question.is_power(one) => return Verdict::None,
            part @ (Verdict::One(_) | Verdict::Several(_)) => return part,
            _ => {}
        }
    }
    whole
}

fn explained(conflicts: &[&Conflict], question: &SetConstraints) -> Verdict {
    let in_nearer = |conflict: &Conflict| {
        let nearer = question.nearer?;
        let counts = counts(conflict, nearer.way_bytes, question.grain);
        Some((counts.into_iter().max().unwrap_or(0), nearer.ways))
    };
    let nearer: Vec<Option<(u64, u64)>> = conflicts.iter().map(|c| in_nearer(c)).collect();
    let mut heard: Vec<(Geometry, Hearing)> = Vec::new();
    for odd in ODD {
        let mut way_bytes = odd * question.grain;
        while way_bytes as f64 <= (question.capacity.0 + question.capacity.1).min(MAX_BYTES) {
            let ways = ways(way_bytes, question);
            if !ways.is_empty() {
                let counted: Vec<Vec<u64>> =
                    conflicts.iter().map(|c| counts(c, way_bytes, question.grain)).collect();
                heard.extend(ways.map(|ways| {
                    let of = conflicts.iter().zip(&counted).zip(&nearer);
                    let hearing = hear(of.map(|((c, n), near)| (**c, predict(n, ways, *near))), question);
                    (Geometry { ways, way_bytes }, hearing)
                }));
            }
            way_bytes *= 2;
        }
    }
    decide(&heard, question)
}

fn hear(conflicts: impl Iterator<Item = (Conflict, Predicted)>, question: &SetConstraints) -> Hearing {
    let mut hearing = Hearing::default();
    for (conflict, predicted) in conflicts {
        let Some(contradiction) = contradicts(&conflict, predicted) else { continue };
        hearing.against[usize::from(predicted != Predicted::Fits)] += usize::from(contradiction);
        if predicted == Predicted::Fits {
            hearing.fits += 1;
            continue;
        }
        hearing.misses += 1;
        if conflict.cells() * question.grain < question.capacity.0 as u64 / 4 {
            let missed = conflict.share > 2.0 * conflict.error;
            *(if missed { &mut hearing.few_missed } else { &mut hearing.few_hit }) += 1;
        }
    }
    hearing
}

fn decide(heard: &[(Geometry, Hearing)], question: &SetConstraints) -> Verdict {
    let judged = || heard.iter().filter(|(_, h)| h.fits >= SPEAKING && h.misses >= SPEAKING);
    let left: Vec<&(Geometry, Hearing)> = judged().filter(|(_, h)| h.forgiven()).collect();
    let best = left.iter().map(|(_, h)| h.against.iter().sum::<usize>()).min();
    let best: Vec<Geometry> =
        left.iter().filter(|(_, h)| Some(h.against.iter().sum()) == best).map(|l| l.0).collect();
    match best.as_slice() {
        [one] => {
            return question
                .disguise(*one)
                .map_or(Verdict::One(*one), |other| Verdict::Several(vec![other, *one]));
        }
        [_, _, ..] => return Verdict::Several(best),
        [] => {}
    }
    // With a power of two of sets some few lines would conflict, whatever the ways; and none do.
    let power = |g: Geometry| question.is_power(g) && g.ways <= MAX_WAYS / 2;
    let powers: Vec<&Hearing> = heard.iter().filter(|(g, _)| power(*g)).map(|(_, h)| h).collect();
    let quiet = powers.iter().all(|h| h.few_missed == 0);
    if quiet && powers.iter().map(|h| h.few_hit).sum::<usize>() >= SPEAKING {
        return Verdict::NoModulo;
    }
    if judged().next().is_none() { Verdict::Silent } else { Verdict::None }
}

#[cfg(test)]
mod tests;
