//! Periodic wake-ups: how a task waits, and what one activation saw.

/// How a task waits for periodic wake-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakes {
    /// The period, ns.
    pub every_ns: u64,
    /// Real-time priority (`SCHED_FIFO`); 0 for an ordinary task.
    pub priority: u64,
    /// Are the earlier places of each activation wanted too?
    pub traced: bool,
    /// Are the lines of the working set flushed before each sleep?
    pub flushed: bool,
    /// Are the kernel's own wake-ups wanted in place of a task's: its tracer timerlat?
    pub timerlat: bool,
    /// Bytes that are swept before each sleep, so that nearer caches hold them and not what the wake-up needs.
    pub evict: u64,
}

impl Default for Wakes {
    fn default() -> Wakes {
        // A period of 1 ms, as cyclictest has it; the priority leaves room above for the kernel's own threads.
        Wakes { every_ns: 1_000_000, priority: 80, traced: false, flushed: false, timerlat: false, evict: 0 }
    }
}

/// One activation of a periodic task. Times are ns after the time that the timer was set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ActivationRow {
    /// Periods that were due since the activation before and were slept through, because the task was late or still
    /// at work.
    pub missed: u64,
    /// Periods that were left out on purpose: what was prepared for this activation took so long.
    pub skipped: u64,
    /// When the task was awake: its wake-up latency.
    pub user_ns: u64,
    /// When it had walked its working set.
    pub work_ns: u64,
    /// Cell on which that walk ended.
    pub end: u64,
    /// The CPU that it was on.
    pub cpu: u64,
    /// Times that something took the CPU from it since the activation before.
    pub involuntary: u64,
    /// When the timer's interrupt handler ran, where that was seen.
    pub irq_ns: Option<u64>,
    /// When the kernel made the task runnable.
    pub wake_ns: Option<u64>,
    /// When the CPU was switched to the task.
    pub switch_ns: Option<u64>,
}
