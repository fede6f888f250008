//! Round trips: random histograms, written in the format of each tool, must read back.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use proptest::prelude::*;

use crate::{good, one};

/// Returns random latencies in a tool's units.
fn values(most: u64) -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![0..most / 8 + 1, 0..most * 2], 1..200)
}

/// Returns the buckets of values below `cells`, and the number of values above.
fn binned(values: &[u64], cells: u64) -> (BTreeMap<u64, u64>, u64) {
    let mut bars = BTreeMap::new();
    for &value in values.iter().filter(|&&value| value < cells) {
        *bars.entry(value).or_insert(0) += 1;
    }
    let inside: u64 = bars.values().sum();
    (bars, values.len() as u64 - inside)
}

/// Returns cyclictest's text, with or without its column of sums, and its JSON.
fn cyclictest(threads: &[Vec<u64>], cells: u64, sums: bool) -> (String, String) {
    let sums = sums && threads.len() > 1;
    let binned: Vec<_> = threads.iter().map(|values| binned(values, cells)).collect();
    let all = |rows: Vec<u64>, width: usize, last: Option<u64>| {
        let mut line = String::new();
        for value in rows.into_iter().chain(last.filter(|_| sums)) {
            write!(line, " {value:0width$}").expect("a string takes all");
        }
        line
    };
    let mut text = "# /dev/cpu_dma_latency set to 0us\n# Histogram\n".to_owned();
    for value in 0..cells {
        let row: Vec<u64> = binned.iter().map(|(bars, _)| bars.get(&value).copied().unwrap_or(0)).collect();
        let sum = row.iter().sum();
        let row = all(row, 6, Some(sum)).trim().replace(' ', "\t");
        writeln!(text, "{value:06} {row}").expect("a string takes all");
    }
    let totals: Vec<u64> = binned.iter().map(|(bars, _)| bars.values().sum()).collect();
    let mean = |values: &Vec<u64>| values.iter().sum::<u64>() / values.len() as u64;
    let maxima: Vec<u64> = threads.iter().map(|values| *values.iter().max().expect("one")).collect();
    let overflows: Vec<u64> = binned.iter().map(|(_, above)| *above).collect();
    let (total, max, above) = (totals.iter().sum(), maxima.iter().max().copied(), overflows.iter().sum());
    let minima = threads.iter().map(|values| *values.iter().min().expect("one")).collect();
    writeln!(text, "# Total:{}", all(totals, 9, Some(total))).expect("a string takes all");
    writeln!(text, "# Min Latencies:{}", all(minima, 5, None)).expect("a string takes all");
    writeln!(text, "# Avg Latencies:{}", all(threads.iter().map(mean).collect(), 5, None)).expect("a string");
    writeln!(text, "# Max Latencies:{}", all(maxima, 5, max)).expect("a string takes all");
    writeln!(text, "# Histogram Overflows:{}", all(overflows, 5, Some(above))).expect("a string takes all");

    let objects: Vec<String> = threads
        .iter()
        .zip(&binned)
        .enumerate()
        .map(|(number, (values, (bars, _)))| {
            let bars: Vec<String> = bars.iter().map(|(value, count)| format!("\"{value}\": {count}")).collect();
            format!(
                "    \"{number}\": {{\n\"histogram\": {{ {} }},\n\"cycles\": {}, \"min\": {}, \"max\": {}, \"avg\": {:.2}\n}}",
                bars.join(",\n"),
                values.len(),
                values.iter().min().expect("one"),
                values.iter().max().expect("one"),
                values.iter().sum::<u64>() as f64 / values.len() as f64,
            )
        })
        .collect();
    let json = format!(
        "{{\n\"file_version\": 1,\n\"cmdline:\": \"cyclictest -h {cells} -p 80 -i 250\",\n\
         \"rt_test_version:\": \"2.40\",\n\"resolution_in_ns\": 0,\n\"thread\": {{\n{}\n}}\n}}\n",
        objects.join(",\n")
    );
    (text, json)
}

