//! Writes the effective description in its file format.

use std::collections::BTreeMap;
use std::fmt;

use fathom_units::compact;
use fathom_units::facts::ValueClass;

use super::classes::{self, ValueKey};
use super::other_values::{Alternatives, INSTEAD, RANGES};
use super::place::At;
use super::units::show_hz;
use super::{Core, Description, Level, Memory, Mixed, Stage, Timer, Tlb, Uncached, Wakeup, Walk, WalkFrom};

/// Text as a TOML basic string.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"")?;
        for c in self.0.chars() {
            match c {
                '"' => write!(f, "\\\"")?,
                '\\' => write!(f, "\\\\")?,
                c if c.is_control() => write!(f, "\\U{:08X}", u32::from(c))?,
                c => write!(f, "{c}")?,
            }
        }
        write!(f, "\"")
    }
}

fn sizes(list: &[u64]) -> String {
    let quoted: Vec<String> = list.iter().map(|&bytes| format!("\"{}\"", compact(bytes))).collect();
    format!("[{}]", quoted.join(", "))
}

/// One table of the file: its keys as they are written.
pub(super) struct Shown<'a> {
    place: At,
    d: &'a Description,
    keys: Vec<(&'static str, String)>,
}

impl<'a> Shown<'a> {
    fn of(d: &'a Description, place: At, show: impl FnOnce(&mut Shown<'a>)) -> Shown<'a> {
        let mut shown = Shown { place, d, keys: Vec::new() };
        show(&mut shown);
        shown
    }

    pub(super) fn put(&mut self, key: &'static str, value: impl fmt::Display) {
        self.keys.push((key, value.to_string()));
    }

    pub(super) fn quoted(&mut self, key: &'static str, value: impl fmt::Display) {
        self.keys.push((key, format!("\"{value}\"")));
    }

    fn key(&self, key: &'static str) -> ValueKey {
        ValueKey { table: self.place.0, index: self.place.1, key }
    }

    fn class(&self, key: &'static str) -> Option<ValueClass> {
        self.d.classes.of(self.key(key))
    }

    /// Returns the keys that are values, with their classes.
    fn values(&self) -> impl Iterator<Item = (ValueKey, Option<ValueClass>)> + '_ {
        let values = self.keys.iter().filter(|(key, _)| classes::is_value(key));
        values.map(|(key, _)| (self.key(key), self.class(key)))
    }
}

impl Shown<'_> {
    /// Writes the table without the alternatives of its values. `other` may give another value for a key.
    fn write(&self, out: &mut impl fmt::Write, other: &BTreeMap<ValueKey, String>) -> fmt::Result {
        match self.place.0 {
            name @ ("level" | "tlb" | "neighbour") => writeln!(out, "\n[[{name}]]")?,
            name => writeln!(out, "\n[{name}]")?,
        }
        for (key, value) in &self.keys {
            writeln!(out, "{key} = {}", other.get(&self.key(key)).unwrap_or(value))?;
        }
        let values: Vec<_> = self.values().filter_map(|(key, class)| Some((key.key, class?))).collect();
        if values.is_empty() { Ok(()) } else { writeln!(out, "{}", classes::line(&values)) }
    }

    /// Writes the alternatives of its values.
    fn write_alternatives(&self, out: &mut impl fmt::Write) -> fmt::Result {
        let Alternatives { ranges, instead } = &self.d.alternatives;
        let keys: Vec<ValueKey> = self.values().map(|(key, _)| key).collect();
        let range = |key: &ValueKey| ranges.get(key).map(|[a, b]| format!("{} = [{a}, {b}]", key.key));
        let all: Vec<String> = keys.iter().filter_map(range).collect();
        if !all.is_empty() {
            writeln!(out, "{RANGES} = {{ {} }}", all.join(", "))?;
        }
        let of_class = |class: &ValueClass| {
            let value = |key: &ValueKey| {
                instead
                    .get(key)
                    .filter(|(of, _)| of == class)
                    .map(|(_, value)| format!("{} = {value}", key.key))
            };
            let all: Vec<String> = keys.iter().filter_map(value).collect();
            (!all.is_empty()).then(|| format!("{} = {{ {} }}", class.word(), all.join(", ")))
        };
        let all: Vec<String> = ValueClass::ALL.iter().filter_map(of_class).collect();
        if all.is_empty() { Ok(()) } else { writeln!(out, "{INSTEAD} = {{ {} }}", all.join(", ")) }
    }
}

