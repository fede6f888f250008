//! Event counters of the processor, through the kernel's perf events. Each is used only after it has counted events
//! of a test loop.

use std::io;

use fathom_probe::machine::{Attribute, Count, CountedEvent, Fact, MapRequest, Pages, Refusal};
use fathom_units::facts::{Grant, PRIVILEGE_COUNTERS};

use crate::clock;
use crate::facts::{int, text};
use crate::memory::Memory;
use crate::perf::{Counter, Event};
use crate::process::{granted, not_granted};
use crate::procfs::Root;

/// The counters that work here, or the reason why none does.
pub(crate) struct Events {
    counters: Vec<(&'static str, Counter)>,
    /// Counters that are closed until the next read.
    closed: Vec<&'static str>,
    refusal: Refusal,
}

/// Memory that is read to test whether misses are counted, bytes: more lines than any first level holds, and more
/// pages than any TLB does.
const EXERCISE_BYTES: u64 = 16 << 20;

/// Additions that are executed to test whether cycles are counted.
const TEST_ADDITIONS: u64 = 1 << 16;

/// Most events of any kind in the test loop. In user space it has less than 2^20 instructions. The kernel, where its work is
/// counted too, backs and zeroes 16 MiB for it, in some 2^25 instructions of a 32-bit processor. Cycles are several for each, and
/// of an emulator those of its host. Below the 2^31 - 1 of a register that stays 0.
pub(crate) const EVENTS_AT_MOST: u64 = 1 << 30;

/// What a counter counted in the test loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// This many events.
    Counted(u64),
    /// None, although the loop has some.
    Nothing,
    /// This value, which is impossible. QEMU's ARM1176 has registers that stay 0, which Linux 6.1 takes for 2^31 events.
    Impossible(u64),
}

/// Judges a counter by its values before and after the test loop. The first is that of next to no work.
pub(crate) fn judge(before: u64, after: u64) -> Tried {
    match after.checked_sub(before) {
        Some(0) if after <= EVENTS_AT_MOST => Tried::Nothing,
        Some(counted) if after <= EVENTS_AT_MOST => Tried::Counted(counted),
        _ => Tried::Impossible(after),
    }
}

impl Events {
    /// Opens each counter and tests it. A counter that opens and counts nothing in a loop that must have such events,
    /// or more than the loop can have, is rejected: some kernels and hypervisors accept an event that no hardware counts.
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
                "the event counters can be opened but do not count",
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
        (Events { counters, closed: Vec::new(), refusal }, facts)
    }

    /// Returns no counters, because the clock excludes them, and the facts that report it.
    pub(crate) fn excluded(refusal: Refusal) -> (Events, Vec<Fact>) {
        let facts = not_granted(PRIVILEGE_COUNTERS, Grant::Excluded, &refusal);
        (Events { counters: Vec::new(), closed: Vec::new(), refusal }, facts)
    }

    /// Closes all counters until the next read, because switching to and from a thread with counters takes a longer
    /// path. In a guest of AArch64 under Linux 6.1 -rt the median path to a task had 7,748 instructions with four
    /// counters, and 5,244 without (the laboratory's sweep with blocks of 16 MiB, docs/method/wakeup.md).
    pub(crate) fn close_all(&mut self) {
        self.closed.extend(self.counters.drain(..).map(|(name, _)| name));
    }

    /// Reads every counter.
    pub(crate) fn read(&mut self) -> Result<Vec<Count>, Refusal> {
        if !self.closed.is_empty() {
            let opened = candidates().filter_map(|(name, counter)| Some((name, counter.ok()?)));
            self.counters.extend(opened.filter(|(name, _)| self.closed.contains(name)));
            self.closed.clear();
        }
        if self.counters.is_empty() {
            return Err(self.refusal.clone());
        }
        let read_counter = |(name, counter): &mut (&'static str, Counter)| {
            let value = read(counter).map_err(|error| {
                Refusal::new(
                    format!("the counter {name} cannot be read: {error}"),
                    "measure without counters",
                )
            })?;
            Ok(Count { name: (*name).into(), event: reported_as(name), value })
        };
        self.counters.iter_mut().map(read_counter).collect()
    }
}

