//! Points of a sweep.

use fathom_probe::machine::Operation;

/// Samples per trial. Three rounds give nine, enough for an interval from order statistics.
pub(super) const SAMPLES: u64 = 3;

/// A point: working set, stride, operation.
pub(super) type Request = (u64, u64, Operation);
