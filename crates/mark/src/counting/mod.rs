//! What the marks do while `fathom count --region` runs the program: `include/fathom_count.h` for Rust, by the same protocol. That has put
//! the number of an open file and a number that only this run has into the environment. The file is memory that both share: what
//! is to be counted, and what was. Each thread opens its own counters at its first mark, and writes to its own part of the file.
//!
//! No memory is allocated but by mmap(2), and no lock is taken, so that marks may be in a signal's handler.

extern crate std;

use core::arch::global_asm;
use core::cell::Cell;
use core::ffi::c_char;
use core::ptr::{addr_of, null_mut};
use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering, compiler_fence, fence};

use self::std::thread_local;

mod counters;
#[cfg(target_arch = "arm")]
mod granted;
mod shared;
mod system;

use shared::{EVENTS, Entry, Head, MAGIC, NAME, PART, Part, REGIONS, THREADS};

/// Names whose numbers a thread knows.
const CACHED: usize = 16;
/// `PROT_READ | PROT_WRITE`, `MAP_SHARED`, `MAP_PRIVATE | MAP_ANONYMOUS`, `MADV_WIPEONFORK` (since Linux 4.14), `-ESRCH`.
const READ_WRITE: isize = 3;
const SHARED: isize = 1;
const PRIVATE: isize = 0x22;
const WIPE_ON_FORK: isize = 18;
const NO_SUCH_THREAD: isize = -3;
/// Empty pairs of marks before those that are timed, and those.
const WARM_PAIRS: u32 = 8;
const PAIRS: u32 = 64;

/// The head of the file, if a run counts.
static PAGE: AtomicPtr<Head> = AtomicPtr::new(null_mut());
/// The file.
static FILE: AtomicI32 = AtomicI32::new(0);
/// What all threads need, those that have ended too.
static LIST: AtomicPtr<Thread> = AtomicPtr::new(null_mut());

thread_local! {
    static SELF: Cell<*mut Thread> = const { Cell::new(null_mut()) };
}

/// Whether a thread takes part.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum State {
    /// It is not known yet: zeros, as in a forked process.
    New = 0,
    Ready = 1,
    Out = 2,
}

/// How the counters are read.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
#[allow(dead_code, reason = "not each way is there on each processor")]
enum ReadBy {
    /// read(2).
    File = 0,
    /// Instructions, where the kernel lets programs.
    Instructions = 1,
    /// Instructions that Fathom's driver grants.
    Grant = 2,
}

/// What a thread knows, in memory that is zeros in a process that it forks.
struct Thread {
    next: *mut Thread,
    /// The variable of the thread that has it.
    owner: usize,
    /// Its number; another thread may take the memory when it has ended.
    number: AtomicI32,
    process: i32,
    state: State,
    /// Whether this memory stays in a forked process.
    may_fork: bool,
    busy: bool,
    read_by: ReadBy,
    file: [isize; EVENTS],
    page: [*mut u8; EVENTS],
    part: *mut Part,
    cached: [*const u8; CACHED],
    index: [usize; CACHED],
}

/// Returns whether a run counts.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    !PAGE.load(Ordering::Relaxed).is_null()
}

/// Returns the head, while a run counts.
fn head() -> &'static Head {
    // SAFETY: only called when the page is there; it is never unmapped. Other processes change its atomic numbers, and names before
    // they are ready; the rest was written before the run.
    unsafe { &*PAGE.load(Ordering::Relaxed) }
}

/// Returns where a name's number is kept.
fn place(name: &str) -> usize {
    (name.as_ptr() as usize >> 2) % CACHED
}

/// Returns whether the list has a name at a number. A listed name never changes.
fn is_listed(head: &Head, nth: usize, name: &str) -> bool {
    // SAFETY: the place is in the list, and a name does not change once it is ready.
    let listed = unsafe { &(*head.name.get())[nth] };
    name.len() < NAME && &listed[..name.len()] == name.as_bytes() && listed[name.len()] == 0
}

