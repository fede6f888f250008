//! The survey: what is the memory hierarchy of this machine?
//!
//! A chase over growing working sets (in the largest pages there are, so that translation stays out of
//! it) gives the latency curve; pairs of chains with one line a page and with the same lines packed give
//! the TLBs; a ladder of orders gives what prefetch gains; base pages against huge ones give the
//! share of translation. Claims are decoded from raw facts and stand beside what was measured.

mod claims;
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
use crate::record::Record;

use options::Options;
pub use reading::read;

/// The experiment's name.
pub const NAME: &str = "survey";

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "The whole memory hierarchy of a subject, in seconds: tiers, TLBs, prefetch, claims",
    help: "Examples:
  fathom survey                                   this machine, ten seconds
  fathom survey --budget 3s --record here.fathom  less time, and keep the record
  fathom survey --on bcm2711 --json               a described machine, for a script

Exit status: 0 done, 1 failed, 2 wrong command line or file, 3 done below the
quality bar (disturbed, cut short, less certain than promised), 5 all refused,
130 or 143 interrupted (the record and the report hold what there is)",
    options: options::ALL,
    default_budget: DefaultBudget::both(10_000),
    plan,
    read,
    report: &KIND,
    progress: None,
    resumes: false,
};

/// Share of the budget that finds the latency curve, the TLBs' reach and the orders; the rest asks how levels are built. On
/// hardware that takes some tenths of a second, and the plans between its rounds as long again.
const STAIRCASE: f64 = 0.8;
/// The same on a model, whose plans cost nothing.
const STAIRCASE_MODELLED: f64 = 0.95;
/// The same where replacement is asked too.
const STAIRCASE_DEEP: f64 = 0.6;

/// The next round; empty when nothing is left to ask or to spend.
///
/// Pure: the same record, seed and budget give the same round. `budget_ms` is wall time on hardware
/// and stands for accesses on a model (see [`crate::budget`]).
#[must_use]
pub fn plan(record: &Record, seed: u64, budget_ms: u64) -> Vec<Trial> {
    let replacement = Options::of(record).replacement;
    let share = match (replacement, Budget::of(record, budget_ms).modelled) {
        (true, _) => STAIRCASE_DEEP,
        (false, true) => STAIRCASE_MODELLED,
        (false, false) => STAIRCASE,
    };
    geometry::plan(record, (seed, budget_ms), share, |request| {
        let geometry::GeometryRequest { record, scale, curves, budget } = *request;
        geometry::wanted(record, scale, curves, budget, replacement)
    })
}

/// What its reports are.
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
};
