//! The core's cycle counter as a clock, where user space can be granted the right to read it.
//!
//! Two ways lead to that right, both for the pinned thread alone: the kernel's own grant
//! ([`CycleCounter::grant`]), and our own driver. The counter is the core's, so it is the clock only where the core's
//! rate stands still.

use std::rc::Rc;
use std::time::Duration;

use fathom_probe::machine::{Fact, Refusal};

use crate::arch::{Architecture, Cpu, CycleCounter};
use crate::clock::{self, Source};
use crate::driver::{Driver, Presence};
use crate::facts::text;
use crate::read::Root;

/// The counter of this architecture.
type Counter = <Cpu as Architecture>::Cycles;

/// The right to read the counter; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Cycles {
    /// Who granted it, in words.
    pub(crate) how: String,
    reader: <Counter as CycleCounter>::Reader,
    right: Right,
}

/// Who granted it.
#[derive(Debug)]
enum Right {
    Kernel(<Counter as CycleCounter>::Grant),
    Driver(Grant),
}

/// The driver's grant, given back when this is dropped.
#[derive(Debug)]
struct Grant(Rc<Driver>);

/// Sleeps in which the thread is switched from and to again, which gives a right back.
const AGAIN: u32 = 3;
const MOMENT: Duration = Duration::from_micros(50);

/// Additions by which the counter must move when it is tried.
const ADDITIONS: u64 = 1 << 12;

impl Cycles {
    /// Asks for the right, for the calling thread, pinned to `cpu`, and tries it; and what came of it, as a fact where
    /// there is such a counter.
    pub(crate) fn obtain(root: &Root, driver: &Presence, cpu: u32) -> (Option<Cycles>, Option<Fact>) {
        if !Counter::READABLE {
            return (None, None);
        }
        let outcome = standing(root, cpu).and_then(|()| Cycles::granted(root, driver, cpu));
        let reported = match &outcome {
            Ok(cycles) => cycles.how.clone(),
            Err(why) => format!("not the clock: {why}"),
        };
        (outcome.ok(), Some(text("clock.cycles", reported)))
    }

    fn granted(root: &Root, driver: &Presence, cpu: u32) -> Result<Cycles, String> {
        let prepared = Counter::prepare();
        let reader =
            prepared.map_err(|error| format!("an illegal instruction cannot be caught ({error})"))?;
        let (right, how) = match Counter::grant(root, cpu) {
            Ok((grant, how)) => (Right::Kernel(grant), how),
            Err(why) => by_driver(driver, cpu, &why).map(|(grant, how)| (Right::Driver(grant), how))?,
        };
        let cycles = Cycles { how, reader, right };
        tried(reader).map(|()| cycles)
    }

    /// The counter as a clock.
    pub(crate) fn source(&self) -> Source {
        Source::Cycles(self.reader)
    }

    /// A trial begins: where the kernel took the right away meanwhile, it is asked for again.
    pub(crate) fn begin(&self) {
        for _ in 0..AGAIN {
            if self.in_force() {
                break;
            }
            std::thread::sleep(MOMENT);
        }
        Counter::denied();
    }

    fn in_force(&self) -> bool {
        match &self.right {
            Right::Kernel(grant) => Counter::in_force(grant),
            Right::Driver(Grant(driver)) => driver.counters_state().is_ok_and(|state| state.in_force),
        }
    }

    /// Was the right there at every reading since [`Cycles::begin`]?
    ///
    /// # Errors
    /// A [`Refusal`] where it was not: those readings are another clock's.
    pub(crate) fn kept(&self) -> Result<(), Refusal> {
        match Counter::denied() {
            0 => Ok(()),
            times => Err(Refusal::new(
                format!(
                    "the kernel took back the right to read the cycle counter, {times} readings are no time"
                ),
                format!(
                    "end what else uses perf on this CPU; or, for Linux's own grant, {}",
                    Counter::REMEDY
                ),
            )),
        }
    }

    /// Does an event of this thread's own take the right away? Of the kernel's own grant none does.
    ///
    /// # Errors
    /// A [`Refusal`] where it does.
    pub(crate) fn bears_events(&self) -> Result<(), Refusal> {
        match &self.right {
            Right::Kernel(_) => Ok(()),
            Right::Driver(_) => Err(Refusal::new(
                format!(
                    "the cycle counter is the clock, {}, and an event of perf's would take that away",
                    self.how
                ),
                format!("{} (Linux 5.17) gives both", Counter::REMEDY),
            )),
        }
    }
}

/// The driver's grant, where the kernel gives none (`why`); and in words who granted it.
fn by_driver(driver: &Presence, cpu: u32, why: &str) -> Result<(Grant, String), String> {
    match driver {
        Presence::There(driver) => {
            let granted = driver.counters_on().map_err(|refusal| format!("{why}, and {}", refusal.reason))?;
            let grant = Grant(Rc::clone(driver));
            if !granted.in_force || granted.cpu != cpu {
                return Err(format!("{why}, and the driver's grant is not in force"));
            }
            let whom = if granted.whole_cpu { "whoever runs on this CPU" } else { "this thread" };
            Ok((grant, format!("granted by the fathom driver to {whom} ({why})")))
        }
        absent => Err(format!(
            "{why}, and Fathom's driver {}: sudo {}, or {}",
            absent.state(),
            Counter::REMEDY,
            absent.remedy()
        )),
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        // Should it be gone already, there is nothing to give back.
        let _ = self.0.counters_off();
    }
}

/// Is the counter seen to be read, and to count?
fn tried(reader: <Counter as CycleCounter>::Reader) -> Result<(), String> {
    Counter::denied();
    let begin = Counter::read(reader);
    clock::alu(ADDITIONS);
    let passed = Counter::read(reader).wrapping_sub(begin);
    match (Counter::denied(), passed) {
        (0, 1..) => Ok(()),
        (0, 0) => Err("the cycle counter can be read and stands still".into()),
        _ => Err("the right to read the cycle counter is said to be there and is not".into()),
    }
}

/// Does the core keep its rate, as far as cpufreq says? Times in cycles are times only then.
fn standing(root: &Root, cpu: u32) -> Result<(), String> {
    let directory = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq");
    let Some(governor) = root.text(&format!("{directory}/scaling_governor")) else { return Ok(()) };
    let range =
        ["scaling_min_freq", "scaling_max_freq"].map(|file| root.number(&format!("{directory}/{file}")));
    // Documentation/admin-guide/pm/cpufreq.rst: these two set one frequency and leave it.
    let stays =
        matches!(governor.trim(), "performance" | "userspace") || range[0].is_some() && range[0] == range[1];
    stays.then_some(()).ok_or_else(|| {
        format!(
            "the governor {} moves the core's rate; echo performance > {directory}/scaling_governor",
            governor.trim()
        )
    })
}

#[cfg(test)]
mod tests;
