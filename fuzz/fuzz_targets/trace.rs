//! Fuzz target `trace`. Its body is shared with the tests (`crates/fathom/tests/fuzz/trace.rs`).
#![no_main]

#[path = "../../crates/fathom/tests/fuzz/mutate.rs"]
mod mutate;
mod mutator;
#[path = "../../crates/fathom/tests/fuzz/trace.rs"]
mod trace;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|data: &[u8]| trace::run(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::mutate(data, size, max_size, seed)
});
