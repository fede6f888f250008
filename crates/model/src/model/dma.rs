//! Transfers: a DMA device, coherent or not, and the kernel's cache maintenance for it.
//!
//! Everything runs in order on CPU 0. It writes the packet, copies it, maps the buffer, starts the device, waits,
//! handles its interrupt and unmaps the buffer. Each access goes through the cache levels as any other. So the indirect
//! cost of a strategy, lines evicted from the caches, is included. The seed determines where packet and buffer are in
//! the kernel's memory; they stay there for a trial.

mod contents;

use fathom_probe::machine::batch::copy::loop_ops;
use fathom_probe::machine::dma::{
    Batch, Channel, Direction, DriverBug, Engine, Maintenance, Strategy, TransferTimes, Transfers,
};
use fathom_probe::machine::{Attribute, Dma, Refusal};
use fathom_probe::splitmix::mix;

use self::contents::Contents;
use super::Model;
use crate::description::{Coherence, Device};
use crate::rng::{Rng, Use};
use crate::time::Scale;
use crate::uncached::behaviour;

/// Bytes of kernel memory that contain packet and buffer. Each of them fits in one half at its maximum size.
const KERNEL_BYTES: u64 = 16 << 20;
/// Bytes of a CPU access when it writes or reads a packet, and of a copy's access to cached memory.
const WORD: u64 = 8;
const PAIR: u64 = 16;

/// Memory of a packet, or of the device's buffer.
#[derive(Clone, Debug)]
struct Region {
    /// Its start, as an offset in the kernel and as a physical address.
    place: u64,
    start: u64,
    behaves: Attribute,
    contents: Contents,
    /// The line of the last load of a pass.
    last: u64,
}

/// The state of a trial's transfers.
#[derive(Clone, Debug)]
pub(super) struct Link {
    requested: Transfers,
    bytes: u64,
    seed: u64,
    device: Device,
    /// Maintenance of buffers; `None` if the device is coherent.
    policy: Option<Maintenance>,
    packet: Region,
    /// Absent if the device accesses the packet itself.
    buffer: Option<Region>,
    moves: bool,
    costs: Costs,
}

/// The description's times, in units.
#[derive(Clone, Copy, Debug)]
struct Costs {
    setup: u64,
    interrupt: u64,
    map: u64,
    write_back: u64,
    stream: Option<u64>,
    /// Latency of the device's first burst, and the time of each burst on the link. Later bursts are requested in
    /// advance.
    first: u64,
    burst: u64,
}

impl Costs {
    fn new(model: &Model, device: &Device) -> Costs {
        let scale = Scale::new(&model.description);
        let memory = scale.units(model.description.memory.latency);
        let link = device.burst as f64 / device.rate * model.timer.units_hz as f64;
        Costs {
            setup: scale.units(device.setup),
            interrupt: scale.units(device.interrupt),
            map: scale.units(device.map),
            write_back: scale.units(device.write_back),
            stream: device.stream.map(|time| scale.units(time)),
            first: memory,
            // The description check guarantees at least 1 kB/s, so this stays far inside 64 bits.
            burst: link.round() as u64,
        }
    }
}

impl Link {
    /// Returns the memory that the device accesses.
    fn shared(&mut self) -> &mut Region {
        self.buffer.as_mut().unwrap_or(&mut self.packet)
    }

    fn direction_mapped(&self) -> Direction {
        match self.requested.driver_bug {
            Some(DriverBug::AsFromDevice) => Direction::FromDevice,
            _ => self.requested.direction,
        }
    }

    /// Returns the maintenance of the device's memory before the device may access it.
    fn due_before(&self) -> Option<Due> {
        let from_device = self.direction_mapped() == Direction::FromDevice;
        self.due(|policy| match policy {
            Maintenance::Map | Maintenance::MapAndUnmap => Due::by_line(!from_device, from_device),
            Maintenance::CleanAndUnmap => Due::by_line(true, false),
            Maintenance::WholeCache => Due::ALL,
        })
    }

    /// Returns the maintenance of the device's memory before the CPU may access it again.
    fn due_after(&self) -> Option<Due> {
        if self.requested.driver_bug == Some(DriverBug::NoUnmap) {
            return None;
        }
        let from_device = self.direction_mapped() == Direction::FromDevice;
        self.due(|policy| match policy {
            Maintenance::MapAndUnmap | Maintenance::CleanAndUnmap if from_device => Due::by_line(false, true),
            Maintenance::WholeCache => Due::ALL,
            _ => Due::by_line(false, false),
        })
    }

