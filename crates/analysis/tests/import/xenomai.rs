//! Files in the formats of Xenomai's `latency`, according to its sources.

use fathom_analysis::import::Place;

use crate::{good, line_of, one, refused, seen};

const PLACES: &str = include_str!("fixtures/xenomai-places.txt");
const FINE: &str = include_str!("fixtures/xenomai-fine.txt");
const NEW: &str = include_str!("fixtures/xenomai-3.gnuplot");
const OLD: &str = include_str!("fixtures/xenomai-2.gnuplot");

#[test]
fn runs_of_a_transcript_are_separate_series() {
    let result = good(PLACES);
    assert_eq!(result.tool, "xenomai-latency");
    assert_eq!(result.command.as_deref(), Some("latency -t0 -p 1000 -T 4 -h"));
    assert_eq!(result.series.iter().map(|s| s.place).collect::<Vec<_>>(), Place::ALL);
    for series in &result.series {
        assert_eq!((series.cycles, seen(series), series.overflow), (4000, 4000, 0));
        assert_eq!((series.bucket_ns, series.interval_ns), (1000, Some(1_000_000)));
        assert_eq!((series.priority, series.missed), (Some(99), Some(0)));
    }
    let user = &result.series[0];
    assert_eq!((user.min_ns, user.mean_ns, user.max_ns), (Some(1307), Some(2012.0), Some(14_379)));
    // The deviation is printed in buckets.
    assert_eq!(user.stddev_ns, Some(692.0));
    assert_eq!(user.counts[..2], [(1000, 2375), (2000, 1425)]);
    let irq = &result.series[2];
    assert!(irq.min_ns.is_some_and(|minimum| minimum < 0));
    assert!(irq.notes.iter().any(|note| note.contains("negative")), "{:?}", irq.notes);
}

#[test]
fn bucket_width_of_the_command_must_fit_the_latencies() {
    let series = one(FINE);
    assert_eq!((series.bucket_ns, series.cycles, series.missed), (100, 4000, Some(2)));
    assert_eq!(series.stddev_ns, Some(532.7));
    // Two samples are in the last bucket, one of them at 13 us: the last bucket includes all larger values, so it is
    // not used.
    assert_eq!((series.overflow, seen(&series)), (2, 3998));
    assert!(series.counts.iter().all(|bar| bar.0 < 9900));
    let at = FINE.lines().position(|line| line.starts_with("HSD|    avg|  99")).unwrap() + 1;
    refused(&FINE.replace("-B 100", ""), at, &["bucket 99 of 1000 ns", "its -B: `$ latency -h -B 100`"]);
    // A bucket width that is too small.
    refused(&PLACES.replace("-t0", "-B 100 -t0"), line_of(PLACES, "HSD|    avg|  14"), &["14 of 100 ns"]);
}

#[test]
fn results_without_histograms_are_read() {
    let short: String =
        PLACES.lines().take_while(|l| !l.starts_with("# latency -t1")).fold(String::new(), |t, l| {
            if l.starts_with("HSD") || l.starts_with("---") { t } else { t + l + "\n" }
        });
    let series = one(&short);
    assert!(series.counts.is_empty());
    assert_eq!((series.cycles, series.stddev_ns, series.mean_ns), (4000, Some(692.0), Some(2012.0)));
    // Neither RTS nor HSS: the last line per second gives minimum and maximum so far.
    let cut: String = PLACES.lines().take(9).map(|line| line.to_owned() + "\n").collect();
    let series = one(&cut);
    assert_eq!((series.cycles, series.min_ns, series.max_ns), (2000, Some(1307), Some(13_469)));
    assert_eq!(series.mean_ns.map(f64::round), Some(2010.0));
    assert!(series.notes.iter().any(|note| note.contains("is truncated")), "{:?}", series.notes);
    // Published excerpts have neither head nor period.
    let piece = "HSH|--param|--samples-|--average--|---stddev--\n\
                 HSS|    avg|   1199957|      1.445|      2.267\n";
    let series = one(piece);
    assert_eq!((series.cycles, series.stddev_ns, series.mean_ns), (1_199_957, Some(2267.0), Some(1945.0)));
    assert!(series.notes.iter().any(|note| note.contains("does not state the place")), "{:?}", series.notes);
}

#[test]
fn gnuplot_files_give_their_bucket_width() {
    let new = good(NEW);
    assert_eq!(new.version.as_deref(), Some("Xenomai/cobalt v3.1"));
    let series = one(NEW);
    assert_eq!((series.bucket_ns, series.place, series.priority), (500, Place::User, Some(99)));
    assert_eq!((series.cycles, series.interval_ns), (4000, Some(1_000_000)));
    // Counts are one larger than hits, and the two ends are not buckets.
    assert_eq!(series.counts[..2], [(1000, 444), (1500, 1905)]);
    assert_eq!(series.counts.last(), Some(&(11_500, 1)));
    assert_eq!((series.min_ns, series.max_ns, series.overflow), (Some(1305), Some(11_590), 0));
    let series = one(OLD);
    assert_eq!((series.bucket_ns, series.cycles, series.counts[0]), (1000, 4000, (1000, 2332)));
    assert_eq!((series.min_ns, series.priority), (None, None));
    // The comment before the first point may have lost its `#`.
    assert_eq!(good(&NEW.replace("# PKG_CONFIG", "PKG_CONFIG")), new);
}

#[test]
fn damaged_result_is_refused_with_its_line() {
    let at = line_of(PLACES, "RTD|");
    refused(&PLACES.replacen("      8.042\n", "\n", 1), at, &["fields of its type", "copy the output again"]);
    let lost = PLACES.replacen("HSD|    avg|   3 -  4 |      174\n", "", 1);
    refused(&lost, line_of(&lost, "HSS|    avg"), &["4000 samples, but the histogram adds up to 3826"]);
    let irq = line_of(PLACES, "== Test mode: in-kernel timer handler");
    refused(&PLACES.replace("in-kernel timer handler\n", "lunch\n"), irq, &["`lunch`", "known are"]);
    refused("== Sampling period: 100 us\nwarming up...\n", 1, &["no result follows", "two seconds"]);

    let end = OLD.lines().count();
    refused(OLD.trim_end().strip_suffix("11 1").unwrap(), end - 1, &["not `end 1`", "copy it again"]);
    refused(&OLD.replace("4.5 14", "4.7 14"), 5, &["4.7 14 is not the centre of a bucket of 1000 ns"]);
    refused(&OLD.replace("4.5 14", "3.5 14"), 5, &["bucket 3 after bucket 3"]);
    refused(&OLD.replace("4.5 14", "x"), 5, &["`x` is not a line of latency -g"]);
    refused(&OLD.replace("4.5 14", "4.5 -14"), 5, &["overflowed", "2^31"]);
    refused("300 1\n0 1\n", 2, &["it has no samples"]);
}

#[test]
fn overflowed_counter_is_found_by_the_duration() {
    // Six days of 100 us are 5.2e9 periods; the counter of the largest bucket overflowed at 2^32.
    let counts = [("0.5", 800_000_000_u64), ("1.5", 5_184_000_000 - 800_000_000 - (1 << 32))];
    let mut text = "# 144:00:00 (periodic user-mode task, 100 us period, priority 99)\n0 1\n".to_owned();
    for (centre, count) in counts {
        text += &format!("{centre} {}\n", count + 1);
    }
    text += "2 1\n";
    refused(&text, 2, &["in 5184000000 periods", "32 bits", "fewer than 2^31"]);
    let series = one(&text.replace("144:00:00", "24:00:00"));
    assert_eq!(series.cycles, 889_032_704);
}
