//! The mailbox to the Pis' firmware: one question at the start, before translation is on.

use super::{CoreCell, cache, clock};
use crate::firmware::{CHANNEL, WORDS, answer, question};

/// The message: the mailbox takes addresses of 16 bytes, and a line of its own keeps maintenance off its neighbours.
#[repr(C, align(64))]
struct Message([u32; WORDS]);

static MESSAGE: CoreCell<Message> = CoreCell::new(Message([0; WORDS]));

/// Registers of the mailbox, in bytes from its base: what comes, its status, what goes ("Accessing mailboxes").
const READ: u64 = 0x00;
const STATUS: u64 = 0x18;
const WRITE: u64 = 0x20;
/// Status: there is room for nothing more, there is nothing.
const FULL: u32 = 1 << 31;
const EMPTY: u32 = 1 << 30;
/// Where the video core sees memory past its own cache (BCM2835 ARM Peripherals, 1.2.3). It masks these bits where it
/// does not need them.
const UNCACHED: u32 = 0xc000_0000;
/// Time for an answer, ms: a question takes some 10 us.
const PATIENCE_MS: u32 = 100;
/// Most letters that are taken out to find the answer: a mailbox holds 8.
const LETTERS: usize = 16;

fn read(at: u64) -> u32 {
    // SAFETY: a register of the board's mailbox (crate::board), 32 bits and aligned, with translation off: the access
    // is to a device ("The effects of disabling an address translation stage").
    unsafe { (at as *const u32).read_volatile() }
}

/// Which memory is this core's: its first address and bytes. `None` where the firmware does not say.
///
/// To be asked before translation and data caches are on.
pub(super) fn arm_memory(mailbox: u64) -> Option<(u64, u64)> {
    let message = MESSAGE.get();
    let at = u32::try_from(message.addr()).ok().filter(|at| *at < 1 << 30)?;
    let until = clock::deadline(PATIENCE_MS);
    let waits = |bit: u32| {
        while read(mailbox + STATUS) & bit != 0 {
            if clock::system() >= until {
                return None;
            }
        }
        Some(())
    };
    // SAFETY: there is one core, and nobody else has a reference (the head of `super`). With data caches off the words
    // go to memory; the barrier completes them before the mailbox is told of them ("Data Synchronization Barrier").
    unsafe {
        message.write_volatile(Message(question()));
        core::arch::asm!("dsb sy", options(nostack, preserves_flags));
    }
    waits(FULL)?;
    let letter = at | UNCACHED | CHANNEL;
    // SAFETY: as in `read`.
    unsafe { ((mailbox + WRITE) as *mut u32).write_volatile(letter) };
    // What others have asked before, at an earlier stage, is not for here.
    let mut answered = false;
    for _ in 0..LETTERS {
        waits(EMPTY)?;
        answered = read(mailbox + READ) == letter;
        if answered {
            break;
        }
    }
    if !answered {
        return None;
    }
    // SAFETY: data caches are off, and the message lies in lines of its own, of which none is dirty. The read is of an
    // initialised static, volatile because the firmware has written to it.
    let words = unsafe {
        cache::invalidate(message.addr() as u64, size_of::<Message>() as u64);
        message.read_volatile()
    };
    answer(&words.0)
}
