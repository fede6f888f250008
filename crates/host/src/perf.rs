//! Counters of the kernel's perf events, each for the thread that opens it (perf_event_open(2)).
//!
//! These are own bindings, because no maintained crate has any for 32-bit ARM. A test compares them with those of
//! `perf-event-open-sys2`.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd, FromRawFd as _, RawFd};

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// `type` and `config` of include/uapi/linux/perf_event.h.
    kind: u32,
    config: u64,
    /// For the PMU's driver, as the last one.
    config1: u64,
    config2: u64,
    /// `precise_ip`: 0 to 3, of samples without skid.
    precise: u8,
    /// Whether it is counted in the kernel too.
    everywhere: bool,
}

/// `PERF_TYPE_HARDWARE`, `PERF_TYPE_SOFTWARE` and `PERF_TYPE_HW_CACHE`.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const CACHE: u32 = 3;
/// `PERF_PMU_TYPE_SHIFT`: the PMU of a generalised event, where there are several for CPUs.
const PMU_SHIFT: u32 = 32;
/// `PERF_COUNT_HW_CACHE_RESULT_MISS`, shifted as in a `config`. The operation, 0, is a read.
const READ_MISS: u64 = 1 << 16;

impl Event {
    pub(crate) const CPU_CLOCK: Event = Event::new(SOFTWARE, 0);
    pub(crate) const TASK_CLOCK: Event = Event::new(SOFTWARE, 1);
    pub(crate) const PAGE_FAULTS: Event = Event::new(SOFTWARE, 2);
    pub(crate) const CONTEXT_SWITCHES: Event = Event::new(SOFTWARE, 3);
    pub(crate) const CPU_CYCLES: Event = Event::new(HARDWARE, 0);
    pub(crate) const INSTRUCTIONS: Event = Event::new(HARDWARE, 1);
    pub(crate) const BRANCHES: Event = Event::new(HARDWARE, 4);
    pub(crate) const BRANCH_MISSES: Event = Event::new(HARDWARE, 5);
    pub(crate) const FRONTEND_STALLS: Event = Event::new(HARDWARE, 7);
    pub(crate) const BACKEND_STALLS: Event = Event::new(HARDWARE, 8);
    pub(crate) const L1D_READS: Event = Event::new(CACHE, 0);
    pub(crate) const L1D_READ_MISSES: Event = Event::new(CACHE, READ_MISS);
    pub(crate) const L1I_READ_MISSES: Event = Event::new(CACHE, 1 | READ_MISS);
    pub(crate) const LAST_LEVEL_READS: Event = Event::new(CACHE, 2);
    pub(crate) const LAST_LEVEL_READ_MISSES: Event = Event::new(CACHE, 2 | READ_MISS);
    pub(crate) const DTLB_READ_MISSES: Event = Event::new(CACHE, 3 | READ_MISS);
    pub(crate) const ITLB_READ_MISSES: Event = Event::new(CACHE, 4 | READ_MISS);

    pub(crate) const fn new(kind: u32, config: u64) -> Event {
        Event { kind, config, config1: 0, config2: 0, precise: 0, everywhere: false }
    }

    /// Returns the same event with what its PMU's driver has to know.
    pub(crate) const fn of_driver(self, [config1, config2]: [u64; 2]) -> Event {
        Event { config1, config2, ..self }
    }

    /// Returns the same event, whose samples are so precise (`precise_ip`).
    pub(crate) const fn precise(self, precise: u8) -> Event {
        Event { precise, ..self }
    }

    /// Returns `type`, `config` and flags, in user space.
    pub(crate) const fn attributes(self) -> (u32, u64, u64) {
        (self.kind, self.config, if self.everywhere { 0 } else { USER })
    }

    /// Returns the same event, counted in the kernel too.
    pub(crate) const fn everywhere(self) -> Event {
        Event { everywhere: true, ..self }
    }

