//! What another tool measured, judged by the same analysis as far as a histogram goes.

use fathom_analysis::findings::{Basis, Finding, Histogram, Metric, Report, Warning};
use fathom_analysis::interval::Interval;
use fathom_analysis::metrics::wakeup as metrics;
use fathom_analysis::wakeup::summary::{self, Maximum, Percentile};

use super::spot::{Spot, refuse};
use crate::reading::{measured, number};
use crate::record::{Imported, Record};

/// Unit of all of it.
const US: &str = "us";
/// Periods that are filled in for those that were slept through: 64 MiB of them at most, whatever a file says.
const MAX_FILLED: f64 = 1e6;
const MEASURE: &str = "measure with fathom wakeup, which keeps every activation";

/// The rows of every series.
pub(super) fn rows(record: &Record, report: &mut Report) {
    if record.imported.is_empty() {
        return;
    }
    report.warnings.push(Warning {
        token: "imported",
        text: "another tool measured this: nothing says on what clock, machine or guest, or with what set-up"
            .into(),
        remedy: MEASURE.into(),
    });
    for (i, series) in record.imported.iter().enumerate() {
        let condition = format!("imported-{}", i + 1);
        let spot = Spot { place: &series.place, condition: &condition };
        if series.is_whole() {
            of_series(series, spot, report);
        } else {
            let reason = "parts of its histogram are missing, or do not add up to its activations".to_owned();
            refuse(report, &spot.name(), reason, "import the tool's file again");
        }
    }
    refuse(
        report,
        "causes, extremes and stages of what was imported",
        "a histogram does not say in which order its activations came, nor where each was held up".to_owned(),
        MEASURE,
    );
}

/// A histogram in us, each bucket at its middle.
struct Bars {
    /// Those whose values are known.
    known: Vec<(f64, u64)>,
    /// Those above the histogram of which only that is known.
    above: u64,
    /// Half a bucket.
    half: f64,
    /// No activation is later.
    most: Option<f64>,
}

impl Bars {
    fn of(series: &Imported) -> Bars {
        let half = us(series.bucket_ns as f64) / 2.0;
        let mut known: Vec<(f64, u64)> =
            series.counts.iter().map(|(ns, count)| (us(*ns as f64) + half, *count)).collect();
        let most = series.max_ns.map(|ns| us(ns as f64) + 2.0 * half);
        let mut above = series.overflow;
        if let (1, Some(most)) = (above, most) {
            // The only one above is the largest.
            known.push((most - half, 1));
            above = 0;
        }
        Bars { known, above, half, most }
    }

    /// All of them; what is only known to be above lies beyond every number.
    fn all(&self) -> Vec<(f64, u64)> {
        let above = Some((f64::INFINITY, self.above)).filter(|bar| bar.1 > 0);
        self.known.iter().copied().chain(above).collect()
    }

    /// A percentile as far as it is known: its bucket's middle, between the ends of the interval's buckets.
    fn interval(&self, percentile: &Percentile) -> Option<Interval> {
        let Interval { value, low, high } = percentile.us.ok().filter(|us| us.value.is_finite())?;
        let high =
            if high.is_finite() { high + self.half } else { self.most.filter(|most| *most >= value)? };
        Some(Interval { value, low: low - self.half, high })
    }

