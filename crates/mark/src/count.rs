//! Nothing counts.

/// Returns whether a run counts.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    false
}

/// Begins a region.
pub(crate) fn begin(_: &'static str) {}

/// Ends a region.
pub(crate) fn end(_: &'static str) {}
