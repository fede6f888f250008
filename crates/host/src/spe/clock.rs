//! Times of records in the kernel's clock.

/// How the kernel computes its clock from ticks of the generic timer: `struct perf_event_mmap_page` of a mapped event, or a record
/// `PERF_RECORD_TIME_CONV` in a file of perf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpeClock {
    /// `time_shift`.
    pub shift: u16,
    /// `time_mult`.
    pub factor: u32,
    /// `time_zero`, ns.
    pub zero: u64,
    /// `time_cycles` and `time_mask`, if the counter has less than 64 bits (`cap_user_time_short`).
    pub short: Option<(u64, u64)>,
}

impl SpeClock {
    /// Returns the time, ns (include/uapi/linux/perf_event.h, at `time_zero` and `time_cycles`).
    #[must_use]
    pub fn ns(&self, ticks: u64) -> u64 {
        let ticks = match self.short {
            Some((begin, mask)) => begin.wrapping_add(ticks.wrapping_sub(begin) & mask),
            None => ticks,
        };
        let ns = u128::from(ticks) * u128::from(self.factor);
        let ns = ns.checked_shr(self.shift.into()).unwrap_or(0);
        // As the kernel: its clock wraps at 64 bits.
        self.zero.wrapping_add(ns as u64)
    }
}
