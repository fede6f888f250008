//! Ladders (`--ladder`): the same loads in other orders, pages and placements, and with prefetchers off.

use fathom_analysis::findings::{Finding, Item, Key, Metric, Report};
use fathom_analysis::histogram::{groups, main_group};
use fathom_analysis::interval::grouped_interval;
use fathom_analysis::metrics::latency;
use fathom_probe::machine::{Controls, Pages};
use fathom_probe::pattern::{Chase, Memory, OrderKind, PatternKind, Single, Trial, Walk};
use fathom_probe::splitmix::mix;

use super::measure::{Bias, Measure, by_trial, ids, joined, peak};
use super::options::{Ladder, Options};
use super::sizes::requested;
use crate::reading::{measured, number};
use crate::record::{Record, TrialRun};

/// Steps of the ladder of orders. `stride` measures constant strides.
const ORDERS: [OrderKind; 3] = [OrderKind::Random, OrderKind::Window, OrderKind::Sequential];
/// Steps of the ladder of placements.
pub const PLACEMENTS: usize = 6;
/// Single loads per trial of a ladder step: a quarter of the main trial's, because only the peak is needed.
const SINGLE_LOADS: u64 = 250;

/// One ladder step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LadderStep {
    Order(OrderKind),
    Page(Pages),
    /// The nth placement, from 1.
    Placement(usize),
    /// Prefetchers on or off.
    Prefetch(bool),
}

impl LadderStep {
    /// Returns the keys of its mean and of its peak; the ladder of placements has no peak.
    fn keys(self, bytes: u64) -> (Key, Option<Key>) {
        use latency as m;
        let size = bytes.into();
        let both = |time: &'static Metric, peak: &'static Metric, word: &str| {
            (time.at([size, word.into()]), Some(peak.at([size, word.into()])))
        };
        match self {
            LadderStep::Order(order) => both(&m::LATENCY_ORDER_TIME, &m::LATENCY_ORDER_PEAK, order.token()),
            LadderStep::Page(page) => both(&m::LATENCY_PAGE_TIME, &m::LATENCY_PAGE_PEAK, page.token()),
            LadderStep::Placement(n) => (m::LATENCY_PLACEMENT_TIME.at([size, n.into()]), None),
            LadderStep::Prefetch(on) => {
                let word = if on { "on" } else { "off" };
                both(&m::LATENCY_PREFETCH_TIME, &m::LATENCY_PREFETCH_PEAK, word)
            }
        }
    }
}

fn ladder_steps(ladder: Ladder) -> Vec<LadderStep> {
    match ladder {
        Ladder::Order => ORDERS.map(LadderStep::Order).to_vec(),
        Ladder::Page => Pages::ALL.iter().map(|p| LadderStep::Page(*p)).collect(),
        Ladder::Placement => (1..=PLACEMENTS).map(LadderStep::Placement).collect(),
        Ladder::Prefetch => [true, false].map(LadderStep::Prefetch).to_vec(),
    }
}

fn requested_ladders(record: &Record) -> Vec<Ladder> {
    let requested = Options::of(record).ladders;
    Ladder::ALL.into_iter().filter(|l| requested.contains(l)).collect()
}

/// Returns the placements of the ladder of placements, empty if not requested. They are the same in every round, to
/// separate differences between placements from those between rounds.
pub(super) fn places(record: &Record) -> Vec<u64> {
    let Some(run) = record.run.as_ref().filter(|_| requested_ladders(record).contains(&Ladder::Placement))
    else {
        return Vec::new();
    };
    // As wide as the places that rounds draw, and never 0, which means no place.
    (1..=PLACEMENTS as u64).map(|n| (mix(run.seed ^ mix(n ^ 0x91ace)) >> 40) | 1).collect()
}

/// Returns the trials of a working set's ladder steps, without those that its three basic trials (single loads, random,
/// window) cover.
pub(super) fn trials(base: &[Trial; 3], record: &Record) -> Vec<Trial> {
    let [single, random, window] = base;
    if !requested(record).contains(&random.memory.bytes) {
        return Vec::new();
    }
    let single = Trial { samples: SINGLE_LOADS, ..single.clone() };
    let mut trials = Vec::new();
    for ladder in requested_ladders(record) {
        match ladder {
            Ladder::Order => {
                trials.extend(ascending(random, &single));
                trials.push(walked(&single, window.pattern.walk()));
            }
            Ladder::Page => {
                for trial in [random, &single] {
                    let memory = Memory { page: Pages::Huge, ..trial.memory };
                    trials.push(Trial { memory, ..trial.clone() });
                }
            }
            Ladder::Placement => {
                let at = |place| Trial { memory: Memory { place, ..random.memory }, ..random.clone() };
                trials.extend(places(record).into_iter().map(at));
            }
            Ladder::Prefetch => {
                let on = ascending(random, &single);
                let controls = Controls { prefetch: false, ..Controls::default() };
                trials.extend(on.iter().map(|t| Trial { controls, ..t.clone() }));
                // Ascending loads are also a step of the ladder of orders, and measured once.
                if !requested_ladders(record).contains(&Ladder::Order) {
                    trials.extend(on);
                }
            }
        }
    }
    trials
}

