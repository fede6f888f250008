//! Transfers by the driver: what each part of one costs, by strategy, and what an allocation costs.

use fathom_probe::machine::{Attribute, Refusal};

use super::{Driver, attribute_of, refused, uapi};

/// How data gets to a device and back. The packet is the CPU's own cached memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Strategy {
    /// Copied to a fixed cached buffer that is mapped for each transfer.
    StreamingCopy = uapi::STREAMING_COPY as u32,
    /// Copied through a write-combining buffer.
    UncachedCopy = uapi::UNCACHED_COPY as u32,
    /// The packet itself is mapped.
    Streaming = uapi::STREAMING as u32,
    /// Copied through a cached buffer that is mapped once, with sync.
    PersistentCopy = uapi::PERSISTENT_COPY as u32,
    /// The packet lies in coherent memory.
    Coherent = uapi::COHERENT as u32,
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Direction {
    ToDevice = uapi::TO_DEVICE as u32,
    FromDevice = uapi::FROM_DEVICE as u32,
}

/// What moves the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Engine {
    /// Nothing: maintenance and copies only, for the driver's own device.
    None = uapi::ENGINE_NONE as u32,
    /// QEMU's edu device.
    Edu = uapi::ENGINE_EDU as u32,
    /// A memcpy channel of the kernel's dmaengine.
    Dmaengine = uapi::ENGINE_DMAENGINE as u32,
}

impl Engine {
    /// Words by the header's numbers.
    pub(crate) const TOKENS: [&str; uapi::ENGINES as usize] = ["none", "edu", "dmaengine"];
}

/// Transfers that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfers {
    pub(crate) strategy: Strategy,
    pub(crate) direction: Direction,
    pub(crate) engine: Engine,
    /// Bytes of one.
    pub(crate) bytes: u64,
    /// How many.
    pub(crate) count: u64,
    /// Seed of the data.
    pub(crate) seed: u64,
}

/// One transfer, in ticks of the run's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    /// The CPU writes (to the device) or reads (from it) every word of the packet.
    pub(crate) r#use: u64,
    /// Between packet and buffer.
    pub(crate) copy: u64,
    /// Before the engine: mapping, or sync for the device.
    pub(crate) map: u64,
    /// The engine's time, from command to interrupt handled.
    pub(crate) engine: u64,
    /// After it: unmapping, or sync for the CPU.
    pub(crate) unmap: u64,
    /// Bytes at the far end that are not those that were sent.
    pub(crate) wrong: u64,
    /// Nothing moved, so nothing was compared.
    pub(crate) unproven: bool,
    /// It began and ended on two CPUs.
    pub(crate) migrated: bool,
}

/// The clock of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// `CLOCK_MONOTONIC`, ns.
    Ns,
    /// The time stamp counter.
    Tsc,
    /// The generic timer's virtual count.
    CntVct,
    /// The PMU's cycle counter, which this opening was granted: its rate is the core's.
    Cycles,
}

/// What a run yielded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The transfers, in order; fewer than wanted where a signal came.
    pub(crate) rows: Vec<Transfer>,
    pub(crate) clock: Clock,
    /// Its rate, Hz, where the kernel knows one: not of a core's cycles.
    pub(crate) hz: Option<u64>,
    /// The CPU's caches see what the device does.
    pub(crate) coherent: bool,
    /// Transfers of the engine that one row is made of: above 1 there is no throughput in it.
    pub(crate) chunks: u64,
    /// Wrong bytes of all rows.
    pub(crate) wrong: u64,
    /// What the buffer is mapped as in the kernel, where that has a word.
    pub(crate) attribute: Option<Attribute>,
    /// PAR_EL1 or the page table's entry of that; 0 where nobody knows.
    pub(crate) raw: u64,
    /// The buffer lies in memory that the kernel maps nowhere else.
    pub(crate) reserved: bool,
}

/// What is known of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The CPU's caches see what its device does.
    pub(crate) coherent: bool,
    /// The most that one transfer moves, bytes; 0 where nothing moves, or there is no limit.
    pub(crate) chunk_bytes: u64,
    /// What a run's bytes must be a multiple of.
    pub(crate) align_bytes: u64,
    /// The device's name, and its driver's.
    pub(crate) device: String,
    pub(crate) driver: String,
}

/// Kinds of buffers that the DMA API allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    Coherent = uapi::ALLOC_COHERENT as u32,
    WriteCombine = uapi::ALLOC_WRITE_COMBINE as u32,
    Noncoherent = uapi::ALLOC_NONCOHERENT as u32,
}

/// What allocations took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allocated {
    /// Getting and giving back, ticks, each.
    pub(crate) rows: Vec<(u64, u64)>,
    pub(crate) clock: Clock,
    /// As of a [`Run`].
    pub(crate) hz: Option<u64>,
    pub(crate) attribute: Option<Attribute>,
    pub(crate) raw: u64,
}

/// `bytes` and `count`, if the driver takes so many.
fn bounded(bytes: u64, count: u64) -> Result<u32, Refusal> {
    let (most, often) = (uapi::DMA_MOST_BYTES, uapi::DMA_MOST_COUNT);
    if !(1..=most).contains(&bytes) || !(1..=often).contains(&count) {
        let reason = format!("the driver makes no {count} transfers of {bytes} bytes");
        return Err(Refusal::new(reason, format!("ask for 1 to {often} of 1 to {most} bytes")));
    }
    Ok(count as u32)
}

