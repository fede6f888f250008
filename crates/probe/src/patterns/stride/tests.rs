//! Sums and contents that are known in one evaluation, against adding up cell by cell.

use super::*;
use alloc::vec;

fn sweep(cells: u64, step: u64, operation: Operation) -> Sweep {
    Sweep { base: 4096, step, cells, operation }
}

const SHAPES: [(u64, u64); 7] = [(1, 8), (2, 64), (7, 8), (33, 16), (64, 4096), (1000, 64), (4097, 8)];

#[test]
fn parts_are_every_position_once_in_order() {
    for (cells, step) in SHAPES {
        let s = sweep(cells, step, Operation::Read);
        for (from, n) in [(0, 0), (0, 1), (cells - 1, 2), (3 * cells, 5 * cells + 1), (12_345, 678)] {
            let mut position = from;
            for part in s.parts(from, n) {
                for i in 0..part.count {
                    assert_eq!(part.offset + i * step, s.base + position % cells * step);
                    assert_eq!(part.key, 8 * (position / cells % KEYS));
                    position += 1;
                }
            }
            assert_eq!(position, from + n);
        }
    }
}

#[test]
fn sums_are_those_of_the_cells() {
    for (cells, step) in SHAPES {
        let s = sweep(cells, step, Operation::Read);
        for seed in 0..4 {
            for (from, n) in [(0, 1), (cells, cells), (5, 3 * cells + 2), (cells + 3, 1), (99, 4097)] {
                let sum: u64 = (from..from + n).map(|p| s.laid(p % cells, seed)).sum();
                assert_eq!(s.sum(from, n, seed), sum % s.words(), "{cells} x {step}, {from}+{n}");
            }
        }
    }
}

#[test]
fn words_are_inside_the_buffer_and_differ_from_cell_to_cell() {
    for (cells, step) in SHAPES {
        let s = sweep(cells, step, Operation::Read);
        assert!(s.words() * 8 <= (cells * step).max(8));
        let mut words: Vec<u64> = (0..cells.min(s.words())).map(|n| s.laid(n, 7)).collect();
        assert!(words.iter().all(|w| *w < s.words()));
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len() as u64, cells.min(s.words()), "{cells} x {step}");
    }
}

#[test]
fn contents_are_what_laps_leave_one_after_the_other() {
    for operation in [Operation::Write, Operation::Rmw] {
        for (cells, step) in [(1, 8), (3, 64), (50, 8)] {
            let s = sweep(cells, step, operation);
            let mut memory = vec![0; cells as usize];
            for position in 0..700 * cells.min(5) {
                let (lap, cell) = (position / cells % KEYS, (position % cells) as usize);
                memory[cell] = if operation == Operation::Rmw { memory[cell] ^ lap } else { lap };
                for (number, word) in memory.iter().enumerate() {
                    assert_eq!(s.held(number as u64, position + 1), *word, "{operation:?} {position}");
                }
                let sum: u64 = memory.iter().zip(1..).map(|(word, n)| word * n).sum();
                assert_eq!(s.contents(position + 1), sum);
            }
        }
    }
}
