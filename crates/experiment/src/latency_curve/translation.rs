//! TLB pairs, and the translation inside the points of the latency curve.

use fathom_analysis::interval::{Interval, median};
use fathom_analysis::tiers::shape::Shape;
use fathom_analysis::tiers::{self, Capacity, Options, Point, Reading, Tier};

use super::two_lines::{self, OpenRows, TwoLines};
use crate::scale::{At, Scale};

/// A TLB pair: chains over the same number of lines, spread over as many pages, and packed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pair {
    /// Number of pages, and of lines.
    pub(crate) pages: u64,
    /// One line per page.
    pub(crate) spread: At,
    /// The same number of lines packed.
    pub(crate) packed: At,
    /// Two of these lines in each page, in both orders, if they were measured.
    pub(crate) two_lines: Option<TwoLines>,
    /// Time of a translation, ns: by two lines in each page, else the additional time per load when spread.
    pub(crate) extra: f64,
}

impl Pair {
    /// Returns whether two lines in each page come from memory: the second one of a page then finds its row open in one order only.
    pub(super) fn is_in_memory(&self, curve: &[At]) -> bool {
        let Some(last) = curve.last().filter(|_| self.two_lines.is_some()) else { return false };
        let bytes = two_lines::LINES * self.packed.bytes;
        let time = curve.iter().find(|at| at.bytes >= bytes).map_or(last.time(), At::time);
        time >= two_lines::IN_MEMORY * last.time()
    }

    /// Returns the pair without what open rows of memory add to its two lines, or by one line if that is not known.
    pub(super) fn without_open_rows(&self, rows: Option<OpenRows>) -> Pair {
        match (rows, &self.two_lines) {
            (Some(rows), Some(lines)) => self.with_lines(lines.less(rows)),
            _ => self.with_one_line(),
        }
    }

    /// Returns the pair by these lines.
    pub(super) fn with_lines(&self, lines: TwoLines) -> Pair {
        Pair { extra: lines.translation(), two_lines: Some(lines), ..self.clone() }
    }

    /// Returns the times of the lines, each with its own translation.
    pub(super) fn apart(&self) -> &At {
        self.two_lines.as_ref().map_or(&self.spread, |lines| &lines.apart)
    }

    /// Returns the standard error of its translation, ns.
    pub(super) fn error(&self) -> f64 {
        let spread = || self.spread.error().hypot(self.packed.error());
        self.two_lines.as_ref().map_or_else(spread, TwoLines::error)
    }

    /// Returns the pair by one line in each page alone.
    pub(crate) fn with_one_line(&self) -> Pair {
        Pair { two_lines: None, extra: self.spread.time() - self.packed.time(), ..self.clone() }
    }
}

/// Returns the lines in each page that translation was read from at the end of a TLB of so many pages: two if all pairs have them; `None` if these
/// pairs have more, which come from memory.
pub(crate) fn lines_per_page(pairs: &[Pair], pages: &Interval) -> Option<u64> {
    let in_memory = |pair: &Pair| pair.two_lines.as_ref().is_some_and(|lines| lines.are_passes);
    let end = pages.low..=PLATEAU_SPAN * pages.high;
    if pairs.iter().filter(|pair| end.contains(&(pair.pages as f64))).all(in_memory) {
        return None;
    }
    Some(if pairs.iter().all(|pair| pair.two_lines.is_some()) { two_lines::LINES } else { 1 })
}

/// Translation inside the latency curve's points: (working set in bytes, ns per load), ascending. Empty if the curve is
/// measured in whole huge pages, with one translation in hundreds of loads. In base pages, and in huge pages that are
/// translated in pieces, the lines of a page are visited together, so a load carries its page's translation divided by the lines per page. The pairs give the cost of
/// a translation.
pub(crate) type Translation = Vec<(f64, f64)>;

impl Scale {
    /// Returns the lines of a page that are visited one after the other, with one translation: half of them.
    pub(super) fn lines_per_visit(&self, bytes: u64) -> f64 {
        (self.base / self.stride_at(bytes) / 2) as f64
    }

    /// Returns the latency curve's translation from the TLB pairs and their reading, or this share of it, of at most `most` ns each; empty if these
    /// show no TLB.
    pub(super) fn translation(
        &self,
        pairs: &[Pair],
        translated: Option<&Reading>,
        (share, most): (f64, f64),
    ) -> Translation {
        let steps = translated.map(tlb_steps).unwrap_or_default();
        let Some((_, last)) = steps.last().filter(|_| share > 0.0) else { return Vec::new() };
        // Page tables leaving the caches count; a cache conflict of one pair does not.
        let hit_time = pairs.first().map_or(0.0, |p| p.packed.time());
        // A damaged record may show a walk with a negative time.
        let max_cost = (1.5 * (last.latency.value - hit_time)).max(0.0).min(most);
        let cost =
            |p: &Pair| share * p.extra.clamp(0.0, max_cost) / self.lines_per_visit(p.pages * self.base);
        pairs.iter().map(|p| ((p.pages * self.base) as f64, cost(p))).collect()
    }
}

