//! Judges whether the measurement was disturbed, by what, and which findings suffer: one rule for every experiment.
//!
//! The probe counts everything around each trial; this module only judges.
//!
//! - A trial is disturbed (module `trials`) if it lost its CPU, if its samples contradict each other, if the core clock
//!   changed around it, or, for wake-ups without a load, if other tasks waited for a CPU.
//! - A finding is doubtful (module `findings`) if more than a third of its trials were disturbed.
//! - The session is `unusable` if half of its trials lost their CPU, or if its rounds disagree so much that one level of
//!   the memory may be taken for another. It is `noisy` if a finding is doubtful, or if anything shows that other work
//!   ran or that the core clock changed. Else it is `ok`.
//!
//! The finding `disturbed` is an older verdict on the session as a whole: yes if more than a tenth of the trials lost their
//! CPU, if the cycle calibration drifts within a round, or if repeated points disagree. Such a session is not `ok`.

mod findings;
mod trials;

use fathom_analysis::interval::median;
use fathom_analysis::metrics::common::DisturbanceState;

use crate::environment;
use crate::record::Record;

pub(crate) use findings::mark;
use trials::{Cause, sleeps};

/// Share of a trial's wall time that its thread may be off its CPU. 2 %: a tick and a few interrupts take 0.1 to 0.5 %.
const MAX_OFF_CPU: f64 = 0.02;
/// Share of trials that may be disturbed. Medians over samples and rounds tolerate a tenth easily.
const MAX_DISTURBED_TRIALS: f64 = 0.10;
/// Share of trials without their CPU from which on the session is unusable: no median tolerates half.
const UNUSABLE_TRIALS: f64 = 0.5;
/// Relative change of the cycle calibration within one round that counts as drift. 1 %: half the error of an L1 latency
/// that must be flagged.
const MAX_DRIFT: f64 = 0.01;
/// Relative half-spread of the rounds' medians at one point that counts as disagreement, in the median over all
/// repeated points.
const MAX_ROUND_SPREAD: f64 = 0.05;
/// The same, from which on the session is unusable. 25 %: the slowest round is then 1.7 times the fastest. Tiers are told
/// apart from a ratio of 1.25 on, so one may be taken for the next.
const UNUSABLE_ROUND_SPREAD: f64 = 0.25;

/// The judgement of a record.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Disturbance {
    /// What the disturbance does to the findings, as far as the session as a whole shows it.
    pub state: DisturbanceState,
    /// Whether the measurement is disturbed as a whole: the finding `disturbed`.
    pub disturbed: bool,
    /// Number of trials.
    pub judged: u64,
    /// Number of those whose thread did not sleep on purpose, by which `disturbed` is judged.
    pub trials: u64,
    /// Observations during the trials, one sentence each, also below the limits.
    pub causes: Vec<String>,
    /// Observations during the session, beyond their limits, one sentence each.
    pub environment: Vec<String>,
    /// How to avoid the disturbance.
    pub remedy: String,
}

/// Judges a record: the watch data of its trials, its environment, the cycle calibration `cycle_ticks` (round, trial,
/// ticks per cycle) and `repeats`, the medians of the trials at each point that was measured more than once.
#[must_use]
pub fn judge(record: &Record, cycle_ticks: &[(u64, u64, f64)], repeats: &[Vec<f64>]) -> Disturbance {
    let judged = record.trials.iter().filter(|run| run.done.is_some()).count() as u64;
    if record.is_modelled() {
        // On a described machine nothing runs but the trials' own load.
        return Disturbance { judged, trials: judged, ..Disturbance::default() };
    }
    let environment = environment::disturbances(record);
    let mut d = Disturbance { judged, environment, ..Disturbance::default() };
    let mut remedies: Vec<&str> = Vec::new();
    lost_time(record, &mut d, &mut remedies);
    drift(cycle_ticks, environment::clock_remedy(record), &mut d, &mut remedies);
    rounds(repeats, &mut d, &mut remedies);
    disturbed_trials(record, cycle_ticks, &mut d);
    if d.disturbed || !d.environment.is_empty() {
        d.state = d.state.max(DisturbanceState::Noisy);
    }
    let mut seen = Vec::new();
    remedies.retain(|r| {
        !seen.contains(r) && {
            seen.push(*r);
            true
        }
    });
    d.remedy = remedies.join("; ");
    d
}

