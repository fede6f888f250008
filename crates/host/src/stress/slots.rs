//! Counts of the workers, in memory shared with the probe.
//!
//! The memory is a file without a name (memfd), passed as the worker's standard input, so that nothing of it outlives
//! the processes. Each worker has one slot, which it alone writes. The first slot, written by the probe, is the gate
//! at which all wait until the last is ready.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::thread::futex;

/// The worker has not prepared yet.
pub(crate) const STARTED: u32 = 0;
/// The worker has its memory and its file, and waits. Of the gate: it is open.
pub(crate) const READY: u32 = 1;
/// The worker is working.
pub(crate) const WORKING: u32 = 2;
/// The worker failed; `stage` and `errno` contain the reason.
pub(crate) const FAILED: u32 = 3;

/// Slot of one worker, on separate lines, so that counting does not disturb other workers.
#[repr(C, align(128))]
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) state: AtomicU32,
    pub(crate) stage: AtomicU32,
    pub(crate) errno: AtomicI32,
    pub(crate) passes: AtomicU64,
    pub(crate) lines: AtomicU64,
    pub(crate) faults: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// The slots: the gate, then one per worker.
pub(crate) struct Slots {
    start: NonNull<Slot>,
    count: usize,
}

impl Slots {
    /// Creates closed slots, and returns them with their file.
    pub(crate) fn new(workers: usize) -> io::Result<(Slots, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("fathom-slots", flags)?;
        ftruncate(&file, ((workers + 1) * size_of::<Slot>()) as u64)?;
        // No process that has the file may shrink the mapping.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Slots::of(&file)?, file))
    }

    /// Maps the slots in a file.
    pub(crate) fn of(file: impl AsFd) -> io::Result<Slots> {
        let bytes = usize::try_from(fstat(&file)?.st_size).unwrap_or(0);
        let count = bytes / size_of::<Slot>();
        if count == 0 || !rustix::fs::fcntl_get_seals(&file).is_ok_and(|s| s.contains(SealFlags::SHRINK)) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: a new shared mapping at an address of the kernel's choice touches no memory that is in use.
        let raw = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
                rustix::mm::MapFlags::SHARED,
                file,
                0,
            )?
        };
        let start = NonNull::new(raw.cast::<Slot>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Slots { start, count })
    }

    fn all(&self) -> &[Slot] {
        // SAFETY: the mapping is page-aligned and `count` slots long, the file is sealed against shrinking, and the
        // mapping lives as long as this. A slot contains only atomics, for which any bytes are valid, and which other
        // processes may change at any time.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }

    /// Returns the workers' slots, in order.
    pub(crate) fn workers(&self) -> &[Slot] {
        &self.all()[1..]
    }

    /// Opens the gate, so that all waiting workers begin.
    pub(crate) fn open(&self) {
        let gate = &self.all()[0].state;
        gate.store(READY, Ordering::Release);
        // A worker that misses the wake-up polls.
        let _ = futex::wake(gate, futex::Flags::empty(), u32::MAX >> 1);
    }

    /// Waits until the gate is open.
    pub(crate) fn wait(&self) {
        let gate = &self.all()[0].state;
        let tenth = futex::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        while gate.load(Ordering::Acquire) == STARTED {
            let _ = futex::wait(gate, futex::Flags::empty(), STARTED, Some(&tenth));
        }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value alone, and nothing borrows from it any more.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.count * size_of::<Slot>()) };
    }
}

/// Counts of one worker, collected locally and published at intervals, because publishing costs a system call.
pub(crate) struct Tally<'a> {
    slot: &'a Slot,
    passes: u64,
    lines: u64,
    bytes: u64,
    /// Work since the counts were last published, in lines.
    unpublished: u64,
}

/// Lines after which the counts are published: some microseconds of the fastest work, some milliseconds of work that
/// faults.
const PUBLISH_LINES: u64 = 4096;
/// Lines that the end of a pass counts as: a pass costs system calls, or many are reported at once.
const ROUND_LINES: u64 = 64;

impl Tally<'_> {
    pub(crate) fn new(slot: &Slot) -> Tally<'_> {
        Tally { slot, passes: 0, lines: 0, bytes: 0, unpublished: 0 }
    }

    /// Counts `lines` lines touched, and `bytes` bytes of them read or written.
    pub(crate) fn count_lines(&mut self, lines: u64, bytes: u64) {
        self.lines += lines;
        self.bytes += bytes;
        self.add(lines);
    }

    /// Counts one pass.
    pub(crate) fn count_pass(&mut self) {
        self.passes += 1;
        self.add(ROUND_LINES);
    }

    /// Counts several passes at once, and publishes.
    pub(crate) fn count_passes(&mut self, passes: u64) {
        self.passes += passes;
        self.publish();
    }

    fn add(&mut self, work: u64) {
        self.unpublished += work;
        if self.unpublished >= PUBLISH_LINES {
            self.publish();
        }
    }

    /// Publishes all counts.
    pub(crate) fn publish(&mut self) {
        self.unpublished = 0;
        // Of the whole process: some workers have two threads.
        let usage = crate::watch::usage(libc::RUSAGE_SELF);
        let faults = (usage.ru_minflt as u64).wrapping_add(usage.ru_majflt as u64);
        self.slot.passes.store(self.passes, Ordering::Relaxed);
        self.slot.lines.store(self.lines, Ordering::Relaxed);
        self.slot.bytes.store(self.bytes, Ordering::Relaxed);
        self.slot.faults.store(faults, Ordering::Relaxed);
    }
}
