//! Validation of descriptions, with a remedy for each error.

use super::{
    Core, Description, Holds, Inclusion, Index, Level, Memory, Replacement, Through, Time, Tlb, Wakeup,
    WalkFrom, device, nearest, neighbour,
};
use fathom_units::compact;

use super::place::{At, Check};

/// Maximum ways of a policy that keeps one bit per way in a 64-bit word.
const WORD_WAYS: u32 = 64;
/// Limits that keep every sum far inside 64 bits. No machine is near them.
const MAX_CPUS: u32 = 1024;
const MAX_LEVELS: usize = 16;
const MAX_BYTES: u64 = 1 << 40;
/// Misses and accesses under way. No core has as many; a search of all of them stays cheap.
const MAX_OUTSTANDING: u32 = 256;
const MAX_WINDOW: u32 = 4096;
const MAX_STREAMS: u32 = 256;
/// Lines of all levels together. A model of them then takes at most a few hundred MiB.
const MAX_LINES: u64 = 1 << 24;
/// A wake-up of a million instructions takes a millisecond, too long for a real-time system. No wake-up path touches as
/// much memory as its kernel has, and no kernel has more than 256 MiB of code or data.
const MAX_INSTRUCTIONS: u64 = 1 << 20;
const MAX_TOUCHED: u64 = 1 << 22;
const WITHIN_BYTES: (u64, u64) = (64 << 10, 256 << 20);

pub(super) fn check(d: &Description) -> Check {
    check_core(d)?;
    if d.levels.len() > MAX_LEVELS {
        return Err(At("level", MAX_LEVELS).flaw("", format!("more than {MAX_LEVELS} levels"), ""));
    }
    for (index, level) in d.levels.iter().enumerate() {
        let at = At("level", index);
        check_level(at, level)?;
        check_neighbours(at, d, index)?;
        let lines: u64 = d.levels[..=index].iter().map(|l| l.size / l.line).fold(0, u64::saturating_add);
        if lines > MAX_LINES {
            let message = format!("{} exceeds the limit of the model", compact(level.size));
            let help = format!("all levels together may hold at most {MAX_LINES} lines");
            return Err(at.flaw("size", message, help));
        }
    }
    if d.tlbs.len() > MAX_LEVELS {
        return Err(At("tlb", MAX_LEVELS).flaw("", format!("more than {MAX_LEVELS} TLBs"), ""));
    }
    for (index, tlb) in d.tlbs.iter().enumerate() {
        check_tlb(At("tlb", index), tlb)?;
        if d.tlbs[..index].iter().any(|t| t.name == tlb.name) {
            let message = format!("a second TLB named \"{}\"", tlb.name);
            return Err(At("tlb", index).flaw("name", message, "names are unique"));
        }
    }
    check_set_fill(At("core", 0), d)?;
    check_streams(At("core", 0), d)?;
    check_walk(d)?;
    check_memory(d)?;
    d.tlbs.iter().enumerate().try_for_each(|(index, tlb)| check_splits(At("tlb", index), tlb, &d.memory))?;
    check_uncached(d)?;
    device::check(d)?;
    neighbour::check(d)?;
    d.wakeup.as_ref().map_or(Ok(()), check_wakeup)
}

fn check_core(d: &Description) -> Check {
    if d.about.is_empty() || d.about.chars().count() > 200 || d.about.chars().any(char::is_control) {
        let help = "one line of up to 200 characters that names the machine";
        return Err(At("", 0).flaw("about", "`about` is not a line of text", help));
    }
    let at = At("core", 0);
    at.hz("clock", d.core.clock_hz)?;
    at.time("alu", d.core.alu)?;
    at.time("branch", d.core.branch)?;
    for (key, time) in [("store", d.core.store), ("maintain", d.core.maintain)] {
        time.map_or(Ok(()), |time| at.time(key, time))?;
    }
    if d.core.cpus == 0 || d.core.cpus > MAX_CPUS {
        return Err(at.flaw("cpus", format!("{} CPUs", d.core.cpus), format!("from 1 to {MAX_CPUS}")));
    }
    check_overlap(at, &d.core)?;
    if let Some(events) = &d.core.events {
        at.word("events", events)?;
    }
    let at = At("timer", 0);
    at.hz("clock", d.timer.clock_hz)?;
    at.time("overhead", d.timer.overhead)?;
    at.time("jitter", d.timer.jitter)?;
    if d.timer.resolution == 0 || d.timer.resolution > 1 << 32 {
        return Err(at.flaw("resolution", "the resolution must be at least 1 tick", "resolution = 1"));
    }
    Ok(())
}

