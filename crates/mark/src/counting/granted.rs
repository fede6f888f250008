//! Counters of 32-bit ARM that Fathom's driver grants: what `driver/include/uapi/fathom.h` declares.

use core::arch::asm;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::compiler_fence;

use super::counters::{UNKNOWN, moved};
use super::shared::{EVENTS, Head};
use super::{ReadBy, Thread, system};

/// `FATHOM_EVENTS_MOST`.
const MOST: usize = 8;
/// `O_RDWR | O_CLOEXEC`.
const READ_WRITE: isize = 0o2_000_002;
/// `PROT_READ`, `MAP_SHARED`.
const PROT_READ: isize = 1;
const SHARED: isize = 1;
/// `FATHOM_IOC_EVENTS_ON` without its size.
const EVENTS_ON: usize = 0xc000_f70d;
/// `exclude_kernel` of the bits of `perf_event_attr`.
const EXCLUDE_KERNEL: u32 = 5;
/// Bytes of the page.
const PAGE: usize = 4096;

/// `struct fathom_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    kind: u32,
    user: u32,
    config: u64,
}

/// `struct fathom_events`.
#[repr(C)]
#[derive(Default)]
struct Grant {
    count: u32,
    cpu: u32,
    event: [Event; MOST],
    offset: u64,
    bytes: u64,
}

/// `struct fathom_counted`.
#[repr(C)]
struct Counted {
    kind: u32,
    number: u32,
    count: u64,
    others: u64,
    previous: u32,
    unused: u32,
}

/// `struct fathom_events_page`.
#[repr(C)]
struct Page {
    version: u32,
    sequence: u32,
    allowed: u32,
    disturbed: u32,
    count: u32,
    unused: u32,
    event: [Counted; MOST],
}

/// Asks the driver for the counters. Returns whether it grants all of them: the thread is on one CPU only, and nobody else has
/// them.
pub(super) fn open(thread: &mut Thread, head: &Head) -> bool {
    let events = head.events as usize;
    if events == 0 || events > MOST {
        return false;
    }
    let mut grant = Grant { count: head.events, ..Grant::default() };
    for (to, event) in grant.event.iter_mut().zip(&head.event[..events]) {
        *to = Event {
            kind: event.kind,
            user: (event.flags >> EXCLUDE_KERNEL) as u32 & 1,
            config: event.config,
        };
    }
    let request = EVENTS_ON | size_of::<Grant>() << 16;
    // SAFETY: the name ends with a zero; the driver reads and writes the structure, whose size is in the request's number.
    unsafe {
        let file = system::call(system::OPEN, [c"/dev/fathom".as_ptr() as isize, READ_WRITE, 0, 0, 0, 0]);
        if system::failed(file) {
            return false;
        }
        thread.file[0] = moved(file);
        let asked = [thread.file[0], request as isize, &raw mut grant as isize, 0, 0, 0];
        if system::call(system::IOCTL, asked) != 0 {
            return false;
        }
    }
    // In units of 4096 bytes it fits.
    let at = (grant.offset / 4096) as isize;
    // SAFETY: a new mapping at an address that the kernel chooses.
    let page =
        unsafe { system::call(system::MMAP, [0, PAGE as isize, PROT_READ, SHARED, thread.file[0], at]) };
    thread.page[0] = if system::failed(page) { null_mut() } else { page as *mut u8 };
    if thread.page[0].is_null() {
        return false;
    }
    thread.read_by = ReadBy::Grant;
    head.methods.fetch_or(4, Relaxed);
    true
}

/// Reads the events. Returns a number that is another one if perf has moved them, [`UNKNOWN`] if they are not allowed now.
pub(super) fn read(thread: &Thread, events: usize, values: &mut [u64; EVENTS]) -> u64 {
    let page = thread.page[0].cast::<Page>();
    // SAFETY: the page is mapped as long as the counters are open. The kernel changes it, while this thread is not running.
    unsafe {
        loop {
            let sequence = (&raw const (*page).sequence).read_volatile();
            compiler_fence(SeqCst);
            if (&raw const (*page).allowed).read_volatile() == 0 {
                return UNKNOWN;
            }
            // It counts what is before it: CP15ISB, mcr p15, 0, r0, c7, c5, 4, which ARMv6 has too. By its name it is deprecated.
            asm!(".inst 0xee070f95", in("r0") 0, options(nostack, preserves_flags));
            for (nth, value) in values[..events.min(MOST)].iter_mut().enumerate() {
                let event = &raw const (*page).event[nth];
                let kind = (&raw const (*event).kind).read_volatile();
                let now = register(kind, (&raw const (*event).number).read_volatile());
                let since = now.wrapping_sub((&raw const (*event).previous).read_volatile());
                let all = (&raw const (*event).count).read_volatile().wrapping_add(since.into());
                *value = all.wrapping_sub((&raw const (*event).others).read_volatile());
            }
            let disturbed = (&raw const (*page).disturbed).read_volatile();
            compiler_fence(SeqCst);
            if (&raw const (*page).sequence).read_volatile() == sequence {
                return disturbed.into();
            }
        }
    }
}

/// Reads a hardware counter: the kernel may select another one in between.
///
/// # Safety
/// The page says that the thread may read them.
unsafe fn register(kind: u32, number: u32) -> u32 {
    let (mut value, mut selected): (u32, u32);
    // SAFETY: by the caller.
    unsafe {
        match (kind, number) {
            (1, _) => {
                asm!("mrc p15, 0, {}, c9, c13, 0", out(reg) value, options(nostack, preserves_flags));
            }
            (2, _) => loop {
                asm!(
                    "mcr p15, 0, {number}, c9, c12, 5",
                    ".inst 0xee070f95",
                    "mrc p15, 0, {value}, c9, c13, 2",
                    "mrc p15, 0, {selected}, c9, c12, 5",
                    number = in(reg) number,
                    value = out(reg) value,
                    selected = out(reg) selected,
                    in("r0") 0,
                    options(nostack, preserves_flags)
                );
                if selected & 31 == number {
                    break;
                }
            },
            (_, 1) => {
                asm!("mrc p15, 0, {}, c15, c12, 1", out(reg) value, options(nostack, preserves_flags));
            }
            (_, 2) => {
                asm!("mrc p15, 0, {}, c15, c12, 2", out(reg) value, options(nostack, preserves_flags));
            }
            _ => {
                asm!("mrc p15, 0, {}, c15, c12, 3", out(reg) value, options(nostack, preserves_flags));
            }
        }
    }
    value
}
