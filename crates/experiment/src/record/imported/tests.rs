use fathom_probe::wire::line::MAX_LINE;
use proptest::prelude::*;

use super::super::{End, Run};
use super::*;

fn tool_result() -> ToolResult {
    let series = Series {
        name: "thread 3 cpu 1".into(),
        place: Place::Kernel,
        priority: Some(80),
        interval_ns: Some(1_000_000),
        counts: (0..200).map(|i| (1000 * i, i + 1)).collect(),
        bucket_ns: 1000,
        cycles: 20_104,
        min_ns: Some(-700),
        mean_ns: Some(-0.5),
        max_ns: Some(99_000),
        stddev_ns: Some(1.25),
        overflow: 4,
        missed: Some(9),
        notes: vec!["one".into(), "two \"quoted\"".into()],
    };
    let plain = Series {
        name: "latency -t0".into(),
        place: Place::User,
        priority: None,
        interval_ns: None,
        counts: Vec::new(),
        cycles: 0,
        min_ns: None,
        mean_ns: None,
        max_ns: None,
        stddev_ns: None,
        overflow: 0,
        missed: None,
        notes: Vec::new(),
        ..series.clone()
    };
    ToolResult {
        tool: "cyclictest".into(),
        version: Some("2.40".into()),
        command: Some("cyclictest -m".into()),
        series: vec![series, plain],
    }
}

fn series() -> Vec<Imported> {
    Imported::of(&tool_result(), "a b.txt")
}

/// Returns a complete record of these series.
fn lines(all: &[Imported]) -> Vec<String> {
    let series_lines = all.iter().zip(1..).flat_map(|(series, number)| series.lines(number));
    let run = Run { experiment: "wakeup".into(), ..Run::default() }.line();
    let end = End { status: "complete".into(), elapsed_ms: 0 }.line();
    let all = [run].into_iter().chain(series_lines).chain([end]).map(|line| line.render());
    [Record::first_line()].into_iter().chain(all).collect()
}

fn read(lines: &[String]) -> Record {
    let record = Record::parse(&lines.join("\n")).expect("a record");
    let _ = crate::read(&record);
    record
}

#[test]
fn every_field_round_trips() {
    let record = read(&lines(&series()));
    assert_eq!(record.problems, Vec::<String>::new());
    assert_eq!(record.imported, series());
    let first = &record.imported[0];
    assert_eq!((first.mean_ps, first.stddev_ps, first.min_ns), (Some(-500), Some(1250), Some(-700)));
    assert_eq!((first.counts.len(), first.notes.len(), first.is_whole()), (200, 2, true));
    assert!(record.imported[1].is_whole());
}

#[test]
fn lost_and_repeated_lines_are_problems_and_incomplete_histograms_are_refused() {
    let whole = lines(&series());
    let series_lines: Vec<usize> = (0..whole.len()).filter(|&i| whole[i].starts_with("imported")).collect();
    assert_eq!(series_lines.len(), 5, "a head, three parts, a head");
    for &i in &series_lines {
        let mut twice = whole.clone();
        twice.insert(i, whole[i].clone());
        let record = read(&twice);
        assert_eq!(record.problems.len(), 1, "{:?}", record.problems);
        assert!(record.problems[0].starts_with(&format!("line {}: ", i + 2)), "{:?}", record.problems);
        assert_eq!(record.imported, series());
    }
    for &i in &series_lines[1..4] {
        let mut without = whole.clone();
        without.remove(i);
        let record = read(&without);
        assert!(!record.imported[0].is_whole());
        let report = crate::read(&record).expect("a report");
        assert!(!report.findings.iter().any(|f| f.name().contains("imported-1")), "{:?}", report.findings);
        assert!(
            report.refusals.iter().any(|r| r.what == "wakeup.kernel.imported-1"),
            "{:?}",
            report.refusals
        );
    }
}

