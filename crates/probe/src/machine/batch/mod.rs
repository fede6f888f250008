//! The loops over many accesses: each written once and generic over the machine, which may override it.

pub mod chase;
pub mod copy;
pub mod stride;

/// Calls `one` `count` times, the odd ones first and then in turns of `N`: the shape of a machine's own loops, which
/// they share with the generic bodies.
#[inline(always)]
pub fn unrolled<const N: u64>(count: u64, mut one: impl FnMut()) {
    for _ in 0..count % N {
        one();
    }
    for _ in 0..count / N {
        for _ in 0..N {
            one();
        }
    }
}
