//! Command line of a worker process, and its error report.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use fathom_probe::load::{Load, Stressor};

use super::slots::{self, Slot, Tally};
use crate::process;
use crate::procfs::cpu_list;

/// Arguments of `fathom serve worker`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerOptions {
    /// Process id that the parent must have: the probe's.
    pub(crate) parent: u32,
    /// Index of the worker, from 0.
    pub(crate) slot: usize,
    /// CPUs that it runs on.
    pub(crate) cpus: Vec<u32>,
    /// Placement of a second thread, if the work has one.
    pub(crate) placement: Option<Placement>,
    /// Directory of its files, if it writes files.
    pub(crate) directory: PathBuf,
    /// The work.
    pub(crate) stressor: Stressor,
}

/// Placement of a second thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) cpu: u32,
    /// Whether it runs only while the CPU is otherwise idle: it is the measured CPU.
    pub(crate) idle: bool,
}

impl Placement {
    fn read(argument: &str) -> Option<Placement> {
        let (cpu, idle) = argument.strip_suffix(":idle").map_or((argument, false), |cpu| (cpu, true));
        Some(Placement { cpu: cpu.parse().ok()?, idle })
    }

    fn argument(self) -> String {
        format!("{}{}", self.cpu, if self.idle { ":idle" } else { "" })
    }
}

impl WorkerOptions {
    /// Returns the arguments.
    pub(crate) fn arguments(&self) -> Vec<std::ffi::OsString> {
        let placement = self.placement.map_or_else(|| "-".to_owned(), Placement::argument);
        let cpus = process::list(&self.cpus);
        let strings = [self.parent.to_string(), self.slot.to_string(), cpus, placement].map(Into::into);
        let load = Load { stressors: vec![self.stressor] };
        strings.into_iter().chain([self.directory.clone().into(), load.to_string().into()]).collect()
    }

    /// Parses the arguments.
    ///
    /// # Errors
    /// Returns a message if they are not those of a probe.
    pub fn read(arguments: &[String]) -> Result<WorkerOptions, String> {
        let malformed = || {
            "the arguments of `serve worker` come from the probe: PARENT SLOT CPUS CPU DIRECTORY STRESSOR"
                .to_owned()
        };
        let [parent, slot, cpus, placement, directory, load] = arguments else { return Err(malformed()) };
        let stressors = Load::parse(load)?.stressors;
        let [stressor] = stressors[..] else { return Err(malformed()) };
        Ok(WorkerOptions {
            parent: parent.parse().map_err(|_| malformed())?,
            slot: slot.parse().map_err(|_| malformed())?,
            cpus: cpu_list(cpus),
            placement: Placement::read(placement),
            directory: directory.into(),
            stressor,
        })
    }
}

/// Step at which a worker failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Requesting to be killed with its parent.
    Parent,
    /// Taking ordinary priority.
    Priority,
    /// Mapping memory.
    Memory,
    /// Opening its file.
    File,
    /// Writing its file.
    Write,
    /// Starting its second thread.
    Thread,
    /// Reading back what it has written to memory.
    ReadBack,
}

/// All stages with their messages, in the order of their numbers from 1.
const STAGES: [(Stage, &str); 7] = [
    (Stage::Parent, "cannot be made to end with its probe"),
    (Stage::Priority, "cannot become an ordinary process"),
    (Stage::Memory, "cannot map its memory"),
    (Stage::File, "cannot open a file"),
    (Stage::Write, "cannot write its file"),
    (Stage::Thread, "cannot start its second thread"),
    (Stage::ReadBack, "did not read back from memory what it wrote there"),
];

/// Reason why a worker cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkerError {
    pub(crate) stage: Stage,
    pub(crate) errno: i32,
}

impl WorkerError {
    pub(crate) fn new(stage: Stage, error: &io::Error) -> WorkerError {
        WorkerError { stage, errno: error.raw_os_error().unwrap_or(0) }
    }

    /// Reports the error to the probe.
    pub(super) fn report(self, slot: &Slot) {
        let number = STAGES.iter().position(|(stage, _)| *stage == self.stage).map_or(0, |at| at + 1);
        slot.stage.store(number as u32, Ordering::Relaxed);
        slot.errno.store(self.errno, Ordering::Relaxed);
        slot.state.store(slots::FAILED, Ordering::Release);
    }

    /// Returns the error in a slot, if any.
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
        let message =
            STAGES.iter().find(|(stage, _)| *stage == self.stage).map_or("", |(_, message)| message);
        match self.errno {
            0 => f.write_str(message),
            errno => write!(f, "{message} ({})", io::Error::from_raw_os_error(errno)),
        }
    }
}

/// Work that is prepared once, and then repeated forever.
pub(crate) trait Passes {
    /// Runs one pass. All of its work is counted before it returns.
    fn pass(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError>;
}
