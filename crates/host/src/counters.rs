//! Event counters of the processor, through the kernel's perf events. Each has to count something that it must count
//! before it is believed.

use std::io;

use fathom_probe::machine::{Attribute, Count, Fact, MapRequest, Pages, Refusal};
use fathom_units::facts::{Grant, PRIVILEGE_COUNTERS};
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Event, Hardware};
use perf_event::{Builder, Counter};

use crate::clock;
use crate::facts::{int, text};
use crate::memory::Memory;
use crate::process::{granted, not_granted};
use crate::read::Root;

/// The counters that work here, or why none does.
pub(crate) struct Events {
    counters: Vec<(&'static str, Counter)>,
    /// Those that are closed until somebody wants them.
    resting: Vec<&'static str>,
    refusal: Refusal,
}

/// Memory that is read to see whether misses are counted: more lines than any first level holds, and more
/// pages than any TLB does.
const EXERCISE: u64 = 16 << 20;

/// Additions that are carried out to see whether cycles are counted.
const ADDITIONS: u64 = 1 << 16;

impl Events {
    /// Opens each counter and tries it. One that opens and then counts nothing over a loop that must have
    /// such events is refused: some kernels and hypervisors accept an event that no hardware counts.
    pub(crate) fn open(root: &Root, memory: &mut Memory) -> (Events, Vec<Fact>) {
        let mut facts = Vec::new();
        let mut counters = Vec::new();
        let mut error = None;
        for (name, counter) in candidates() {
            match counter {
                Ok(counter) => counters.push((name, counter)),
                Err(e) => {
                    facts.push(text(format!("counter.{name}"), format!("not opened: {e}")));
                    error.get_or_insert(e);
                }
            }
        }
        let opened = !counters.is_empty();
        let forbidden = error.as_ref().is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        if opened {
            keep_counting(&mut counters, memory, &mut facts);
        }
        let refusal = match error {
            Some(error) if !opened => refusal(root, &error),
            _ => Refusal::new(
                "the event counters open and count nothing",
                "give the virtual machine a PMU, or measure on the bare machine",
            ),
        };
        if counters.is_empty() {
            let grant = if forbidden { Grant::Refused } else { Grant::Absent };
            facts.extend(not_granted(PRIVILEGE_COUNTERS, grant, &refusal));
        } else {
            let names: Vec<&str> = counters.iter().map(|(name, _)| *name).collect();
            facts.extend(granted(PRIVILEGE_COUNTERS, names.join(",")));
        }
        (Events { counters, resting: Vec::new(), refusal }, facts)
    }

    /// None of them, because the clock excludes them; and the facts that say so.
    pub(crate) fn none(refusal: Refusal) -> (Events, Vec<Fact>) {
        let facts = not_granted(PRIVILEGE_COUNTERS, Grant::Excluded, &refusal);
        (Events { counters: Vec::new(), resting: Vec::new(), refusal }, facts)
    }

    /// Closes all of them until one is read: a thread that has some is switched to and from by a longer path. In a
    /// guest of AArch64 under Linux 6.1 -rt the median path to a task had 7,748 instructions with four of them, and has
    /// 5,244 without (the laboratory's sweep beside blocks of 16 MiB, docs/method/wakeup.md).
    pub(crate) fn rest(&mut self) {
        self.resting.extend(self.counters.drain(..).map(|(name, _)| name));
    }

