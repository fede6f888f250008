//! Stages of the worst wake-ups, from the programmed time of the timer to the task's own reading of the clock.

use crate::interval::{Interval, median_interval};

/// A stage of an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// From the programmed time of the timer to its interrupt: masked interrupts, idle states, a host that runs
    /// something else.
    BeforeIrq,
    /// From the interrupt to the wake-up of the task.
    IrqToWakeup,
    /// From the wake-up to the switch: scheduling and sections that disable preemption.
    WakeupToSwitch,
    /// From the switch to the task's own reading of the clock.
    SwitchToUser,
    /// Both of the last two, if the switch was not traced: a trace may lack the switch away from some threads.
    WakeupToUser,
}

impl Stage {
    /// Stages of an activation with a traced switch, in order of time.
    pub const SWITCHED: [Stage; 4] =
        [Stage::BeforeIrq, Stage::IrqToWakeup, Stage::WakeupToSwitch, Stage::SwitchToUser];
    /// Stages of an activation without a traced switch.
    pub const UNSWITCHED: [Stage; 3] = [Stage::BeforeIrq, Stage::IrqToWakeup, Stage::WakeupToUser];

    /// Returns the stable token.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Stage::BeforeIrq => "before-irq",
            Stage::IrqToWakeup => "irq-to-wakeup",
            Stage::WakeupToSwitch => "wakeup-to-switch",
            Stage::SwitchToUser => "switch-to-user",
            Stage::WakeupToUser => "wakeup-to-user",
        }
    }
}

/// Smallest share of activations with a traced switch for a reading of all four stages. With fewer, those with a switch
/// are not a fair sample, because it depends on the previous thread which switches a trace lacks.
const MIN_SWITCHED_SHARE: f64 = 0.9;

/// An activation with traced interrupt and wake-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StagedActivation {
    /// Number of its period.
    pub period: u64,
    /// Duration of each of [`Stage::UNSWITCHED`], us.
    pub us: [f64; 3],
    /// Time from the wake-up to the switch, us, if traced: a part of the last stage.
    pub switch: Option<f64>,
}

impl StagedActivation {
    /// Returns the total latency, us.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.us.iter().sum()
    }

    /// Returns its stages with their durations in us.
    #[must_use]
    pub fn stages(&self) -> Vec<(Stage, f64)> {
        let [before, to_wakeup, to_user] = self.us;
        match self.switch {
            Some(to_switch) => {
                let us = [before, to_wakeup, to_switch, to_user - to_switch];
                Stage::SWITCHED.into_iter().zip(us).collect()
            }
            None => Stage::UNSWITCHED.into_iter().zip(self.us).collect(),
        }
    }

    fn is_finite(&self) -> bool {
        self.us.iter().all(|us| us.is_finite()) && self.switch.is_none_or(f64::is_finite)
    }
}

/// One of the worst activations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// The activation.
    pub activation: StagedActivation,
    /// Stage with the largest excess over its own median over all activations: a stage that is always long does not
    /// explain a late activation.
    pub dominant: Stage,
    /// Excess of that stage over its median, as a share of the total excess over the sum of the medians.
    pub share: f64,
}

/// Statistics of a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Stage.
    pub stage: Stage,
    /// Median over all activations, us.
    pub all: Interval,
    /// Median over the worst, us.
    pub worst: Interval,
    /// Number of worst activations that it dominates.
    pub dominates: usize,
}

/// Result of the analysis.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Number of activations with all of these stages.
    pub count: usize,
    /// Worst activations, the largest latency first.
    pub worst: Vec<Worst>,
    /// One row per stage, in order of time.
    pub rows: Vec<Row>,
}

impl Reading {
    /// Returns the stage that dominates at least `share` (0 to 1) of the worst activations. `None` if they differ: then
    /// they have different causes, and no tail may be fitted.
    #[must_use]
    pub fn common(&self, share: f64) -> Option<Stage> {
        let common = self.rows.iter().max_by_key(|r| r.dominates)?;
        (common.dominates as f64 >= share * self.worst.len() as f64).then_some(common.stage)
    }
}

/// Analyses the stages of the worst `k` activations: all four if nearly all activations have a traced switch, else the
/// three that all have. Activations with a stage that is not a number are left out. `None` if none remains or `k` is 0.
#[must_use]
pub fn read(activations: &[StagedActivation], k: usize) -> Option<Reading> {
    let mut kept: Vec<StagedActivation> = activations.iter().filter(|a| a.is_finite()).copied().collect();
    let seen = kept.iter().filter(|a| a.switch.is_some()).count();
    if seen as f64 >= MIN_SWITCHED_SHARE * kept.len() as f64 {
        kept.retain(|a| a.switch.is_some());
    } else {
        kept.iter_mut().for_each(|a| a.switch = None);
    }
    let stages: Vec<Stage> = kept.first()?.stages().iter().map(|(stage, _)| *stage).collect();
    let median = |of: &[StagedActivation], i: usize| {
        median_interval(&of.iter().map(|a| a.stages()[i].1).collect::<Vec<f64>>())
    };
    let all = (0..stages.len()).map(|i| median(&kept, i)).collect::<Option<Vec<Interval>>>()?;
    let mut latest = kept.clone();
    latest.sort_by(|a, b| b.total().total_cmp(&a.total()).then(a.period.cmp(&b.period)));
    latest.truncate(k);
    let worst: Vec<Worst> = latest.iter().filter_map(|a| dominant(a, &all)).collect();
    let rows = stages.iter().zip(&all).enumerate().map(|(i, (&stage, &all))| {
        let dominates = worst.iter().filter(|w| w.dominant == stage).count();
        Some(Row { stage, all, worst: median(&latest, i)?, dominates })
    });
    Some(Reading { count: kept.len(), rows: rows.collect::<Option<Vec<Row>>>()?, worst })
}

fn dominant(activation: &StagedActivation, all: &[Interval]) -> Option<Worst> {
    let stages = activation.stages();
    let above = stages.iter().zip(all).map(|((stage, us), median)| (*stage, us - median.value));
    let total_excess: f64 = above.clone().map(|(_, us)| us).sum();
    let (dominant, largest) = above.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let share = if total_excess > 0.0 { (largest / total_excess).clamp(0.0, 1.0) } else { 0.0 };
    Some(Worst { activation: *activation, dominant, share })
}
