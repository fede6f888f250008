//! Events per load that the machine counted during chases.

pub(crate) mod view;

use fathom_analysis::findings::{Finding, Key, Part, Report, Warning, WarningKind};
use fathom_analysis::interval::{Interval, median_interval};
use fathom_analysis::metrics::counted::EventMetrics;
use fathom_probe::machine::CountedEvent;
use fathom_probe::rows::EventCount;

use crate::reading::measured;
use crate::record::TrialRun;

/// Events per load from which most loads have the event.
pub(crate) const MOST: f64 = 0.5;
/// Events per load below which time cannot show them. Time shows misses from 6 % on: 0.18 cycles of a load that takes three
/// in the first level. A miss takes at most some 1000 cycles (assumed), so 2 in 10,000 loads must miss.
pub(crate) const HARDLY_ANY: f64 = 0.0002;

/// The events of a trial, per load.
pub(crate) struct TrialEvents {
    trial: u64,
    per_load: Vec<(CountedEvent, f64)>,
}

impl TrialEvents {
    /// Returns the events of a trial; `None` if none was counted.
    pub(crate) fn of(run: &TrialRun) -> Option<TrialEvents> {
        let (loads, samples) = (run.trial.loads, run.samples.len() as u64);
        // The difference of two runs may be below zero by chance, and the truth is not.
        let per_load = |counted: &EventCount| (counted.event, counted.per_operation(loads, samples).max(0.0));
        let events: Vec<_> = run.events.iter().map(per_load).collect();
        (!events.is_empty()).then_some(TrialEvents { trial: run.trial.id, per_load: events })
    }

    fn get(&self, event: CountedEvent) -> Option<f64> {
        self.per_load.iter().find(|(own, _)| *own == event).map(|(_, value)| *value)
    }
}

/// Returns the interval of an event per load over trials, with these trials.
pub(crate) fn interval(trials: &[TrialEvents], event: CountedEvent) -> Option<(Interval, Vec<u64>)> {
    let of = |trial: &TrialEvents| Some((trial.trial, trial.get(event)?));
    let (ids, values): (Vec<u64>, Vec<f64>) = trials.iter().filter_map(of).unzip();
    Some((median_interval(&values)?, ids))
}

/// Returns the key of an event at a coordinate along the metrics' axis, and its unit.
fn key(metrics: &EventMetrics, at: u64, event: CountedEvent) -> (Key, &'static str) {
    let at: Part<'_> = at.into();
    match event {
        CountedEvent::Instructions => (metrics.instructions.at([at]), "1/load"),
        CountedEvent::Accesses => (metrics.accesses.at([at]), "1/load"),
        CountedEvent::Refill(level) => (metrics.refills.at([at, level.into()]), "1/load"),
        CountedEvent::TlbRefill(tlb) => (metrics.tlb_refills.at([at, tlb.into()]), "1/load"),
        CountedEvent::TlbMisses => (metrics.tlb_misses.at([at]), "1/load"),
        CountedEvent::Walks => (metrics.walks.at([at]), "1/load"),
        CountedEvent::MemoryReads => (metrics.memory_reads.at([at]), "1/load"),
        CountedEvent::StallCycles => (metrics.stalls.at([at]), "cycles"),
    }
}

/// Returns the findings of the events at a coordinate, in the order in which the machine lists them.
pub(crate) fn rows(metrics: &EventMetrics, at: u64, trials: &[TrialEvents]) -> Vec<Finding> {
    let Some(first) = trials.first() else { return Vec::new() };
    let row = |(event, _): &(CountedEvent, f64)| {
        let (interval, ids) = interval(trials, *event)?;
        let (key, unit) = key(metrics, at, *event);
        Some(measured(key, interval, unit, ids.len(), &ids))
    };
    first.per_load.iter().filter_map(row).collect()
}

/// Warns of counts that contradict times, a sentence each.
pub(crate) fn warn(contradictions: &[String], report: &mut Report) {
    if contradictions.is_empty() {
        return;
    }
    report.warnings.push(Warning::new(
        WarningKind::CountsContradict,
        contradictions.join("; "),
        "trust neither before you know why: `fathom events` tells what the processor's events count and what they do not",
    ));
}

#[cfg(test)]
pub(crate) fn counted_in(trial: u64, per_load: &[(CountedEvent, f64)]) -> TrialEvents {
    TrialEvents { trial, per_load: per_load.to_vec() }
}
