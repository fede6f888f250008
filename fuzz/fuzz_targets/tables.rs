//! Fuzz target `tables`. Its body is shared with the tests (`crates/fathom/tests/fuzz/tables.rs`).
#![no_main]

#[path = "../../crates/fathom/tests/fuzz/mutate.rs"]
mod mutate;
mod mutator;
#[path = "../../crates/analysis/tests/claims/sane.rs"]
mod sane;
#[path = "../../crates/fathom/tests/fuzz/tables.rs"]
mod tables;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|data: &[u8]| tables::run(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::mutate(data, size, max_size, seed)
});
