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
}

impl Stage {
    /// All, in order of time.
    pub const ALL: [Stage; 4] =
        [Stage::BeforeIrq, Stage::IrqToWakeup, Stage::WakeupToSwitch, Stage::SwitchToUser];

    /// The stable word for it.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Stage::BeforeIrq => "before-irq",
            Stage::IrqToWakeup => "irq-to-wakeup",
            Stage::WakeupToSwitch => "wakeup-to-switch",
            Stage::SwitchToUser => "switch-to-user",
        }
    }
}

/// An activation of which all stages were seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Staged {
    /// The number of its period.
    pub period: u64,
    /// us in each of [`Stage::ALL`].
    pub us: [f64; 4],
}

impl Staged {
    /// The whole of it, us.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.us.iter().sum()
    }
}

/// One of the worst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// It.
    pub activation: Staged,
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
    /// Activations with all stages.
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

/// Reads the stages of the worst `k`. Activations with a stage that is no number are left out; `None` where none
/// is left or asked for.
#[must_use]
pub fn read(activations: &[Staged], k: usize) -> Option<Reading> {
    let kept: Vec<&Staged> = activations.iter().filter(|a| a.us.iter().all(|us| us.is_finite())).collect();
    let stage = |of: &[&Staged], i: usize| of.iter().map(|a| a.us[i]).collect::<Vec<f64>>();
    let all = (0..4).map(|i| median_interval(&stage(&kept, i))).collect::<Option<Vec<Interval>>>()?;
    let mut latest = kept.clone();
    latest.sort_by(|a, b| b.total().total_cmp(&a.total()).then(a.period.cmp(&b.period)));
    latest.truncate(k);
    let worst: Vec<Worst> = latest.iter().map(|a| dominant(a, &all)).collect();
    let rows = Stage::ALL.iter().enumerate().map(|(i, &s)| {
        let dominates = worst.iter().filter(|w| w.dominant == s).count();
        Some(Row { stage: s, all: all[i], worst: median_interval(&stage(&latest, i))?, dominates })
    });
    Some(Reading { count: kept.len(), rows: rows.collect::<Option<Vec<Row>>>()?, worst })
}

fn dominant(activation: &Staged, all: &[Interval]) -> Worst {
    let above: Vec<f64> = activation.us.iter().zip(all).map(|(us, median)| us - median.value).collect();
    let most = (0..4).max_by(|&i, &j| above[i].total_cmp(&above[j])).unwrap_or(0);
    let whole: f64 = above.iter().sum();
    let share = if whole > 0.0 { (above[most] / whole).clamp(0.0, 1.0) } else { 0.0 };
    Worst { activation: *activation, dominant: Stage::ALL[most], share }
}