/// Returns the number of a region; `None` if it does not count.
fn index(thread: &mut Thread, name: &str) -> Option<usize> {
    let (head, at) = (head(), place(name));
    // Where a library was unloaded, there may be another name now.
    if thread.cached[at] == name.as_ptr() && is_listed(head, thread.index[at], name) {
        return Some(thread.index[at]);
    }
    let listed = (head.regions.load(Ordering::Acquire) as usize).min(REGIONS);
    let is_it = |nth: &usize| head.ready[*nth].load(Ordering::Acquire) != 0 && is_listed(head, *nth, name);
    let found = match (0..listed).find(is_it) {
        Some(found) => found,
        None if head.all == 0 => return None,
        None => add_name(head, name)?,
    };
    (thread.cached[at], thread.index[at]) = (name.as_ptr(), found);
    Some(found)
}

/// Adds a name to the list.
fn add_name(head: &Head, name: &str) -> Option<usize> {
    let is_short = name.len() < NAME;
    let nth = if is_short { head.regions.fetch_add(1, Ordering::AcqRel) as usize } else { REGIONS };
    if nth >= REGIONS {
        if is_short {
            head.regions.fetch_sub(1, Ordering::AcqRel);
        }
        head.overflow.fetch_add(1, Ordering::Relaxed);
        return None;
    }
    // SAFETY: the place in the list is this thread's alone until it is ready.
    unsafe {
        let to = head.name.get().cast::<u8>().add(NAME * nth);
        core::ptr::copy_nonoverlapping(name.as_ptr(), to, name.len());
    }
    head.ready[nth].store(1, Ordering::Release);
    Some(nth)
}

/// Returns whether this is the file of a run: another one may have its number. Reading at a place changes nothing.
fn is_file(file: i32, nonce: u64) -> bool {
    let mut told = [0u64; 2];
    // SAFETY: the kernel writes at most 16 bytes to `told`.
    let length =
        unsafe { system::call(system::PREAD64, [file as isize, told.as_mut_ptr() as isize, 16, 0, 0, 0]) };
    length == 16 && told == [MAGIC, nonce]
}

/// Returns what a thread needs: that of one that has ended, or a new one; null without memory.
fn new_thread(process: i32, number: i32) -> *mut Thread {
    let mut at = LIST.load(Ordering::Acquire);
    while !at.is_null() {
        // SAFETY: what is in the list stays there.
        let before = unsafe { (*at).number.load(Ordering::Relaxed) };
        let has_ended = before == 0 || before == number || {
            // SAFETY: signal 0 only asks whether there is such a thread.
            let asked =
                unsafe { system::call(system::TGKILL, [process as isize, before as isize, 0, 0, 0, 0]) };
            asked == NO_SUCH_THREAD
        };
        // SAFETY: whoever changes the number has it.
        unsafe {
            if has_ended
                && (*at).number.compare_exchange(before, number, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                counters::close(&mut *at);
                ((*at).state, (*at).busy) = (State::New, false);
                return at;
            }
            at = (*at).next;
        }
    }
    let bytes = size_of::<Thread>();
    let Some(memory) = system::map(bytes, READ_WRITE, PRIVATE, -1, 0) else { return null_mut() };
    let new = memory.cast::<Thread>();
    // SAFETY: the memory is new, large enough, and zeros, which are a thread that is not known yet; it is this thread's alone until it
    // is in the list.
    unsafe {
        let wiped = system::call(system::MADVISE, [memory as isize, bytes as isize, WIPE_ON_FORK, 0, 0, 0]);
        (*new).may_fork = wiped != 0;
        (*new).number.store(number, Ordering::Relaxed);
        let mut first = LIST.load(Ordering::Relaxed);
        loop {
            (*new).next = first;
            match LIST.compare_exchange_weak(first, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return new,
                Err(now) => first = now,
            }
        }
    }
}

