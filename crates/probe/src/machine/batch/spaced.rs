//! Two chains side by side, with other instructions between their loads: how many instructions a core has in flight.

use core::ops::RangeInclusive;

/// Instructions between two loads. On RISC-V a jump and an addition are among them. The most are twice the reorder buffer of most
/// processors, and as many take less time than a load of memory.
pub const FILLERS: RangeInclusive<u64> = 2..=1024;

/// The same as text: with formatted numbers, a bare-metal image would be larger.
pub const FILLERS_TEXT: &str = "2 to 1024";
