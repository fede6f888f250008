//! Transfers by the driver: what each part of one costs, by strategy.

use fathom_probe::machine::Refusal;
use fathom_probe::machine::dma::{Batch, Channel, Direction, Engine, Strategy, TransferTimes, Transfers};
use fathom_probe::splitmix::mix;

use super::{Driver, attribute_of, refused, uapi};

/// Words by the header's numbers.
pub(super) const ENGINES: [&str; uapi::ENGINES as usize] = ["none", "edu", "dmaengine"];

/// The header's number of a strategy.
fn strategy(of: Strategy) -> u64 {
    match of {
        Strategy::StreamingCopy => uapi::STREAMING_COPY,
        Strategy::UncachedCopy => uapi::UNCACHED_COPY,
        Strategy::ZeroCopy => uapi::ZERO_COPY,
        Strategy::PersistentCopy => uapi::PERSISTENT_COPY,
        Strategy::Coherent => uapi::COHERENT,
    }
}

/// Of a direction.
fn direction(of: Direction) -> u64 {
    match of {
        Direction::ToDevice => uapi::TO_DEVICE,
        Direction::FromDevice => uapi::FROM_DEVICE,
    }
}

/// Of an engine; the one of descriptions has none.
fn engine(of: Engine) -> Option<u64> {
    match of {
        Engine::Nothing => Some(uapi::ENGINE_NONE),
        Engine::Edu => Some(uapi::ENGINE_EDU),
        Engine::Dmaengine => Some(uapi::ENGINE_DMAENGINE),
        Engine::Described => None,
    }
}

/// The batch's transfers, if the driver takes so many at once.
fn bounded(batch: &Batch) -> Result<u32, Refusal> {
    let (bytes, count) = (batch.bytes, batch.count);
    let (most, often) = (uapi::DMA_MAX_BYTES, uapi::DMA_MAX_COUNT);
    if !(1..=most).contains(&bytes) || !(1..=often).contains(&count) || bytes * count > uapi::DMA_MAX_TOTAL {
        let reason = format!("the driver makes no {count} transfers of {bytes} bytes at once");
        let remedy =
            format!("ask for 1 to {often} of 1 to {most} bytes, {} bytes in all", uapi::DMA_MAX_TOTAL);
        return Err(Refusal::new(reason, remedy));
    }
    Ok(count as u32)
}

impl Driver {
    /// Makes transfers and times their parts.
    ///
    /// # Errors
    /// A [`Refusal`] where there are too many at once, or engine or memory are not there.
    pub(crate) fn transfers(
        &self,
        requested: &Transfers,
        batch: &Batch,
    ) -> Result<(Channel, Vec<TransferTimes>), Refusal> {
        let count = bounded(batch)?;
        let by = match requested.engine {
            Some(engine) => engine,
            None => self.best_engine().map_err(|error| refused("what engines there are", &error))?,
        };
        let number = engine(by).ok_or_else(|| {
            let reason = format!("the driver has no engine that is {}", by.token());
            Refusal::new(reason, "ask for --engine none, edu or dmaengine")
        })?;
        let mut samples = vec![uapi::DmaSample::default(); count as usize];
        let mut run = uapi::DmaRun {
            strategy: strategy(requested.strategy) as u32,
            direction: direction(requested.direction) as u32,
            engine: number as u32,
            count,
            bytes: batch.bytes,
            seed: mix(batch.seed ^ mix(batch.first)),
            // The driver writes `count` structures there, which is as many as there are, before the call returns.
            samples: samples.as_mut_ptr().expose_provenance() as u64,
            ..uapi::DmaRun::default()
        };
        self.call(uapi::IOC_DMA_RUN, &mut run)
            .map_err(|error| self.not_made(requested, batch, by, &error))?;
        samples.truncate(run.done as usize);
        let channel = Channel {
            hz: self.rate(run.clock)?,
            cycles: u64::from(run.clock) == uapi::CLOCK_CYCLES,
            engine: by,
            coherent: run.coherent != 0,
            chunks: u64::from(run.chunks).max(1),
            attribute: attribute_of(run.attribute),
            maintenance: None,
            substitute: false,
        };
        Ok((channel, samples.iter().map(transferred).collect()))
    }

