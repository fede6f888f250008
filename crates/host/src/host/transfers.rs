//! Transfers: by the driver, where it is there; else what user space can know of them by itself.
//!
//! Without the driver nobody maps a buffer, and nothing moves. What is left is the copy between two buffers and what a
//! CPU does with a packet: on x86 that is all there is to a transfer beside the call that maps a buffer, because
//! caches see every device there (Intel SDM volume 3, 11.3; without an IOMMU's tables). Where it is asked for, a flush
//! of each line stands in for the maintenance of a machine whose caches do not.

use std::hint::black_box;

use fathom_probe::machine::dma::{Batch, Channel, Direction, Engine, Strategy, Transferred, Transfers};
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
    ) -> Result<(Channel, Vec<Transferred>), Refusal> {
        if requested.maintenance.is_some() || requested.mistake.is_some() {
            return Err(Refusal::new(
                "how buffers are maintained is the kernel's to choose, and it makes no mistakes on purpose",
                "ask that of a described machine: `fathom dma --on bcm2711`",
            ));
        }
        match self.driver.clone() {
            Presence::There(driver) if !self.flush => driver.transfers(requested, batch),
            _ => self.alone(requested, batch),
        }
    }
}

/// Why a strategy cannot be had without the driver.
fn needs_driver(presence: &Presence, why: &str) -> Refusal {
    let reason = match presence {
        Presence::There(_) => format!("{why}; --substitute flush is without the driver"),
        _ => format!("{why}: Fathom's driver {}", presence.state()),
    };
    let remedy = presence.remedy();
    let flush = "`fathom dma --substitute flush` flushes lines in place of the kernel";
    Refusal::new(reason, if remedy.is_empty() { flush.to_owned() } else { format!("{remedy}; {flush}") })
}