    /// Returns the same generalised event of a certain PMU (`type` in sysfs).
    pub(crate) const fn of_pmu(self, pmu: u32) -> Event {
        Event { config: self.config | (pmu as u64) << PMU_SHIFT, ..self }
    }
}

/// `struct perf_event_attr` up to `sample_max_stack` (`PERF_ATTR_SIZE_VER5`). A kernel that knows a shorter one accepts this one if the
/// rest is 0.
#[repr(C)]
#[derive(Debug, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

impl Attributes {
    fn of(event: Event, flags: u64) -> Attributes {
        let Event { kind, config, config1, config2, precise, everywhere } = event;
        let flags = if everywhere { flags & !USER } else { flags } | u64::from(precise) << PRECISE_SHIFT;
        let size = size_of::<Attributes>() as u32;
        Attributes { kind, size, config, config1, config2, flags, ..Attributes::default() }
    }

    /// Opens the event of the calling thread on a CPU; -1: on all of them.
    fn open(&self, cpu: libc::c_int, leader: Option<&Counter>) -> io::Result<Counter> {
        let this_thread = 0;
        self.open_of(this_thread, cpu, leader)
    }

    /// The same of a thread, by its number.
    fn open_of(
        &self,
        thread: libc::pid_t,
        cpu: libc::c_int,
        leader: Option<&Counter>,
    ) -> io::Result<Counter> {
        let group: libc::c_int = leader.map_or(-1, Counter::as_raw_fd);
        // SAFETY: the kernel reads `size` bytes of `self`, which is live; the other arguments are integers.
        let fd = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const *self, thread, cpu, group, CLOSE_ON_EXEC)
        };
        let fd = RawFd::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: a new descriptor that nothing else owns.
        Ok(Counter(unsafe { File::from_raw_fd(fd) }))
    }
}

/// Bits of [`Attributes::flags`].
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const PINNED: u64 = 1 << 2;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const WITH_MAPPINGS: u64 = 1 << 8;
const WITH_NAMES: u64 = 1 << 9;
const FREQUENCY: u64 = 1 << 10;
const WITH_DATA_MAPPINGS: u64 = 1 << 17;
const ENABLE_ON_EXEC: u64 = 1 << 12;
/// `precise_ip`, two bits.
const PRECISE_SHIFT: u32 = 15;
const WITH_TASKS: u64 = 1 << 13;
const ID_OF_ALL: u64 = 1 << 18;
const MAPPINGS_WITH_INODES: u64 = 1 << 23;
const NAMES_TELL_EXEC: u64 = 1 << 24;
const NO_KERNEL_CALLERS: u64 = 1 << 21;
/// Since Linux 5.12: mappings tell the file's build id, instead of device and inode.
const MAPPINGS_WITH_BUILDS: u64 = 1 << 34;
/// `PERF_SAMPLE_IP`, `_TID` and `_TIME`; then either `_ADDR` or `_PERIOD`, each a word. The kernel ignores the period of its own events
/// if samples have it and no frequency (kernel/events/core.c, `perf_swevent_event`).
const SAMPLED: u64 = 1 | 2 | 4;
const WITH_ADDRESS: u64 = 1 << 3;
const WITH_PERIOD: u64 = 1 << 8;
/// `PERF_SAMPLE_CALLCHAIN`, `_REGS_USER` and `_STACK_USER`.
const WITH_CALLERS: u64 = 1 << 5;
const WITH_REGISTERS: u64 = 1 << 12;
const WITH_STACK: u64 = 1 << 13;
/// `PERF_SAMPLE_WEIGHT` and `_DATA_SRC`, which come last.
const WITH_ACCESS: u64 = 1 << 14 | 1 << 15;
/// User space only.
const USER: u64 = EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
/// `PERF_FORMAT_TOTAL_TIME_ENABLED` and `PERF_FORMAT_TOTAL_TIME_RUNNING`.
const WITH_TIMES: u64 = 1 | 2;
/// `PERF_EVENT_IOC_ENABLE` and `_SET_OUTPUT`: `_IO('$', 0)` and `_IO('$', 5)`.
const ENABLE: u32 = 0x2400;
const SET_OUTPUT: u32 = 0x2405;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// What a sample tells of how the program got there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Nothing.
    Untold,
    /// Return addresses, which the kernel finds by frame pointers.
    FramePointers,
    /// Registers (a bit for each number of asm/perf_regs.h) and the stack's nearest bytes, a multiple of 8.
    Stack { registers: u64, bytes: u32 },
}

