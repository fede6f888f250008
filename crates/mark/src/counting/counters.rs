//! Counters of a thread: opened, read and closed.

use core::sync::atomic::Ordering::Relaxed;

use super::shared::{EVENTS, Head};
use super::system;
use super::{ReadBy, Thread};

/// `struct perf_event_attr`, of its first version.
#[repr(C)]
#[derive(Default)]
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
}

/// `PERF_FORMAT_TOTAL_TIME_ENABLED`, `_TOTAL_TIME_RUNNING` and `_GROUP`.
const WHOLE_GROUP: u64 = 1 | 2 | 8;
/// `PERF_FLAG_FD_CLOEXEC`, `PERF_EVENT_IOC_ENABLE`, `F_DUPFD_CLOEXEC`.
const CLOSE_ON_EXEC: isize = 8;
const ENABLE: isize = 0x2400;
const DUPLICATE_FROM: isize = 1030;
/// Numbers of files from here on: a program that closes all files and opens its own does not get these.
const HIGH: isize = 512;
/// Bytes of a page of an event.
const PAGE: usize = 4096;
/// What a group has had no counters for, if that is not known.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// Opens the counters of the calling thread. `config1` of arm64: 2 asks for reads by instructions. Returns whether all are open.
pub(super) fn open(thread: &mut Thread, head: &Head, config1: u64) -> bool {
    let events = (head.events as usize).min(EVENTS);
    for (nth, event) in head.event[..events].iter().enumerate() {
        // One that joins a group that counts already would count later: the first one begins disabled.
        let flags = event.flags | u64::from(nth == 0);
        let size = size_of::<Attributes>() as u32;
        let of = Attributes {
            kind: event.kind,
            size,
            config: event.config,
            read_format: WHOLE_GROUP,
            flags,
            config1,
            ..Attributes::default()
        };
        let leader = if nth == 0 { -1 } else { thread.file[0] };
        // SAFETY: the kernel reads `size` bytes of `of`. This thread, every CPU.
        let file = unsafe {
            system::call(system::PERF_EVENT_OPEN, [&raw const of as isize, 0, -1, leader, CLOSE_ON_EXEC, 0])
        };
        if system::failed(file) {
            if config1 == 0 {
                head.error.store(-file as u32, Relaxed);
                head.error_event.store(nth as u32, Relaxed);
            }
            return false;
        }
        thread.file[nth] = moved(file);
    }
    if events == 0 {
        return true;
    }
    // SAFETY: the request has no memory.
    unsafe { system::call(system::IOCTL, [thread.file[0], ENABLE, 0, 0, 0, 0]) };
    if instructions::may_read(thread, events) {
        thread.read_by = ReadBy::Instructions;
    }
    head.methods.fetch_or(if thread.read_by == ReadBy::Instructions { 2 } else { 1 }, Relaxed);
    true
}

/// Opens the counters of the calling thread where reads by instructions have to be asked for. Returns whether all are open.
pub(super) fn open_for_instructions(thread: &mut Thread, head: &Head) -> bool {
    #[cfg(target_arch = "arm")]
    return super::granted::open(thread, head);
    #[cfg(not(target_arch = "arm"))]
    return cfg!(target_arch = "aarch64") && open(thread, head, 2);
}

/// Returns a file of this thread with another number.
pub(super) fn moved(file: isize) -> isize {
    // SAFETY: the file is this thread's own, and only its number changes.
    unsafe {
        let moved = system::call(system::FCNTL, [file, DUPLICATE_FROM, HIGH, 0, 0, 0]);
        if system::failed(moved) {
            return file;
        }
        system::call(system::CLOSE, [file, 0, 0, 0, 0, 0]);
        moved
    }
}

/// Closes the counters of a thread.
pub(super) fn close(thread: &mut Thread) {
    for (file, page) in thread.file.iter_mut().zip(&mut thread.page) {
        // SAFETY: both are this thread's own, and not used any more.
        unsafe {
            if !page.is_null() {
                system::call(system::MUNMAP, [*page as isize, PAGE as isize, 0, 0, 0, 0]);
            }
            if *file > 0 {
                system::call(system::CLOSE, [*file, 0, 0, 0, 0, 0]);
            }
        }
        (*file, *page) = (0, core::ptr::null_mut());
    }
}

/// Reads the events. Returns the time in which they had no hardware counters, ns.
pub(super) fn read(thread: &Thread, head: &Head, values: &mut [u64; EVENTS]) -> u64 {
    let events = head.events as usize;
    if events == 0 || events > EVENTS {
        return 0;
    }
    #[cfg(target_arch = "arm")]
    if thread.read_by == ReadBy::Grant {
        return super::granted::read(thread, events, values);
    }
    if thread.read_by == ReadBy::Instructions
        && let Some(without) = instructions::read(thread, events, values)
    {
        return without;
    }
    // Number, time enabled and running, counts.
    let mut words = [0u64; 3 + EVENTS];
    let bytes = size_of_val(&words) as isize;
    // SAFETY: the kernel writes at most so many bytes to `words`.
    let length =
        unsafe { system::call(system::READ, [thread.file[0], words.as_mut_ptr() as isize, bytes, 0, 0, 0]) };
    if length != 8 * (3 + events as isize) {
        return UNKNOWN;
    }
    values[..events].copy_from_slice(&words[3..3 + events]);
    words[1].wrapping_sub(words[2])
}

