//! What the trials of a latency curve have measured so far, joined into curves. Used by plans and readings.

use fathom_analysis::interval::{Interval, median};
use fathom_analysis::tiers::shape::Shape;
use fathom_analysis::tiers::{self, Capacity, Options, Point, Reading};
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{OrderKind, PatternKind, Trial, Walk};

use super::PAIR_STRIDE;
use crate::record::Record;
use crate::scale::{At, Scale};
use crate::scale::{STRIDE, WINDOW_PAGES};

impl Scale {
    /// The pages that the latency curve is measured in.
    pub(crate) fn pages(&self) -> Pages {
        if self.huge.is_some() { Pages::Huge } else { Pages::Base }
    }

    /// The latency curve's window, bytes.
    pub(crate) fn window(&self) -> u64 {
        WINDOW_PAGES * self.huge.unwrap_or(self.base)
    }

    /// Is this trial a step of the latency curve?
    pub(crate) fn is_step(&self, trial: &Trial) -> bool {
        trial.kind() == PatternKind::Chase
            && trial.pattern.walk() == Walk::windows(self.window())
            && trial.memory.page == self.pages()
            && trial.beside.streams.is_empty()
    }

    /// The latency curve, ascending in bytes.
    pub(crate) fn latency_curve(&self, record: &Record) -> Vec<At> {
        self.gather(record, PatternKind::Chase, |t| self.is_step(t))
    }

    /// Chases in one order and page size that are no steps of the latency curve.
    pub(crate) fn chases(&self, record: &Record, order: OrderKind, page: Pages) -> Vec<At> {
        self.gather(record, PatternKind::Chase, |t| {
            t.pattern.walk().order == order
                && t.memory.page == page
                && t.memory.stride == STRIDE
                && !self.is_step(t)
        })
    }

    /// Order and pages of the packed half of a TLB pair.
    pub(crate) fn control(&self) -> (OrderKind, Pages) {
        if self.huge.is_some() { (OrderKind::Random, Pages::Huge) } else { (OrderKind::Window, Pages::Base) }
    }

    /// Lines packed, [`PAIR_STRIDE`] bytes apart: the halves of the TLB pairs that translate nothing.
    pub(crate) fn packed(&self, record: &Record) -> Vec<At> {
        let (order, page) = self.control();
        self.gather(record, PatternKind::Chase, |t| {
            t.pattern.walk().order == order && t.memory.page == page && t.memory.stride == PAIR_STRIDE
        })
    }

    /// The pairs of the TLB curve in pages of a kind, ascending.
    pub(crate) fn pairs_in(&self, record: &Record, page: Pages) -> Vec<Pair> {
        let spread = self
            .gather(record, PatternKind::Pages, |t| t.memory.stride == PAIR_STRIDE && t.memory.page == page);
        let packed = self.packed(record);
        let pairs = spread.into_iter().filter_map(|s| {
            let p = packed.iter().find(|p| p.bytes == s.bytes)?.clone();
            let extra = s.time() - p.time();
            Some(Pair { pages: s.bytes / PAIR_STRIDE, spread: s, packed: p, extra })
        });
        pairs.collect()
    }

    /// The pairs of the TLB curve, ascending.
    pub(crate) fn pairs(&self, record: &Record) -> Vec<Pair> {
        let mut pairs = self.pairs_in(record, Pages::Base);
        if self.huge.is_none() {
            self.own_translation(&mut pairs);
        }
        pairs
    }

    /// In base pages the packed half translates too: its pages one after the other, each twice a lap, so
    /// one translation for every half page of lines, which the pairs on so few pages have told already.
    fn own_translation(&self, pairs: &mut [Pair]) {
        let lines = (self.base / PAIR_STRIDE).max(2);
        for i in 0..pairs.len() {
            let pages = pairs[i].pages.div_ceil(lines);
            let known = pairs[..i].iter().rfind(|p| p.pages <= pages).map_or(0.0, |p| p.extra.max(0.0));
            pairs[i].extra += known / (lines / 2) as f64;
        }
    }
}

/// A record's latency curve, read.
pub(crate) struct Curves {
    /// Its steps as measured.
    pub(crate) latency_curve: Vec<At>,
    /// The TLB pairs.
    pub(crate) pairs: Vec<Pair>,
    /// What translation adds to the steps.
    pub(crate) translation: Translation,
    /// Its tiers; `None` with too few points.
    pub(crate) reading: Option<Reading>,
    /// What the pairs show; `None` with too few of them.
    pub(crate) translated: Option<Reading>,
}

impl Curves {
    /// The latency curve of a record.
    pub(crate) fn of(record: &Record, scale: &Scale) -> Curves {
        let latency_curve = scale.latency_curve(record);
        let pairs = scale.pairs(record);
        let translated = read_pairs(&pairs, scale.share);
        let translation = scale.translation(&pairs, translated.as_ref());
        let reading = read_latency_curve(&latency_curve, &translation, scale.share);
        Curves { latency_curve, pairs, translation, reading, translated }
    }

    /// Where its tiers end.
    pub(crate) fn steps(&self) -> Vec<Step> {
        self.reading.as_ref().map(steps).unwrap_or_default()
    }

