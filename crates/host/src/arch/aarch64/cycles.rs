//! The PMU's cycle counter, which perf grants a thread by an event of its own where `kernel.perf_user_access` is 1
//! (Linux 5.17).

use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr::NonNull;

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

use super::super::CycleCounter;
use super::{Cpu, trap};
use crate::procfs::Root;

/// `PMCCNTR_EL0`. There are no values of it.
pub(crate) enum Pmccntr {}

impl CycleCounter for Pmccntr {
    const READABLE: bool = true;
    const NAME: &'static str = "pmccntr";
    const REMEDY: &'static str = "sysctl kernel.perf_user_access=1";

    type Reader = trap::Installed;
    type Grant = Event;

    /// Installs a handler of the exception that a reading without the right is.
    fn prepare() -> io::Result<trap::Installed> {
        trap::install()
    }

    fn grant(root: &Root, cpu: u32) -> Result<(Event, String), String> {
        match root.number(USER_ACCESS) {
            Some(1) => Event::open(root, cpu)
                .map(|event| (event, "granted by perf (kernel.perf_user_access is 1)".into()))
                .map_err(|error| format!("perf grants no event of cycles ({error})")),
            Some(_) => Err("kernel.perf_user_access is 0".into()),
            None => Err("this kernel has no kernel.perf_user_access".into()),
        }
    }

    fn in_force(grant: &Event) -> bool {
        grant.in_force()
    }

    #[inline(always)]
    fn read(_installed: trap::Installed) -> u64 {
        // SAFETY: where the kernel does not permit the read, the instruction is illegal, and the handler, which is
        // installed and stays, sets the register in its place.
        unsafe { Cpu::cycles() }
    }

    fn denied() -> u64 {
        trap::taken()
    }
}

/// An event of cycles of this thread, and its page.
#[derive(Debug)]
pub(crate) struct Event {
    page: NonNull<u8>,
    bytes: usize,
    _counter: Counter,
}

/// Where Linux says whether user space may read counters (Documentation/arch/arm64/perf.rst).
const USER_ACCESS: &str = "/proc/sys/kernel/perf_user_access";

/// The event of cycles, `CPU_CYCLES` (DDI 0487, "PMU events").
const CPU_CYCLES: u64 = 0x11;
/// `config1` of arm_pmuv3: 64 bits wide, and readable by user space (format/long, format/rdpmc).
const LONG_AND_READABLE: u64 = 3;

/// Of `struct perf_event_mmap_page` (include/uapi/linux/perf_event.h): where `index` and `capabilities` lie, the bit
/// `cap_user_rdpmc`, and the index by which the cycle counter is named (`ARMV8_PMU_CYCLE_IDX` and 1).
const INDEX: usize = 12;
const CAPABILITIES: usize = 40;
const USER_READS: u64 = 1 << 2;
const CYCLE_COUNTER: u32 = 32;

impl Event {
    /// Opens it for the calling thread, with what the kernel does counted too: a clock leaves nothing out.
    fn open(root: &Root, cpu: u32) -> io::Result<Event> {
        let kind =
            pmu(root, cpu).ok_or_else(|| io::Error::other("no PMU of this CPU's lets user space read"))?;
        let mut builder = Builder::new(Hardware::CPU_CYCLES);
        let attributes = builder.pinned(true).exclude_kernel(false).exclude_hv(false).attrs_mut();
        (attributes.type_, attributes.config) = (kind, CPU_CYCLES);
        attributes.__bindgen_anon_3.config1 = LONG_AND_READABLE;
        let mut counter = builder.build()?;
        counter.enable()?;
        let bytes = rustix::param::page_size();
        // SAFETY: a new mapping at an address of the kernel's choice, to be read alone.
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
            .ok_or_else(|| io::Error::other("somebody else has the cycle counter"))
    }

    /// Is the event on the cycle counter right now, and may user space read that?
    fn in_force(&self) -> bool {
        // SAFETY: the page is mapped for as long as this lives, page-aligned, and both fields lie in it, aligned;
        // volatile, because the kernel writes it. It writes while this thread does not run.
        let (index, capabilities) = unsafe {
            let at = self.page.as_ptr();
            (at.add(INDEX).cast::<u32>().read_volatile(), at.add(CAPABILITIES).cast::<u64>().read_volatile())
        };
        index == CYCLE_COUNTER && capabilities & USER_READS != 0
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: mapped by `open` with this length, unmapped once, and nothing refers to it.
        unsafe { libc::munmap(self.page.as_ptr().cast(), self.bytes) };
    }
}

/// The type of the PMU that counts for `cpu` and lets user space read.
fn pmu(root: &Root, cpu: u32) -> Option<u32> {
    const DEVICES: &str = "/sys/bus/event_source/devices";
    root.names(DEVICES).into_iter().find_map(|name| {
        let file = |what: &str| format!("{DEVICES}/{name}/{what}");
        root.text(&file("format/rdpmc"))?;
        let cpus = root.text(&file("cpus")).unwrap_or_default();
        let own = crate::procfs::cpu_list(&cpus).contains(&cpu);
        root.number(&file("type")).filter(|_| own).and_then(|number| u32::try_from(number).ok())
    })
}

#[cfg(test)]
mod tests;
