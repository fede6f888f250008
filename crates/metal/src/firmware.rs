//! What the Pis' firmware is asked: which memory is the core's, and not the video core's.
//!
//! Sources: the wiki of the Raspberry Pi firmware, "Mailbox property interface" and "Accessing mailboxes".

use alloc::format;
use alloc::string::String;

use crate::windows::BYTES;

/// Words of a message.
pub const WORDS: usize = 8;
/// The mailbox's channel of properties, core to video core.
pub const CHANNEL: u32 = 8;
/// The property "Get ARM memory": first address and bytes.
const GET_ARM_MEMORY: u32 = 0x0001_0005;
/// The code of a message that was understood.
const DONE: u32 = 0x8000_0000;

/// The question: bytes of the message, a request, one property with room for two words, the end.
#[must_use]
pub fn question() -> [u32; WORDS] {
    [4 * WORDS as u32, 0, GET_ARM_MEMORY, 8, 0, 0, 0, 0]
}

/// The answer in the same words: the core's memory, as its first address and bytes. `None` for whatever is no answer.
#[must_use]
pub fn answer(message: &[u32; WORDS]) -> Option<(u64, u64)> {
    // The property's own code: an answer (bit 31) of 8 bytes.
    let [_, DONE, GET_ARM_MEMORY, _, code, base, bytes, _] = *message else { return None };
    (code == 1 << 31 | 8 && bytes > 0).then_some((base.into(), bytes.into()))
}

/// May the arena lie at `arena`? The firmware's word on the core's memory, where it has given one.
///
/// # Errors
/// Why not, as a line for whoever is at the terminal.
pub fn judge(arena: u64, memory: Option<(u64, u64)>) -> Result<(), String> {
    let Some((base, bytes)) = memory else { return Ok(()) };
    if base <= arena && arena + BYTES <= base + bytes {
        return Ok(());
    }
    Err(format!(
        "# the firmware gives this core {} MiB of memory from {base:#x}, and the arena is {} MiB from {arena:#x}: \
         set gpu_mem=64 in config.txt, and start again",
        bytes >> 20,
        BYTES >> 20
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Board;

    fn answered(base: u32, bytes: u32) -> [u32; WORDS] {
        [32, DONE, GET_ARM_MEMORY, 8, 1 << 31 | 8, base, bytes, 0]
    }

    #[test]
    fn only_an_answer_is_one() {
        assert_eq!(answer(&answered(0, 948 << 20)), Some((0, 948 << 20)));
        assert_eq!(answer(&question()), None);
        assert_eq!(answer(&answered(0, 0)), None);
        for spoilt in [1, 2, 4] {
            let mut message = answered(0, 948 << 20);
            message[spoilt] ^= 1;
            assert_eq!(answer(&message), None, "word {spoilt}");
        }
    }

    #[test]
    fn the_arena_is_refused_where_the_video_core_has_it() {
        for (mib, fits) in
            [(1024 - 76, true), (512 - 64, true), (512 - 256, true), (512 - 257, false), (192, false)]
        {
            let found = judge(Board::Pi3.arena(), Some((0, mib << 20)));
            assert_eq!(found.is_ok(), fits, "{mib}: {found:?}");
            if let Err(why) = found {
                assert!(why.starts_with('#') && why.contains("gpu_mem"), "{why}");
            }
        }
        assert!(judge(Board::Pi3.arena(), Some((0x1000_0000, 256 << 20))).is_err());
        assert_eq!(judge(Board::Pi4.arena(), None), Ok(()));
    }
}
