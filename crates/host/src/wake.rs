//! Periodic wake-ups: an absolute timer, a real-time priority, and memory that is already mapped.
//!
//! All settings belong to the thread and the process. The priority is lowered after each trial.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use fathom_probe::machine::{ActivationRow, Wakes};
use fathom_probe::machine::{ActivationTrace, Event, Places, Refusal, WakeReturn};
use fathom_units::facts::{self, Grant};

use crate::arch::{Architecture as _, Cpu};
use crate::driver::{self, Activation, Driver, Policy, Presence, Recorder};
use crate::process;
use crate::procfs::Root;
use crate::rt_priority::set_policy;
use crate::supervisor::Supervisor;
use crate::trace::timerlat::{Row, timerlat};
use crate::trace::{self, Trace};
use crate::watch;

/// Stack that is touched before the first sleep, bytes: the loop and its callees need less than a page or two.
const STACK_BYTES: usize = 64 << 10;

/// The wake-up clock: absolute timers use it, and it is the tracer's clock `mono`.
const WAKE_CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;

/// Wakes the measuring thread periodically, and records its wake-ups.
pub(crate) struct Waker {
    /// Involuntary switches before the series.
    before: u64,
    /// Whether a real-time priority is held.
    raised: bool,
    /// The trace instance, from the first traced series on.
    trace: Option<Trace>,
    /// Whether it is recording.
    tracing: bool,
    /// Result of the last recording.
    recording: trace::TraceRecording,
    /// How much of the process is locked into memory, as text; reported at the session's end.
    pub(crate) locked: Option<String>,
    /// Source of the kernel's own wake-ups, as text; reported at the session's end.
    pub(crate) kernel: Option<String>,
    supervisor: Supervisor,
    /// Time of the last wake-up, and the shortest time awake.
    woke_ns: u64,
    min_awake_ns: u64,
    /// Number of sleeps in the series.
    sleeps: u64,
    /// CPU and involuntary switches at the last query.
    cpu: u64,
    involuntary: u64,
}

/// Source of the kernel's own wake-ups if the kernel has this tracer (`timerlat_main`, Linux,
/// kernel/trace/trace_osnoise.c, gives its thread that priority).
const TRACER_SOURCE: &str = "the tracer timerlat, SCHED_FIFO 95";

/// Time that a recorder may take beyond twice its nominal time, and the interval at which it is then polled.
const RECORDER_MARGIN: Duration = Duration::from_secs(1);
const RECORDER_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Maximum sleeps between two queries of switches and, if it takes a system call, the CPU.
const SLEEPS_PER_QUERY: u64 = 64;

/// Minimum time of two context switches with the task between them, ns: each is thousands of instructions (the
/// laboratory's path through one to a task has 4,840, benches/README.md).
const SWITCHES_NS: u64 = 500;

/// Registers a trace instance with the reaper before it is created.
fn hold(supervisor: &Supervisor, path: &Path, held: &mut Option<PathBuf>) -> Result<(), Refusal> {
    // Users of the library may have no reaper; the next process then removes what a killed one left.
    if supervisor.has_reaper() {
        supervisor.hold(path, true)?;
        *held = Some(path.to_owned());
    }
    Ok(())
}

/// Unregisters an instance that is removed, or was never created.
fn release(supervisor: &Supervisor, held: Option<PathBuf>) {
    held.iter().for_each(|path| supervisor.removed(path));
}

impl Waker {
    pub(crate) fn new(supervisor: Supervisor) -> Waker {
        let recording = trace::TraceRecording::default();
        Waker {
            before: 0,
            raised: false,
            trace: None,
            tracing: false,
            recording,
            locked: None,
            kernel: None,
            supervisor,
            woke_ns: 0,
            min_awake_ns: u64::MAX,
            sleeps: 0,
            cpu: 0,
            involuntary: 0,
        }
    }

    /// Takes the priority and prepares memory. The first call locks all mappings of the process outside `arena`; the
    /// arena locks its own.
    pub(crate) fn begin(
        &mut self,
        root: &Root,
        (cpu, activations): (u32, u64),
        wakes: &Wakes,
        arena: (u64, u64),
    ) -> Result<u64, Refusal> {
        if self.locked.is_none() {
            self.locked = Some(lock_all_but(root, arena));
        }
        self.recording = trace::TraceRecording::default();
        if wakes.traced {
            self.record(root, cpu, activations)?;
        }
        touch_stack();
        if wakes.priority > 0 {
            let priority = i32::try_from(wakes.priority).unwrap_or(i32::MAX);
            if let Err(error) = set_policy(libc::SCHED_FIFO, priority) {
                let _ = self.end();
                return Err(refused(root, priority, &error));
            }
            self.raised = true;
        }
        self.before = watch::involuntary();
        (self.woke_ns, self.min_awake_ns, self.sleeps) = (0, u64::MAX, 0);
        Ok(now())
    }

