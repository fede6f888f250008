//! Latencies of tiers in core cycles. The first level takes a whole number of them.

use fathom_analysis::findings::{Basis, Finding};
use fathom_analysis::metrics::survey::TIER_LATENCY_CYCLES;

use crate::reading::number;
use crate::scale::Scale;

/// Distance to a whole number, cycles, up to which it is clear which one is meant.
const NEAR: f64 = 0.25;

/// Returns the finding of the `n`th tier's latency in cycles of `cycle` ns, from the one in ns without the error of the clock. The first one's interval has a
/// whole number, except for described machines: their latencies are what is described.
pub(super) fn row(ns: &Finding, n: usize, cycle: f64, scale: &Scale) -> Finding {
    let value = ns.finite().unwrap_or(f64::NAN) * (1.0 / cycle);
    let mut row = number(TIER_LATENCY_CYCLES.at([n.into()]), value, "cycles");
    (row.low, row.high) = (ns.low.map(|low| low / cycle), ns.high.map(|high| high / cycle));
    (row.count, row.trials, row.notes) = (ns.count, ns.trials.clone(), ns.notes.clone());
    row.basis = if ns.basis == Basis::Bounds { Basis::Bounds } else { Basis::Derived };
    if n == 1 && scale.is_hardware() && !scale.has_described_neighbours() {
        extend(&mut row);
    }
    row
}

/// Extends the interval to the next whole number if it has none, with a note. A first level runs on the
/// core's clock and answers after as many of its cycles as its pipeline has stages. Other threads of the core take cycles from the loads, and from the
/// calibration of the clock, for as long as a session lasts: of fifty sessions on an EPYC guest, three had 4.004 to 4.024 as lower ends, of 4 cycles.
fn extend(row: &mut Finding) {
    let (Some(low), Some(high)) = (row.low, row.high) else { return };
    let (below, above) = (low.floor(), high.ceil());
    if above - below > 1.0 || low == below || high == above {
        return;
    }
    let (down, up) = (low - below, above - high);
    let is_clear = down.min(up) <= NEAR;
    if down <= up || !is_clear {
        row.low = Some(below);
    }
    if down > up || !is_clear {
        row.high = Some(above);
    }
    row.notes.push(
        "the interval is extended to a whole number of cycles, which the first level takes: others slow the loads or the calibration of the clock"
            .to_owned(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn included(low: f64, value: f64, high: f64) -> (f64, f64, usize) {
        let mut row =
            Finding { low: Some(low), high: Some(high), ..number(&TIER_LATENCY_CYCLES, value, "cycles") };
        extend(&mut row);
        (row.low.expect("low"), row.high.expect("high"), row.notes.len())
    }

    #[test]
    fn interval_without_a_whole_number_has_the_next() {
        assert_eq!(included(4.024, 4.207, 4.305), (4.0, 4.305, 1));
        assert_eq!(included(3.95, 3.97, 3.99), (3.95, 4.0, 1));
        // It is not clear which one is meant.
        assert_eq!(included(4.375, 4.5, 4.625), (4.0, 5.0, 1));
        assert_eq!(included(4.3, 4.4, 4.5), (4.0, 5.0, 1));
    }

    #[test]
    fn interval_with_one_stays() {
        for (low, high) in [(3.99, 4.01), (4.0, 4.2), (3.8, 4.0), (3.5, 5.5)] {
            assert_eq!(included(low, 4.0, high), (low, high, 0));
        }
    }
}
