//! Tests of the closed forms for a copy against a copy cell by cell.

use super::*;
use alloc::vec;

#[test]
fn words_and_sums_equal_a_copy_cell_by_cell() {
    for cells in [1, 2, 40, 320, 1000] {
        let copying = Copying { from: 1 << 20, to: 0, cells };
        for seed in 0..4 {
            let mut held = vec![u64::MAX; cells as usize];
            let mut reached = 0;
            for n in [cells, 3, cells + 7, 9 * cells, 1] {
                for piece in copying.pieces(reached, n) {
                    for i in 0..piece.count {
                        let number = (piece.from - copying.from) / 8 + i;
                        assert!(number < copying.source().cells);
                        held[(piece.to / 8 + i) as usize] = copying.source().initialised(number, seed).word;
                    }
                }
                reached += n;
                assert_eq!(copying.last(reached, seed), held[((reached - 1) % cells) as usize]);
                let sum: u64 = held.iter().sum();
                assert_eq!(copying.sum(reached, seed), sum % copying.prime(), "{cells} cells to {reached}");
            }
        }
    }
}

#[test]
fn every_copy_lap_leaves_new_contents() {
    let copying = Copying { from: 0, to: 1 << 20, cells: 320 };
    for lap in 1..3 * SHIFTS {
        assert_ne!(copying.last(320 * lap, 1), copying.last(320 * (lap + 1), 1), "lap {lap}");
    }
}