    /// Begins to record the earlier places, in an instance that is created at the first call.
    fn record(&mut self, root: &Root, cpu: u32, activations: u64) -> Result<(), Refusal> {
        let trace = match &mut self.trace {
            Some(trace) => trace,
            none => {
                let mut held = None;
                match Trace::open(root, cpu, |path| hold(&self.supervisor, path, &mut held)) {
                    Ok(trace) => none.insert(trace),
                    Err(refusal) => {
                        release(&self.supervisor, held);
                        return Err(refusal);
                    }
                }
            }
        };
        trace.reserve(activations)?;
        trace.begin(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned())?;
        self.tracing = true;
        Ok(())
    }

    /// Lowers the priority, and ends the recording.
    pub(crate) fn end(&mut self) -> Result<ActivationTrace, Refusal> {
        if std::mem::take(&mut self.raised) {
            // Lowering one's own policy is always permitted (sched(7)).
            let _ = set_policy(libc::SCHED_OTHER, 0);
        }
        if let Some(trace) = self.trace.as_mut().filter(|_| std::mem::take(&mut self.tracing)) {
            self.recording = trace.end()?;
        }
        let places = self.recording.stages.iter().map(|s| Places {
            expires_ns: s.expires_ns,
            irq_ns: s.irq_ns,
            wake_ns: s.wake_ns,
            switch_ns: s.switch_ns,
        });
        Ok(ActivationTrace { places: places.collect(), lost: self.recording.lost })
    }

    /// Returns `activations` wake-ups of a kernel thread, and the number of lost records: by the tracer timerlat or,
    /// if that is not available, by the recorder of Fathom's driver.
    pub(crate) fn kernel_wakeups(
        &mut self,
        root: &Root,
        presence: &Presence,
        (cpu, activations): (u32, u64),
        wakes: &Wakes,
    ) -> Result<(Vec<ActivationRow>, u64), Refusal> {
        let refusal = match self.by_tracer(root, (cpu, activations), wakes) {
            Ok(reported) => {
                self.kernel = Some(TRACER_SOURCE.into());
                return Ok(reported);
            }
            Err(refusal) => refusal,
        };
        match presence {
            Presence::Available(driver) if driver.wakes() => {
                let policy = Policy::of(wakes.priority);
                let woken = driver_wakeups(driver, (cpu, activations), wakes.every_ns, policy)?;
                let why = refusal.reason;
                self.kernel = Some(format!("the {}, {}; {why}", driver::NAME, policy.label()));
                Ok((woken, 0))
            }
            Presence::Available(_) => Err(refusal),
            _ => Err(Refusal::new(
                format!("{}, and Fathom's driver {}", refusal.reason, presence.state()),
                format!("{}; or, by the driver, {}", refusal.remedy, presence.remedy()),
            )),
        }
    }

    fn by_tracer(
        &self,
        root: &Root,
        (cpu, activations): (u32, u64),
        wakes: &Wakes,
    ) -> Result<(Vec<ActivationRow>, u64), Refusal> {
        let period_us = wakes.every_ns / 1000;
        if period_us * 1000 != wakes.every_ns {
            let what = format!("timerlat needs a period in whole microseconds, not {} ns", wakes.every_ns);
            return Err(Refusal::new(what, "choose 100 us to 1 s"));
        }
        // One more, because the first may already have begun when the recording begins.
        let time = Duration::from_nanos(wakes.every_ns.saturating_mul(activations + 1));
        let mut held = None;
        let trace = timerlat(root, cpu, period_us, time, |path| hold(&self.supervisor, path, &mut held));
        release(&self.supervisor, held);
        let trace = trace?;
        let woken = tracer_activations(&trace.rows, wakes.every_ns, u64::from(cpu));
        match woken.is_empty() {
            true => Err(Refusal::new(format!("timerlat wrote nothing in {} ms", time.as_millis()), "")),
            false => Ok((woken, trace.lost)),
        }
    }

    /// Returns the events between two times of the last series.
    pub(crate) fn events_between(&self, from_ns: u64, to_ns: u64, max_events: usize) -> Vec<Event> {
        let rows = self.recording.events_between(from_ns, to_ns, max_events).into_iter();
        rows.map(|(at_ns, what)| Event { at_ns, what }).collect()
    }