/// Tests every counter and keeps those that count.
fn keep_counting(counters: &mut Vec<(&'static str, Counter)>, memory: &mut Memory, facts: &mut Vec<Fact>) {
    let before: Vec<Option<u64>> = counters.iter_mut().map(|(_, c)| read(c).ok()).collect();
    // Without memory for misses, their counters are dropped, as nothing tells whether they count.
    let _ = exercise(memory);
    let mut before = before.into_iter();
    counters.retain_mut(|(name, counter)| {
        let name = format!("counter.{name}");
        let judged = match (before.next().flatten(), read(counter).ok()) {
            (Some(before), Some(after)) => judge(before, after),
            _ => Tried::Nothing,
        };
        facts.push(match judged {
            Tried::Counted(counted) => int(format!("{name}.tried"), counted),
            Tried::Nothing => int(format!("{name}.tried"), 0),
            Tried::Impossible(value) => int(format!("{name}.impossible"), value),
        });
        matches!(judged, Tried::Counted(_))
    });
}

/// Takes cycles and instructions, and misses in every first level and TLB.
///
/// Returns whether there was memory for the misses.
pub(crate) fn exercise(memory: &mut Memory) -> bool {
    clock::alu(TEST_ADDITIONS);
    let request =
        MapRequest { bytes: EXERCISE_BYTES, pages: Pages::Base, attribute: Attribute::WriteBack, place: 0 };
    let Ok(map) = memory.map(&request) else { return false };
    // A stride of a page and a line: each load has a new page and another set.
    let step = map.page_bytes + 64;
    for turn in 0..2 {
        let mut offset = map.base + 8 * turn;
        while let Some(cell) = memory.cell(offset) {
            memory.arena.follow(cell);
            offset += step;
        }
    }
    true
}

/// Returns the counter's value; an error if the counter shared its register, because its value is then an estimate.
fn read(counter: &mut Counter) -> io::Result<u64> {
    let all = counter.read()?;
    if all.running_ns < all.enabled_ns {
        return Err(io::Error::other("it shares its register with another counter"));
    }
    Ok(all.count)
}

/// The events that are tried: names, what patterns report them as, and the kernel's generalised events, of which the
/// processor determines what exactly they count. `miss.dTLB` counts completed walks on some processors, which differ from
/// refills of a TLB. Each is counted on its own, and a reading fails unless all had a register all the time: so they
/// counted together.
const CANDIDATES: [(&str, Option<CountedEvent>, Event); 5] = [
    ("cycles", None, Event::CPU_CYCLES),
    ("instructions", Some(CountedEvent::Instructions), Event::INSTRUCTIONS),
    ("refill.L1D", Some(CountedEvent::Refill(1)), Event::L1D_READ_MISSES),
    ("miss.dTLB", Some(CountedEvent::TlbMisses), Event::DTLB_READ_MISSES),
    ("stall.backend", Some(CountedEvent::StallCycles), Event::BACKEND_STALLS),
];

fn candidates() -> impl Iterator<Item = (&'static str, io::Result<Counter>)> {
    CANDIDATES.into_iter().map(|(name, _, event)| (name, Counter::open(event)))
}

/// Returns what patterns report a counter as.
fn reported_as(name: &str) -> Option<CountedEvent> {
    CANDIDATES.iter().find(|(candidate, ..)| *candidate == name)?.1
}

/// Returns why an event cannot be counted, from the error with which it does not open.
pub(crate) fn refusal(root: &Root, error: &io::Error) -> Refusal {
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
            format!("perf_event_open is not available ({error})"),
            "use a kernel with CONFIG_PERF_EVENTS; a sandbox may block it; user-mode emulators do not have it",
        ),
        _ => Refusal::new(
            format!("event counters cannot be opened ({error}; perf_event_paranoid is {paranoid})"),
            "see perf_event_open(2) for this error",
        ),
    }
}

#[cfg(test)]
mod tests;
