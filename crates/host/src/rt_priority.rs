//! Real-time priority during trials, within the limits of the kernel's throttle.
//!
//! A `SCHED_FIFO` thread that spins is subject to the real-time throttle. By default the kernel takes 50 ms of every
//! second away from it (`sched_rt_runtime_us` of `sched_rt_period_us`, or the fair server of newer kernels). That is
//! a larger disturbance than most of those that the priority prevents. So the thread is FIFO during a trial only, and
//! its FIFO time in any period stays below the throttle's limit. If the next trial could exceed the limit, the thread
//! sleeps before it, where nothing is timed. Between trials the thread has the ordinary policy and a high nice level,
//! so that the harness can run even on a machine with one CPU.
//!
//! Measured on a two-CPU guest with four busy loops, in runs of 60 back-to-back trials of 50 ms each. Trials that
//! lost more than 100 us to other threads: 59 for a plain thread, 14 to 59 at nice -20, 4 to 11 with FIFO throughout
//! (the throttle took 52 to 100 ms at a time), 3 to 6 with FIFO during trials only (1 ms at most). The pauses made
//! the run 6 % longer.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use crate::clock::raw_ns;
use crate::facts::text;
use crate::process::{granted, not_granted};
use crate::procfs::Root;
use fathom_probe::machine::{Fact, Refusal};
use fathom_units::facts::{Grant, PRIVILEGE_FIFO};

/// The FIFO priority: the lowest. It precedes every ordinary thread, and lets interrupt threads (50 by default) and a
/// board's own real-time work go first.
const FIFO_PRIORITY: i32 = 1;

/// Minimum assumed duration of the next trial, ns. If a trial of the last period took longer, its duration is
/// assumed. A trial that exceeds this may be throttled; the record then shows thread time missing from wall time.
const MIN_TRIAL_NS: u64 = 20_000_000;

/// Share of the throttle's runtime that is used, in percent: the kernel accounts by ticks of up to 10 ms. The share
/// holds in any period, so it also holds in the kernel's.
const RUNTIME_SHARE_PERCENT: u64 = 95;

/// Real-time priority of trials.
pub(crate) struct RtPriority {
    /// Whether FIFO is permitted and requested.
    permitted: bool,
    /// Limit of the throttle; `None` if it is off.
    throttle: Option<Throttle>,
    /// Start and end of the FIFO intervals in the last period, ns.
    intervals: VecDeque<(u64, u64)>,
    /// Start of the current FIFO interval.
    since: Option<u64>,
}

/// The kernel's real-time throttle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Throttle {
    pub(crate) runtime_ns: u64,
    pub(crate) period_ns: u64,
}

/// Returns the throttle in force. -1 switches it off (Linux Documentation/scheduler/sched-rt-group.rst). A kernel
/// that does not report it is assumed to have the defaults.
pub(crate) fn throttle(root: &Root) -> Option<Throttle> {
    let number = |name: &str, default: i64| {
        let text = root.text(&format!("/proc/sys/kernel/{name}"));
        text.and_then(|t| t.trim().parse::<i64>().ok()).unwrap_or(default)
    };
    let runtime = u64::try_from(number("sched_rt_runtime_us", 950_000)).ok()?;
    let period = u64::try_from(number("sched_rt_period_us", 1_000_000)).ok()?;
    (runtime < period).then_some(Throttle { runtime_ns: runtime * 1000, period_ns: period * 1000 })
}