impl Host {
    /// What user space can know of transfers.
    fn alone(
        &mut self,
        requested: &Transfers,
        batch: &Batch,
    ) -> Result<(Channel, Vec<Transferred>), Refusal> {
        if let Some(engine) = requested.engine.filter(|engine| *engine != Engine::Nothing) {
            let reason = format!("user space starts no engine ({})", engine.token());
            return Err(needs_driver(&self.driver, &reason));
        }
        let refuse = |why: &str| Err(needs_driver(&self.driver, why));
        match requested.strategy {
            Strategy::UncachedCopy => return refuse("a buffer that is not cached and that a device may use"),
            // Where lines are maintained, memory that both sides see alike is not cached.
            Strategy::Coherent if self.flush => return refuse("memory that both sides see alike"),
            // Caches see every device of such a machine; of others nobody tells user space.
            Strategy::PersistentCopy | Strategy::Coherent if Cpu::COHERENT_DMA => {}
            Strategy::PersistentCopy if self.flush => {}
            Strategy::StreamingCopy | Strategy::ZeroCopy if self.flush => {}
            Strategy::Coherent | Strategy::PersistentCopy => {
                return refuse("whether caches see a device here");
            }
            Strategy::StreamingCopy | Strategy::ZeroCopy => return refuse("what mapping a buffer costs"),
        }
        let mut link = Link::new(requested, batch)?;
        let flush = self.flush && requested.strategy.maintains();
        let rows = (0..batch.count)
            .map(|i| self.one(&mut link, requested, flush, word(batch.seed, batch.first + i)));
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

    /// Ticks a second of the clock, as the facts have it.
    fn clock_hz(&self) -> u64 {
        let hz = self.facts.iter().find(|fact| fact.name == facts::CLOCK_HZ).map(|fact| &fact.value);
        if let Some(FactValue::Int(hz)) = hz { *hz } else { 0 }
    }

    fn one(&self, link: &mut Link, requested: &Transfers, flush: bool, seed: u64) -> Transferred {
        let mut row = Transferred { unproven: true, ..Transferred::default() };
        let transmits = requested.direction == Direction::ToDevice;
        link.evict();
        if transmits {
            row.used = self.timed(|| link.make(seed));
            row.copy = self.timed(|| link.copy(true));
            // What a device would read is there to be looked at.
            row.wrong = link.wrong(seed);
        }
        row.map = self.timed(|| link.flush(flush));
        row.unmap = self.timed(|| link.flush(flush && !transmits));
        if !transmits {
            row.copy = self.timed(|| link.copy(false));
            row.used = self.timed(|| link.take());
        }
        row
    }

    fn timed(&self, run: impl FnOnce()) -> u64 {
        let began = self.clock.now();
        run();
        self.clock.now().since(began)
    }
}

/// What the words of a transfer's data differ by, from place to place: odd, so that none comes again.
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where the data of a transfer begin, which differ from those of any other.
fn word(seed: u64, number: u64) -> u64 {
    mix(seed ^ mix(number + 1))
}

/// A packet and, where there is one, the buffer that a device would have.
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
                    format!("{} bytes of memory cannot be had", batch.bytes),
                    "ask for smaller --bytes",
                )
            })?;
            memory.resize(words, 0);
            Ok::<_, Refusal>(memory)
        };
        let bytes = batch.bytes;
        Ok(Link { bytes, packet: memory()?, buffer: requested.strategy.copies().then(memory).transpose()? })
    }

    /// What stood there before must not be taken for what is to come.
    fn evict(&mut self) {
        self.packet.fill(0x5a5a_5a5a_5a5a_5a5a);
        self.buffer.iter_mut().for_each(|buffer| buffer.fill(0xa5a5_a5a5_a5a5_a5a5));
    }

    fn make(&mut self, seed: u64) {
        let first = word(seed, 0);
        // An addition a word beside its store: what is timed is the packet written.
        self.packet.iter_mut().fold(first, |next, to| {
            *to = next;
            next.wrapping_add(STRIDE)
        });
        black_box(&mut self.packet);
    }

    fn take(&self) {
        let sum = self.packet.iter().fold(0u64, |sum, word| sum.wrapping_add(*black_box(word)));
        black_box(sum);
    }

    fn copy(&mut self, out: bool) {
        let Some(buffer) = &mut self.buffer else { return };
        let (from, to) = if out { (&self.packet, buffer) } else { (&*buffer, &mut self.packet) };
        to.copy_from_slice(black_box(from));
        black_box(to);
    }

    /// Bytes of the device's memory that are not those that were sent.
    fn wrong(&self, seed: u64) -> u64 {
        let found = self.buffer.as_ref().unwrap_or(&self.packet);
        let first = word(seed, 0);
        let expected = |at: u64| first.wrapping_add(at.wrapping_mul(STRIDE));
        let wrong = (0..).zip(found).filter(|(at, found)| **found != expected(*at)).count() as u64;
        // The last word may reach beyond the transfer.
        (8 * wrong).min(self.bytes)
    }

    /// Cleans and invalidates every line of the device's memory.
    fn flush(&mut self, wanted: bool) {
        if !wanted {
            return;
        }
        let memory = self.buffer.as_mut().unwrap_or(&mut self.packet);
        let bytes = size_of_val(memory.as_slice());
        let start: *mut u8 = memory.as_mut_ptr().cast();
        for at in (0..bytes).step_by(Cpu::LINE) {
            // SAFETY: the byte is one of this memory, which is borrowed here; a flush changes no contents.
            unsafe { Cpu::flush_line(start.wrapping_add(at)) };
        }
        // One for the whole buffer, as a kernel has it.
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
            link.make(7);
            if strategy.copies() {
                assert_eq!(link.wrong(7), 1500, "nothing was copied yet");
            }
            link.copy(true);
            assert_eq!(link.wrong(7), 0);
            assert_eq!(link.wrong(8), 1500, "the data of another transfer");
            link.flush(true);
            assert_eq!(link.wrong(7), 0, "a flush changes nothing");
        }
    }

    #[test]
    fn missing_driver_allows_copies_only() {
        let mut host = host();
        if matches!(host.driver, Presence::There(_)) {
            println!("skipped: the driver is there");
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
                assert!(rows.iter().all(|r| r.unproven && r.wrong == 0 && r.copy > 0));
            } else {
                assert!(known.is_err(), "nobody knows whether caches see a device");
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
        use fathom_probe::machine::dma::{Maintenance, Mistake};
        let mut host = host();
        let plain = requested(Strategy::PersistentCopy, Direction::ToDevice);
        for wrong in [
            Transfers { maintenance: Some(Maintenance::Map), ..plain },
            Transfers { mistake: Some(Mistake::NoUnmap), ..plain },
        ] {
            assert!(host.transfer(&wrong, &BATCH).expect_err("it is").remedy.contains("--on"));
        }
    }
}
