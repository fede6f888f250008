//! The events of the described processor's counters, by what a simulation counts.

use fathom_events::{Access, Cache, Event, TABLES, Table, Term};
use fathom_experiment::record::{Simulated, SimulatedEvent, SimulatedEvents};
use fathom_model::description::{Holds, Inclusion, Time, WalkFrom};
use fathom_model::{Description, UNITS_PER_CYCLE};
use fathom_simulation::MachineCounts;
use fathom_simulation::protocol::{Answer, Place};

use super::machines::Machine;
use crate::failure::Failure;

/// QEMU's name of the instruction set whose loads and stores may be conditional.
const CONDITIONAL: &str = "arm";

/// Returns the tables of machines' processors.
///
/// # Errors
/// A description names none, or one that does not exist.
pub fn tables_of(machines: &[Machine]) -> Result<Vec<&'static Table>, Failure> {
    machines.iter().map(|machine| table_of(&machine.description)).collect()
}

/// Adds the events of each machine's processor.
pub fn add(all: &mut [Simulated], tables: &[&Table], machines: &[Machine], answer: &Answer) {
    for (nth, simulated) in all.iter_mut().enumerate() {
        let (table, description) = (tables[nth], &machines[nth].description);
        let of = Counted { description, counts: &answer.machines[nth], answer };
        simulated.events = Some(of.events(table));
    }
}

fn table_of(machine: &Description) -> Result<&'static Table, Failure> {
    let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    let Some(name) = &machine.core.events else {
        return Err(Failure::usage(
            format!("the description of {} does not tell the events of its processor", machine.name),
            format!("name a table in [core]: events = \"NAME\", one of {}", names.join(", ")),
        ));
    };
    fathom_events::table(name).ok_or_else(|| {
        let near = fathom_model::description::nearest(name, names.iter().copied());
        let remedy = near.map_or_else(
            || format!("tables: {}", names.join(", ")),
            |near| format!("did you mean \"{near}\"? `fathom events` lists them"),
        );
        let what = format!("{}: core.events: no table of events is called \"{name}\"", machine.name);
        Failure::usage(what, remedy)
    })
}

/// What was counted of a program on a machine. Its threads and CPUs add up.
struct Counted<'a> {
    description: &'a Description,
    counts: &'a MachineCounts,
    answer: &'a Answer,
}

/// Returns whole cycles.
fn cycles(units: u64) -> u64 {
    (units as f64 / UNITS_PER_CYCLE as f64).round() as u64
}