    /// Sleeps until `at_ns`. The clock is read first after the wake-up.
    ///
    /// Involuntary switches are queried only if there can have been one: if the thread was awake for [`SWITCHES_NS`]
    /// longer than its shortest time awake, which includes its work.
    #[inline(always)]
    pub(crate) fn sleep(&mut self, at_ns: u64) -> Result<WakeReturn, Refusal> {
        let awake_ns = now().saturating_sub(self.woke_ns);
        if awake_ns.saturating_sub(self.min_awake_ns) > SWITCHES_NS
            || self.sleeps.is_multiple_of(SLEEPS_PER_QUERY)
        {
            self.query_counts();
        }
        self.min_awake_ns = self.min_awake_ns.min(awake_ns);
        self.sleeps += 1;
        let (seconds, nanoseconds) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
        let at = libc::timespec { tv_sec: seconds as _, tv_nsec: nanoseconds as _ };
        loop {
            // SAFETY: `at` is a live timespec that is only read; no remaining time is requested.
            let error = unsafe {
                libc::clock_nanosleep(WAKE_CLOCK, libc::TIMER_ABSTIME, &raw const at, std::ptr::null_mut())
            };
            match error {
                0 => break,
                // A signal was handled: the time is absolute, so the sleep continues.
                libc::EINTR => {}
                other => {
                    let error = io::Error::from_raw_os_error(other);
                    return Err(Refusal::new(format!("clock_nanosleep failed: {error}"), ""));
                }
            }
        }
        let now_ns = now();
        self.woke_ns = now_ns;
        if Cpu::CHEAP_CPU_NUMBER {
            self.cpu = cpu();
        }
        Ok(WakeReturn { now_ns, cpu: self.cpu, involuntary: self.involuntary })
    }

    #[cold]
    fn query_counts(&mut self) {
        self.involuntary = watch::involuntary().saturating_sub(self.before);
        self.cpu = cpu();
    }
}

/// Returns the CPU that this thread is on.
fn cpu() -> u64 {
    // SAFETY: no arguments; the thread's own memory, the vDSO or the kernel provides the number.
    let cpu = unsafe { libc::sched_getcpu() };
    u64::try_from(cpu).unwrap_or(0)
}

/// Returns `activations` wake-ups of a thread of Fathom's driver.
fn driver_wakeups(
    driver: &Rc<Driver>,
    (cpu, activations): (u32, u64),
    every_ns: u64,
    policy: Policy,
) -> Result<Vec<ActivationRow>, Refusal> {
    let recorder = Recorder::start(driver, every_ns, cpu, policy, activations + 1)?;
    let due = Duration::from_nanos(every_ns.saturating_mul(activations + 1));
    // A late thread misses periods, and an ordinary one waits for the CPU, so the wait is longer, but bounded.
    let until = Instant::now() + due.saturating_mul(2) + RECORDER_MARGIN;
    std::thread::sleep(due);
    while !recorder.has_ended() && Instant::now() < until {
        std::thread::sleep(RECORDER_POLL_INTERVAL);
    }
    if recorder.has_moved() {
        let what = format!("CPU {cpu} went offline while the driver's recorder ran on it");
        return Err(Refusal::new(what, "keep the CPU online"));
    }
    let woken = recorder_activations(&recorder.rows(), every_ns, u64::from(cpu));
    match woken.is_empty() {
        true => {
            let what = format!("the driver's recorder wrote nothing in {} ms", due.as_millis());
            Err(Refusal::new(what, "use a real-time priority: its thread never had the CPU"))
        }
        false => Ok(woken),
    }
}

/// Converts the recorder's rows to activations: periods missing between two rows were missed.
fn recorder_activations(rows: &[Activation], every_ns: u64, cpu: u64) -> Vec<ActivationRow> {
    let mut last: Option<u64> = None;
    let activation = |row: &Activation| {
        let passed = last.map_or(1, |last| row.expires_ns.saturating_sub(last) / every_ns.max(1));
        last = Some(row.expires_ns);
        let user_ns = row.task_ns.saturating_sub(row.expires_ns);
        let irq_ns = Some(row.irq_ns.saturating_sub(row.expires_ns));
        ActivationRow {
            missed: passed.saturating_sub(1),
            user_ns,
            work_ns: user_ns,
            irq_ns,
            cpu,
            ..ActivationRow::default()
        }
    };
    rows.iter().map(activation).collect()
}

/// Converts the tracer's rows to activations. Its thread skips the periods that it was late for, as the task does. A
/// missing record is a period of which nothing is known.
fn tracer_activations(rows: &[Row], every_ns: u64, cpu: u64) -> Vec<ActivationRow> {
    let (mut missed, mut skipped, mut last) = (0, 0, None);
    let mut woken = Vec::new();
    for row in rows {
        skipped += last.map_or(0, |last: u64| row.seq.saturating_sub(last).saturating_sub(1));
        last = Some(row.seq);
        let Some(late) = row.thread_ns else {
            skipped += 1;
            continue;
        };
        let (user_ns, work_ns, irq_ns) = (late, late, row.irq_ns);
        woken.push(ActivationRow {
            missed,
            skipped,
            user_ns,
            work_ns,
            irq_ns,
            cpu,
            ..ActivationRow::default()
        });
        (missed, skipped) = (late / every_ns, 0);
    }
    woken
}

