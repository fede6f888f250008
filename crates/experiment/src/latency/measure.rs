//! Samples of a working set, converted to times.

use super::REFERENCE;
use crate::clock::resolution_ticks;
use crate::counted::TrialEvents;
use crate::reading::measured;
use crate::record::{Record, TrialRun};
use crate::scale::{MAX_CORE_CLOCKED_CYCLES, Scale};
use fathom_analysis::findings::{Basis, Finding};
use fathom_analysis::histogram::Group;
use fathom_analysis::interval::{Interval, grouped_interval, median_interval};
use fathom_analysis::metrics::common;
use fathom_units::size;

/// Ratio from which loads in random order are said to miss in the TLB, compared with an order that stays in few pages: a
/// quarter of the rise of a tier.
pub(super) const MIN_TLB_MISS_RATIO: f64 = 1.06;

/// The unit of times: core cycles if calibrated, else ns.
pub(super) struct Measure<'a> {
    pub(super) scale: &'a Scale,
    /// Ticks per unit, typically.
    pub(super) ticks: f64,
    /// Whether the core's clock may change. That of a described machine is fixed.
    pub(super) variable_clock: bool,
    /// The clock's resolution, units.
    pub(super) resolution: f64,
    pub(super) unit: &'static str,
}

/// One working set.
pub(super) struct Set {
    pub(super) bytes: u64,
    /// Untimed loads before each timed one, and timed loads per sample.
    pub(super) spacing: u64,
    pub(super) timed: u64,
    /// Single samples, raw, units per sample, with the trials' ids.
    pub(super) single: Vec<(u64, Vec<f64>)>,
    /// Units per load of the n/2n method: in random order, and in an order that any TLB holds.
    pub(super) random: Vec<(u64, Vec<f64>)>,
    /// Nanoseconds per load in random order.
    pub(super) random_ns: Vec<(u64, Vec<f64>)>,
    pub(super) window: Vec<(u64, Vec<f64>)>,
    /// Events per load in random order.
    pub(super) events: Vec<TrialEvents>,
}

impl Set {
    /// Returns the units per load in random order, over trials.
    pub(super) fn mean(&self) -> Option<Interval> {
        grouped_interval(&by_trial(&self.random))
    }

    /// Converts a sample's time to that of one load: if the clock is coarse, a sample times several loads.
    pub(super) fn per_load(&self, sample: f64) -> f64 {
        sample / self.timed as f64
    }
}

/// Returns the units per load in the first level: at the reference.
pub(super) fn nearest(sets: &[Set]) -> Option<Interval> {
    sets.iter().find(|set| set.bytes == REFERENCE)?.mean()
}

pub(super) fn joined(trials: &[(u64, Vec<f64>)]) -> Vec<f64> {
    trials.iter().flat_map(|t| t.1.iter().copied()).collect()
}

/// Returns the values of each trial separately.
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
        let variable_clock = unit == "cycles" && !record.is_modelled();
        Measure { scale, ticks, variable_clock, resolution: resolution_ticks(record) as f64 / ticks, unit }
    }

    /// Returns the ticks per unit while trial `id` ran, from the cycle calibrations around it, because a core's clock
    /// changes.
    pub(super) fn ticks_at(&self, id: u64) -> f64 {
        self.scale.cycle_at(id).filter(|_| self.variable_clock).unwrap_or(self.ticks)
    }

    /// Returns the units per load of a trial's samples, by the n/2n method.
    pub(super) fn times(&self, run: &TrialRun) -> Vec<f64> {
        let ticks = self.ticks_at(run.trial.id);
        run.ticks_per_op().map(|t| t / ticks).collect()
    }

    /// The same in nanoseconds. Loads on the core's clock are converted to its typical clock, others are unchanged.
    pub(super) fn nanoseconds(&self, run: &TrialRun) -> Vec<f64> {
        let ticks = self.ticks_at(run.trial.id);
        let with_core = run.ticks_per_op().all(|t| t / ticks < MAX_CORE_CLOCKED_CYCLES);
        let tick_ns = self.scale.tick_ns * if with_core { self.ticks / ticks } else { 1.0 };
        run.ticks_per_op().map(|t| t * tick_ns).collect()
    }

    /// Returns the units of a trial's single samples, raw.
    pub(super) fn raw(&self, run: &TrialRun) -> Vec<f64> {
        let ticks = self.ticks_at(run.trial.id);
        run.samples.iter().map(|s| s.ticks as f64 / ticks).collect()
    }

    /// Returns the sampled median of the reference less the time of its loads by the n/2n method.
    pub(super) fn bias(&self, sets: &[Set]) -> Option<Bias> {
        let set = sets.iter().find(|s| s.bytes == REFERENCE)?;
        let sampled = median_interval(&joined(&set.single))?;
        let mean = set.mean()?.scaled(set.timed as f64);
        let value = sampled.value - mean.value;
        // The median includes the clock's resolution error, even if all samples are equal.
        let half = self.resolution / 2.0;
        let value = Interval {
            value,
            low: value - (sampled.value - sampled.low).hypot(mean.high - mean.value).hypot(half),
            high: value + (sampled.high - sampled.value).hypot(mean.value - mean.low).hypot(half),
        };
        let trials = [ids(&set.single), ids(&set.random)].concat();
        Some(Bias { value, count: joined(&set.single).len(), trials })
    }
}

/// Time that the measurement adds to a sample.
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
            "median of single loads in {} less their time by the n/2n method; subtracted from every peak, not from the \
             histograms",
            size(REFERENCE as f64)
        ));
        row
    }
}

/// Returns the main peak per load without the bias. The error includes half the clock's resolution, even if all samples
/// are equal, and the interval of the bias.
pub(super) fn peak(group: &Group, timed: u64, bias: &Bias, measure: &Measure<'_>) -> Interval {
    let bias = bias.value;
    let (i, half) = (group.median, measure.resolution / 2.0);
    let value = i.value - bias.value;
    Interval {
        value,
        low: value - (i.value - i.low).hypot(bias.high - bias.value).hypot(half),
        high: value + (i.high - i.value).hypot(bias.value - bias.low).hypot(half),
    }
    .scaled(1.0 / timed as f64)
}
