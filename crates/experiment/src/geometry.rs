//! How a tier is built: its sets and ways, its line, its replacement.
//!
//! What a staircase found is taken apart level by level, nearest first, by loads whose addresses are known up
//! to a page: cells at a period fall into few sets, and where more of them fall into one than it has ways, they
//! miss ([`scan`]). No single threshold decides: every cache that could be there is asked what it would do with
//! each arrangement, and those that are contradicted are dropped ([`fathom_analysis::sets`]).

pub(crate) mod scan;

use fathom_analysis::interval::Interval;
use fathom_analysis::sets::{Geometry, Verdict};
use fathom_analysis::tiers::Reading;
use fathom_probe::machine::Pages;

use crate::common::scale::Scale;
use crate::record::Record;

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

/// The steps of a staircase.
pub(crate) fn steps(stairs: &Reading) -> Vec<Step> {
    let pairs = stairs.tiers.windows(2);
    pairs
        .filter_map(|pair| {
            let capacity = pair[0].capacity?.onset;
            Some(Step { capacity, here: pair[0].latency.value, next: pair[1].latency.value })
        })
        .collect()
}

/// What is known of the levels behind a staircase, nearest first; as far as the record has got.
pub(crate) fn levels(record: &Record, scale: &Scale, steps: &[Step]) -> Vec<Verdict> {
    let mut nearer: Option<Geometry> = None;
    let mut all = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        if index > 0 && nearer.is_none() {
            break;
        }
        let verdict = scan::read(record, scale, step, nearer);
        nearer = if let Verdict::One(one) = verdict { Some(one) } else { None };
        all.push(verdict);
    }
    all
}

/// The pages that cells lie in: huge ones, whose addresses are known far enough, where there are any.
pub(crate) fn pages(scale: &Scale) -> (Pages, u64) {
    scale.huge.map_or((Pages::Base, scale.base), |huge| (Pages::Huge, huge))
}

/// The trials that are wanted next; none when nothing more can be asked.
pub(crate) fn wanted(
    record: &Record,
    scale: &Scale,
    steps: &[Step],
    modelled: bool,
) -> Vec<fathom_probe::wire::Trial> {
    let known = levels(record, scale, steps);
    let mut nearer = None;
    for (index, verdict) in known.iter().enumerate() {
        let wanted = scan::wanted(record, scale, &steps[index], nearer, modelled);
        if !wanted.is_empty() {
            return wanted;
        }
        nearer = if let Verdict::One(one) = verdict { Some(*one) } else { None };
    }
    Vec::new()
}
