//! `[dma]`: a DMA device, and the kernel's cache maintenance for it.

use fathom_probe::machine::dma::Maintenance;
use fathom_units::compact;

use super::place::{At, Check};
use super::show::Shown;
use super::source::Result;
use super::table::Table;
use super::units::{self, show_rate};
use super::{Description, Time};

words! {
    /// Coherence of a device's accesses with the CPUs' caches.
    Coherence {
        /// Not coherent: it accesses memory without the caches.
        None = "none",
        /// Coherent: it reads from the cache that has the newest data, and its writes invalidate all caches.
        Snooped = "snooped",
        /// Coherent, and its writes allocate in the last level.
        Stashed = "stashed",
    }
}

/// `[dma]`: a device and the fixed costs of its driver.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Bytes per second of its slowest part: link, bus or engine.
    pub rate: f64,
    /// Bytes per burst: a transfer is whole bursts, and the first has the latency of memory.
    pub burst: u64,
    /// CPU time to start a transfer.
    pub setup: Time,
    /// CPU time from the device's interrupt until the driver has detected the end of the transfer.
    pub interrupt: Time,
    /// Coherence with the caches.
    pub coherence: Coherence,
    /// The kernel's maintenance of its buffers; present if the device is not coherent.
    pub maintenance: Option<Maintenance>,
    /// Fixed cost of mapping, unmapping or synchronising a buffer, in addition to its lines.
    pub map: Time,
    /// Additional cost of a line that is written back when it is cleaned.
    pub write_back: Time,
    /// Widest load of a copy from uncached memory, bytes.
    pub widest: u64,
    /// Maximum cost of a line in a sequential pass over a packet or buffer; if absent, the cost of any load.
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
        let message = format!("`rate` = {} is out of range", show_rate(device.rate));
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
    for (key, bytes, max) in [("burst", device.burst, 4096), ("widest", device.widest, 64)] {
        if !bytes.is_power_of_two() || !(4..=max).contains(&bytes) {
            let help = format!("a power of two from 4 to {}", compact(max));
            return Err(at.flaw(key, format!("`{key}` of {bytes} bytes"), help));
        }
    }
    let non_coherent = device.coherence == Coherence::None;
    if non_coherent != device.maintenance.is_some() {
        let message = "`maintenance` is required with coherence = \"none\", and not allowed otherwise";
        return Err(at.flaw("coherence", message, "maintenance = \"map-and-unmap\", or remove it"));
    }
    if non_coherent && d.core.maintain.is_none() {
        let message = "buffers need cache maintenance, but its cost per line is missing";
        return Err(at.flaw("maintenance", message, "for example: maintain = \"10 cycles\" in [core]"));
    }
    if device.coherence == Coherence::Stashed && d.levels.is_empty() {
        return Err(at.flaw("coherence", "stashing needs a cache level", "coherence = \"snooped\""));
    }
    Ok(())
}

impl Device {
    pub(super) fn show(&self, t: &mut Shown) {
        t.quoted("rate", show_rate(self.rate));
        t.quoted("burst", compact(self.burst));
        t.quoted("setup", self.setup);
        t.quoted("interrupt", self.interrupt);
        t.quoted("coherence", self.coherence.word());
        if let Some(maintenance) = self.maintenance {
            t.quoted("maintenance", maintenance.token());
        }
        t.quoted("map", self.map);
        t.quoted("write_back", self.write_back);
        t.quoted("widest", compact(self.widest));
        if let Some(stream) = self.stream {
            t.quoted("stream", stream);
        }
    }
}
