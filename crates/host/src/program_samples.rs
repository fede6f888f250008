//! Samples of programs: where the programs that the calling thread starts, and all that these start, execute in user space, by
//! the kernel's perf events.

use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::arch::{Architecture as _, Cpu};
use crate::core_pmus::{OnEach, Pmu, on_each, on_each_pmu, pmus};
use crate::memory_events::MemoryEvent;
use crate::perf::{Caller, Counter, Event, Pace, Sampling};
use crate::process::threads;
use crate::procfs::{Root, cpu_list};

mod event;
mod records;

pub use event::SampledBy;
use records::Format;
pub use records::{Sampled, SampledAccess, SampledEvent, Stack, StackMemory};

/// Bytes of a ring's data, a power of two: some 6000 samples, six seconds at 1000 a second; and below the kernel's limit for
/// each CPU without privileges (`perf_event_mlock_kb`, 516 KiB).
const DATA_BYTES: usize = 256 << 10;
/// The same for samples with a part of the stack, if so much may be locked: a quarter of a second at 1000 a second. Else half of
/// it, and so on.
const STACKS_DATA_BYTES: usize = 2 << 20;
/// All rings of a machine with many CPUs, at most.
const ALL_DATA_BYTES: usize = 64 << 20;
/// Bytes of the stack in a sample, as perf record --call-graph dwarf has them.
const STACK_BYTES: u32 = 8 << 10;
/// The same at least, at high rates.
const LEAST_STACK_BYTES: u32 = 1 << 10;
/// Stack that a ring without privileges holds between two readings, of [`ProgramSampling::INTERVAL_MS`], bytes.
const STACKS_BETWEEN_READINGS: u64 = 256 << 10;
/// The same at least, if more memory may not be locked.
const LEAST_DATA_BYTES: usize = 32 << 10;
/// Bytes of a record without the stack, at most: a mapping of a file with the longest path (4096), rounded up.
const MAX_RECORD: u64 = 8 << 10;
/// `struct perf_event_mmap_page`: offsets of `data_head` and `data_tail`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// The kernel's name for memory of no file, in records of mappings (kernel/events/core.c, `perf_event_mmap_event`).
const NO_FILE: &str = "//anon";
/// CPUs that are online.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// How the callers of a sample's function are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// They are not.
    Unknown,
    /// By the kernel, which follows frame pointers. Code that is compiled without them has none.
    FramePointers,
    /// From registers and the stack's nearest bytes in each sample, by the tables that the program has for its exceptions.
    Tables,
}

impl Callers {
    /// Best way on this architecture: tables are read for x86-64 and AArch64.
    pub const BEST: Callers =
        if Cpu::SAMPLED_REGISTERS == 0 { Callers::FramePointers } else { Callers::Tables };

    /// `rate` is that of samples in a second, if it is known.
    fn requested(self, rate: Option<u64>) -> Caller {
        match self {
            Callers::Unknown => Caller::Untold,
            Callers::FramePointers => Caller::FramePointers,
            Callers::Tables => {
                let samples = (rate.unwrap_or(0) * ProgramSampling::INTERVAL_MS / 1000).max(1);
                let fits = u32::try_from(STACKS_BETWEEN_READINGS / samples).unwrap_or(STACK_BYTES);
                let bytes = fits.clamp(LEAST_STACK_BYTES, STACK_BYTES) & !7;
                Caller::Stack { registers: Cpu::SAMPLED_REGISTERS, bytes }
            }
        }
    }
}

/// A counter that samples, and the leader of its group.
type Opened = (Option<Counter>, Counter);

/// Opens an event that samples, with the leader that it needs. A PMU that cannot leave out the kernel, as IBS of older kernels, samples it too,
/// which [`records::read`] leaves out.
fn sampled_with(
    event: Event,
    leader: Option<Event>,
    thread: Option<libc::pid_t>,
    cpu: u32,
    sampling: Sampling,
) -> io::Result<Opened> {
    let leader = leader.map(|leader| Counter::open_leader(leader, thread, cpu)).transpose()?;
    let open = |event: Event| Counter::open_sampling(event, thread, cpu, sampling, leader.as_ref());
    let opened = match open(event) {
        Err(error) if sampling.has_access && error.raw_os_error() == Some(libc::EINVAL) => {
            open(event.everywhere())
                .map_err(|other| if other.raw_os_error() == Some(libc::EINVAL) { error } else { other })
        }
        opened => opened,
    };
    Ok((leader, opened?))
}

