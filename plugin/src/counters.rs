//! The page of memory in which a guest reads what the first machine has counted (`include/fathom_guest.h`).
//!
//! It is a file that QEMU's ivshmem-plain has as memory of the guest, and that is mapped here. A store of the guest is told when it has
//! been made, before the next instruction: if the page asks then, that store has asked.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fathom_model::{Description, GUEST_PAGE, UNITS_PER_CYCLE};
use fathom_simulation::protocol::Machine;
use fathom_simulation::{Snapshot, SnapshotCounts};

use crate::session::lock;

/// Bytes of the page.
const BYTES: usize = GUEST_PAGE as usize;
/// FATHOM_GUEST_MAGIC, FATHOM_GUEST_VERSION, FATHOM_GUEST_LEVELS of the header.
const MAGIC: u64 = u64::from_le_bytes(*b"fathomgp");
const VERSION: u64 = 1;
const LEVELS: usize = 8;
/// Places in the page, in words of 8 bytes, as the header has them.
const ASK: usize = 2;
const CPU: usize = 3;
const DESCRIBED: usize = 4;
const OF_CPU: usize = 7;
const OF_ALL: usize = OF_CPU + COUNTS;
const NAMES: usize = OF_ALL + COUNTS;
/// Words of counts, and bytes of a name.
const COUNTS: usize = 7 + 2 * LEVELS;
const NAME: usize = 16;

/// The page.
#[derive(Debug)]
pub struct Counters {
    words: &'static [AtomicU64; BYTES / 8],
    /// Its physical page, as the plugin interface tells it, when the guest has asked first.
    frame: AtomicU64,
    /// The virtual pages of it in which the guest has asked.
    pages: Mutex<Vec<u64>>,
}

impl Counters {
    /// Maps the page, and describes the first machine in it.
    ///
    /// # Errors
    /// The file cannot be mapped.
    pub fn begin(file: &str, machines: &[Machine]) -> Result<Counters, String> {
        let failed = |why: &dyn std::fmt::Display| format!("the page for counters, {file}: {why}");
        let opened = OpenOptions::new().read(true).write(true).open(file).map_err(|e| failed(&e))?;
        let length = opened.metadata().map_err(|e| failed(&e))?.len();
        if length < BYTES as u64 {
            return Err(failed(&"it is shorter than a page"));
        }
        // SAFETY: a new mapping of a file that is open, and long enough.
        let mapped = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), BYTES, access, libc::MAP_SHARED, opened.as_raw_fd(), 0)
        };
        if mapped == libc::MAP_FAILED {
            return Err(failed(&std::io::Error::last_os_error()));
        }
        // SAFETY: the mapping has this size, is aligned to a page, and is there as long as this process; the guest writes it, too, and
        // atomics may be written by others.
        let words = unsafe { &*mapped.cast::<[AtomicU64; BYTES / 8]>() };
        let counters = Counters { words, frame: AtomicU64::new(u64::MAX), pages: Mutex::default() };
        if let Some(first) = machines.first() {
            let described = Description::parse(&first.name, &first.text).map_err(|e| e.to_string())?;
            counters.describe(&described);
        }
        Ok(counters)
    }

    fn describe(&self, machine: &Description) {
        let levels = machine.levels.len().min(LEVELS);
        let clock = machine.core.clock_hz.round() as u64;
        self.put(DESCRIBED, &[levels as u64, UNITS_PER_CYCLE, clock]);
        for (nth, level) in machine.levels.iter().take(LEVELS).enumerate() {
            let mut name = [0; NAME];
            // The last byte stays zero.
            name.iter_mut().take(NAME - 1).zip(level.name.bytes()).for_each(|(to, from)| *to = from);
            let words = name.chunks_exact(8).map(|of| u64::from_le_bytes(of.try_into().unwrap_or_default()));
            self.put(NAMES + nth * NAME / 8, &words.collect::<Vec<_>>());
        }
        self.put(0, &[MAGIC, VERSION]);
    }

    fn put(&self, at: usize, all: &[u64]) {
        self.words[at..]
            .iter()
            .zip(all)
            .for_each(|(word, number)| word.store(number.to_le(), Ordering::Relaxed));
    }

    /// Returns the two halves of the word by which a guest asks: `ask` and `answered`.
    fn question(&self) -> [&AtomicU32; 2] {
        let word = std::ptr::from_ref(&self.words[ASK]).cast::<AtomicU32>();
        // SAFETY: both halves are in the word, aligned to their size, and atomics.
        unsafe { [&*word, &*word.add(1)] }
    }

    /// Returns with which number the guest asks, if it does.
    #[inline(always)]
    pub fn asked(&self) -> Option<u32> {
        let ask = self.question()[0].load(Ordering::Relaxed);
        (ask != 0).then_some(ask)
    }

    /// Notes where the guest has the page.
    pub fn is_at(&self, address: u64, physical: u64) {
        self.frame.store(physical / GUEST_PAGE, Ordering::Relaxed);
        let (mut pages, page) = (lock(&self.pages), address / GUEST_PAGE);
        if !pages.contains(&page) {
            pages.push(page);
        }
    }

    /// Returns whether an access is one of the page. QEMU may tell the same physical address of other memory, but not of one that has the
    /// same virtual address, too.
    #[inline(always)]
    pub fn has(&self, address: u64, physical: u64) -> bool {
        self.frame.load(Ordering::Relaxed) == physical / GUEST_PAGE
            && lock(&self.pages).contains(&(address / GUEST_PAGE))
    }

    /// Writes the counts, and that `asked` is answered. `executed` are the instructions of the CPU and of all.
    pub fn answer(&self, asked: u32, cpu: u32, executed: [u64; 2], snapshot: &Snapshot) {
        let counts = |of: &SnapshotCounts, executed: u64| {
            let units = of.units + executed * snapshot.operation_units;
            let [loads, stores, fetches] = of.accesses;
            let mut all = vec![executed, units, loads, stores, fetches, of.walks, of.memory];
            for by_level in [&of.reached, &of.misses] {
                all.extend(by_level.iter().copied().chain(std::iter::repeat(0)).take(LEVELS));
            }
            all
        };
        self.put(CPU, &[cpu.into()]);
        self.put(OF_CPU, &counts(&snapshot.of_cpu, executed[0]));
        self.put(OF_ALL, &counts(&snapshot.of_all, executed[1]));
        let [ask, answered] = self.question();
        answered.store(asked, Ordering::Release);
        ask.store(0, Ordering::Release);
    }
}
