//! What opening a host does and looks at; what came of each becomes facts.

use fathom_probe::calibration::{Rate, resolution};
use fathom_probe::machine::{Attribute, Fact, MapRequest, Pages};
use fathom_units::facts;

use crate::clock::{self, Source};
use crate::counters::Events;
use crate::cycles::Cycles;
use crate::driver::Presence;
use crate::driver_buffer;
use crate::facts::{int, text};
use crate::memory::Memory;
use crate::pages::PageSizes;
use crate::process;
use crate::quiet::{self, Quiet};
use crate::read::Root;
use crate::watch::Watcher;

/// Pins the thread and raises its priority; what came of it becomes facts.
pub(super) fn prepare(root: &Root, cpu: u32, priority: bool, facts: &mut Vec<Fact>) -> Quiet {
    facts.push(int(facts::CPU_PINNED, u64::from(cpu)));
    facts.extend(process::pin(cpu));
    facts.extend(process::raise_oom_score(root));
    facts.extend(process::raise_memlock(root));
    if priority {
        facts.extend(process::raise_nice());
    }
    let (quiet, tried) = Quiet::new(root, priority);
    facts.extend(tried);
    quiet
}

/// The best clock, calibrated: the core's own cycles where they may be read, and could be all the while.
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
    let Err(refusal) = cycles.kept() else { return (clock, Some(cycles), facts) };
    drop(cycles);
    let (clock, mut facts) = chosen();
    facts.push(text("clock.cycles.lost", refusal.reason));
    (clock, None, facts)
}

/// The counters of events; none where one would take the clock away.
pub(super) fn events(root: &Root, cycles: Option<&Cycles>, memory: &mut Memory) -> (Events, Vec<Fact>) {
    match cycles.map_or(Ok(()), Cycles::bears_events) {
        Ok(()) => Events::open(root, memory),
        Err(refusal) => Events::none(refusal),
    }
}

/// What memory there is, after the first granule was mapped: that shows at once whether memory can be locked. It is no
/// error here if even this little is not available; the first request says so.
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

/// Who lends memory that the kernel does not hand out by itself.
fn buffer_device_facts(root: &Root, driver: &Presence, memory: &Memory) -> Vec<Fact> {
    let buffer_device = |attribute: &Attribute| {
        let buffer_device = driver_buffer::find(root, driver, *attribute)?;
        Some(text(format!("attribute.{}", attribute.token()), buffer_device.name))
    };
    let colours = memory.coloured_page_provider().map(|name| text(facts::PAGE_COLOURED, name));
    driver_buffer::ATTRIBUTES.iter().filter_map(buffer_device).chain(colours).collect()
}

fn clock_facts(clock: Source, why: String, rate: Rate) -> Vec<Fact> {
    let (overhead, step) = resolution(|| clock.now().0);
    vec![
        text(facts::CLOCK_NAME, clock.name()),
        text(facts::CLOCK_CHOICE, why),
        int(facts::CLOCK_HZ, rate.hz),
        int(facts::CLOCK_HZ_PPM, rate.ppm),
        int(facts::CLOCK_OVERHEAD_TICKS, overhead),
        int(facts::CLOCK_STEP_TICKS, step),
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
    match quiet::throttle(root) {
        Some(t) => {
            vec![int(facts::THROTTLE_RUNTIME_NS, t.runtime_ns), int(facts::THROTTLE_PERIOD_NS, t.period_ns)]
        }
        None => vec![text("throttle", "off")],
    }
}