/// The calling thread takes part. Returns null if it cannot.
#[cold]
fn take_part() -> *mut Thread {
    let head = head();
    let (process, number) = (system::ask(system::GETPID) as i32, system::ask(system::GETTID) as i32);
    let (mut thread, here) = SELF.with(|own| (own.get(), addr_of!(*own) as usize));
    // In a forked process this is known already, and zeros, which another thread may have taken.
    // SAFETY: what a thread has had is never unmapped.
    let is_taken = !thread.is_null()
        && unsafe {
            (*thread).owner != here
                && ((*thread).owner != 0
                    || (*thread)
                        .number
                        .compare_exchange(0, number, Ordering::AcqRel, Ordering::Relaxed)
                        .is_err())
        };
    if thread.is_null() || is_taken {
        thread = new_thread(process, number);
    }
    if thread.is_null() {
        head.uncounted.fetch_add(1, Ordering::Relaxed);
        return thread;
    }
    // SAFETY: it is this thread's alone now.
    let own = unsafe { &mut *thread };
    own.number.store(number, Ordering::Relaxed);
    own.owner = here;
    if own.process != process {
        own.part = new_part(head);
        (own.file, own.page) = ([0; EVENTS], [null_mut(); EVENTS]);
        own.process = process;
    } else if !own.part.is_null() {
        leave_all(own.part);
    }
    own.read_by = ReadBy::File;
    own.state = State::Out;
    if !own.part.is_null() {
        let is_open = counters::open_for_instructions(own, head);
        if !is_open {
            counters::close(own);
        }
        if is_open || counters::open(own, head, 0) {
            own.state = State::Ready;
        }
    }
    if own.state == State::Out {
        counters::close(own);
        head.uncounted.fetch_add(1, Ordering::Relaxed);
    }
    own.busy = false;
    SELF.with(|own| own.set(thread));
    thread
}

/// Takes a part of the file; null if there is none left, or the file is another one now.
fn new_part(head: &Head) -> *mut Part {
    let nth = head.threads.fetch_add(1, Ordering::Relaxed);
    if nth >= THREADS {
        head.threads.fetch_sub(1, Ordering::Relaxed);
        return null_mut();
    }
    let file = FILE.load(Ordering::Relaxed);
    let mapped = is_file(file, head.nonce)
        .then(|| system::map(PART, READ_WRITE, SHARED, file as isize, (nth as usize + 1) * PART));
    mapped.flatten().map_or(null_mut(), |memory| memory.cast())
}

/// Ends the regions that the thread before has not left.
fn leave_all(part: *mut Part) {
    // SAFETY: the part is mapped, and this thread's alone.
    for entry in unsafe { &mut (*part).entry } {
        if entry.depth > 0 {
            entry.unmatched += 1;
            entry.depth = 0;
        }
    }
}

/// Returns the calling thread, which is busy then; `None` if it does not take part.
fn enter() -> Option<&'static mut Thread> {
    let (mut thread, here) = SELF.with(|own| (own.get(), addr_of!(*own) as usize));
    // SAFETY: what a thread has had is never unmapped.
    let is_own = !thread.is_null()
        && unsafe {
            (*thread).state != State::New
                && (*thread).owner == here
                && !((*thread).may_fork && (*thread).process != system::ask(system::GETPID) as i32)
        };
    if !is_own {
        thread = take_part();
    }
    // SAFETY: the calling thread's alone, and `busy` while there is a reference to it.
    unsafe {
        if thread.is_null() || (*thread).state != State::Ready {
            return None;
        }
        if (&raw const (*thread).busy).read_volatile() {
            // In the handler of a signal that came during a mark.
            head().lost.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        (&raw mut (*thread).busy).write_volatile(true);
        compiler_fence(Ordering::SeqCst);
        Some(&mut *thread)
    }
}

/// The calling thread is not busy any more.
fn leave(thread: &mut Thread) {
    compiler_fence(Ordering::SeqCst);
    // SAFETY: a field of a live reference.
    unsafe { (&raw mut thread.busy).write_volatile(false) };
}

/// Returns a region's entry of a thread.
fn entry(thread: &Thread, nth: usize) -> &'static mut Entry {
    // SAFETY: the part of a thread that is ready is mapped, has so many entries, and is this thread's alone; others only read.
    unsafe { &mut (*thread.part).entry[nth] }
}

/// Begins a region.
#[cold]
#[inline(never)]
pub(crate) fn begin(name: &'static str) {
    let Some(thread) = enter() else { return };
    if let Some(nth) = index(thread, name) {
        let entry = entry(thread, nth);
        entry.depth += 1;
        if entry.depth == 1 {
            entry.begin_ns = system::now();
            entry.begin_without = counters::read(thread, head(), &mut entry.begin);
        }
    }
    leave(thread);
}

