//! Real-time priority around a trial, within what the kernel's throttle allows.
//!
//! A `SCHED_FIFO` thread that spins meets the real-time throttle: by default the kernel takes 50 ms of
//! every second away from it (`sched_rt_runtime_us` of `sched_rt_period_us`, or the fair server of newer
//! kernels), which is a larger disturbance than most of those it keeps out. So the thread is FIFO during a
//! trial only, and the time spent so is kept, over any period, below what the throttle allows: where the
//! next trial would come too close, the pause is taken here, before it, where nothing is timed.
//! Between trials the thread is an ordinary one at a high nice level, so that the harness can run even on
//! a machine with one CPU.
//!
//! What it brought on a two-CPU guest with four busy loops, in runs of 60 back-to-back trials of 50 ms each:
//! trials that lost more than 100 us to others were 59 for a plain thread, 14 to 59 at nice -20, 4 to 11 for
//! FIFO throughout (the throttle took 52 to 100 ms at a time), 3 to 6 for FIFO by spells (1 ms at most). The
//! pauses made the run 6 % longer.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use crate::clock::raw_ns;
use crate::facts::text;
use crate::process::{granted, not_granted};
use crate::read::Root;
use fathom_probe::machine::{Fact, Refusal};
use fathom_units::facts::{Grant, PRIVILEGE_FIFO};

/// The priority used: the lowest, which still precedes every ordinary thread and lets interrupt threads
/// (50 by default) and a board's own real-time work go first.
const PRIORITY: i32 = 1;

/// What the next trial is expected to take at least, ns; where a trial of the last period took longer, that.
/// One that outruns this may meet the throttle, and the record shows it as thread time missing from wall time.
const TRIAL_NS: u64 = 20_000_000;

/// Share of the throttle's runtime that is used, in percent: the kernel accounts by ticks of up to 10 ms.
/// What is used in any period, wherever it begins, is then used in the kernel's.
const SHARE: u64 = 95;

/// Real-time priority that is lent to trials.
pub(crate) struct Quiet {
    /// Is FIFO permitted and asked for?
    permitted: bool,
    /// What the throttle allows in a period; nothing when it is off.
    throttle: Option<Throttle>,
    /// Begin and end of the spells under FIFO in the last period, ns.
    spells: VecDeque<(u64, u64)>,
    /// When the present spell began.
    since: Option<u64>,
}

/// The kernel's real-time throttle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Throttle {
    pub(crate) runtime_ns: u64,
    pub(crate) period_ns: u64,
}

/// The throttle in force. -1 switches it off (Linux Documentation/scheduler/sched-rt-group.rst); a kernel
/// that does not say is taken to have the defaults.
pub(crate) fn throttle(root: &Root) -> Option<Throttle> {
    let number = |name: &str, default: i64| {
        let text = root.text(&format!("/proc/sys/kernel/{name}"));
        text.and_then(|t| t.trim().parse::<i64>().ok()).unwrap_or(default)
    };
    let runtime = u64::try_from(number("sched_rt_runtime_us", 950_000)).ok()?;
    let period = u64::try_from(number("sched_rt_period_us", 1_000_000)).ok()?;
    (runtime < period).then_some(Throttle { runtime_ns: runtime * 1000, period_ns: period * 1000 })
}

impl Quiet {
    /// Tries FIFO once, for the fact, and gives it up at once.
    pub(crate) fn new(root: &Root, wanted: bool) -> (Quiet, Vec<Fact>) {
        let quiet =
            |permitted| Quiet { permitted, throttle: throttle(root), spells: VecDeque::new(), since: None };
        if !wanted {
            return (quiet(false), vec![text(PRIVILEGE_FIFO, Grant::NotRequested.token())]);
        }
        let tried = set_policy(libc::SCHED_FIFO, PRIORITY);
        match tried.and_then(|()| set_policy(libc::SCHED_OTHER, 0)) {
            Ok(()) => (quiet(true), granted(PRIVILEGE_FIFO, PRIORITY.to_string())),
            Err(error) => {
                let refusal = Refusal::new(format!("not permitted ({error})"), REMEDY);
                (quiet(false), not_granted(PRIVILEGE_FIFO, Grant::Refused, &refusal))
            }
        }
    }

    /// Begins a spell, after a pause where the throttle would otherwise fall into it.
    pub(crate) fn begin(&mut self) {
        if !self.permitted || self.since.is_some() {
            return;
        }
        let pause = self.pause(raw_ns());
        if pause != 0 {
            std::thread::sleep(Duration::from_nanos(pause));
        }
        if set_policy(libc::SCHED_FIFO, PRIORITY).is_ok() {
            self.since = Some(raw_ns());
        }
    }

    /// Ends a spell.
    pub(crate) fn end(&mut self) {
        if let Some(since) = self.since.take() {
            // Lowering one's own policy is always permitted (sched(7)).
            let _ = set_policy(libc::SCHED_OTHER, 0);
            self.spells.push_back((since, raw_ns()));
        }
    }

    /// How long to wait at `now` before the next trial keeps the period's share, ns.
    fn pause(&mut self, now: u64) -> u64 {
        let Some(throttle) = self.throttle else { return 0 };
        while self.spells.front().is_some_and(|&(_, end)| end + throttle.period_ns <= now) {
            self.spells.pop_front();
        }
        let longest = self.spells.iter().map(|&(begin, end)| end.saturating_sub(begin)).max();
        let next = longest.unwrap_or(0).max(TRIAL_NS);
        let allowed = (throttle.runtime_ns / 100 * SHARE).saturating_sub(next);
        // Time under FIFO in the period that ends at `at`.
        let used = |at: u64| -> u64 {
            let from = at.saturating_sub(throttle.period_ns);
            self.spells.iter().map(|&(begin, end)| end.saturating_sub(begin.max(from))).sum()
        };
        // In steps of a millisecond, and never longer than a period, whatever the settings are.
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

/// Makes the calling thread an ordinary one, whatever it was.
pub(crate) fn ordinary() -> io::Result<()> {
    set_policy(libc::SCHED_OTHER, 0)?;
    // Who was started with a worse level than 0 may not go back to it, and everything of his has that level.
    let _ = rustix::process::setpriority_process(None, 0);
    Ok(())
}

/// Lets the calling thread run only while its CPU has nothing else to do (`SCHED_IDLE`, sched(7)), which is always
/// permitted.
pub(crate) fn idle() {
    let _ = set_policy(libc::SCHED_IDLE, 0);
}

/// Sets the calling thread's policy. Children do not inherit it.
pub(crate) fn set_policy(policy: i32, priority: i32) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid `sched_param` (integers only, some of them absent on some C
    // libraries).
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = priority;
    // The system call and not the C library's function: musl's refuses on purpose, because the call sets a
    // thread and POSIX means a process. A thread is what is meant here.
    // SAFETY: 0 names the calling thread; `param` is live and read only during the call. Neither policy
    // changes memory.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            policy | libc::SCHED_RESET_ON_FORK,
            std::ptr::from_ref(&param),
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests;
