//! Inner loops over many accesses, generic over the machine. A machine may override each.

pub mod chase;
pub mod copy;
pub mod stride;

/// Calls `step` `count` times: first `count % N` times, then `N` times per iteration. Machines' own loops and the
/// generic bodies share this shape.
#[inline(always)]
pub fn unrolled<const N: u64>(count: u64, mut step: impl FnMut()) {
    for _ in 0..count % N {
        step();
    }
    for _ in 0..count / N {
        for _ in 0..N {
            step();
        }
    }
}
