//! One table of a description's file: typed access to its keys, and errors with their place.

use std::collections::HashMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::classes::{self, Classes, Within};
use super::source::{Result, Source, place_of};
use super::units::{self, QuantityError};
use super::{DescriptionError, Time, nearest};
use super::{alternatives, other_values};

type Spanned<T> = toml::Spanned<T>;
/// What the tables of a file have beside their values.
#[derive(Default)]
pub(super) struct Places {
    /// The place of every key's value in the file, by table, index and key, to locate the errors of the checks.
    pub(super) spans: HashMap<(&'static str, usize, &'static str), Range<usize>>,
    /// The classes of the values.
    pub(super) classes: Classes,
    /// Other values, with their places.
    pub(super) read: alternatives::Read,
}

/// Keys that any table may have beside its values.
const ABOUT_VALUES: [&str; 3] = [classes::KEY, other_values::RANGES, other_values::INSTEAD];

/// One table of the file.
pub(super) struct Table<'a> {
    pub(super) source: &'a Source<'a>,
    name: &'static str,
    index: usize,
    header: Range<usize>,
    entries: &'a DeTable<'a>,
    known: &'static [&'static str],
}

impl<'a> Table<'a> {
    /// Opens a table, refuses unknown keys and reads the classes of its values.
    pub(super) fn open(
        source: &'a Source<'a>,
        name: &'static str,
        index: usize,
        table: (&'a DeTable<'a>, Range<usize>),
        known: &'static [&'static str],
        places: &mut Places,
    ) -> Result<Table<'a>> {
        let (entries, header) = table;
        for (key, value) in entries.iter() {
            // The top has no values, only tables.
            if ABOUT_VALUES.contains(&key.get_ref().as_ref()) && !name.is_empty() {
                continue;
            }
            let Some(&word) = known.iter().find(|k| **k == key.get_ref().as_ref()) else {
                return Err(unknown_key(source, name, key, known));
            };
            places.spans.insert((name, index, word), value.span());
        }
        places.spans.insert((name, index, ""), header.clone());
        let within = Within { source, name, index, entries, known };
        classes::read(&within, &mut places.classes)?;
        alternatives::read(&within, &mut places.read)?;
        Ok(Table { source, name, index, header, entries, known })
    }

    pub(super) fn value(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        debug_assert!(self.known.contains(&key), "{key} is read but not listed");
        self.entries.get(key)
    }

    pub(super) fn missing(&self, key: &str) -> DescriptionError {
        let table = match self.name {
            "" => "the description".to_string(),
            "level" | "tlb" | "neighbour" => format!("this [[{}]] (number {})", self.name, self.index + 1),
            name => format!("[{name}]"),
        };
        self.source.fault(self.header.clone(), format!("{table} lacks `{key}`"), example(key))
    }

    pub(super) fn required(&self, key: &'static str) -> Result<&'a Spanned<DeValue<'a>>> {
        self.value(key).ok_or_else(|| self.missing(key))
    }

    pub(super) fn wrong(&self, value: &Spanned<DeValue<'_>>, key: &str, expected: &str) -> DescriptionError {
        let found = value.get_ref().type_str();
        self.source.fault(value.span(), format!("`{key}` must be {expected}, not {found}"), example(key))
    }

    pub(super) fn text(&self, key: &'static str) -> Result<(&'a str, Range<usize>)> {
        let value = self.required(key)?;
        let text = value.get_ref().as_str().ok_or_else(|| self.wrong(value, key, "a quoted text"))?;
        Ok((text, value.span()))
    }

    /// Reads a quantity with its parser.
    pub(super) fn quantity<T>(
        &self,
        key: &'static str,
        read: fn(&str) -> std::result::Result<T, QuantityError>,
    ) -> Result<T> {
        let (text, span) = self.text(key)?;
        read(text).map_err(|e| self.source.fault(span, format!("`{key}`: {}", e.message), e.help))
    }

    /// Reads a time; zero if absent.
    pub(super) fn time_or_zero(&self, key: &'static str) -> Result<Time> {
        if self.value(key).is_some() { self.quantity(key, units::time) } else { Ok(Time::ZERO) }
    }

    /// Reads a time that may be absent.
    pub(super) fn time_if_any(&self, key: &'static str) -> Result<Option<Time>> {
        self.value(key).map(|_| self.quantity(key, units::time)).transpose()
    }

    pub(super) fn count(&self, key: &'static str) -> Result<u64> {
        let value = self.required(key)?;
        let integer = value.get_ref().as_integer().ok_or_else(|| self.wrong(value, key, "an integer"))?;
        let number = u64::from_str_radix(integer.as_str(), integer.radix());
        number.map_err(|_| self.wrong(value, key, "an integer from 0 to 2^64 - 1"))
    }

    pub(super) fn count32(&self, key: &'static str) -> Result<u32> {
        let count = self.count(key)?;
        u32::try_from(count).map_err(|_| {
            let span = self.required(key).map_or(self.header.clone(), Spanned::span);
            self.source.fault(span, format!("`{key}` is out of range"), "")
        })
    }

    /// Returns an optional count.
    pub(super) fn count32_if_any(&self, key: &'static str) -> Result<Option<u32>> {
        self.value(key).map(|_| self.count32(key)).transpose()
    }

    pub(super) fn flag(&self, key: &'static str) -> Result<bool> {
        let value = self.required(key)?;
        value.get_ref().as_bool().ok_or_else(|| self.wrong(value, key, "true or false"))
    }

    /// Reads one word of an enumeration.
    pub(super) fn word<T: Copy>(
        &self,
        key: &'static str,
        all: &[T],
        word: fn(T) -> &'static str,
    ) -> Result<T> {
        let (text, span) = self.text(key)?;
        if let Some(found) = all.iter().find(|v| word(**v) == text) {
            return Ok(*found);
        }
        let words: Vec<&str> = all.iter().map(|v| word(*v)).collect();
        let help = match nearest(text, words.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"? Expected one of {}", words.join(", ")),
            None => format!("expected one of {}", words.join(", ")),
        };
        Err(self.source.fault(span, format!("\"{text}\" is not a value of `{key}`"), help))
    }

    /// Reads a word; the first word if the key is absent.
    pub(super) fn word_or_first<T: Copy>(
        &self,
        key: &'static str,
        all: &[T],
        word: fn(T) -> &'static str,
    ) -> Result<T> {
        if self.value(key).is_some() { self.word(key, all, word) } else { Ok(all[0]) }
    }

    /// Reads a list of sizes.
    pub(super) fn sizes(&self, key: &'static str) -> Result<Vec<u64>> {
        self.list(key, "a list of quoted sizes", |value| value.as_str().map(units::size))
    }

    /// Reads a list whose values `read` reads; it returns `None` for one of another type than `expected`.
    pub(super) fn list<T>(
        &self,
        key: &'static str,
        expected: &str,
        read: impl Fn(&DeValue) -> Option<std::result::Result<T, QuantityError>>,
    ) -> Result<Vec<T>> {
        let value = self.required(key)?;
        let list = value.get_ref().as_array().ok_or_else(|| self.wrong(value, key, expected))?;
        let one = |entry: &Spanned<DeValue>| {
            let one = read(entry.get_ref()).ok_or_else(|| self.wrong(entry, key, expected))?;
            one.map_err(|e| self.source.fault(entry.span(), format!("`{key}`: {}", e.message), e.help))
        };
        list.iter().map(one).collect()
    }

    /// Reads a list of two values, as [`Table::list`].
    pub(super) fn pair<T: Copy>(
        &self,
        key: &'static str,
        expected: &str,
        read: impl Fn(&DeValue) -> Option<std::result::Result<T, QuantityError>>,
    ) -> Result<(T, T)> {
        let value = self.required(key)?;
        match self.list(key, expected, read)?[..] {
            [first, second] => Ok((first, second)),
            _ => Err(self.wrong(value, key, expected)),
        }
    }
}

