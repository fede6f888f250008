//! The two ways to the right on AArch64.

use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr::NonNull;
use std::rc::Rc;
use std::time::Duration;

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

use super::trap;
use crate::clock;
use crate::driver::{Driver, Presence};
use crate::read::Root;

/// Who granted it.
#[derive(Debug)]
pub(super) enum Right {
    /// perf, by an event of ours that holds the counter.
    Perf(Event),
    /// Our own driver.
    Driver(Grant),
}

/// The driver's grant, given back when this is dropped.
#[derive(Debug)]
pub(super) struct Grant(Rc<Driver>);

/// An event of cycles of this thread, and its page.
#[derive(Debug)]
pub(super) struct Event {
    page: NonNull<u8>,
    bytes: usize,
    _counter: Counter,
}

/// Sleeps in which the thread is switched from and to again, which gives a right back.
const AGAIN: u32 = 3;
const MOMENT: Duration = Duration::from_micros(50);

/// Additions by which the counter must move when it is tried.
const ADDITIONS: u64 = 1 << 12;

/// Where Linux says whether user space may read counters (Documentation/arch/arm64/perf.rst).
const USER_ACCESS: &str = "/proc/sys/kernel/perf_user_access";

impl Right {
    /// By perf where that grants it, else by the driver; and in words how.
    pub(super) fn obtain(root: &Root, driver: &Presence, cpu: u32) -> Result<(Right, String), String> {
        let by_perf = match root.number(USER_ACCESS) {
            Some(1) => {
                Event::open(root, cpu).map_err(|error| format!("perf grants no event of cycles ({error})"))
            }
            Some(_) => Err("kernel.perf_user_access is 0".into()),
            None => Err("this kernel has no kernel.perf_user_access".into()),
        };
        let why = match by_perf {
            Ok(event) => {
                return Ok((Right::Perf(event), "granted by perf (kernel.perf_user_access is 1)".into()));
            }
            Err(why) => why,
        };
        match driver {
            Presence::There(driver) => {
                let granted =
                    driver.counters_on().map_err(|refusal| format!("{why}, and {}", refusal.reason))?;
                let grant = Grant(Rc::clone(driver));
                if !granted.in_force || granted.cpu != cpu {
                    return Err(format!("{why}, and the driver's grant is not in force"));
                }
                let whom = if granted.whole_cpu { "whoever runs on this CPU" } else { "this thread" };
                Ok((Right::Driver(grant), format!("granted by the fathom driver to {whom} ({why})")))
            }
            absent => Err(format!(
                "{why}, and Fathom's driver {}: sudo sysctl kernel.perf_user_access=1, or {}",
                absent.state(),
                absent.remedy()
            )),
        }
    }

    /// See [`super::Cycles::begin`].
    pub(super) fn begin(&self) {
        for _ in 0..AGAIN {
            if self.in_force() {
                break;
            }
            std::thread::sleep(MOMENT);
        }
        trap::taken();
    }

    fn in_force(&self) -> bool {
        match self {
            Right::Perf(event) => event.in_force(),
            Right::Driver(Grant(driver)) => driver.counters_state().is_ok_and(|state| state.in_force),
        }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        // Should it be gone already, there is nothing to give back.
        let _ = self.0.counters_off();
    }
}

/// Is the counter seen to be read, and to count?
pub(super) fn tried() -> Result<(), String> {
    trap::taken();
    let begin = super::read();
    clock::alu(ADDITIONS);
    let passed = super::read().wrapping_sub(begin);
    match (trap::taken(), passed) {
        (0, 1..) => Ok(()),
        (0, 0) => Err("the cycle counter can be read and stands still".into()),
        _ => Err("the right to read the cycle counter is said to be there and is not".into()),
    }
}

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
pub(super) fn pmu(root: &Root, cpu: u32) -> Option<u32> {
    const DEVICES: &str = "/sys/bus/event_source/devices";
    root.names(DEVICES).into_iter().find_map(|name| {
        let file = |what: &str| format!("{DEVICES}/{name}/{what}");
        root.text(&file("format/rdpmc"))?;
        let cpus = root.text(&file("cpus")).unwrap_or_default();
        let own = crate::read::cpu_list(&cpus).contains(&cpu);
        root.number(&file("type")).filter(|_| own).and_then(|number| u32::try_from(number).ok())
    })
}
