//! Samples of a working set, and what they are as times.

use super::REFERENCE;
use crate::clock::step_ticks;
use crate::reading::measured;
use crate::record::{Record, TrialRun};
use crate::scale::{MAX_CORE_CLOCKED_CYCLES, Scale};
use fathom_analysis::findings::{Basis, Finding};
use fathom_analysis::histogram::Group;
use fathom_analysis::interval::{Interval, grouped_interval, median_interval};
use fathom_analysis::metrics::common;
use fathom_probe::machine::ClockTrust;
use fathom_units::size;

/// The units that times come in here: core cycles where they were calibrated, else ns.
pub(super) struct Measure<'a> {
    pub(super) scale: &'a Scale,
    /// Ticks a unit, typically.
    pub(super) ticks: f64,
    /// May the core's clock move? A described one does not.
    pub(super) moving: bool,
    /// The clock's step, units.
    pub(super) stride: f64,
    pub(super) unit: &'static str,
}

/// One working set.
pub(super) struct Set {
    pub(super) bytes: u64,
    /// Untimed loads before each timed one, and timed ones a sample.
    pub(super) spacing: u64,
    pub(super) timed: u64,
    /// Single samples, raw, units a sample, with the trials' ids.
    pub(super) single: Vec<(u64, Vec<f64>)>,
    /// Units a load of the n/2n method: random order, and an order that any TLB holds.
    pub(super) random: Vec<(u64, Vec<f64>)>,
    /// Nanoseconds a load of random order.
    pub(super) random_ns: Vec<(u64, Vec<f64>)>,
    pub(super) window: Vec<(u64, Vec<f64>)>,
}

impl Set {
    /// A sample's time as a load's: where the clock is coarse, a sample times several.
    pub(super) fn a_load(&self, sample: f64) -> f64 {
        sample / self.timed as f64
    }
}

pub(super) fn joined(trials: &[(u64, Vec<f64>)]) -> Vec<f64> {
    trials.iter().flat_map(|t| t.1.iter().copied()).collect()
}

/// The values of each trial by itself.
pub(super) fn by_trial(trials: &[(u64, Vec<f64>)]) -> Vec<Vec<f64>> {
    trials.iter().map(|t| t.1.clone()).collect()
}

pub(super) fn ids(trials: &[(u64, Vec<f64>)]) -> Vec<u64> {
    trials.iter().map(|t| t.0).collect()
}

impl<'a> Measure<'a> {
    pub(super) fn of(record: &Record, scale: &'a Scale) -> Measure<'a> {
        let (ticks, unit) = match scale.cycle() {
            Some(cycle) => (cycle, "cycles"),
            None => (1.0 / scale.tick_ns, "ns"),
        };
        let moving = unit == "cycles" && record.trust != Some(ClockTrust::Modelled);
        Measure { scale, ticks, moving, stride: step_ticks(record) as f64 / ticks, unit }
    }

    /// Ticks a unit while trial `id` ran: by the cycle calibrations around it, because a core's clock moves.
    pub(super) fn ticks_at(&self, id: u64) -> f64 {
        self.scale.cycle_at(id).filter(|_| self.moving).unwrap_or(self.ticks)
    }

    /// Units a load of a trial's samples, by the n/2n method.
    pub(super) fn times(&self, run: &TrialRun) -> Vec<f64> {
        let ticks = self.ticks_at(run.trial.id);
        run.ticks_per_op().map(|t| t / ticks).collect()
    }

    /// The same in nanoseconds: what is clocked with the core as at its typical clock, the rest as it was.
    pub(super) fn nanoseconds(&self, run: &TrialRun) -> Vec<f64> {
        let ticks = self.ticks_at(run.trial.id);
        let with_core = run.ticks_per_op().all(|t| t / ticks < MAX_CORE_CLOCKED_CYCLES);
        let tick_ns = self.scale.tick_ns * if with_core { self.ticks / ticks } else { 1.0 };
        run.ticks_per_op().map(|t| t * tick_ns).collect()
    }

    /// Units of a trial's single samples, raw.
    pub(super) fn raw(&self, run: &TrialRun) -> Vec<f64> {
        let ticks = self.ticks_at(run.trial.id);
        run.samples.iter().map(|s| s.ticks as f64 / ticks).collect()
    }

    /// The sampled median of the reference less what its loads take by the n/2n method.
    pub(super) fn bias(&self, sets: &[Set]) -> Option<Bias> {
        let set = sets.iter().find(|s| s.bytes == REFERENCE)?;
        let sampled = median_interval(&joined(&set.single))?;
        let mean = grouped_interval(&by_trial(&set.random))?.scaled(set.timed as f64);
        let value = sampled.value - mean.value;
        // The clock's step is in the sampled median, however many samples agree.
        let half = self.stride / 2.0;
        let value = Interval {
            value,
            low: value - (sampled.value - sampled.low).hypot(mean.high - mean.value).hypot(half),
            high: value + (sampled.high - sampled.value).hypot(mean.value - mean.low).hypot(half),
        };
        let trials = [ids(&set.single), ids(&set.random)].concat();
        Some(Bias { value, count: joined(&set.single).len(), trials })
    }
}

/// What timing adds to a sample.
pub(super) struct Bias {
    pub(super) value: Interval,
    pub(super) count: usize,
    pub(super) trials: Vec<u64>,
}

impl Bias {
    pub(super) fn row(&self, measure: &Measure<'_>) -> Finding {
        let mut row = measured(&common::BIAS_SAMPLE, self.value, measure.unit, self.count, &self.trials);
        row.basis = Basis::Derived;
        row.notes.push(format!(
            "median of single loads in {} less their time by the n/2n method; taken off every peak, not off the \
             histograms",
            size(REFERENCE as f64)
        ));
        row
    }
}

/// The main peak without the bias, a load. A clock that moves in steps shows a time to half of one, however
/// many samples agree; with that, the bias's own interval is in the peak's.
pub(super) fn peak(group: &Group, timed: u64, bias: &Bias, measure: &Measure<'_>) -> Interval {
    let off = bias.value;
    let (i, half) = (group.median, measure.stride / 2.0);
    let value = i.value - off.value;
    Interval {
        value,
        low: value - (i.value - i.low).hypot(off.high - off.value).hypot(half),
        high: value + (i.high - i.value).hypot(off.value - off.low).hypot(half),
    }
    .scaled(1.0 / timed as f64)
}
