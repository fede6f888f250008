//! Clock resolution from a record.

use fathom_probe::pattern::PatternKind;
use fathom_units::divisor::gcd;

use crate::record::Record;

/// Returns the clock's resolution in ticks: the greatest common divisor of all readings of the clock and cycle
/// calibration trials. Overheads and jitter are multiples of it too.
pub(crate) fn resolution_ticks(record: &Record) -> u64 {
    let readings = record
        .of(PatternKind::Clock)
        .chain(record.of(PatternKind::Alu))
        .flat_map(|r| r.samples.iter().flat_map(|s| [s.ticks, s.ticks2]));
    readings.fold(0, gcd).max(1)
}

/// Maximum resolution, in core cycles, of a clock that resolves single loads: it separates a first level (three to
/// five cycles) from a second (ten and more). A 1 GHz clock on a core of 3 to 4 GHz does.
const MAX_FINE_RESOLUTION_CYCLES: f64 = 4.0;
/// Minimum length of a sample in the first level on a coarse clock, in resolutions of the clock.
const MIN_SAMPLE_RESOLUTIONS: f64 = 16.0;
/// Cycles per load of the fastest first level.
const MIN_LOAD_CYCLES: f64 = 3.0;

/// Returns the number of dependent loads per sample if the clock is too coarse for one load; else `None`. `cycle` is
/// the ticks per core cycle, `resolution` that of the clock in ticks.
pub(crate) fn loads_per_sample(cycle: Option<f64>, resolution: u64) -> Option<u64> {
    let cycles = resolution as f64 / cycle.filter(|c| *c > 0.0)?;
    // Odd: a whole number of laps over a power of two of lines would end where it began and prove nothing.
    (cycles > MAX_FINE_RESOLUTION_CYCLES)
        .then(|| ((MIN_SAMPLE_RESOLUTIONS * cycles / MIN_LOAD_CYCLES) as u64).min(1 << 15) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coarse_clock_times_several_loads() {
        assert_eq!(loads_per_sample(Some(1.0), 1), None);
        assert_eq!(loads_per_sample(Some(0.7), 1), None);
        // 19.2 MHz with a core of 1.5 GHz: a resolution of 78 cycles.
        assert_eq!(loads_per_sample(Some(0.0128), 1), Some(417));
        assert_eq!(loads_per_sample(None, 1), None);
    }
}