    /// With the periods that late activations slept through, and how many those are; `None` where that is too much to
    /// be true.
    fn corrected(&self, period_us: f64) -> Option<(Vec<(f64, u64)>, u64)> {
        let skipped = |us: f64| (us / period_us).floor().max(0.0);
        let steps: f64 = self.known.iter().map(|bar| skipped(bar.0)).sum();
        let filled = self.known.iter().try_fold(0u64, |sum, bar| {
            // The number of steps is looked at below: a cast that saturates is none that counts.
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
            "ask the tool for one: cyclictest -h 400, latency -h",
        ),
    }
    latest(series, &bars, spot, report);
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

/// A number that the tool says, or that follows from the histogram.
fn plain(series: &Imported, spot: Spot, metric: &'static Metric, us: f64) -> Finding {
    Finding { count: series.cycles, ..number(spot.key(metric), us, US) }
}

/// Least, mean and standard deviation: as the tool has them from the values, where it does.
fn moments(series: &Imported, bars: &Bars, spot: Spot, report: &mut Report) {
    let known = summary::of_bars(&bars.known);
    let whole = known.as_ref().filter(|_| bars.above == 0);
    let min = series.min_ns.map(|ns| us(ns as f64)).or(known.as_ref().map(|known| known.min - bars.half));
    let mean = series.mean_ps.map(|ps| us(ps as f64) / 1000.0).or(whole.map(|all| all.mean));
    let stddev = series.stddev_ps.map(|ps| us(ps as f64) / 1000.0).or(whole.map(|all| all.stddev));
    for (metric, value) in
        [(&metrics::WAKEUP_MIN, min), (&metrics::WAKEUP_MEAN, mean), (&metrics::WAKEUP_STDDEV, stddev)]
    {
        report.findings.extend(value.map(|us| plain(series, spot, metric, us)));
    }
}

/// The largest, and what was missed.
fn latest(series: &Imported, bars: &Bars, spot: Spot, report: &mut Report) {
    let last = bars.known.last().map(|bar| bar.0 - bars.half).filter(|_| bars.above == 0);
    if let Some(us) = series.max_ns.map(|ns| us(ns as f64)).or(last) {
        let mut row = plain(series, spot, &metrics::WAKEUP_MAX, us);
        if series.cycles > 0 {
            let max = Maximum { us, seen_in: series.cycles };
            row.notes.push(format!(
                "the largest of {}: as many again exceed it with a chance of {:.0} %",
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

/// p99.9 with what was slept through: both tools skip the periods that a stall covers.
fn corrected(series: &Imported, bars: &Bars, spot: Spot, report: &mut Report) {
    let key = spot.key(&metrics::WAKEUP_P999_CORRECTED);
    let Some(period_ns) = series.interval_ns.filter(|ns| *ns > 0 && !bars.known.is_empty()) else { return };
    if bars.above > 0 {
        let reason =
            format!("{} activations lie above the histogram: nobody knows how late they were", bars.above);
        refuse(report, &key.name(), reason, "a longer histogram: cyclictest -h 10000, latency -H 10000");
        return;
    }
    let Some((all, filled)) = bars.corrected(us(period_ns as f64)) else {
        let reason = "its activations slept through more periods than any run has".to_owned();
        refuse(report, &key.name(), reason, "is the file's period the one of the run?");
        return;
    };
    let summary = summary::of_bars(&all).filter(|_| filled > 0);
    let p999 = summary.as_ref().and_then(|all| all.percentiles.iter().find(|p| p.token == "p99.9"));
    if let Some((us, all)) = p999.and_then(|p| bars.interval(p)).zip(summary.as_ref()) {
        let mut row = measured(key, us, US, all.count as usize, &[]);
        row.basis = Basis::Derived;
        row.notes.push(format!(
            "with {filled} periods that were slept through, each as late as it would have been"
        ));
        report.findings.push(row);
    }
}

/// What a reader has to know of the figures.
fn notes(series: &Imported, bars: &Bars) -> Vec<String> {
    let mut who = [series.tool.as_str(), &series.version].join(" ").trim_end().to_owned();
    who += &format!(": {}", series.name);
    who += &series.priority.map(|priority| format!(", priority {priority}")).unwrap_or_default();
    who += &series.interval_ns.map(|ns| format!(", every {} us", us(ns as f64))).unwrap_or_default();
    let mut all = vec![who];
    if !bars.known.is_empty() {
        all.push(format!(
            "buckets of {} us: a percentile is the middle of one, and its interval has all of it",
            2.0 * bars.half
        ));
    }
    if series.overflow > 0 {
        let cut = format!("the histogram is cut off: {} activations lie above it", series.overflow);
        all.push(if bars.above == 0 { cut + ", which is the largest" } else { cut });
    }
    if series.place == "kernel" {
        all.push("of a task inside the kernel: not the hand-over to the user's".to_owned());
    }
    all.extend(series.notes.iter().cloned());
    all
}

#[cfg(test)]
mod tests;
