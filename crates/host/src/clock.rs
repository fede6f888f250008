//! Clocks, their calibration, and the cycle calibration by dependent additions.

use std::time::Duration;

use fathom_probe::calibration::{Bracket, Rate, Reference};
use fathom_probe::machine::Ticks;
use rustix::thread::ClockId;

use crate::arch::{Architecture, Cpu, CycleCounter};
use crate::procfs::Root;

/// The cycle counter of this architecture.
type Cycles = <Cpu as Architecture>::Cycles;

/// Counter that `now` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The architecture's counter that user space may always read.
    Counter,
    /// The core's cycle counter. Only the owner of a [`crate::cycles::Cycles`] can construct it.
    Cycles(<Cycles as CycleCounter>::Reader),
    /// `CLOCK_MONOTONIC_RAW`, in nanoseconds, through the vDSO: the fallback.
    MonotonicRaw,
}

/// Time within which a running counter must change, ns: 65 ticks of the slowest (32 kHz). Boot loaders are known to
/// leave the generic timer stopped.
const MIN_TICK_WAIT_NS: u64 = 2_000_000;

impl Source {
    /// Returns the name in the fact `clock.name`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Source::Counter => Cpu::COUNTER,
            Source::Cycles(_) => Cycles::NAME,
            Source::MonotonicRaw => "monotonic-raw",
        }
    }

    /// Returns the best clock of this machine, and the reason for the choice.
    pub(crate) fn choose(root: &Root) -> (Source, String) {
        match Cpu::fixed_rate_evidence(root) {
            Ok(why) if is_counting(Cpu::counter) => (Source::Counter, why),
            Ok(_) => (Source::MonotonicRaw, format!("the counter {} does not count", Cpu::COUNTER)),
            Err(why) => (Source::MonotonicRaw, why),
        }
    }

    /// Reads the clock after every earlier load and before every later one.
    #[inline(always)]
    pub(crate) fn now(self) -> Ticks {
        Ticks(match self {
            Source::Counter => Cpu::counter(),
            Source::Cycles(reader) => Cycles::read(reader),
            Source::MonotonicRaw => {
                Cpu::order();
                let ns = raw_ns();
                Cpu::order();
                ns
            }
        })
    }
}

/// Returns whether a counter counts.
fn is_counting(count: impl Fn() -> u64) -> bool {
    let (first, begin) = (count(), raw_ns());
    while raw_ns().wrapping_sub(begin) < MIN_TICK_WAIT_NS {
        if count() != first {
            return true;
        }
    }
    false
}

/// Returns `CLOCK_MONOTONIC_RAW` in nanoseconds: not slewed by NTP.
#[inline]
pub(crate) fn raw_ns() -> u64 {
    ns(rustix::time::clock_gettime(ClockId::MonotonicRaw))
}

/// Returns the CPU time of the calling thread in nanoseconds.
#[inline]
pub(crate) fn thread_ns() -> u64 {
    ns(rustix::time::clock_gettime(ClockId::ThreadCPUTime))
}

fn ns(time: rustix::time::Timespec) -> u64 {
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Returns the rate of `source`. A calibration takes [`CALIBRATION_TIME`] on an idle machine.
pub(crate) fn rate(source: Source) -> Rate {
    match source {
        Source::MonotonicRaw => Rate { hz: NANOSECONDS.hz, ppm: 0 },
        Source::Counter => {
            Cpu::counter_hz().map_or_else(|| calibrate(source, std::thread::sleep), |hz| Rate { hz, ppm: 0 })
        }
        // The core stops this counter while it waits for an interrupt, so the calibration must not sleep.
        Source::Cycles(_) => calibrate_busy(source),
    }
}

/// Calibrates three times without sleeping. The counter counts for its thread alone, so other work on the CPU takes
/// ticks away, and the highest rate is the best. Its distance to the second is added to the uncertainty, which so
/// includes that of a core that changes its frequency.
fn calibrate_busy(source: Source) -> Rate {
    let busy = |span: Duration| {
        let begin = raw_ns();
        while u128::from(raw_ns().saturating_sub(begin)) < span.as_nanos() {
            std::hint::spin_loop();
        }
    };
    let mut rates = [0; 3].map(|_| calibrate(source, busy));
    rates.sort_by_key(|rate| rate.hz);
    let [_, second, best] = rates;
    let spread_ppm = u128::from(best.hz - second.hz) * 1_000_000 / u128::from(best.hz.max(1));
    Rate { ppm: best.ppm.saturating_add(u64::try_from(spread_ppm).unwrap_or(u64::MAX)), ..best }
}

/// Sleep of one calibration. Readings are bracketed to some 50 ns at either end, so 25 ms give a few parts per
/// million, below the resolution of a chain of dependent loads.
const CALIBRATION_TIME: Duration = Duration::from_millis(25);

/// Counts the ticks of `source` against `CLOCK_MONOTONIC_RAW` while `wait` waits for [`CALIBRATION_TIME`]. A longer
/// wait, on a loaded machine, makes the result better.
fn calibrate(source: Source, wait: impl Fn(Duration)) -> Rate {
    let bracket = || Bracket::take(raw_ns, || source.now().0);
    let begin = bracket();
    wait(CALIBRATION_TIME);
    Bracket::rate(&begin, &bracket(), NANOSECONDS)
}

/// `CLOCK_MONOTONIC_RAW`, of which one reading takes many ticks.
const NANOSECONDS: Reference = Reference { hz: 1_000_000_000, max_early_ticks: 0 };

/// Executes `n` dependent additions: see [`fathom_loops::additions`].
#[inline(always)]
pub(crate) fn alu(n: u64) {
    fathom_loops::additions::<Cpu>(n);
}

#[cfg(test)]
mod tests;
