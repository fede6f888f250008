//! From TOML to a [`Description`]: every key asked for by name, every other key refused.

use std::collections::HashMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::units::{self, Misread};
use super::{
    Core, Description, DescriptionError, DeviceCosts, Frames, Gathering, Holds, Inclusion, Index, Level,
    Memory, Mixed, Refresh, Replacement, Rows, Stage, Through, Time, Timer, Tlb, Uncached, Wakeup, Walk,
    WalkFrom, Write, device, nearest,
};

type Spanned<T> = toml::Spanned<T>;
pub(super) type Result<T> = std::result::Result<T, DescriptionError>;

const TOP: &[&str] =
    &["format", "about", "core", "timer", "level", "tlb", "walk", "memory", "uncached", "wakeup", "dma"];
const CORE: &[&str] = &["clock", "cpus", "alu", "branch", "store", "maintain"];
const TIMER: &[&str] = &["clock", "overhead", "jitter", "resolution"];
const LEVEL: &[&str] = &[
    "name",
    "holds",
    "size",
    "line",
    "ways",
    "index",
    "latency",
    "replacement",
    "write",
    "allocate",
    "inclusion",
    "shared",
];
const TLB: &[&str] = &["name", "entries", "ways", "pages", "latency", "replacement"];
const WALK: &[&str] = &["fetches", "from", "latency"];
const MEMORY: &[&str] =
    &["size", "pages", "frames", "latency", "spread", "row", "banks", "open", "refresh", "refresh_takes"];
const UNCACHED: &[&str] =
    &["load", "store", "buffers", "gather", "drain", "device_load", "device_store", "write_through", "mixed"];

const WAKEUP: &[&str] = &["instruction", "common", "within", "sleep", "irq", "wake", "switch", "user"];
const STAGE: &[&str] = &["instructions", "code", "data"];

/// The file under the reader.
struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn fault(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> DescriptionError {
        DescriptionError::at(self.file, self.text, span, message.into(), help.into())
    }
}

/// Where every key's value stands, so that the checks, which know tables and keys, can be located.
type Places = HashMap<(&'static str, usize, &'static str), Range<usize>>;

/// One table of the file.
pub(super) struct Table<'a> {
    source: &'a Source<'a>,
    name: &'static str,
    index: usize,
    header: Range<usize>,
    entries: &'a DeTable<'a>,
    known: &'static [&'static str],
}