/// Returns the translation of two working sets in so many pages, which takes `cost` ns in each load on whole ones: of the smallest, a byte larger than
/// one page less, and of the largest. Both visit all of the pages, and so the loads of the smaller one have more of it. A TLB of 8 pages of 4 KiB
/// ends at 32 KiB, and not on the way to 36 (described machine).
pub(super) fn on_pages(pages: u64, page: u64, cost: f64) -> impl Iterator<Item = (f64, f64)> {
    let least = (pages > 1).then(|| pages - 1);
    let least = least.map(|less| ((less * page + 1) as f64, cost * pages as f64 / less as f64));
    least.into_iter().chain([((pages * page) as f64, cost)])
}

/// Returns the translation in a point of `bytes`, ns: interpolated between the pairs on the next fewer and next more
/// pages.
pub(crate) fn translation_at(translation: &Translation, bytes: f64) -> f64 {
    match neighbours(translation, bytes) {
        [Some(a), Some(b)] => a.1 + (b.1 - a.1) * (bytes - a.0) / (b.0 - a.0),
        [Some(a), None] => a.1,
        _ => 0.0,
    }
}

/// Relative standard error of a translation in a point of a pair's pages: the curve visits pages in another order than a pair.
const ORDER_ERROR: f64 = 0.02;

/// Returns the standard error of the translation in a point, ns.
pub(super) fn translation_error(translation: &Translation, bytes: f64) -> f64 {
    interpolation_error(translation, bytes).hypot(ORDER_ERROR * translation_at(translation, bytes))
}

/// Returns that part of it which comes from the distance of the pairs: in the middle between two it is uniform over their difference, because
/// a TLB may end anywhere there.
fn interpolation_error(translation: &Translation, bytes: f64) -> f64 {
    match neighbours(translation, bytes) {
        [Some(a), Some(b)] => {
            let part = (bytes - a.0) / (b.0 - a.0);
            (b.1 - a.1).abs() * part.min(1.0 - part) / 3f64.sqrt()
        }
        _ => 0.0,
    }
}

/// Returns the working sets of a curve whose translation pairs of more numbers of pages would tell better.
pub(super) fn uncertain<'a>(curve: &'a [At], translation: &'a Translation) -> impl Iterator<Item = u64> + 'a {
    let is_uncertain = |at: &&At| {
        let bytes = at.bytes as f64;
        let less = at.time() - translation_at(translation, bytes);
        interpolation_error(translation, bytes) > MAX_TRANSLATION_ERROR * less
    };
    curve.iter().filter(is_uncertain).map(|at| at.bytes)
}

/// Largest error of a point by its translation, relative: the smallest error of a point twice.
const MAX_TRANSLATION_ERROR: f64 = 0.01;

/// Returns the pairs on the next fewer, or as many, and the next more pages.
fn neighbours(translation: &Translation, bytes: f64) -> [Option<(f64, f64)>; 2] {
    let after = translation.partition_point(|t| t.0 <= bytes);
    [after.checked_sub(1).map(|i| translation[i]), translation.get(after).copied()]
}

/// Share of what the end of a TLB has to add to a curve below which it adds nothing.
const SEEN: f64 = 0.5;
/// Working sets beyond a TLB's reach, as a multiple of it, that show whether it adds anything; there must be two of them.
const BEYOND: f64 = 2.5;
const MIN_UNSEEN: usize = 2;
/// Smallest rise of a curve, relative, that can be missed: below it are errors of its points.
const VISIBLE: f64 = 0.05;