/// Returns the wake-up clock, ns.
#[inline(always)]
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live, exclusive timespec for the call to fill; the clock exists on every Linux.
    unsafe { libc::clock_gettime(WAKE_CLOCK, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Touches the stack that the loop will use, so that all its pages are mapped later.
#[inline(never)]
fn touch_stack() {
    let mut stack = [0u8; STACK_BYTES];
    std::hint::black_box(&mut stack);
}

/// Locks every mapping of this process outside `arena` (begin, end), as far as it is present or is touched later
/// (`MLOCK_ONFAULT`). `mlockall` would lock the arena's reserved addresses too. Code matters most: under memory
/// pressure the kernel drops file pages first.
fn lock_all_but(root: &Root, arena: (u64, u64)) -> String {
    let maps = root.text("/proc/self/maps").unwrap_or_default();
    let (mut locked, mut failed) = (0, None);
    for (from, to) in maps.lines().filter_map(range) {
        if from < arena.1 && arena.0 < to {
            continue;
        }
        match lock(from, to) {
            Ok(()) => locked += to - from,
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        None => format!("yes: {} KiB outside the arena", locked >> 10),
        Some(error) => format!(
            "only {} KiB outside the arena ({error}): run as root, with CAP_IPC_LOCK, or with ulimit -l unlimited",
            locked >> 10
        ),
    }
}

/// Parses begin and end of a line of `/proc/self/maps` (proc_pid_maps(5)). The kernel's own (`[vvar]`, `[vsyscall]`)
/// are always present and cannot be locked.
fn range(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let name = words.nth(4).unwrap_or_default();
    if name.starts_with("[v") {
        return None;
    }
    Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
}

fn lock(from: u64, to: u64) -> io::Result<()> {
    // SAFETY: mlock2 changes no contents and no access rights of the range; a range that is already unmapped is an
    // error.
    let answer = unsafe { libc::syscall(libc::SYS_mlock2, from, to - from, libc::MLOCK_ONFAULT) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns why a priority was refused. If root is refused, its group of processes has no real-time runtime
/// (`RT_GROUP_SCHED`, Documentation/scheduler/sched-rt-group.rst): every new cpu group of control groups version 1
/// has none.
fn refused(root: &Root, priority: i32, error: &io::Error) -> Refusal {
    let groups = root.text("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let has = parts.next()?.split(',').any(|controller| controller == "cpu");
        has.then(|| parts.next().unwrap_or("/").to_owned())
    });
    let file = group.map(|group| format!("/sys/fs/cgroup/cpu{group}/cpu.rt_runtime_us").replace("//", "/"));
    let reason = format!("this process may not use SCHED_FIFO priority {priority} ({error})");
    match file.filter(|file| root.text(file).is_some_and(|text| text.trim() == "0")) {
        Some(file) => Refusal::new(
            format!("{reason}: its control group has no real-time runtime (RT_GROUP_SCHED)"),
            format!(
                "echo 950000 > {file}, there and in the groups above it; or --priority 0 for an ordinary task"
            ),
        ),
        None => Refusal::new(
            reason,
            format!(
                "run as root, with CAP_SYS_NICE, or with ulimit -r {priority}; or --priority 0 for an ordinary task"
            ),
        ),
    }
}

/// Returns kernel settings that affect how a task is woken, in addition to the environment facts: how the kernel
/// preempts, and how a CPU idles. The kernel's text is not changed.
pub(crate) fn facts(root: &Root, cpu: u32) -> Vec<fathom_probe::machine::Fact> {
    let files = [
        ("wake.realtime", "/sys/kernel/realtime".to_owned()),
        ("wake.preempt", "/sys/kernel/debug/sched/preempt".to_owned()),
        ("wake.idle.driver", "/sys/devices/system/cpu/cpuidle/current_driver".to_owned()),
        ("wake.idle.governor", "/sys/devices/system/cpu/cpuidle/current_governor".to_owned()),
        ("wake.fair_server.runtime", format!("/sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime")),
    ];
    let reported =
        files.into_iter().filter_map(|(name, path)| Some(crate::facts::text(name, root.text(&path)?.trim())));
    reported.chain(max_priority_facts()).collect()
}

/// Returns the highest real-time priority that needs no privilege (`RLIMIT_RTPRIO`, getrlimit(2)).
fn max_priority_facts() -> Vec<fathom_probe::machine::Fact> {
    let name = facts::PRIVILEGE_PRIORITIES;
    match rustix::process::getrlimit(rustix::process::Resource::Rtprio).current {
        None => process::granted(name, facts::UNLIMITED),
        Some(limit) => vec![
            crate::facts::text(name, Grant::Partial.token()),
            crate::facts::text(facts::value(name), limit.to_string()),
        ],
    }
}

#[cfg(test)]
mod tests;