/// Checks how many accesses overlap.
fn check_overlap(at: At, core: &Core) -> Check {
    if let Some(count) = core.outstanding
        && !(1..=MAX_OUTSTANDING).contains(&count)
    {
        let help = format!("from 1 (the core waits for each miss) to {MAX_OUTSTANDING}");
        return Err(at.flaw("outstanding", format!("{count} outstanding misses"), help));
    }
    let Some(window) = core.window else { return Ok(()) };
    let Some(outstanding) = core.outstanding else {
        let help = "add the misses that can be under way within it: outstanding = 4, for example";
        return Err(at.flaw("window", "`window` without `outstanding`", help));
    };
    if !(outstanding..=MAX_WINDOW).contains(&window) {
        let message = format!("a window of {window} instructions");
        let help = format!("from `outstanding`, {outstanding}, to {MAX_WINDOW}");
        return Err(at.flaw("window", message, help));
    }
    Ok(())
}

/// Checks the time between fills of one set.
fn check_set_fill(at: At, d: &Description) -> Check {
    let Some(time) = d.core.set_fill else { return Ok(()) };
    at.time("set_fill", time)?;
    if d.core.outstanding.is_none() {
        let help = "add the misses that can be under way: outstanding = 4, for example";
        return Err(at.flaw("set_fill", "`set_fill` without `outstanding`", help));
    }
    match d.levels.iter().find(|level| level.holds != Holds::Instructions) {
        None => Err(at.flaw("set_fill", "`set_fill` without a level for data", "remove `set_fill`")),
        Some(nearest) if nearest.index == Index::Hashed => {
            let message = format!("`set_fill` with a hashed index of {}", nearest.name);
            Err(at.flaw("set_fill", message, "the set must be known by the address: index = \"bits\""))
        }
        Some(_) => Ok(()),
    }
}

/// Checks the runs of lines that are prefetched.
fn check_streams(at: At, d: &Description) -> Check {
    let Some(streams) = d.core.streams else { return Ok(()) };
    at.time("stream", streams.cost)?;
    if !(1..=MAX_STREAMS).contains(&streams.number) {
        let help = format!("from 1 to {MAX_STREAMS} runs of lines at the same time");
        return Err(at.flaw("streams", format!("{} streams", streams.number), help));
    }
    let hz = d.core.clock_hz;
    match d.levels.iter().find(|level| level.holds != Holds::Instructions) {
        None => Err(at.flaw("stream", "`stream` without a level for data", "remove `stream` and `streams`")),
        Some(nearest) if streams.cost.in_cycles(hz) < nearest.latency.in_cycles(hz) => {
            let message = format!("{} is less than a hit of {} takes", streams.cost, nearest.name);
            Err(at.flaw("stream", message, format!("from {} on", nearest.latency)))
        }
        Some(_) => Ok(()),
    }
}

fn check_level(at: At, level: &Level) -> Check {
    at.name(&level.name)?;
    at.time("latency", level.latency)?;
    if !level.line.is_power_of_two() || !(16..=4096).contains(&level.line) {
        let near = level.line.clamp(16, 4096).next_power_of_two();
        let message = format!("a line of {} bytes", level.line);
        return Err(at.flaw("line", message, format!("a power of two from 16 to 4096; the next is {near}")));
    }
    check_ways(at, level.ways, level.replacement)?;
    let way = level.line * u64::from(level.ways);
    if level.size == 0 || !level.size.is_multiple_of(way) {
        let below = level.size / way * way;
        let near = |bytes: u64| format!("{} ({} sets)", compact(bytes), bytes / way);
        let help = match below {
            0 => format!("size = line x ways x sets: the smallest valid size is {}", near(way)),
            _ => format!(
                "size = line x ways x sets: the nearest valid sizes are {} and {}",
                near(below),
                near(below.saturating_add(way))
            ),
        };
        let message = format!(
            "{} bytes are not a whole number of sets of {} ways x {} bytes",
            level.size, level.ways, level.line
        );
        return Err(at.flaw("size", message, help));
    }
    check_index(at, level)
}