/// Rings that the kernel fills with samples, one for each CPU.
#[derive(Debug)]
pub struct ProgramSampling {
    by: SampledBy,
    rings: Vec<Ring>,
    /// Where there are several types of CPUs.
    pmus: Vec<(Pmu, Option<io::Error>)>,
}

/// What a PMU has sampled, where CPUs of several types have a PMU each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledPmu {
    /// Its name in sysfs.
    pub name: String,
    /// Its CPUs, as the kernel lists them.
    pub cpus: String,
    /// Samples that were taken there.
    pub samples: u64,
    /// Events that were counted there, sampled or not.
    pub counted: u64,
    /// Why there are none: it does not have the event.
    pub refused: Option<String>,
}

impl ProgramSampling {
    /// Time from one call of [`ProgramSampling::take`] to the next, at most: some records are lost otherwise.
    pub const INTERVAL_MS: u64 = 20;

    /// Samples what the calling thread starts from now on. The clock keeps a rate by its period.
    ///
    /// # Errors
    /// perf_event_open(2) or mmap(2). Of kind `Unsupported`: [`Callers::Tables`] on an architecture that has none.
    pub fn open(by: SampledBy, pace: Pace, callers: Callers) -> io::Result<ProgramSampling> {
        ProgramSampling::of_threads(None, by, pace, callers)
    }

    /// Samples all threads of a process that runs already, and what they start, from now on. What it has mapped before is not told
    /// again: [`mapped`] returns it.
    ///
    /// # Errors
    /// perf_event_open(2) or mmap(2). Of kind `NotFound`: the process has ended.
    pub fn of_process(
        process: u32,
        by: SampledBy,
        pace: Pace,
        callers: Callers,
    ) -> io::Result<ProgramSampling> {
        let threads = threads(&Root::system(), process);
        ProgramSampling::of_threads(Some(&threads), by, pace, callers)
    }

    fn of_threads(
        threads: Option<&[libc::pid_t]>,
        by: SampledBy,
        pace: Pace,
        callers: Callers,
    ) -> io::Result<ProgramSampling> {
        if callers == Callers::Tables && Callers::BEST != callers {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "its tables are not read on this processor",
            ));
        }
        let (pace, rate) = by.paced(pace);
        let caller = callers.requested(rate);
        let each = match pace {
            Pace::Each(events) => Some(events),
            Pace::PerSecond(_) => None,
        };
        let has_access = by.tells_access();
        let format = Format { callers, each, has_data: by.tells_data() && each.is_some(), has_access };
        let sampling = Sampling { pace, caller, has_data: format.has_data, has_access };
        let cannot = || io::Error::other(format!("the CPUs are not known: {ONLINE} cannot be read"));
        let online = cpu_list(&Root::system().text(ONLINE).ok_or_else(cannot)?);
        let bytes = match callers {
            Callers::Tables => (ALL_DATA_BYTES / online.len().max(1)).clamp(DATA_BYTES, STACKS_DATA_BYTES),
            _ => DATA_BYTES,
        };
        let bytes = 1 << bytes.ilog2();
        let pmus = if by.is_of_processor() { pmus(&Root::system()) } else { Vec::new() };
        let ring = |(event, leader): (Event, Option<Event>), cpu: u32| {
            let open = |thread| match sampled_with(event, leader, thread, cpu, sampling) {
                Ok(counters) => Ok(Some(counters)),
                // The CPU or the thread has just gone.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ESRCH)) => Ok(None),
                Err(error) => Err(error),
            };
            let counters: io::Result<Vec<Option<Opened>>> = match threads {
                None => Ok(vec![open(None)?]),
                Some(threads) => threads.iter().map(|thread| open(Some(*thread))).collect(),
            };
            let (leaders, counters): (Vec<_>, Vec<_>) = counters?.into_iter().flatten().unzip();
            let mut ring = Ring::map(counters, format, bytes)?;
            if let Some(ring) = &mut ring {
                ring.leaders = leaders.into_iter().flatten().collect();
            }
            Ok(ring)
        };
        let OnEach { opened, pmus } = match by {
            SampledBy::Accesses(..) => on_each_pmu(pmus, &online, |pmu, cpu| ring(by.opening(pmu)?, cpu))?,
            _ => on_each(pmus, &online, by.opening(None)?.0, |event, cpu| ring((event, None), cpu))?,
        };
        let rings: Vec<Ring> =
            opened.into_iter().filter_map(|(pmu, ring)| ring.map(|ring| ring.of_pmu(pmu))).collect();
        if rings.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "it has ended"));
        }
        Ok(ProgramSampling { by, rings, pmus })
    }

    /// Takes what the kernel has added. The order is that of time only for each CPU.
    pub fn take(&mut self) -> Vec<SampledEvent> {
        self.rings.iter_mut().flat_map(Ring::take).collect()
    }

    /// Returns how many events were counted, sampled or not, of processes that have ended. `None` of the clock: its count has the
    /// time in the kernel too.
    ///
    /// # Errors
    /// read(2).
    pub fn counted(&mut self) -> io::Result<Option<u64>> {
        // IBS may count the kernel's operations, too.
        if matches!(self.by, SampledBy::CpuClock | SampledBy::Accesses(MemoryEvent::Operations, _)) {
            return Ok(None);
        }
        let counters = self.rings.iter_mut().flat_map(|ring| &mut ring.counters);
        let counts = counters.map(|counter| Ok(counter.read()?.count));
        counts.sum::<io::Result<u64>>().map(Some)
    }

    /// Returns what each PMU has sampled, where CPUs of several types have a PMU each; nothing elsewhere.
    ///
    /// # Errors
    /// read(2).
    pub fn pmus(&mut self) -> io::Result<Vec<SampledPmu>> {
        let sampled = |(pmu, refused): &(Pmu, Option<io::Error>)| SampledPmu {
            name: pmu.name.clone(),
            cpus: pmu.list.clone(),
            samples: 0,
            counted: 0,
            refused: refused.as_ref().map(io::Error::to_string),
        };
        let mut all: Vec<SampledPmu> = self.pmus.iter().map(sampled).collect();
        for ring in &mut self.rings {
            let Some(pmu) = ring.pmu.and_then(|nth| all.get_mut(nth)) else { continue };
            pmu.samples += ring.samples;
            for counter in &mut ring.counters {
                pmu.counted += counter.read()?.count;
            }
        }
        Ok(all)
    }
}