    fn due(&self, of: impl Fn(Maintenance) -> Due) -> Option<Due> {
        let maintained =
            self.requested.strategy.maintains() && self.requested.driver_bug != Some(DriverBug::Nothing);
        maintained.then(|| self.policy.map_or(Due::by_line(false, false), of))
    }
}

/// A maintenance operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    clean: bool,
    invalidate: bool,
    /// Whether it applies to all lines of all caches, not only to those of the buffer.
    all: bool,
}

impl Due {
    const ALL: Due = Due { clean: true, invalidate: true, all: true };

    fn by_line(clean: bool, invalidate: bool) -> Due {
        Due { clean, invalidate, all: false }
    }
}

impl Dma for Model {
    fn transfer(
        &mut self,
        requested: &Transfers,
        batch: &Batch,
    ) -> Result<(Channel, Vec<TransferTimes>), Refusal> {
        let kept = self.link.take().filter(|link| {
            (link.requested, link.bytes, link.seed) == (*requested, batch.bytes, batch.seed)
                && batch.first > 0
        });
        let mut link = match kept {
            Some(link) => link,
            None => self.link_for(requested, batch)?,
        };
        let rows = (0..batch.count).map(|i| self.transfer_one(&mut link, batch, batch.first + i)).collect();
        let channel = Channel {
            hz: u64::try_from(self.timer.units_hz).unwrap_or(u64::MAX),
            cycles: false,
            engine: if link.moves { Engine::Described } else { Engine::Nothing },
            coherent: link.policy.is_none(),
            chunks: 1,
            attribute: Some(link.shared().behaves),
            maintenance: link.policy,
            substitute: false,
        };
        self.link = Some(link);
        Ok((channel, rows))
    }
}

impl Model {
    /// Prepares memory and device for a trial.
    fn link_for(&mut self, requested: &Transfers, batch: &Batch) -> Result<Link, Refusal> {
        let device = self.description.dma.clone().ok_or_else(undescribed)?;
        let moves = match requested.engine {
            None | Some(Engine::Described) => true,
            Some(Engine::Nothing) => false,
            Some(other) => {
                let reason = format!("a described device is not a {} engine", other.token());
                return Err(Refusal::new(reason, "use engine=described or engine=none"));
            }
        };
        if self.controls.flush {
            let reason = "a described machine maintains buffers as its description states, and cannot flush them from user space";
            return Err(Refusal::new(reason, "remove `--substitute flush`"));
        }
        let non_coherent = device.coherence == Coherence::None;
        let policy = match (non_coherent, requested.maintenance) {
            (true, requested) => requested.or(device.maintenance),
            (false, None) => None,
            (false, Some(_)) => {
                let reason = "this device is coherent, so its buffers need no maintenance";
                return Err(Refusal::new(
                    reason,
                    "remove `--maintenance`, or set coherence = \"none\" in [dma]",
                ));
            }
        };
        if requested.pollution_set == 0 {
            // Removes the lines of earlier trials. The lines of a pollution set must stay.
            self.flush_all();
        }
        let (packet, buffer) = self.regions(requested.strategy, batch, non_coherent)?;
        let costs = Costs::new(self, &device);
        Ok(Link {
            requested: *requested,
            bytes: batch.bytes,
            seed: batch.seed,
            device,
            policy,
            packet,
            buffer,
            moves,
            costs,
        })
    }

    /// Creates the packet, and the device's buffer if that is separate.
    fn regions(
        &self,
        strategy: Strategy,
        batch: &Batch,
        non_coherent: bool,
    ) -> Result<(Region, Option<Region>), Refusal> {
        let shared = match strategy {
            Strategy::UncachedCopy if !non_coherent => {
                return Err(Refusal::new(
                    "for a coherent device the kernel allocates cached memory only",
                    "use persistent-copy, which is equivalent",
                ));
            }
            Strategy::UncachedCopy | Strategy::Coherent if non_coherent => {
                behaviour(&self.description.uncached, Attribute::NormalNc)?
            }
            _ => Attribute::WriteBack,
        };
        let mut rng = Rng::new(self.seed ^ mix(batch.seed), Use::Transfer, 0);
        let (page, half) = (self.arena.base.page.min(64 << 10), KERNEL_BYTES / 2);
        let mut region = |number: u64, behaves: Attribute| {
            let place = number * half + rng.below((half - (1 << 20)) / page) * page;
            let start = self.paging.kernel(KERNEL_BYTES) + place;
            let contents = Contents::new(batch.bytes, self.hierarchy.shortest_data_line());
            Region { place, start, behaves, contents, last: u64::MAX }
        };
        let packet = region(0, if strategy.copies() { Attribute::WriteBack } else { shared });
        let buffer = strategy.copies().then(|| region(1, shared));
        Ok((packet, buffer))
    }

