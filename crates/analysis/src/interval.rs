//! Intervals: medians, order statistics, bootstrap.
