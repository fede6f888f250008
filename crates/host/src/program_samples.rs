//! Samples of programs: where the programs that the calling thread starts, and all that these start, execute in user space, by
//! the kernel's perf events.

use std::io;

use crate::arch::{Architecture as _, Cpu};
use crate::core_pmus::{OnEach, Pmu, on_each, on_each_pmu, pmus};
use crate::memory_events::{least_spe_interval, midr};
use crate::perf::{Caller, Counter, Event, Pace, Sampling};
use crate::process::threads;
use crate::procfs::{Root, cpu_list};

mod access;
mod event;
mod records;
mod ring;
mod shared;
mod trace;

pub use access::{DataSource, SampledAccess};
pub use event::SampledBy;
use records::Format;
pub use records::{Gap, Sampled, SampledEvent, Stack, StackMemory};
use ring::Ring;
use trace::Traced;

/// Bytes of a ring's data, a power of two: some 6000 samples, six seconds at 1000 a second; and below the kernel's limit for
/// each CPU without privileges (`perf_event_mlock_kb`, 516 KiB).
const DATA_BYTES: usize = 256 << 10;
/// The same if a trace has the samples.
const TRACED_DATA_BYTES: usize = 64 << 10;
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

/// How the rings of CPUs are opened.
struct How<'a> {
    by: SampledBy,
    /// Threads of a process that runs already; else what the calling thread starts.
    threads: Option<&'a [libc::pid_t]>,
    sampling: Sampling,
    format: Format,
    /// Bytes of a ring's data.
    bytes: usize,
}

impl How<'_> {
    /// Opens the ring of a CPU; `None` if that or all threads have just gone.
    fn ring(&self, (event, leader): (Event, Option<Event>), cpu: u32) -> io::Result<Option<Ring>> {
        let traced = self.by.is_traced().then(|| self.traced(cpu)).transpose()?;
        let open = |thread| match sampled_with(event, leader, thread, cpu, self.sampling) {
            Ok(counters) => Ok(Some(counters)),
            // The CPU or the thread has just gone.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ESRCH)) => Ok(None),
            Err(error) => Err(error),
        };
        let counters: io::Result<Vec<Option<Opened>>> = match self.threads {
            None => Ok(vec![open(None)?]),
            Some(threads) => threads.iter().map(|thread| open(Some(*thread))).collect(),
        };
        let (leaders, counters): (Vec<_>, Vec<_>) = counters?.into_iter().flatten().unzip();
        let mut ring = Ring::map(counters, self.format, self.bytes, traced)?;
        if let Some(ring) = &mut ring {
            ring.leaders = leaders.into_iter().flatten().collect();
        }
        Ok(ring)
    }

    /// Returns what samples of a trace of this CPU have.
    fn traced(&self, cpu: u32) -> io::Result<Traced> {
        let (root, weight) = (Root::system(), self.format.each.unwrap_or(1));
        // The kernel would take the longer interval, and not tell.
        match least_spe_interval(&root, cpu).filter(|least| weight < *least) {
            Some(least) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the shortest interval of CPU {cpu} is {least} operations"),
            )),
            None => Ok(Traced {
                weight,
                midr: midr(&root, cpu),
                without: self.threads.is_none().then(std::process::id),
            }),
        }
    }
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
    /// Events that were counted there, sampled or not, if they are counted.
    pub counted: Option<u64>,
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
        if by.is_traced() && callers != Callers::Unknown {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "samples of a trace have no callers"));
        }
        let (pace, rate) = by.paced(pace);
        let caller = callers.requested(rate);
        let each = match pace {
            Pace::Each(events) => Some(events),
            Pace::PerSecond(_) => None,
        };
        let has_access = by.tells_access() && !by.is_traced();
        let format = Format { callers, each, has_data: by.tells_data() && each.is_some(), has_access };
        let told_bytes = if by.is_traced() { trace::TOLD_BYTES } else { 0 };
        let sampling = Sampling { pace, caller, has_data: format.has_data, has_access, told_bytes };
        let cannot = || io::Error::other(format!("the CPUs are not known: {ONLINE} cannot be read"));
        let online = cpu_list(&Root::system().text(ONLINE).ok_or_else(cannot)?);
        let bytes = match callers {
            Callers::Tables => (ALL_DATA_BYTES / online.len().max(1)).clamp(DATA_BYTES, STACKS_DATA_BYTES),
            _ if by.is_traced() => TRACED_DATA_BYTES,
            _ => DATA_BYTES,
        };
        let bytes = 1 << bytes.ilog2();
        let pmus = if by.is_of_processor() { pmus(&Root::system()) } else { Vec::new() };
        let how = How { by, threads, sampling, format, bytes };
        let ring = |opening, cpu| how.ring(opening, cpu);
        let OnEach { opened, pmus } = match by {
            SampledBy::Accesses(..) => {
                on_each_pmu(pmus, &online, |pmu, cpu| ring(by.opening(pmu, cpu)?, cpu))?
            }
            _ => on_each(pmus, &online, by.opening(None, 0)?.0, |event, cpu| ring((event, None), cpu))?,
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
        if !self.by.is_counted() {
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
            counted: self.by.is_counted().then_some(0),
            refused: refused.as_ref().map(io::Error::to_string),
        };
        let mut all: Vec<SampledPmu> = self.pmus.iter().map(sampled).collect();
        for ring in &mut self.rings {
            let Some(pmu) = ring.pmu.and_then(|nth| all.get_mut(nth)) else { continue };
            pmu.samples += ring.samples;
            for counter in &mut ring.counters {
                let count = counter.read()?.count;
                pmu.counted = pmu.counted.map(|counted| counted + count);
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

#[cfg(test)]
mod tests;
