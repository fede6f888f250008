//! Events per load: the same metrics for working sets and for tiers.

use crate::findings::{Axis, Metric};

/// The metrics of events per load along one axis.
#[derive(Debug)]
pub struct EventMetrics {
    /// The axis that all of them have.
    pub axis: Axis,
    /// Executed instructions.
    pub instructions: &'static Metric,
    /// Accesses of data.
    pub accesses: &'static Metric,
    /// Refills of a cache level.
    pub refills: &'static Metric,
    /// Lines read from memory.
    pub memory_reads: &'static Metric,
    /// Refills of a TLB.
    pub tlb_refills: &'static Metric,
    /// TLB misses as the kernel generalises them.
    pub tlb_misses: &'static Metric,
    /// Walks of the page tables.
    pub walks: &'static Metric,
    /// Cycles in which the core waits for a resource.
    pub stalls: &'static Metric,
}
