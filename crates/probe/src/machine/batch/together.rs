//! Chains side by side: in each step one dependent load along each of several chains. The loads of a step do not depend on
//! each other, so a core may have all of them under way at the same time.

use crate::machine::{Machine, Ops, Refusal};

/// Declares the numbers of chains once: the list, and a loop for each; the larger ones share one.
macro_rules! counts {
    ($($count:literal)*; $($blocks:literal)*) => {
        /// Numbers of chains that can be walked side by side, ascending.
        pub const CHAINS: &[u64] = &[$($count,)* $($blocks),*];

        /// The same as text: with a formatted list, a bare-metal image would be larger.
        pub const CHAINS_TEXT: &str = concat!($(" ", $count,)* $(" ", $blocks),*);

        /// Makes `n` steps of as many chains as there are cells, and replaces each cell by the last one of its chain. Does
        /// nothing without cells.
        ///
        /// # Errors
        /// A [`Refusal`] of a number of chains that [`CHAINS`] has not.
        #[inline(always)]
        pub fn body<M: Machine>(machine: &mut M, cells: &mut [M::Cell], n: u64) -> Result<(), Refusal> {
            match cells.len() {
                0 => {}
                $($count => steps::<M, $count>(machine, cells, n),)*
                $($blocks)|* => steps_in_blocks(machine, cells, n),
                _ => return Err(Refusal::new("this number of chains has no loop", "request one of chains=")),
            }
            Ok(())
        }

        $(const _: () = assert!($blocks % BLOCK == 0, "whole blocks");)*
    };
}

counts!(1 2 4 8 12; 16 24 32 48 64);

/// The loop of `N` chains, in which the compiler knows the number. It keeps as many cells in registers as there are, and the others on
/// the stack. Each of these has a place of its own there, which stays in the nearest cache, so no load depends on one of another chain.
///
/// Never inlined: registers are assigned to each loop alone.
#[inline(never)]
fn steps<M: Machine, const N: usize>(machine: &mut M, cells: &mut [M::Cell], n: u64) {
    let Ok(mut at) = <[M::Cell; N]>::try_from(&*cells) else { return };
    for _ in 0..n {
        for cell in &mut at {
            *cell = machine.follow(*cell);
        }
        machine.charge(Ops { alu: 1, branch: 1 });
    }
    cells.copy_from_slice(&at);
}

/// Chains of a block: their loads follow one another without a branch.
const BLOCK: usize = 8;

/// The loop of more chains than most processors have registers for, in blocks: all cells stay in memory, in the nearest cache. One
/// loop for all of these numbers, because a bare-metal image has them all.
#[inline(never)]
fn steps_in_blocks<M: Machine>(machine: &mut M, cells: &mut [M::Cell], n: u64) {
    let (blocks, _) = cells.as_chunks_mut::<BLOCK>();
    for _ in 0..n {
        for block in &mut *blocks {
            for cell in block {
                *cell = machine.follow(*cell);
            }
            machine.charge(Ops { alu: 1, branch: 1 });
        }
    }
}