impl<'a> Table<'a> {
    /// Takes a table and refuses the keys that it may not have.
    fn open(
        source: &'a Source<'a>,
        name: &'static str,
        index: usize,
        table: (&'a DeTable<'a>, Range<usize>),
        known: &'static [&'static str],
        places: &mut Places,
    ) -> Result<Table<'a>> {
        let (entries, header) = table;
        for (key, value) in entries.iter() {
            let Some(&word) = known.iter().find(|k| **k == key.get_ref().as_ref()) else {
                return Err(unknown_key(source, name, key, known));
            };
            places.insert((name, index, word), value.span());
        }
        places.insert((name, index, ""), header.clone());
        Ok(Table { source, name, index, header, entries, known })
    }

    pub(super) fn value(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        debug_assert!(self.known.contains(&key), "{key} is asked for but not listed");
        self.entries.get(key)
    }

    fn missing(&self, key: &str) -> DescriptionError {
        let of = match self.name {
            "" => "the description".to_string(),
            "level" | "tlb" => format!("this [[{}]] (number {})", self.name, self.index + 1),
            name => format!("[{name}]"),
        };
        self.source.fault(self.header.clone(), format!("{of} lacks `{key}`"), example(key))
    }

    fn required(&self, key: &'static str) -> Result<&'a Spanned<DeValue<'a>>> {
        self.value(key).ok_or_else(|| self.missing(key))
    }

    fn wrong(&self, value: &Spanned<DeValue<'_>>, key: &str, wanted: &str) -> DescriptionError {
        let found = value.get_ref().type_str();
        self.source.fault(value.span(), format!("`{key}` must be {wanted}, not {found}"), example(key))
    }

    fn text(&self, key: &'static str) -> Result<(&'a str, Range<usize>)> {
        let value = self.required(key)?;
        let text = value.get_ref().as_str().ok_or_else(|| self.wrong(value, key, "a quoted text"))?;
        Ok((text, value.span()))
    }

    /// A quantity through its reader.
    pub(super) fn quantity<T>(
        &self,
        key: &'static str,
        read: fn(&str) -> std::result::Result<T, Misread>,
    ) -> Result<T> {
        let (text, span) = self.text(key)?;
        read(text).map_err(|e| self.source.fault(span, format!("`{key}`: {}", e.message), e.help))
    }

    /// A time whose absence means none.
    pub(super) fn time_or_zero(&self, key: &'static str) -> Result<Time> {
        if self.value(key).is_some() { self.quantity(key, units::time) } else { Ok(Time::ZERO) }
    }

    /// A time that may be absent.
    pub(super) fn time_if_any(&self, key: &'static str) -> Result<Option<Time>> {
        self.value(key).map(|_| self.quantity(key, units::time)).transpose()
    }

    fn count(&self, key: &'static str) -> Result<u64> {
        let value = self.required(key)?;
        let integer = value.get_ref().as_integer().ok_or_else(|| self.wrong(value, key, "an integer"))?;
        let number = u64::from_str_radix(integer.as_str(), integer.radix());
        number.map_err(|_| self.wrong(value, key, "an integer from 0 to 2^64 - 1"))
    }

    fn count32(&self, key: &'static str) -> Result<u32> {
        let count = self.count(key)?;
        u32::try_from(count).map_err(|_| {
            let span = self.required(key).map_or(self.header.clone(), Spanned::span);
            self.source.fault(span, format!("`{key}` is far beyond any machine"), "")
        })
    }

    fn flag(&self, key: &'static str) -> Result<bool> {
        let value = self.required(key)?;
        value.get_ref().as_bool().ok_or_else(|| self.wrong(value, key, "true or false"))
    }

    /// One of an enumeration's words.
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
            Some(near) => format!("did you mean \"{near}\"? It is one of {}", words.join(", ")),
            None => format!("it is one of {}", words.join(", ")),
        };
        Err(self.source.fault(span, format!("`{key}` knows no \"{text}\""), help))
    }

    /// The same where absence of the key means the first word.
    fn word_or_first<T: Copy>(&self, key: &'static str, all: &[T], word: fn(T) -> &'static str) -> Result<T> {
        if self.value(key).is_some() { self.word(key, all, word) } else { Ok(all[0]) }
    }

    /// A list of sizes.
    fn sizes(&self, key: &'static str) -> Result<Vec<u64>> {
        let value = self.required(key)?;
        let wanted = "a list of quoted sizes";
        let list = value.get_ref().as_array().ok_or_else(|| self.wrong(value, key, wanted))?;
        let mut sizes = Vec::new();
        for entry in list.iter() {
            let text = entry.get_ref().as_str().ok_or_else(|| self.wrong(entry, key, wanted))?;
            let size = units::size(text);
            sizes.push(
                size.map_err(|e| self.source.fault(entry.span(), format!("`{key}`: {}", e.message), e.help))?,
            );
        }
        Ok(sizes)
    }
}

fn unknown_key(
    source: &Source,
    table: &str,
    key: &Spanned<toml::de::DeString>,
    known: &[&str],
) -> DescriptionError {
    let place = match table {
        "" => "at the top of a description".to_string(),
        "level" | "tlb" => format!("in [[{table}]]"),
        _ => format!("in [{table}]"),
    };
    let help = match nearest(key.get_ref(), known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known there: {}", known.join(", ")),
    };
    source.fault(key.span(), format!("unknown key `{}` {place}", key.get_ref()), help)
}

/// What a key looks like; shown when it is missing or of the wrong kind.
fn example(key: &str) -> String {
    let line = match key {
        "format" => "format = 1",
        "about" => "about = \"Raspberry Pi 3: BCM2837, 4x Cortex-A53\"",
        "clock" => "clock = \"600 MHz\"",
        "size" => "size = \"32K\"",
        "line" => "line = \"64\"",
        "pages" => "pages = [\"4K\", \"2M\"]",
        "row" => "row = \"8K\"",
        "rate" => "rate = \"24 MB/s\"",
        "burst" => "burst = \"64\"",
        "coherence" => "coherence = \"none\"",
        "maintenance" => "maintenance = \"map-and-unmap\"",
        "widest" => "widest = \"16\"",
        "gather" => "gather = \"64\"",
        "write_through" => "write_through = \"normal-nc\"",
        "mixed" => "mixed = \"normal-nc\"",
        "name" => "name = \"L1D\"",
        "holds" => "holds = \"data\"",
        "replacement" => "replacement = \"lru\"",
        "index" => "index = \"bits\"",
        "frames" => "frames = \"contiguous\"",
        "write" => "write = \"back\"",
        "inclusion" => "inclusion = \"neither\"",
        "from" => "from = \"memory\"",
        "allocate" | "shared" => return format!("for example: {key} = true"),
        "cpus" | "ways" | "entries" | "fetches" | "banks" | "buffers" | "resolution" => {
            return format!("for example: {key} = 4");
        }
        "core" | "timer" | "memory" | "walk" | "uncached" | "wakeup" | "dma" => {
            return format!("a table [{key}] of its own");
        }
        "sleep" | "irq" | "wake" | "switch" | "user" => return format!("a table [wakeup.{key}] of its own"),
        "code" | "data" | "common" => return format!("for example: {key} = \"4K\""),
        "within" => "within = \"8M\"",
        "instructions" => "instructions = 1100",
        "level" | "tlb" => return format!("tables [[{key}]], nearest first"),
        _ => return format!("for example: {key} = \"3 cycles\" or \"130 ns\""),
    };
    format!("for example: {line}")
}