#[test]
fn invalid_lines_are_refused_with_a_reason() {
    let good = "imported series=1 tool=\"x\" place=user bucket_ns=1 cycles=3 overflow=0 parts=1";
    for (second, reason) in [
        ("imported series=2 part=1 values=1,2 counts=1,2", "without the part before it"),
        ("imported series=1 part=2 values=1,2 counts=1,2", "without the part before it"),
        ("imported series=1 part=1 values=1,2 counts=1", "as many counts"),
        ("imported series=1 part=1 values=1,2 counts=1,0", "as many counts"),
        ("imported series=1 part=1 values=2,1 counts=1,2", "do not ascend"),
        ("imported series=1 part=1 values=2,2 counts=1,2", "do not ascend"),
        ("imported series=1 part=1 values=1,2 counts=18446744073709551615,1", "64 bits"),
        ("imported series=1 part=1 values=1,2 counts=1,2 more=1", "unknown key"),
        (good, "series 2 is the next one"),
    ] {
        let record = read(&[Record::first_line(), good.into(), second.into()]);
        assert!(record.problems.len() == 1 && record.problems[0].contains(reason), "{:?}", record.problems);
        assert!(!record.imported[0].is_whole(), "{second}");
    }
    for (from, to) in [("bucket_ns=1", "bucket_ns=0"), ("place=user", "place=moon"), ("parts=1", "x=1")] {
        let record = read(&[Record::first_line(), good.replace(from, to)]);
        assert!(record.imported.is_empty() && record.problems.len() == 1, "{to}");
    }
    // A probe does not send these lines.
    let sealed = Line::parse(good).expect("a line").seal(1);
    let record = read(&[Record::first_line(), sealed]);
    assert!(record.imported.is_empty() && record.problems.len() == 1, "{:?}", record.problems);
}

#[test]
fn series_beyond_the_limit_are_dropped() {
    let one = &series()[1];
    let many = vec![one.clone(); MAX_SERIES + 1];
    let record = read(&lines(&many));
    assert_eq!(record.imported.len(), MAX_SERIES);
    assert!(record.excess().is_some_and(|why| why.contains("64 imported series")), "{:?}", record.excess());
    assert!(read(&lines(&many[1..])).excess().is_none());
}

#[test]
fn the_longest_series_fits_the_line_length() {
    let text = |c: char| c.to_string().repeat(10_000);
    let mut result = tool_result();
    for c in ['\u{10ffff}', '"', '\u{1b}', 'x'] {
        (result.tool, result.version, result.command) = (text(c), Some(text(c)), Some(text(c)));
        let series = &mut result.series[0];
        (series.name, series.notes) = (text(c), vec![text(c), text(c)]);
        (series.priority, series.interval_ns, series.missed) =
            (Some(u64::MAX), Some(u64::MAX), Some(u64::MAX));
        (series.bucket_ns, series.cycles, series.overflow) = (u64::MAX, u64::MAX, u64::MAX);
        (series.min_ns, series.max_ns) = (Some(i64::MIN), Some(i64::MIN));
        (series.mean_ns, series.stddev_ns) = (Some(f64::MIN), Some(f64::MAX));
        series.counts = (0..200).map(|i| (u64::MAX - 200 + i, 1 << 56)).collect();
        let imported = Imported::of(&result, &text(c));
        assert!(imported[0].lines(64).iter().all(|line| line.render().len() < MAX_LINE));
        let record = read(&lines(&imported));
        assert_eq!(record.problems, Vec::<String>::new());
        assert_eq!(record.imported, imported);
    }
}

proptest! {
    #[test]
    fn any_numbers_are_read_or_refused_and_judged(
        head in any::<[u64; 7]>(),
        signed in any::<[i64; 3]>(),
        buckets in prop::collection::vec((any::<u64>(), any::<u64>()), 0..20),
        shift in 0..64u32,
    ) {
        let all: Vec<(u64, u64)> = buckets.iter().map(|(v, n)| (v >> (v % 64), n >> shift)).collect();
        let (values, counts): (Vec<u64>, Vec<u64>) = all.iter().copied().unzip();
        let seen = counts.iter().fold(0u64, |sum, n| sum.wrapping_add(*n));
        let overflow = head[0] >> (head[0] % 64);
        let line = Line::new("imported").int("series", 1u64).text("tool", "x").token("place", "irq")
            .int("bucket_ns", head[1] >> (head[1] % 64)).int("overflow", overflow)
            .int("cycles", if head[6] % 2 == 0 { seen.wrapping_add(overflow) } else { head[2] })
            .int("parts", 1u64).int("interval_ns", head[3] >> (head[3] % 64)).int("missed", head[4])
            .int("stddev_ps", head[5]).int("min_ns", signed[0]).int("mean_ps", signed[1]).int("max_ns", signed[2]);
        let part = Line::new("imported").int("series", 1u64).int("part", 1u64)
            .list("values", &values).list("counts", &counts);
        let run = Run { experiment: "wakeup".into(), ..Run::default() }.line();
        let record = read(&[Record::first_line(), run.render(), line.render(), part.render()]);
        prop_assert!(record.problems.len() <= 2);
    }
}