impl RtPriority {
    /// Tries FIFO once, for the fact, and returns to the ordinary policy.
    pub(crate) fn new(root: &Root, requested: bool) -> (RtPriority, Vec<Fact>) {
        let quiet = |permitted| RtPriority {
            permitted,
            throttle: throttle(root),
            intervals: VecDeque::new(),
            since: None,
        };
        if !requested {
            return (quiet(false), vec![text(PRIVILEGE_FIFO, Grant::NotRequested.token())]);
        }
        let tried = set_policy(libc::SCHED_FIFO, FIFO_PRIORITY);
        match tried.and_then(|()| set_policy(libc::SCHED_OTHER, 0)) {
            Ok(()) => (quiet(true), granted(PRIVILEGE_FIFO, FIFO_PRIORITY.to_string())),
            Err(error) => {
                let refusal = Refusal::new(format!("not permitted ({error})"), REMEDY);
                (quiet(false), not_granted(PRIVILEGE_FIFO, Grant::Refused, &refusal))
            }
        }
    }

    /// Begins a FIFO interval, after a pause if the throttle would otherwise act during it.
    pub(crate) fn begin(&mut self) {
        if !self.permitted || self.since.is_some() {
            return;
        }
        let pause = self.pause(raw_ns());
        if pause != 0 {
            std::thread::sleep(Duration::from_nanos(pause));
        }
        if set_policy(libc::SCHED_FIFO, FIFO_PRIORITY).is_ok() {
            self.since = Some(raw_ns());
        }
    }

    /// Ends the FIFO interval.
    pub(crate) fn end(&mut self) {
        if let Some(since) = self.since.take() {
            // Lowering one's own policy is always permitted (sched(7)).
            let _ = set_policy(libc::SCHED_OTHER, 0);
            self.intervals.push_back((since, raw_ns()));
        }
    }

    /// Returns how long to wait at `now` so that the next trial stays within the period's share, ns.
    fn pause(&mut self, now: u64) -> u64 {
        let Some(throttle) = self.throttle else { return 0 };
        while self.intervals.front().is_some_and(|&(_, end)| end + throttle.period_ns <= now) {
            self.intervals.pop_front();
        }
        let longest = self.intervals.iter().map(|&(begin, end)| end.saturating_sub(begin)).max();
        let next = longest.unwrap_or(0).max(MIN_TRIAL_NS);
        let allowed = (throttle.runtime_ns / 100 * RUNTIME_SHARE_PERCENT).saturating_sub(next);
        // Time under FIFO in the period that ends at `at`.
        let used = |at: u64| -> u64 {
            let from = at.saturating_sub(throttle.period_ns);
            self.intervals.iter().map(|&(begin, end)| end.saturating_sub(begin.max(from))).sum()
        };
        // In steps of a millisecond, and at most one period for any settings.
        let step = 1_000_000;
        let mut pause = 0;
        while used(now + pause) > allowed && pause < throttle.period_ns {
            pause += step;
        }
        pause
    }
}

const REMEDY: &str = "run as root, with CAP_SYS_NICE, or with a real-time limit (ulimit -r 1); in a container \
    with real-time group scheduling its cpu group needs cpu.rt_runtime_us";

/// Gives the calling thread the ordinary policy and nice level 0.
pub(crate) fn set_ordinary() -> io::Result<()> {
    set_policy(libc::SCHED_OTHER, 0)?;
    // A process that was started with a nice level above 0 may not lower it; then it keeps that level.
    let _ = rustix::process::setpriority_process(None, 0);
    Ok(())
}

/// Lets the calling thread run only while its CPU is otherwise idle (`SCHED_IDLE`, sched(7)), which is always
/// permitted.
pub(crate) fn set_idle() {
    let _ = set_policy(libc::SCHED_IDLE, 0);
}

/// Sets the calling thread's policy. Children do not inherit it.
pub(crate) fn set_policy(policy: i32, priority: i32) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid `sched_param` (integers only, some of them absent on some C
    // libraries).
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = priority;
    // Uses the system call instead of the C library's function: musl's refuses on purpose, because the call sets a
    // thread and POSIX specifies a process. Here a thread is meant.
    // SAFETY: 0 names the calling thread; `param` is live and read only during the call. Neither policy
    // changes memory.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            policy | libc::SCHED_RESET_ON_FORK,
            std::ptr::from_ref(&param),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests;
