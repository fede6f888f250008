//! Converts the lines of a run to a series.

use super::{Bar, Point, Run, Totals};
use crate::import::{ImportError, Place, Series, command, sum, too_many};

/// Width of a bucket without `-B`, ns.
const BUCKET_NS: u64 = 1000;
/// Largest accepted bucket and period, ns: one second, the longest period that latency accepts.
const MAX_NS: u64 = 1_000_000_000;
/// Cells of a histogram without `-H`: of Xenomai 2.x, of 3.x, and before both.
const HISTOGRAM_CELLS: [u64; 3] = [200, 300, 100];
/// Tolerance of a point's position, in buckets. Coordinates in a file of -g have six digits.
const BUCKET_TOLERANCE: f64 = 0.1;

impl Totals {
    /// Returns the largest absolute latency, ns.
    fn farthest(&self) -> f64 {
        self.max.abs().max(self.min.abs()) * 1000.0
    }
}

/// Converts us with three decimals to ns.
fn ns(us: f64) -> i64 {
    (us * 1000.0).round() as i64
}

impl Run {
    /// Returns the value of a short option of the command.
    fn option(&self, short: char) -> Option<u64> {
        // latency has only short options, so no long name matches.
        self.command.as_deref().and_then(|command| command::number(command, short, "\0"))
    }

    /// Converts the run to a series.
    pub(super) fn series(&self) -> Result<Series, ImportError> {
        let mut notes = Vec::new();
        let place = self.place.or_else(|| match self.option('t')? {
            1 => Some(Place::Kernel),
            2 => Some(Place::Irq),
            _ => Some(Place::User),
        });
        if place.is_none() {
            notes.push("the file does not state the place: assumed to be user, latency's default".to_owned());
        }
        let place = place.unwrap_or(Place::User);
        let (bucket_ns, bars) = self.histogram()?;
        let mut series = Series::new(format!("latency -t{}", place as u8), place, bucket_ns);
        series.notes = notes;
        series.priority = self.priority.or_else(|| self.option('P')).filter(|p| (1..=99).contains(p));
        let period = self.period_us.or_else(|| self.option('p')).and_then(|us| us.checked_mul(1000));
        series.interval_ns = period.filter(|period| (1..=MAX_NS).contains(period));
        let totals = self.reported(&mut series);
        self.fill(&mut series, &bars, totals)?;
        self.count(&mut series)?;
        if totals.is_some_and(|totals| totals.min < 0.0) && !series.counts.is_empty() {
            series.notes.push("the histogram counts negative latencies as positive ones".to_owned());
        }
        Ok(series)
    }

    /// Sets the values of the run's end, or of its last second.
    fn reported(&self, series: &mut Series) -> Option<Totals> {
        let mut totals = self.totals;
        if let (None, Some(running)) = (totals, self.running) {
            series.notes.push("the run is truncated: values are those up to its last second".to_owned());
            totals = Some(Totals { mean: running.mean / self.seconds_seen as f64, ..running });
        }
        if let Some(totals) = totals {
            series.min_ns = Some(ns(totals.min));
            series.mean_ns = Some(totals.mean * 1000.0);
            series.max_ns = Some(ns(totals.max));
            series.missed = Some(totals.overruns);
        }
        totals
    }

    /// Returns the bucket width in ns and the non-empty buckets, ascending.
    fn histogram(&self) -> Result<(u64, Vec<Bar>), ImportError> {
        let requested = self.option('B').filter(|bucket| (1..=MAX_NS).contains(bucket));
        let (bucket, bars) = if self.points.is_empty() {
            (requested.unwrap_or(BUCKET_NS), self.bars.clone())
        } else {
            self.points()?
        };
        if let Some(two) = bars.windows(2).find(|two| two[0].number >= two[1].number) {
            let what = format!("bucket {} after bucket {}", two[1].number, two[0].number);
            let help = "use a separate file for each run, and keep the order of its lines";
            return Err(ImportError::new(two[1].line, what, help));
        }
        Ok((bucket, bars.into_iter().filter(|bar| bar.hits > 0).collect()))
    }

    /// Reads the points of -g: `start 1`, then `bucket-centre hits+1`, then `end 1`.
    fn points(&self) -> Result<(u64, Vec<Bar>), ImportError> {
        let cut = |line: usize, what: String| {
            ImportError::new(line, what, "the file is truncated or mixed with another: copy it again")
        };
        let (Some(first), Some((end, inner))) = (self.points.first(), self.points.split_last()) else {
            return Ok((BUCKET_NS, Vec::new()));
        };
        if end.count != 1 {
            return Err(cut(end.line, "the last line is not `end 1`".to_owned()));
        }
        // The start may be on the last line of the head. The first bucket was hit, so its count is at least 2.
        let starts = first.count == 1;
        let buckets = if starts { inner.len() as f64 - 1.0 } else { inner.len() as f64 - 0.5 };
        let bucket = ((end.x - first.x) / buckets * 1000.0).round();
        if !(buckets > 0.0 && (1.0..=MAX_NS as f64).contains(&bucket) && first.x >= 0.0) {
            return Err(cut(end.line, "it has no samples, or its lines do not ascend".to_owned()));
        }
        let mut bars = Vec::with_capacity(inner.len());
        for point in inner.iter().skip(usize::from(starts)) {
            let (Some(number), true) = (near(point, bucket, 0.5), point.count > 0) else {
                let what =
                    format!("{} {} is not the centre of a bucket of {bucket} ns", point.x, point.count);
                return Err(cut(point.line, what));
            };
            bars.push(Bar { line: point.line, number, hits: point.count - 1 });
        }
        Ok((bucket as u64, bars))
    }

