//! The core's cycle counter as a clock, if user space can be granted the right to read it.
//!
//! The right is granted to the pinned thread alone, by the kernel ([`CycleCounter::grant`]) or by Fathom's driver.
//! The counter counts the core's cycles, so it is used as the clock only if the core's frequency is fixed.

use std::rc::Rc;
use std::time::Duration;

use fathom_probe::machine::{Fact, Refusal};

use crate::arch::{Architecture, Cpu, CycleCounter};
use crate::clock::{self, Source};
use crate::driver::{Driver, Presence};
use crate::facts::text;
use crate::procfs::Root;

/// The cycle counter of this architecture.
type Counter = <Cpu as Architecture>::Cycles;

/// The right to read the counter; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Cycles {
    /// Source of the right, as text.
    pub(crate) how: String,
    reader: <Counter as CycleCounter>::Reader,
    right: GrantedRight,
}

/// Source of the right.
#[derive(Debug)]
enum GrantedRight {
    Kernel(<Counter as CycleCounter>::Grant),
    Driver(DriverGrant),
}

/// The driver's grant, returned when this is dropped.
#[derive(Debug)]
struct DriverGrant(Rc<Driver>);

/// Maximum sleeps in which the thread is switched out and in again, which restores the right.
const MAX_RETRIES: u32 = 3;
const RETRY_SLEEP: Duration = Duration::from_micros(50);

/// Additions during which the counter must advance when it is tested.
const TEST_ADDITIONS: u64 = 1 << 12;

impl Cycles {
    /// Requests the right for the calling thread, pinned to `cpu`, and tests it. Also returns the result as a fact,
    /// if the architecture has such a counter.
    pub(crate) fn obtain(root: &Root, driver: &Presence, cpu: u32) -> (Option<Cycles>, Option<Fact>) {
        if !Counter::READABLE {
            return (None, None);
        }
        let outcome = check_fixed_frequency(root, cpu).and_then(|()| Cycles::granted(root, driver, cpu));
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
            Ok((grant, how)) => (GrantedRight::Kernel(grant), how),
            Err(why) => {
                driver_grant(driver, cpu, &why).map(|(grant, how)| (GrantedRight::Driver(grant), how))?
            }
        };
        let cycles = Cycles { how, reader, right };
        check_counter(reader).map(|()| cycles)
    }

    /// Returns the counter as a clock source.
    pub(crate) fn source(&self) -> Source {
        Source::Cycles(self.reader)
    }

    /// Begins a trial. If the kernel has revoked the right since, restores it.
    pub(crate) fn begin(&self) {
        for _ in 0..MAX_RETRIES {
            if self.in_force() {
                break;
            }
            std::thread::sleep(RETRY_SLEEP);
        }
        Counter::take_denied();
    }

    fn in_force(&self) -> bool {
        match &self.right {
            GrantedRight::Kernel(grant) => Counter::in_force(grant),
            GrantedRight::Driver(DriverGrant(driver)) => {
                driver.counters_state().is_ok_and(|state| state.in_force)
            }
        }
    }

    /// Checks that the right existed at every reading since [`Cycles::begin`].
    ///
    /// # Errors
    /// Returns a [`Refusal`] if it did not: those readings are of another clock.
    pub(crate) fn check_available(&self) -> Result<(), Refusal> {
        match Counter::take_denied() {
            0 => Ok(()),
            times => Err(Refusal::new(
                format!(
                    "the kernel revoked the right to read the cycle counter, so {times} readings are not valid times"
                ),
                format!(
                    "end other users of perf on this CPU; or, for Linux's own grant, {}",
                    Counter::REMEDY
                ),
            )),
        }
    }

    /// Checks that opening a perf event in this thread does not revoke the right. With the kernel's own grant it does
    /// not.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if it does.
    pub(crate) fn check_events_permitted(&self) -> Result<(), Refusal> {
        match &self.right {
            GrantedRight::Kernel(_) => Ok(()),
            GrantedRight::Driver(_) => Err(Refusal::new(
                format!(
                    "the cycle counter is the clock, {}, and a perf event would revoke the right",
                    self.how
                ),
                format!("{} (Linux 5.17) permits both", Counter::REMEDY),
            )),
        }
    }
}

/// Returns the driver's grant, if the kernel does not grant the right (`why`), with its source as text.
fn driver_grant(driver: &Presence, cpu: u32, why: &str) -> Result<(DriverGrant, String), String> {
    match driver {
        Presence::Available(driver) => {
            let granted = driver.counters_on().map_err(|refusal| format!("{why}, and {}", refusal.reason))?;
            let grant = DriverGrant(Rc::clone(driver));
            if !granted.in_force || granted.cpu != cpu {
                return Err(format!("{why}, and the driver's grant is not in force"));
            }
            let whom = if granted.whole_cpu { "all tasks on this CPU" } else { "this thread" };
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

impl Drop for DriverGrant {
    fn drop(&mut self) {
        // If the right is already gone, this does nothing.
        let _ = self.0.counters_off();
    }
}

/// Tests that the counter can be read and counts.
fn check_counter(reader: <Counter as CycleCounter>::Reader) -> Result<(), String> {
    Counter::take_denied();
    let begin = Counter::read(reader);
    clock::alu(TEST_ADDITIONS);
    let passed = Counter::read(reader).wrapping_sub(begin);
    match (Counter::take_denied(), passed) {
        (0, 1..) => Ok(()),
        (0, 0) => Err("the cycle counter can be read but does not count".into()),
        _ => Err("the right to read the cycle counter was granted but is not in force".into()),
    }
}

/// Checks that the core's frequency is fixed, as far as cpufreq reports it. Only then are cycles a measure of time.
fn check_fixed_frequency(root: &Root, cpu: u32) -> Result<(), String> {
    let directory = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq");
    let Some(governor) = root.text(&format!("{directory}/scaling_governor")) else { return Ok(()) };
    let range =
        ["scaling_min_freq", "scaling_max_freq"].map(|file| root.number(&format!("{directory}/{file}")));
    // Documentation/admin-guide/pm/cpufreq.rst: these two set one frequency and keep it.
    let fixed =
        matches!(governor.trim(), "performance" | "userspace") || range[0].is_some() && range[0] == range[1];
    fixed.then_some(()).ok_or_else(|| {
        format!(
            "the governor {} changes the core's frequency; echo performance > {directory}/scaling_governor",
            governor.trim()
        )
    })
}

#[cfg(test)]
mod tests;
