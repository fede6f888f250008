//! No mark.

/// Nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __mark {
    ($what:literal, $name:literal) => {};
}
