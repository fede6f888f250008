//! Findings from the histograms of other tools, by the same analysis.

use fathom_analysis::findings::{Basis, Finding, Histogram, Metric, Report, Warning, WarningKind};
use fathom_analysis::interval::Interval;
use fathom_analysis::metrics::wakeup as metrics;
use fathom_analysis::wakeup::summary::{self, Maximum, Percentile};

use super::spot::{Spot, refuse};
use crate::reading::{measured, number};
use crate::record::{Imported, Record};

/// Unit of all findings.
const US: &str = "us";
/// Maximum number of periods that are filled in for missed ones: 64 MiB, with any input file.
const MAX_FILLED: f64 = 1e6;
const REMEDY: &str = "measure with fathom wakeup, which records every activation";

/// Adds the findings of every series.
pub(super) fn rows(record: &Record, report: &mut Report) {
    if record.imported.is_empty() {
        return;
    }
    report.warnings.push(Warning {
        kind: WarningKind::Imported,
        text: "measured by another tool: clock, machine, virtualization and configuration are unknown".into(),
        remedy: REMEDY.into(),
    });
    for (i, series) in record.imported.iter().enumerate() {
        let condition = format!("imported-{}", i + 1);
        let spot = Spot { place: &series.place, condition: &condition };
        if series.is_whole() {
            of_series(series, spot, report);
        } else {
            let reason = "parts of the histogram are missing, or its counts do not add up to the activations"
                .to_owned();
            refuse(report, &spot.name(), reason, "import the tool's file again");
        }
    }
    refuse(
        report,
        "causes, extremes and stages of imported series",
        "a histogram lacks the order of the activations and the stages of each".to_owned(),
        REMEDY,
    );
}

/// A histogram in us, each bucket at its middle.
struct Bars {
    /// Bars with known values.
    known: Vec<(f64, u64)>,
    /// Number of activations above the histogram with unknown values.
    above: u64,
    /// Half a bucket.
    half: f64,
    /// Upper bound of all activations.
    max: Option<f64>,
}

impl Bars {
    fn of(series: &Imported) -> Bars {
        let half = us(series.bucket_ns as f64) / 2.0;
        let mut known: Vec<(f64, u64)> =
            series.counts.iter().map(|(ns, count)| (us(*ns as f64) + half, *count)).collect();
        let max = series.max_ns.map(|ns| us(ns as f64) + 2.0 * half);
        let mut above = series.overflow;
        if let (1, Some(max)) = (above, max) {
            // The only activation above is the maximum.
            known.push((max - half, 1));
            above = 0;
        }
        Bars { known, above, half, max }
    }

    /// Returns all bars; activations with unknown values are at infinity.
    fn all(&self) -> Vec<(f64, u64)> {
        let above = Some((f64::INFINITY, self.above)).filter(|bar| bar.1 > 0);
        self.known.iter().copied().chain(above).collect()
    }

    /// Returns a percentile as far as it is known: its bucket's middle, between the ends of the interval's buckets.
    fn interval(&self, percentile: &Percentile) -> Option<Interval> {
        let Interval { value, low, high } = percentile.us.ok().filter(|us| us.value.is_finite())?;
        let high = if high.is_finite() { high + self.half } else { self.max.filter(|max| *max >= value)? };
        Some(Interval { value, low: low - self.half, high })
    }

    /// Returns the bars including the periods that late activations missed, and the number of these; `None` if that
    /// number is implausible.
    fn corrected(&self, period_us: f64) -> Option<(Vec<(f64, u64)>, u64)> {
        let skipped = |us: f64| (us / period_us).floor().max(0.0);
        let steps: f64 = self.known.iter().map(|bar| skipped(bar.0)).sum();
        let filled = self.known.iter().try_fold(0u64, |sum, bar| {
            // A saturated cast does not matter: the number of steps is checked below.
            sum.checked_add(bar.1.checked_mul(skipped(bar.0) as u64)?)
        })?;
        let seen = self.known.iter().try_fold(0u64, |sum, bar| sum.checked_add(bar.1))?;
        if steps > MAX_FILLED || seen.checked_add(filled).is_none() {
            return None;
        }
        Some((summary::corrected_bars(&self.known, period_us), filled))
    }
}

fn us(ns: f64) -> f64 {
    ns / 1000.0
}

fn of_series(series: &Imported, spot: Spot, report: &mut Report) {
    let bars = Bars::of(series);
    let first = report.findings.len();
    moments(series, &bars, spot, report);
    match summary::of_bars(&bars.all()) {
        Some(all) => {
            let reported =
                all.percentiles.iter().filter_map(|p| Some((spot.percentile(p), bars.interval(p)?)));
            let row = |(key, us)| measured(key, us, US, all.count as usize, &[]);
            report.findings.extend(reported.map(row));
        }
        None => refuse(
            report,
            &format!("percentiles of {}", spot.name()),
            "the file has no histogram".to_owned(),
            "create one: cyclictest -h 400, latency -h",
        ),
    }
    maximum(series, &bars, spot, report);
    corrected(series, &bars, spot, report);
    if let Some(row) = report.findings.get_mut(first) {
        row.notes.extend(notes(series, &bars));
    }
    let drawn = summary::of_bars(&bars.known).map(|known| known.histogram.bars);
    report.histograms.extend(drawn.map(|counts| Histogram {
        key: spot.key(&metrics::WAKEUPS),
        bytes: 0,
        unit: US,
        loads_per_sample: 1,
        counts,
    }));
}