/// Ends a region.
#[cold]
#[inline(never)]
pub(crate) fn end(name: &'static str) {
    let Some(thread) = enter() else { return };
    let mut now = [0; EVENTS];
    let read = |thread: &Thread, now: &mut [u64; EVENTS]| {
        let without = counters::read(thread, head(), now);
        (without, system::now())
    };
    // If it is a region that counts, as it seems, the look-up is not in it.
    let early = (thread.cached[place(name)] == name.as_ptr()).then(|| read(thread, &mut now));
    if let Some(nth) = index(thread, name) {
        let entry = entry(thread, nth);
        match entry.depth {
            0 => entry.unmatched += 1,
            1 => {
                let (without, ns) = early.unwrap_or_else(|| read(thread, &mut now));
                add(entry, without, ns, &now);
            }
            _ => entry.depth -= 1,
        }
    }
    leave(thread);
}

/// Adds what was counted since the entry began.
fn add(entry: &mut Entry, without: u64, ns: u64, now: &[u64; EVENTS]) {
    let odd = entry.writing.load(Ordering::Relaxed).wrapping_add(1);
    entry.writing.store(odd, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    entry.entered += 1;
    entry.ns = entry.ns.wrapping_add(ns.wrapping_sub(entry.begin_ns));
    entry.shared += u64::from(without != entry.begin_without || without == counters::UNKNOWN);
    for ((count, now), begin) in entry.count.iter_mut().zip(now).zip(&entry.begin) {
        *count = count.wrapping_add(now.wrapping_sub(*begin));
    }
    entry.depth = 0;
    fence(Ordering::SeqCst);
    entry.writing.store(odd.wrapping_add(1), Ordering::Relaxed);
}

unsafe extern "C" {
    /// The environment, in the C library that the standard library is linked with.
    static environ: *const *const c_char;
}

/// Returns the file and the number of the run that the environment has.
fn told() -> Option<(i32, u64)> {
    const KEY: &[u8] = b"FATHOM_REGIONS=";
    // SAFETY: before `main`, nobody changes the environment: a list of texts that ends with a null, each with a zero.
    let value = unsafe {
        let mut at = addr_of!(environ).read();
        loop {
            if at.is_null() || (*at).is_null() {
                return None;
            }
            let text = core::ffi::CStr::from_ptr(*at).to_bytes();
            match text.strip_prefix(KEY) {
                Some(value) => break value,
                None => at = at.add(1),
            }
        }
    };
    let (file, nonce) = core::str::from_utf8(value).ok()?.split_once(':')?;
    Some((file.parse().ok().filter(|file| *file >= 0)?, u64::from_str_radix(nonce, 16).ok()?))
}

/// Takes part if the environment has the file of a run, and measures what empty pairs count and take.
extern "C" fn attach() {
    let is_same = |one, other| system::ask(one) == system::ask(other);
    // Nobody lets a program with more rights than its user open counters.
    let may = is_same(system::GETUID, system::GETEUID) && is_same(system::GETGID, system::GETEGID);
    let Some((file, _)) = told().filter(|(file, nonce)| may && is_file(*file, *nonce)) else { return };
    let Some(memory) = system::map(PART, READ_WRITE, SHARED, file as isize, 0) else { return };
    FILE.store(file, Ordering::Relaxed);
    PAGE.store(memory.cast(), Ordering::Release);
    if head().attached.fetch_add(1, Ordering::Relaxed) != 0 {
        return;
    }
    let pairs = |count| {
        for _ in 0..count {
            begin("");
            end("");
        }
    };
    pairs(WARM_PAIRS);
    let Some(thread) = enter() else { return };
    let empty = entry(thread, 0);
    (empty.entered, empty.ns, empty.shared, empty.count) = (0, 0, 0, [0; EVENTS]);
    leave(thread);
    let start = system::now();
    pairs(PAIRS);
    // SAFETY: the first process or library that takes part writes it, once.
    unsafe { head().pairs_ns.get().write_volatile(system::now().wrapping_sub(start)) };
    head().pairs.store(PAIRS, Ordering::Relaxed);
}

/// Called before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static ATTACH: extern "C" fn() = attach;

// A note that tells that the marks of this program or library count, too.
global_asm!(
    ".pushsection .note.fathom,\"\",\"note\"",
    ".balign 4",
    ".4byte 7, 4, 1",
    ".asciz \"fathom\"",
    ".balign 4",
    ".4byte 1",
    ".popsection",
);