fn unknown_key(
    source: &Source,
    table: &str,
    key: &Spanned<toml::de::DeString>,
    known: &[&str],
) -> DescriptionError {
    let more = if table.is_empty() { &[][..] } else { &ABOUT_VALUES[..] };
    let help = match nearest(key.get_ref(), known.iter().chain(more).copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known keys: {}", known.join(", ")),
    };
    source.fault(key.span(), format!("unknown key `{}` {}", key.get_ref(), place_of(table)), help)
}

/// Returns an example of a key, for a message that it is missing or of the wrong kind.
pub(super) fn example(key: &str) -> String {
    let line = match key {
        "format" => "format = 1",
        "about" => "about = \"Raspberry Pi 3: BCM2837, 4x Cortex-A53\"",
        "clock" => "clock = \"600 MHz\"",
        "size" => "size = \"32K\"",
        "line" => "line = \"64\"",
        "pages" => "pages = [\"4K\", \"2M\"]",
        "row" => "row = \"8K\"",
        "splits" => "splits = \"4K\"",
        "rate" => "rate = \"24 MB/s\"",
        "burst" => "burst = \"64\"",
        "coherence" => "coherence = \"none\"",
        "maintenance" => "maintenance = \"map-and-unmap\"",
        "widest" => "widest = \"16\"",
        "gather" => "gather = \"64\"",
        "write_through" => "write_through = \"normal-nc\"",
        "mixed" => "mixed = \"normal-nc\"",
        "name" => "name = \"L1D\"",
        "events" => "events = \"cortex-a53\"",
        "holds" => "holds = \"data\"",
        "replacement" => "replacement = \"lru\"",
        "index" => "index = \"bits\"",
        "frames" => "frames = \"contiguous\"",
        "write" => "write = \"back\"",
        "inclusion" => "inclusion = \"neither\"",
        "from" => "from = \"memory\"",
        "allocate" | "page_map" | "shared" => return format!("for example: {key} = true"),
        "cpus" | "ways" | "entries" | "fetches" | "banks" | "buffers" | "resolution" | "outstanding"
        | "streams" => {
            return format!("for example: {key} = 4");
        }
        "core" | "timer" | "memory" | "walk" | "uncached" | "wakeup" | "dma" => {
            return format!("add a table [{key}]");
        }
        "sleep" | "irq" | "wake" | "switch" | "user" => return format!("add a table [wakeup.{key}]"),
        "code" | "data" | "common" => return format!("for example: {key} = \"4K\""),
        "within" => "within = \"8M\"",
        "instructions" => "instructions = 1100",
        "bursts" => "bursts = [\"1 ms\", \"10 s\"]",
        "pauses" => "pauses = [\"10 ms\", \"1 s\"]",
        "ways_taken" | "memory_slower" | "clock_slower" => {
            return format!("for example: {key} = [10, 50], in percent");
        }
        "levels" => "levels = [\"L1D\", \"L2\"]",
        "tlbs" => "tlbs = [\"uTLB\"]",
        "level" | "tlb" | "neighbour" => return format!("tables [[{key}]], nearest first"),
        _ => return format!("for example: {key} = \"3 cycles\" or \"130 ns\""),
    };
    format!("for example: {line}")
}