/// Returns a value of the effective description as it is written in a file.
pub(super) fn literal(d: &Description, value: ValueKey) -> Option<String> {
    let table = tables(d).into_iter().find(|t| (t.place.0, t.place.1) == (value.table, value.index))?;
    table.keys.into_iter().find(|(key, _)| *key == value.key).map(|(_, text)| text)
}

/// Returns the effective description in the format of a file, with other values for some keys and without
/// alternatives.
pub(super) fn text_with(d: &Description, other: &BTreeMap<ValueKey, String>) -> String {
    let mut out = head(d);
    for table in tables(d) {
        // Writing to a text does not fail.
        let _ = table.write(&mut out, other);
    }
    out
}

fn head(d: &Description) -> String {
    format!("format = 1\nabout = {}\n", Quoted(&d.about))
}

/// Returns the tables of a description, in the order of the file.
fn tables(d: &Description) -> Vec<Shown<'_>> {
    let mut all = vec![
        Shown::of(d, At("core", 0), |t| d.core.show(t)),
        Shown::of(d, At("timer", 0), |t| d.timer.show(t)),
    ];
    let levels = d.levels.iter().enumerate();
    all.extend(levels.map(|(n, level)| Shown::of(d, At("level", n), |t| level.show(t))));
    all.extend(d.tlbs.iter().enumerate().map(|(n, tlb)| Shown::of(d, At("tlb", n), |t| tlb.show(t))));
    all.extend(d.walk.iter().map(|walk| Shown::of(d, At("walk", 0), |t| walk.show(t))));
    all.push(Shown::of(d, At("memory", 0), |t| d.memory.show(t)));
    let uncached = Shown::of(d, At("uncached", 0), |t| d.uncached.show(t));
    all.extend((!uncached.keys.is_empty()).then_some(uncached));
    all.extend(d.dma.iter().map(|dma| Shown::of(d, At("dma", 0), |t| dma.show(t))));
    if let Some(wakeup) = &d.wakeup {
        all.push(Shown::of(d, At("wakeup", 0), |t| wakeup.show(t)));
        let stages = Wakeup::TABLES.into_iter().zip(&wakeup.stages);
        all.extend(stages.map(|(name, stage)| Shown::of(d, At(name, 0), |t| stage.show(t))));
    }
    let neighbours = d.neighbours.iter().enumerate();
    all.extend(neighbours.map(|(n, one)| Shown::of(d, At("neighbour", n), |t| one.show(t))));
    all
}

/// Returns every value of the effective description, in the order of the file, with its class.
pub(super) fn values(d: &Description) -> Vec<(ValueKey, Option<ValueClass>)> {
    tables(d).iter().flat_map(|table| table.values().collect::<Vec<_>>()).collect()
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&head(self))?;
        tables(self).iter().try_for_each(|table| {
            table.write(f, &BTreeMap::new())?;
            table.write_alternatives(f)
        })
    }
}

impl Core {
    fn show(&self, t: &mut Shown) {
        t.quoted("clock", show_hz(self.clock_hz));
        t.put("cpus", self.cpus);
        t.quoted("alu", self.alu);
        t.quoted("branch", self.branch);
        if let Some(store) = self.store {
            t.quoted("store", store);
        }
        if let Some(maintain) = self.maintain {
            t.quoted("maintain", maintain);
        }
        for (key, count) in [("outstanding", self.outstanding), ("window", self.window)] {
            if let Some(count) = count {
                t.put(key, count);
            }
        }
        if let Some(set_fill) = self.set_fill {
            t.quoted("set_fill", set_fill);
        }
        if let Some(streams) = self.streams {
            t.quoted("stream", streams.cost);
            t.put("streams", streams.number);
        }
        if let Some(events) = &self.events {
            t.quoted("events", events);
        }
    }
}