/// Checks the index: the exclusive-or of bits needs a number of sets that is a power of two.
fn check_index(at: At, level: &Level) -> Check {
    let sets = level.sets();
    if level.index == Index::Bits || sets.is_power_of_two() {
        return Ok(());
    }
    let message = format!("a hashed index onto {sets} sets");
    let way = level.line * u64::from(level.ways);
    let near = |sets: u64| format!("{} ({sets} sets)", compact(sets.saturating_mul(way)));
    let above = sets.checked_next_power_of_two().unwrap_or(sets);
    let help = format!(
        "a hashed index needs a power of two of sets: size = {} or {}, or index = \"bits\"",
        near(above / 2),
        near(above)
    );
    Err(at.flaw("index", message, help))
}

fn check_ways(at: At, ways: u32, replacement: Replacement) -> Check {
    if ways == 0 {
        return Err(at.flaw(
            "ways",
            "a set without ways",
            "from 1; the number of entries for fully associative",
        ));
    }
    use Replacement::{Fifo, Lru, NotMruRandom, Random};
    let in_a_word = !matches!(replacement, Lru | Fifo | Random | NotMruRandom);
    if in_a_word && ways > WORD_WAYS {
        let message = format!("{} with {ways} ways", replacement.word());
        let help = format!(
            "this policy is modelled for up to {WORD_WAYS} ways; lru, fifo, random and not-mru-random have no limit"
        );
        return Err(at.flaw("replacement", message, help));
    }
    Ok(())
}

/// Checks a level against the nearer ones.
fn check_neighbours(at: At, d: &Description, index: usize) -> Check {
    let level = &d.levels[index];
    let nearer = &d.levels[..index];
    if nearer.iter().any(|l| l.name == level.name) {
        return Err(at.flaw("name", format!("a second level named \"{}\"", level.name), "names are unique"));
    }
    if level.holds != Holds::Unified && nearer.iter().any(|l| l.holds == Holds::Unified) {
        let message = format!("a level for {} beyond a unified one", level.holds.word());
        return Err(at.flaw(
            "holds",
            message,
            "levels are listed nearest first; beyond a unified level all are unified",
        ));
    }
    let meets = |l: &&Level| l.holds == level.holds || level.holds == Holds::Unified;
    let nearest: Vec<&Level> = nearer.iter().filter(meets).collect();
    if let Some(wide) = nearest.iter().find(|l| l.line > level.line) {
        let message = format!("a line of {} bytes beyond \"{}\" with {}", level.line, wide.name, wide.line);
        return Err(at.flaw("line", message, "a level's line is at least as long as those of nearer levels"));
    }
    if let Some(shared) = nearest.iter().find(|l| l.shared && !level.shared) {
        let message = format!("a private level beyond \"{}\", which is shared", shared.name);
        return Err(at.flaw("shared", message, "levels beyond a shared level are shared: shared = true"));
    }
    if level.inclusion != Inclusion::Exclusive {
        return Ok(());
    }
    if nearest.is_empty() {
        let help = "write \"neither\" for the first level";
        return Err(at.flaw("inclusion", "the first level has no nearer one to be exclusive of", help));
    }
    if let Some(narrow) = nearest.iter().find(|l| l.line != level.line) {
        let message = format!("an exclusive level whose line differs from \"{}\"'s", narrow.name);
        return Err(at.flaw("inclusion", message, format!("line = \"{}\"", narrow.line)));
    }
    Ok(())
}

fn check_tlb(at: At, tlb: &Tlb) -> Check {
    at.name(&tlb.name)?;
    at.time("latency", tlb.latency)?;
    check_ways(at, tlb.ways, tlb.replacement)?;
    if tlb.entries == 0 || tlb.entries > 1 << 20 || !tlb.entries.is_multiple_of(tlb.ways) {
        let below = (tlb.entries / tlb.ways).clamp(1, 1 << 10) * tlb.ways;
        let message = format!("{} entries are not a whole number of sets of {} ways", tlb.entries, tlb.ways);
        let help =
            format!("the nearest valid numbers are {below} and {}", u64::from(below) + u64::from(tlb.ways));
        return Err(at.flaw("entries", message, help));
    }
    check_pages(at, &tlb.pages)
}

