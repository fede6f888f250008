//! Transfers: by Fathom's driver if it is loaded; else the part of them that user space can measure alone.
//!
//! Without the driver no buffer is mapped, and no device moves data. What remains is the copy between two buffers and
//! the CPU's work on a packet. On x86 a transfer has no other cost than these and the call that maps a buffer,
//! because caches snoop every device there (Intel SDM volume 3, 11.3; without an IOMMU's tables). With `--substitute
//! flush`, a flush of each line replaces the maintenance of a machine whose caches do not snoop.

use std::hint::black_box;

use fathom_probe::machine::dma::{Batch, Channel, Direction, Engine, Strategy, TransferTimes, Transfers};
use fathom_probe::machine::{Attribute, Dma, FactValue, Refusal};
use fathom_probe::splitmix::mix;
use fathom_units::facts;

use super::Host;
use crate::arch::{Architecture as _, Cpu};
use crate::driver::Presence;

impl Dma for Host {
    fn transfer(
        &mut self,
        requested: &Transfers,
        batch: &Batch,
    ) -> Result<(Channel, Vec<TransferTimes>), Refusal> {
        if requested.maintenance.is_some() || requested.driver_bug.is_some() {
            return Err(Refusal::new(
                "the kernel chooses the maintenance of buffers, and has no option for driver bugs",
                "use a described machine: `fathom dma --on bcm2711`",
            ));
        }
        match self.driver.clone() {
            Presence::Available(driver) if !self.flush => driver.transfers(requested, batch),
            _ => self.transfer_without_driver(requested, batch),
        }
    }
}

/// Returns why a strategy is not available without the driver.
fn needs_driver(presence: &Presence, why: &str) -> Refusal {
    let reason = match presence {
        Presence::Available(_) => format!("{why}; --substitute flush does not use the driver"),
        _ => format!("{why}: Fathom's driver {}", presence.state()),
    };
    let remedy = presence.remedy();
    let flush = "`fathom dma --substitute flush` flushes lines instead of the kernel";
    Refusal::new(reason, if remedy.is_empty() { flush.to_owned() } else { format!("{remedy}; {flush}") })
}

impl Host {
    /// Measures transfers without the driver.
    fn transfer_without_driver(
        &mut self,
        requested: &Transfers,
        batch: &Batch,
    ) -> Result<(Channel, Vec<TransferTimes>), Refusal> {
        if let Some(engine) = requested.engine.filter(|engine| *engine != Engine::Nothing) {
            let reason = format!("user space cannot start an engine ({})", engine.token());
            return Err(needs_driver(&self.driver, &reason));
        }
        let refuse = |why: &str| Err(needs_driver(&self.driver, why));
        match requested.strategy {
            Strategy::UncachedCopy => return refuse("uncached buffers for a device need the driver"),
            // Flushes emulate a non-coherent machine, on which coherent memory is uncached.
            Strategy::Coherent if self.flush => return refuse("coherent memory needs the driver"),
            // Caches snoop every device of such a machine; other machines do not report it to user space.
            Strategy::PersistentCopy | Strategy::Coherent if Cpu::COHERENT_DMA => {}
            Strategy::PersistentCopy if self.flush => {}
            Strategy::StreamingCopy | Strategy::ZeroCopy if self.flush => {}
            Strategy::Coherent | Strategy::PersistentCopy => {
                return refuse("only the driver reports whether caches snoop devices here");
            }
            Strategy::StreamingCopy | Strategy::ZeroCopy => {
                return refuse("only the driver can map a buffer and time it");
            }
        }
        let mut link = Link::new(requested, batch)?;
        let flush = self.flush && requested.strategy.maintains();
        let rows = (0..batch.count).map(|i| {
            self.time_transfer(&mut link, requested, flush, first_word(batch.seed, batch.first + i))
        });
        let rows = rows.collect();
        let channel = Channel {
            hz: self.clock_hz(),
            cycles: false,
            engine: Engine::Nothing,
            coherent: Cpu::COHERENT_DMA && !flush,
            chunks: 1,
            attribute: Some(Attribute::WriteBack),
            maintenance: None,
            substitute: flush,
        };
        Ok((channel, rows))
    }

