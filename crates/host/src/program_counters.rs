//! Counters of programs: what this machine can count of a program and of all that it starts, through the kernel's perf
//! events in user space, and what the kernel itself accounts.

use std::io;

use fathom_probe::machine::Refusal;

use crate::core_pmus;
use crate::counters::{EVENTS_AT_MOST, Tried, exercise, judge, refusal};
use crate::driver::Presence;
use crate::memory::Memory;
use crate::perf::{Counter, Event};
use crate::process::threads;
use crate::procfs::Root;
use crate::{clock, pages};

/// An event of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramEvent {
    /// Its name in perf-list(1).
    pub name: &'static str,
    pub(crate) event: Event,
    /// Whether a loop of ours must have such events, so that 0 of them means that nothing counts them.
    tried: bool,
}

impl ProgramEvent {
    /// Returns `type`, `config` and flags of perf_event_attr, with which a thread counts it itself.
    #[must_use]
    pub const fn attributes(&self) -> (u32, u64, u64) {
        self.event.attributes()
    }
}

/// Every event, in the order in which sets of them are filled. The first two are in every set. They are the kernel's
/// generalised events: the processor determines what exactly they count.
pub static PROGRAM_EVENTS: [ProgramEvent; 13] = [
    event("cycles", Event::CPU_CYCLES, true),
    event("instructions", Event::INSTRUCTIONS, true),
    event("L1-dcache-loads", Event::L1D_READS, true),
    event("L1-dcache-load-misses", Event::L1D_READ_MISSES, true),
    // Whether the loop's memory is in the last level depends on its size, which is not known here.
    event("LLC-loads", Event::LAST_LEVEL_READS, false),
    event("LLC-load-misses", Event::LAST_LEVEL_READ_MISSES, false),
    event("dTLB-load-misses", Event::DTLB_READ_MISSES, true),
    event("stalled-cycles-backend", Event::BACKEND_STALLS, true),
    event("L1-icache-load-misses", Event::L1I_READ_MISSES, false),
    event("iTLB-load-misses", Event::ITLB_READ_MISSES, false),
    event("stalled-cycles-frontend", Event::FRONTEND_STALLS, false),
    event("branches", Event::BRANCHES, true),
    event("branch-misses", Event::BRANCH_MISSES, true),
];

/// Events that the kernel counts itself, of programs over time: CPU time (ns), page faults in user space, context switches. The
/// last one happens in the kernel, which not everybody may count.
pub static KERNEL_EVENTS: [ProgramEvent; 3] = [
    event("task-clock", Event::TASK_CLOCK, false),
    event("page-faults", Event::PAGE_FAULTS, false),
    event("context-switches", Event::CONTEXT_SWITCHES.everywhere(), false),
];

/// Number of events that are in every set.
const IN_EVERY_SET: usize = 2;
/// Memory of the loop that tries events, at most, bytes.
const MEMORY_BYTES: u64 = 64 << 20;

const fn event(name: &'static str, event: Event, tried: bool) -> ProgramEvent {
    ProgramEvent { name, event, tried }
}

/// What can be counted here.
#[derive(Debug, Default)]
pub struct ProgramCounters {
    /// Each event that can be counted, with its count in a loop that must have such events; `None` if there is no such loop, or
    /// others used its counter meanwhile.
    pub tried: Vec<(&'static str, Option<u64>)>,
    /// Each event that cannot.
    pub refused: Vec<EventRefusal>,
    /// Sets of events that are counted at the same time: one for each run of a program.
    pub sets: Vec<Vec<ProgramEvent>>,
    /// Whether the kernel's work for the program is counted too, because this PMU cannot leave it out.
    pub with_kernel: bool,
}

/// Why an event cannot be counted.
#[derive(Debug)]
pub struct EventRefusal {
    /// Its name in perf-list(1).
    pub name: &'static str,
    /// Reason.
    pub reason: String,
    /// Remedy.
    pub remedy: String,
}

impl EventRefusal {
    fn new(name: &'static str, refusal: Refusal) -> EventRefusal {
        EventRefusal { name, reason: refusal.reason.into_owned(), remedy: refusal.remedy.into_owned() }
    }
}

impl ProgramCounters {
    /// Opens each event and tries it on the calling thread, and finds out which of them can be counted together.
    #[must_use]
    pub fn find() -> ProgramCounters {
        let root = Root::system();
        let mut found = ProgramCounters::default();
        let here = match core_pmus::here(&root) {
            Ok(here) => here,
            Err(why) => {
                let refused = |event: &ProgramEvent| EventRefusal::new(event.name, why.clone());
                found.refused.extend(PROGRAM_EVENTS.iter().map(refused));
                return found;
            }
        };
        found.with_kernel = here.everywhere;
        let (mut opened, mut closed) = (Vec::new(), Vec::new());
        for event in PROGRAM_EVENTS.map(|event| ProgramEvent { event: here.event(event.event), ..event }) {
            match Counter::open(event.event) {
                // One after the other, as there may be few hardware counters.
                Ok(_) => opened.push(event),
                Err(error) => closed.push((event.name, error)),
            }
        }
        let why = |error: &io::Error| match error.raw_os_error() {
            Some(libc::ENOENT | libc::EOPNOTSUPP) if !opened.is_empty() => no_such_event(error),
            _ => refusal(&root, error),
        };
        found.refused.extend(closed.iter().map(|(name, error)| EventRefusal::new(name, why(error))));
        if opened.is_empty() {
            return found;
        }
        let mut memory = memory(&root);
        opened.retain(|event| found.try_out(&root, event, memory.as_mut()));
        found.sets = sets(&opened);
        let in_a_set = |name: &str| found.sets.iter().flatten().any(|event| event.name == name);
        for event in opened.iter().filter(|event| !in_a_set(event.name)) {
            found.refused.push(EventRefusal::new(event.name, without_counter()));
        }
        found
    }

