//! Transfers by the driver: the time of each part, by strategy.

use fathom_probe::machine::Refusal;
use fathom_probe::machine::dma::{Batch, Channel, Direction, Engine, Strategy, TransferTimes, Transfers};
use fathom_probe::splitmix::mix;

use super::{Driver, attribute_of, refused, uapi};

/// Names of the engines by the header's numbers.
pub(super) const ENGINES: [&str; uapi::ENGINES as usize] = ["none", "edu", "dmaengine"];

/// Returns the header's number of a strategy.
fn strategy(of: Strategy) -> u64 {
    match of {
        Strategy::StreamingCopy => uapi::STREAMING_COPY,
        Strategy::UncachedCopy => uapi::UNCACHED_COPY,
        Strategy::ZeroCopy => uapi::ZERO_COPY,
        Strategy::PersistentCopy => uapi::PERSISTENT_COPY,
        Strategy::Coherent => uapi::COHERENT,
    }
}

/// Returns the header's number of a direction.
fn direction(of: Direction) -> u64 {
    match of {
        Direction::ToDevice => uapi::TO_DEVICE,
        Direction::FromDevice => uapi::FROM_DEVICE,
    }
}

/// Returns the header's number of an engine; `None` for the engine of described machines.
fn engine(of: Engine) -> Option<u64> {
    match of {
        Engine::Nothing => Some(uapi::ENGINE_NONE),
        Engine::Edu => Some(uapi::ENGINE_EDU),
        Engine::Dmaengine => Some(uapi::ENGINE_DMAENGINE),
        Engine::Described => None,
    }
}

/// Returns the number of the batch's transfers, if the driver takes that many at once.
fn bounded(batch: &Batch) -> Result<u32, Refusal> {
    let (bytes, count) = (batch.bytes, batch.count);
    let (max_bytes, max_count) = (uapi::DMA_MAX_BYTES, uapi::DMA_MAX_COUNT);
    if !(1..=max_bytes).contains(&bytes)
        || !(1..=max_count).contains(&count)
        || bytes * count > uapi::DMA_MAX_TOTAL
    {
        let reason = format!("the driver cannot make {count} transfers of {bytes} bytes at once");
        let remedy = format!(
            "request 1 to {max_count} of 1 to {max_bytes} bytes, at most {} bytes in total",
            uapi::DMA_MAX_TOTAL
        );
        return Err(Refusal::new(reason, remedy));
    }
    Ok(count as u32)
}

impl Driver {
    /// Makes transfers and times their parts.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if there are too many at once, or the engine or memory is not available.
    pub(crate) fn transfers(
        &self,
        requested: &Transfers,
        batch: &Batch,
    ) -> Result<(Channel, Vec<TransferTimes>), Refusal> {
        let count = bounded(batch)?;
        let engine_used = match requested.engine {
            Some(engine) => engine,
            None => self.best_engine().map_err(|error| refused("the list of engines", &error))?,
        };
        let number = engine(engine_used).ok_or_else(|| {
            let reason = format!("the driver has no engine {}", engine_used.token());
            Refusal::new(reason, "choose --engine none, edu or dmaengine")
        })?;
        let mut samples = vec![uapi::DmaSample::default(); count as usize];
        let mut run = uapi::DmaRun {
            strategy: strategy(requested.strategy) as u32,
            direction: direction(requested.direction) as u32,
            engine: number as u32,
            count,
            bytes: batch.bytes,
            seed: mix(batch.seed ^ mix(batch.first)),
            // The driver writes `count` structures to this buffer, which is its length, before the call returns.
            samples: samples.as_mut_ptr().expose_provenance() as u64,
            ..uapi::DmaRun::default()
        };
        self.call(uapi::IOC_DMA_RUN, &mut run)
            .map_err(|error| self.transfer_refusal(requested, batch, engine_used, &error))?;
        samples.truncate(run.done as usize);
        let channel = Channel {
            hz: self.rate(run.clock)?,
            cycles: u64::from(run.clock) == uapi::CLOCK_CYCLES,
            engine: engine_used,
            coherent: run.coherent != 0,
            chunks: u64::from(run.chunks).max(1),
            attribute: attribute_of(run.attribute),
            maintenance: None,
            substitute: false,
        };
        Ok((channel, samples.iter().map(transferred).collect()))
    }

    /// Returns the best available engine: one that times a real device, else one that moves data, else none.
    fn best_engine(&self) -> std::io::Result<Engine> {
        // A query makes the driver look again for a channel that was missing.
        let available = self.query_info()?.engines;
        let best = [Engine::Dmaengine, Engine::Edu].into_iter();
        Ok(best
            .into_iter()
            .find(|engine_used| engine(*engine_used).is_some_and(|number| available >> number & 1 == 1))
            .unwrap_or(Engine::Nothing))
    }

    /// Returns why transfers were not made.
    fn transfer_refusal(
        &self,
        requested: &Transfers,
        batch: &Batch,
        engine_used: Engine,
        error: &std::io::Error,
    ) -> Refusal {
        let mut reported =
            uapi::EngineOf { engine: engine(engine_used).unwrap_or(0) as u32, ..uapi::EngineOf::default() };
        let unsupported = error.raw_os_error() == Some(libc::EOPNOTSUPP);
        if !unsupported || self.call(uapi::IOC_ENGINE, &mut reported).is_err() {
            return refused("transfers", error);
        }
        let align = u64::from(reported.align_bytes).max(1);
        if !batch.bytes.is_multiple_of(align) {
            let reason = format!("its channel moves multiples of {align} bytes, and not {}", batch.bytes);
            return Refusal::new(reason, format!("choose --bytes that are multiples of {align}"));
        }
        if requested.strategy == Strategy::UncachedCopy && reported.coherent != 0 {
            return Refusal::new(
                "for a device that caches snoop, the kernel provides cached memory only, and no memory is \
                 reserved",
                "reserve memory in the devicetree: see driver/README.md",
            );
        }
        refused("transfers", error)
    }

    /// Returns the frequency of a kernel clock, Hz; 0 if it is unknown, as for a core's cycles.
    fn rate(&self, clock: u32) -> Result<u64, Refusal> {
        match u64::from(clock) {
            uapi::CLOCK_NS => Ok(1_000_000_000),
            uapi::CLOCK_CYCLES => Ok(0),
            uapi::CLOCK_TSC | uapi::CLOCK_CNTVCT if clock == self.info.clock => Ok(self.info.clock_hz),
            uapi::CLOCK_TSC | uapi::CLOCK_CNTVCT => Ok(0),
            other => {
                let reason = format!("the driver's clock {other} is not known to this version");
                Err(Refusal::new(reason, "use the Fathom version of the driver"))
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
        unverified: flag(uapi::SAMPLE_UNVERIFIED),
        migrated: flag(uapi::SAMPLE_MIGRATED),
        ..TransferTimes::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_directions_and_engines_have_unique_numbers() {
        let distinct = |mut all: Vec<u64>, max_bytes: u64| {
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), count);
            assert!(all.iter().all(|number| *number < max_bytes));
        };
        distinct(Strategy::ALL.iter().map(|s| strategy(*s)).collect(), uapi::STRATEGIES);
        distinct(Direction::ALL.iter().map(|d| direction(*d)).collect(), 2);
        distinct(Engine::ALL.iter().filter_map(|e| engine(*e)).collect(), uapi::ENGINES);
        for (engine_used, word) in Engine::ALL.iter().filter_map(|e| Some((engine(*e)?, e.token()))) {
            assert_eq!(ENGINES[engine_used as usize], word);
        }
    }
}
