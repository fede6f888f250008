//! Periodic wake-ups: parameters of the series, and the row of one activation.

/// Parameters of a series of periodic wake-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakes {
    /// The period, ns.
    pub every_ns: u64,
    /// Real-time priority (`SCHED_FIFO`); 0 for an ordinary task.
    pub priority: u64,
    /// Whether timer interrupt, wake-up and switch of each activation are traced.
    pub traced: bool,
    /// Whether the lines of the working set are flushed before each sleep.
    pub flushed: bool,
    /// Whether a kernel thread is woken instead of a task, with the timerlat tracer.
    pub timerlat: bool,
    /// Bytes that are swept before each sleep, to evict the lines that the wake-up needs from the nearer caches.
    pub evict: u64,
}

impl Default for Wakes {
    fn default() -> Wakes {
        // A period of 1 ms, as in cyclictest. The priority leaves room above for the kernel's threads.
        Wakes { every_ns: 1_000_000, priority: 80, traced: false, flushed: false, timerlat: false, evict: 0 }
    }
}

/// One activation of a periodic task. Times are ns after the time for which the timer was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ActivationRow {
    /// Periods that have passed unused since the previous activation, because the task was late or still working.
    pub missed: u64,
    /// Periods that were skipped on purpose, because preparing this activation took that long.
    pub skipped: u64,
    /// When the task ran: its wake-up latency.
    pub user_ns: u64,
    /// When it had finished the walk through its working set.
    pub work_ns: u64,
    /// Cell on which that walk ended.
    pub end: u64,
    /// The CPU on which it ran.
    pub cpu: u64,
    /// Involuntary context switches since the previous activation.
    pub involuntary: u64,
    /// When the timer's interrupt handler ran, if traced.
    pub irq_ns: Option<u64>,
    /// When the kernel made the task runnable, if traced.
    pub wake_ns: Option<u64>,
    /// When the CPU was switched to the task, if traced.
    pub switch_ns: Option<u64>,
}