    /// Reads every counter.
    pub(crate) fn read(&mut self) -> Result<Vec<Count>, Refusal> {
        if !self.resting.is_empty() {
            let opened = candidates().into_iter().filter_map(|(name, counter)| Some((name, counter.ok()?)));
            self.counters.extend(opened.filter(|(name, _)| self.resting.contains(name)));
            self.resting.clear();
        }
        if self.counters.is_empty() {
            return Err(self.refusal.clone());
        }
        let one = |(name, counter): &mut (&'static str, Counter)| {
            let value = read(counter).map_err(|error| {
                Refusal::new(
                    format!("the counter {name} cannot be read: {error}"),
                    "leave the counters alone",
                )
            })?;
            Ok(Count { name: (*name).into(), value })
        };
        self.counters.iter_mut().map(one).collect()
    }
}

/// Tries every counter and keeps those that count.
fn keep_counting(counters: &mut Vec<(&'static str, Counter)>, memory: &mut Memory, facts: &mut Vec<Fact>) {
    let before: Vec<Option<u64>> = counters.iter_mut().map(|(_, c)| read(c).ok()).collect();
    exercise(memory);
    let mut before = before.into_iter();
    counters.retain_mut(|(name, counter)| {
        let counted = match (before.next().flatten(), read(counter).ok()) {
            (Some(before), Some(after)) => after.wrapping_sub(before),
            _ => 0,
        };
        facts.push(int(format!("counter.{name}.tried"), counted));
        counted != 0
    });
}

/// Work that takes cycles and instructions and misses every first level and TLB.
fn exercise(memory: &mut Memory) {
    clock::alu(ADDITIONS);
    let request =
        MapRequest { bytes: EXERCISE, pages: Pages::Base, attribute: Attribute::WriteBack, place: 0 };
    // Where so much memory cannot be had, what misses count is not known, and they are left out.
    let Ok(map) = memory.map(&request) else { return };
    // A step of a page and a line: each load is a new page and another set.
    let step = map.page_bytes + 64;
    for turn in 0..2 {
        let mut offset = map.base + 8 * turn;
        while let Some(cell) = memory.cell(offset) {
            memory.arena.follow(cell);
            offset += step;
        }
    }
}

/// The counter's value. One that had to share its register with others has no true value.
fn read(counter: &mut Counter) -> io::Result<u64> {
    let all = counter.read_count_and_time()?;
    if all.time_running < all.time_enabled {
        return Err(io::Error::other("it shares its register with another user's"));
    }
    Ok(all.count)
}

fn candidates() -> Vec<(&'static str, io::Result<Counter>)> {
    let misses = |which| Cache { which, operation: CacheOp::READ, result: CacheResult::MISS };
    vec![
        ("cycles", open(Hardware::CPU_CYCLES)),
        ("instructions", open(Hardware::INSTRUCTIONS)),
        // The kernel's generalised events: what exactly they count is the processor's affair. The first is
        // refills of the first level; the second, unlike the model's TLB refills, completed walks on some.
        ("refill.L1D", open(misses(CacheId::L1D))),
        ("miss.dTLB", open(misses(CacheId::DTLB))),
    ]
}

/// A counter of this thread in user space, which `perf_event_paranoid` up to 2 permits everyone.
fn open(event: impl Event) -> io::Result<Counter> {
    let mut builder = Builder::new(event);
    let mut counter = builder.exclude_kernel(true).exclude_hv(true).build()?;
    counter.enable()?;
    Ok(counter)
}

/// Why there are no counters, from the error of the first.
fn refusal(root: &Root, error: &io::Error) -> Refusal {
    let paranoid = root.text("/proc/sys/kernel/perf_event_paranoid").unwrap_or_else(|| "absent".into());
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => Refusal::new(
            format!("this kernel has no hardware event counters ({error})"),
            "give the virtual machine a PMU (QEMU: -cpu host,pmu=on), or measure on the bare machine",
        ),
        Some(libc::EACCES | libc::EPERM) => Refusal::new(
            format!("event counters are not permitted ({error}; perf_event_paranoid is {paranoid})"),
            "sysctl kernel.perf_event_paranoid=2 as root, or CAP_PERFMON; in a container allow perf_event_open",
        ),
        Some(libc::ENOSYS) => Refusal::new(
            format!("perf_event_open is not there ({error})"),
            "a kernel with CONFIG_PERF_EVENTS has it; a sandbox may hide it; emulators of programs have none",
        ),
        _ => Refusal::new(
            format!("event counters cannot be opened ({error}; perf_event_paranoid is {paranoid})"),
            "see perf_event_open(2) for that error",
        ),
    }
}

#[cfg(test)]
mod tests;
