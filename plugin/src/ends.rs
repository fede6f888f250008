//! Ends of the program that QEMU does not tell: by a signal, and by becoming another program.
//!
//! - QEMU dies of the program's signal by `kill(getpid(), signal)`. `fathom simulate` has this library loaded before QEMU's
//!   own ones (LD_PRELOAD), so that this call comes here first.
//! - SIGKILL that the program sends to itself, and `execve`, are system calls that may fail. The counts are sent before,
//!   and revoked if the call returns.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;

use fathom_simulation::protocol::{End, PRELOADED};

use crate::session::Session;

thread_local! {
    /// The number of the program's thread that this is.
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// Restores the variable by which this was loaded: the program gets QEMU's environment.
extern "C" fn loaded() {
    let Some(before) = std::env::var_os(PRELOADED) else { return };
    // SAFETY: QEMU's `main` has not begun, and there is one thread.
    unsafe {
        match before.is_empty() {
            true => std::env::remove_var("LD_PRELOAD"),
            false => std::env::set_var("LD_PRELOAD", before),
        }
        std::env::remove_var(PRELOADED);
    }
}

/// Called by the dynamic linker.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;

/// QEMU's only calls of this function end or stop its own process (linux-user/signal.c): the program's own `kill` is a
/// system call.
#[unsafe(no_mangle)]
extern "C" fn kill(process: libc::pid_t, signal: c_int) -> c_int {
    if process.cast_unsigned() == std::process::id()
        && is_fatal(signal)
        && let Some(session) = Session::get()
    {
        session.end(End::Killed, Some(THREAD.get()));
    }
    // SAFETY: the call has no further condition.
    unsafe { libc::syscall(libc::SYS_kill, process, signal) as c_int }
}

/// Returns whether a signal that the process sends to itself ends it: QEMU has removed its handler then.
fn is_fatal(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the call only writes to `action`.
    let known = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) } == 0;
    // SAFETY: the call has initialised it.
    let default = known && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_DFL;
    let harmless = [
        libc::SIGSTOP,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGCONT,
        libc::SIGCHLD,
        libc::SIGURG,
        libc::SIGWINCH,
    ];
    default && !harmless.contains(&signal)
}

/// Returns whether the file of this name may be executed: a shell tries all directories of PATH.
fn can_be_executed(name: u64) -> bool {
    let mut bytes = [0u8; libc::PATH_MAX as usize + 1];
    let mut length = 0;
    // Up to the ends of pages, because the next one may not be there; the kernel checks the address.
    while length + 1 < bytes.len() {
        let at = name.wrapping_add(length as u64);
        let most = (4096 - at as usize % 4096).min(bytes.len() - 1 - length);
        let to = libc::iovec { iov_base: bytes[length..].as_mut_ptr().cast(), iov_len: most };
        let from = libc::iovec { iov_base: at as *mut _, iov_len: most };
        // SAFETY: `to` is within `bytes`; a wrong `from` is an error.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
        if read <= 0 {
            return false;
        }
        length += read as usize;
        if bytes[length - read as usize..length].contains(&0) {
            break;
        }
    }
    let Ok(name) = CStr::from_bytes_until_nul(&bytes) else { return false };
    std::path::Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())).is_file()
        // SAFETY: the name ends with a zero.
        && unsafe { libc::access(name.as_ptr(), libc::X_OK) } == 0
}

/// A system call begins.
pub fn call_begins(session: &Session, thread: u32, call: i64, arguments: [u64; 3]) {
    THREAD.set(thread);
    let Some((calls, end)) = session.calls.and_then(|calls| Some((calls, calls.end(call, arguments)?)))
    else {
        return;
    };
    if !session.is_own() {
        return;
    }
    let name = || session.places().base().wrapping_add(arguments[0]);
    if !calls.is_exec(call) || can_be_executed(name()) {
        session.may_end(end, thread);
    }
}
