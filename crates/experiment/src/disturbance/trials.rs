//! The trials that were disturbed, each with the first cause.
//!
//! What is no input: page faults, because those of a trial are its own (memory that it maps, or touches first), and tasks
//! that waited for a CPU while a trial ran on its own. The trial makes the tasks of its CPU wait, and those of other
//! CPUs take nothing from it but shared caches and bandwidth, which shows in the rounds.

use std::collections::BTreeMap;

use fathom_analysis::interval::median;
use fathom_probe::machine::Watch;
use fathom_probe::machine::dma::Engine;
use fathom_probe::pattern::PatternKind;

use super::MAX_OFF_CPU;
use crate::environment;
use crate::record::{Record, TrialRun};

/// One in so many of a trial's samples may contain a switch to another task, which costs the sample its caches: as for the
/// trials of a finding.
const MAX_SWITCHED: u64 = 3;
/// Relative difference of the cycle calibrations before and after a trial above which its clock is not known. Half of it
/// is the largest error of the interpolation: 2.5 %, half of what rounds may disagree by.
const MAX_CLOCK_CHANGE: f64 = 0.05;

/// Why a trial is disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its thread did not have its CPU for too long, or during too many of its samples.
    LostCpu,
    /// 2n operations took less time than n.
    Contradicted,
    /// The core clock changed between the calibrations before and after it.
    Clock,
    /// Other tasks waited for a CPU, though no load ran.
    OtherWork,
}

impl Cause {
    /// Every cause, the first that applies first.
    pub(super) const ALL: [Cause; 4] = [Cause::LostCpu, Cause::Contradicted, Cause::Clock, Cause::OtherWork];

    /// Returns what is said of the trials with this cause, after their number.
    pub(super) fn about(self) -> &'static str {
        match self {
            Cause::LostCpu => "lost the CPU to other tasks or to the hypervisor",
            Cause::Contradicted => "took less time for 2n operations than for n",
            Cause::Clock => "ran while the core clock changed by more than 5 %",
            Cause::OtherWork => "without load ran while other tasks waited for a CPU",
        }
    }
}

/// Returns whether the trial's thread sleeps on purpose: until a timer expires, or until a device is ready.
pub(super) fn sleeps(run: &TrialRun) -> bool {
    let waits_for_device = run.transfers.channel.is_some_and(|channel| channel.engine != Engine::Nothing);
    waits_for_device || run.trial.kind() == PatternKind::Wake
}

/// Returns the time that a thread that does not sleep was off its CPU, ns.
pub(super) fn off_cpu(watch: &Watch) -> f64 {
    watch.wall_ns.saturating_sub(watch.cpu_ns).max(watch.steal_ns) as f64
}

/// Returns whether a trial did not have its CPU for too long, or during too many of its samples.
fn lost_cpu(run: &TrialRun, watch: &Watch) -> bool {
    let off = if sleeps(run) { watch.steal_ns as f64 } else { off_cpu(watch) };
    let samples = run.samples.len().max(run.transfers.rows.len()).max(run.wakeups.woken.len());
    let switched = samples > 0 && watch.involuntary.saturating_mul(MAX_SWITCHED) > samples as u64;
    switched || off > MAX_OFF_CPU * watch.wall_ns as f64
}

/// Returns the disturbed trials of a record, in order. `cycle_ticks` is the cycle calibration: round, trial, ticks per
/// cycle.
pub(super) fn disturbed(record: &Record, cycle_ticks: &[(u64, u64, f64)]) -> Vec<(u64, Cause)> {
    let others_waited = environment::others_waited(record);
    let calibrations = calibrations(cycle_ticks);
    let cause = |run: &TrialRun| {
        let done = run.done.as_ref()?;
        let kind = run.trial.kind();
        let on_core_clock = !matches!(kind, PatternKind::Alu | PatternKind::Clock | PatternKind::Wake);
        let alone = kind == PatternKind::Wake && run.trial.beside.load.is_none();
        if lost_cpu(run, &done.watch) {
            Some(Cause::LostCpu)
        } else if run.contradicted.is_some() {
            Some(Cause::Contradicted)
        } else if on_core_clock && clock_changed(&calibrations, run.trial.id) {
            Some(Cause::Clock)
        } else {
            (alone && others_waited).then_some(Cause::OtherWork)
        }
    };
    record.trials.iter().filter_map(|run| Some((run.trial.id, cause(run)?))).collect()
}

/// Returns the median of each trial of the cycle calibration.
fn calibrations(cycle_ticks: &[(u64, u64, f64)]) -> BTreeMap<u64, f64> {
    let mut samples: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (_, id, ticks) in cycle_ticks {
        samples.entry(*id).or_default().push(*ticks);
    }
    samples.into_iter().filter_map(|(id, ticks)| Some((id, median(&ticks)?))).collect()
}

/// Returns whether the calibrations before and after a trial differ too much. The end of a session may lack the latter.
fn clock_changed(calibrations: &BTreeMap<u64, f64>, id: u64) -> bool {
    let before = calibrations.range(..id).next_back();
    let after = calibrations.range(id..).next();
    let (Some((_, before)), Some((_, after))) = (before, after) else { return false };
    let change = before.max(*after) / before.min(*after) - 1.0;
    change > MAX_CLOCK_CHANGE
}

#[cfg(test)]
mod tests;
