//! Robust statistics: medians with intervals, spreads, quantiles.
//!
//! Robust estimators are needed because measured machines are shared: one preemption must not change a result.

/// A value with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Returns value and both ends times `factor` (positive).
    #[must_use]
    pub fn scaled(self, factor: f64) -> Interval {
        Interval { value: self.value * factor, low: self.low * factor, high: self.high * factor }
    }

    /// Returns the interval widened by the resolution of the clock: an independent error of half of `resolution` in
    /// either direction.
    #[must_use]
    pub fn with_resolution(self, resolution: f64) -> Interval {
        Interval {
            value: self.value,
            low: self.value - (self.value - self.low).hypot(resolution / 2.0),
            high: self.value + (self.high - self.value).hypot(resolution / 2.0),
        }
    }

    /// Returns the interval widened by an independent error of this relative standard deviation: that between sessions.
    #[must_use]
    pub fn with_sessions(self, sigma: f64) -> Interval {
        // Half of a 95 % interval in either direction.
        self.with_resolution(2.0 * 1.96 * sigma * self.value)
    }

    /// Returns the ratio of this to `divisor`, whose errors are independent: the relative half-widths add in
    /// quadrature. `None` unless both values are positive.
    #[must_use]
    pub fn ratio_to(self, divisor: Interval) -> Option<Interval> {
        if self.value <= 0.0 || divisor.value <= 0.0 {
            return None;
        }
        let value = self.value / divisor.value;
        let relative = |i: Interval| ((i.value - i.low) / i.value, (i.high - i.value) / i.value);
        let (over, under) = (relative(self), relative(divisor));
        let (down, up) = (over.0.hypot(under.1), over.1.hypot(under.0));
        Some(Interval { value, low: value * (1.0 - down), high: value * (1.0 + up) })
    }

    /// Returns whether the two intervals share a point.
    #[must_use]
    pub fn overlaps(&self, other: &Interval) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// Returns the values in ascending order, without not-a-numbers.
#[must_use]
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut v: Vec<f64> = values.iter().copied().filter(|x| !x.is_nan()).collect();
    v.sort_by(f64::total_cmp);
    v
}

/// Returns the quantile `q` (0 to 1) of ascending values, by linear interpolation; `None` if there are no values.
#[must_use]
pub fn quantile(ascending: &[f64], q: f64) -> Option<f64> {
    let last = ascending.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * last as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    Some(ascending[below] + (ascending[above] - ascending[below]) * (at - below as f64))
}

/// Returns the median; `None` if there are no values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(&sorted(values), 0.5)
}

/// Returns the standard deviation of a normal distribution with this median absolute deviation; 0 for fewer than two
/// values. 1.4826 = 1 / (the normal distribution's third quartile).
#[must_use]
pub fn robust_sigma(values: &[f64]) -> f64 {
    let Some(centre) = median(values) else { return 0.0 };
    let off: Vec<f64> = values.iter().map(|v| (v - centre).abs()).collect();
    1.4826 * median(&off).unwrap_or(0.0)
}

/// Returns the median with the interval between order statistics that covers the true median with 95 %, for any
/// distribution. With fewer than six samples no two order statistics do; then the interval is the whole range, and the
/// caller reports the count. `None` if there are no values.
#[must_use]
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    let v = sorted(values);
    let n = v.len();
    let value = quantile(&v, 0.5)?;
    // P(X_(k) <= median <= X_(n+1-k)) = 1 - 2 P(Binomial(n, 1/2) < k); the largest k that keeps 95 %.
    let mut tail = 0.5f64.powi(n.min(1000) as i32);
    let mut term = tail;
    let mut k = 0;
    while n <= 1000 && tail <= 0.025 && k < n / 2 {
        k += 1;
        term *= (n - k + 1) as f64 / k as f64;
        tail += term;
    }
    if n > 1000 {
        // Normal approximation: n/2 - 0.98 sqrt(n).
        k = (n as f64 / 2.0 - 0.98 * (n as f64).sqrt()) as usize;
    }
    // After the loop, k order statistics may be dropped at each end.
    let low = k.saturating_sub(1);
    Some(Interval { value, low: v[low], high: v[n - 1 - low] })
}

/// Returns the median of all values, with the interval of the groups' medians. Values of one group share a systematic
/// error (a trial its placement), so many of them do not reduce it. A single group gets its own interval.
#[must_use]
pub fn grouped_interval(groups: &[Vec<f64>]) -> Option<Interval> {
    let all = median_interval(&groups.concat())?;
    let medians: Vec<f64> = groups.iter().filter_map(|g| median(g)).collect();
    if medians.len() < 2 {
        return Some(all);
    }
    let between = median_interval(&medians)?;
    let (low, high) = (between.low.min(all.value), between.high.max(all.value));
    Some(Interval { value: all.value, low, high })
}

#[cfg(test)]
mod tests;
