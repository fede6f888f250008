//! Survey of the memory hierarchy: tiers, TLBs, prefetch, claims.
//!
//! A chase over growing working sets, in the largest available pages to keep translation out, gives the latency curve.
//! Pairs of chains, one with one line per page and one with the same number of lines packed, give the TLBs. Chases in
//! several orders give the gain of prefetch. Base pages against huge pages give the share of translation. Claims are
//! decoded from raw facts and compared with the measurements.

mod claims;
mod events;
mod headline;
pub mod options;
mod reading;
mod view;

use fathom_analysis::metrics;
use fathom_probe::pattern::Trial;
use fathom_report::ReportKind;

use crate::budget::Budget;
use crate::experiment::{DefaultBudget, Experiment};
use crate::geometry;
use crate::overlap;
use crate::record::Record;
use crate::set_fill;
use crate::window;

use options::Options;
pub use reading::read;

pub use fathom_analysis::metrics::survey::NAME;

/// Default budget on a description, ms: 160 million accesses, at most. Of 36 machines on which a survey of a quarter of that was wrong (wide
/// generator, seeds 570325 to 570606), 12 had all values right; most plans end before: of the 19 descriptions in `machines/`, 16 take
/// less than 13 s, and the others up to 31 (EPYC, Zen 3).
const MODELLED_MS: u64 = 40_000;

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "The whole memory hierarchy of a subject, in seconds: tiers, TLBs, prefetch, claims",
    help: "Examples:
  fathom survey                                  this machine, ten seconds
  fathom survey --budget 3s --record here.fathom  less time, and keep the record
  fathom survey --on bcm2711 --json              a described machine, for a script

Exit status: 0 done, 1 failed, 2 wrong command line or file, 3 done, with a
warning that lowers confidence (`fathom explain disturbed` names its exit status),
5 all refused, 130 or 143 interrupted (the record and the report are kept)",
    options: options::ALL,
    default_budget: DefaultBudget { hardware_ms: 10_000, modelled_ms: MODELLED_MS },
    plan,
    read,
    report: &KIND,
    compared: |_| None,
    progress: None,
    resumes: false,
};

/// Share of the budget for the latency curve, the TLB pairs and the access orders; the rest determines the geometry of
/// the levels. On hardware that takes some tenths of a second, and planning its rounds as long again.
const LATENCY_CURVE_SHARE: f64 = 0.8;
/// The same on a model, where planning is free.
const LATENCY_CURVE_SHARE_MODELLED: f64 = 0.95;
/// The same if replacement policies are requested too.
const LATENCY_CURVE_SHARE_REPLACEMENT: f64 = 0.6;

/// Returns the next round; empty if the plan is complete or the budget is spent.
///
/// Pure: the same record, seed and budget give the same round. `budget_ms` is wall time on hardware and counts accesses
/// on a model (see [`crate::budget`]).
#[must_use]
pub fn plan(record: &Record, seed: u64, budget_ms: u64) -> Vec<Trial> {
    let together = overlap::plan(record, (seed, budget_ms));
    if !together.is_empty() {
        return together;
    }
    let spaced = window::plan(record, (seed, budget_ms));
    if !spaced.is_empty() {
        return spaced;
    }
    let fills = set_fill::plan(record, (seed, budget_ms));
    if !fills.is_empty() {
        return fills;
    }
    let replacement = Options::of(record).replacement;
    let share = match (replacement, Budget::of(record, budget_ms).modelled) {
        (true, _) => LATENCY_CURVE_SHARE_REPLACEMENT,
        (false, true) => LATENCY_CURVE_SHARE_MODELLED,
        (false, false) => LATENCY_CURVE_SHARE,
    };
    geometry::plan(record, (seed, budget_ms), share, |request| {
        let geometry::GeometryRequest { record, scale, curves, budget } = *request;
        geometry::next_trials(record, scale, curves, budget, replacement)
    })
}

/// The kind of its reports.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[
        metrics::common::ALL,
        crate::latency_curve::METRICS,
        metrics::survey::ALL,
        crate::geometry::METRICS,
        metrics::claims::ALL,
    ],
    headline: headline::headline,
    view: view::view,
    together: None,
};
