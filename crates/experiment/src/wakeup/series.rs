//! Converts recorded activations of one case to the input of `analysis::wakeup`.

use fathom_analysis::wakeup::Activation;
use fathom_analysis::wakeup::stages::StagedActivation;
use fathom_probe::load::Stalls;
use fathom_probe::machine::ActivationRow;
use fathom_probe::pattern::{PatternKind, Wake};

use super::conditions::Case;
use super::trials::PILOT_ROUND;
use crate::record::{Record, TrialRun};

/// The place (point in time) at which the latency of a wake-up is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The timer's interrupt handler.
    Irq,
    /// The task was made runnable.
    Wake,
    /// The kernel switched the CPU to the task.
    Switch,
    /// The task read the clock.
    User,
    /// The task finished walking its working set.
    Work,
}

impl Place {
    pub(super) const ALL: [Place; 5] = [Place::Irq, Place::Wake, Place::Switch, Place::User, Place::Work];

    pub(super) fn token(self) -> &'static str {
        match self {
            Place::Irq => "irq",
            Place::Wake => "wake",
            Place::Switch => "switch",
            Place::User => "user",
            Place::Work => "work",
        }
    }

    /// Returns the time since the scheduled time of the timer, ns.
    fn of(self, woke: &ActivationRow) -> Option<u64> {
        match self {
            Place::Irq => woke.irq_ns,
            Place::Wake => woke.wake_ns,
            Place::Switch => woke.switch_ns,
            Place::User => Some(woke.user_ns),
            Place::Work => Some(woke.work_ns),
        }
    }
}

/// An activation with the number of its period over all series, and its scheduled time, ns.
pub(super) struct Due<'a> {
    pub period: u64,
    pub at_ns: u64,
    pub woke: &'a ActivationRow,
    pub run: &'a TrialRun,
    pub nth: u64,
}

/// All series of one case.
pub(super) struct Series<'a> {
    pub runs: Vec<&'a TrialRun>,
}

impl<'a> Series<'a> {
    /// Returns those of a case, traced or not, without pilot series.
    pub(super) fn of(record: &'a Record, case: &Case, traced: bool) -> Series<'a> {
        let of = |run: &&TrialRun| {
            run.done.is_some()
                && run.trial.round > PILOT_ROUND
                && run.trial.is::<Wake>(|wake| wake.wakes.traced == traced)
                && case.is_of(&run.trial)
        };
        Series { runs: record.of(PatternKind::Wake).filter(of).collect() }
    }

    /// Returns those of the kernel's timerlat thread.
    pub(super) fn of_kernel(record: &'a Record) -> Series<'a> {
        let of = |run: &&TrialRun| {
            run.trial.round > PILOT_ROUND && run.trial.is::<Wake>(|wake| wake.wakes.timerlat)
        };
        Series { runs: record.of(PatternKind::Wake).filter(of).collect() }
    }

    pub(super) fn trials(&self) -> Vec<u64> {
        self.runs.iter().map(|run| run.trial.id).collect()
    }

    /// Returns the activations, in order, with consecutive period numbers. Time between two series is not counted.
    pub(super) fn due(&self) -> Vec<Due<'a>> {
        let mut all: Vec<Due<'a>> = Vec::new();
        for run in &self.runs {
            let every = run.trial.or_default::<Wake>().wakes.every_ns;
            let mut at_ns = run.wakeups.first_ns.unwrap_or(0);
            let mut period = all.last().map_or(0, |due| due.period + 1);
            for (i, woke) in run.wakeups.woken.iter().enumerate() {
                if i > 0 {
                    // Sums must not overflow for a hostile record. Activations that were left out on purpose are not
                    // missed.
                    let steps = woke.missed.saturating_add(woke.skipped).saturating_add(1);
                    at_ns = at_ns.saturating_add(steps.saturating_mul(every));
                    period = period.saturating_add(woke.missed).saturating_add(1);
                }
                all.push(Due { period, at_ns, woke, run, nth: i as u64 });
            }
        }
        all
    }

    /// Returns the latencies at a place, us.
    pub(super) fn at(&self, place: Place) -> Vec<Activation> {
        let one =
            |due: &Due| Some(Activation { period: due.period, us: place.of(due.woke)? as f64 / 1000.0 });
        self.due().iter().filter_map(one).collect()
    }

    /// Returns the activations whose interrupt and wake-up were traced.
    pub(super) fn staged(&self) -> Vec<StagedActivation> {
        self.due().iter().filter_map(staged).collect()
    }

    /// Returns the work of all stressors per second: passes, lines, faults, bytes.
    pub(super) fn rates(&self) -> [f64; 4] {
        let mut sums = [0.0; 4];
        let mut seconds = 0.0;
        for run in &self.runs {
            let longest = run.wakeups.load_stats.iter().map(|p| p.ns).max().unwrap_or(0);
            seconds += longest as f64 / 1e9;
            for p in &run.wakeups.load_stats {
                let all = [p.passes, p.lines, p.faults, p.bytes];
                sums.iter_mut().zip(all).for_each(|(sum, value)| *sum += value as f64);
            }
        }
        sums.map(|sum| if seconds > 0.0 { sum / seconds } else { 0.0 })
    }

    /// Returns the shares of time in which some task waited for a CPU, memory or I/O.
    pub(super) fn stalls(&self) -> Option<[f64; 3]> {
        let mut sums = [0.0; 3];
        let mut wall = 0.0;
        for run in &self.runs {
            let Stalls { cpu_us, memory_us, io_us, .. } = run.wakeups.stalls?;
            wall += run.wakeups.load_stats.iter().map(|p| p.ns).max()? as f64 / 1000.0;
            sums.iter_mut().zip([cpu_us, memory_us, io_us]).for_each(|(sum, us)| *sum += us as f64);
        }
        (wall > 0.0).then(|| sums.map(|sum| sum / wall))
    }
}

/// Returns the stages of an activation.
pub(super) fn staged(due: &Due) -> Option<StagedActivation> {
    let ActivationRow { irq_ns, wake_ns, switch_ns, user_ns, .. } = *due.woke;
    let (irq, wake) = (irq_ns?, wake_ns?);
    let us = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1000.0;
    Some(StagedActivation {
        period: due.period,
        us: [us(0, irq), us(irq, wake), us(wake, user_ns)],
        switch: switch_ns.map(|switch| us(wake, switch.min(user_ns))),
    })
}
