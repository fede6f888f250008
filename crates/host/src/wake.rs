//! Periodic wake-ups: an absolute timer, a real-time priority, and memory that is there.
//!
//! What is set here is bound to the thread and the process, and the priority is given back after each trial.

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
use crate::quiet::set_policy;
use crate::read::Root;
use crate::supervisor::Supervisor;
use crate::trace::timerlat::{Row, timerlat};
use crate::trace::{self, Trace};
use crate::watch;

/// Stack that is touched before the first sleep: the loop and what it calls take less than a page or two.
const STACK: usize = 64 << 10;

/// The wake-up clock: the one that absolute timers are set by, and the tracer's clock `mono`.
const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;

/// A thread that is woken.
pub(crate) struct Waker {
    /// Involuntary switches before the series.
    before: u64,
    /// Is a real-time priority held?
    raised: bool,
    /// The trace instance, from the first series on that wants one.
    trace: Option<Trace>,
    /// Is it recording?
    tracing: bool,
    /// What it recorded last.
    traced: trace::TraceRecording,
    /// What of the process cannot be paged out; told at the session's end.
    pub(crate) locked: Option<String>,
    /// Whose word the kernel's own wake-ups were, likewise.
    pub(crate) kernel: Option<String>,
    supervisor: Supervisor,
    /// When the thread woke last, and for how long it is awake at least.
    woke_ns: u64,
    least_ns: u64,
    /// Sleeps of the series.
    slept: u64,
    /// The CPU and involuntary switches when they were asked for last.
    cpu: u64,
    involuntary: u64,
}

/// Whose word the kernel's own wake-ups are, where the kernel has it (`timerlat_main`, Linux,
/// kernel/trace/trace_osnoise.c, gives its thread that priority).
const TRACER: &str = "the tracer timerlat, SCHED_FIFO 95";

/// What a recorder may take beyond twice its time, and how often it is looked at then.
const SETTLE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(5);

/// After so many sleeps at the latest the kernel is asked for switches and, where that takes a system call, the CPU.
const ASK: u64 = 64;

/// Two switches of a CPU with what ran between them take longer than this, ns: each is thousands of instructions (the
/// laboratory's path through one to a task has 4,840, benches/README.md).
const SWITCHES_NS: u64 = 500;

/// Has the reaper remove a trace instance that is about to be made.
fn hold(supervisor: &Supervisor, path: &Path, held: &mut Option<PathBuf>) -> Result<(), Refusal> {
    // A library's user may have no reaper; the next process then removes what a kill leaves.
    if supervisor.has_reaper() {
        supervisor.holds(path, true)?;
        *held = Some(path.to_owned());
    }
    Ok(())
}

/// It is gone, or was never made.
fn release(supervisor: &Supervisor, held: Option<PathBuf>) {
    held.iter().for_each(|path| supervisor.removed(path));
}

impl Waker {
    pub(crate) fn new(supervisor: Supervisor) -> Waker {
        let traced = trace::TraceRecording::default();
        Waker {
            before: 0,
            raised: false,
            trace: None,
            tracing: false,
            traced,
            locked: None,
            kernel: None,
            supervisor,
            woke_ns: 0,
            least_ns: u64::MAX,
            slept: 0,
            cpu: 0,
            involuntary: 0,
        }
    }

