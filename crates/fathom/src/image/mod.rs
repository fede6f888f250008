//! The bare-metal image.

/// The image.
pub fn embedded() -> &'static [u8] {
    &[]
}
