//! Writes the effective description in its file format.

use std::fmt;

use fathom_units::compact;

use super::units::show_hz;
use super::{Description, Level, Memory, Mixed, Tlb, Uncached, Wakeup, Walk, WalkFrom};

/// Text as a TOML basic string.
struct Quoted<'a>(&'a str);

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

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "format = 1")?;
        writeln!(f, "about = {}", Quoted(&self.about))?;
        writeln!(f, "\n[core]")?;
        writeln!(f, "clock = \"{}\"", show_hz(self.core.clock_hz))?;
        writeln!(f, "cpus = {}", self.core.cpus)?;
        writeln!(f, "alu = \"{}\"", self.core.alu)?;
        writeln!(f, "branch = \"{}\"", self.core.branch)?;
        if let Some(store) = self.core.store {
            writeln!(f, "store = \"{store}\"")?;
        }
        if let Some(maintain) = self.core.maintain {
            writeln!(f, "maintain = \"{maintain}\"")?;
        }
        writeln!(f, "\n[timer]")?;
        writeln!(f, "clock = \"{}\"", show_hz(self.timer.clock_hz))?;
        writeln!(f, "overhead = \"{}\"", self.timer.overhead)?;
        writeln!(f, "jitter = \"{}\"", self.timer.jitter)?;
        writeln!(f, "resolution = {}", self.timer.resolution)?;
        self.levels.iter().try_for_each(|level| level.show(f))?;
        self.tlbs.iter().try_for_each(|tlb| tlb.show(f))?;
        if let Some(walk) = &self.walk {
            walk.show(f)?;
        }
        self.memory.show(f)?;
        self.uncached.show(f)?;
        self.dma.as_ref().map_or(Ok(()), |dma| dma.show(f))?;
        self.wakeup.as_ref().map_or(Ok(()), |wakeup| wakeup.show(f))
    }
}

impl Level {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n[[level]]")?;
        writeln!(f, "name = {}", Quoted(&self.name))?;
        writeln!(f, "holds = \"{}\"", self.holds.word())?;
        writeln!(f, "size = \"{}\"", compact(self.size))?;
        writeln!(f, "line = \"{}\"", compact(self.line))?;
        writeln!(f, "ways = {}", self.ways)?;
        writeln!(f, "index = \"{}\"", self.index.word())?;
        writeln!(f, "latency = \"{}\"", self.latency)?;
        writeln!(f, "replacement = \"{}\"", self.replacement.word())?;
        writeln!(f, "write = \"{}\"", self.write.word())?;
        writeln!(f, "allocate = {}", self.allocate)?;
        writeln!(f, "inclusion = \"{}\"", self.inclusion.word())?;
        writeln!(f, "shared = {}", self.shared)
    }
}

impl Tlb {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n[[tlb]]")?;
        writeln!(f, "name = {}", Quoted(&self.name))?;
        writeln!(f, "entries = {}", self.entries)?;
        writeln!(f, "ways = {}", self.ways)?;
        writeln!(f, "pages = {}", sizes(&self.pages))?;
        writeln!(f, "latency = \"{}\"", self.latency)?;
        writeln!(f, "replacement = \"{}\"", self.replacement.word())
    }
}

impl Walk {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = match &self.from {
            WalkFrom::Level(name) => name,
            WalkFrom::Memory => "memory",
            WalkFrom::Nowhere => "none",
        };
        writeln!(f, "\n[walk]")?;
        writeln!(f, "fetches = {}", self.fetches)?;
        writeln!(f, "from = {}", Quoted(from))?;
        writeln!(f, "latency = \"{}\"", self.latency)
    }
}

impl Memory {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n[memory]")?;
        writeln!(f, "size = \"{}\"", compact(self.size))?;
        writeln!(f, "pages = {}", sizes(&self.pages))?;
        writeln!(f, "frames = \"{}\"", self.frames.word())?;
        writeln!(f, "latency = \"{}\"", self.latency)?;
        writeln!(f, "spread = \"{}\"", self.spread)?;
        if let Some(rows) = &self.rows {
            writeln!(f, "row = \"{}\"", compact(rows.row))?;
            writeln!(f, "banks = {}", rows.banks)?;
            writeln!(f, "open = \"{}\"", rows.open)?;
        }
        if let Some(refresh) = &self.refresh {
            writeln!(f, "refresh = \"{}\"", refresh.every)?;
            writeln!(f, "refresh_takes = \"{}\"", refresh.takes)?;
        }
        Ok(())
    }
}

impl Uncached {
    /// Writes nothing if nothing is described.
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Uncached::default() {
            return Ok(());
        }
        writeln!(f, "\n[uncached]")?;
        if let Some(load) = self.load {
            writeln!(f, "load = \"{load}\"")?;
        }
        if let Some(gathering) = &self.gathering {
            writeln!(f, "store = \"{}\"", gathering.store)?;
            writeln!(f, "buffers = {}", gathering.buffers)?;
            writeln!(f, "gather = \"{}\"", compact(gathering.gather))?;
            writeln!(f, "drain = \"{}\"", gathering.drain)?;
        }
        if let Some(device) = &self.device {
            writeln!(f, "device_load = \"{}\"", device.load)?;
            writeln!(f, "device_store = \"{}\"", device.store)?;
        }
        if let Some(through) = self.write_through {
            writeln!(f, "write_through = \"{}\"", through.word())?;
        }
        if self.mixed != Mixed::default() {
            writeln!(f, "mixed = \"{}\"", self.mixed.word())?;
        }
        Ok(())
    }
}

impl Wakeup {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n[wakeup]")?;
        writeln!(f, "instruction = \"{}\"", self.instruction)?;
        writeln!(f, "common = \"{}\"", compact(self.common))?;
        writeln!(f, "within = \"{}\"", compact(self.within))?;
        for (name, stage) in Wakeup::STAGES.iter().zip(&self.stages) {
            writeln!(f, "\n[wakeup.{name}]")?;
            writeln!(f, "instructions = {}", stage.instructions)?;
            writeln!(f, "code = \"{}\"", compact(stage.code))?;
            writeln!(f, "data = \"{}\"", compact(stage.data))?;
        }
        Ok(())
    }
}