/// Returns what translations of huge pages in pieces cost at most, ns: no more than before the first TLB beyond whose reach the curve does not
/// rise by `added` of what the pairs add, ns for each ns. That one holds huge pages as a whole. The nearest one was tested.
pub(super) fn most_in_pieces(
    curve: &[At],
    (pairs, translated): (&[Pair], &Reading),
    page: f64,
    added: f64,
) -> f64 {
    let nearest = translated.tiers.first().map_or(0.0, |tier| tier.latency.value);
    let costs: Translation = pairs.iter().map(|pair| (pair.pages as f64 * page, pair.extra)).collect();
    let holds_whole = |two: &&[Tier]| {
        let Some(reach) = two[0].capacity.map(|c| c.onset) else { return false };
        let step = two[1].latency.value - two[0].latency.value;
        let Some(before) = curve.iter().rfind(|at| at.bytes as f64 <= reach.low * page) else { return false };
        let beyond = curve.iter().filter(|at| {
            let bytes = at.bytes as f64;
            let cost = translation_at(&costs, bytes) - (two[0].latency.value - nearest);
            let is_beyond = bytes > reach.high * page && bytes < BEYOND * reach.high * page;
            let is_visible = added * cost >= VISIBLE * before.time();
            is_beyond && is_visible && cost >= SEEN * step && at.time() - before.time() < SEEN * added * cost
        });
        beyond.count() >= MIN_UNSEEN
    };
    let first = translated.tiers.windows(2).skip(1).find(holds_whole);
    first.map_or(f64::INFINITY, |two| (two[0].latency.value - nearest).max(0.0))
}

/// Returns the steps of a translation curve: where each begins, and the tier beyond it.
pub(crate) fn steps(reading: &Reading) -> impl Iterator<Item = (Capacity, Tier)> {
    reading.tiers.windows(2).filter_map(|pair| Some((pair[0].capacity?, pair[1])))
}

/// Returns the TLBs of a translation curve, by its shape alone: the reach of each one, and the tier beyond it.
///
/// Half of a TLB's misses appear within an octave of its reach, for any ways and replacement. A slower rise is due to
/// page tables leaving the caches: part of the cost of the walk, not a TLB.
pub(crate) fn tlb_steps(reading: &Reading) -> Vec<(Capacity, Tier)> {
    steps(reading).take_while(|step| is_tlb(&step.0)).collect()
}

/// Returns whether translation rises as fast as beyond a TLB's reach.
pub(crate) fn is_tlb(capacity: &Capacity) -> bool {
    !matches!(capacity.shape, Shape::Gradual(9..))
}

/// A TLB's penalty is measured from its reach's end up to this factor: at larger sizes page tables leave the caches.
pub(crate) const PLATEAU_SPAN: f64 = 1.5;

/// Returns the time of a load that hits in the nearest cache and TLB, ns.
pub(super) fn hit_time(pairs: &[Pair]) -> Option<f64> {
    median(&pairs.iter().take(3).map(|p| p.packed.time()).collect::<Vec<_>>())
}

/// Returns the points of the TLB pairs: the translation cost plus the time of a load that hits, so that "no cost" is a
/// plateau too.
pub(super) fn pair_points(pairs: &[Pair], hit_time: f64) -> Vec<Point> {
    let point = |p: &Pair| {
        let y = hit_time + p.extra.max(0.0);
        let error = p.error();
        let shared = p.two_lines.as_ref().map_or(0.0, TwoLines::shared_error);
        Point { x: p.pages as f64, y, sigma: error / y, shared: shared / y }
    };
    pairs.iter().map(point).collect()
}

/// Reads the tiers of the TLB pairs.
pub(crate) fn read_pairs(pairs: &[Pair], share: f64) -> Option<Reading> {
    let points = pair_points(pairs, hit_time(pairs)?);
    let options = Options { floor: 0.01, rise: 0.01, share, span: PLATEAU_SPAN, ..Options::default() };
    tiers::read(&points, &options).map(|reading| without_unseen_end(without_small_steps(reading), &points))
}

/// Largest step that is none, in half the width of an interval beside it.
const SMALL_STEP: f64 = 0.25;

/// Returns the tiers without those whose step is well within the errors of what is before and beyond it: the next one is then part of the same rise.
fn without_small_steps(mut reading: Reading) -> Reading {
    let is_small = |two: &[Tier]| {
        let (before, beyond) = (two[0].latency, two[1].latency);
        beyond.value - before.value < SMALL_STEP * (before.high - before.value).max(beyond.value - beyond.low)
    };
    // The first one is of loads that hit, and the last one has no end.
    while let Some(i) =
        (1..reading.tiers.len().saturating_sub(2)).find(|i| is_small(&reading.tiers[*i..*i + 2]))
    {
        let removed = reading.tiers.remove(i + 1).capacity;
        let tier = &mut reading.tiers[i];
        tier.capacity = removed.map(|end| {
            let low = tier.capacity.map_or(end.onset.low, |own| own.onset.low.min(end.onset.low));
            Capacity { onset: Interval { low, ..end.onset }, ..end }
        });
    }
    reading
}