    /// Makes one transfer, including the CPU's writing or reading of the packet.
    fn transfer_one(&mut self, link: &mut Link, batch: &Batch, number: u64) -> TransferTimes {
        // The data are new in each transfer, and differ from the initial contents of memory.
        let version = mix(batch.seed ^ mix(number)) | 1;
        let mut row = TransferTimes { unverified: !link.moves, ..TransferTimes::default() };
        let transmits = link.requested.direction == Direction::ToDevice;
        if transmits {
            row.used = self.timed(|model| model.write_packet(&mut link.packet, version));
            row.copy = self.timed(|model| model.copy_packet(link, true));
        }
        row.map = self.timed(|model| model.map_buffer(link));
        if link.moves {
            let began = self.clock();
            row.setup = self.timed(|model| model.advance(link.costs.setup));
            row.wrong = self.run_device(link, version, transmits);
            row.setup += self.timed(|model| model.advance(link.costs.interrupt));
            row.engine = self.clock() - began;
        }
        row.unmap = self.timed(|model| model.unmap_buffer(link));
        if !transmits {
            row.copy = self.timed(|model| model.copy_packet(link, false));
            let mut wrong = 0;
            let stream = link.costs.stream;
            row.used = self.timed(|model| wrong = model.read_packet(&mut link.packet, version, stream));
            row.wrong = if link.moves { wrong } else { 0 };
        }
        row
    }

    /// Returns the units that `run` takes.
    fn timed(&mut self, run: impl FnOnce(&mut Model)) -> u64 {
        let began = self.clock();
        run(self);
        self.clock() - began
    }

    /// Writes a packet on the CPU, word by word.
    fn write_packet(&mut self, packet: &mut Region, version: u64) {
        for at in (0..packet.contents.bytes()).step_by(WORD as usize) {
            self.write_part(packet, at, WORD, version);
        }
        self.charge(loop_ops(packet.contents.bytes().div_ceil(WORD)));
    }

    /// Reads a packet on the CPU, word by word. Returns the number of its bytes that are not of this version.
    fn read_packet(&mut self, packet: &mut Region, version: u64, stream: Option<u64>) -> u64 {
        let mut wrong = 0;
        packet.last = u64::MAX;
        for at in (0..packet.contents.bytes()).step_by(WORD as usize) {
            let bytes = WORD.min(packet.contents.bytes() - at);
            wrong += if self.read_sequential(packet, at, bytes, stream) == version { 0 } else { bytes };
        }
        self.charge(loop_ops(packet.contents.bytes().div_ceil(WORD)));
        wrong
    }

    /// Copies between packet and buffer, if there is a buffer.
    fn copy_packet(&mut self, link: &mut Link, out: bool) {
        let Some(buffer) = &mut link.buffer else { return };
        let (from, to) = if out { (&mut link.packet, buffer) } else { (buffer, &mut link.packet) };
        let step = if from.behaves == Attribute::WriteBack { PAIR } else { link.device.widest };
        let bytes = from.contents.bytes();
        from.last = u64::MAX;
        for at in (0..bytes).step_by(step as usize) {
            let part = step.min(bytes - at);
            let version = self.read_sequential(from, at, part, link.costs.stream);
            for to_at in (at..at + part).step_by(PAIR as usize) {
                self.write_part(to, to_at, PAIR.min(at + part - to_at), version);
            }
        }
        self.charge(loop_ops(bytes.div_ceil(WORD)));
    }

    /// Loads a part of a region in a sequential pass: a line that follows the previous one costs at most `stream`.
    /// Returns the version of the data.
    fn read_sequential(&mut self, region: &mut Region, at: u64, bytes: u64, stream: Option<u64>) -> u64 {
        let physical = region.start + at;
        self.translate_kernel(region.place + at);
        region.contents.settle(at, || self.hierarchy.held(physical));
        let began = self.clock();
        self.load_as(0, region.behaves, physical, bytes);
        self.forget_lines();
        if region.behaves != Attribute::WriteBack {
            return region.contents.in_memory(at);
        }
        let line = physical >> self.hierarchy.shortest_data_line();
        if let Some(stream) = stream.filter(|_| line == region.last.wrapping_add(1)) {
            let took = self.clock() - began;
            self.agents[0].clock = began + took.min(stream);
        }
        region.last = line;
        region.contents.read(at, self.hierarchy.holds(physical))
    }