impl Caller {
    /// Returns `sample_type`, flags, `sample_regs_user` and `sample_stack_user`.
    fn attributes(self) -> (u64, u64, u64, u32) {
        match self {
            Caller::Untold => (0, 0, 0, 0),
            Caller::FramePointers => (WITH_CALLERS, NO_KERNEL_CALLERS, 0, 0),
            Caller::Stack { registers, bytes } => (WITH_REGISTERS | WITH_STACK, 0, registers, bytes),
        }
    }
}

/// When an event makes a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At each so many events; of the clock: ns.
    Each(u64),
    /// So often a second: the kernel changes the number of events from sample to sample.
    PerSecond(u64),
}

/// What samples have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampling {
    pub(crate) pace: Pace,
    pub(crate) caller: Caller,
    /// Whether mappings of data are told, as those of code are.
    pub(crate) has_data: bool,
    /// Whether samples tell the latency of an access, and where its data were.
    pub(crate) has_access: bool,
    /// Of an event that writes a trace: a record tells of each so many bytes. Else 0.
    pub(crate) told_bytes: u32,
}

/// An open counter, which has counted since it was opened.
#[derive(Debug)]
pub(crate) struct Counter(File);

/// A reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) count: u64,
    /// Time in which its thread, or what that has started, was on a CPU since the counter was enabled, ns.
    pub(crate) enabled_ns: u64,
    /// Part of it in which the event really had a hardware counter, ns.
    pub(crate) running_ns: u64,
}

impl Counter {
    /// Opens a counter of the calling thread in user space, which `perf_event_paranoid` up to 2 permits to everyone.
    pub(crate) fn open(event: Event) -> io::Result<Counter> {
        Counter::open_with(event, USER, 0, None)
    }

    /// The same, counted only while the whole group of `leader` is. A leader counts nothing, nor does its group, before it is
    /// enabled: a counter that joins a group that counts would have a hardware counter only later.
    pub(crate) fn open_in_group(event: Event, leader: Option<&Counter>) -> io::Result<Counter> {
        let disabled = if leader.is_none() { DISABLED } else { 0 };
        Counter::open_with(event, USER | disabled, 0, leader)
    }

    /// Opens a counter, in user space, of the programs that the calling thread starts from now on, and of all that these
    /// start. It counts from exec(2) on, and includes those that have ended.
    pub(crate) fn open_for_programs(event: Event, leader: Option<&Counter>) -> io::Result<Counter> {
        // The other counters of a group follow its leader.
        let enabled = if leader.is_none() { DISABLED | ENABLE_ON_EXEC } else { 0 };
        Counter::open_with(event, USER | INHERIT | enabled, 0, leader)
    }

    /// Opens a counter of a thread that runs already, in user space, and of what it starts from now on. It counts while its leader is
    /// enabled.
    pub(crate) fn open_of_thread(
        event: Event,
        thread: libc::pid_t,
        leader: Option<&Counter>,
    ) -> io::Result<Counter> {
        let disabled = if leader.is_none() { DISABLED } else { 0 };
        let attributes =
            Attributes { read_format: WITH_TIMES, ..Attributes::of(event, USER | INHERIT | disabled) };
        attributes.open_of(thread, -1, leader)
    }

    /// Opens a counter of the calling thread, everywhere, that always has its hardware counter or counts nothing.
    /// `config1` is for the PMU's driver.
    #[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
    pub(crate) fn open_pinned(event: Event, config1: u64) -> io::Result<Counter> {
        Counter::open_with(event, PINNED, config1, None)
    }