impl Counted<'_> {
    /// Returns the events of a processor.
    fn events(&self, table: &Table) -> SimulatedEvents {
        let event = |event: &Event| SimulatedEvent {
            code: event.code.into(),
            name: event.name.to_owned(),
            count: self.count(event),
        };
        let counters = &self.counts.counters;
        let data = counters.waits[Access::Load as usize] + counters.waits[Access::Store as usize];
        let translation = counters.tlb_waits.iter().chain(&counters.walk_waits).sum::<u64>();
        SimulatedEvents {
            table: table.name.to_owned(),
            waits: data + translation,
            tiers: tiers(self.description),
            translation: translation_times(self.description),
            all: table.events.iter().map(event).collect(),
        }
    }

    fn count(&self, event: &Event) -> Result<u64, String> {
        let terms = event.simulated.map_err(|why| why.reason().to_owned())?;
        let values = terms.iter().map(|term| self.term(*term)).collect::<Result<Vec<u64>, String>>()?;
        let sum = values.into_iter().fold(0, u64::saturating_add);
        // The terms of one event are all times, or none is.
        Ok(if terms.iter().any(|term| term.is_time()) { cycles(sum) } else { sum })
    }

    /// Returns a quantity; times are in units.
    fn term(&self, term: Term) -> Result<u64, String> {
        let (counts, counters) = (self.counts, &self.counts.counters);
        Ok(match term {
            Term::Cycles => self.units(),
            Term::Instructions => self.sum(|_| true),
            Term::Loads => self.instructions_that("load", |place| place.loads > 0)?,
            Term::Stores => self.instructions_that("store", |place| place.stores > 0)?,
            Term::Accesses(by) => counts.accesses[by as usize],
            Term::LineChanges => counters.line_changes,
            Term::Reached(cache, by) => counts.levels[self.level(cache)?].accesses[by as usize],
            Term::Missed(cache, by) => self.missed(self.level(cache)?, by),
            Term::FilledByStores(cache) => self.missed_stores(cache, true)?,
            Term::PassedStores(cache) => self.missed_stores(cache, false)?,
            Term::Filled(cache) => self.fills(self.level(cache)?)?,
            Term::WrittenBack(cache) => counts.levels[self.level(cache)?].writebacks,
            Term::ReachedByWalks(cache) => self.walks_at(self.level(cache)?)?,
            Term::TlbMisses(by) => counters.tlb_misses[by as usize],
            Term::Walks(by) => counters.walks[by as usize],
            Term::Memory(by) => counts.memory[by as usize],
            Term::MemoryReads => counts.memory_reads,
            Term::MemoryWrites => counts.memory_writes,
            Term::Wait(by) => counters.waits[by as usize],
            Term::TlbWait(by) => counters.tlb_waits[by as usize],
            Term::WalkWait(by) => counters.walk_waits[by as usize],
        })
    }

    /// Returns the time of the program, if each access waits for the one before.
    fn units(&self) -> u64 {
        let counts = self.counts;
        let levels: u64 = counts.levels.iter().map(|level| level.units).sum();
        let rest = counts.memory_units + counts.translation_units + counts.fetch_units;
        levels + rest + self.sum(|_| true) * counts.operation_units
    }

    /// Adds up the executions of instructions.
    fn sum(&self, which: fn(&Place) -> bool) -> u64 {
        self.answer.places.iter().filter(|place| which(place)).map(|place| place.executed).sum()
    }

    fn instructions_that(&self, what: &str, which: fn(&Place) -> bool) -> Result<u64, String> {
        if self.answer.target == CONDITIONAL {
            return Err(format!(
                "an instruction of 32-bit ARM that may {what} has a condition, and whether it held is not told"
            ));
        }
        Ok(self.sum(which))
    }

    /// Returns the position of a cache among the levels.
    fn level(&self, cache: Cache) -> Result<usize, String> {
        let levels = self.description.levels.iter().enumerate();
        let holding =
            |other: Holds| levels.clone().filter(move |(_, of)| of.holds != other).map(|(at, _)| at);
        let (mut data, mut code) = (holding(Holds::Instructions), holding(Holds::Data));
        let (found, name) = match cache {
            Cache::L1I => (code.next(), "cache of instructions"),
            Cache::L1D => (data.next(), "cache of data"),
            Cache::L2 => (data.nth(1), "second cache"),
            Cache::L3 => (data.nth(2), "third cache"),
            Cache::Last => (data.next_back(), "cache of data"),
        };
        found.ok_or_else(|| format!("{} is described without a {name}", self.description.name))
    }

    /// Returns the lines that a level filled because accesses or walks missed there.
    fn fills(&self, level: usize) -> Result<u64, String> {
        match self.description.levels[level].inclusion {
            Inclusion::Exclusive => Err("it is described as exclusive: nearer caches fill it".to_owned()),
            _ => Ok(self.counts.levels[level].fills),
        }
    }

    fn missed(&self, level: usize, by: Access) -> u64 {
        let of = &self.counts.levels[level];
        of.accesses[by as usize] - of.hits[by as usize]
    }

    /// Returns the stores that a cache did not serve, if it fills lines for them or not, as asked; else none.
    fn missed_stores(&self, cache: Cache, filled: bool) -> Result<u64, String> {
        let level = self.level(cache)?;
        let allocates = self.description.levels[level].allocate;
        Ok(if allocates == filled { self.missed(level, Access::Store) } else { 0 })
    }

    /// Returns the reads of walks that reach a level.
    fn walks_at(&self, level: usize) -> Result<u64, String> {
        let Some(walk) = self.description.walk.as_ref().filter(|walk| walk.fetches > 0) else { return Ok(0) };
        let WalkFrom::Level(name) = &walk.from else { return Ok(0) };
        let from = self.description.levels.iter().position(|of| of.name == *name);
        match from.map(|from| from.cmp(&level)) {
            Some(std::cmp::Ordering::Equal) => Ok(self.counts.walks * u64::from(walk.fetches)),
            Some(std::cmp::Ordering::Less) => {
                Err("how many reads of walks a nearer cache serves is not counted".to_owned())
            }
            _ => Ok(0),
        }
    }
}

/// Returns a time in thousandths of a core cycle.
fn thousandths(time: Time, description: &Description) -> u64 {
    (1000.0 * time.in_cycles(description.core.clock_hz)).round() as u64
}

/// Returns the described latencies of loads, from the nearest level to memory.
fn tiers(description: &Description) -> Vec<[u64; 3]> {
    let levels = description.levels.iter().filter(|level| level.holds != Holds::Instructions);
    let levels = levels.map(|level| [thousandths(level.latency, description); 3]);
    levels.chain([memory(description)]).collect()
}

/// Returns the described latency of memory, with the ends of its spread; the lower one is that of an open row, if it is described.
fn memory(description: &Description) -> [u64; 3] {
    let of = &description.memory;
    let [latency, spread] = [of.latency, of.spread].map(|time| thousandths(time, description));
    let open = of.rows.as_ref().map_or(latency, |rows| thousandths(rows.open, description));
    [latency, open.min(latency).saturating_sub(spread), latency + spread]
}

