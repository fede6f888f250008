//! What happens where the cycle counter is read without the right to: the kernel sends SIGILL, whose handler answers in
//! the instruction's place with the generic timer's count, so that nothing that waits for a clock waits forever, and
//! counts the answer, so that nobody takes it for a time. Any other illegal instruction ends the process as before.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::super::Architecture as _;
use super::Cpu;

/// Readings in whose place the handler returned another count, since they were asked for last.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// `MRS Xt, PMCCNTR_EL0` without its register, and where that stands (DDI 0487, "MRS", and the encoding of
/// `PMCCNTR_EL0`: op0 3, op1 3, CRn 9, CRm 13, op2 0).
const READ: u32 = 0xd53b_9d00;
const REGISTER: u32 = 0x1f;

/// The register that the instruction reads the counter into; 31 is none.
pub(super) fn reads_into(instruction: u32) -> Option<usize> {
    (instruction & !REGISTER == READ).then_some((instruction & REGISTER) as usize)
}

/// Shows that the handler is installed, which it stays for as long as the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Installed(());

/// Installs the handler, once for a process.
pub(super) fn install() -> io::Result<Installed> {
    static DONE: Mutex<bool> = Mutex::new(false);
    // Poisoned, it is still either not installed or is.
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !*done {
        act(illegal as extern "C" fn(_, _, _) as usize, libc::SA_SIGINFO)?;
        *done = true;
    }
    Ok(Installed(()))
}

/// How many such readings there were since this was called last.
pub(super) fn taken() -> u64 {
    TAKEN.swap(0, Ordering::Relaxed)
}

fn act(handler: usize, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid `sigaction` (an empty mask, integers).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: `action` is live, and its handler `illegal` with SA_SIGINFO, or the default; `illegal` may run on any
    // thread at any instruction: it touches an atomic and the state that it is given, and calls what signal-safety(7)
    // lists.
    match unsafe { libc::sigaction(libc::SIGILL, &raw const action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn illegal(_signal: libc::c_int, _about: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: to a handler with SA_SIGINFO the kernel passes the interrupted state, which nobody else uses until it
    // returns (sigaction(2)).
    let state = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext };
    let at = std::ptr::with_exposed_provenance::<u32>(state.pc as usize);
    // SAFETY: of SIGILL the program counter is at the instruction that the core has just fetched. Should the signal be
    // another process's (kill(2)), it is at the next one, which is as readable: code of ours is mapped to be read.
    let instruction = unsafe { at.read_volatile() };
    match reads_into(instruction) {
        Some(register) => {
            TAKEN.fetch_add(1, Ordering::Relaxed);
            if let Some(value) = state.regs.get_mut(register) {
                *value = Cpu::counter();
            }
            state.pc += 4;
        }
        // The instruction runs again, and ends the process as if nobody had looked.
        None => {
            let _ = act(libc::SIG_DFL, 0);
        }
    }
}