/// Returns the same loads in ascending order.
fn ascending(random: &Trial, single: &Trial) -> [Trial; 2] {
    [random, single].map(|t| walked(t, OrderKind::Sequential.into()))
}

/// Returns the same loads in another order.
fn walked(trial: &Trial, walk: Walk) -> Trial {
    let mut trial = trial.clone();
    match trial.get_mut::<Single>() {
        Some(single) => single.walk = walk,
        None => trial.pattern = Chase::over(walk).into(),
    }
    trial
}

/// Returns the ladder step of a trial; `None` if it is one of a working set's basic trials.
pub(super) fn ladder_step(trial: &Trial, places: &[u64]) -> Option<LadderStep> {
    let single = trial.kind() == PatternKind::Single;
    match (trial.memory.page, trial.pattern.walk().order) {
        _ if !trial.controls.prefetch => Some(LadderStep::Prefetch(false)),
        (Pages::Huge, _) => Some(LadderStep::Page(Pages::Huge)),
        (_, order @ OrderKind::Sequential) => Some(LadderStep::Order(order)),
        (_, order @ OrderKind::Window) if single => Some(LadderStep::Order(order)),
        _ => places.iter().position(|p| *p == trial.memory.place).map(|n| LadderStep::Placement(n + 1)),
    }
}

/// Returns whether a trial belongs to this ladder step. Random order in base pages belongs to two ladders, and is
/// measured once.
fn belongs(trial: &Trial, of: LadderStep, places: &[u64]) -> bool {
    match (ladder_step(trial, places), of) {
        (Some(LadderStep::Order(order)), LadderStep::Prefetch(true)) => order == OrderKind::Sequential,
        (Some(step), of) => step == of,
        (None, LadderStep::Order(order)) => trial.pattern.walk().order == order,
        (None, LadderStep::Page(page)) => {
            trial.pattern.walk().order == OrderKind::Random && page == Pages::Base
        }
        (None, LadderStep::Placement(_) | LadderStep::Prefetch(_)) => false,
    }
}

/// Adds the findings of the requested ladders.
pub(super) fn rows(record: &Record, bias: Option<&Bias>, measure: &Measure<'_>, report: &mut Report) {
    let places = places(record);
    let mut sizes = requested(record);
    sizes.sort_unstable();
    sizes.dedup();
    for ladder in requested_ladders(record) {
        for &bytes in &sizes {
            for ladder_step in ladder_steps(ladder) {
                let of =
                    |r: &&TrialRun| r.trial.memory.bytes == bytes && belongs(&r.trial, ladder_step, &places);
                let runs: Vec<&TrialRun> = record.trials.iter().filter(of).collect();
                report.findings.extend(one(ladder_step.keys(bytes), &runs, bias, measure));
            }
        }
    }
}

/// Returns a ladder step's mean and main peak; a row without a value if it was refused.
fn one(
    (time, peak_key): (Key, Option<Key>),
    runs: &[&TrialRun],
    bias: Option<&Bias>,
    measure: &Measure<'_>,
) -> Vec<Finding> {
    let of = |pattern: PatternKind, values: &dyn Fn(&TrialRun) -> Vec<f64>| -> Vec<(u64, Vec<f64>)> {
        let done = runs.iter().filter(|r| r.trial.kind() == pattern && !r.samples.is_empty());
        done.map(|r| (r.trial.id, values(r))).collect()
    };
    let times = of(PatternKind::Chase, &|r| measure.nanoseconds(r));
    let single = of(PatternKind::Single, &|r| measure.raw(r));
    let mut rows = Vec::new();
    if let Some(mean) = grouped_interval(&by_trial(&times)) {
        rows.push(measured(time, mean, "ns", joined(&times).len(), &ids(&times)));
    } else if let Some((reason, remedy)) = runs.iter().find_map(|r| r.refusal.as_ref()) {
        let mut row = number(time, f64::NAN, "ns");
        row.detail.set(latency::REFUSED, Item::Flag(true));
        let remedy = if remedy.is_empty() { String::new() } else { format!("; {remedy}") };
        row.notes.push(format!("refused: {reason}{remedy}"));
        rows.push(row);
    }
    let timed = runs.iter().find_map(|r| r.trial.get::<Single>()).map_or(1, |single| single.timed);
    let raw = joined(&single);
    if let Some(((main, bias), key)) = main_group(&groups(&raw, measure.resolution)).zip(bias).zip(peak_key) {
        let main = peak(main, timed.max(1), bias, measure);
        rows.push(measured(key, main, measure.unit, raw.len(), &ids(&single)));
    }
    rows
}
