//! System calls, and the clock. They change no `errno`, so that marks may be in a signal's handler.

use core::arch::asm;

/// Numbers of system calls.
#[cfg(target_arch = "x86_64")]
mod number {
    pub(crate) const READ: usize = 0;
    pub(crate) const CLOSE: usize = 3;
    pub(crate) const MMAP: usize = 9;
    pub(crate) const MUNMAP: usize = 11;
    pub(crate) const IOCTL: usize = 16;
    pub(crate) const PREAD64: usize = 17;
    pub(crate) const MADVISE: usize = 28;
    pub(crate) const GETPID: usize = 39;
    pub(crate) const FCNTL: usize = 72;
    pub(crate) const GETUID: usize = 102;
    pub(crate) const GETGID: usize = 104;
    pub(crate) const GETEUID: usize = 107;
    pub(crate) const GETEGID: usize = 108;
    pub(crate) const GETTID: usize = 186;
    pub(crate) const TGKILL: usize = 234;
    pub(crate) const PERF_EVENT_OPEN: usize = 298;
}

/// Numbers of system calls (`asm-generic/unistd.h`).
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
mod number {
    pub(crate) const FCNTL: usize = 25;
    pub(crate) const IOCTL: usize = 29;
    pub(crate) const CLOSE: usize = 57;
    pub(crate) const READ: usize = 63;
    pub(crate) const PREAD64: usize = 67;
    pub(crate) const TGKILL: usize = 131;
    pub(crate) const GETPID: usize = 172;
    pub(crate) const GETUID: usize = 174;
    pub(crate) const GETEUID: usize = 175;
    pub(crate) const GETGID: usize = 176;
    pub(crate) const GETEGID: usize = 177;
    pub(crate) const GETTID: usize = 178;
    pub(crate) const MUNMAP: usize = 215;
    pub(crate) const MMAP: usize = 222;
    pub(crate) const MADVISE: usize = 233;
    pub(crate) const PERF_EVENT_OPEN: usize = 241;
}

/// Numbers of system calls (EABI). `mmap2` takes its offset in units of 4096 bytes.
#[cfg(target_arch = "arm")]
mod number {
    pub(crate) const READ: usize = 3;
    pub(crate) const OPEN: usize = 5;
    pub(crate) const CLOSE: usize = 6;
    pub(crate) const GETPID: usize = 20;
    pub(crate) const IOCTL: usize = 54;
    pub(crate) const MUNMAP: usize = 91;
    pub(crate) const PREAD64: usize = 180;
    pub(crate) const MMAP: usize = 192;
    pub(crate) const GETUID: usize = 199;
    pub(crate) const GETGID: usize = 200;
    pub(crate) const GETEUID: usize = 201;
    pub(crate) const GETEGID: usize = 202;
    pub(crate) const MADVISE: usize = 220;
    pub(crate) const FCNTL: usize = 221;
    pub(crate) const GETTID: usize = 224;
    pub(crate) const CLOCK_GETTIME: usize = 263;
    pub(crate) const TGKILL: usize = 268;
    pub(crate) const PERF_EVENT_OPEN: usize = 364;
}

pub(super) use number::*;

/// Makes a system call. The result of a failed one is -errno.
///
/// # Safety
/// As for the call: addresses are of memory that the kernel may read or write.
#[cold]
#[inline(never)]
pub(super) unsafe fn call(number: usize, of: [isize; 6]) -> isize {
    let result: isize;
    // SAFETY: by the caller. The registers are those of the architecture's convention (syscall(2)).
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") of[0], in("rsi") of[1], in("rdx") of[2], in("r10") of[3], in("r8") of[4], in("r9") of[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
        #[cfg(target_arch = "aarch64")]
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") of[0] => result,
            in("x1") of[1], in("x2") of[2], in("x3") of[3], in("x4") of[4], in("x5") of[5],
            options(nostack)
        );
        // The compiler may have its frame in r7.
        #[cfg(target_arch = "arm")]
        asm!(
            "mov {kept}, r7",
            "mov r7, {number}",
            "svc 0",
            "mov r7, {kept}",
            kept = out(reg) _,
            number = in(reg) number,
            inlateout("r0") of[0] => result,
            in("r1") of[1], in("r2") of[2], in("r3") of[3], in("r4") of[4], in("r5") of[5],
            options(nostack)
        );
        #[cfg(target_arch = "riscv64")]
        asm!(
            "ecall",
            in("a7") number,
            inlateout("a0") of[0] => result,
            in("a1") of[1], in("a2") of[2], in("a3") of[3], in("a4") of[4], in("a5") of[5],
            options(nostack)
        );
    }
    result
}

/// Makes a system call that takes numbers only.
pub(super) fn ask(number: usize) -> isize {
    // SAFETY: those that are asked here have no arguments.
    unsafe { call(number, [0; 6]) }
}

/// Returns whether this is the result of a system call that failed.
pub(super) fn failed(result: isize) -> bool {
    (-4095..0).contains(&result)
}

/// Maps memory, of a file from a multiple of 4096 bytes on, or with -1 of none.
pub(super) fn map(bytes: usize, protection: isize, flags: isize, file: isize, at: usize) -> Option<*mut u8> {
    let at = if cfg!(target_arch = "arm") { at / 4096 } else { at };
    // SAFETY: a new mapping at an address that the kernel chooses.
    let result = unsafe { call(MMAP, [0, bytes as isize, protection, flags, file, at as isize]) };
    (!failed(result)).then_some(result as *mut u8)
}

#[repr(C)]
struct Time {
    seconds: isize,
    ns: isize,
}

/// Returns the time of `CLOCK_MONOTONIC`, ns.
pub(super) fn now() -> u64 {
    const MONOTONIC: i32 = 1;
    let mut now = Time { seconds: 0, ns: 0 };
    #[cfg(target_pointer_width = "64")]
    {
        unsafe extern "C" {
            fn clock_gettime(clock: i32, time: *mut Time) -> i32;
        }
        // SAFETY: the function of the C library, which writes the time.
        unsafe { clock_gettime(MONOTONIC, &raw mut now) };
    }
    // The C library's function has one of two names, by the size of its times.
    #[cfg(target_pointer_width = "32")]
    // SAFETY: the kernel writes the time.
    unsafe {
        call(CLOCK_GETTIME, [MONOTONIC as isize, &raw mut now as isize, 0, 0, 0, 0])
    };
    (now.seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(now.ns as u64)
}