    /// Returns the frequency of the clock in Hz, as the facts have it.
    fn clock_hz(&self) -> u64 {
        let hz = self.facts.iter().find(|fact| fact.name == facts::CLOCK_HZ).map(|fact| &fact.value);
        if let Some(FactValue::Int(hz)) = hz { *hz } else { 0 }
    }

    fn time_transfer(&self, link: &mut Link, requested: &Transfers, flush: bool, seed: u64) -> TransferTimes {
        let mut row = TransferTimes { unverified: true, ..TransferTimes::default() };
        let transmits = requested.direction == Direction::ToDevice;
        link.evict();
        if transmits {
            row.used = self.timed(|| link.produce(seed));
            row.copy = self.timed(|| link.copy(true));
            // The data that a device would read can be checked.
            row.wrong = link.wrong_bytes(seed);
        }
        row.map = self.timed(|| link.flush(flush));
        row.unmap = self.timed(|| link.flush(flush && !transmits));
        if !transmits {
            row.copy = self.timed(|| link.copy(false));
            row.used = self.timed(|| link.consume());
        }
        row
    }

    fn timed(&self, run: impl FnOnce()) -> u64 {
        let began = self.clock.now();
        run();
        self.clock.now().since(began)
    }
}

/// Increment between the words of a transfer's data: odd, so that no value repeats.
const WORD_INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the first word of a transfer's data, which differs from that of any other transfer.
fn first_word(seed: u64, number: u64) -> u64 {
    mix(seed ^ mix(number + 1))
}

/// A packet and, if the strategy copies, the buffer that a device would use.
struct Link {
    bytes: u64,
    packet: Vec<u64>,
    buffer: Option<Vec<u64>>,
}

impl Link {
    fn new(requested: &Transfers, batch: &Batch) -> Result<Link, Refusal> {
        let words = batch.bytes.div_ceil(8) as usize;
        let memory = || {
            let mut memory: Vec<u64> = Vec::new();
            memory.try_reserve_exact(words).map_err(|_| {
                Refusal::new(
                    format!("{} bytes of memory cannot be allocated", batch.bytes),
                    "choose smaller --bytes",
                )
            })?;
            memory.resize(words, 0);
            Ok::<_, Refusal>(memory)
        };
        let bytes = batch.bytes;
        Ok(Link { bytes, packet: memory()?, buffer: requested.strategy.copies().then(memory).transpose()? })
    }

    /// Overwrites old data, so that they are not mistaken for the next transfer's.
    fn evict(&mut self) {
        self.packet.fill(0x5a5a_5a5a_5a5a_5a5a);
        self.buffer.iter_mut().for_each(|buffer| buffer.fill(0xa5a5_a5a5_a5a5_a5a5));
    }

    fn produce(&mut self, seed: u64) {
        let first = first_word(seed, 0);
        // One addition per word with its store, so that the time is that of writing the packet.
        self.packet.iter_mut().fold(first, |next, to| {
            *to = next;
            next.wrapping_add(WORD_INCREMENT)
        });
        black_box(&mut self.packet);
    }

    fn consume(&self) {
        let sum = self.packet.iter().fold(0u64, |sum, word| sum.wrapping_add(*black_box(word)));
        black_box(sum);
    }

    fn copy(&mut self, out: bool) {
        let Some(buffer) = &mut self.buffer else { return };
        let (from, to) = if out { (&self.packet, buffer) } else { (&*buffer, &mut self.packet) };
        to.copy_from_slice(black_box(from));
        black_box(to);
    }

    /// Returns the number of bytes in the device's memory that differ from those sent.
    fn wrong_bytes(&self, seed: u64) -> u64 {
        let found = self.buffer.as_ref().unwrap_or(&self.packet);
        let first = first_word(seed, 0);
        let expected = |at: u64| first.wrapping_add(at.wrapping_mul(WORD_INCREMENT));
        let wrong_words = (0..).zip(found).filter(|(at, found)| **found != expected(*at)).count() as u64;
        // The last word may reach beyond the transfer.
        (8 * wrong_words).min(self.bytes)
    }