/// The whole of it.
pub(super) fn parse(file_name: &str, text: &str) -> Result<Description> {
    let source = Source { file: file_name, text };
    let document = DeTable::parse(text)
        .map_err(|e| source.fault(e.span().unwrap_or(0..0), format!("not TOML: {}", e.message()), ""))?;
    let mut places = Places::new();
    // The version comes first: a later format may well have keys that are unknown here.
    if let Some(format) = document.get_ref().get("format")
        && format.get_ref().as_integer().is_none_or(|n| n.as_str() != "1")
    {
        return Err(source.fault(format.span(), "this program reads format 1 only", "write format = 1"));
    }
    let top = (document.get_ref(), 0..0);
    let top = Table::open(&source, "", 0, top, TOP, &mut places)?;
    top.required("format")?;
    let mut one = |name, known| one_table(&top, (name, name), known, &mut places);
    let core = one("core", CORE)?.ok_or_else(|| top.missing("core"))?;
    let timer = one("timer", TIMER)?.ok_or_else(|| top.missing("timer"))?;
    let memory = one("memory", MEMORY)?.ok_or_else(|| top.missing("memory"))?;
    let walk = one("walk", WALK)?;
    let uncached = one("uncached", UNCACHED)?;
    let wakeup = one("wakeup", WAKEUP)?;
    let dma = one("dma", device::KEYS)?;
    let description = Description {
        name: stem(file_name),
        about: top.text("about")?.0.to_string(),
        core: read_core(&core)?,
        timer: read_timer(&timer)?,
        levels: each(&top, "level", LEVEL, &mut places, read_level)?,
        tlbs: each(&top, "tlb", TLB, &mut places, read_tlb)?,
        walk: walk.as_ref().map(read_walk).transpose()?,
        memory: read_memory(&memory)?,
        uncached: uncached.as_ref().map(read_uncached).transpose()?.unwrap_or_default(),
        dma: dma.as_ref().map(device::read).transpose()?,
        wakeup: wakeup.map(|table| read_wakeup(&table, &mut places)).transpose()?,
    };
    description.check().map_err(|flaw| {
        let place = |key| places.get(&(flaw.table, flaw.index, key)).cloned();
        let span = place(flaw.key).or_else(|| place("")).unwrap_or(0..0);
        source.fault(span, flaw.message.clone(), flaw.help.clone())
    })?;
    Ok(description)
}

/// `machines/bcm2837.toml` is the machine `bcm2837`.
fn stem(file_name: &str) -> String {
    let name = file_name.rsplit(['/', '\\']).next().unwrap_or(file_name);
    name.strip_suffix(".toml").unwrap_or(name).to_string()
}

/// The table that a key of another one is, and its name in full.
fn one_table<'a>(
    within: &Table<'a>,
    (key, name): (&'static str, &'static str),
    known: &'static [&'static str],
    places: &mut Places,
) -> Result<Option<Table<'a>>> {
    let Some(value) = within.value(key) else { return Ok(None) };
    let table = value.get_ref().as_table().ok_or_else(|| within.wrong(value, key, "a table"))?;
    Table::open(within.source, name, 0, (table, value.span()), known, places).map(Some)
}

/// Every table of an array of tables, read.
fn each<'a, T>(
    top: &Table<'a>,
    name: &'static str,
    known: &'static [&'static str],
    places: &mut Places,
    read: fn(&Table) -> Result<T>,
) -> Result<Vec<T>> {
    let Some(value) = top.value(name) else { return Ok(Vec::new()) };
    let wanted = "an array of tables";
    let list = value.get_ref().as_array().ok_or_else(|| top.wrong(value, name, wanted))?;
    let mut all = Vec::new();
    for (index, entry) in list.iter().enumerate() {
        let table = entry.get_ref().as_table().ok_or_else(|| top.wrong(entry, name, wanted))?;
        all.push(read(&Table::open(top.source, name, index, (table, entry.span()), known, places)?)?);
    }
    Ok(all)
}

fn read_core(t: &Table) -> Result<Core> {
    Ok(Core {
        clock_hz: t.quantity("clock", units::hz)?,
        cpus: t.count32("cpus")?,
        alu: t.quantity("alu", units::time)?,
        branch: t.quantity("branch", units::time)?,
        store: t.time_if_any("store")?,
        maintain: t.time_if_any("maintain")?,
    })
}

