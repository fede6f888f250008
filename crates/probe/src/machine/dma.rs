//! Transfers between a CPU and a device: their parameters and their times.
//!
//! A *packet* is ordinary memory that the CPU writes and reads. A *buffer* is memory that the device reads or writes. A
//! strategy states which memory each is, and how data are copied and caches maintained between the two.

use core::ops::RangeInclusive;

use super::Attribute;
use crate::tokens::token_names;

/// How data get from the CPU's packet to the device, or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Through one cached buffer that is mapped before each transfer and unmapped after it, with a copy between buffer
    /// and packet: the cached variant of study S2.
    #[default]
    StreamingCopy,
    /// Through one buffer of normal non-cacheable memory that stays mapped, with a copy: the study's other variant.
    UncachedCopy,
    /// The packet itself is mapped and unmapped, and nothing is copied.
    ZeroCopy,
    /// Through one cached buffer that stays mapped and is synchronised for each transfer, with a copy.
    PersistentCopy,
    /// The packet is in memory that is coherent between CPU and device, and is used in place.
    Coherent,
}

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Direction {
    /// From memory to the device: it transmits.
    #[default]
    ToDevice,
    /// From the device to memory: it receives.
    FromDevice,
}

/// The device that moves the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// No device: only maintenance and copying.
    Nothing,
    /// QEMU's edu device.
    Edu,
    /// A memory-to-memory channel of the kernel's dmaengine.
    Dmaengine,
    /// The device of a description.
    Described,
}

/// When caches are maintained for a buffer that is mapped for the device and unmapped again. Kernels differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maintenance {
    /// At map only: cleaned for the device, invalidated for data from the device. 32-bit ARM before Linux 2.6.34.
    Map,
    /// As `Map`, and data from the device are invalidated again at unmap, because a core may have prefetched lines
    /// during the transfer. 32-bit ARM since.
    MapAndUnmap,
    /// Cleaned at map, in either direction; data from the device are invalidated at unmap. arm64 since Linux 5.19.
    CleanAndUnmap,
    /// Every line of every cache is cleaned and invalidated at map and again at unmap.
    WholeCache,
}

/// A bug of a driver, reproduced to show its effect on the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverBug {
    /// No maintenance at all.
    Nothing,
    /// No maintenance at unmap.
    NoUnmap,
    /// Mapped as if data came from the device, in either direction: as in the published transmit path of study S2.
    AsFromDevice,
}

token_names!(Strategy {
    StreamingCopy = "streaming-copy",
    UncachedCopy = "uncached-copy",
    ZeroCopy = "zero-copy",
    PersistentCopy = "persistent-copy",
    Coherent = "coherent",
});
token_names!(Direction { ToDevice = "to-device", FromDevice = "from-device" });
token_names!(Engine { Nothing = "none", Edu = "edu", Dmaengine = "dmaengine", Described = "described" });
token_names!(Maintenance {
    Map = "map",
    MapAndUnmap = "map-and-unmap",
    CleanAndUnmap = "clean-and-unmap",
    WholeCache = "whole-cache",
});
token_names!(DriverBug { Nothing = "no-maintenance", NoUnmap = "no-unmap", AsFromDevice = "as-from-device" });

impl Strategy {
    /// Returns whether data are copied between packet and buffer.
    #[must_use]
    pub fn copies(self) -> bool {
        !matches!(self, Strategy::ZeroCopy | Strategy::Coherent)
    }

    /// Returns whether the buffer is mapped (or synchronised) for each transfer.
    #[must_use]
    pub fn maintains(self) -> bool {
        !matches!(self, Strategy::UncachedCopy | Strategy::Coherent)
    }
}

/// Parameters of transfers, other than their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Transfers {
    /// Strategy.
    pub strategy: Strategy,
    /// Direction.
    pub direction: Direction,
    /// Engine; `None` for the machine's first one.
    pub engine: Option<Engine>,
    /// Cache maintenance; `None` for the machine's. Only a model can have another.
    pub maintenance: Option<Maintenance>,
    /// Driver bug; on a model only.
    pub driver_bug: Option<DriverBug>,
    /// Bytes of the working set that is walked before and after each transfer, to measure what it lost; 0 for none.
    pub pollution_set: u64,
}

/// Consecutive transfers of one trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Bytes of each transfer.
    pub bytes: u64,
    /// Seed of the data.
    pub seed: u64,
    /// Number of the first transfer in its trial, from 0. Seed and number determine the data.
    pub first: u64,
    /// Number of transfers.
    pub count: u64,
}

/// The engine that moved the data of a trial, the clock of its times, and the buffer's properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Ticks per second of the clock of the rows; 0 if unknown.
    pub hz: u64,
    /// Whether that clock counts core cycles.
    pub cycles: bool,
    /// The engine that moved the data.
    pub engine: Engine,
    /// Whether the CPU's caches are coherent with the device.
    pub coherent: bool,
    /// Engine transfers per transfer of the trial.
    pub chunks: u64,
    /// The attribute of the device's memory in the page tables, if known.
    pub attribute: Option<Attribute>,
    /// How buffers were maintained, if known.
    pub maintenance: Option<Maintenance>,
    /// Whether each line was flushed from user space instead of the kernel's maintenance.
    pub substitute: bool,
}

/// Times of one transfer, in ticks of its channel's clock; `before` and `after` in ticks of the machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TransferTimes {
    /// Writing every word of the packet, or reading it, by the CPU.
    pub used: u64,
    /// Copying between packet and buffer.
    pub copy: u64,
    /// Maintenance before the device may use the buffer.
    pub map: u64,
    /// From the engine's start until its interrupt is handled, all chunks, `setup` included.
    pub engine: u64,
    /// CPU time of that: starting the engine and handling its interrupt; 0 if it is not known separately.
    pub setup: u64,
    /// Maintenance before the CPU may use the buffer again.
    pub unmap: u64,
    /// A walk of the pollution set before the transfer.
    pub before: u64,
    /// The same walk after it.
    pub after: u64,
    /// Cell on which that walk ended.
    pub end: u64,
    /// Bytes at the far end that differ from those sent.
    pub wrong: u64,
    /// Whether nothing was moved, so that nothing was compared.
    pub unverified: bool,
    /// Whether it began and ended on different CPUs.
    pub migrated: bool,
}

/// Minimum and maximum bytes of a transfer: `FATHOM_DMA_MAX_BYTES` of `driver/include/uapi/fathom.h`.
pub const BYTES: RangeInclusive<u64> = 8..=1 << 20;
/// Bytes of a pollution set, if requested. With fewer lines the walks of some transfers would end where they
/// began, and verify nothing.
pub const POLLUTION_SET: RangeInclusive<u64> = 4096..=1 << 30;
