//! Parser from TOML to a [`Description`]. Unknown keys are refused.

use toml::de::DeTable;

use super::source::{Result, Source};
use super::table::{Places, Table};
use super::units;
use super::{
    Core, Description, DeviceCosts, Frames, Gathering, Holds, Inclusion, Index, Level, Memory, Mixed,
    Refresh, Replacement, Rows, Stage, Streams, Through, Timer, Tlb, Uncached, Wakeup, Walk, WalkFrom, Write,
    alternatives, device, neighbour,
};

const TOP: &[&str] = &[
    "format",
    "about",
    "core",
    "timer",
    "level",
    "tlb",
    "walk",
    "memory",
    "uncached",
    "wakeup",
    "dma",
    "neighbour",
];
const CORE: &[&str] = &[
    "clock",
    "cpus",
    "alu",
    "branch",
    "store",
    "maintain",
    "outstanding",
    "window",
    "set_fill",
    "stream",
    "streams",
    "events",
];
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
const TLB: &[&str] = &["name", "entries", "ways", "pages", "latency", "replacement", "splits"];
const WALK: &[&str] = &["fetches", "from", "latency"];
const MEMORY: &[&str] = &[
    "size",
    "pages",
    "frames",
    "page_map",
    "latency",
    "spread",
    "row",
    "banks",
    "open",
    "refresh",
    "refresh_takes",
];
const UNCACHED: &[&str] =
    &["load", "store", "buffers", "gather", "drain", "device_load", "device_store", "write_through", "mixed"];

const WAKEUP: &[&str] = &["instruction", "common", "within", "sleep", "irq", "wake", "switch", "user"];
const STAGE: &[&str] = &["instructions", "code", "data"];

/// Parses and checks a description.
pub(super) fn parse(file_name: &str, text: &str) -> Result<Description> {
    let source = Source { file: file_name, text };
    let document = DeTable::parse(text)
        .map_err(|e| source.fault(e.span().unwrap_or(0..0), format!("not TOML: {}", e.message()), ""))?;
    let mut places = Places::default();
    // The version is checked first: a later format may have keys that are unknown here.
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
        neighbours: each(&top, "neighbour", neighbour::KEYS, &mut places, neighbour::read)?,
        wakeup: wakeup.map(|table| read_wakeup(&table, &mut places)).transpose()?,
        classes: std::mem::take(&mut places.classes),
        alternatives: std::mem::take(&mut places.read.alternatives),
    };
    description.check().map_err(|flaw| {
        let place = |key| places.spans.get(&(flaw.table, flaw.index, key)).cloned();
        let span = place(flaw.key).or_else(|| place("")).unwrap_or(0..0);
        source.fault(span, flaw.message.clone(), flaw.help.clone())
    })?;
    alternatives::check(&source, &description, &places.read)?;
    Ok(description)
}

/// Returns the machine's name: `bcm2837` for `machines/bcm2837.toml`.
fn stem(file_name: &str) -> String {
    let name = file_name.rsplit(['/', '\\']).next().unwrap_or(file_name);
    name.strip_suffix(".toml").unwrap_or(name).to_string()
}

/// Opens the table that is the value of a key of another table. `name` is its full name.
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

/// Reads every table of an array of tables.
fn each<'a, T>(
    top: &Table<'a>,
    name: &'static str,
    known: &'static [&'static str],
    places: &mut Places,
    read: fn(&Table) -> Result<T>,
) -> Result<Vec<T>> {
    let Some(value) = top.value(name) else { return Ok(Vec::new()) };
    let expected = "an array of tables";
    let list = value.get_ref().as_array().ok_or_else(|| top.wrong(value, name, expected))?;
    let mut all = Vec::new();
    for (index, entry) in list.iter().enumerate() {
        let table = entry.get_ref().as_table().ok_or_else(|| top.wrong(entry, name, expected))?;
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
        outstanding: t.count32_if_any("outstanding")?,
        window: t.count32_if_any("window")?,
        set_fill: t.time_if_any("set_fill")?,
        streams: read_streams(t)?,
        events: t.value("events").map(|_| t.text("events")).transpose()?.map(|(name, _)| name.to_owned()),
    })
}

/// Reads the runs of lines that are prefetched. Their cost and their number are given together.
fn read_streams(t: &Table) -> Result<Option<Streams>> {
    if t.value("stream").is_none() && t.value("streams").is_none() {
        return Ok(None);
    }
    Ok(Some(Streams { cost: t.quantity("stream", units::time)?, number: t.count32("streams")? }))
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
        splits: t.value("splits").map(|_| t.quantity("splits", units::size)).transpose()?,
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
        page_map: t.value("page_map").map_or(Ok(true), |_| t.flag("page_map"))?,
        latency: t.quantity("latency", units::time)?,
        spread: t.time_or_zero("spread")?,
        rows,
        refresh,
    })
}

/// Reads `[uncached]`. Keys that depend on each other must all be present or all be absent.
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
