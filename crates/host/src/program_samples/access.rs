//! Accesses to memory in samples.

/// An access that was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledAccess {
    /// Its latency as the processor tells it, cycles; 0 if it does not.
    pub latency: u64,
    /// What it was, and where its data were.
    pub source: DataSource,
}

/// Where the data of an access were, as the kernel or the processor tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataSource {
    /// `union perf_mem_data_src`.
    Kernel(u64),
    /// A record of SPE.
    Spe {
        /// Events, a bit for each.
        events: u64,
        /// Where the data of a load came from, as the processor numbers it.
        number: Option<u16>,
        /// MIDR_EL1 of the processor, if it is known.
        midr: Option<u64>,
    },
}