/// Returns the code that a process has mapped, as events before all others; with `has_data` all its memory.
#[must_use]
pub fn mapped(process: u32, has_data: bool) -> Vec<SampledEvent> {
    let root = Root::system();
    let read = |file: String| root.text(&file).filter(|maps| !maps.is_empty());
    // The first thread may have ended: then it has none, and another one has them.
    let others = || {
        threads(&root, process)
            .into_iter()
            .find_map(|thread| read(format!("/proc/{process}/task/{thread}/maps")))
    };
    let maps = read(format!("/proc/{process}/maps")).or_else(others);
    let maps = maps.unwrap_or_default();
    let all = maps.lines().filter_map(|line| mapping(process, line));
    let is_asked = |event: &SampledEvent| match &event.what {
        Sampled::Mapped { file, is_code, .. } => has_data || (*is_code && file != NO_FILE),
        _ => false,
    };
    let mut mapped: Vec<SampledEvent> = all.filter(is_asked).collect();
    if !is_in_own_files(process) {
        let seen = format!("/proc/{process}/root");
        for event in &mut mapped {
            if let Sampled::Mapped { file, .. } = &mut event.what {
                let is_file = file.starts_with('/') && file != NO_FILE;
                file.insert_str(0, if is_file { &seen } else { "" });
            }
        }
    }
    mapped
}

/// Returns whether a process has the files of this one: it is in the same mount namespace, and has the same root.
fn is_in_own_files(process: u32) -> bool {
    let same = |what: &str| {
        let of = |who: &str| std::fs::read_link(format!("/proc/{who}/{what}")).ok();
        of(&process.to_string()) == of("self")
    };
    same("ns/mnt") && same("root")
}

/// Reads a line of /proc/PID/maps (proc(5)): range, permissions, offset, device, inode, name.
fn mapping(process: u32, line: &str) -> Option<SampledEvent> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let is_code = words.next()?.contains('x');
    let offset = number(words.next()?)?;
    // The name may have blanks.
    let inode = words.nth(1)?;
    let file = line.split_once(&format!(" {inode} "))?.1.trim_start();
    let (start, end) = (number(start)?, number(end)?);
    let bytes = end.checked_sub(start)?;
    let file = if file.is_empty() { NO_FILE } else { file }.to_owned();
    let what = Sampled::Mapped { process, start, bytes, offset, file, is_code, build: None };
    Some(SampledEvent { time: 0, what })
}

