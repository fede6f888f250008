//! Output files of cyclictest 2.40.

use fathom_analysis::import::Place;

use crate::{good, line_of, one, refused, seen};

const JSON: &str = include_str!("fixtures/cyclictest-histogram.json");
const TEXT: &str = include_str!("fixtures/cyclictest-histogram.txt");
const SUMS: &str = include_str!("fixtures/cyclictest-sums.txt");

#[test]
fn json_has_all_values_of_a_thread() {
    let result = good(JSON);
    assert_eq!(result.tool, "cyclictest");
    assert_eq!(result.version.as_deref(), Some("2.40"));
    assert!(result.command.as_deref().is_some_and(|command| command.starts_with("cyclictest -q -m -t2")));
    let [first, second] = &result.series[..] else { panic!("{result:?}") };
    assert_eq!((first.name.as_str(), second.name.as_str()), ("thread 0 cpu 0", "thread 1 cpu 1"));
    for series in &result.series {
        assert_eq!((series.place, series.bucket_ns), (Place::User, 1000));
        // With histograms all threads have the priority and the period of the first.
        assert_eq!((series.priority, series.interval_ns), (Some(80), Some(1_000_000)));
        assert_eq!(seen(series) + series.overflow, series.cycles);
        assert!(series.missed.is_none() && series.stddev_ns.is_none() && series.notes.is_empty());
    }
    assert_eq!((first.cycles, first.overflow), (1917, 6));
    assert_eq!((first.min_ns, first.max_ns), (Some(5000), Some(99_958_000)));
    assert_eq!(first.mean_ns.map(f64::round), Some(64_010.0));
    assert_eq!(first.counts[..2], [(5000, 4), (6000, 55)]);
    assert_eq!((second.cycles, second.overflow), (2000, 5));
}

#[test]
fn text_and_json_of_a_run_agree() {
    let (json, text) = (good(JSON), good(TEXT));
    for (json, text) in json.series.iter().zip(&text.series) {
        assert_eq!(json.counts, text.counts);
        assert_eq!((json.cycles, json.overflow), (text.cycles, text.overflow));
        assert_eq!((json.min_ns, json.max_ns), (text.min_ns, text.max_ns));
        // The text has the truncated mean.
        let (exact, cut) = (json.mean_ns.unwrap(), text.mean_ns.unwrap());
        assert!((0.0..1000.0).contains(&(exact - cut)), "{exact} {cut}");
        assert_eq!((text.priority, text.interval_ns), (None, None));
    }
    // The text has neither priority nor period; they are taken from a line with the command.
    let named = good(&format!("$ sudo cyclictest -q -m -t2 -a 0-1 -p80 -i1000 -h 60\n{TEXT}"));
    assert_eq!(named.series[1].priority, Some(80));
    assert_eq!(named.series[1].interval_ns, Some(1_000_000));
    let fine = good(&format!("# cyclictest -mNq -t2 -p80 -i250 -h 60\n{TEXT}"));
    assert_eq!((fine.series[0].bucket_ns, fine.series[0].min_ns), (1, Some(5)));
}

#[test]
fn column_of_sums_is_not_a_thread() {
    let result = good(SUMS);
    assert_eq!(result.series.len(), 2);
    assert_eq!(result.series.iter().map(seen).collect::<Vec<_>>(), [2000, 1999]);
    assert_eq!(result.series[1].overflow, 1);
    assert_eq!(result.series[1].max_ns, Some(88_000));
}

#[test]
fn results_in_nanoseconds_are_recognised() {
    let series = one(include_str!("fixtures/cyclictest-nanoseconds.json"));
    assert_eq!((series.bucket_ns, series.min_ns, series.max_ns), (1, Some(4228), Some(16468)));
    assert_eq!((seen(&series), series.overflow), (100, 0));
    let line = "T: 0 ( 4992) P:80 I:1000 C:    100 Min:  10723 Act:   20281 Avg:   19012 Max:   51995";
    let series = one(line);
    assert_eq!((series.bucket_ns, series.min_ns, series.max_ns), (1, Some(10_723), Some(51_995)));
}