/// Returns what a walk takes as described, and what a miss of the nearest TLB takes: from the second TLB to a walk.
fn translation_times(description: &Description) -> Option<[[u64; 3]; 2]> {
    let nearest = description.tlbs.first().map(|tlb| thousandths(tlb.latency, description))?;
    let walk = description.walk.as_ref()?;
    let fixed = thousandths(walk.latency, description).saturating_sub(nearest);
    let [_, low, high] = memory(description);
    let first = match &walk.from {
        WalkFrom::Level(name) => {
            let level = description.levels.iter().find(|level| level.name == *name);
            level.map_or(low, |level| thousandths(level.latency, description).min(low))
        }
        WalkFrom::Memory | WalkFrom::Nowhere => low,
    };
    let fetches = u64::from(walk.fetches);
    let interval = |low: u64, high: u64| [low.midpoint(high), low, high];
    let walked = interval(fixed + fetches * first, fixed + fetches * high);
    let second = description.tlbs.get(1).map(|tlb| thousandths(tlb.latency, description));
    let served = second.map_or(walked[1], |second| second.saturating_sub(nearest));
    Some([walked, interval(served.min(walked[1]), walked[2])])
}

#[cfg(test)]
mod tests {
    use fathom_model::catalog;
    use fathom_simulation::LevelCounts;
    use fathom_simulation::protocol::{End, HeapSites};

    use super::*;

    fn described(name: &str) -> Description {
        catalog::load(name).expect("built in").expect("valid")
    }

    fn answer(target: &str) -> Answer {
        let place = |executed, loads, stores| Place { pc: 0, executed, loads, stores };
        Answer {
            end: End::Complete,
            status: 0,
            target: target.to_owned(),
            threads: 1,
            unseen: vec![],
            places: vec![place(100, 200, 0), place(10, 0, 10), place(5, 0, 0)],
            mappings: vec![],
            regions: vec![],
            heap: HeapSites::default(),
            calls: None,
            guest: None,
            machines: vec![],
        }
    }

    /// Returns an event of a machine whose level `n` has 1000 n accesses of each kind, of which 100, 10 and 1 missed.
    fn planted(machine: &str, target: &str, name: &str) -> Result<u64, String> {
        let (description, answer) = (described(machine), answer(target));
        let table = table_of(&description).expect("a table");
        let level = |n: u64| {
            let accesses = [1000 * n; 3];
            let hits = [accesses[0] - 100, accesses[1] - 10, accesses[2] - 1];
            LevelCounts { accesses, hits, fills: 7 * n, writebacks: 3 * n, ..LevelCounts::default() }
        };
        let counts = MachineCounts {
            levels: (1..=description.levels.len() as u64).map(level).collect(),
            walks: 50,
            ..MachineCounts::default()
        };
        let of = Counted { description: &description, counts: &counts, answer: &answer };
        of.events(table).all.into_iter().find(|event| event.name == name).expect("in the table").count
    }

    #[test]
    fn every_described_processor_has_its_table() {
        let with_table = |name: &&str| described(name).core.events.is_some();
        let all: Vec<&str> = catalog::names().filter(with_table).collect();
        assert!(all.len() > 10, "{all:?}");
        for name in all {
            let table = table_of(&described(name)).unwrap_or_else(|e| panic!("{e}"));
            assert!(tiers(&described(name)).len() >= 2 && !table.events.is_empty(), "{name}");
        }
    }

    #[test]
    fn an_event_is_the_sum_of_its_terms() {
        let of = |name: &str| planted("bcm2837", "aarch64", name);
        assert_eq!(of("INST_RETIRED"), Ok(115));
        assert_eq!([of("LD_RETIRED"), of("ST_RETIRED")], [Ok(100), Ok(10)]);
        // Level 1 is L1D, which fills lines for stores; level 3 is the second cache of data, from which walks read.
        assert_eq!(of("L1D_CACHE_REFILL"), Ok(110));
        assert_eq!(of("L2D_CACHE"), Ok(3 * 3000 + 50 + 3));
        assert_eq!([of("L2D_CACHE_REFILL"), of("L2D_CACHE_WB")], [Ok(21), Ok(9)]);
        assert!(planted("bcm2837", "arm", "LD_RETIRED").is_err_and(|why| why.contains("condition")));
        assert!(planted("am5728-l2-off", "arm", "L2D_CACHE").is_err_and(|why| why.contains("second cache")));
        // The ARM1176 fills no line for a store.
        assert_eq!(planted("bcm2835", "arm", "DCACHE_MISS"), Ok(110));
    }

    #[test]
    fn times_are_those_of_the_description() {
        let s4 = described("bcm2835");
        assert_eq!(tiers(&s4), [[3000; 3], [56_000, 55_000, 57_000]]);
        assert_eq!(translation_times(&s4), Some([[60_000; 3], [30_000, 0, 60_000]]));
        let [walk, miss] = translation_times(&described("bcm2837")).expect("TLBs");
        assert!(walk[1] < walk[2] && miss[1] < walk[1] && miss[2] == walk[2], "{walk:?} {miss:?}");
    }
}