/// Checks the pieces of larger pages. The model distinguishes the base page and the largest one.
fn check_splits(at: At, tlb: &Tlb, memory: &Memory) -> Check {
    let Some(piece) = tlb.splits else { return Ok(()) };
    let (base, largest) = (memory.pages[0], memory.pages[memory.pages.len() - 1]);
    if base == largest || !tlb.pages.contains(&largest) {
        let message = format!("`splits` in a TLB that holds no page larger than {}", compact(base));
        let help = "remove it, or add the largest page of [memory] to `pages`";
        return Err(at.flaw("splits", message, help));
    }
    if piece != base {
        let message = format!("large pages in pieces of {}", compact(piece));
        return Err(at.flaw("splits", message, format!("the base page: splits = \"{}\"", compact(base))));
    }
    Ok(())
}

fn check_pages(at: At, pages: &[u64]) -> Check {
    if pages.is_empty() || pages.len() > 16 {
        return Err(at.flaw(
            "pages",
            format!("{} page sizes", pages.len()),
            "for example: pages = [\"4K\", \"2M\"]",
        ));
    }
    if let Some(odd) = pages.iter().find(|p| !p.is_power_of_two() || !(1 << 10..=1 << 36).contains(*p)) {
        let help = "a page is a power of two from 1K to 64G";
        return Err(at.flaw("pages", format!("a page of {odd} bytes"), help));
    }
    if pages.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(at.flaw("pages", "page sizes out of order", "ascending, each once"));
    }
    Ok(())
}

fn check_walk(d: &Description) -> Check {
    let at = At("walk", 0);
    let Some(walk) = &d.walk else {
        if d.tlbs.is_empty() {
            return Ok(());
        }
        return Err(At("tlb", 0).flaw(
            "",
            "a TLB without a [walk]",
            "add the cost of a miss in every TLB: [walk]",
        ));
    };
    if d.tlbs.is_empty() {
        return Err(at.flaw(
            "",
            "a [walk] without a [[tlb]]",
            "remove it: without TLBs, translation has no cost",
        ));
    }
    at.time("latency", walk.latency)?;
    if walk.fetches > 6 {
        let message = format!("{} fetches per walk", walk.fetches);
        return Err(at.flaw("fetches", message, "from 0 to 6: no page table has more levels"));
    }
    match &walk.from {
        WalkFrom::Nowhere if walk.fetches > 0 => {
            Err(at.flaw("from", "fetches without a source", "fetches = 0, or from = \"memory\" or a level"))
        }
        WalkFrom::Memory | WalkFrom::Level(_) if walk.fetches == 0 => {
            Err(at.flaw("from", "a source without fetches", "from = \"none\""))
        }
        WalkFrom::Level(name) => {
            let data = || d.levels.iter().filter(|l| l.holds != Holds::Instructions).map(|l| l.name.as_str());
            if data().any(|known| known == name) {
                return Ok(());
            }
            let words = data().chain(["memory", "none"]);
            let help = match nearest(name, words.clone()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("one of {}", words.collect::<Vec<_>>().join(", ")),
            };
            Err(at.flaw("from", format!("\"{}\" is not a level that holds data", name.escape_debug()), help))
        }
        _ => Ok(()),
    }
}

fn check_memory(d: &Description) -> Check {
    let at = At("memory", 0);
    let memory = &d.memory;
    check_pages(at, &memory.pages)?;
    at.time("latency", memory.latency)?;
    at.time("spread", memory.spread)?;
    let page = memory.pages[0];
    let min_bytes = page * 64;
    if memory.size < min_bytes || memory.size > MAX_BYTES || !memory.size.is_multiple_of(page) {
        let help = format!(
            "whole pages of {}, from {} to {}",
            compact(page),
            compact(min_bytes),
            compact(MAX_BYTES)
        );
        return Err(at.flaw("size", format!("a memory size of {}", compact(memory.size)), help));
    }
    let hz = d.core.clock_hz;
    let total = |t: Time| t.in_cycles(hz);
    if total(memory.spread) > total(memory.latency) {
        let message = "a spread larger than the latency: some accesses would take negative time";
        return Err(at.flaw("spread", message, format!("at most {}", memory.latency)));
    }
    if let Some(level) = d.levels.iter().find(|l| l.line > page) {
        let help = format!("lines of \"{}\" are {} bytes", level.name, level.line);
        return Err(at.flaw("pages", "a page smaller than a line", help));
    }
    check_rows(at, d, total)?;
    let Some(refresh) = &memory.refresh else { return Ok(()) };
    at.time("refresh", refresh.every)?;
    at.time("refresh_takes", refresh.takes)?;
    if total(refresh.takes) >= total(refresh.every) {
        let message = "a refresh that takes as long as the interval between two";
        return Err(at.flaw("refresh_takes", message, format!("less than {}", refresh.every)));
    }
    Ok(())
}

