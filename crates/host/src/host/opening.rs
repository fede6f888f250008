//! Steps of opening a host; their results become facts.

use fathom_probe::calibration::{Rate, resolution};
use fathom_probe::machine::{Attribute, Fact, MapRequest, Pages};
use fathom_units::facts;

use crate::clock::{self, Source};
use crate::counters::Events;
use crate::cpu_lock::CpuLock;
use crate::cycles::Cycles;
use crate::driver::Presence;
use crate::driver_buffer;
use crate::facts::{int, text};
use crate::memory::Memory;
use crate::pages::PageSizes;
use crate::process;
use crate::procfs::Root;
use crate::rt_priority::{self, RtPriority};
use crate::watch::Watcher;

/// Adds the facts of the CPU's lock, and the other CPUs that are measured.
pub(super) fn locked(lock: Option<(CpuLock, Vec<Fact>)>, facts: &mut Vec<Fact>) -> Option<CpuLock> {
    let (mut lock, reported) = lock?;
    facts.extend(reported);
    facts.extend(lock.others(facts::ENV));
    Some(lock)
}

/// Pins the thread and raises its priority; the results become facts.
pub(super) fn prepare(root: &Root, cpu: u32, priority: bool, facts: &mut Vec<Fact>) -> RtPriority {
    facts.push(int(facts::CPU_PINNED, u64::from(cpu)));
    facts.extend(process::pin(cpu));
    facts.extend(process::raise_oom_score(root));
    facts.extend(process::raise_memlock(root));
    if priority {
        facts.extend(process::raise_nice());
    }
    let (rt_priority, tried) = RtPriority::new(root, priority);
    facts.extend(tried);
    rt_priority
}

/// Returns the best clock, calibrated: the core's cycle counter if the right to read it lasted throughout the
/// calibration.
pub(super) fn calibrated(root: &Root, cycles: Option<Cycles>) -> (Source, Option<Cycles>, Vec<Fact>) {
    let chosen = || {
        let (clock, why) = Source::choose(root);
        (clock, clock_facts(clock, why, clock::rate(clock)))
    };
    let Some(cycles) = cycles else {
        let (clock, facts) = chosen();
        return (clock, None, facts);
    };
    cycles.begin();
    let clock = cycles.source();
    let facts = clock_facts(clock, cycles.how.clone(), clock::rate(clock));
    let Err(refusal) = cycles.check_available() else { return (clock, Some(cycles), facts) };
    drop(cycles);
    let (clock, mut facts) = chosen();
    facts.push(text("clock.cycles.lost", refusal.reason));
    (clock, None, facts)
}

/// Opens the event counters; none if they would revoke the right to read the clock.
pub(super) fn events(root: &Root, cycles: Option<&Cycles>, memory: &mut Memory) -> (Events, Vec<Fact>) {
    match cycles.map_or(Ok(()), Cycles::check_events_permitted) {
        Ok(()) => Events::open(root, memory),
        Err(refusal) => Events::excluded(refusal),
    }
}

/// Returns the facts of memory after a first granule was mapped, which shows whether memory can be locked. A failure
/// is not an error here; the first request reports it.
pub(super) fn memory_facts(
    root: &Root,
    driver: &Presence,
    sizes: &PageSizes,
    memory: &mut Memory,
) -> Vec<Fact> {
    let mut facts = page_facts(sizes);
    facts.push(int("memory.reserved.bytes", memory.half() * 2));
    facts.extend(buffer_device_facts(root, driver, memory));
    let first = MapRequest { bytes: 1, pages: Pages::Base, attribute: Attribute::WriteBack, place: 0 };
    let _ = memory.map(&first);
    facts
}

fn page_facts(sizes: &PageSizes) -> Vec<Fact> {
    let mut facts = vec![int(facts::PAGE_BASE, sizes.base), int("page.injected", u64::from(sizes.injected))];
    facts.extend(sizes.huge.map(|huge| int(facts::PAGE_HUGE, huge)));
    facts
}

/// Returns the drivers that provide memory with other attributes or colours.
fn buffer_device_facts(root: &Root, driver: &Presence, memory: &Memory) -> Vec<Fact> {
    let buffer_device = |attribute: &Attribute| {
        let buffer_device = driver_buffer::find(root, driver, *attribute)?;
        Some(text(format!("attribute.{}", attribute.token()), buffer_device.name))
    };
    let colours = memory.coloured_page_provider().map(|(name, bytes)| {
        [text(facts::PAGE_COLOURED, name), int(facts::MEMORY_MAPPABLE_COLOURED_BYTES, bytes)]
    });
    driver_buffer::ATTRIBUTES.iter().filter_map(buffer_device).chain(colours.into_iter().flatten()).collect()
}

fn clock_facts(clock: Source, why: String, rate: Rate) -> Vec<Fact> {
    let (overhead, resolution) = resolution(|| clock.now().0);
    vec![
        text(facts::CLOCK_NAME, clock.name()),
        text(facts::CLOCK_CHOICE, why),
        int(facts::CLOCK_HZ, rate.hz),
        int(facts::CLOCK_HZ_PPM, rate.ppm),
        int(facts::CLOCK_OVERHEAD_TICKS, overhead),
        int(facts::CLOCK_RESOLUTION_TICKS, resolution),
    ]
}

pub(super) fn watch_facts(watcher: &mut Watcher) -> Vec<Fact> {
    let begin = clock::raw_ns();
    let rounds = 16;
    for _ in 0..rounds {
        watcher.read();
    }
    let mut facts = vec![int("watch.cost.ns", (clock::raw_ns() - begin) / rounds)];
    facts.extend(watcher.steal_step_ns().map(|ns| int("watch.steal_step.ns", ns)));
    facts
}

pub(super) fn throttle_facts(root: &Root) -> Vec<Fact> {
    match rt_priority::throttle(root) {
        Some(t) => {
            vec![int(facts::THROTTLE_RUNTIME_NS, t.runtime_ns), int(facts::THROTTLE_PERIOD_NS, t.period_ns)]
        }
        None => vec![text("throttle", "off")],
    }
}
