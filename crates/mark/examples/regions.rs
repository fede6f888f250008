//! Reads an array of 1 MiB twice, as `examples/regions.c`: along its rows of 4 KiB, 4 x 16384 words, and down the columns,
//! 16 x 256 words. Each half is a region, within the region of both. A panic leaves a region, too.

use std::hint::black_box;

const ROWS: usize = 256;
const WORDS: usize = 1024;

#[repr(align(4096))]
struct Array([[u32; WORDS]; ROWS]);

static ARRAY: Array = Array([[0; WORDS]; ROWS]);

fn word(row: usize, word: usize) -> u32 {
    // SAFETY: the address is that of a word of the array, whose indices are checked.
    unsafe { (&raw const ARRAY.0[row][word]).read_volatile() }
}

fn rows(part: usize) -> u32 {
    fathom_mark::region!("rows");
    let mut sum = 0;
    for row in part * ROWS / 4..(part + 1) * ROWS / 4 {
        for column in (0..WORDS).step_by(4) {
            sum += word(row, column);
        }
    }
    sum
}

fn columns() -> u32 {
    let mut sum = 0;
    fathom_mark::begin!("columns");
    for column in 0..16 {
        for row in 0..ROWS {
            sum += word(row, column * 64);
        }
    }
    fathom_mark::end!("columns");
    sum
}

fn checked(of: usize) -> Option<usize> {
    fathom_mark::region!("checked");
    let half = of.checked_sub(1)?;
    assert!(half != 1, "this one panics");
    Some(half)
}

fn main() {
    let sum = {
        fathom_mark::region!("both");
        (0..4).map(rows).sum::<u32>() + columns()
    };
    std::panic::set_hook(Box::new(|_| {}));
    let ends: Vec<bool> = (0..4)
        .map(|of| std::panic::catch_unwind(|| checked(black_box(of))).is_ok_and(|found| found.is_some()))
        .collect();
    println!("{sum} {ends:?}");
}