    /// The engine that is worth most: one whose time is a device's, one that at least moves data, none.
    fn best_engine(&self) -> std::io::Result<Engine> {
        // A channel that was not there is looked for again when it is asked about.
        let there = self.ask()?.engines;
        let best = [Engine::Dmaengine, Engine::Edu].into_iter();
        Ok(best
            .into_iter()
            .find(|by| engine(*by).is_some_and(|number| there >> number & 1 == 1))
            .unwrap_or(Engine::Nothing))
    }

    /// Why transfers were not made.
    fn not_made(&self, requested: &Transfers, batch: &Batch, by: Engine, error: &std::io::Error) -> Refusal {
        let mut reported =
            uapi::EngineOf { engine: engine(by).unwrap_or(0) as u32, ..uapi::EngineOf::default() };
        let unsupported = error.raw_os_error() == Some(libc::EOPNOTSUPP);
        if !unsupported || self.call(uapi::IOC_ENGINE, &mut reported).is_err() {
            return refused("transfers", error);
        }
        let align = u64::from(reported.align_bytes).max(1);
        if !batch.bytes.is_multiple_of(align) {
            let reason = format!("its channel moves multiples of {align} bytes, and not {}", batch.bytes);
            return Refusal::new(reason, format!("ask for --bytes that are multiples of {align}"));
        }
        if requested.strategy == Strategy::UncachedCopy && reported.coherent != 0 {
            return Refusal::new(
                "for a device that caches see, the kernel hands out cached memory whatever it is asked for, and there is \
                 none beside",
                "reserve some in the devicetree: see driver/README.md",
            );
        }
        refused("transfers", error)
    }

    /// The rate of a clock of the kernel's, Hz; 0 where nobody knows, as of a core's cycles.
    fn rate(&self, clock: u32) -> Result<u64, Refusal> {
        match u64::from(clock) {
            uapi::CLOCK_NS => Ok(1_000_000_000),
            uapi::CLOCK_CYCLES => Ok(0),
            uapi::CLOCK_TSC | uapi::CLOCK_CNTVCT if clock == self.info.clock => Ok(self.info.clock_hz),
            uapi::CLOCK_TSC | uapi::CLOCK_CNTVCT => Ok(0),
            other => {
                let reason = format!("the driver's clock {other} is not known to this version");
                Err(Refusal::new(reason, "take the Fathom that the driver is of"))
            }
        }
    }
}

fn transferred(sample: &uapi::DmaSample) -> TransferTimes {
    let flag = |bit| u64::from(sample.flags) & bit != 0;
    TransferTimes {
        used: sample.r#use,
        copy: sample.copy,
        map: sample.map,
        engine: sample.engine,
        unmap: sample.unmap,
        wrong: sample.wrong.into(),
        unproven: flag(uapi::SAMPLE_UNPROVEN),
        migrated: flag(uapi::SAMPLE_MIGRATED),
        ..TransferTimes::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_a_device_has_a_number_of_its_own() {
        let distinct = |mut all: Vec<u64>, most: u64| {
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), count);
            assert!(all.iter().all(|number| *number < most));
        };
        distinct(Strategy::ALL.iter().map(|s| strategy(*s)).collect(), uapi::STRATEGIES);
        distinct(Direction::ALL.iter().map(|d| direction(*d)).collect(), 2);
        distinct(Engine::ALL.iter().filter_map(|e| engine(*e)).collect(), uapi::ENGINES);
        for (by, word) in Engine::ALL.iter().filter_map(|e| Some((engine(*e)?, e.token()))) {
            assert_eq!(ENGINES[by as usize], word);
        }
    }
}
