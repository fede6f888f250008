//! The PMU's cycle counter, which perf grants to a thread through a perf event if `kernel.perf_user_access` is 1
//! (Linux 5.17).

use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr::NonNull;

use super::super::CycleCounter;
use super::{Cpu, trap};
use crate::perf::{self, Counter};
use crate::procfs::Root;

/// `PMCCNTR_EL0`. This type has no values.
pub(crate) enum Pmccntr {}

impl CycleCounter for Pmccntr {
    const READABLE: bool = true;
    const NAME: &'static str = "pmccntr";
    const REMEDY: &'static str = "sysctl kernel.perf_user_access=1";

    type Reader = trap::HandlerInstalled;
    type Grant = Event;

    /// Installs a handler of the exception that a reading without the right causes.
    fn prepare() -> io::Result<trap::HandlerInstalled> {
        trap::install()
    }

    fn grant(root: &Root, cpu: u32) -> Result<(Event, String), String> {
        match root.number(USER_ACCESS) {
            Some(1) => Event::open(root, cpu)
                .map(|event| (event, "granted by perf (kernel.perf_user_access is 1)".into()))
                .map_err(|error| format!("perf does not grant a cycle event ({error})")),
            Some(_) => Err("kernel.perf_user_access is 0".into()),
            None => Err("this kernel has no kernel.perf_user_access".into()),
        }
    }

    fn in_force(grant: &Event) -> bool {
        grant.in_force()
    }

    #[inline(always)]
    fn read(_installed: trap::HandlerInstalled) -> u64 {
        // SAFETY: if the kernel does not permit the read, the instruction is illegal, and the installed handler sets
        // the register instead.
        unsafe { Cpu::cycles() }
    }

    fn take_denied() -> u64 {
        trap::take_replaced()
    }
}

/// A cycle event of this thread, and its page.
#[derive(Debug)]
pub(crate) struct Event {
    page: NonNull<u8>,
    bytes: usize,
    _counter: Counter,
}

/// File that contains whether user space may read counters (Documentation/arch/arm64/perf.rst).
const USER_ACCESS: &str = "/proc/sys/kernel/perf_user_access";

/// Cycle event, `CPU_CYCLES` (DDI 0487, "PMU events").
const CPU_CYCLES: u64 = 0x11;
/// `config1` of arm_pmuv3: 64 bits wide, and readable from user space (format/long, format/rdpmc).
const CONFIG1_LONG_AND_READABLE: u64 = 3;

/// In `struct perf_event_mmap_page` (include/uapi/linux/perf_event.h): offsets of `index` and `capabilities`, the bit
/// `cap_user_rdpmc`, and the index of the cycle counter (`ARMV8_PMU_CYCLE_IDX` plus 1).
const INDEX_OFFSET: usize = 12;
const CAPABILITIES_OFFSET: usize = 40;
const CAP_USER_RDPMC: u64 = 1 << 2;
const CYCLE_COUNTER_INDEX: u32 = 32;

impl Event {
    /// Opens it for the calling thread. The kernel's cycles are counted, too: a clock must not stop.
    fn open(root: &Root, cpu: u32) -> io::Result<Event> {
        let kind =
            pmu(root, cpu).ok_or_else(|| io::Error::other("no PMU of this CPU permits user-space reads"))?;
        let event = perf::Event::new(kind, CPU_CYCLES);
        let counter = Counter::open_pinned(event, CONFIG1_LONG_AND_READABLE)?;
        let bytes = rustix::param::page_size();
        // SAFETY: a new read-only mapping at an address of the kernel's choice.
        let raw = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, counter.as_raw_fd(), 0)
        };
        if raw == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let page = NonNull::new(raw.cast()).ok_or_else(|| io::Error::other("a mapping at 0"))?;
        let event = Event { page, bytes, _counter: counter };
        event
            .in_force()
            .then_some(event)
            .ok_or_else(|| io::Error::other("another program has the cycle counter"))
    }

    /// Returns whether the event is on the cycle counter now, and user space may read it.
    fn in_force(&self) -> bool {
        // SAFETY: the page is mapped for as long as this lives, page-aligned, and both fields are in it, aligned;
        // volatile, because the kernel writes it. It writes while this thread does not run.
        let (index, capabilities) = unsafe {
            let at = self.page.as_ptr();
            (
                at.add(INDEX_OFFSET).cast::<u32>().read_volatile(),
                at.add(CAPABILITIES_OFFSET).cast::<u64>().read_volatile(),
            )
        };
        index == CYCLE_COUNTER_INDEX && capabilities & CAP_USER_RDPMC != 0
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: mapped by `open` with this length, unmapped once, and nothing refers to it.
        unsafe { libc::munmap(self.page.as_ptr().cast(), self.bytes) };
    }
}

/// Returns the type of the PMU that counts for `cpu` and permits user-space reads.
fn pmu(root: &Root, cpu: u32) -> Option<u32> {
    const DEVICES: &str = "/sys/bus/event_source/devices";
    root.names(DEVICES).into_iter().find_map(|name| {
        let file = |what: &str| format!("{DEVICES}/{name}/{what}");
        root.text(&file("format/rdpmc"))?;
        let cpus = root.text(&file("cpus")).unwrap_or_default();
        let counts_for_cpu = crate::procfs::cpu_list(&cpus).contains(&cpu);
        root.number(&file("type")).filter(|_| counts_for_cpu).and_then(|number| u32::try_from(number).ok())
    })
}

#[cfg(test)]
mod tests;