    /// Takes the priority and sees to memory. The first time, all that the process has mapped beside `arena` is
    /// locked; the arena sees to itself.
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
        self.traced = trace::TraceRecording::default();
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
        (self.woke_ns, self.least_ns, self.slept) = (0, u64::MAX, 0);
        Ok(now())
    }

    /// Begins to record the earlier places, in an instance that is made when it is first wanted.
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

    /// Gives the priority back, and ends the recording.
    pub(crate) fn end(&mut self) -> Result<ActivationTrace, Refusal> {
        if std::mem::take(&mut self.raised) {
            // Lowering one's own policy is always permitted (sched(7)).
            let _ = set_policy(libc::SCHED_OTHER, 0);
        }
        if let Some(trace) = self.trace.as_mut().filter(|_| std::mem::take(&mut self.tracing)) {
            self.traced = trace.end()?;
        }
        let places = self.traced.stages.iter().map(|s| Places {
            expires_ns: s.expires_ns,
            irq_ns: s.irq_ns,
            wake_ns: s.wake_ns,
            switch_ns: s.switch_ns,
        });
        Ok(ActivationTrace { places: places.collect(), lost: self.traced.lost })
    }

    /// So many wake-ups of the kernel's own thread, and the records that there was no room for: by the tracer timerlat,
    /// and where that is not available by our own driver's recorder.
    pub(crate) fn kernels(
        &mut self,
        root: &Root,
        own: &Presence,
        (cpu, activations): (u32, u64),
        wakes: &Wakes,
    ) -> Result<(Vec<ActivationRow>, u64), Refusal> {
        let refusal = match self.by_tracer(root, (cpu, activations), wakes) {
            Ok(reported) => {
                self.kernel = Some(TRACER.into());
                return Ok(reported);
            }
            Err(refusal) => refusal,
        };
        match own {
            Presence::There(driver) if driver.wakes() => {
                let policy = Policy::of(wakes.priority);
                let woken = recorded(driver, (cpu, activations), wakes.every_ns, policy)?;
                let why = refusal.reason;
                self.kernel = Some(format!("the {}, {}; {why}", driver::NAME, policy.words()));
                Ok((woken, 0))
            }
            Presence::There(_) => Err(refusal),
            _ => Err(Refusal::new(
                format!("{}, and Fathom's driver {}", refusal.reason, own.state()),
                format!("{}; or, by the driver, {}", refusal.remedy, own.remedy()),
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
            let what = format!("timerlat takes whole microseconds, and no period of {} ns", wakes.every_ns);
            return Err(Refusal::new(what, "ask for 100 us to 1 s"));
        }
        // One more: the first may be under way when the recording begins.
        let time = Duration::from_nanos(wakes.every_ns.saturating_mul(activations + 1));
        let mut held = None;
        let took = timerlat(root, cpu, period_us, time, |path| hold(&self.supervisor, path, &mut held));
        release(&self.supervisor, held);
        let took = took?;
        let woken = of_rows(&took.rows, wakes.every_ns, u64::from(cpu));
        match woken.is_empty() {
            true => Err(Refusal::new(format!("timerlat wrote nothing in {} ms", time.as_millis()), "")),
            false => Ok((woken, took.lost)),
        }
    }

    /// What ran between two times of the last series.
    pub(crate) fn around(&self, from_ns: u64, to_ns: u64, most: usize) -> Vec<Event> {
        let rows = self.traced.around(from_ns, to_ns, most).into_iter();
        rows.map(|(at_ns, what)| Event { at_ns, what }).collect()
    }

    /// Sleeps until `at_ns`. The clock is the first thing that is read behind it.
    ///
    /// The kernel is asked for involuntary switches only where there can have been one: where the thread was awake for
    /// [`SWITCHES_NS`] longer than it takes at least, whatever its work is.
    #[inline(always)]
    pub(crate) fn sleep(&mut self, at_ns: u64) -> Result<WakeReturn, Refusal> {
        let awake_ns = now().saturating_sub(self.woke_ns);
        if awake_ns.saturating_sub(self.least_ns) > SWITCHES_NS || self.slept.is_multiple_of(ASK) {
            self.ask();
        }
        self.least_ns = self.least_ns.min(awake_ns);
        self.slept += 1;
        let (seconds, nanoseconds) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
        let at = libc::timespec { tv_sec: seconds as _, tv_nsec: nanoseconds as _ };
        loop {
            // SAFETY: `at` is a live timespec that is only read; no remaining time is asked for.
            let error = unsafe {
                libc::clock_nanosleep(CLOCK, libc::TIMER_ABSTIME, &raw const at, std::ptr::null_mut())
            };
            match error {
                0 => break,
                // A signal that was handled: the time is absolute, so the sleep continues.
                libc::EINTR => {}
                other => {
                    let error = io::Error::from_raw_os_error(other);
                    return Err(Refusal::new(format!("clock_nanosleep fails: {error}"), ""));
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
    fn ask(&mut self) {
        self.involuntary = watch::involuntary().saturating_sub(self.before);
        self.cpu = cpu();
    }
}

/// The CPU that this thread is on.
fn cpu() -> u64 {
    // SAFETY: no arguments; the thread's own memory, the vDSO or the kernel answers with a number.
    let cpu = unsafe { libc::sched_getcpu() };
    u64::try_from(cpu).unwrap_or(0)
}

/// So many wake-ups of a thread of our own driver's.
fn recorded(
    driver: &Rc<Driver>,
    (cpu, activations): (u32, u64),
    every_ns: u64,
    policy: Policy,
) -> Result<Vec<ActivationRow>, Refusal> {
    let recorder = Recorder::start(driver, every_ns, cpu, policy, activations + 1)?;
    let due = Duration::from_nanos(every_ns.saturating_mul(activations + 1));
    // A thread that is late misses periods, and an ordinary one waits for its turn; but not forever.
    let until = Instant::now() + due.saturating_mul(2) + SETTLE;
    std::thread::sleep(due);
    while !recorder.has_ended() && Instant::now() < until {
        std::thread::sleep(LOOK);
    }
    let woken = of_activations(&recorder.rows(), every_ns, u64::from(cpu));
    match woken.is_empty() {
        true => {
            let what = format!("the driver's recorder wrote nothing in {} ms", due.as_millis());
            Err(Refusal::new(what, "ask for a real-time priority: its thread never had the CPU"))
        }
        false => Ok(woken),
    }
}

/// The recorder's rows as activations: what is missing between two times on its grid was missed.
fn of_activations(rows: &[Activation], every_ns: u64, cpu: u64) -> Vec<ActivationRow> {
    let mut last: Option<u64> = None;
    let one = |row: &Activation| {
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
    rows.iter().map(one).collect()
}

/// The tracer's rows as activations. Its thread skips the periods that it was late for, as a task does here; a record
/// that is missing is a period of which nothing is known.
fn of_rows(rows: &[Row], every_ns: u64, cpu: u64) -> Vec<ActivationRow> {
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

/// The wake-up clock, ns.
#[inline(always)]
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live, exclusive timespec for the call to fill; the clock exists on every Linux.
    unsafe { libc::clock_gettime(CLOCK, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Touches the stack that the loop will use, so that no page of it is missing later.
#[inline(never)]
fn touch_stack() {
    let mut stack = [0u8; STACK];
    std::hint::black_box(&mut stack);
}

/// Locks every mapping of this process that is outside `arena` (begin, end), as far as it is there or is touched
/// (`MLOCK_ONFAULT`): `mlockall` would take the arena's reserved addresses too. Code is what matters: under pressure
/// the kernel drops pages of files first.
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
        None => format!("yes: {} KiB beside the arena", locked >> 10),
        Some(error) => format!(
            "only {} KiB beside the arena ({error}): run as root, with CAP_IPC_LOCK, or with ulimit -l unlimited",
            locked >> 10
        ),
    }
}

/// Begin and end of a line of `/proc/self/maps` (proc_pid_maps(5)). The kernel's own (`[vvar]`, `[vsyscall]`) are
/// always there and cannot be locked.
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
    // SAFETY: mlock2 changes no contents and no rights of the range; one that is gone by now is an error.
    let answer = unsafe { libc::syscall(libc::SYS_mlock2, from, to - from, libc::MLOCK_ONFAULT) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Why a priority was not given. Root that may not is in a group of processes without real-time runtime
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
    let reason = format!("a task of this process may not have SCHED_FIFO priority {priority} ({error})");
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

/// What of the surroundings decides how a task is woken, beside what the environment says anyway: how the kernel
/// preempts, and what an idle CPU does. Each as the kernel says it.
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
    reported.chain(most_priority()).collect()
}

/// The highest real-time priority that may be asked for without a privilege (`RLIMIT_RTPRIO`, getrlimit(2)).
fn most_priority() -> Vec<fathom_probe::machine::Fact> {
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