    /// Sets the histogram's buckets, the overflow, and the deviation.
    fn fill(&self, series: &mut Series, bars: &[Bar], totals: Option<Totals>) -> Result<(), ImportError> {
        let Some(&Bar { line, number: top, hits }) = bars.last() else {
            return self.without_bars(series);
        };
        let samples = sum(bars.iter().map(|bar| bar.hits)).ok_or_else(|| too_many(line))?;
        if let Some((line, reported, ..)) = self.moments
            && reported != samples
        {
            let what = format!("{reported} samples, but the histogram adds up to {samples}");
            return Err(ImportError::new(line, what, "lines of it are lost or repeated: copy it again"));
        }
        for &Bar { line, number, hits } in bars {
            let value = number.checked_mul(series.bucket_ns).ok_or_else(|| too_many(line))?;
            series.counts.push((value, hits));
        }
        series.cycles = samples;
        series.stddev_ns = self.moments.map(|moments| moments.3 * series.bucket_ns as f64);
        let Some(totals) = totals else {
            if HISTOGRAM_CELLS.contains(&top.saturating_add(1)) {
                series.notes.push("the last bucket may also count larger values".to_owned());
            }
            return Ok(());
        };
        self.count(series)?;
        self.check_width(series, bars, &totals)?;
        let width = series.bucket_ns as f64;
        if totals.farthest() >= (top as f64 + 1.0) * width {
            // latency counts larger values in its last bucket.
            series.counts.pop();
            series.overflow = hits;
            series
                .notes
                .push("the last bucket is counted as overflow, because it includes larger values".to_owned());
        }
        Ok(())
    }

    /// Checks that the buckets' numbers agree with the latencies in us. The output of latency does not state the bucket
    /// width.
    fn check_width(&self, series: &Series, bars: &[Bar], totals: &Totals) -> Result<(), ImportError> {
        let (Some(&Bar { number: lowest, .. }), Some(&Bar { line, number: top, hits })) =
            (bars.first(), bars.last())
        else {
            return Ok(());
        };
        let width = series.bucket_ns as f64;
        let all = series.cycles.max(1) as f64;
        // Half a bucket of slack: the last second is in the reported values, but not in the histogram.
        let mut fits = totals.farthest() >= (top as f64 - 0.5) * width;
        if totals.min >= 0.0 {
            let reported = !self.points.is_empty() || self.option('B').is_some();
            // All samples may be larger; that is accepted only if the width is known.
            fits &= totals.min * 1000.0 <= (lowest as f64 + 1.5) * width || (reported && lowest == top);
            // The mean may exceed that of the buckets only by what the last one may hide.
            let centres: f64 = bars.iter().map(|bar| (bar.number as f64 + 0.5) * bar.hits as f64).sum();
            let (mean, centre) = (totals.mean * 1000.0, centres * width / all);
            let above = (totals.farthest() - top as f64 * width).max(0.0) * hits as f64 / all;
            fits &= (centre - width..=centre + width + above).contains(&mean);
        }
        if fits {
            return Ok(());
        }
        let what = format!(
            "bucket {top} of {width} ns contradicts latencies of {} to {} us (line {})",
            totals.min, totals.max, totals.line
        );
        let help = "add a first line with the command as it was run, with its -B: `$ latency -h -B 100`";
        Err(ImportError::new(line, what, help))
    }

    /// Uses only HSS lines (`-s`), if there are any.
    fn without_bars(&self, series: &mut Series) -> Result<(), ImportError> {
        let Some((_, samples, mean, deviation)) = self.moments else { return Ok(()) };
        series.cycles = samples;
        series.stddev_ns = Some(deviation * series.bucket_ns as f64);
        if series.mean_ns.is_none() && samples > 0 {
            // In bucket numbers, of truncated values.
            series.mean_ns = Some((mean + 0.5) * series.bucket_ns as f64);
        }
        Ok(())
    }

    /// Sets the number of activations if there is no histogram; otherwise checks for an overflow of its counters.
    fn count(&self, series: &mut Series) -> Result<(), ImportError> {
        let Some(period) = series.interval_ns else { return Ok(()) };
        let per_second = 1_000_000_000 / period;
        // With -q, and after copying, there are fewer RTD lines, so the length at the end is more reliable.
        let seconds = self.seconds.filter(|&seconds| seconds > 0).unwrap_or(self.seconds_seen);
        let due = seconds.saturating_mul(per_second);
        if series.cycles == 0 {
            series.cycles = due;
            return Ok(());
        }
        if self.seconds.is_some() && due.saturating_sub(series.cycles) >= 1 << 31 {
            let what = format!("{} samples in {due} periods: a counter of 32 bits overflowed", series.cycles);
            return Err(ImportError::new(self.line, what, "run latency for fewer than 2^31 periods"));
        }
        Ok(())
    }
}

/// Returns the bucket of a point that lies `part` of a bucket above its lower end.
fn near(point: &Point, bucket: f64, part: f64) -> Option<u64> {
    let place = point.x * 1000.0 / bucket - part;
    let number = place.round();
    ((place - number).abs() < BUCKET_TOLERANCE && (0.0..1e15).contains(&number)).then_some(number as u64)
}