    /// Stores to a part of a region.
    fn write_part(&mut self, region: &mut Region, at: u64, bytes: u64, version: u64) {
        let physical = region.start + at;
        self.translate_kernel(region.place + at);
        region.contents.settle(at, || self.hierarchy.held(physical));
        self.store_as(0, region.behaves, physical, bytes);
        self.forget_lines();
        let held = match region.behaves {
            Attribute::WriteBack => self.hierarchy.held(physical),
            _ => None,
        };
        region.contents.write(at, version, held);
    }

    /// Charges the translation of an access to the kernel's memory.
    fn translate_kernel(&mut self, place: u64) {
        self.catch_up();
        self.accesses += 1;
        if self.paging.costs {
            self.translate_page(0, self.paging.kernel_page(place), None);
        }
    }

    /// Maps the buffer for the device.
    fn map_buffer(&mut self, link: &mut Link) {
        if let Some(due) = link.due_before() {
            self.advance(link.costs.map);
            self.maintain_link(link, due);
        }
        // A barrier: gathered stores complete before the device is notified.
        self.drain_gathered();
    }

    /// Unmaps the buffer.
    fn unmap_buffer(&mut self, link: &mut Link) {
        if let Some(due) = link.due_after() {
            self.advance(link.costs.map);
            self.maintain_link(link, due);
        }
    }

    fn drain_gathered(&mut self) {
        let left = self.agents[0].buffers.empty();
        self.hierarchy.memory_writes += left;
        self.advance(left * self.costs.drain);
    }

    /// Maintains caches and charges it: one operation per line, and the write-back of dirty lines.
    fn maintain_link(&mut self, link: &mut Link, due: Due) {
        if link.policy.is_none() || (due.clean, due.invalidate) == (false, false) {
            return;
        }
        let write_back = link.costs.write_back;
        let shift = self.hierarchy.shortest_data_line();
        let hierarchy = &mut self.hierarchy;
        let (lines, dirty) = if due.all {
            for region in [Some(&mut link.packet), link.buffer.as_mut()].into_iter().flatten() {
                region.maintain(hierarchy, due);
            }
            hierarchy.flush()
        } else {
            link.shared().maintain(hierarchy, due);
            let (start, bytes) = (link.shared().start, link.bytes);
            let dirty = hierarchy.maintain(start, bytes, due.clean, due.invalidate);
            (bytes.div_ceil(1 << shift), dirty)
        };
        self.forget_lines();
        self.advance(lines * self.maintain + dirty * write_back);
    }

    /// Runs the device. Returns the number of bytes that it read in a wrong version.
    fn run_device(&mut self, link: &mut Link, version: u64, transmits: bool) -> u64 {
        let (bytes, coherent, stashes) =
            (link.bytes, link.policy.is_none(), link.device.coherence == Coherence::Stashed);
        self.advance(link.costs.first + bytes.div_ceil(link.device.burst) * link.costs.burst);
        let granule = 1 << self.hierarchy.shortest_data_line();
        let region = link.shared();
        let mut wrong = 0;
        for at in (0..bytes).step_by(granule as usize) {
            let physical = region.start + at;
            region.contents.settle(at, || self.hierarchy.held(physical));
            if transmits {
                let found = region.contents.seen_by_device(at, coherent);
                wrong += if found == version { 0 } else { granule.min(bytes - at) };
                continue;
            }
            if coherent {
                self.hierarchy.maintain(physical, granule, false, true);
            }
            region.contents.write_by_device(at, version, coherent);
            if stashes {
                self.hierarchy.stash(0, physical);
                region.contents.read(at, true);
            }
        }
        self.forget_lines();
        wrong
    }
}

impl Region {
    /// Applies maintenance to the data.
    fn maintain(&mut self, hierarchy: &crate::hierarchy::Hierarchy, due: Due) {
        for at in self.contents.places() {
            let physical = self.start + at;
            self.contents.settle(at, || hierarchy.held(physical));
            self.contents.maintain(at, due.clean, due.invalidate);
        }
    }
}

/// Returns the refusal of a description without a device.
fn undescribed() -> Refusal {
    Refusal::new(
        "the description has no DMA device",
        "add [dma] to the description, as in omap3-sdio and neoverse-n1",
    )
}