    /// The TLBs that the pairs show, as steps: capacities in bytes of base pages, times of a load that hits in the
    /// nearest cache.
    pub(crate) fn tlbs(&self, scale: &Scale) -> Vec<Step> {
        let Some(reading) = &self.translated else { return Vec::new() };
        let mut here = reading.tiers[0].latency.value;
        let mut all = Vec::new();
        for (capacity, beyond) in tlb_steps(reading) {
            let (capacity, next) = (capacity.onset.scaled(scale.base as f64), beyond.value);
            all.push(Step { capacity, here, next });
            here = next;
        }
        all
    }
}

/// Where a tier ends, and what a load takes before and after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// Working sets up to here fit, bytes.
    pub(crate) capacity: Interval,
    /// Time a load in the tier, ns.
    pub(crate) here: f64,
    /// Time a load in the next one, ns.
    pub(crate) next: f64,
}

/// The steps of a latency curve.
fn steps(curves: &Reading) -> Vec<Step> {
    let pairs = curves.tiers.windows(2);
    pairs
        .filter_map(|pair| {
            let capacity = pair[0].capacity?.onset;
            Some(Step { capacity, here: pair[0].latency.value, next: pair[1].latency.value })
        })
        .collect()
}

/// A TLB pair: chains over equally many lines, spread over as many pages and packed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pair {
    /// Pages, and lines.
    pub(crate) pages: u64,
    /// One line a page.
    pub(crate) spread: At,
    /// The same number of lines packed.
    pub(crate) packed: At,
    /// What a load pays more when spread, ns.
    pub(crate) extra: f64,
}

/// Most pages of a TLB pair: four times the largest second-level TLB known (2048 entries).
pub(crate) const MAX_PAIR: u64 = 8192;

/// Translation inside the latency curve's own steps: (working set in bytes, ns per load), ascending. Empty
/// where the latency curve is measured in huge pages, whose translations are one in tens of thousands of
/// loads. In base pages every page's lines are visited together, so a load carries its page's
/// translation divided by the lines in a page; what that translation costs, the pairs tell.
pub(crate) type Translation = Vec<(f64, f64)>;

impl Scale {
    /// The latency curve's translation, from the TLB pairs and what they show. Where that is no TLB, there is none.
    fn translation(&self, pairs: &[Pair], translated: Option<&Reading>) -> Translation {
        let steps = translated.map(tlb_steps).unwrap_or_default();
        let Some((_, last)) = steps.last().filter(|_| self.huge.is_none()) else { return Vec::new() };
        // What page tables leaving the caches add is part of it; a cache conflict of one pair is not.
        let ground = pairs.first().map_or(0.0, |p| p.packed.time());
        // A damaged record may show a walk that takes less than no time.
        let most = (1.5 * (last.value - ground)).max(0.0);
        // A page's lines are visited in two halves, each with a translation of its own.
        let lines = (self.base / STRIDE / 2) as f64;
        pairs.iter().map(|p| ((p.pages * self.base) as f64, p.extra.clamp(0.0, most) / lines)).collect()
    }
}

/// What translation adds to a step of `bytes`, ns: between the pairs on the next fewer and next more pages,
/// in proportion.
pub(crate) fn translation_at(translation: &Translation, bytes: f64) -> f64 {
    let after = translation.partition_point(|t| t.0 <= bytes);
    match (after.checked_sub(1).map(|i| translation[i]), translation.get(after)) {
        (Some(a), Some(b)) => a.1 + (b.1 - a.1) * (bytes - a.0) / (b.0 - a.0),
        (Some(a), None) => a.1,
        _ => 0.0,
    }
}

/// The TLBs of a translation curve: each one's reach, and the time beyond it.
///
/// Half of a TLB's misses come within an octave of its reach, whatever its ways and replacement. What grows
/// more slowly is page tables leaving the caches: part of the walk's cost, and no TLB.
pub(crate) fn tlb_steps(reading: &Reading) -> Vec<(Capacity, Interval)> {
    reading
        .tiers
        .windows(2)
        .filter_map(|pair| Some((pair[0].capacity?, pair[1].latency)))
        .take_while(|step| is_tlb(&step.0))
        .collect()
}

/// Does translation rise here as beyond a TLB's reach?
pub(crate) fn is_tlb(capacity: &Capacity) -> bool {
    !matches!(capacity.shape, Shape::Gradual(9..))
}

/// Reads the latency curve, less its translation.
fn read_latency_curve(latency_curve: &[At], translation: &Translation, share: f64) -> Option<Reading> {
    let points: Vec<Point> = latency_curve
        .iter()
        .map(|a| {
            let x = a.bytes as f64;
            Point { x, y: a.time() - translation_at(translation, x), sigma: a.sigma() }
        })
        .collect();
    tiers::read(&points, &Options { share, ..Options::default() })
}

/// Reads the TLB curve: what translation adds, on the ground of the smallest pairs' packed time, so
/// that "no cost" is a plateau of its own.
pub(crate) fn read_pairs(pairs: &[Pair], share: f64) -> Option<Reading> {
    let ground = median(&pairs.iter().take(3).map(|p| p.packed.time()).collect::<Vec<_>>())?;
    let points: Vec<Point> = pairs
        .iter()
        .map(|p| {
            let y = ground + p.extra.max(0.0);
            let error = (p.spread.sigma() * p.spread.time()).hypot(p.packed.sigma() * p.packed.time());
            Point { x: p.pages as f64, y, sigma: error / y }
        })
        .collect();
    tiers::read(&points, &Options { floor: 0.01, min_ratio: 1.25, rise: 0.01, share, span: 1.5 })
}