/// Reads by instructions, where the kernel lets programs.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod instructions {
    use core::arch::asm;
    use core::sync::atomic::{Ordering, compiler_fence};

    use super::{EVENTS, PAGE, Thread, system};

    /// `struct perf_event_mmap_page`: offsets of its lock, index, offset, times, capabilities and width.
    const LOCK: usize = 8;
    const INDEX: usize = 12;
    const OFFSET: usize = 16;
    const ENABLED: usize = 24;
    const RUNNING: usize = 32;
    const CAPABILITIES: usize = 40;
    const WIDTH: usize = 48;
    /// `cap_user_rdpmc`.
    const READABLE: u64 = 1 << 2;
    const PROT_READ: isize = 1;
    const MAP_SHARED: isize = 1;

    /// Reads a field of the page of an event.
    fn field<T>(page: *mut u8, at: usize) -> T {
        // SAFETY: the page is mapped as long as the event is open, and has the field there, aligned.
        unsafe { page.add(at).cast::<T>().read_volatile() }
    }

    /// Maps the pages of the events. Returns whether all of them can be read.
    pub(super) fn may_read(thread: &mut Thread, events: usize) -> bool {
        let mut all = true;
        for (page, file) in thread.page.iter_mut().zip(thread.file).take(events) {
            let mapped = system::map(PAGE, PROT_READ, MAP_SHARED, file, 0);
            *page = mapped.unwrap_or(core::ptr::null_mut());
            all &= mapped.is_some_and(|page| {
                field::<u64>(page, CAPABILITIES) & READABLE != 0 && field::<u32>(page, INDEX) != 0
            });
        }
        all
    }

    /// Reads all events; `None` if one has no counter now. Returns the time without, ns.
    pub(super) fn read(thread: &Thread, events: usize, values: &mut [u64; EVENTS]) -> Option<u64> {
        let mut without = 0;
        // No instruction of RISC-V orders counters.
        // SAFETY: it orders what is before it.
        #[cfg(not(target_arch = "riscv64"))]
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!("lfence", options(nostack, preserves_flags));
            #[cfg(target_arch = "aarch64")]
            asm!("isb", options(nostack, preserves_flags));
        }
        for (page, value) in thread.page.iter().zip(values).take(events) {
            (*value, without) = read_one(*page)?;
        }
        Some(without)
    }

    fn read_one(page: *mut u8) -> Option<(u64, u64)> {
        loop {
            let lock: u32 = field(page, LOCK);
            compiler_fence(Ordering::SeqCst);
            let index: u32 = field(page, INDEX);
            let mut value: u64 = field(page, OFFSET);
            let without = field::<u64>(page, ENABLED).wrapping_sub(field(page, RUNNING));
            let width: u16 = field(page, WIDTH);
            if index != 0 && (1..=64).contains(&width) {
                let unused = 64 - u32::from(width);
                value = value.wrapping_add((((counter(index - 1) << unused) as i64) >> unused) as u64);
            }
            compiler_fence(Ordering::SeqCst);
            if field::<u32>(page, LOCK) == lock {
                return (index != 0).then_some((value, without));
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn counter(number: u32) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: the page says that programs may read counters (`cap_user_rdpmc`).
        unsafe {
            asm!("rdpmc", in("ecx") number, out("eax") low, out("edx") high, options(nostack, preserves_flags));
        }
        u64::from(low) | u64::from(high) << 32
    }

    /// The CSR cycle and those behind it: 2 is instret, from 3 on hpmcounter3.
    #[cfg(target_arch = "riscv64")]
    fn counter(number: u32) -> u64 {
        macro_rules! read {
            ($($n:literal)*) => {
                match number {
                    $($n => {
                        let value: u64;
                        // SAFETY: the page says that programs may read counters.
                        unsafe {
                            asm!(
                                "csrr {}, {csr}",
                                out(reg) value,
                                csr = const 0xc00 + $n,
                                options(nostack, preserves_flags)
                            );
                        }
                        value
                    })*
                    _ => 0,
                }
            };
        }
        read!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
    }

    #[cfg(target_arch = "aarch64")]
    fn counter(number: u32) -> u64 {
        macro_rules! read {
            ($($n:literal)*) => {
                match number {
                    $($n => {
                        let value: u64;
                        // SAFETY: the page says that programs may read counters.
                        unsafe {
                            asm!(concat!("mrs {}, pmevcntr", $n, "_el0"), out(reg) value, options(nostack, preserves_flags));
                        }
                        value
                    })*
                    // The index of the cycle counter, ARMV8_PMU_CYCLE_IDX of the kernel.
                    31 => {
                        let value: u64;
                        // SAFETY: as above.
                        unsafe { asm!("mrs {}, pmccntr_el0", out(reg) value, options(nostack, preserves_flags)) };
                        value
                    }
                    _ => 0,
                }
            };
        }
        read!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30)
    }
}

/// No instruction reads counters here.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod instructions {
    use super::{EVENTS, Thread};

    pub(super) fn may_read(_: &mut Thread, _: usize) -> bool {
        false
    }

    pub(super) fn read(_: &Thread, _: usize, _: &mut [u64; EVENTS]) -> Option<u64> {
        None
    }
}
