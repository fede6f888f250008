//! Fuzz target `description`. Its body is shared with the tests (`crates/fathom/tests/fuzz/description.rs`).
#![no_main]

#[path = "../../crates/fathom/tests/fuzz/description.rs"]
mod description;
#[path = "../../crates/fathom/tests/fuzz/mutate.rs"]
mod mutate;
mod mutator;
#[path = "../../crates/fathom/tests/fuzz/scripted.rs"]
mod scripted;
#[path = "../../crates/fathom/src/subjects/user_defined.rs"]
mod user_defined;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|data: &[u8]| description::run(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::mutate(data, size, max_size, seed)
});
