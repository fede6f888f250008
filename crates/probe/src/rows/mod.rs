//! Results of a trial: rows of samples, transfers or activations, and how it ended.

use alloc::vec::Vec;

use crate::machine::ActivationRow;
use crate::machine::dma::TransferTimes;
use crate::wire::Line;

pub mod activation;
pub mod counted;
pub mod sample;
pub mod transfers;

pub use activation::{ActivationRows, NearbyEvent};
pub use counted::EventCount;
pub use sample::{Done, Sample, Samples};
pub use transfers::TransferRows;

/// The rows of one trial, in the order in which they were taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Timed runs.
    Samples(Samples),
    /// Transfers between a CPU and a device, and the engine that made them.
    Transfers(TransferRows),
    /// Activations of a task, and events near some of them.
    Wakes(ActivationRows, Vec<NearbyEvent>),
}

impl Rows {
    /// Creates the samples of a trial.
    #[must_use]
    pub fn of_samples(trial: u64, list: Vec<Sample>) -> Rows {
        Rows::Samples(Samples { trial, list })
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Rows::Samples(samples) => samples.list.len(),
            Rows::Transfers(transfers) => transfers.list.len(),
            Rows::Wakes(activations, _) => activations.list.len(),
        }
    }

    /// Returns the index of every row: the result of a pattern that can verify none of them.
    #[must_use]
    pub fn all(&self) -> Vec<usize> {
        (0..self.count()).collect()
    }

    /// Returns the transfers; empty for other rows.
    #[must_use]
    pub fn transfers(&self) -> &[TransferTimes] {
        match self {
            Rows::Transfers(transfers) => &transfers.list,
            _ => &[],
        }
    }

    /// Returns the activations; empty for other rows.
    #[must_use]
    pub fn activations(&self) -> &[ActivationRow] {
        match self {
            Rows::Wakes(activations, _) => &activations.list,
            _ => &[],
        }
    }

    /// Returns the samples; empty for other rows.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        match self {
            Rows::Samples(samples) => &samples.list,
            _ => &[],
        }
    }

    /// Returns the lines.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        match self {
            Rows::Samples(samples) => samples.lines(),
            Rows::Transfers(transfers) => transfers.lines(),
            Rows::Wakes(activations, around) => {
                let mut lines = activations.lines();
                lines.extend(around.iter().map(|around| around.line(activations.trial)));
                lines
            }
        }
    }
}