    /// Opens an event that counts, on a CPU, such programs, or a thread that runs already, for another one to join its group.
    pub(crate) fn open_leader(event: Event, thread: Option<libc::pid_t>, cpu: u32) -> io::Result<Counter> {
        let begin = if thread.is_some() { 0 } else { DISABLED | ENABLE_ON_EXEC };
        let of = Attributes { read_format: WITH_TIMES, ..Attributes::of(event, USER | INHERIT | begin) };
        of.open_of(thread.unwrap_or(0), libc::c_int::try_from(cpu).unwrap_or(libc::c_int::MAX), None)
    }

    /// Opens an event that samples, on a CPU, such programs; or a thread that runs already, and what it starts. Read, it tells how many
    /// events there were, sampled or not.
    pub(crate) fn open_sampling(
        event: Event,
        thread: Option<libc::pid_t>,
        cpu: u32,
        sampling: Sampling,
        leader: Option<&Counter>,
    ) -> io::Result<Counter> {
        let Sampling { pace, caller, has_data, has_access, told_bytes } = sampling;
        // The other counters of a group follow its leader.
        let begin = if thread.is_some() || leader.is_some() { 0 } else { DISABLED | ENABLE_ON_EXEC };
        let (sample_period, paced, with) = match pace {
            Pace::Each(events) => (events, 0, WITH_ADDRESS),
            Pace::PerSecond(rate) => (rate, FREQUENCY, WITH_PERIOD),
        };
        let (kind, flags, sample_regs_user, sample_stack_user) = caller.attributes();
        let told =
            WITH_MAPPINGS | MAPPINGS_WITH_INODES | WITH_NAMES | NAMES_TELL_EXEC | WITH_TASKS | ID_OF_ALL;
        let flags = flags | paced | if has_data { WITH_DATA_MAPPINGS } else { 0 };
        let with = with | if has_access { WITH_ACCESS } else { 0 };
        let open = |more: u64| {
            let attributes = Attributes {
                sample_period,
                sample_type: SAMPLED | with | kind,
                read_format: WITH_TIMES,
                sample_regs_user,
                sample_stack_user,
                aux_watermark: told_bytes,
                ..Attributes::of(event, USER | INHERIT | begin | told | flags | more)
            };
            attributes.open_of(
                thread.unwrap_or(0),
                libc::c_int::try_from(cpu).unwrap_or(libc::c_int::MAX),
                leader,
            )
        };
        match open(MAPPINGS_WITH_BUILDS) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => open(0),
            opened => opened,
        }
    }

    fn open_with(event: Event, flags: u64, config1: u64, leader: Option<&Counter>) -> io::Result<Counter> {
        let any_cpu = -1;
        Attributes { config1, read_format: WITH_TIMES, ..Attributes::of(event, flags) }.open(any_cpu, leader)
    }

    /// Enables the leader of a group, and those that it has inherited to.
    pub(crate) fn enable(&self) -> io::Result<()> {
        // SAFETY: the request has an integer as its argument, 0 for this counter and its group.
        let failed = unsafe { libc::ioctl(self.as_raw_fd(), ENABLE as _, 0) };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Sends its samples to the ring of another event on the same CPU.
    pub(crate) fn send_to(&self, other: &Counter) -> io::Result<()> {
        // SAFETY: the request has a descriptor as its argument.
        let failed = unsafe { libc::ioctl(self.as_raw_fd(), SET_OUTPUT as _, other.as_raw_fd()) };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Reads it.
    pub(crate) fn read(&mut self) -> io::Result<Reading> {
        let mut bytes = [0; 24];
        self.0.read_exact(&mut bytes)?;
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[8 * at + byte]));
        Ok(Reading { count: word(0), enabled_ns: word(1), running_ns: word(2) })
    }
}

impl AsRawFd for Counter {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
pub(crate) mod tests;
