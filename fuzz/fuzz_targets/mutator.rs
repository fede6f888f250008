//! Mutator of the fuzz targets: half of the inputs come from libFuzzer, half from the mutator of the tests, which knows
//! lines, numbers and checksums.

use crate::mutate::{Random, mutated, resealed};

/// Mutates `data[..size]` in place and returns the new size.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut random = Random::new(u64::from(seed));
    if random.below(2) == 0 {
        return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
    }
    let input = data[..size].to_vec();
    let mut new = mutated(&input, &input, &mut random);
    if random.below(2) == 0 {
        new = resealed(&new);
    }
    new.truncate(max_size.min(data.len()));
    data[..new.len()].copy_from_slice(&new);
    new.len()
}
