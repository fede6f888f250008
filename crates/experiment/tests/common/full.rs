//! The choice between the full and the default tier of tests.

/// Returns whether the full tier runs (`scripts/test --full`, which sets `FATHOM_FULL`).
pub fn full() -> bool {
    std::env::var_os("FATHOM_FULL").is_some()
}
