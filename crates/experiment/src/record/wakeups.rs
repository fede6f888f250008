//! Wake-ups in a record, and the load that ran during a trial.

use fathom_probe::load::{LoadStats, Stalls};

use fathom_probe::machine::ActivationRow;
use fathom_probe::pattern::Wake;
use fathom_probe::rows::{ActivationRows, NearbyEvent};
use fathom_probe::wire::{Line, WireError};

use super::{Record, TrialRun};

/// The results of a trial of wake-ups, and the activity of the stressors during it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wakeups {
    /// Scheduled time of the first activation, ns of the machine's wake-up clock.
    pub first_ns: Option<u64>,
    /// Events that the tracer dropped because its buffer was full.
    pub lost: u64,
    /// The activations, in order. Once the trial is done: only the verified ones.
    pub woken: Vec<ActivationRow>,
    /// Events that ran near some of the activations.
    pub around: Vec<NearbyEvent>,
    /// Statistics of the stressors, a row each.
    pub load_stats: Vec<LoadStats>,
    /// How long tasks of the machine waited.
    pub stalls: Option<Stalls>,
}

impl Record {
    /// Adds a line of wake-ups, or of the load that ran during a trial.
    pub(super) fn take_wakes(&mut self, line: &Line) -> Result<(), WireError> {
        let held = match line.word.as_str() {
            "woken" => {
                let ActivationRows { trial, first_ns, lost, list } = ActivationRows::read(line)?;
                let bytes = size_of_val(list.as_slice());
                let wakeups = &mut self.running(trial)?.accept_rows_of("woken")?.wakeups;
                wakeups.first_ns = wakeups.first_ns.or(first_ns);
                wakeups.lost = wakeups.lost.saturating_add(lost);
                wakeups.woken.extend(list);
                bytes
            }
            "around" => {
                let (trial, around) = NearbyEvent::read(line)?;
                let bytes = size_of::<NearbyEvent>() + around.what.len();
                self.running(trial)?.wakeups.around.push(around);
                bytes
            }
            "load_stats" => {
                let (trial, load_stats) = LoadStats::read(line)?;
                self.running(trial)?.wakeups.load_stats.push(load_stats);
                size_of::<LoadStats>()
            }
            _ => {
                let (trial, stalls) = Stalls::read(line)?;
                self.running(trial)?.wakeups.stalls = Some(stalls);
                0
            }
        };
        self.held += held as u64;
        Ok(())
    }
}

impl Wakeups {
    /// Takes the activations out of the record.
    pub(super) fn take_woken(&mut self, trial: u64) -> ActivationRows {
        let list = std::mem::take(&mut self.woken);
        ActivationRows { trial, first_ns: self.first_ns, lost: self.lost, list }
    }
}

impl TrialRun {
    /// Keeps the activations whose work is verified. Their times stay right: an activation that is left out counts as
    /// skipped.
    pub(super) fn keep_verified_wakes(&mut self, woken: Vec<ActivationRow>, bad: &[usize]) {
        let every_ns = self.trial.or_default::<Wake>().wakes.every_ns;
        self.unverified += bad.len();
        let (mut passed, mut kept) = (0u64, Vec::with_capacity(woken.len() - bad.len()));
        for (i, mut woke) in woken.into_iter().enumerate() {
            if bad.binary_search(&i).is_ok() {
                passed = passed.saturating_add(woke.missed).saturating_add(woke.skipped).saturating_add(1);
            } else {
                let before = std::mem::take(&mut passed);
                if kept.is_empty() {
                    let later = before.saturating_mul(every_ns);
                    self.wakeups.first_ns = self.wakeups.first_ns.map(|ns| ns.saturating_add(later));
                } else {
                    woke.skipped = woke.skipped.saturating_add(before);
                }
                kept.push(woke);
            }
        }
        self.wakeups.woken = kept;
    }
}