    /// Cleans and invalidates every line of the device's memory.
    fn flush(&mut self, enabled: bool) {
        if !enabled {
            return;
        }
        let memory = self.buffer.as_mut().unwrap_or(&mut self.packet);
        let bytes = size_of_val(memory.as_slice());
        let start: *mut u8 = memory.as_mut_ptr().cast();
        for at in (0..bytes).step_by(Cpu::LINE_BYTES) {
            // SAFETY: the byte is one of this memory, which is borrowed here; a flush changes no contents.
            unsafe { Cpu::flush_line(start.wrapping_add(at)) };
        }
        // One barrier for the whole buffer, as in a kernel.
        Cpu::flush_barrier();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    fn host() -> Host {
        Host::open(Options { priority: false, die_with_parent: false, ..Options::default() })
            .unwrap_or_else(|r| panic!("{}", r.reason))
    }

    fn requested(strategy: Strategy, direction: Direction) -> Transfers {
        Transfers { strategy, direction, ..Transfers::default() }
    }

    const BATCH: Batch = Batch { bytes: 1500, seed: 3, first: 0, count: 4 };

    #[test]
    fn device_sees_copied_data_and_missing_copy_is_detected() {
        for strategy in [Strategy::StreamingCopy, Strategy::ZeroCopy] {
            let mut link = Link::new(&requested(strategy, Direction::ToDevice), &BATCH).unwrap();
            link.evict();
            link.produce(7);
            if strategy.copies() {
                assert_eq!(link.wrong_bytes(7), 1500, "nothing was copied yet");
            }
            link.copy(true);
            assert_eq!(link.wrong_bytes(7), 0);
            assert_eq!(link.wrong_bytes(8), 1500, "the data of another transfer");
            link.flush(true);
            assert_eq!(link.wrong_bytes(7), 0, "a flush changes nothing");
        }
    }

    #[test]
    fn missing_driver_allows_copies_only() {
        let mut host = host();
        if matches!(host.driver, Presence::Available(_)) {
            println!("skipped: the driver is loaded");
            return;
        }
        for &direction in Direction::ALL {
            for strategy in [Strategy::StreamingCopy, Strategy::UncachedCopy, Strategy::ZeroCopy] {
                let refusal =
                    host.transfer(&requested(strategy, direction), &BATCH).expect_err("needs the driver");
                assert!(refusal.remedy.contains("--substitute flush"), "{}", refusal.remedy);
                assert!(refusal.reason.contains("driver"), "{}", refusal.reason);
            }
            let known = host.transfer(&requested(Strategy::PersistentCopy, direction), &BATCH);
            if Cpu::COHERENT_DMA {
                let (channel, rows) = known.expect("copies are known");
                assert!(channel.coherent && !channel.substitute && channel.hz > 0);
                assert_eq!((channel.engine, rows.len()), (Engine::Nothing, 4));
                assert!(rows.iter().all(|r| r.unverified && r.wrong == 0 && r.copy > 0));
            } else {
                assert!(known.is_err(), "whether caches snoop a device is unknown");
            }
        }
    }

    #[test]
    fn flushes_substitute_maintenance_on_request() {
        let mut host = host();
        host.flush = true;
        // A thousand lines take more than a tick of any clock.
        let batch = Batch { bytes: 65_536, ..BATCH };
        for strategy in [Strategy::StreamingCopy, Strategy::ZeroCopy, Strategy::PersistentCopy] {
            let (channel, rows) = host.transfer(&requested(strategy, Direction::FromDevice), &batch).unwrap();
            assert!(channel.substitute && !channel.coherent);
            assert!(rows.iter().all(|r| r.map > 0 && r.unmap > 0), "{strategy:?}");
        }
        for strategy in [Strategy::UncachedCopy, Strategy::Coherent] {
            assert!(host.transfer(&requested(strategy, Direction::ToDevice), &BATCH).is_err());
        }
    }

    #[test]
    fn model_only_requests_are_refused() {
        use fathom_probe::machine::dma::{DriverBug, Maintenance};
        let mut host = host();
        let plain = requested(Strategy::PersistentCopy, Direction::ToDevice);
        for wrong in [
            Transfers { maintenance: Some(Maintenance::Map), ..plain },
            Transfers { driver_bug: Some(DriverBug::NoUnmap), ..plain },
        ] {
            assert!(host.transfer(&wrong, &BATCH).expect_err("it is").remedy.contains("--on"));
        }
    }
}
