//! Random cases of this crate's tests.

use proptest::test_runner::{Config, RngSeed};

/// Cases of a test, unless `PROPTEST_CASES` tells another number: in an emulator `scripts/test` takes fewer, because there the tests show
/// that the program is right for its processor, and the logic was tested natively.
const CASES: u32 = 2000;

/// Fixed cases, so that each run has the same.
pub(crate) fn fixed() -> Config {
    let default = Config::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { CASES };
    Config { cases, rng_seed: RngSeed::Fixed(0x5eed), failure_persistence: None, ..default }
}
