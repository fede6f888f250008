use fathom_probe::machine::batch::stride::KEYS;

use super::*;

/// The instructions in plain Rust: these tests check the loops; each machine tests its own instructions.
enum Plain {}

impl Instructions for Plain {
    unsafe fn store_pair(at: *mut u8, value: u64) {
        // SAFETY: the caller's promise.
        unsafe { at.cast::<[u64; 2]>().write([value; 2]) };
    }

    unsafe fn move_pair(from: *const u8, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[u64; 2]>().write(from.cast::<[u64; 2]>().read()) };
    }

    fn add(sum: usize, addend: usize) -> usize {
        sum.wrapping_add(addend)
    }

    fn add_turns(sum: usize, addend: usize, turns: usize) -> usize {
        sum.wrapping_add(addend.wrapping_mul(turns * crate::ADDITIONS as usize))
    }
}

const WORDS: usize = 1024;

/// Returns an arena whose words are all different.
fn arena() -> [u64; WORDS] {
    core::array::from_fn(|word| 8 * (word as u64 * 5 % WORDS as u64))
}

/// Strides, cells, start positions and numbers of accesses: contiguous and spaced; less than an iteration, whole
/// iterations, and a remainder; within a lap and across several.
const CASES: [(u64, u64, u64, u64); 6] =
    [(8, 1, 0, 3), (8, 67, 5, 62), (8, 67, 60, 150), (8, 64, 0, 64), (64, 33, 7, 33), (24, 40, 79, 100)];

#[test]
fn sweep_applies_the_operation_to_each_cell() {
    let base = 256;
    for (step, cells, from, n) in CASES {
        for operation in [Operation::Read, Operation::Write, Operation::Rmw, Operation::Set] {
            let (mut real, mut naive) = (arena(), arena());
            let requested = Sweep { base, stride: step, cells, operation };
            let mut sum = 0u64;
            for position in from..from + n {
                let key = 8 * (position / cells % KEYS);
                let word = &mut naive[((base + position % cells * step) / 8) as usize];
                match operation {
                    Operation::Read => sum += *word,
                    Operation::Rmw => *word ^= key,
                    _ => *word = base + key,
                }
            }
            // SAFETY: the last cell is at 256 + 39 * 24 or 256 + 32 * 64 at most, inside the arena, and all words may
            // have any content.
            let found = unsafe { sweep::<Plain>(real.as_mut_ptr().cast(), &requested, from, n) };
            assert_eq!(found, Some(sum), "{requested:?} {from} {n}");
            assert_eq!(real, naive, "{requested:?} {from} {n}");
        }
    }
}

#[test]
fn sweep_refuses_copy_operations() {
    let mut memory = arena();
    for operation in [Operation::CopyTo, Operation::CopyFrom] {
        let requested = Sweep { base: 0, stride: 8, cells: 4, operation };
        // SAFETY: four words of a larger arena.
        assert_eq!(unsafe { sweep::<Plain>(memory.as_mut_ptr().cast(), &requested, 0, 4) }, None);
    }
    assert_eq!(memory, arena());
}

#[test]
fn copy_moves_exactly_its_cells() {
    for (cells, from, n) in [(1, 0, 3), (67, 5, 62), (67, 60, 150), (64, 0, 64)] {
        let (mut real, mut naive) = (arena(), arena());
        let copying = Copying { from: 64, to: 4096, cells };
        for piece in copying.pieces(from, n) {
            for i in 0..piece.count {
                naive[(piece.to / 8 + i) as usize] = naive[(piece.from / 8 + i) as usize];
            }
        }
        // SAFETY: 83 cells from 64 on and 67 from 4096 on are inside the arena, and all words may have any content.
        unsafe { copy::<Plain>(real.as_mut_ptr().cast(), &copying, from, n) };
        assert_eq!(real, naive, "{copying:?} {from} {n}");
        assert_ne!(real, arena());
    }
}

#[test]
fn additions_end_for_any_count() {
    for n in [0, 1, crate::ADDITIONS - 1, crate::ADDITIONS, crate::ADDITIONS + 1, 10_000] {
        crate::additions::<Plain>(n);
    }
}