fn lost_time(record: &Record, d: &mut Disturbance, remedies: &mut Vec<&str>) {
    let done = || record.trials.iter().filter_map(|r| Some((r, r.done.as_ref()?.watch)));
    let ran: Vec<_> = done().filter(|(run, _)| !sleeps(run)).map(|(_, watch)| watch).collect();
    d.trials = ran.len() as u64;
    let lost = ran.iter().filter(|watch| trials::off_cpu(watch) > MAX_OFF_CPU * watch.wall_ns as f64).count();
    // A record may come from anywhere: its sums must not overflow.
    let involuntary = done().map(|(_, w)| w.involuntary).fold(0, u64::saturating_add);
    let steal = done().map(|(_, w)| w.steal_ns).fold(0, u64::saturating_add);
    if lost > 0 || involuntary > 0 || steal > 0 {
        d.causes.push(format!(
            "{lost} of {} trials were off the CPU for more than 2 % of their time; {involuntary} involuntary switches, {:.1} ms stolen",
            ran.len(),
            steal as f64 / 1e6
        ));
    }
    if lost as f64 > MAX_DISTURBED_TRIALS * ran.len() as f64 {
        d.disturbed = true;
        // The advice to raise the priority is left out if it is raised already.
        remedies.push(if environment::has_priority(record) {
            "stop other work on this machine"
        } else {
            "stop other work on this machine, or run as root so that the probe may raise its priority"
        });
        if steal > 0 {
            remedies.push("the hypervisor runs other guests on this CPU: choose a quieter host");
        }
    }
}

/// Judges the session by its disturbed trials.
fn disturbed_trials(record: &Record, cycle_ticks: &[(u64, u64, f64)], d: &mut Disturbance) {
    let judged = d.judged;
    let all = trials::disturbed(record, cycle_ticks);
    let of = |cause: Cause| all.iter().filter(|(_, of)| *of == cause).count();
    let counts: Vec<String> = Cause::ALL
        .into_iter()
        .filter(|cause| of(*cause) > 0)
        .map(|cause| format!("{} {}", of(cause), cause.about()))
        .collect();
    if !counts.is_empty() {
        d.causes.push(format!("{} of {judged} trials were disturbed: {}", all.len(), counts.join("; ")));
    }
    let lost = of(Cause::LostCpu) + of(Cause::Contradicted);
    if lost as f64 > MAX_DISTURBED_TRIALS * judged as f64 {
        d.state = d.state.max(DisturbanceState::Noisy);
    }
    if lost > 0 && lost as f64 >= UNUSABLE_TRIALS * judged as f64 {
        d.state = DisturbanceState::Unusable;
    }
}

fn drift(
    cycle_ticks: &[(u64, u64, f64)],
    remedy: &'static str,
    d: &mut Disturbance,
    remedies: &mut Vec<&str>,
) {
    let mut worst: Option<(u64, f64)> = None;
    // Sorted once: a hostile record has thousands of rounds.
    let mut sorted = cycle_ticks.to_vec();
    sorted.sort_by_key(|c| (c.0, c.1));
    for of in sorted.chunk_by(|a, b| a.0 == b.0) {
        let round = of[0].0;
        let each = |one: &[(u64, u64, f64)]| median(&one.iter().map(|c| c.2).collect::<Vec<_>>());
        let cycle_calibrations: Vec<f64> = of.chunk_by(|a, b| a.1 == b.1).filter_map(each).collect();
        let low = cycle_calibrations.iter().copied().fold(f64::INFINITY, f64::min);
        let high = cycle_calibrations.iter().copied().fold(0.0, f64::max);
        if low.is_finite() && low > 0.0 && worst.is_none_or(|w| high / low - 1.0 > w.1) {
            worst = Some((round, high / low - 1.0));
        }
    }
    if let Some((round, change)) = worst.filter(|w| w.1 > MAX_DRIFT) {
        d.disturbed = true;
        d.causes.push(format!("the core clock changed by {:.1} % inside round {round}", 100.0 * change));
        remedies.push(remedy);
    }
}

fn rounds(repeats: &[Vec<f64>], d: &mut Disturbance, remedies: &mut Vec<&str>) {
    let spread: Vec<f64> = repeats
        .iter()
        .filter_map(|m| {
            let (low, high) = m.iter().fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(*v), h.max(*v)));
            Some((high - low) / 2.0 / median(m)?)
        })
        .collect();
    if let Some(typical) = median(&spread)
        && typical > MAX_ROUND_SPREAD
    {
        d.disturbed = true;
        if typical >= UNUSABLE_ROUND_SPREAD {
            d.state = DisturbanceState::Unusable;
        }
        d.causes.push(format!("rounds disagree by +-{:.1} % at the median point", 100.0 * typical));
        remedies.push("stop other work on this machine");
    }
}

#[cfg(test)]
mod tests;
