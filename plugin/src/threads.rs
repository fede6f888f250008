//! The accesses of each thread of the program, until there are enough of them for a batch.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicPtr, Ordering};

use fathom_model::{Access, Kind};

use crate::places::Line;
use crate::session::Session;

/// Accesses in a batch.
const BATCH: usize = 4096;
/// Threads of the program at the same time, at most.
pub const MAX_THREADS: usize = 4096;

/// A thread's accesses.
struct Thread(UnsafeCell<Pending>);

struct Pending {
    batch: Vec<Access>,
    /// The line that instructions were fetched from last.
    line: u64,
}

static THREADS: [AtomicPtr<Thread>; MAX_THREADS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_THREADS];

/// Returns a thread's accesses.
///
/// # Safety
/// Only one caller at a time may use those of one thread: the thread itself, or any when the program is stopped.
#[inline(always)]
unsafe fn pending<'a>(thread: u32) -> Option<&'a mut Pending> {
    let slot = THREADS.get(thread as usize)?;
    let mut known = slot.load(Ordering::Relaxed);
    if known.is_null() {
        let batch = Vec::with_capacity(BATCH + 1);
        known = Box::into_raw(Box::new(Thread(UnsafeCell::new(Pending { batch, line: u64::MAX }))));
        slot.store(known, Ordering::Release);
    }
    // SAFETY: it is never freed, and the caller promises to be the only one.
    Some(unsafe { &mut *(*known).0.get() })
}

/// Adds an access.
#[inline(always)]
pub fn push(thread: u32, address: u64, bytes: u16, kind: Kind, place: u64) {
    // SAFETY: QEMU calls this on the thread itself.
    let Some(own) = (unsafe { pending(thread) }) else { return too_many() };
    own.batch.push(Access { address, pc: place, bytes, space: 0, kind });
    if own.batch.len() >= BATCH {
        pass_on(thread, own);
    }
}

/// Adds the fetch of an instruction, unless the line before was the same: it is still in the core.
#[inline(always)]
pub fn fetch(thread: u32, line: &Line) {
    // SAFETY: QEMU calls this on the thread itself.
    let Some(own) = (unsafe { pending(thread) }) else { return too_many() };
    if own.line == line.last {
        return;
    }
    own.line = line.last;
    let (address, bytes) = (line.pc, line.bytes);
    own.batch.push(Access { address, pc: u64::from(line.place), bytes, space: 0, kind: Kind::Fetch });
    if own.batch.len() >= BATCH {
        pass_on(thread, own);
    }
}

#[cold]
fn too_many() {
    if let Some(session) = Session::get() {
        session.refuse(&format!("the program has more than {MAX_THREADS} threads"));
    }
}

#[inline(never)]
fn pass_on(thread: u32, own: &mut Pending) {
    match Session::get() {
        Some(session) => session.run(thread, &mut own.batch),
        None => own.batch.clear(),
    }
}

/// Passes on what a thread has left. The thread itself calls it.
pub fn flush(thread: u32) {
    // SAFETY: QEMU calls this on the thread itself.
    if let Some(own) = unsafe { pending(thread) } {
        own.line = u64::MAX;
        pass_on(thread, own);
    }
}

/// Takes what a thread has left. The thread itself calls it.
pub fn take(thread: u32) -> Vec<Access> {
    // SAFETY: the thread itself calls this.
    unsafe { pending(thread) }.map(|own| std::mem::take(&mut own.batch)).unwrap_or_default()
}

/// Takes what all threads have left.
///
/// # Safety
/// No thread of the program runs.
pub unsafe fn take_all() -> Vec<(u32, Vec<Access>)> {
    let known = (0..MAX_THREADS as u32).filter(|&n| !THREADS[n as usize].load(Ordering::Acquire).is_null());
    // SAFETY: the caller's promise.
    known.filter_map(|n| Some((n, std::mem::take(&mut unsafe { pending(n) }?.batch)))).collect()
}
