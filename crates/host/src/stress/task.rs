//! What a worker is told to do, and how it says that it cannot.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use fathom_probe::load::{Load, Stressor};

use super::slots::{self, Slot, Tally};
use crate::process;
use crate::procfs::cpu_list;

/// What a worker is told: the words behind `fathom serve worker`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerOptions {
    /// The probe's process: the parent that it must have.
    pub(crate) parent: u32,
    /// Which worker it is, from 0.
    pub(crate) slot: usize,
    /// The CPUs that it runs on.
    pub(crate) cpus: Vec<u32>,
    /// Where a second thread runs, if the work has one.
    pub(crate) placement: Option<Placement>,
    /// Where it writes files, if it does.
    pub(crate) directory: PathBuf,
    /// What it does.
    pub(crate) stressor: Stressor,
}

/// The place of a second thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) cpu: u32,
    /// Only while nothing else wants to run there: it is the measured CPU.
    pub(crate) idle: bool,
}

impl Placement {
    fn read(word: &str) -> Option<Placement> {
        let (cpu, idle) = word.strip_suffix(":idle").map_or((word, false), |cpu| (cpu, true));
        Some(Placement { cpu: cpu.parse().ok()?, idle })
    }

    fn word(self) -> String {
        format!("{}{}", self.cpu, if self.idle { ":idle" } else { "" })
    }
}

impl WorkerOptions {
    /// The words.
    pub(crate) fn words(&self) -> Vec<std::ffi::OsString> {
        let placement = self.placement.map_or_else(|| "-".to_owned(), Placement::word);
        let cpus = process::list(&self.cpus);
        let plain = [self.parent.to_string(), self.slot.to_string(), cpus, placement].map(Into::into);
        let load = Load { stressors: vec![self.stressor] };
        plain.into_iter().chain([self.directory.clone().into(), load.to_string().into()]).collect()
    }

    /// Reads the words.
    ///
    /// # Errors
    /// A sentence where they are not those of a probe.
    pub fn read(words: &[String]) -> Result<WorkerOptions, String> {
        let wrong = || {
            "the words of `serve worker` are the probe's own: PARENT SLOT CPUS CPU DIRECTORY STRESSOR"
                .to_owned()
        };
        let [parent, slot, cpus, placement, directory, load] = words else { return Err(wrong()) };
        let stressors = Load::parse(load)?.stressors;
        let [stressor] = stressors[..] else { return Err(wrong()) };
        Ok(WorkerOptions {
            parent: parent.parse().map_err(|_| wrong())?,
            slot: slot.parse().map_err(|_| wrong())?,
            cpus: cpu_list(cpus),
            placement: Placement::read(placement),
            directory: directory.into(),
            stressor,
        })
    }
}

/// What a worker was at when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Asking to be killed with its parent.
    Parent,
    /// Becoming an ordinary process.
    Priority,
    /// Mapping memory.
    Memory,
    /// Opening its file.
    File,
    /// Writing to it.
    Write,
    /// Starting its second thread.
    Thread,
    /// Finding in memory what it has written there.
    ReadBack,
}

/// All of them with their words, in the order of their numbers from 1.
const STAGES: [(Stage, &str); 7] = [
    (Stage::Parent, "cannot be made to end with its probe"),
    (Stage::Priority, "cannot become an ordinary process"),
    (Stage::Memory, "cannot map its memory"),
    (Stage::File, "cannot open a file"),
    (Stage::Write, "cannot write its file"),
    (Stage::Thread, "cannot start its second thread"),
    (Stage::ReadBack, "did not read back from memory what it wrote there"),
];

/// Why a worker cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkerError {
    pub(crate) stage: Stage,
    pub(crate) errno: i32,
}

impl WorkerError {
    pub(crate) fn new(stage: Stage, error: &io::Error) -> WorkerError {
        WorkerError { stage, errno: error.raw_os_error().unwrap_or(0) }
    }

    /// Tells it to the probe.
    pub(super) fn tell(self, slot: &Slot) {
        let number = STAGES.iter().position(|(stage, _)| *stage == self.stage).map_or(0, |at| at + 1);
        slot.stage.store(number as u32, Ordering::Relaxed);
        slot.errno.store(self.errno, Ordering::Relaxed);
        slot.state.store(slots::FAILED, Ordering::Release);
    }

    /// What a slot tells of it.
    pub(crate) fn read(slot: &Slot) -> Option<WorkerError> {
        if slot.state.load(Ordering::Acquire) != slots::FAILED {
            return None;
        }
        let number = slot.stage.load(Ordering::Relaxed) as usize;
        let (stage, _) = STAGES.get(number.checked_sub(1)?)?;
        Some(WorkerError { stage: *stage, errno: slot.errno.load(Ordering::Relaxed) })
    }
}

impl std::fmt::Display for WorkerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = STAGES.iter().find(|(stage, _)| *stage == self.stage).map_or("", |(_, words)| words);
        match self.errno {
            0 => f.write_str(words),
            errno => write!(f, "{words} ({})", io::Error::from_raw_os_error(errno)),
        }
    }
}

/// A kind of work that is prepared, and then done forever.
pub(crate) trait Rounds {
    /// One round. Whatever it does is counted before it returns.
    fn round(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError>;
}
