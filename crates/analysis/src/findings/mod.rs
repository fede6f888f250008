//! Findings: typed rows. A finding is a value of a declared [`Metric`] at coordinates along its axes.
//!
//! The metric and the coordinates are the finding's key: no report has two findings of one key. The dotted name
//! (`tier.1.latency`) is derived from the key by [`Key::name`] and read back by [`Registry::key`], its one inverse.
//! Notes are for people. Nothing reads them back: what a view or a comparison needs is a field of [`Detail`].

mod axis;
mod dependence;
mod detail;
mod key;
mod metric;
mod report;
pub mod tokens;
mod warning;

pub use axis::Axis;
pub use dependence::{Dependence, Outcome, Varied};
pub use detail::{Basis, Detail, Field, Item};
pub use key::{Coordinate, Key, Part, Registry};
pub use metric::{Better, Bounds, Compared, Kind, Metric, UNITS};
pub use report::{Finding, Histogram, Refused, Report, Value};
pub use warning::{Warning, WarningKind};

pub(crate) use metric::metrics;
