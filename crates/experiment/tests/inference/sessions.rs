//! Sessions on described machines, each run once for all tests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use fathom_analysis::findings::Report;
use fathom_experiment::record::Run;
use fathom_experiment::session::{InProcess, Plan, Session};
use fathom_experiment::{conflict, survey};
use fathom_model::Model;
use fathom_model::description::Description;

/// Budget of a session in ms, at 4000 accesses per ms: a quarter of the default of a survey, which is enough for most of these machines.
pub const BUDGET_MS: u64 = 10_000;

/// An experiment without options.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Experiment {
    Survey,
    Conflict,
}

impl Experiment {
    /// Returns its name and its plan.
    fn parts(self) -> (&'static str, Plan) {
        match self {
            Experiment::Survey => (survey::NAME, survey::plan),
            Experiment::Conflict => (conflict::NAME, conflict::plan),
        }
    }
}

/// Result of a session.
pub struct Measured {
    pub report: Report,
    /// Accesses of all trials.
    pub accesses: u64,
}

/// Sessions by experiment, description as text, and seed.
type Cache = Mutex<HashMap<(Experiment, String, u64), Arc<OnceLock<Measured>>>>;
static CACHE: LazyLock<Cache> = LazyLock::new(Cache::default);

/// Runs a session, or returns an earlier one with the same arguments. Concurrent tests wait for it. Beside neighbours each point has more
/// trials, so it has twice the budget.
fn session(experiment: Experiment, d: &Description, seed: u64) -> Arc<OnceLock<Measured>> {
    let key = (experiment, d.to_toml(), seed);
    let entry = Arc::clone(CACHE.lock().unwrap().entry(key).or_default());
    let times = if d.neighbours.is_empty() { 1 } else { 2 };
    entry.get_or_init(|| run(experiment, d, seed, times * BUDGET_MS));
    entry
}

/// Runs a session, and reads its record as the command does.
pub fn run(experiment: Experiment, d: &Description, seed: u64, budget_ms: u64) -> Measured {
    let (name, plan) = experiment.parts();
    let run = Run { experiment: name.into(), subject: d.name.clone(), seed, budget_ms, ..Run::default() };
    let (_, record) = InProcess::new(Session::new(plan, run)).run(&mut Model::new(d, seed));
    assert!(record.trials.iter().all(|t| t.unverified == 0), "{}: a sample without proof", d.name);
    let accesses = record.trials.iter().filter_map(|t| t.done).map(|d| d.watch.accesses).sum();
    let report = fathom_experiment::read(&record).expect("a record of a known experiment");
    Measured { report, accesses }
}

/// Measures a machine, or takes the earlier result, and calls `pass` with it.
pub fn measured<T>(
    experiment: Experiment,
    d: &Description,
    seed: u64,
    pass: impl FnOnce(&Measured) -> T,
) -> T {
    pass(session(experiment, d, seed).get().expect("it is initialised"))
}

/// Returns the report of a session.
pub fn report_of(experiment: Experiment, d: &Description, seed: u64) -> Report {
    measured(experiment, d, seed, |measured| measured.report.clone())
}

/// Calls `one` with every machine, on two threads.
pub fn for_each(all: &[Description], one: impl Fn(&Description) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(d) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    one(d);
                }
            });
        }
    });
}
