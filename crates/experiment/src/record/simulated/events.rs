//! Events of the described processor's counters, as lines of a record.

use fathom_probe::wire::{Line, WireError};

use super::{cut, numbers, push};

/// Events of a processor, at most: twice as many as the longest table has.
const MAX_EVENTS: usize = 256;
/// Access times by what serves an access, at most: [`MAX_UNITS`](super::MAX_UNITS) levels and memory.
const MAX_TIERS: usize = super::MAX_UNITS + 1;

/// What a simulation tells about the events of the described processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulatedEvents {
    /// Name of the processor's table.
    pub table: String,
    /// Time of loads, stores and translations beyond hits of the nearest level and TLB, units of 1 / 4096 cycle.
    pub waits: u64,
    /// Latency of a load by what serves it, from the nearest level to memory, as described: value, low, high, in thousandths of a
    /// core cycle.
    pub tiers: Vec<[u64; 3]>,
    /// What a walk takes, and what a miss of the nearest TLB takes: from a farther TLB to a walk. `None` if translation is free.
    pub translation: Option<[[u64; 3]; 2]>,
    /// The events, in the order of the table.
    pub all: Vec<SimulatedEvent>,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedEvent {
    /// The number that selects it.
    pub code: u64,
    /// Its name.
    pub name: String,
    /// Its count, cycles among them, or why a simulation has none.
    pub count: Result<u64, String>,
}

impl SimulatedEvents {
    /// Returns its lines; `begun` is the beginning of a line of a part.
    pub(super) fn record_lines(&self, begun: impl Fn(&str) -> Line) -> Vec<Line> {
        let head = begun("events").text("table", &cut(&self.table)).int("waits", self.waits);
        let head = head.list("tiers", &self.tiers.concat());
        let head = self.translation.iter().fold(head, |head, of| head.list("translation", &of.concat()));
        let event = |of: &SimulatedEvent| of.record_line(begun("event"));
        std::iter::once(head).chain(self.all.iter().take(MAX_EVENTS).map(event)).collect()
    }

    pub(super) fn of_line(line: &Line) -> Result<SimulatedEvents, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let table = f.text("table")?.unwrap_or_default().to_owned();
        let waits = f.need_int("waits")?;
        let (tiers, translation) = (f.list("tiers")?, f.list("translation")?);
        f.finish()?;
        let (tiers, []) = tiers.as_chunks::<3>() else {
            return Err(WireError::new("simulated: tiers are no intervals: value, low, high of each"));
        };
        if tiers.len() > MAX_TIERS {
            return Err(WireError::new(format!("simulated: more than {MAX_TIERS} tiers")));
        }
        let translation = if translation.is_empty() {
            None
        } else {
            let [a, b, c, d, e, f] = numbers("translation", &translation)?;
            Some([[a, b, c], [d, e, f]])
        };
        let all = tiers.iter().chain(translation.iter().flatten());
        if all.into_iter().any(|[value, low, high]| low > value || value > high) {
            return Err(WireError::new("simulated: a time is no interval: value, low, high"));
        }
        Ok(SimulatedEvents { table, waits, tiers: tiers.to_vec(), translation, all: Vec::new() })
    }

    pub(super) fn take(&mut self, part: &str, line: &Line) -> Result<(), WireError> {
        push(&mut self.all, MAX_EVENTS, part, SimulatedEvent::of_line(line))
    }
}

impl SimulatedEvent {
    fn record_line(&self, line: Line) -> Line {
        let line = line.int("code", self.code).text("name", &cut(&self.name));
        match &self.count {
            Ok(count) => line.int("count", *count),
            Err(why) => line.text("why", &cut(why)),
        }
    }

    fn of_line(line: &Line) -> Result<SimulatedEvent, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let code = f.need_int("code")?;
        let name = f.text("name")?.unwrap_or_default().to_owned();
        let (count, why) = (f.int("count")?, f.text("why")?.map(str::to_owned));
        f.finish()?;
        let count = match (count, why) {
            (Some(count), None) => Ok(count),
            (None, Some(why)) => Err(why),
            _ => return Err(WireError::new("simulated: an event has either count or why")),
        };
        Ok(SimulatedEvent { code, name, count })
    }
}