fn read_timer(t: &Table) -> Result<Timer> {
    Ok(Timer {
        clock_hz: t.quantity("clock", units::hz)?,
        overhead: t.quantity("overhead", units::time)?,
        jitter: t.time_or_zero("jitter")?,
        resolution: t.count("resolution")?,
    })
}

fn read_level(t: &Table) -> Result<Level> {
    Ok(Level {
        name: t.text("name")?.0.to_string(),
        holds: t.word("holds", Holds::ALL, Holds::word)?,
        size: t.quantity("size", units::size)?,
        line: t.quantity("line", units::size)?,
        ways: t.count32("ways")?,
        index: t.word_or_first("index", Index::ALL, Index::word)?,
        latency: t.quantity("latency", units::time)?,
        replacement: t.word("replacement", Replacement::ALL, Replacement::word)?,
        write: t.word("write", Write::ALL, Write::word)?,
        allocate: t.flag("allocate")?,
        inclusion: t.word("inclusion", Inclusion::ALL, Inclusion::word)?,
        shared: t.flag("shared")?,
    })
}

fn read_tlb(t: &Table) -> Result<Tlb> {
    Ok(Tlb {
        name: t.text("name")?.0.to_string(),
        entries: t.count32("entries")?,
        ways: t.count32("ways")?,
        pages: t.sizes("pages")?,
        latency: t.quantity("latency", units::time)?,
        replacement: t.word("replacement", Replacement::ALL, Replacement::word)?,
    })
}

fn read_walk(t: &Table) -> Result<Walk> {
    let from = match t.text("from")?.0 {
        "memory" => WalkFrom::Memory,
        "none" => WalkFrom::Nowhere,
        name => WalkFrom::Level(name.to_string()),
    };
    Ok(Walk { fetches: t.count32("fetches")?, from, latency: t.quantity("latency", units::time)? })
}

fn read_memory(t: &Table) -> Result<Memory> {
    let rows = match (t.value("row"), t.value("banks"), t.value("open")) {
        (None, None, None) => None,
        _ => Some(Rows {
            row: t.quantity("row", units::size)?,
            banks: t.count32("banks")?,
            open: t.quantity("open", units::time)?,
        }),
    };
    let refresh = match (t.value("refresh"), t.value("refresh_takes")) {
        (None, None) => None,
        _ => Some(Refresh {
            every: t.quantity("refresh", units::time)?,
            takes: t.quantity("refresh_takes", units::time)?,
        }),
    };
    Ok(Memory {
        size: t.quantity("size", units::size)?,
        pages: t.sizes("pages")?,
        frames: t.word_or_first("frames", Frames::ALL, Frames::word)?,
        latency: t.quantity("latency", units::time)?,
        spread: t.time_or_zero("spread")?,
        rows,
        refresh,
    })
}

/// Keys that only mean something together are all there or none is.
fn read_uncached(t: &Table) -> Result<Uncached> {
    let any = |keys: &[&'static str]| keys.iter().any(|key| t.value(key).is_some());
    let gathering = any(&["store", "buffers", "gather", "drain"]).then(|| {
        Ok(Gathering {
            store: t.quantity("store", units::time)?,
            buffers: t.count32("buffers")?,
            gather: t.quantity("gather", units::size)?,
            drain: t.quantity("drain", units::time)?,
        })
    });
    let device = any(&["device_load", "device_store"]).then(|| {
        Ok(DeviceCosts {
            load: t.quantity("device_load", units::time)?,
            store: t.quantity("device_store", units::time)?,
        })
    });
    Ok(Uncached {
        load: t.time_if_any("load")?,
        gathering: gathering.transpose()?,
        device: device.transpose()?,
        write_through: any(&["write_through"])
            .then(|| t.word("write_through", Through::ALL, Through::word))
            .transpose()?,
        mixed: t.word_or_first("mixed", Mixed::ALL, Mixed::word)?,
    })
}

fn read_wakeup(t: &Table, places: &mut Places) -> Result<Wakeup> {
    let mut stages = [Stage { instructions: 0, code: 0, data: 0 }; 5];
    for (stage, names) in stages.iter_mut().zip(Wakeup::STAGES.into_iter().zip(Wakeup::TABLES)) {
        let table = one_table(t, names, STAGE, places)?.ok_or_else(|| t.missing(names.0))?;
        *stage = Stage {
            instructions: table.count("instructions")?,
            code: table.quantity("code", units::size)?,
            data: table.quantity("data", units::size)?,
        };
    }
    Ok(Wakeup {
        instruction: t.quantity("instruction", units::time)?,
        common: t.quantity("common", units::size)?,
        within: t.quantity("within", units::size)?,
        stages,
    })
}
