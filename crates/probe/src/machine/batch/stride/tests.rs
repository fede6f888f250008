//! Tests of the closed forms of sums and contents against cell-by-cell computation.

use super::*;
use alloc::vec;

fn sweep(cells: u64, step: u64, operation: Operation) -> Sweep {
    Sweep { base: 4096, stride: step, cells, operation }
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
fn sums_equal_a_sum_cell_by_cell() {
    for (cells, step) in SHAPES {
        let s = sweep(cells, step, Operation::Read);
        for seed in 0..4 {
            for (from, n) in [(0, 1), (cells, cells), (5, 3 * cells + 2), (cells + 3, 1), (99, 4097)] {
                let sum: u64 = (from..from + n).map(|p| s.initialised(p % cells, seed).word).sum();
                assert_eq!(s.sum(from, n, seed), sum % s.prime(), "{cells} x {step}, {from}+{n}");
            }
        }
    }
}

#[test]
fn words_are_inside_the_buffer_and_follow_each_other() {
    for (cells, step) in SHAPES {
        let s = sweep(cells, step, Operation::Read);
        let mut initialised = s.initialised(0, 7);
        for number in 0..cells {
            assert_eq!(initialised, s.initialised(number, 7), "{cells} x {step}, cell {number}");
            assert!(initialised.word * 8 < cells * step);
            initialised.advance();
        }
    }
}

#[test]
fn primes_are_primes_and_the_largest_below_their_power() {
    let is_prime = |n: u64| n > 1 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
    for (bits, below) in PRIME_GAPS.iter().enumerate().skip(2) {
        assert!(is_prime((1 << bits) - below), "2^{bits} - {below}");
        // For small powers, check the numbers in the gap too.
        if bits < 24 {
            assert!((1..*below).all(|d| !is_prime((1 << bits) - d)), "a larger one below 2^{bits}");
        }
    }
}

#[test]
fn contents_follow_from_the_number_of_laps() {
    for operation in [Operation::Write, Operation::Rmw] {
        for (cells, step) in [(1, 8), (3, 64), (50, 8)] {
            let s = sweep(cells, step, operation);
            let mut memory = vec![0; cells as usize];
            for position in 0..700 * cells.min(5) {
                let (lap, cell) = (position / cells % KEYS, (position % cells) as usize);
                memory[cell] = if operation == Operation::Rmw { memory[cell] ^ lap } else { lap };
                for (number, word) in memory.iter().enumerate() {
                    assert_eq!(
                        s.expected_word(number as u64, position + 1),
                        *word,
                        "{operation:?} {position}"
                    );
                }
                let sum: u64 = memory.iter().zip(1..).map(|(word, n)| word * n).sum();
                assert_eq!(s.contents(position + 1), sum);
            }
        }
    }
}