/// Returns the tiers without the last one if no pair takes half of its step: what the fit extrapolates from the beginning of a rise was not
/// measured.
fn without_unseen_end(mut reading: Reading, points: &[Point]) -> Reading {
    if let [.., before, last] = &mut reading.tiers[..] {
        let half = f64::midpoint(before.latency.value, last.latency.value);
        if points.iter().all(|p| p.y < half) {
            before.capacity = None;
            reading.flat_end = false;
            reading.tiers.pop();
        }
    }
    reading
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rise_that_was_measured_in_part_is_no_end_of_a_tlb() {
        let at = |x: f64, y: f64| Point { x, y, sigma: 0.001, shared: 0.0 };
        let tier = |latency: f64, capacity| Tier {
            latency: Interval { value: latency, low: latency, high: latency },
            capacity,
            points: 3,
            on_plateau: 3,
            begin: 1.0,
        };
        let curve = [at(16.0, 4.0), at(64.0, 4.0), at(128.0, 9.0), at(256.0, 9.0), at(300.0, 14.0)];
        let steps = [at(16.0, 4.0), at(64.0, 4.0), at(66.0, 9.0), at(128.0, 9.0), at(256.0, 9.0)];
        let of = tiers::read(&steps, &Options::default()).unwrap().tiers[0].capacity;
        let reading = |beyond: f64| Reading {
            tiers: vec![tier(4.0, of), tier(9.0, of), tier(beyond, None)],
            scatter: 0.0,
            flat_end: true,
            notes: Vec::new(),
        };
        let cut = without_unseen_end(reading(40.0), &curve);
        assert!(cut.tiers.len() == 2 && cut.tiers[1].capacity.is_none() && !cut.flat_end, "{cut:?}");
        assert_eq!(without_unseen_end(reading(18.0), &curve), reading(18.0));
    }

    #[test]
    fn step_well_within_its_errors_is_part_of_the_next_one() {
        let steps = [(4.0, 16.0), (9.0, 64.0), (9.2, 66.0), (40.0, 0.0)];
        let of = |half: f64| {
            let at = |(x, y): (f64, f64)| Point { x, y, sigma: 0.001, shared: 0.0 };
            let points = [(16.0, 4.0), (64.0, 4.0), (66.0, 9.0), (128.0, 9.0), (256.0, 9.0)].map(at);
            let found = tiers::read(&points, &Options::default()).unwrap().tiers[0].capacity.unwrap();
            let tier = |(value, end): (f64, f64)| Tier {
                latency: Interval { value, low: value - half, high: value + half },
                capacity: (end > 0.0)
                    .then_some(Capacity { onset: Interval { value: end, low: end, high: end }, ..found }),
                points: 3,
                on_plateau: 3,
                begin: 1.0,
            };
            let tiers = steps.map(tier).to_vec();
            without_small_steps(Reading { tiers, scatter: 0.0, flat_end: true, notes: Vec::new() }).tiers
        };
        assert_eq!(of(0.5).len(), 4, "two fifths of its errors");
        let merged = of(1.0);
        let end = merged[1].capacity.map(|end| (end.onset.low, end.onset.value));
        assert_eq!((merged.len(), merged[1].latency.value, end), (3, 9.0, Some((64.0, 66.0))));
    }

    #[test]
    fn part_of_a_page_has_the_translation_of_all_its_pages() {
        let translation: Translation = [(1, 0.0), (8, 0.0), (9, 16.0)]
            .iter()
            .flat_map(|(pages, cost)| on_pages(*pages, 4096, *cost))
            .collect();
        let at = |bytes: u64| translation_at(&translation, bytes as f64);
        assert_eq!((at(4096), at(30_000), at(32_768), at(36_864)), (0.0, 0.0, 0.0, 16.0));
        // Nine pages in loads on 8 and an eighth, and on 8 and a half.
        let of = |pages: f64| 16.0 * 9.0 / pages;
        assert!(
            (at(33_280) - of(8.125)).abs() < 0.05 && (at(34_816) - of(8.5)).abs() < 0.1,
            "{translation:?}"
        );
        assert!(interpolation_error(&translation, 33_280.0) < 0.2);
    }

    #[test]
    fn translation_between_two_pairs_is_uncertain() {
        let translation = vec![(100.0, 1.0), (200.0, 1.0), (400.0, 9.0)];
        let at = |bytes| (translation_at(&translation, bytes), interpolation_error(&translation, bytes));
        assert_eq!(at(50.0), (0.0, 0.0));
        assert_eq!(at(150.0), (1.0, 0.0));
        let (value, error) = at(300.0);
        assert!(
            value == 5.0 && (error - 8.0 / 12f64.sqrt()).abs() < 1e-12,
            "uniform over the difference: {error}"
        );
        assert_eq!(at(400.0), (9.0, 0.0));
        assert!((translation_error(&translation, 400.0) - 0.18).abs() < 1e-12);
    }
}
