//! A worker's process, from its first instruction to the signal that ends it.

use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use fathom_probe::load::{Load, Stressor};
use rustix::thread::CpuSet;

use super::rounds::prepare;
use super::slots::{self, Slot, Slots, Tally};
use crate::process;
use crate::quiet;
use crate::read::{Root, cpu_list};

/// What a worker is told: the words behind `fathom serve worker`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orders {
    /// The probe's process: the parent that it must have.
    pub(crate) parent: u32,
    /// Which worker it is, from 0.
    pub(crate) slot: usize,
    /// The CPUs that it runs on.
    pub(crate) cpus: Vec<u32>,
    /// Where a second thread runs, if the work has one.
    pub(crate) aside: Option<Aside>,
    /// Where it writes files, if it does.
    pub(crate) directory: PathBuf,
    /// What it does.
    pub(crate) stressor: Stressor,
}

/// The place of a second thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aside {
    pub(crate) cpu: u32,
    /// Only while nothing else wants to run there: it is the measured CPU.
    pub(crate) idle: bool,
}

impl Aside {
    fn read(word: &str) -> Option<Aside> {
        let (cpu, idle) = word.strip_suffix(":idle").map_or((word, false), |cpu| (cpu, true));
        Some(Aside { cpu: cpu.parse().ok()?, idle })
    }

    fn word(self) -> String {
        format!("{}{}", self.cpu, if self.idle { ":idle" } else { "" })
    }
}

impl Orders {
    /// The words.
    pub(crate) fn words(&self) -> Vec<std::ffi::OsString> {
        let aside = self.aside.map_or_else(|| "-".to_owned(), Aside::word);
        let cpus = process::list(&self.cpus);
        let plain = [self.parent.to_string(), self.slot.to_string(), cpus, aside].map(Into::into);
        let load = Load { stressors: vec![self.stressor] };
        plain.into_iter().chain([self.directory.clone().into(), load.to_string().into()]).collect()
    }

    /// Reads the words.
    ///
    /// # Errors
    /// A sentence where they are not those of a probe.
    pub fn read(words: &[String]) -> Result<Orders, String> {
        let wrong = || {
            "the words of `serve worker` are the probe's own: PARENT SLOT CPUS CPU DIRECTORY STRESSOR"
                .to_owned()
        };
        let [parent, slot, cpus, aside, directory, load] = words else { return Err(wrong()) };
        let stressors = Load::parse(load)?.stressors;
        let [stressor] = stressors[..] else { return Err(wrong()) };
        Ok(Orders {
            parent: parent.parse().map_err(|_| wrong())?,
            slot: slot.parse().map_err(|_| wrong())?,
            cpus: cpu_list(cpus),
            aside: Aside::read(aside),
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

/// Why a worker cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) stage: Stage,
    pub(crate) errno: i32,
}

impl Trouble {
    pub(crate) fn new(stage: Stage, error: &io::Error) -> Trouble {
        Trouble { stage, errno: error.raw_os_error().unwrap_or(0) }
    }

    /// Tells it to the probe.
    fn tell(self, slot: &Slot) {
        let number = STAGES.iter().position(|(stage, _)| *stage == self.stage).map_or(0, |at| at + 1);
        slot.stage.store(number as u32, Ordering::Relaxed);
        slot.errno.store(self.errno, Ordering::Relaxed);
        slot.state.store(slots::FAILED, Ordering::Release);
    }

    /// What a slot tells of it.
    pub(crate) fn read(slot: &Slot) -> Option<Trouble> {
        if slot.state.load(Ordering::Acquire) != slots::FAILED {
            return None;
        }
        let number = slot.stage.load(Ordering::Relaxed) as usize;
        let (stage, _) = STAGES.get(number.checked_sub(1)?)?;
        Some(Trouble { stage: *stage, errno: slot.errno.load(Ordering::Relaxed) })
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = STAGES.iter().find(|(stage, _)| *stage == self.stage).map_or("", |(_, words)| words);
        match self.errno {
            0 => f.write_str(words),
            errno => write!(f, "{words} ({})", io::Error::from_raw_os_error(errno)),
        }
    }
}

/// Does a worker's work, with the probe's slots as standard input, until it is killed. Returns only where it cannot,
/// and why.
#[must_use]
pub fn work(orders: &Orders) -> String {
    let slots = match Slots::of(io::stdin().as_fd()) {
        Ok(slots) => slots,
        Err(e) => {
            return format!("a worker is started by its probe, with its memory as standard input ({e})");
        }
    };
    let Some(slot) = slots.workers().get(orders.slot) else {
        return format!("there is no slot {} in this memory", orders.slot);
    };
    let Err(trouble) = rounds(orders, &slots, slot);
    trouble.tell(slot);
    format!("the worker {} {trouble}", Load { stressors: vec![orders.stressor] })
}

fn rounds(orders: &Orders, slots: &Slots, slot: &Slot) -> Result<std::convert::Infallible, Trouble> {
    end_with(orders.parent)?;
    become_ordinary(orders)?;
    let mut work = prepare(orders)?;
    slot.state.store(slots::READY, Ordering::Release);
    slots.wait();
    let mut tally = Tally::new(slot);
    // What it cost to get here is no part of the load.
    tally.tell();
    slot.state.store(slots::WORKING, Ordering::Release);
    loop {
        work.round(&mut tally)?;
    }
}

/// A worker that the kernel does not kill with its probe must not begin.
fn end_with(parent: u32) -> Result<(), Trouble> {
    match process::follow_parent(Some(parent)) {
        Ok(outcome) => outcome.map_err(|e| Trouble::new(Stage::Parent, &e.into())),
        Err(_) => Err(Trouble { stage: Stage::Parent, errno: 0 }),
    }
}

/// First to be killed when memory runs out, without priority, on the load's CPUs: whatever the probe is.
fn become_ordinary(orders: &Orders) -> Result<(), Trouble> {
    // What comes of it the probe's own fact tells: who may not raise this here could not there.
    process::volunteer(&Root::system());
    let failed = |e: io::Error| Trouble::new(Stage::Priority, &e);
    quiet::ordinary().map_err(failed)?;
    pin(&orders.cpus).map_err(|e| failed(e.into()))?;
    // Seen in traces and by `ps`: which load ran. A name has 15 bytes at most (prctl(2)).
    if let Ok(name) = std::ffi::CString::new(format!("fathom-{}", orders.stressor.kind.token())) {
        let _ = rustix::thread::set_name(&name);
    }
    Ok(())
}

/// Keeps the calling thread on these CPUs.
pub(crate) fn pin(cpus: &[u32]) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    let known = cpus.iter().map(|&cpu| cpu as usize).filter(|&cpu| cpu < CpuSet::MAX_CPU);
    known.for_each(|cpu| set.set(cpu));
    if set.count() == 0 {
        return Ok(());
    }
    rustix::thread::sched_setaffinity(None, &set)
}
