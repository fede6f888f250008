//! Clocks, their calibration, and the cycle calibration of dependent additions.

use std::time::Duration;

use fathom_probe::calibration::{Bracket, Rate, Reference};
use fathom_probe::machine::Ticks;
use rustix::thread::ClockId;

use crate::arch::{Architecture, Cpu, CycleCounter};
use crate::read::Root;

/// The cycle counter of this architecture.
type Cycles = <Cpu as Architecture>::Cycles;

/// Which counter `now` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The architecture's counter that user space may always read.
    Counter,
    /// The core's cycle counter. Only who holds a [`crate::cycles::Cycles`] makes it.
    Cycles(<Cycles as CycleCounter>::Reader),
    /// `CLOCK_MONOTONIC_RAW`, in nanoseconds, through the vDSO: the fallback.
    MonotonicRaw,
}

/// In which a counter that counts is seen to: 65 ticks of the slowest (32 kHz), ns. Boot loaders have been known to
/// leave the generic timer stopped.
const MOVES_NS: u64 = 2_000_000;

impl Source {
    /// The name in the fact `clock.name`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Source::Counter => Cpu::COUNTER,
            Source::Cycles(_) => Cycles::NAME,
            Source::MonotonicRaw => "monotonic-raw",
        }
    }

    /// The best clock of this machine, and why it is the one.
    pub(crate) fn choose(root: &Root) -> (Source, String) {
        match Cpu::counter_is_steady(root) {
            Ok(why) if moves(Cpu::counter) => (Source::Counter, why),
            Ok(_) => (Source::MonotonicRaw, format!("the counter {} stands still", Cpu::COUNTER)),
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

/// Does a counter count?
fn moves(count: impl Fn() -> u64) -> bool {
    let (first, begin) = (count(), raw_ns());
    while raw_ns().wrapping_sub(begin) < MOVES_NS {
        if count() != first {
            return true;
        }
    }
    false
}

/// `CLOCK_MONOTONIC_RAW` in nanoseconds: not slewed by NTP.
#[inline]
pub(crate) fn raw_ns() -> u64 {
    ns(rustix::time::clock_gettime(ClockId::MonotonicRaw))
}

/// CPU time of the calling thread in nanoseconds.
#[inline]
pub(crate) fn thread_ns() -> u64 {
    ns(rustix::time::clock_gettime(ClockId::ThreadCPUTime))
}

fn ns(time: rustix::time::Timespec) -> u64 {
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The rate of `source`. A calibration takes [`CALIBRATION_TIME`] and is bounded by it, whatever the load.
pub(crate) fn rate(source: Source) -> Rate {
    match source {
        Source::MonotonicRaw => Rate { hz: NANOSECONDS.hz, ppm: 0 },
        Source::Counter => {
            Cpu::counter_hz().map_or_else(|| calibrate(source, std::thread::sleep), |hz| Rate { hz, ppm: 0 })
        }
        // The core stops this one while it waits for an interrupt.
        Source::Cycles(_) => calibrate_busy(source),
    }
}

/// Without sleeping, some times. Of a counter that counts for its thread alone, whatever takes the CPU takes time away,
/// and so the fastest is the best; what it has before the next is doubt, which is also that of a core that changes its
/// rate.
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
    let apart = u128::from(best.hz - second.hz) * 1_000_000 / u128::from(best.hz.max(1));
    Rate { ppm: best.ppm.saturating_add(u64::try_from(apart).unwrap_or(u64::MAX)), ..best }
}

/// How long a calibration sleeps. Readings are bracketed to some 50 ns at either end, so 25 ms give a
/// few parts a million, below what a chain of dependent loads can show.
const CALIBRATION_TIME: Duration = Duration::from_millis(25);

/// Counts the ticks of `source` against `CLOCK_MONOTONIC_RAW` over [`CALIBRATION_TIME`], in which the thread waits: longer, on a
/// loaded machine, makes the result better and not worse.
fn calibrate(source: Source, wait: impl Fn(Duration)) -> Rate {
    let bracket = || Bracket::take(raw_ns, || source.now().0);
    let begin = bracket();
    wait(CALIBRATION_TIME);
    Bracket::rate(&begin, &bracket(), NANOSECONDS)
}

/// `CLOCK_MONOTONIC_RAW`, of which a reading takes many ticks.
const NANOSECONDS: Reference = Reference { hz: 1_000_000_000, max_early_ticks: 0 };

/// `n` dependent additions: see [`fathom_loops::additions`].
#[inline(always)]
pub(crate) fn alu(n: u64) {
    fathom_loops::additions::<Cpu>(n);
}

#[cfg(test)]
mod tests;
