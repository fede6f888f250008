//! What a sweep is of.

use fathom_probe::machine::Operation;

/// Samples a trial. With three rounds nine, of which order statistics make an interval.
pub(super) const SAMPLES: u64 = 3;

/// A point: working set, step, operation.
pub(super) type Request = (u64, u64, Operation);
