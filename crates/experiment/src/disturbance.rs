//! Was the measurement disturbed, and by what?
//!
//! Everything here is counted by the probe round each trial; this file only judges. A trial counts as
//! disturbed when the measuring thread did not have its CPU for more than 2 % of the trial's wall
//! time; the measurement, when more than a tenth of its trials are, or when the cycle calibration or
//! repeated points disagree.

use fathom_analysis::interval::median;

use fathom_probe::machine::ClockTrust;
use fathom_probe::machine::dma::Engine;

use crate::environment;
use crate::record::{Record, TrialRun};

/// Share of a trial's wall time in which its thread may be off its CPU. 2 %: a tick and a few
/// interrupts take 0.1 to 0.5 %.
const LOST: f64 = 0.02;
/// Share of trials that may be disturbed: medians over samples and rounds withstand a tenth with room
/// to spare.
const TRIALS: f64 = 0.10;
/// Relative change of the cycle calibration inside one round that counts as drift. 1 %: half of what an L1
/// latency may be off before it must be flagged.
const DRIFT: f64 = 0.01;
/// Relative half-spread of the rounds' medians at one point, in the median over all repeated points.
const ROUNDS: f64 = 0.05;

/// The judgement.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Disturbance {
    /// Is the quality bar missed?
    pub disturbed: bool,
    /// Trials that were judged.
    pub trials: u64,
    /// What was seen, a sentence each; also where it stayed below the bar.
    pub causes: Vec<String>,
    /// What to do about it.
    pub remedy: String,
}

/// Judges a record: the watch of its trials, the cycle calibration `cycle_ticks` (round, trial, ticks a cycle)
/// and `repeats`, the medians of the trials at each point that was measured more than once.
#[must_use]
pub fn judge(record: &Record, cycle_ticks: &[(u64, u64, f64)], repeats: &[Vec<f64>]) -> Disturbance {
    if record.trust == Some(ClockTrust::Modelled) {
        // Nothing runs beside a described machine but what its trials name.
        let trials = record.trials.iter().filter(|r| r.done.is_some()).count() as u64;
        return Disturbance { trials, ..Disturbance::default() };
    }
    let mut d = Disturbance::default();
    let mut remedies: Vec<&str> = Vec::new();
    lost_time(record, &mut d, &mut remedies);
    drift(cycle_ticks, environment::clock_remedy(record), &mut d, &mut remedies);
    rounds(repeats, &mut d, &mut remedies);
    let mut said = Vec::new();
    remedies.retain(|r| {
        !said.contains(r) && {
            said.push(*r);
            true
        }
    });
    d.remedy = remedies.join("; ");
    d
}

fn lost_time(record: &Record, d: &mut Disturbance, remedies: &mut Vec<&str>) {
    // Who waits for a device has no need of a CPU.
    let waits = |r: &&TrialRun| r.transfers.channel.is_some_and(|channel| channel.engine != Engine::Nothing);
    let ran = record.trials.iter().filter(|r| !waits(r));
    let done: Vec<_> = ran.filter_map(|r| r.done.as_ref()).map(|d| d.watch).collect();
    d.trials = done.len() as u64;
    let lost = done.iter().filter(|w| {
        let off = w.wall_ns.saturating_sub(w.cpu_ns).max(w.steal_ns);
        off as f64 > LOST * w.wall_ns as f64
    });
    let lost = lost.count();
    // A record may come from anywhere: its sums must not overflow.
    let involuntary = done.iter().map(|w| w.involuntary).fold(0, u64::saturating_add);
    let steal = done.iter().map(|w| w.steal_ns).fold(0, u64::saturating_add);
    if lost > 0 || involuntary > 0 || steal > 0 {
        d.causes.push(format!(
            "{lost} of {} trials lost more than 2 % of their time; {involuntary} involuntary switches, {:.1} ms stolen",
            done.len(),
            steal as f64 / 1e6
        ));
    }
    if lost as f64 > TRIALS * done.len() as f64 {
        d.disturbed = true;
        // Who has given the priority already need not be told to.
        remedies.push(if environment::has_priority(record) {
            "stop other work on this machine"
        } else {
            "stop other work on this machine, or run as root so that the probe may raise its priority"
        });
        if steal > 0 {
            remedies.push("the hypervisor gives this guest's CPU to others: choose a quieter host");
        }
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
    if let Some((round, change)) = worst.filter(|w| w.1 > DRIFT) {
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
        && typical > ROUNDS
    {
        d.disturbed = true;
        d.causes.push(format!("rounds disagree by +-{:.1} % at the typical point", 100.0 * typical));
        remedies.push("stop other work on this machine");
    }
}

#[cfg(test)]
mod tests;