fn check_rows(at: At, d: &Description, total: impl Fn(Time) -> f64) -> Check {
    let memory = &d.memory;
    let Some(rows) = &memory.rows else { return Ok(()) };
    at.time("open", rows.open)?;
    if !rows.row.is_power_of_two() || !(64..=1 << 24).contains(&rows.row) {
        let help = "a power of two from 64 to 16M";
        return Err(at.flaw("row", format!("a row of {} bytes", rows.row), help));
    }
    if rows.banks == 0 || rows.banks > 4096 {
        return Err(at.flaw("banks", format!("{} banks", rows.banks), "from 1 to 4096"));
    }
    if total(memory.spread) > total(rows.open) {
        let message = "the spread is larger than `open`: some accesses would take negative time";
        return Err(at.flaw("spread", message, format!("at most {}", rows.open)));
    }
    Ok(())
}

fn check_uncached(d: &Description) -> Check {
    let (at, uncached) = (At("uncached", 0), &d.uncached);
    uncached.load.map_or(Ok(()), |load| at.time("load", load))?;
    if let Some(device) = &uncached.device {
        at.time("device_load", device.load)?;
        at.time("device_store", device.store)?;
    }
    if let Some(gathering) = &uncached.gathering {
        at.time("store", gathering.store)?;
        at.time("drain", gathering.drain)?;
        if !gathering.gather.is_power_of_two() || !(8..=4096).contains(&gathering.gather) {
            let message = format!("a buffer of {} bytes", gathering.gather);
            return Err(at.flaw("gather", message, "a power of two from 8 to 4096"));
        }
        if !(1..=1024).contains(&gathering.buffers) {
            let message = format!("{} buffers", gathering.buffers);
            return Err(at.flaw("buffers", message, "from 1 to 1024"));
        }
    }
    let missing = match uncached.write_through {
        Some(_) if uncached.gathering.is_none() => "store",
        Some(Through::NormalNc) if uncached.load.is_none() => "load",
        _ => return Ok(()),
    };
    let message = format!("`write_through` needs `{missing}`, because it uses these accesses");
    Err(at.flaw("write_through", message, format!("for example: {missing} = \"2 cycles\"")))
}

fn check_wakeup(wakeup: &Wakeup) -> Check {
    let at = At("wakeup", 0);
    at.time("instruction", wakeup.instruction)?;
    let (min, max) = WITHIN_BYTES;
    if !wakeup.within.is_power_of_two() || !(min..=max).contains(&wakeup.within) {
        let help = format!("a power of two from {} to {}", compact(min), compact(max));
        return Err(at.flaw("within", format!("a kernel of {}", compact(wakeup.within)), help));
    }
    let touched = |at: At, key, bytes: u64, min: u64| {
        let message = || format!("`{key}` = {} is not a plausible amount for a wake-up", compact(bytes));
        let flaw = || at.flaw(key, message(), format!("from {min} to {}", compact(MAX_TOUCHED)));
        if (min..=MAX_TOUCHED).contains(&bytes) { Ok(()) } else { Err(flaw()) }
    };
    touched(at, "common", wakeup.common, 0)?;
    for (table, stage) in Wakeup::TABLES.into_iter().zip(&wakeup.stages) {
        let at = At(table, 0);
        // A stage has at least one byte of code.
        touched(at, "code", stage.code, 1)?;
        touched(at, "data", stage.data, 0)?;
        if !(1..=MAX_INSTRUCTIONS).contains(&stage.instructions) {
            let message = format!("a stage of {} instructions", stage.instructions);
            return Err(at.flaw("instructions", message, format!("from 1 to {MAX_INSTRUCTIONS}")));
        }
    }
    // Runs of consecutive lines are placed separately, and a stage's last run may be shorter.
    let code: u64 = wakeup.stages.iter().map(|stage| stage.code).sum();
    let data: u64 = wakeup.stages.iter().map(|stage| stage.data).sum::<u64>() + wakeup.common;
    if code.max(data) > wakeup.within / 2 {
        let message = format!("{} touched within {}", compact(code.max(data)), compact(wakeup.within));
        return Err(at.flaw("within", message, "code and data each use at most half of it"));
    }
    Ok(())
}
