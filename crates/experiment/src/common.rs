//! What experiments share: clocks and pages, what a trial will cost, rounds, rows of claims.

pub(crate) mod claims;
pub(crate) mod cost;
pub(crate) mod round;
pub(crate) mod scale;

/// Bytes from cell to cell where the line is not asked about. Smaller lines only leave sets unused, evenly; of
/// larger ones a chain's order keeps the cells half a lap apart.
pub(crate) const STEP: u64 = 64;

/// Pages in a window that any first-level TLB holds, also one of eight entries with random replacement: all
/// their lines are visited before the next window begins.
pub(crate) const WINDOW_PAGES: u64 = 4;
