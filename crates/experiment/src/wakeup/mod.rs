//! Wake-up latency: how late a periodic real-time task is woken, what co-running load adds, and where that time goes.
//!
//! Study S3 compared no load, a load, and the load with two memory workers, in three places of a wake-up, and found
//! the cause by leaving things out one by one. Here every place is seen of the same activation, the study's load
//! stands beside pure factors, and a randomised design says which of them costs how much. "Memory pressure" is the
//! study's word; reclaim, which is what Linux calls so, is seen in the stalls of each cell.

mod attribution;
mod causes;
pub mod conditions;
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

use fathom_analysis::metrics;
use fathom_report::ReportKind;

pub use plan::plan;
pub use reading::read;

use crate::experiment::{DefaultBudget, Experiment};

/// The experiment's name.
pub const NAME: &str = "wakeup";

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "How late a periodic real-time task is woken, what co-running load adds, and where that time goes",
    help: "Examples:
  fathom wakeup                                  a minute: the study's load against pure factors
  fathom wakeup --conditions none,vm --period 100us
  fathom wakeup --load 'vm*4:64M cpu*2' --budget 20s
  fathom wakeup --sweep --budget 10m --record sweep.fathom
  fathom wakeup --resume sweep.fathom --budget 20m

The task sleeps until an absolute time, again and again; each wake-up is kept,
and where the kernel's tracepoints may be read, the timer's interrupt, the
wake-up and the switch of the same activation too. Real-time priority needs a
privilege; without it the remedy is told. Exit status: as of the survey.",
    options: options::ALL,
    default_budget: DefaultBudget::both(BUDGET_MS),
    plan,
    read,
    report: &KIND,
    progress: Some(progress::latest),
    resumes: true,
};

/// Period where none is asked for, ns: cyclictest's default, and ten of the study's.
pub const EVERY_NS: u64 = 1_000_000;
/// Priority where none is asked for: above interrupt threads (50), below the kernel's own (99); cyclictest's usual.
pub const PRIORITY: u64 = 80;
/// Budget where none is given, ms: a minute in all.
const BUDGET_MS: u64 = 60_000;

/// What its reports are.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[metrics::common::ALL, metrics::wakeup::ALL, metrics::claims::ALL],
    headline: headline::headline,
    view: view::view,
};
