//! Mailbox of the Pis' firmware: one request at the start, before translation is on.

use super::arch::cache;
use super::{CoreCell, clock};
use crate::firmware::{CHANNEL, WORDS, parse_response, request};

/// The message. The mailbox needs addresses aligned to 16 bytes. A separate cache line keeps the maintenance away
/// from other data.
#[repr(C, align(64))]
struct Message([u32; WORDS]);

static MESSAGE: CoreCell<Message> = CoreCell::new(Message([0; WORDS]));

/// Registers of the mailbox, in bytes from its base: read, status, write ("Accessing mailboxes").
const READ_OFFSET: u64 = 0x00;
const STATUS_OFFSET: u64 = 0x18;
const WRITE_OFFSET: u64 = 0x20;
/// Status bits: full, empty.
const FULL: u32 = 1 << 31;
const EMPTY: u32 = 1 << 30;
/// Timeout of a response, ms: a request takes some 10 us.
const TIMEOUT_MS: u32 = 100;
/// Maximum letters that are read to find the response: a mailbox holds 8.
const MAX_LETTERS: usize = 16;

fn read(at: u64) -> u32 {
    // SAFETY: a register of the board's mailbox (crate::board), 32 bits and aligned, with translation off: the access
    // has the device attribute ("The effects of disabling an address translation stage").
    unsafe { (at as usize as *const u32).read_volatile() }
}

/// Returns this core's memory: its first address and size. `None` if the firmware does not respond. The video core reads
/// the message through the alias `video_alias` (`crate::board::Board::video_alias`).
///
/// Must be called before translation and data caches are on.
pub(super) fn arm_memory(mailbox: u64, video_alias: u32) -> Option<(u64, u64)> {
    let message = MESSAGE.get();
    let at = u32::try_from(message.addr()).ok().filter(|at| *at < 1 << 30)?;
    let until = clock::deadline(TIMEOUT_MS);
    let wait_while = |bit: u32| {
        while read(mailbox + STATUS_OFFSET) & bit != 0 {
            if clock::system() >= until {
                return None;
            }
        }
        Some(())
    };
    // SAFETY: there is one core, and no other reference exists (the head of `super`). With data caches off the words
    // go to memory; the barrier completes them before the mailbox is notified ("Data Synchronization Barrier").
    unsafe {
        message.write_volatile(Message(request()));
        cache::complete_accesses();
    }
    wait_while(FULL)?;
    let letter = at | video_alias | CHANNEL;
    // SAFETY: as in `read`.
    unsafe { ((mailbox + WRITE_OFFSET) as usize as *mut u32).write_volatile(letter) };
    // Responses to requests of an earlier boot stage are skipped.
    let mut received = false;
    for _ in 0..MAX_LETTERS {
        wait_while(EMPTY)?;
        received = read(mailbox + READ_OFFSET) == letter;
        if received {
            break;
        }
    }
    if !received {
        return None;
    }
    // SAFETY: data caches are off, and the message has separate lines, none of which is dirty. The read is of an
    // initialised static, volatile because the firmware has written to it.
    let words = unsafe {
        cache::invalidate(message.addr() as u64, size_of::<Message>() as u64);
        message.read_volatile()
    };
    parse_response(&words.0)
}