    /// Returns the same with the kernel's own events in each set.
    #[must_use]
    pub fn with_kernel_events(mut self) -> ProgramCounters {
        let root = Root::system();
        let mut opened = Vec::new();
        for event in KERNEL_EVENTS {
            match Counter::open(event.event) {
                Ok(_) => opened.push(event),
                Err(error)
                    if event.event == Event::CONTEXT_SWITCHES.everywhere()
                        && error.kind() == io::ErrorKind::PermissionDenied =>
                {
                    self.refused.push(EventRefusal::new(event.name, in_the_kernel(&error)));
                }
                Err(error) => self.refused.push(EventRefusal::new(event.name, refusal(&root, &error))),
            }
        }
        if opened.is_empty() {
            self.sets.clear();
            return self;
        }
        self.tried.extend(opened.iter().map(|event| (event.name, None)));
        if self.sets.is_empty() {
            self.sets.push(Vec::new());
        }
        for set in &mut self.sets {
            set.splice(0..0, opened.iter().copied());
        }
        self
    }

    /// Tries an event. Returns whether it counts.
    fn try_out(&mut self, root: &Root, event: &ProgramEvent, memory: Option<&mut Memory>) -> bool {
        let remedy = "give the virtual machine a PMU that has it, or measure on the bare machine";
        let why = match memory.map_or(Ok(None), |memory| judged(event, memory)) {
            Ok(Some(Tried::Nothing)) if event.tried => Refusal::new(
                "it can be opened but counts nothing in a loop that must have such events",
                remedy,
            ),
            Ok(Some(Tried::Impossible(value))) => {
                let most = EVENTS_AT_MOST;
                Refusal::new(format!("it counts {value} events in a loop that has fewer than {most}"), remedy)
            }
            Ok(judged) => {
                let counted = judged.filter(|_| event.tried).and_then(|judged| match judged {
                    Tried::Counted(count) => Some(count),
                    _ => None,
                });
                self.tried.push((event.name, counted));
                return true;
            }
            Err(error) => refusal(root, &error),
        };
        self.refused.push(EventRefusal::new(event.name, why));
        false
    }
}

/// Returns memory to try events with; `None` if there is none.
fn memory(root: &Root) -> Option<Memory> {
    let sizes = pages::sizes(root, rustix::param::page_size() as u64, None).ok()?;
    Memory::open(root.clone(), sizes, Some(MEMORY_BYTES), Presence::Absent).ok()
}

/// Returns what an event counts in the loop; `None` without memory for it, or if the event shared its counter, which is noticed
/// again with its set.
fn judged(event: &ProgramEvent, memory: &mut Memory) -> io::Result<Option<Tried>> {
    let mut counter = Counter::open(event.event)?;
    let before = counter.read()?;
    let exercised = exercise(memory);
    let after = counter.read()?;
    Ok((exercised && after.running_ns == after.enabled_ns).then_some(judge(before.count, after.count)))
}

fn no_such_event(error: &io::Error) -> Refusal {
    Refusal::new(
        format!("this machine's counters have no such event ({error})"),
        "`perf stat -e rNN` counts events by their number (fathom events)",
    )
}

fn in_the_kernel(error: &io::Error) -> Refusal {
    Refusal::new(
        format!("it happens in the kernel, which this user may not count ({error})"),
        "sysctl kernel.perf_event_paranoid=1 as root, or CAP_PERFMON",
    )
}

fn without_counter() -> Refusal {
    Refusal::new(
        "no hardware counter is free for it beside cycles and instructions",
        "end other users of counters, if there are any (perf; sysctl kernel.nmi_watchdog=0)",
    )
}

/// Fills sets: an event begins another one if it does not fit into the last.
fn sets(usable: &[ProgramEvent]) -> Vec<Vec<ProgramEvent>> {
    let is_common =
        |event: &ProgramEvent| PROGRAM_EVENTS[..IN_EVERY_SET].iter().any(|common| common.name == event.name);
    let (common, others): (Vec<_>, Vec<_>) = usable.iter().copied().partition(is_common);
    let mut all: Vec<Vec<ProgramEvent>> = Vec::new();
    let mut last = common.clone();
    for event in others {
        let with = |set: &[ProgramEvent]| [set, &[event]].concat();
        if fit(&with(&last)) {
            last.push(event);
        } else if last.len() > common.len() && fit(&with(&common)) {
            all.push(std::mem::replace(&mut last, with(&common)));
        }
    }
    if last.len() > common.len() || fit(&last) {
        all.push(last);
    }
    all
}

/// Returns whether these events have their hardware counters at the same time.
fn fit(set: &[ProgramEvent]) -> bool {
    // Some additions, so that the kernel has had to give them their counters.
    const ADDITIONS: u64 = 1 << 12;
    let Ok(mut counters) = open_all(set, Counter::open_in_group) else { return false };
    let enabled = counters.first().is_some_and(|leader| leader.enable().is_ok());
    clock::alu(ADDITIONS);
    let whole = |counter: &mut Counter| {
        counter.read().is_ok_and(|r| r.running_ns == r.enabled_ns && r.enabled_ns > 0)
    };
    enabled && counters.iter_mut().all(whole)
}

fn open_all(
    set: &[ProgramEvent],
    open: impl Fn(Event, Option<&Counter>) -> io::Result<Counter>,
) -> io::Result<Vec<Counter>> {
    let mut counters: Vec<Counter> = Vec::new();
    for event in set {
        counters.push(open(event.event, counters.first())?);
    }
    Ok(counters)
}

/// Counters of programs: a group of a set's events for the calling thread, or for each thread of a process.
#[derive(Debug)]
pub struct ProgramCounting(Vec<Vec<Counter>>);

/// A count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramCount {
    /// Events.
    pub count: u64,
    /// CPU time in which the kernel let it count, ns. Not that of setuid programs and others that may not be looked into.
    pub enabled_ns: u64,
    /// Whether it was counted all that time, and not only while it had a hardware counter.
    pub whole: bool,
}

