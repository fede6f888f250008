//! Working sets: the requested ones, or the default.

use super::options::Options;
use super::{REFERENCE, SIZES, STRIDE};
use crate::record::Record;

/// Returns the requested sizes, in whole cells.
pub(super) fn requested(record: &Record) -> Vec<u64> {
    let requested = Options::of(record).bytes;
    let requested = if requested.is_empty() { SIZES.to_vec() } else { requested };
    requested.iter().map(|b| (b / STRIDE * STRIDE).max(2 * STRIDE)).collect()
}

/// Returns the reference and the requested sizes, each once.
pub(super) fn sizes(record: &Record) -> impl Iterator<Item = u64> + use<> {
    let mut sizes = requested(record);
    sizes.push(REFERENCE);
    sizes.sort_unstable();
    sizes.dedup();
    sizes.into_iter()
}
