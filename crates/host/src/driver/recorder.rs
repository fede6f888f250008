//! Wake-ups of a kernel thread, which the driver writes into memory that is mapped here.

use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};

use fathom_probe::machine::Refusal;

use super::{Driver, refused, uapi};

/// Scheduling policy of the recorder's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// As an ordinary task.
    Normal,
    /// `SCHED_FIFO`, lowest priority.
    FifoLow,
    /// `SCHED_FIFO`, middle priority, as the kernel gives it to its own threads (`sched_set_fifo`).
    Fifo,
}

impl Policy {
    /// Returns the policy of a task with this real-time priority.
    pub(crate) fn of(priority: u64) -> Policy {
        match priority {
            0 => Policy::Normal,
            1 => Policy::FifoLow,
            _ => Policy::Fifo,
        }
    }

    /// Returns the policy's text in the record.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Policy::Normal => "SCHED_OTHER",
            Policy::FifoLow => "SCHED_FIFO 1",
            // `MAX_RT_PRIO / 2` (Linux, kernel/sched/syscalls.c).
            Policy::Fifo => "SCHED_FIFO 50",
        }
    }

    fn number(self) -> u32 {
        (match self {
            Policy::Normal => uapi::POLICY_NORMAL,
            Policy::FifoLow => uapi::POLICY_FIFO_LOW,
            Policy::Fifo => uapi::POLICY_FIFO,
        }) as u32
    }
}

/// One activation, ns of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Activation {
    /// Expiry time of the timer.
    pub(crate) expires_ns: u64,
    /// Time at which its handler ran.
    pub(crate) irq_ns: u64,
    /// Time at which the thread ran.
    pub(crate) task_ns: u64,
}

/// A running recorder; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Recorder {
    driver: Rc<Driver>,
    memory: Memory,
    rows: u32,
}

/// Bytes before the first row.
const HEADER_BYTES: usize = size_of::<uapi::Wakes>();
const ROW_BYTES: usize = size_of::<uapi::Wake>();

impl Recorder {
    /// Starts a recorder that sets its timer every `period_ns` on `cpu`, until it has `rows` rows.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if the driver rejects the period or the number of rows, or cannot run another recorder.
    pub(crate) fn start(
        driver: &Rc<Driver>,
        period_ns: u64,
        cpu: u32,
        policy: Policy,
        rows: u64,
    ) -> Result<Recorder, Refusal> {
        let (least, most) = (uapi::WAKE_MIN_NS, uapi::WAKE_MAX_NS);
        if !(least..=most).contains(&period_ns) {
            let reason = format!("the driver's recorder cannot use a period of {period_ns} ns");
            return Err(Refusal::new(
                reason,
                format!("choose {} us to {} s", least / 1000, most / 1_000_000_000),
            ));
        }
        let rows = rows.clamp(1, uapi::WAKE_MAX_ROWS) as u32;
        let mut start =
            uapi::WakeStart { period_ns, cpu, policy: policy.number(), rows, ..uapi::WakeStart::default() };
        driver.call(uapi::IOC_WAKE_START, &mut start).map_err(|e| refused("a recorder of wake-ups", &e))?;
        match Memory::map(driver, start.offset, start.bytes, rows) {
            Ok(memory) => Ok(Recorder { driver: Rc::clone(driver), memory, rows }),
            Err(error) => {
                let _ = driver.call_without_argument(uapi::IOC_WAKE_STOP);
                Err(refused("to map its recorder", &error))
            }
        }
    }

    /// Returns whether the recorder has ended: it has all requested rows, or was stopped.
    pub(crate) fn has_ended(&self) -> bool {
        self.memory.head().ended != 0
    }

    /// Returns whether its CPU went offline, so that it ended early.
    pub(crate) fn has_moved(&self) -> bool {
        self.memory.head().ended == uapi::WAKES_MOVED as u32
    }

    /// Returns the complete rows.
    pub(crate) fn rows(&self) -> Vec<Activation> {
        let written = self.memory.head().written.min(self.rows);
        // The driver writes a row before its number (`smp_store_release` in driver/wakes.c).
        fence(Ordering::Acquire);
        (0..written as usize).map(|at| self.memory.row(at)).collect()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // If it has already ended, this does nothing.
        let _ = self.driver.call_without_argument(uapi::IOC_WAKE_STOP);
    }
}

/// The recorder's memory, mapped read-only.
#[derive(Debug)]
struct Memory {
    at: NonNull<u8>,
    bytes: usize,
}

impl Memory {
    /// Maps `bytes` bytes from `offset`, which must have room for `rows` rows.
    fn map(driver: &Driver, offset: u64, bytes: u64, rows: u32) -> io::Result<Memory> {
        let short = || io::Error::from(io::ErrorKind::InvalidData);
        let length = usize::try_from(bytes).map_err(|_| short())?;
        let offset = libc::off_t::try_from(offset).map_err(|_| short())?;
        if length < HEADER_BYTES + rows as usize * ROW_BYTES {
            return Err(short());
        }
        // SAFETY: a new read-only mapping at an address of the kernel's choice touches no memory that anything else
        // here uses.
        let raw = unsafe {
            let fd = driver.file.as_raw_fd();
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, fd, offset)
        };
        if raw == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(raw.cast::<u8>()).ok_or_else(short)?;
        Ok(Memory { at, bytes: length })
    }

    fn head(&self) -> uapi::Wakes {
        // SAFETY: `map` has mapped at least `HEADER_BYTES` bytes, page-aligned, for as long as this lives; any bytes
        // are a structure of integers. Volatile, because the kernel writes at the same time, whole integers each.
        unsafe { self.at.as_ptr().cast::<uapi::Wakes>().read_volatile() }
    }

    /// Returns row `at`, which the caller has checked to be below the number of rows.
    fn row(&self, at: usize) -> Activation {
        let offset = HEADER_BYTES + at * ROW_BYTES;
        assert!(offset + ROW_BYTES <= self.bytes, "a row that was not requested");
        // SAFETY: inside the live mapping, by the assertion above. `HEADER_BYTES` and `ROW_BYTES` are multiples of 8,
        // so it is aligned. A complete row is not written again.
        let row = unsafe { self.at.as_ptr().add(offset).cast::<uapi::Wake>().read_volatile() };
        Activation { expires_ns: row.expires, irq_ns: row.irq, task_ns: row.task }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, unmapped once, and nothing refers to it.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}
