//! Main memory: the latency of an access.

use crate::description::{self, Description};
use crate::rng::{Rng, Use};
use crate::time::Scale;

/// Memory with latency spread, row buffers and refresh; times in units.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    latency: u64,
    spread: u64,
    /// Latency, spread and cost of an open row without neighbours.
    quiet: [u64; 3],
    rng: Rng,
    rows: Option<Rows>,
    /// Time between refreshes, and the duration of one at the end of each interval.
    refresh: Option<(u64, u64)>,
    /// Lines and descriptors read.
    pub reads: u64,
}

#[derive(Clone, Debug)]
struct Rows {
    shift: u32,
    open_cost: u64,
    /// The open row of each bank; `u64::MAX` for none.
    open: Vec<u64>,
}

impl Rows {
    fn new(rows: &description::Rows, scale: Scale) -> Rows {
        Rows {
            shift: rows.row.trailing_zeros(),
            open_cost: scale.units(rows.open),
            open: vec![u64::MAX; rows.banks as usize],
        }
    }

    /// Opens the row of an address. Returns whether it was open.
    #[inline]
    fn open(&mut self, address: u64) -> bool {
        let row = address >> self.shift;
        let bank = (row % self.open.len() as u64) as usize;
        std::mem::replace(&mut self.open[bank], row) == row
    }
}

impl Memory {
    pub fn new(description: &Description, seed: u64, scale: Scale) -> Memory {
        let memory = &description.memory;
        let open = memory.rows.as_ref().map_or(0, |rows| scale.units(rows.open));
        let (latency, spread) = (scale.units(memory.latency), scale.units(memory.spread));
        Memory {
            latency,
            spread,
            quiet: [latency, spread, open],
            rng: Rng::new(seed, Use::Spread, 0),
            rows: memory.rows.as_ref().map(|rows| Rows::new(rows, scale)),
            // A refresh whose duration rounds to 0 is ignored.
            refresh: memory
                .refresh
                .as_ref()
                .map(|r| (scale.units(r.every), scale.units(r.takes)))
                .filter(|(every, takes)| takes < every && *takes > 0),
            reads: 0,
        }
    }

    /// Multiplies the latencies by `factor` = (numerator, denominator) of those without neighbours.
    pub fn slow_down(&mut self, factor: (u64, u64)) {
        let [latency, spread, open] = self.quiet.map(|units| units * factor.0 / factor.1);
        (self.latency, self.spread) = (latency, spread);
        if let Some(rows) = &mut self.rows {
            rows.open_cost = open;
        }
    }

    /// Returns whether the latency depends on the time.
    pub fn refreshes(&self) -> bool {
        self.refresh.is_some()
    }

    /// Returns the latency of an access to `address` at `time`.
    #[inline]
    pub fn cost(&mut self, time: u64, address: u64) -> u64 {
        let mut cost = self.latency;
        if let Some(rows) = &mut self.rows
            && rows.open(address)
        {
            cost = rows.open_cost;
        }
        if self.spread > 0 {
            cost = (cost + self.rng.below(2 * self.spread + 1)).saturating_sub(self.spread);
        }
        if let Some((every, takes)) = self.refresh {
            let phase = time % every;
            if phase >= every - takes {
                cost += every - phase;
            }
        }
        cost
    }
}
