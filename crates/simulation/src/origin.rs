//! Who has made an access: what its `pc` tells, in place of an address.

use serde::{Deserialize, Serialize};

use crate::calls::MAX_CALLS;

/// Bits for the number of a place, and for that of a call. Above them is whose code it is.
const PLACE_BITS: u32 = 32;
const CALL_BITS: u32 = 28;

// Threads may have some more calls than that.
const _: () = assert!(MAX_CALLS < 1 << (CALL_BITS - 1));

/// Whose code makes an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Accessor {
    /// That of the program that is simulated; of a guest, of the program that is told apart.
    #[default]
    Program,
    /// That of a guest's kernel.
    Kernel,
    /// That of another program of a guest, or code that runs before the kernel has its addresses.
    Others,
}

impl Accessor {
    /// Returns the one with this number.
    #[must_use]
    pub fn of(number: u64) -> Option<Accessor> {
        [Accessor::Program, Accessor::Kernel, Accessor::Others].into_iter().find(|of| *of as u64 == number)
    }
}

/// Returns the `pc` of an access that code makes at a place, in a call: the numbers of both; 0 if calls are not told.
#[inline(always)]
#[must_use]
pub fn pc_of(place: u32, call: u32, by: Accessor) -> u64 {
    u64::from(place) | u64::from(call) << PLACE_BITS | (by as u64) << (PLACE_BITS + CALL_BITS)
}

/// Returns the number of the place of an access, from its `pc`.
#[inline(always)]
#[must_use]
pub fn place_of(pc: u64) -> usize {
    (pc & ((1 << PLACE_BITS) - 1)) as usize
}

/// Returns the number of the call that has made an access, from its `pc`; 0 if calls are not told.
#[inline(always)]
#[must_use]
pub fn call_of(pc: u64) -> usize {
    (pc >> PLACE_BITS & ((1 << CALL_BITS) - 1)) as usize
}

/// Returns whose code has made an access, from its `pc`.
#[inline(always)]
#[must_use]
pub fn accessor_of(pc: u64) -> Accessor {
    Accessor::of(pc >> (PLACE_BITS + CALL_BITS)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for (place, call, by) in [
            (0, 0, Accessor::Program),
            (u32::MAX, MAX_CALLS as u32 + 4096, Accessor::Others),
            (7, 1, Accessor::Kernel),
        ] {
            let pc = pc_of(place, call, by);
            assert_eq!((place_of(pc), call_of(pc), accessor_of(pc)), (place as usize, call as usize, by));
        }
        assert_eq!(pc_of(5, 0, Accessor::Program), 5, "of a program without calls it is the place");
        assert_eq!(Accessor::of(3), None);
    }
}
