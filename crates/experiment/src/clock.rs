//! What a record says of its clock's own grain.

use fathom_probe::divisor::gcd;
use fathom_probe::pattern::PatternKind;

use crate::record::Record;

/// The step in which the clock moves, ticks: the greatest common divisor of all that was read off it while
/// nothing but the clock and the cycle calibration ran. Overheads and jitter are whole steps too.
pub(crate) fn step_ticks(record: &Record) -> u64 {
    let readings = record
        .of(PatternKind::Clock)
        .chain(record.of(PatternKind::Alu))
        .flat_map(|r| r.samples.iter().flat_map(|s| [s.ticks, s.ticks2]));
    readings.fold(0, gcd).max(1)
}

/// A clock that moves at least every this many core cycles resolves single loads: it tells a first level
/// (three to five cycles) from a second (ten and more). A 1 GHz step beside a core of 3 to 4 GHz does.
const FINE: f64 = 4.0;
/// Steps of a coarse clock that a sample in the first level takes at least.
const STEPS: f64 = 16.0;
/// Cycles of the fastest first level.
const FASTEST: f64 = 3.0;

/// How many dependent loads a sample must time where the clock is too coarse for one; `None` where it is
/// not. `cycle` is the ticks of a core cycle, `step` the clock's own.
pub(crate) fn coarse(cycle: Option<f64>, step: u64) -> Option<u64> {
    let cycles = step as f64 / cycle.filter(|c| *c > 0.0)?;
    // Odd, so that it is no whole number of laps round a power of two of lines, which would prove nothing.
    (cycles > FINE).then(|| ((STEPS * cycles / FASTEST) as u64).min(1 << 15) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coarse_clock_times_several_loads() {
        assert_eq!(coarse(Some(1.0), 1), None);
        assert_eq!(coarse(Some(0.7), 1), None);
        // 19.2 MHz beside a core of 1.5 GHz: 78 cycles a step.
        assert_eq!(coarse(Some(0.0128), 1), Some(417));
        assert_eq!(coarse(None, 1), None);
    }
}