/// Returns the output of `latency -h -g -` for signed ns; the last bucket has all larger values. With `hanging` the
/// first point is on the line of the comment before it.
fn xenomai(values: &[i64], bucket: u64, cells: u64, hanging: bool) -> (String, String) {
    let mut bars = vec![0_u64; cells as usize];
    for value in values {
        bars[(value.unsigned_abs() / bucket).min(cells - 1) as usize] += 1;
    }
    let us = |value: i64| value as f64 / 1000.0;
    let least = us(*values.iter().min().expect("one"));
    let largest = us(*values.iter().max().expect("one"));
    let mean = us((values.iter().sum::<i64>() as f64 / values.len() as f64) as i64);
    let mut text = format!("$ latency -h -B {bucket} -t2\n== Test mode: in-kernel timer handler\n");
    for (number, hits) in bars.iter().enumerate().filter(|bar| *bar.1 > 0) {
        writeln!(text, "HSD|    avg| {number:3} -{:3} | {hits:8}", number + 1).expect("a string takes all");
    }
    writeln!(text, "RTS|{least:11.3}|{mean:11.3}|{largest:11.3}|       3|     0|    00:00:00/00:00:00")
        .expect("a string takes all");
    let first = bars.iter().position(|&hits| hits > 0).expect("one");
    let last = bars.iter().rposition(|&hits| hits > 0).expect("one");
    let x = |place: f64| place * bucket as f64 / 1000.0;
    let mut points =
        format!("# 00:00:00 (in-kernel timer handler, 100 us period, priority 0)\n# {least:11.3}|");
    write!(points, "{mean:11.3}|{largest:11.3}|       3|     0|\n# end").expect("a string takes all");
    writeln!(points, "{}{} 1", if hanging { "" } else { "\n" }, x(first as f64)).expect("a string takes all");
    for (number, hits) in bars.iter().enumerate().take(last + 1).skip(first) {
        writeln!(points, "{} {}", x(number as f64 + 0.5), hits + 1).expect("a string takes all");
    }
    writeln!(points, "{} 1", x(last as f64 + 1.0)).expect("a string takes all");
    (text, points)
}

proptest! {
    #[test]
    fn cyclictest_output_is_read(
        threads in prop::collection::vec(values(100), 1..5), cells in 1u64..150, sums: bool
    ) {
        let (text, json) = cyclictest(&threads, cells, sums);
        let (text, json) = (good(&text), good(&json));
        prop_assert_eq!(text.series.len(), threads.len());
        prop_assert_eq!(json.series.len(), threads.len());
        for ((values, text), json) in threads.iter().zip(&text.series).zip(&json.series) {
            let (bars, above) = binned(values, cells);
            let bars: Vec<(u64, u64)> = bars.into_iter().map(|(value, count)| (value * 1000, count)).collect();
            for series in [text, json] {
                prop_assert_eq!(&series.counts, &bars);
                prop_assert_eq!(series.overflow, above);
                prop_assert_eq!(series.cycles, values.len() as u64);
                prop_assert_eq!(series.min_ns, values.iter().min().map(|&value| value as i64 * 1000));
                prop_assert_eq!(series.max_ns, values.iter().max().map(|&value| value as i64 * 1000));
                let mean = values.iter().sum::<u64>() as f64 / values.len() as f64 * 1000.0;
                prop_assert!(series.mean_ns.is_some_and(|read| (read - mean).abs() <= 1000.0));
            }
            prop_assert!((json.mean_ns.unwrap() - text.mean_ns.unwrap()) > -5.1);
            prop_assert_eq!((json.priority, json.interval_ns), (Some(80), Some(250_000)));
        }
    }

    #[test]
    fn latency_output_is_read(
        values in prop::collection::vec(prop_oneof![-3000i64..9000, 0i64..200_000], 1..300),
        bucket in prop::sample::select(vec![100u64, 250, 500, 1000, 2000, 10_000]),
        cells in prop::sample::select(vec![5u64, 50, 300]),
        hanging: bool,
    ) {
        let (text, points) = xenomai(&values, bucket, cells, hanging);
        let far = values.iter().map(|value| value.unsigned_abs()).max().expect("one");
        for series in [one(&text), one(&points)] {
            prop_assert_eq!(series.bucket_ns, bucket);
            prop_assert_eq!(series.place.word(), "irq");
            prop_assert_eq!(series.cycles, values.len() as u64);
            prop_assert_eq!(series.min_ns, values.iter().min().copied());
            prop_assert_eq!(series.max_ns, values.iter().max().copied());
            prop_assert_eq!(series.missed, Some(3));
            // If the last bucket has larger values as well, it is not used as a bucket.
            let edge = if far >= cells * bucket { (cells - 1) * bucket } else { cells * bucket };
            let absolute: Vec<u64> = values.iter().map(|value| value.unsigned_abs()).collect();
            let below: Vec<u64> = absolute.iter().filter(|&&value| value < edge).map(|v| v / bucket).collect();
            let (bars, _) = binned(&below, u64::MAX);
            let bars: Vec<(u64, u64)> = bars.into_iter().map(|(number, count)| (number * bucket, count)).collect();
            prop_assert_eq!(series.overflow, (values.len() - below.len()) as u64);
            prop_assert_eq!(series.counts, bars);
        }
    }
}
