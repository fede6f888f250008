//! `[dma]`: a device that reads and writes memory by itself, and what the kernel does for it.

use std::fmt;

use fathom_probe::machine::dma::Maintenance;
use fathom_units::compact;

use super::place::{At, Check};
use super::table::{Result, Table};
use super::units::{self, show_rate};
use super::{Description, Time};

words! {
    /// What a device's accesses have to do with the CPUs' caches.
    Coherence {
        /// Nothing: it reads and writes memory behind them.
        None = "none",
        /// They are seen: what it reads comes from the cache that has it newest, and what it writes leaves every
        /// cache.
        Snooped = "snooped",
        /// The same, and what it writes lies in the last level afterwards.
        Stashed = "stashed",
    }
}

/// `[dma]`: a device behind the caches or before them, with its driver's fixed costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Bytes a second of its slowest part: link, bus or engine.
    pub rate: f64,
    /// Bytes that it moves at once: a transfer is whole bursts, and memory takes its time to answer the first.
    pub burst: u64,
    /// CPU time to start a transfer.
    pub setup: Time,
    /// CPU time from the device's interrupt to its driver knowing that the transfer is done.
    pub interrupt: Time,
    /// Whether caches see it.
    pub coherence: Coherence,
    /// How the kernel maintains buffers for it; present when caches do not see it.
    pub maintenance: Option<Maintenance>,
    /// What mapping, unmapping or synchronising a buffer costs beside its lines.
    pub map: Time,
    /// What a line adds that is written back when it is cleaned.
    pub write_back: Time,
    /// Widest load that a copy uses on memory that is not cached, bytes.
    pub widest: u64,
    /// What a line costs at most in a pass over a packet or buffer that has read the line before it; without it, what any
    /// load takes.
    pub stream: Option<Time>,
}

pub(super) const KEYS: &[&str] = &[
    "rate",
    "burst",
    "setup",
    "interrupt",
    "coherence",
    "maintenance",
    "map",
    "write_back",
    "widest",
    "stream",
];

pub(super) fn read(t: &Table) -> Result<Device> {
    let maintained = t.value("maintenance").is_some();
    Ok(Device {
        rate: t.quantity("rate", units::rate)?,
        burst: t.quantity("burst", units::size)?,
        setup: t.quantity("setup", units::time)?,
        interrupt: t.quantity("interrupt", units::time)?,
        coherence: t.word("coherence", Coherence::ALL, Coherence::word)?,
        maintenance: maintained
            .then(|| t.word("maintenance", Maintenance::ALL, Maintenance::token))
            .transpose()?,
        map: t.quantity("map", units::time)?,
        write_back: t.time_or_zero("write_back")?,
        widest: t.quantity("widest", units::size)?,
        stream: t.time_if_any("stream")?,
    })
}

pub(super) fn check(d: &Description) -> Check {
    let (at, Some(device)) = (At("dma", 0), &d.dma) else { return Ok(()) };
    if !(1e3..=1e12).contains(&device.rate) {
        let message = format!("`rate` = {} is no device's", show_rate(device.rate));
        return Err(at.flaw("rate", message, "from 1 kB/s to 1000 GB/s"));
    }
    for (key, time) in [
        ("setup", device.setup),
        ("interrupt", device.interrupt),
        ("map", device.map),
        ("write_back", device.write_back),
        ("stream", device.stream.unwrap_or(Time::ZERO)),
    ] {
        at.time(key, time)?;
    }
    for (key, bytes, most) in [("burst", device.burst, 4096), ("widest", device.widest, 64)] {
        if !bytes.is_power_of_two() || !(4..=most).contains(&bytes) {
            let help = format!("a power of two from 4 to {}", compact(most));
            return Err(at.flaw(key, format!("`{key}` of {bytes} bytes"), help));
        }
    }
    let behind = device.coherence == Coherence::None;
    if behind != device.maintenance.is_some() {
        let message = "`maintenance` goes with coherence = \"none\", and with nothing else";
        return Err(at.flaw("coherence", message, "maintenance = \"map-and-unmap\", or leave it out"));
    }
    if behind && d.core.maintain.is_none() {
        let message = "buffers that are maintained, and no word on what a line costs";
        return Err(at.flaw("maintenance", message, "for example: maintain = \"10 cycles\" in [core]"));
    }
    if device.coherence == Coherence::Stashed && d.levels.is_empty() {
        return Err(at.flaw("coherence", "stashed where there is no level", "coherence = \"snooped\""));
    }
    Ok(())
}

impl Device {
    pub(super) fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n[dma]")?;
        writeln!(f, "rate = \"{}\"", show_rate(self.rate))?;
        writeln!(f, "burst = \"{}\"", compact(self.burst))?;
        writeln!(f, "setup = \"{}\"", self.setup)?;
        writeln!(f, "interrupt = \"{}\"", self.interrupt)?;
        writeln!(f, "coherence = \"{}\"", self.coherence.word())?;
        if let Some(maintenance) = self.maintenance {
            writeln!(f, "maintenance = \"{}\"", maintenance.token())?;
        }
        writeln!(f, "map = \"{}\"", self.map)?;
        writeln!(f, "write_back = \"{}\"", self.write_back)?;
        writeln!(f, "widest = \"{}\"", compact(self.widest))?;
        if let Some(stream) = self.stream {
            writeln!(f, "stream = \"{stream}\"")?;
        }
        Ok(())
    }
}
