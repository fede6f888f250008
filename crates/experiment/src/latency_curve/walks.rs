//! Numbers of pages from which on page walks take longer.

use fathom_analysis::tiers::{Capacity, Tier};

use super::conflicts;
use super::descriptors::{Cause, Steps};
use super::translation::{self, Pair};
use crate::record::Record;
use crate::scale::{At, Scale};

/// Returns where the first step begins that is no end of a TLB, and whether page tables were shown to be the cause.
pub(super) fn growth(mut steps: impl Iterator<Item = ((Capacity, Tier), Cause)>) -> Option<(f64, bool)> {
    let (step, cause) = steps.find(|(_, cause)| *cause != Cause::Tlb)?;
    Some((step.0.onset.value, cause == Cause::Tables))
}

/// Returns where walks begin to take longer by one line in each page: in memory only, else everywhere. Two lines do not show that
/// clearly: each page is visited twice in a lap, so its table stays in a cache longer, and where tables begin to leave a cache, they do so
/// earlier in one order than in the other.
pub(super) fn grows_from(
    pairs: &[Pair],
    curve: &[At],
    record: &Record,
    scale: &Scale,
) -> Option<(f64, bool)> {
    if pairs.iter().all(|pair| pair.two_lines.is_none()) {
        return None;
    }
    let are_passes = |pair: &Pair| pair.two_lines.as_ref().is_some_and(|lines| lines.are_passes);
    let in_memory = |pair: &Pair| match are_passes(pair) || pair.is_in_memory(curve) {
        true => pair.with_one_line(),
        false => pair.clone(),
    };
    let by = |single: &dyn Fn(&Pair) -> Pair| {
        let single: Vec<Pair> = pairs.iter().map(single).collect();
        let reading = conflicts::read(&single, curve, scale.share).reading?;
        let causes = Steps::of(curve, &single, &reading).causes(record, scale);
        growth(translation::steps(&reading).zip(causes))
    };
    by(&in_memory).or_else(|| by(&Pair::with_one_line))
}
