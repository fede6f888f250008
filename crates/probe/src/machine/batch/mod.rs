//! Inner loops over many accesses, generic over the machine. A machine may override each.

pub mod chase;
pub mod copy;
pub mod spaced;
pub mod stride;
pub mod together;

/// Executes an expression 16 times. Written out, because a compiler unrolls a loop only if its body is small: one of 32
/// modifications was not, for ARMv7.
macro_rules! sixteen_times {
    ($step:expr) => {
        sixteen_times!(@twice sixteen_times!(@twice sixteen_times!(@twice sixteen_times!(@twice $step))))
    };
    (@twice $step:expr) => {{
        $step;
        $step
    }};
}

/// Calls `step` `count` times: first `count % N` times, then `N` times per iteration; N is 16 or 32. Machines' own loops
/// and the generic bodies share this shape.
///
/// The loops count in a register. A 64-bit count takes two to four instructions of a 32-bit machine: with it a modification
/// took 11 instructions of an ARMv7 instead of 4.
#[inline(always)]
pub fn unrolled<const N: usize>(count: u64, mut step: impl FnMut()) {
    const { assert!(N == 16 || N == 32) };
    for _ in 0..(count % N as u64) as usize {
        step();
    }
    let mut left = count / N as u64;
    while left != 0 {
        // All at once, except for more than a register counts.
        let part = usize::try_from(left).unwrap_or(usize::MAX);
        for _ in 0..part {
            sixteen_times!(step());
            if N == 32 {
                sixteen_times!(step());
            }
        }
        left -= part as u64;
    }
}