impl Timer {
    fn show(&self, t: &mut Shown) {
        t.quoted("clock", show_hz(self.clock_hz));
        t.quoted("overhead", self.overhead);
        t.quoted("jitter", self.jitter);
        t.put("resolution", self.resolution);
    }
}

impl Level {
    fn show(&self, t: &mut Shown) {
        t.put("name", Quoted(&self.name));
        t.quoted("holds", self.holds.word());
        t.quoted("size", compact(self.size));
        t.quoted("line", compact(self.line));
        t.put("ways", self.ways);
        t.quoted("index", self.index.word());
        t.quoted("latency", self.latency);
        t.quoted("replacement", self.replacement.word());
        t.quoted("write", self.write.word());
        t.put("allocate", self.allocate);
        t.quoted("inclusion", self.inclusion.word());
        t.put("shared", self.shared);
    }
}

impl Tlb {
    fn show(&self, t: &mut Shown) {
        t.put("name", Quoted(&self.name));
        t.put("entries", self.entries);
        t.put("ways", self.ways);
        t.put("pages", sizes(&self.pages));
        t.quoted("latency", self.latency);
        t.quoted("replacement", self.replacement.word());
        if let Some(piece) = self.splits {
            t.quoted("splits", compact(piece));
        }
    }
}

impl Walk {
    fn show(&self, t: &mut Shown) {
        let from = match &self.from {
            WalkFrom::Level(name) => name,
            WalkFrom::Memory => "memory",
            WalkFrom::Nowhere => "none",
        };
        t.put("fetches", self.fetches);
        t.put("from", Quoted(from));
        t.quoted("latency", self.latency);
    }
}

impl Memory {
    fn show(&self, t: &mut Shown) {
        t.quoted("size", compact(self.size));
        t.put("pages", sizes(&self.pages));
        t.quoted("frames", self.frames.word());
        if !self.page_map {
            t.put("page_map", false);
        }
        t.quoted("latency", self.latency);
        t.quoted("spread", self.spread);
        if let Some(rows) = &self.rows {
            t.quoted("row", compact(rows.row));
            t.put("banks", rows.banks);
            t.quoted("open", rows.open);
        }
        if let Some(refresh) = &self.refresh {
            t.quoted("refresh", refresh.every);
            t.quoted("refresh_takes", refresh.takes);
        }
    }
}

impl Uncached {
    fn show(&self, t: &mut Shown) {
        if let Some(load) = self.load {
            t.quoted("load", load);
        }
        if let Some(gathering) = &self.gathering {
            t.quoted("store", gathering.store);
            t.put("buffers", gathering.buffers);
            t.quoted("gather", compact(gathering.gather));
            t.quoted("drain", gathering.drain);
        }
        if let Some(device) = &self.device {
            t.quoted("device_load", device.load);
            t.quoted("device_store", device.store);
        }
        if let Some(through) = self.write_through {
            t.quoted("write_through", through.word());
        }
        if self.mixed != Mixed::default() || t.class("mixed").is_some() {
            t.quoted("mixed", self.mixed.word());
        }
    }
}

impl Wakeup {
    fn show(&self, t: &mut Shown) {
        t.quoted("instruction", self.instruction);
        t.quoted("common", compact(self.common));
        t.quoted("within", compact(self.within));
    }
}

impl Stage {
    fn show(&self, t: &mut Shown) {
        t.put("instructions", self.instructions);
        t.quoted("code", compact(self.code));
        t.quoted("data", compact(self.data));
    }
}