impl Driver {
    /// Makes transfers and times their parts.
    ///
    /// # Errors
    /// A [`Refusal`] where there are too many, or the engine is not there.
    pub(crate) fn dma_run(&self, wanted: &Transfers) -> Result<Run, Refusal> {
        let count = bounded(wanted.bytes, wanted.count)?;
        if wanted.bytes * wanted.count > uapi::DMA_MOST_TOTAL {
            let reason = format!("the driver makes no {count} transfers of {} bytes at once", wanted.bytes);
            return Err(Refusal::new(reason, format!("ask for {} bytes at most", uapi::DMA_MOST_TOTAL)));
        }
        let mut samples = vec![uapi::DmaSample::default(); count as usize];
        let mut run = uapi::DmaRun {
            strategy: wanted.strategy as u32,
            direction: wanted.direction as u32,
            engine: wanted.engine as u32,
            count,
            bytes: wanted.bytes,
            seed: wanted.seed,
            // The driver writes `count` structures there, which is as many as there are, before the call returns.
            samples: samples.as_mut_ptr().expose_provenance() as u64,
            ..uapi::DmaRun::default()
        };
        self.call(uapi::IOC_DMA_RUN, &mut run).map_err(|error| refused("transfers", &error))?;
        let clock = clock(run.clock)?;
        samples.truncate(run.done as usize);
        Ok(Run {
            rows: samples.iter().map(transfer).collect(),
            clock,
            hz: self.rate(clock),
            coherent: run.coherent != 0,
            chunks: run.chunks.into(),
            wrong: run.wrong,
            attribute: attribute_of(run.attribute),
            raw: run.raw,
            reserved: u64::from(run.flags) & uapi::RUN_RESERVED != 0,
        })
    }

    /// What is known of an engine.
    ///
    /// # Errors
    /// A [`Refusal`] where it is not there, or the driver is one of before it could tell.
    pub(crate) fn engine(&self, engine: Engine) -> Result<Known, Refusal> {
        let mut told = uapi::EngineOf { engine: engine as u32, ..uapi::EngineOf::default() };
        self.call(uapi::IOC_ENGINE, &mut told)
            .map_err(|error| refused("what is known of an engine", &error))?;
        Ok(Known {
            coherent: told.coherent != 0,
            chunk_bytes: told.chunk_bytes.into(),
            align_bytes: told.align_bytes.into(),
            device: words(&told.device),
            driver: words(&told.driver),
        })
    }

    /// Allocates buffers and gives them back.
    ///
    /// # Errors
    /// As of [`Driver::dma_run`].
    pub(crate) fn dma_alloc(
        &self,
        kind: Kind,
        engine: Engine,
        bytes: u64,
        count: u64,
    ) -> Result<Allocated, Refusal> {
        let count = bounded(bytes, count)?;
        let mut samples = vec![uapi::AllocSample::default(); count as usize];
        let mut alloc = uapi::DmaAlloc {
            kind: kind as u32,
            engine: engine as u32,
            bytes,
            count,
            // As above.
            samples: samples.as_mut_ptr().expose_provenance() as u64,
            ..uapi::DmaAlloc::default()
        };
        self.call(uapi::IOC_DMA_ALLOC, &mut alloc).map_err(|error| refused("allocations", &error))?;
        let clock = clock(alloc.clock)?;
        samples.truncate(alloc.done as usize);
        Ok(Allocated {
            rows: samples.iter().map(|sample| (sample.alloc, sample.free)).collect(),
            clock,
            hz: self.rate(clock),
            attribute: attribute_of(alloc.attribute),
            raw: alloc.raw,
        })
    }

    /// The rate of a clock of the kernel's, Hz.
    fn rate(&self, of: Clock) -> Option<u64> {
        match of {
            Clock::Ns => Some(1_000_000_000),
            // A rate that nobody knows is 0.
            _ if clock(self.info.clock).is_ok_and(|own| own == of) => {
                Some(self.info.clock_hz).filter(|&hz| hz > 0)
            }
            _ => None,
        }
    }
}

/// A name that a 0 ends.
fn words(name: &[u8]) -> String {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

fn clock(number: u32) -> Result<Clock, Refusal> {
    match u64::from(number) {
        uapi::CLOCK_NS => Ok(Clock::Ns),
        uapi::CLOCK_TSC => Ok(Clock::Tsc),
        uapi::CLOCK_CNTVCT => Ok(Clock::CntVct),
        uapi::CLOCK_CYCLES => Ok(Clock::Cycles),
        other => {
            let reason = format!("the driver's clock {other} is not known to this version");
            Err(Refusal::new(reason, "take the Fathom that the driver is of"))
        }
    }
}

fn transfer(sample: &uapi::DmaSample) -> Transfer {
    let flag = |bit| u64::from(sample.flags) & bit != 0;
    Transfer {
        r#use: sample.r#use,
        copy: sample.copy,
        map: sample.map,
        engine: sample.engine,
        unmap: sample.unmap,
        wrong: sample.wrong.into(),
        unproven: flag(uapi::SAMPLE_UNPROVEN),
        migrated: flag(uapi::SAMPLE_MIGRATED),
    }
}