/// A mapped ring. The kernel writes records and advances the head; this side advances the tail.
#[derive(Debug)]
struct Ring {
    /// Events that lead the groups of others, as long as these are open.
    leaders: Vec<Counter>,
    /// Number of the CPU's PMU, where there are several.
    pmu: Option<usize>,
    /// Samples that were taken.
    samples: u64,
    /// The events whose samples it has: of each thread. The first one's is mapped.
    counters: Vec<Counter>,
    /// What samples have.
    format: Format,
    start: *mut u8,
    page: usize,
    /// Bytes of the data behind the first page.
    bytes: usize,
}

impl Ring {
    /// Maps so many bytes of data, a power of two; fewer if they may not be locked. `None` without an event.
    fn map(counters: Vec<Counter>, format: Format, bytes: usize) -> io::Result<Option<Ring>> {
        let Some(first) = counters.first() else { return Ok(None) };
        let page = rustix::param::page_size();
        let mut bytes = bytes.max(page);
        loop {
            // SAFETY: a new mapping of a perf event, at an address that the kernel chooses.
            let start = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    page + bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED,
                    first.as_raw_fd(),
                    0,
                )
            };
            if start != libc::MAP_FAILED {
                let ring = Ring {
                    leaders: Vec::new(),
                    pmu: None,
                    samples: 0,
                    counters,
                    format,
                    start: start.cast(),
                    page,
                    bytes,
                };
                let mut all = ring.counters.iter();
                let first = all.next();
                all.try_for_each(|other| first.map_or(Ok(()), |first| other.send_to(first)))?;
                return Ok(Some(ring));
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

    /// Returns the ring of a CPU of this PMU.
    fn of_pmu(mut self, pmu: Option<usize>) -> Ring {
        self.pmu = pmu;
        self
    }

    /// Returns the position at this offset of the first page.
    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page of the mapping is live as long as `self`, `offset` is HEAD or TAIL, both aligned to 8 in it,
        // and the kernel accesses them as single words.
        unsafe { AtomicU64::from_ptr(self.start.add(offset).cast()) }
    }

    /// Returns `bytes` bytes of the data from a position on, which may go round its end.
    fn copy(&self, from: u64, bytes: usize) -> Vec<u8> {
        let begin = (from % self.bytes as u64) as usize;
        let bytes = bytes.min(self.bytes);
        let straight = bytes.min(self.bytes - begin);
        let mut copy = vec![0; bytes];
        for (at, part) in [(begin, 0..straight), (0, straight..bytes)] {
            // SAFETY: `at + part.len()` is not beyond the size of the data, which follow the first page; the destination is as
            // long as the part. The kernel does not write between tail and head.
            unsafe {
                let data = self.start.add(self.page + at);
                std::ptr::copy_nonoverlapping(data, copy[part.clone()].as_mut_ptr(), part.len());
            }
        }
        copy
    }

    fn take(&mut self) -> Vec<SampledEvent> {
        // Pairs with the kernel's barrier before it advances the head.
        let head = self.position(HEAD).load(Ordering::Acquire);
        let mut tail = self.position(TAIL).load(Ordering::Relaxed);
        let mut events: Vec<SampledEvent> = Vec::new();
        // The kernel tells what it lost only with a record that comes later, and there may be none. Without room for a record, one may
        // have been lost.
        let room =
            MAX_RECORD + if self.format.callers == Callers::Tables { u64::from(STACK_BYTES) } else { 0 };
        let is_full = head - tail + room > self.bytes as u64;
        while tail < head {
            let header = self.copy(tail, records::HEADER);
            let bytes = u16::from_ne_bytes([header[6], header[7]]);
            // The kernel writes none that is shorter than its header, or reaches beyond the head.
            if usize::from(bytes) < records::HEADER || u64::from(bytes) > head - tail {
                tail = head;
                break;
            }
            events.extend(records::read(&self.copy(tail, bytes.into()), self.format));
            tail += u64::from(bytes);
        }
        let samples = events.iter().filter(|event| matches!(event.what, Sampled::Sample { .. })).count();
        self.samples += samples as u64;
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
