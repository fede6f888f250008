//! The PMU's cycle counter as a clock: on AArch64, where user space was granted the right to read it.
//!
//! Linux keeps that right to itself, by default. Two ways lead to it, both for the pinned thread alone: an event of its
//! own where `kernel.perf_user_access` is 1 (Linux 5.17), and our own driver. The counter is the core's, so it is the
//! clock only where the core's rate stands still.

use fathom_probe::machine::{Fact, Refusal};

use crate::driver::Presence;
use crate::facts::text;
use crate::read::Root;

#[cfg(target_arch = "aarch64")]
mod arm;
#[cfg(target_arch = "aarch64")]
mod trap;

/// The right to read the counter; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Cycles {
    /// Who granted it, in words.
    pub(crate) how: String,
    #[cfg(target_arch = "aarch64")]
    right: arm::Right,
    #[cfg(not(target_arch = "aarch64"))]
    right: std::convert::Infallible,
}

impl Cycles {
    /// Asks for the right, for the calling thread, pinned to `cpu`, and tries it; and what came of it, as a fact where
    /// there is such a counter.
    pub(crate) fn obtain(root: &Root, driver: &Presence, cpu: u32) -> (Option<Cycles>, Option<Fact>) {
        if !cfg!(target_arch = "aarch64") {
            return (None, None);
        }
        let outcome = standing(root, cpu).and_then(|()| Cycles::granted(root, driver, cpu));
        let told = match &outcome {
            Ok(cycles) => cycles.how.clone(),
            Err(why) => format!("not the clock: {why}"),
        };
        (outcome.ok(), Some(text("clock.cycles", told)))
    }

    #[cfg(target_arch = "aarch64")]
    fn granted(root: &Root, driver: &Presence, cpu: u32) -> Result<Cycles, String> {
        trap::install().map_err(|error| format!("an illegal instruction cannot be caught ({error})"))?;
        let (right, how) = arm::Right::obtain(root, driver, cpu)?;
        let cycles = Cycles { how, right };
        arm::tried().map(|()| cycles)
    }

    #[cfg(not(target_arch = "aarch64"))]
    fn granted(_root: &Root, _driver: &Presence, _cpu: u32) -> Result<Cycles, String> {
        Err("user space reads no such counter here".into())
    }

    /// A trial begins: where the kernel took the right away meanwhile, it is asked for again.
    #[cfg_attr(not(target_arch = "aarch64"), allow(clippy::unused_self, reason = "there is no such value"))]
    pub(crate) fn begin(&self) {
        #[cfg(target_arch = "aarch64")]
        self.right.begin();
        #[cfg(not(target_arch = "aarch64"))]
        match self.right {}
    }

    /// Was the right there at every reading since [`Cycles::begin`]?
    ///
    /// # Errors
    /// A [`Refusal`] where it was not: those readings are another clock's.
    pub(crate) fn kept(&self) -> Result<(), Refusal> {
        #[cfg(target_arch = "aarch64")]
        return match trap::taken() {
            0 => Ok(()),
            times => Err(Refusal::new(
                format!(
                    "the kernel took back the right to read the cycle counter, {times} readings are no time"
                ),
                "end what else uses perf on this CPU; or, for Linux's own grant, sysctl kernel.perf_user_access=1",
            )),
        };
        #[cfg(not(target_arch = "aarch64"))]
        match self.right {}
    }

    /// Does an event of this thread's own take the right away? Of perf's own grant none does.
    pub(crate) fn bears_events(&self) -> bool {
        #[cfg(target_arch = "aarch64")]
        return matches!(self.right, arm::Right::Perf(_));
        #[cfg(not(target_arch = "aarch64"))]
        match self.right {}
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

/// Reads the counter, ordered like the other clocks. Without the right to, it is another clock's reading and noted.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn read() -> u64 {
    let count: u64;
    // SAFETY: barriers and the read of a counter. Where the kernel does not permit it, the instruction is illegal, and
    // `trap` answers in its place; nobody reads before that is installed (`Source::Cycles` is made by what holds a
    // `Cycles`), and it stays. Not `nomem`: the compiler must keep volatile loads on their side of the clock.
    unsafe {
        std::arch::asm!(
            "dsb ishld", "isb", "mrs {}, pmccntr_el0", "isb",
            out(reg) count, options(nostack, preserves_flags)
        );
    }
    count
}

#[cfg(test)]
mod tests;
