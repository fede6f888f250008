//! Transfers between a CPU and a device: what is asked for, and what came of each.
//!
//! A *packet* is the CPU's own memory, which it writes and reads as any other. A *buffer* is where the device reads or
//! writes. A strategy says which memory each is, and what is done between the two so that the other side sees it.

use core::ops::RangeInclusive;

use super::Attribute;
use crate::tokens::token_names;

/// How data get from the CPU's packet to the device, or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Through one cached buffer that is mapped before each transfer and unmapped after it, with a copy between it and
    /// the packet: the cached variant of study S2.
    #[default]
    StreamingCopy,
    /// Through one buffer of normal non-cacheable memory that is mapped forever, with a copy: the study's other variant.
    UncachedCopy,
    /// The packet itself is mapped and unmapped, and nothing is copied.
    ZeroCopy,
    /// Through one cached buffer that stays mapped and is synchronised for each transfer, with a copy.
    PersistentCopy,
    /// The packet lies in memory that CPU and device see alike, and is used in place.
    Coherent,
}

/// Which way data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Direction {
    /// From memory to the device: it transmits.
    #[default]
    ToDevice,
    /// From the device to memory: it receives.
    FromDevice,
}

/// What moves the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Nothing: there is maintenance and copying only.
    Nothing,
    /// QEMU's edu device.
    Edu,
    /// A memory-to-memory channel of the kernel's dmaengine.
    Dmaengine,
    /// The device of a description.
    Described,
}

/// Who is reported when of a buffer that is given to the device and comes back: kernels differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maintenance {
    /// All when it is mapped: cleaned for the device, invalidated for what comes from it. 32-bit ARM before Linux
    /// 2.6.34.
    Map,
    /// The same, and what came from the device is invalidated once more when it is unmapped, because a core may
    /// have read ahead meanwhile. 32-bit ARM since.
    MapAndUnmap,
    /// Cleaned when it is mapped, whatever the direction; what came from the device is invalidated when it is
    /// unmapped. arm64 since Linux 5.19.
    CleanAndUnmap,
    /// Every line of every cache, cleaned and invalidated when it is mapped and once more when it is unmapped.
    WholeCache,
}

/// A mistake of a driver's, made on purpose: to see what it does to the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// No maintenance at all.
    Nothing,
    /// What is due when the buffer is given back by the device is left out.
    NoUnmap,
    /// Mapped as if data came from the device, whichever way they go: as in the published transmit path of study S2.
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
token_names!(Mistake { Nothing = "no-maintenance", NoUnmap = "no-unmap", AsFromDevice = "as-from-device" });

impl Strategy {
    /// Is there a copy between packet and buffer?
    #[must_use]
    pub fn copies(self) -> bool {
        !matches!(self, Strategy::ZeroCopy | Strategy::Coherent)
    }

    /// Is the device's memory given to it and taken back for each transfer?
    #[must_use]
    pub fn maintains(self) -> bool {
        !matches!(self, Strategy::UncachedCopy | Strategy::Coherent)
    }
}

/// What is asked of transfers beside their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Transfers {
    /// How.
    pub strategy: Strategy,
    /// Which way.
    pub direction: Direction,
    /// By what; `None` for the first that the machine has.
    pub engine: Option<Engine>,
    /// The kernel's way with buffers; `None` for the machine's own. Only a model can have another.
    pub maintenance: Option<Maintenance>,
    /// What is done wrong, on a model.
    pub mistake: Option<Mistake>,
    /// Bytes of the working set that is walked before and after each transfer, to see what it lost; 0 for none.
    pub victim: u64,
}

/// Some transfers of one trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Bytes of each.
    pub bytes: u64,
    /// Seed of the data.
    pub seed: u64,
    /// Number of the first of them in its trial, from 0: with the seed it says what is moved.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// What moved the data of a trial, and how it is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Ticks a second of the clock that rows are counted in; 0 where nobody knows.
    pub hz: u64,
    /// Does it count cycles of the core?
    pub cycles: bool,
    /// What moved them.
    pub engine: Engine,
    /// Do the CPU's caches see what the device does?
    pub coherent: bool,
    /// Transfers of the engine's that one of the trial's was cut into.
    pub chunks: u64,
    /// The attribute of the device's memory as the tables have it, where that is known.
    pub attribute: Option<Attribute>,
    /// How buffers were maintained, where that is known.
    pub maintenance: Option<Maintenance>,
    /// Was each line flushed from user space instead of the kernel's maintenance?
    pub substitute: bool,
}

/// One transfer, in ticks of its channel's clock; `before` and `after` in those of the machine's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TransferTimes {
    /// The CPU writes every word of the packet, or reads it.
    pub used: u64,
    /// Copying between packet and buffer.
    pub copy: u64,
    /// What is done before the device may have the buffer.
    pub map: u64,
    /// From the engine's start to its interrupt handled, all chunks, `setup` included.
    pub engine: u64,
    /// Of that the CPU's own time: to start the engine, and to take its interrupt; 0 where it is not known apart.
    pub setup: u64,
    /// What is done before the CPU may have the buffer back.
    pub unmap: u64,
    /// A walk of the victim's working set before the transfer.
    pub before: u64,
    /// The same walk after it.
    pub after: u64,
    /// Cell on which that walk ended.
    pub end: u64,
    /// Bytes at the far end that are not those that were sent.
    pub wrong: u64,
    /// Nothing moved, so nothing was compared.
    pub unproven: bool,
    /// It began and ended on two CPUs.
    pub migrated: bool,
}

/// Least and most bytes of a transfer: `FATHOM_DMA_MAX_BYTES` of `driver/include/uapi/fathom.h`.
pub const BYTES: RangeInclusive<u64> = 8..=1 << 20;
/// Bytes of a victim's working set, where there is one. Of fewer lines the walks of some transfers would end where they
/// began, and prove nothing.
pub const VICTIM: RangeInclusive<u64> = 4096..=1 << 30;