impl ProgramCounting {
    /// Opens the counters of a set. They count what the calling thread starts from now on.
    ///
    /// # Errors
    /// One does not open: perf_event_open(2).
    pub fn open(set: &[ProgramEvent]) -> io::Result<ProgramCounting> {
        Ok(ProgramCounting(vec![open_all(set, Counter::open_for_programs)?]))
    }

    /// Opens the counters of a set for each thread of a process. They count these, and what they start, from now on.
    ///
    /// # Errors
    /// One does not open: perf_event_open(2). Of kind `NotFound`: there is no such process.
    pub fn of_process(process: u32, set: &[ProgramEvent]) -> io::Result<ProgramCounting> {
        let mut groups = Vec::new();
        for thread in threads(&Root::system(), process) {
            match open_all(set, |event, leader| Counter::open_of_thread(event, thread, leader)) {
                Ok(group) => groups.push(group),
                // It has just ended.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(error),
            }
        }
        if groups.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "it has ended"));
        }
        groups.iter().filter_map(|group| group.first()).try_for_each(Counter::enable)?;
        Ok(ProgramCounting(groups))
    }

    /// Reads the counters, in the order of the set.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn read(&mut self) -> io::Result<Vec<ProgramCount>> {
        let mut all: Vec<ProgramCount> = Vec::new();
        for group in &mut self.0 {
            for (at, counter) in group.iter_mut().enumerate() {
                let reading = counter.read()?;
                let (count, enabled_ns) = (reading.count, reading.enabled_ns);
                let whole = reading.running_ns == enabled_ns;
                match all.get_mut(at) {
                    None => all.push(ProgramCount { count, enabled_ns, whole }),
                    Some(sum) => {
                        sum.count += count;
                        sum.enabled_ns += enabled_ns;
                        sum.whole &= whole;
                    }
                }
            }
        }
        Ok(all)
    }
}

/// What the kernel accounts of programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramUsage {
    /// CPU time in user space, us.
    pub user_us: u64,
    /// CPU time in the kernel, us.
    pub system_us: u64,
    /// Page faults without reading a file.
    pub minor_faults: u64,
    /// Page faults with it.
    pub major_faults: u64,
    /// Times that it waited for something.
    pub voluntary_switches: u64,
    /// Times that its CPU was taken away.
    pub involuntary_switches: u64,
}

impl ProgramUsage {
    /// Returns that of all children of this process that were waited for, and of theirs (getrusage(2)).
    #[must_use]
    pub fn of_children() -> ProgramUsage {
        let usage = crate::watch::usage(libc::RUSAGE_CHILDREN);
        // The fields have other widths on other architectures.
        let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
        ProgramUsage {
            user_us: us(usage.ru_utime),
            system_us: us(usage.ru_stime),
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
        }
    }

    /// Returns what was added since `earlier`.
    #[must_use]
    pub fn since(self, earlier: ProgramUsage) -> ProgramUsage {
        ProgramUsage {
            user_us: self.user_us.saturating_sub(earlier.user_us),
            system_us: self.system_us.saturating_sub(earlier.system_us),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
        }
    }
}

#[cfg(test)]
mod tests;
