use fathom_analysis::findings::{Refused, Value, WarningKind};
use fathom_analysis::import;

use crate::record::{End, Run};

use super::*;

/// Returns the report of a record with these series.
fn report(imported: &[Imported]) -> Report {
    let run = Run { experiment: super::super::NAME.into(), ..Run::default() }.line();
    let series_lines = imported.iter().zip(1..).flat_map(|(series, number)| series.lines(number));
    let end = End { status: "complete".into(), elapsed_ms: 0 }.line();
    let lines = [run].into_iter().chain(series_lines).chain([end]).map(|line| line.render());
    let text: Vec<String> = [Record::first_line()].into_iter().chain(lines).collect();
    let record = Record::parse(&text.join("\n")).expect("a record");
    assert_eq!(record.problems, Vec::<String>::new());
    crate::read(&record).expect("a report")
}

/// Returns the series of a `-h` output: (us, count), and the maximum.
fn cyclictest(bars: &[(u64, u64)], overflow: u64, max: u64) -> Vec<Imported> {
    let mut text = "$ cyclictest -i 100 -p 80 -h 1000\n# Histogram\n".to_owned();
    for (us, count) in bars {
        text += &format!("{us:06} {count:06}\n");
    }
    let total: u64 = bars.iter().map(|bar| bar.1).sum();
    text += &format!(
        "# Total: {total:09}\n# Min Latencies: {:05}\n# Avg Latencies: 00006\n# Max Latencies: {max:05}\n\
         # Histogram Overflows: {overflow:05}\n",
        bars[0].0
    );
    Imported::of(&import::read(&text).unwrap_or_else(|e| panic!("{e}\n{text}")), "h.txt")
}

fn row<'a>(report: &'a Report, name: &str) -> Option<&'a Finding> {
    let name = format!("wakeup.user.imported-1.{name}");
    report.findings.iter().find(|f| f.name() == name)
}

/// Returns a value with its interval.
fn reported(report: &Report, name: &str) -> Option<(f64, Option<f64>, Option<f64>)> {
    let row = row(report, name)?;
    match row.value {
        Value::Number(value) => Some((value, row.low, row.high)),
        Value::Text(_) => None,
    }
}

fn refused<'a>(report: &'a Report, what: &str) -> Option<&'a Refused> {
    report.refusals.iter().find(|r| r.what == what)
}

#[test]
fn the_interval_of_a_percentile_includes_its_bucket() {
    let report = report(&cyclictest(&[(5, 5000), (6, 4000), (9, 1000)], 0, 9));
    assert_eq!(reported(&report, "min"), Some((5.0, None, None)));
    assert_eq!(reported(&report, "max"), Some((9.0, None, None)));
    assert_eq!(reported(&report, "p50"), Some((5.5, Some(5.0), Some(7.0))));
    assert_eq!(reported(&report, "p99"), Some((9.5, Some(9.0), Some(10.0))));
    assert_eq!(reported(&report, "p9999"), None, "10000 activations give no upper bound for it");
    assert_eq!(row(&report, "p50").map(|row| row.count), Some(10_000));
    let notes = &row(&report, "min").expect("a row").notes;
    assert!(notes.iter().any(|n| n.contains("cyclictest: thread 0, priority 80, every 100 us")), "{notes:?}");
    assert!(notes.iter().any(|n| n.starts_with("buckets of 1 us")), "{notes:?}");
    assert_eq!(report.trust, "unknown");
    assert!(report.warnings.iter().any(|w| w.kind == WarningKind::Imported), "{:?}", report.warnings);
    let order = refused(&report, "causes, extremes and stages of imported series").expect("a row");
    assert!(order.reason.contains("lacks the order") && !order.remedy.is_empty());
    assert_eq!(report.histograms.len(), 1);
    assert_eq!(report.histograms[0].counts.iter().map(|bar| bar.1).sum::<u64>(), 10_000);
}

#[test]
fn values_above_the_histogram_are_not_invented() {
    // 1 % is above: p99 may be above, and p99.9 is.
    let report = report(&cyclictest(&[(5, 9900)], 100, 700));
    assert_eq!(reported(&report, "p90"), Some((5.5, Some(5.0), Some(6.0))));
    assert_eq!(
        reported(&report, "p99"),
        Some((5.5, Some(5.0), Some(701.0))),
        "the maximum is the upper bound"
    );
    assert_eq!(reported(&report, "p999"), None);
    assert_eq!(reported(&report, "max"), Some((700.0, None, None)));
    assert_eq!(reported(&report, "stddev"), None, "not in the file, and the histogram is truncated");
    assert_eq!(reported(&report, "mean"), Some((6.0, None, None)), "from the tool");
    let refused = refused(&report, "wakeup.user.imported-1.p999_corrected").expect("a row");
    assert!(refused.reason.contains("100 activations") && refused.remedy.contains("-h 10000"), "{refused:?}");
    let notes = &row(&report, "min").expect("a row").notes;
    assert!(notes.iter().any(|n| n.contains("truncated: 100 activations")), "{notes:?}");
    assert!(report.histograms[0].counts.iter().all(|bar| bar.0.is_finite()));
}

#[test]
fn one_long_stall_counts_as_its_missed_periods() {
    // The only activation above is the maximum: 50 ms at a period of 100 us are 500 activations of 10,500.
    let report = report(&cyclictest(&[(5, 9999)], 1, 50_000));
    let (seen, low, _) = reported(&report, "p99").expect("a row");
    assert_eq!((seen, low), (5.5, Some(5.0)));
    let (corrected, low, high) = reported(&report, "p999_corrected").expect("a row");
    let expected = 50_000.0 - 0.001 * 10_500.0 * 100.0;
    assert!((corrected - expected).abs() < 200.0, "{corrected}, expected {expected}");
    assert!(low < Some(corrected) && high <= Some(50_001.0), "{low:?} {high:?}");
    let notes = &row(&report, "p999_corrected").expect("a row").notes;
    assert!(notes[0].contains("including 500 missed periods"), "{notes:?}");
}

#[test]
fn without_a_histogram_the_tools_figures_are_kept_and_percentiles_refused() {
    let line = "T: 0 (  591) P:80 I:1000 C:   1000 Min:      5 Act:   12 Avg:   12 Max:     117\n";
    let report = report(&Imported::of(&import::read(line).expect("a result"), "t.txt"));
    assert_eq!(reported(&report, "mean"), Some((12.0, None, None)));
    assert_eq!(reported(&report, "max"), Some((117.0, None, None)));
    let refused = refused(&report, "percentiles of wakeup.user.imported-1").expect("a row");
    assert!(refused.remedy.contains("cyclictest -h"), "{refused:?}");
    assert!(report.histograms.is_empty());
}
