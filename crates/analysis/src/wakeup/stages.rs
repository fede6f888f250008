//! Where the worst wake-ups went: the stages of the same activation, from the time the timer was set for to the
//! task's own reading of the clock.

use crate::interval::{Interval, median_interval};

/// A stage of an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// From the time the timer was set for to its interrupt: masked interrupts, idle states, a host that runs
    /// something else.
    BeforeIrq,
    /// From the interrupt to the wake-up of the task.
    IrqToWakeup,
    /// From the wake-up to the switch: scheduling, and what may not be preempted.
    WakeupToSwitch,
    /// From the switch to the task's own reading of the clock.
    SwitchToUser,
    /// The last two in one, where the switch was not seen: a trace may hide how some thread gives the CPU away.
    WakeupToUser,
}

impl Stage {
    /// Those of an activation whose switch was seen, in order of time.
    pub const SWITCHED: [Stage; 4] =
        [Stage::BeforeIrq, Stage::IrqToWakeup, Stage::WakeupToSwitch, Stage::SwitchToUser];
    /// Those of an activation whose switch was not.
    pub const UNSWITCHED: [Stage; 3] = [Stage::BeforeIrq, Stage::IrqToWakeup, Stage::WakeupToUser];

    /// The stable word for it.
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

/// Share of the activations whose switch must have been seen for a reading of all four stages. Of fewer, those seen
/// are no fair sample: which switches a trace hides depends on what ran before.
const SEEN: f64 = 0.9;

/// An activation of which the interrupt and the wake-up were seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StagedActivation {
    /// The number of its period.
    pub period: u64,
    /// us in each of [`Stage::UNSWITCHED`].
    pub us: [f64; 3],
    /// us from the wake-up to the switch, where that was seen: a part of the last.
    pub switch: Option<f64>,
}

impl StagedActivation {
    /// The whole of it, us.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.us.iter().sum()
    }

    /// Its stages with their us, as far as they were seen.
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

/// One of the worst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// It.
    pub activation: StagedActivation,
    /// The stage that lies furthest above its own median over all activations: a stage that is always long
    /// explains no late one.
    pub dominant: Stage,
    /// What that stage has above its median, as a share of what the whole has above the sum of the medians.
    pub share: f64,
}

/// What a stage takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Which.
    pub stage: Stage,
    /// Median over all activations, us.
    pub all: Interval,
    /// Median over the worst, us.
    pub worst: Interval,
    /// Of how many of the worst it is the dominant one.
    pub dominates: usize,
}

/// What the stages say.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Activations with all of these stages.
    pub count: usize,
    /// The worst, the latest first.
    pub worst: Vec<Worst>,
    /// One a stage, in order of time.
    pub rows: Vec<Row>,
}

impl Reading {
    /// Do the worst have one dominant stage? The stage that at least `share` (0 to 1) of them have; `None` where
    /// they differ: then they have different causes, and no tail may be fitted over them.
    #[must_use]
    pub fn common(&self, share: f64) -> Option<Stage> {
        let most = self.rows.iter().max_by_key(|r| r.dominates)?;
        (most.dominates as f64 >= share * self.worst.len() as f64).then_some(most.stage)
    }
}

/// Reads the stages of the worst `k`: the four of those activations whose switch was seen, where nearly all have it,
/// and otherwise the three that all have. Activations with a stage that is not a number are left out; `None` where none
/// is left or asked for.
#[must_use]
pub fn read(activations: &[StagedActivation], k: usize) -> Option<Reading> {
    let mut kept: Vec<StagedActivation> = activations.iter().filter(|a| a.is_finite()).copied().collect();
    let seen = kept.iter().filter(|a| a.switch.is_some()).count();
    if seen as f64 >= SEEN * kept.len() as f64 {
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
    let whole: f64 = above.clone().map(|(_, us)| us).sum();
    let (dominant, most) = above.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let share = if whole > 0.0 { (most / whole).clamp(0.0, 1.0) } else { 0.0 };
    Some(Worst { activation: *activation, dominant, share })
}