#[test]
fn without_a_histogram_there_are_no_counts() {
    for text in
        [include_str!("fixtures/cyclictest-plain.json"), include_str!("fixtures/cyclictest-plain.txt")]
    {
        let series = one(text);
        assert!(series.counts.is_empty() && series.overflow == 0 && series.cycles == 1000);
        assert_eq!((series.priority, series.interval_ns), (Some(80), Some(1_000_000)));
        assert_eq!(series.min_ns, Some(5000));
        assert!(series.mean_ns.is_some() && series.max_ns.is_some());
    }
}

#[test]
fn last_lines_of_a_live_display_are_used() {
    let result = good(include_str!("fixtures/cyclictest-live.txt"));
    let [first, second] = &result.series[..] else { panic!("{result:?}") };
    assert_eq!((first.cycles, first.max_ns, first.interval_ns), (60, Some(18_000), Some(1_000_000)));
    // Without a histogram a further thread has a longer period.
    assert_eq!((second.cycles, second.max_ns, second.interval_ns), (40, Some(30_000), Some(1_500_000)));
    let idle = one("T: 0 (    0) P:80 I:1000 C:      0 Min:1000000 Act:    0 Avg:    0 Max:       0");
    assert_eq!((idle.cycles, idle.min_ns, idle.max_ns), (0, None, None));
}

#[test]
fn json_after_printed_text_is_read_with_its_line_numbers() {
    let after_text = format!("# /dev/cpu_dma_latency set to 0us\n{JSON}");
    assert_eq!(good(&after_text), good(JSON));
    let broken = after_text.replace("\"cycles\": 1917", "\"cycles\": \"many\"");
    refused(&broken, line_of(&broken, "\"cycles\": \"many\""), &["invalid type", "cyclictest --json=FILE"]);
    let windows = JSON.replace('\n', "\r\n");
    assert_eq!(good(&windows), good(JSON));
    // In case a later version corrects these keys.
    assert_eq!(good(&JSON.replace("cmdline:\"", "cmdline\"").replace("version:\"", "version\"")), good(JSON));
}

#[test]
fn contradicting_result_is_refused_with_its_line() {
    let few = JSON.replace("\"cycles\": 1917", "\"cycles\": 17");
    refused(
        &few,
        line_of(&few, "\"0\": {"),
        &["thread 0 has 17 cycles, but its histogram has 1911", "again"],
    );
    let quote = JSON.replace("-h 60", "-h 60 --spike=\"9\"");
    refused(&quote, 3, &["quote", "not escaped"]);
    let other = JSON.replace("\"cyclictest -q", "\"pmqtest -q");
    refused(&other, 3, &["`pmqtest`", "only cyclictest's"]);
    let cut = &JSON[..JSON.len() / 2];
    refused(cut, cut.lines().count(), &["EOF", "of cyclictest"]);

    let at = line_of(TEXT, "000012 ");
    let lost: String =
        TEXT.lines().filter(|line| !line.starts_with("000012 ")).map(|l| l.to_owned() + "\n").collect();
    refused(&lost, line_of(&lost, "# Total:"), &["lost or repeated"]);
    refused(&TEXT.replace("000012 ", "00001x "), at, &["00001x", "not a line of a histogram"]);
    refused(&TEXT.replace("000012 ", "000012\n"), at, &["not a line of a histogram"]);
    refused(&TEXT.replace("000012 ", "000011 "), at, &["value 11 after 11", "copy the output again"]);
    let short = &TEXT[..TEXT.find("# Min").unwrap()];
    refused(short, line_of(TEXT, "000059 "), &["Min Latencies", "is truncated"]);
    let narrow = TEXT.replace("# Max Latencies: 99958 00397", "# Max Latencies: 99958");
    refused(&narrow, line_of(TEXT, "# Max"), &["1 numbers where"]);
    refused(&format!("{TEXT}{TEXT}"), TEXT.lines().count() + 2, &["a second histogram", "a separate file"]);
    let maximum = u64::MAX;
    let full = TEXT.replace("000012 000205", &format!("000012 {maximum}"));
    refused(&full, line_of(TEXT, "# Min"), &["64 bits"]);
}

#[test]
fn unknown_result_is_refused_with_the_known_formats() {
    refused("", 1, &["the file is empty", "latency -g FILE"]);
    refused("\n\nhello\n", 3, &["`hello`", "cyclictest --json=FILE"]);
    refused("{}", 1, &["missing field"]);
}