/// Returns a number from the tool, or from the histogram.
fn finding(series: &Imported, spot: Spot, metric: &'static Metric, us: f64) -> Finding {
    Finding { count: series.cycles, ..number(spot.key(metric), us, US) }
}

/// Adds minimum, mean and standard deviation: those of the tool if available, because it has all values.
fn moments(series: &Imported, bars: &Bars, spot: Spot, report: &mut Report) {
    let known = summary::of_bars(&bars.known);
    let whole = known.as_ref().filter(|_| bars.above == 0);
    let min = series.min_ns.map(|ns| us(ns as f64)).or(known.as_ref().map(|known| known.min - bars.half));
    let mean = series.mean_ps.map(|ps| us(ps as f64) / 1000.0).or(whole.map(|all| all.mean));
    let stddev = series.stddev_ps.map(|ps| us(ps as f64) / 1000.0).or(whole.map(|all| all.stddev));
    for (metric, value) in
        [(&metrics::WAKEUP_MIN, min), (&metrics::WAKEUP_MEAN, mean), (&metrics::WAKEUP_STDDEV, stddev)]
    {
        report.findings.extend(value.map(|us| finding(series, spot, metric, us)));
    }
}

/// Adds the maximum and the missed periods.
fn maximum(series: &Imported, bars: &Bars, spot: Spot, report: &mut Report) {
    let last = bars.known.last().map(|bar| bar.0 - bars.half).filter(|_| bars.above == 0);
    if let Some(us) = series.max_ns.map(|ns| us(ns as f64)).or(last) {
        let mut row = finding(series, spot, &metrics::WAKEUP_MAX, us);
        if series.cycles > 0 {
            let max = Maximum { us, seen_in: series.cycles };
            row.notes.push(format!(
                "largest of {0}; another {0} activations would exceed it with probability {1:.0} %",
                max.seen_in,
                100.0 * max.exceedance_probability(max.seen_in)
            ));
        }
        report.findings.push(row);
    }
    if let Some(missed) = series.missed {
        let row = number(spot.key(&metrics::WAKEUP_MISSED), missed as f64, "activations");
        report.findings.push(Finding { count: series.cycles, ..row });
    }
}

/// Adds p99.9 including missed periods: both tools skip the periods that a stall covers.
fn corrected(series: &Imported, bars: &Bars, spot: Spot, report: &mut Report) {
    let key = spot.key(&metrics::WAKEUP_P999_CORRECTED);
    let Some(period_ns) = series.interval_ns.filter(|ns| *ns > 0 && !bars.known.is_empty()) else { return };
    if bars.above > 0 {
        let reason =
            format!("{} activations are above the histogram, so their latency is unknown", bars.above);
        refuse(report, &key.name(), reason, "use a longer histogram: cyclictest -h 10000, latency -H 10000");
        return;
    }
    let Some((all, filled)) = bars.corrected(us(period_ns as f64)) else {
        let reason = "its activations missed more periods than any run has".to_owned();
        refuse(report, &key.name(), reason, "check that the file's period is that of the run");
        return;
    };
    let summary = summary::of_bars(&all).filter(|_| filled > 0);
    let p999 = summary.as_ref().and_then(|all| all.percentiles.iter().find(|p| p.token == "p99.9"));
    if let Some((us, all)) = p999.and_then(|p| bars.interval(p)).zip(summary.as_ref()) {
        let mut row = measured(key, us, US, all.count as usize, &[]);
        row.basis = Basis::Derived;
        row.notes.push(format!("including {filled} missed periods, each with the latency it would have had"));
        report.findings.push(row);
    }
}

/// Returns notes for readers of the figures.
fn notes(series: &Imported, bars: &Bars) -> Vec<String> {
    let mut who = [series.tool.as_str(), &series.version].join(" ").trim_end().to_owned();
    who += &format!(": {}", series.name);
    who += &series.priority.map(|priority| format!(", priority {priority}")).unwrap_or_default();
    who += &series.interval_ns.map(|ns| format!(", every {} us", us(ns as f64))).unwrap_or_default();
    let mut all = vec![who];
    if !bars.known.is_empty() {
        all.push(format!(
            "buckets of {} us: a percentile is the middle of a bucket, and its interval includes the whole bucket",
            2.0 * bars.half
        ));
    }
    if series.overflow > 0 {
        let cut = format!("the histogram is truncated: {} activations are above it", series.overflow);
        all.push(if bars.above == 0 { cut + ", the maximum" } else { cut });
    }
    if series.place == "kernel" {
        all.push("of a kernel thread: not the switch to a user task".to_owned());
    }
    all.extend(series.notes.iter().cloned());
    all
}

#[cfg(test)]
mod tests;
