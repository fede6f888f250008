//! Handler of SIGILL, which the kernel sends if the cycle counter is read without the right. It returns the generic
//! timer's count instead, so that no loop that waits for the clock hangs. It counts such readings, so that none is
//! used as a time. Any other illegal instruction ends the process as usual.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::super::Architecture as _;
use super::Cpu;

/// Readings replaced by the handler since the last query.
static REPLACED: AtomicU64 = AtomicU64::new(0);

/// `MRS Xt, PMCCNTR_EL0` without its register, and the register's bits (DDI 0487, "MRS", and the encoding of
/// `PMCCNTR_EL0`: op0 3, op1 3, CRn 9, CRm 13, op2 0).
const MRS_PMCCNTR: u32 = 0xd53b_9d00;
const REGISTER_MASK: u32 = 0x1f;

/// Returns the register that the instruction reads the counter into; 31 discards the value.
pub(super) fn reads_into(instruction: u32) -> Option<usize> {
    (instruction & !REGISTER_MASK == MRS_PMCCNTR).then_some((instruction & REGISTER_MASK) as usize)
}

/// Proof that the handler is installed. It stays installed for as long as the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandlerInstalled(());

/// Installs the handler, once per process.
pub(super) fn install() -> io::Result<HandlerInstalled> {
    static DONE: Mutex<bool> = Mutex::new(false);
    // Even if poisoned, the value is correct.
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !*done {
        set_action(illegal as extern "C" fn(_, _, _) as usize, libc::SA_SIGINFO)?;
        *done = true;
    }
    Ok(HandlerInstalled(()))
}

/// Returns the number of such readings since the last call.
pub(super) fn take_replaced() -> u64 {
    REPLACED.swap(0, Ordering::Relaxed)
}

fn set_action(handler: usize, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid `sigaction` (an empty mask, integers).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: `action` is live, and its handler is `illegal` with SA_SIGINFO, or the default. `illegal` may run on
    // any thread at any instruction: it accesses an atomic and the state that it is given, and calls only functions
    // listed in signal-safety(7).
    match unsafe { libc::sigaction(libc::SIGILL, &raw const action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn illegal(_signal: libc::c_int, _about: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes the interrupted state to a handler with SA_SIGINFO; nothing else uses it until the
    // handler returns (sigaction(2)).
    let state = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext };
    let at = std::ptr::with_exposed_provenance::<u32>(state.pc as usize);
    // SAFETY: for SIGILL the program counter is at the instruction that the core has just fetched. If another process
    // sent the signal (kill(2)), it is at the next instruction, which is also readable: code of this process is
    // mapped readable.
    let instruction = unsafe { at.read_volatile() };
    match reads_into(instruction) {
        Some(register) => {
            REPLACED.fetch_add(1, Ordering::Relaxed);
            if let Some(value) = state.regs.get_mut(register) {
                *value = Cpu::counter();
            }
            state.pc += 4;
        }
        // The instruction runs again, and ends the process by the default action.
        None => {
            let _ = set_action(libc::SIG_DFL, 0);
        }
    }
}
