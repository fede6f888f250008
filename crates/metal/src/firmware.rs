//! Mailbox property requests to the Raspberry Pi firmware: the memory of the ARM core, in contrast to the video
//! core's.
//!
//! Sources: the wiki of the Raspberry Pi firmware, "Mailbox property interface" and "Accessing mailboxes".

use alloc::format;
use alloc::string::String;

use crate::windows::ARENA_BYTES;

/// Words in a message.
pub const WORDS: usize = 8;
/// Mailbox channel of properties, ARM core to video core.
pub const CHANNEL: u32 = 8;
/// Property "Get ARM memory": first address and size.
const GET_ARM_MEMORY: u32 = 0x0001_0005;
/// Code of a message that was processed.
const PROCESSED: u32 = 0x8000_0000;

/// Returns the request: size of the message, request code, one property with room for two words, end mark.
#[must_use]
pub fn request() -> [u32; WORDS] {
    [4 * WORDS as u32, 0, GET_ARM_MEMORY, 8, 0, 0, 0, 0]
}

/// Parses the response in the same words: the core's memory, as its first address and size. `None` if it is not a
/// valid response.
#[must_use]
pub fn parse_response(message: &[u32; WORDS]) -> Option<(u64, u64)> {
    // The property's own code: a response (bit 31) of 8 bytes.
    let [_, PROCESSED, GET_ARM_MEMORY, _, code, base, bytes, _] = *message else { return None };
    (code == 1 << 31 | 8 && bytes > 0).then_some((base.into(), bytes.into()))
}

/// Checks that the arena may be at `arena`, by the core's memory if the firmware has reported it.
///
/// # Errors
/// Returns the reason, as a line for a terminal.
pub fn check_arena(arena: u64, memory: Option<(u64, u64)>) -> Result<(), String> {
    let Some((base, bytes)) = memory else { return Ok(()) };
    if base <= arena && arena + ARENA_BYTES <= base + bytes {
        return Ok(());
    }
    Err(format!(
        "# the firmware gives this core {} MiB of memory from {base:#x}, and the arena is {} MiB from {arena:#x}: \
         set gpu_mem=64 in config.txt, and start again",
        bytes >> 20,
        ARENA_BYTES >> 20
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Board;

    fn response(base: u32, bytes: u32) -> [u32; WORDS] {
        [32, PROCESSED, GET_ARM_MEMORY, 8, 1 << 31 | 8, base, bytes, 0]
    }

    #[test]
    fn only_valid_responses_are_parsed() {
        assert_eq!(parse_response(&response(0, 948 << 20)), Some((0, 948 << 20)));
        assert_eq!(parse_response(&request()), None);
        assert_eq!(parse_response(&response(0, 0)), None);
        for spoilt in [1, 2, 4] {
            let mut message = response(0, 948 << 20);
            message[spoilt] ^= 1;
            assert_eq!(parse_response(&message), None, "word {spoilt}");
        }
    }

    #[test]
    fn arena_overlapping_video_memory_is_refused() {
        for (mib, fits) in
            [(1024 - 76, true), (512 - 64, true), (512 - 256, true), (512 - 257, false), (192, false)]
        {
            let found = check_arena(Board::Pi3.arena(), Some((0, mib << 20)));
            assert_eq!(found.is_ok(), fits, "{mib}: {found:?}");
            if let Err(why) = found {
                assert!(why.starts_with('#') && why.contains("gpu_mem"), "{why}");
            }
        }
        assert!(check_arena(Board::Pi3.arena(), Some((0x1000_0000, 256 << 20))).is_err());
        assert_eq!(check_arena(Board::Pi4.arena(), None), Ok(()));
    }
}
