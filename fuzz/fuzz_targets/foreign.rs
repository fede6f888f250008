//! Fuzz target `foreign`. Its body is shared with the tests (`crates/fathom/tests/fuzz/foreign.rs`).
#![no_main]

#[path = "../../crates/fathom/tests/fuzz/foreign.rs"]
mod foreign;
#[path = "../../crates/fathom/tests/fuzz/mutate.rs"]
mod mutate;
mod mutator;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|data: &[u8]| foreign::run(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::mutate(data, size, max_size, seed)
});
