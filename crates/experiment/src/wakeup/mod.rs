//! Wake-up latency: latency of a periodic real-time task, effect of co-running load, and stages that the time is lost
//! in.
//!
//! Study S3 compared no load, a load, and the load with two memory workers, at three places of a wake-up, and found the
//! cause by elimination. Here all places are observed for the same activation, the study's load is compared with pure
//! factors, and a randomised design gives the effect of each factor. "Memory pressure" is the study's term; memory
//! reclaim, which Linux calls pressure, is reported as stalls of each case.

mod attribution;
mod causes;
pub mod conditions;
mod equal;
mod headline;
mod imported;
mod named;
pub mod options;
mod plan;
mod progress;
mod reading;
mod series;
mod spot;
mod sweep;
mod sweep_rows;
mod trials;
mod view;

use fathom_analysis::findings::{Axis, Key};
use fathom_analysis::metrics;
use fathom_analysis::metrics::wakeup::condition;
use fathom_report::ReportKind;
use fathom_units::facts::Study;

pub use plan::plan;
pub use reading::read;

use crate::experiment::{DefaultBudget, Experiment};

/// The experiment's name.
pub const NAME: &str = "wakeup";

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Wake-up latency of a periodic real-time task, effect of co-running load, and causes",
    help: "Examples:
  fathom wakeup                           a minute: a mixed load and pure factors
  fathom wakeup --conditions unloaded,vm --period 100us
  fathom wakeup --load 'vm*4:64M cpu*2' --budget 20s
  fathom wakeup --sweep --budget 10m --record sweep.fathom
  fathom wakeup --resume sweep.fathom --budget 20m

The task sleeps until an absolute time, repeatedly. Each wake-up is recorded, and if the kernel's tracepoints are \
           readable, also the timer interrupt, the wake-up and the switch of the same activation. Real-time priority \
           needs a privilege; without it the remedy is reported. Exit status: as for survey.",
    options: options::ALL,
    default_budget: DefaultBudget::both(BUDGET_MS),
    plan,
    read,
    report: &KIND,
    compared,
    progress: Some(progress::latencies),
    resumes: true,
};

/// Returns the study, for a latency under one of the study's loads at one of its places.
fn compared(key: &Key) -> Option<Study> {
    let load = key.word(Axis::Condition)?;
    let place = key.word(Axis::Place)?;
    let load = [condition::STRESS_MIX, condition::STRESS_MIX_VM].contains(&load.as_str());
    (load && ["irq", "switch", "user"].contains(&place.as_str())).then_some(Study::S3)
}

/// Default period, ns: that of cyclictest, ten times the study's.
pub const PERIOD_NS: u64 = 1_000_000;
/// Default priority: above interrupt threads (50), below the kernel's own (99); the usual one of cyclictest.
pub const PRIORITY: u64 = 80;
/// Default budget, ms: a minute in total.
const BUDGET_MS: u64 = 60_000;

/// The kind of its reports.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[metrics::common::ALL, metrics::wakeup::ALL, metrics::claims::ALL],
    headline: headline::headline,
    view: view::view,
    together: None,
};
