//! Samples of programs: where the programs that the calling thread starts, and all that these start, execute in user space, by
//! the kernel's perf events.

use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::perf::{Counter, Event};
use crate::procfs::{Root, cpu_list};

mod records;

pub use records::{Sampled, SampledEvent};

/// Bytes of a ring's data, a power of two: some 6000 samples, six seconds at 1000 a second; and below the kernel's limit for
/// each CPU without privileges (`perf_event_mlock_kb`, 516 KiB).
const DATA_BYTES: usize = 256 << 10;
/// The same at least, if more memory may not be locked.
const LEAST_DATA_BYTES: usize = 32 << 10;
/// Bytes of a record, at most: a mapping of a file with the longest path (4096), rounded up.
const MAX_RECORD: u64 = 8 << 10;
/// `struct perf_event_mmap_page`: offsets of `data_head` and `data_tail`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// CPUs that are online.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// What makes samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampledBy {
    /// The kernel's timer on the CPU, while the program has it (`cpu-clock`).
    CpuClock,
    /// Cycles of the processor.
    Cycles,
}

impl SampledBy {
    /// Its name in perf-list(1).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SampledBy::CpuClock => "cpu-clock",
            SampledBy::Cycles => "cycles",
        }
    }

    fn event(self) -> Event {
        match self {
            SampledBy::CpuClock => Event::CPU_CLOCK,
            SampledBy::Cycles => Event::CPU_CYCLES,
        }
    }
}

/// Rings that the kernel fills with samples, one for each CPU.
#[derive(Debug)]
pub struct ProgramSampling(Vec<Ring>);

impl ProgramSampling {
    /// Samples what the calling thread starts from now on, `rate` times a second of each CPU's time.
    ///
    /// # Errors
    /// perf_event_open(2) or mmap(2).
    pub fn open(by: SampledBy, rate: u64) -> io::Result<ProgramSampling> {
        let cannot = || io::Error::other(format!("the CPUs are not known: {ONLINE} cannot be read"));
        let online = Root::system().text(ONLINE).ok_or_else(cannot)?;
        let ring = |cpu: u32| match Counter::open_sampling(by.event(), cpu, rate) {
            Ok(counter) => Ring::map(counter).map(Some),
            // It has just gone.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(error),
        };
        let rings: io::Result<Vec<Option<Ring>>> = cpu_list(&online).into_iter().map(ring).collect();
        Ok(ProgramSampling(rings?.into_iter().flatten().collect()))
    }

    /// Takes what the kernel has added. The order is that of time only for each CPU.
    pub fn take(&mut self) -> Vec<SampledEvent> {
        self.0.iter_mut().flat_map(Ring::take).collect()
    }
}

/// A mapped ring. The kernel writes records and advances the head; this side advances the tail.
#[derive(Debug)]
struct Ring {
    /// Keeps the event open.
    _counter: Counter,
    start: *mut u8,
    page: usize,
    /// Bytes of the data behind the first page.
    bytes: usize,
}

impl Ring {
    fn map(counter: Counter) -> io::Result<Ring> {
        let page = rustix::param::page_size();
        let mut bytes = DATA_BYTES.max(page);
        loop {
            // SAFETY: a new mapping of a perf event, at an address that the kernel chooses.
            let start = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    page + bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED,
                    counter.as_raw_fd(),
                    0,
                )
            };
            if start != libc::MAP_FAILED {
                return Ok(Ring { _counter: counter, start: start.cast(), page, bytes });
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::PermissionDenied {
                return Err(error);
            }
            if bytes / 2 < LEAST_DATA_BYTES.max(page) {
                let what = format!("{} KiB for each CPU may not be locked ({error})", bytes >> 10);
                return Err(io::Error::new(io::ErrorKind::QuotaExceeded, what));
            }
            bytes /= 2;
        }
    }

    /// Returns the position at this offset of the first page.
    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page of the mapping is live as long as `self`, `offset` is HEAD or TAIL, both aligned to 8 in it,
        // and the kernel accesses them as single words.
        unsafe { AtomicU64::from_ptr(self.start.add(offset).cast()) }
    }

    /// Returns `bytes` bytes of the data from a position on, which may go round its end.
    fn copy(&self, from: u64, bytes: usize) -> Vec<u8> {
        let at = |n: usize| (from as usize).wrapping_add(n) % self.bytes;
        let byte = |n: usize| {
            // SAFETY: `at` is below the size of the data, which follow the first page. The kernel does not write between
            // tail and head; reads are volatile, because it does elsewhere.
            unsafe { self.start.add(self.page + at(n)).read_volatile() }
        };
        (0..bytes).map(byte).collect()
    }

    fn take(&mut self) -> Vec<SampledEvent> {
        // Pairs with the kernel's barrier before it advances the head.
        let head = self.position(HEAD).load(Ordering::Acquire);
        let mut tail = self.position(TAIL).load(Ordering::Relaxed);
        let mut events: Vec<SampledEvent> = Vec::new();
        // The kernel tells what it lost only with a record that comes later, and there may be none. Without room for a record, one may
        // have been lost.
        let is_full = head - tail + MAX_RECORD > self.bytes as u64;
        while tail < head {
            let header = self.copy(tail, records::HEADER);
            let bytes = u16::from_ne_bytes([header[6], header[7]]);
            // The kernel writes none that is shorter than its header, or reaches beyond the head.
            if usize::from(bytes) < records::HEADER || u64::from(bytes) > head - tail {
                tail = head;
                break;
            }
            events.extend(records::read(&self.copy(tail, bytes.into())));
            tail += u64::from(bytes);
        }
        if let Some(time) = events.last().map(|event| event.time).filter(|_| is_full) {
            events.push(SampledEvent { time, what: Sampled::Lost(1) });
        }
        // Everything has been copied before the kernel may write there again.
        self.position(TAIL).store(tail, Ordering::Release);
        events
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is this ring's own, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.cast(), self.page + self.bytes) };
    }
}

#[cfg(test)]
mod tests;
