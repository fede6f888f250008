//! Interface of `/dev/fathom`: the mirror of `driver/include/uapi/fathom.h`, which documents it.
//!
//! It contains all of the header and nothing else, with each name as there but without `FATHOM_`. A test compares the
//! two in both directions: sizes, offsets and numbers.

use std::mem::{offset_of, size_of};

/// A constant of the header and its value.
pub(super) type Constant = (&'static str, u64);

/// A structure of the header, its size, and the name, offset and size of each field.
pub(super) type Layout = (&'static str, usize, &'static [(&'static str, usize, usize)]);

/// A structure of the header: integers without padding, so that any bytes are a valid value.
pub(crate) trait RawStruct: Copy + Default {}

macro_rules! mirror {
    (
        constants { $($constant:ident = $value:expr;)* }
        $(struct $name:ident = $c:literal { $($field:ident: $kind:ty,)* })*
        ioctls { $($request:ident = $direction:ident($number:literal $(, $of:ident)?);)* }
    ) => {
        $(
            #[allow(dead_code, reason = "the whole interface is mirrored, and not every part is used on each machine")]
            pub(crate) const $constant: u64 = $value;
        )*
        $(
            #[doc = concat!("`struct ", $c, "`.")]
            #[repr(C)]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub(crate) struct $name { $(pub(crate) $field: $kind,)* }

            impl RawStruct for $name {}
        )*
        $(
            #[allow(dead_code, reason = "as for the constants")]
            pub(crate) const $request: u64 = $direction($number $(, size_of::<$of>())?);
        )*

        #[allow(dead_code, reason = "what a test compares with the header")]
        pub(super) const CONSTANTS: &[Constant] =
            &[$((stringify!($constant), $constant),)* $((stringify!($request), $request),)*];
        #[allow(dead_code, reason = "what a test compares with the header")]
        pub(super) const LAYOUTS: &[Layout] = &[$((
            $c,
            size_of::<$name>(),
            &[$((stringify!($field), offset_of!($name, $field), size_of::<$kind>()),)*],
        ),)*];
    };
}

/// `_IOC` of include/uapi/asm-generic/ioctl.h, which x86 and arm64 use: direction, size, type, number.
const fn ioc(direction: u64, number: u64, size: usize) -> u64 {
    direction << 30 | (size as u64) << 16 | IOC_MAGIC << 8 | number
}

/// `_IO`.
const fn none(number: u64) -> u64 {
    ioc(0, number, 0)
}

/// `_IOW`: the driver reads the structure.
const fn written(number: u64, size: usize) -> u64 {
    ioc(1, number, size)
}

/// `_IOR`: the driver writes the structure.
const fn read(number: u64, size: usize) -> u64 {
    ioc(2, number, size)
}

/// `_IOWR`: the driver reads and writes the structure.
const fn both(number: u64, size: usize) -> u64 {
    ioc(3, number, size)
}

mirror! {
    constants {
        VERSION = 3;
        WRITE_BACK = 0;
        WRITE_THROUGH = 1;
        NORMAL_NC = 2;
        DEVICE = 3;
        ATTRIBUTES = 4;
        OTHER_ATTRIBUTE = 255;
        CLOCK_NS = 0;
        CLOCK_TSC = 1;
        CLOCK_CNTVCT = 2;
        CLOCK_CYCLES = 3;
        ENGINE_NONE = 0;
        ENGINE_EDU = 1;
        ENGINE_DMAENGINE = 2;
        ENGINES = 3;
        HAS_REGIONS = 1 << 0;
        HAS_DMA = 1 << 1;
        HAS_COUNTERS = 1 << 2;
        HAS_WAKES = 1 << 3;
        HAS_CACHE_ID = 1 << 4;
        HAS_TRANSLATE = 1 << 5;
        HAS_RESERVED = 1 << 6;
        HAS_EVENTS = 1 << 7;
        REGION_MAX_BYTES = 64 << 20;
        REGIONS_MOST = 256;
        COLOURS_MOST = 256;
        REGION_RESERVED = 1 << 0;
        STREAMING_COPY = 0;
        UNCACHED_COPY = 1;
        ZERO_COPY = 2;
        PERSISTENT_COPY = 3;
        COHERENT = 4;
        STRATEGIES = 5;
        TO_DEVICE = 0;
        FROM_DEVICE = 1;
        DMA_MAX_BYTES = 1 << 20;
        DMA_MAX_COUNT = 4096;
        DMA_MAX_TOTAL = 64 << 20;
        SAMPLE_UNVERIFIED = 1 << 0;
        SAMPLE_MIGRATED = 1 << 1;
        RUN_RESERVED = 1 << 0;
        ALLOC_COHERENT = 0;
        ALLOC_WRITE_COMBINE = 1;
        ALLOC_NONCOHERENT = 2;
        ALLOCS = 3;
        SCOPE_TASK = 1;
        SCOPE_CPU = 2;
        EVENTS_MOST = 8;
        EVENT_USER = 1 << 0;
        COUNTER_V7_CYCLES = 1;
        COUNTER_V7_EVENTS = 2;
        COUNTER_ARM1176 = 3;
        CACHES_MOST = 14;
        POLICY_NORMAL = 0;
        POLICY_FIFO_LOW = 1;
        POLICY_FIFO = 2;
        POLICIES = 3;
        WAKE_MIN_NS = 50_000;
        WAKE_MAX_NS = 1_000_000_000;
        WAKE_MAX_ROWS = 1_000_000;
        WAKES_ENDED = 1;
        WAKES_MOVED = 2;
        WAKES_MOST = 4;
        IOC_MAGIC = 0xf7;
    }
    struct Info = "fathom_info" {
        version: u32,
        features: u32,
        attributes: u32,
        engines: u32,
        page_bytes: u32,
        clock: u32,
        clock_hz: u64,
        limit_bytes: u64,
        used_bytes: u64,
        openings: u32,
        regions: u32,
        wakes: u32,
        coherent: u32,
        engine_bytes: u64,
    }
    struct Region = "fathom_region" {
        bytes: u64,
        attribute: u32,
        flags: u32,
        colour: u32,
        colours: u32,
        handle: u32,
        reserved: u32,
        offset: u64,
        pa: u64,
    }
    struct Handle = "fathom_handle" {
        handle: u32,
        reserved: u32,
    }
    struct Translate = "fathom_translate" {
        va: u64,
        pa: u64,
        raw: u64,
        raw_types: u64,
        attribute: u32,
        reserved: u32,
    }
    struct DmaSample = "fathom_dma_sample" {
        r#use: u64,
        copy: u64,
        map: u64,
        engine: u64,
        unmap: u64,
        wrong: u32,
        flags: u32,
    }
    struct DmaRun = "fathom_dma_run" {
        strategy: u32,
        direction: u32,
        engine: u32,
        count: u32,
        bytes: u64,
        seed: u64,
        samples: u64,
        done: u32,
        clock: u32,
        coherent: u32,
        chunks: u32,
        wrong: u64,
        raw: u64,
        attribute: u32,
        flags: u32,
    }
    struct EngineOf = "fathom_engine" {
        engine: u32,
        coherent: u32,
        chunk_bytes: u32,
        align_bytes: u32,
        device: [u8; 32],
        driver: [u8; 32],
    }
    struct AllocSample = "fathom_alloc_sample" {
        alloc: u64,
        free: u64,
    }
    struct DmaAlloc = "fathom_dma_alloc" {
        kind: u32,
        engine: u32,
        bytes: u64,
        count: u32,
        done: u32,
        samples: u64,
        raw: u64,
        clock: u32,
        attribute: u32,
    }
    struct Counters = "fathom_counters" {
        cpu: u32,
        scope: u32,
        in_force: u32,
        reserved: u32,
    }
    struct Event = "fathom_event" {
        r#type: u32,
        flags: u32,
        config: u64,
    }
    struct Events = "fathom_events" {
        count: u32,
        cpu: u32,
        event: [Event; EVENTS_MOST as usize],
        offset: u64,
        bytes: u64,
    }
    struct Counted = "fathom_counted" {
        kind: u32,
        number: u32,
        count: u64,
        others: u64,
        previous: u32,
        reserved: u32,
    }
    struct EventsPage = "fathom_events_page" {
        version: u32,
        sequence: u32,
        allowed: u32,
        disturbed: u32,
        count: u32,
        reserved: u32,
        event: [Counted; EVENTS_MOST as usize],
    }
    struct CacheId = "fathom_cache_id" {
        cpu: u32,
        count: u32,
        ctr: u64,
        clidr: u64,
        ccsidr: [u64; CACHES_MOST as usize],
    }
    struct WakeStart = "fathom_wake_start" {
        period_ns: u64,
        cpu: u32,
        policy: u32,
        rows: u32,
        reserved: u32,
        offset: u64,
        bytes: u64,
    }
    struct Wake = "fathom_wake" {
        expires: u64,
        irq: u64,
        task: u64,
    }
    struct Wakes = "fathom_wakes" {
        version: u32,
        rows: u32,
        written: u32,
        ended: u32,
        missed: u64,
        reserved: u64,
        row: [Wake; 0],
    }
    ioctls {
        IOC_INFO = read(0, Info);
        IOC_REGION = both(1, Region);
        IOC_REGION_FREE = written(2, Handle);
        IOC_TRANSLATE = both(3, Translate);
        IOC_DMA_RUN = both(4, DmaRun);
        IOC_DMA_ALLOC = both(5, DmaAlloc);
        IOC_COUNTERS_ON = both(6, Counters);
        IOC_COUNTERS_STATE = both(7, Counters);
        IOC_COUNTERS_OFF = none(8);
        IOC_CACHE_ID = read(9, CacheId);
        IOC_WAKE_START = both(10, WakeStart);
        IOC_WAKE_STOP = none(11);
        IOC_ENGINE = both(12, EngineOf);
        IOC_EVENTS_ON = both(13, Events);
    }
}

#[cfg(test)]
mod tests;
