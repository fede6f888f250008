//! The TLBs that the pairs show.

use fathom_analysis::interval::median;
use fathom_analysis::tiers::{Capacity, Reading, Tier};

use super::{Curves, Step};
use crate::latency_curve::conflicts;
use crate::latency_curve::descriptors::{Cause, Steps};
use crate::latency_curve::refreshes;
use crate::latency_curve::translation::{self, Pair};
use crate::latency_curve::walks::growth;
use crate::scale::Scale;

/// Reaches of a TLB from which on pairs are on the plateau beyond it: under LRU from one on, with few ways from two.
const PLATEAU_FROM: f64 = 2.0;

/// Largest distance of a pair from the plateau before a TLB's end, as a share of the step there. Pairs on plateaus of described machines
/// differ by less, and those that conflicts lowered before the end of a TLB of 608 entries by 7 and 9 %.
const MAX_OFF_PLATEAU: f64 = 0.02;

impl Curves {
    /// Returns the steps of the TLB pairs with their causes.
    fn translation_steps(&self) -> impl Iterator<Item = ((Capacity, Tier), Cause)> {
        self.translated.iter().flat_map(translation::steps).zip(self.causes.iter().copied())
    }

    /// Returns the ends of TLBs: the reach, and the tier beyond. Beyond the first step of another cause there is none: a TLB
    /// that still holds the pages needs no tables.
    pub(crate) fn tlb_steps(&self) -> Vec<(Capacity, Tier)> {
        let tlbs = self.translation_steps().take_while(|(_, cause)| *cause == Cause::Tlb);
        tlbs.map(|(step, _)| step).collect()
    }

    /// Returns the least and the most that the pairs from twice the reach of a TLB on add, up to `end` pages, if pairs beyond it were left
    /// out, ns: where its rise ends is not known then.
    pub(crate) fn added_beyond(&self, capacity: &Capacity, end: f64) -> Option<(f64, f64)> {
        let range = capacity.onset.low..end;
        self.left_out.iter().find(|pages| range.contains(&(**pages as f64)))?;
        let far = PLATEAU_FROM * capacity.onset.high..end;
        let kept = |pair: &&Pair| far.contains(&(pair.pages as f64)) && !self.left_out.contains(&pair.pages);
        let added: Vec<f64> = self.pairs.iter().filter(kept).map(|pair| pair.extra).collect();
        Some((added.iter().copied().reduce(f64::min)?, added.iter().copied().reduce(f64::max)?))
    }

    /// Returns what a walk beyond the last TLB takes by one line in each page, if the two lines of each page come from memory, ns.
    /// Lines push page tables out of a cache. The order that keeps the two lines together reads a descriptor once in a lap, the other one twice,
    /// which finds it there more often: their difference is too small. By one line it has all that a descriptor costs.
    pub(crate) fn by_one_line(&self, capacity: &Capacity) -> Option<f64> {
        let from = PLATEAU_FROM * capacity.onset.high;
        let inside = self.pairs.iter().filter(|pair| pair.pages as f64 >= from && self.exact);
        let in_memory = inside.filter(|pair| pair.is_in_memory(&self.latency_curve));
        median(&in_memory.map(|pair| pair.with_one_line().extra).collect::<Vec<_>>())
    }

    /// Returns the standard error of the translation beyond a TLB, up to `end` pages, if it was read from loads in step with the refreshes of memory, ns.
    pub(crate) fn error_of_refreshes(&self, capacity: &Capacity, end: f64) -> Option<f64> {
        let beyond = capacity.onset.high..end;
        let in_memory = self.pairs.iter().filter(|pair| {
            self.exact && beyond.contains(&(pair.pages as f64)) && pair.is_in_memory(&self.latency_curve)
        });
        let lines: Vec<_> = in_memory.filter_map(|pair| pair.two_lines.as_ref()).collect();
        let least = refreshes::in_step(lines.iter().copied())?;
        median(&lines.iter().map(|lines| refreshes::error(lines, least)).collect::<Vec<_>>())
    }

    /// Returns the least number of pages that a TLB of this reach may hold, which adds from `before` to `beyond` ns. If pairs just before
    /// its end were left out, or are not on the plateau before it, the rise may begin there.
    pub(crate) fn least_reach(&self, capacity: &Capacity, (before, beyond): (f64, f64)) -> f64 {
        let low = capacity.onset.low;
        if !self.exact {
            return low;
        }
        let is_level = |pair: &&Pair| {
            (pair.extra - before).abs() <= MAX_OFF_PLATEAU * (beyond - before)
                && !self.left_out.contains(&pair.pages)
        };
        let inside = |pair: &&Pair| pair.pages as f64 <= low;
        let last = self.pairs.iter().rfind(inside);
        let level = self.pairs.iter().rfind(|pair| inside(pair) && is_level(pair));
        let hidden = capacity.onset.low..=capacity.onset.high;
        let in_bracket = self.left_out.iter().any(|pages| hidden.contains(&(*pages as f64)));
        level.filter(|level| in_bracket || last != Some(level)).map_or(low, |level| level.pages as f64)
    }

    /// Returns the tiers of pairs in huge pages, read like those in base pages: without conflicts of lines, and each rise as one step.
    pub(crate) fn huge_tiers(&self, pairs: &[Pair], scale: &Scale) -> Option<Reading> {
        let mut reading = conflicts::read(pairs, &self.latency_curve, scale.share).reading?;
        let steps = Steps::of(&self.latency_curve, pairs, &reading);
        let mut causes = vec![Cause::Tlb; reading.tiers.len() - 1];
        steps.join(&mut reading, &mut causes);
        Some(reading)
    }

    /// Returns the number of pages from which on walks take longer, and whether page tables were shown to be the cause.
    pub(crate) fn walks_grow_from(&self) -> Option<(f64, bool)> {
        let beyond = self.tlb_steps().last().map_or(0.0, |last| last.0.onset.high);
        let grows = || self.grows.filter(|(pages, _)| *pages > beyond);
        growth(self.translation_steps()).or_else(grows)
    }

    /// Returns the TLBs that the pairs show, as steps: capacities in bytes of base pages, times of a load that hits in
    /// the nearest cache.
    pub(crate) fn tlbs(&self, scale: &Scale) -> Vec<Step> {
        let Some(reading) = &self.translated else { return Vec::new() };
        let mut here = reading.tiers[0].latency.value;
        let mut all = Vec::new();
        for (capacity, beyond) in self.tlb_steps() {
            let (capacity, next) = (capacity.onset.scaled(scale.base as f64), beyond.latency.value);
            all.push(Step { capacity, here, next, in_pieces: self.splintered() });
            here = next;
        }
        all
    }
}
