//! What the workers count, in memory that they share with the probe.
//!
//! The memory is a file without a name (memfd), the worker's standard input, so that nothing of it outlives the
//! processes. One slot a worker, which it alone writes, and one in front that the probe writes: the gate behind which
//! all wait until the last is ready.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::thread::futex;

/// The process has not come that far.
pub(crate) const STARTED: u32 = 0;
/// It has its memory and its file, and waits. Of the gate: it is open.
pub(crate) const READY: u32 = 1;
/// It works.
pub(crate) const WORKING: u32 = 2;
/// It cannot; `stage` and `errno` say why.
pub(crate) const FAILED: u32 = 3;

/// One worker's; on lines of its own, so that counting disturbs no other worker.
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

/// The slots: the gate, then one a worker.
pub(crate) struct Slots {
    start: NonNull<Slot>,
    count: usize,
}

impl Slots {
    /// New ones, closed, and the file that they are in.
    pub(crate) fn new(workers: usize) -> io::Result<(Slots, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("fathom-slots", flags)?;
        ftruncate(&file, ((workers + 1) * size_of::<Slot>()) as u64)?;
        // What is mapped must not be cut off by any of those who hold the file.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Slots::of(&file)?, file))
    }

    /// Those in a file.
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
        // SAFETY: the mapping is page-aligned and `count` slots long, the file is sealed against shrinking, and lives
        // as long as this. A slot is atomics alone, for which any bytes are valid, and which other processes may
        // change at any time.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }

    /// The workers' slots, in their order.
    pub(crate) fn workers(&self) -> &[Slot] {
        &self.all()[1..]
    }

    /// Lets all who wait begin.
    pub(crate) fn open(&self) {
        let gate = &self.all()[0].state;
        gate.store(READY, Ordering::Release);
        // Who is not woken looks by himself.
        let _ = futex::wake(gate, futex::Flags::empty(), u32::MAX >> 1);
    }

    /// Waits until all may begin.
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
        // SAFETY: the mapping is this one's own, and nothing borrows from it any more.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.count * size_of::<Slot>()) };
    }
}

/// What a worker has done: counted here, and told at times, because telling costs a system call.
pub(crate) struct Tally<'a> {
    slot: &'a Slot,
    passes: u64,
    lines: u64,
    bytes: u64,
    /// Work that was not told yet, in lines.
    unreported: u64,
}

/// Lines after which the counts are reported: some microseconds of the cheapest, some milliseconds of those that fault.
const TELL: u64 = 4096;
/// What the end of a round counts for: it costs system calls, or is reported of many at once.
const ROUND: u64 = 64;

impl Tally<'_> {
    pub(crate) fn new(slot: &Slot) -> Tally<'_> {
        Tally { slot, passes: 0, lines: 0, bytes: 0, unreported: 0 }
    }

    /// So many lines were touched, and so many bytes of them read or written.
    pub(crate) fn touched(&mut self, lines: u64, bytes: u64) {
        self.lines += lines;
        self.bytes += bytes;
        self.count(lines);
    }

    /// A round has ended.
    pub(crate) fn pass(&mut self) {
        self.passes += 1;
        self.count(ROUND);
    }

    /// So many have, at once.
    pub(crate) fn passes(&mut self, passes: u64) {
        self.passes += passes;
        self.tell();
    }

    fn count(&mut self, work: u64) {
        self.unreported += work;
        if self.unreported >= TELL {
            self.tell();
        }
    }

    /// Tells all there is.
    pub(crate) fn tell(&mut self) {
        self.unreported = 0;
        // Of the whole process: some workers have two threads.
        let usage = crate::watch::usage(libc::RUSAGE_SELF);
        let faults = (usage.ru_minflt as u64).wrapping_add(usage.ru_majflt as u64);
        self.slot.passes.store(self.passes, Ordering::Relaxed);
        self.slot.lines.store(self.lines, Ordering::Relaxed);
        self.slot.bytes.store(self.bytes, Ordering::Relaxed);
        self.slot.faults.store(faults, Ordering::Relaxed);
    }
}
