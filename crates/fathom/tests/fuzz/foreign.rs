//! Results of other tools: read, converted to a record, and judged.

use fathom_analysis::import::read;
use fathom_experiment::record::{End, Imported, MAX_SERIES, Record, Run};
use fathom_experiment::report_kinds::REPORT_KINDS;
use fathom_experiment::wakeup;
use fathom_report::{json, kind};

/// Checks the import with any text: counts must add up, and the record must have the same series.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let foreign = match read(&text) {
        Ok(foreign) => foreign,
        Err(error) => {
            assert!((1..=text.lines().count().max(1)).contains(&error.line), "{error}");
            assert!(!error.what.is_empty() && !error.help.is_empty());
            return;
        }
    };
    assert!(!foreign.series.is_empty());
    let mut series = Imported::of(&foreign, "a");
    series.truncate(MAX_SERIES);
    assert!(series.iter().all(Imported::is_whole), "{series:?}");
    let run = Run { experiment: wakeup::NAME.into(), ..Run::default() }.line();
    let series_lines = series.iter().zip(1..).flat_map(|(series, number)| series.lines(number));
    let end = End { status: "complete".into(), elapsed_ms: 0 }.line();
    let lines = [run].into_iter().chain(series_lines).chain([end]).map(|line| line.render());
    let lines: Vec<String> = [Record::first_line()].into_iter().chain(lines).collect();
    let record = Record::parse(&lines.join("\n")).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(record.problems, Vec::<String>::new());
    assert_eq!(record.imported, series);
    let report = fathom_experiment::read(&record).unwrap_or_else(|e| panic!("{e}"));
    for finding in &report.findings {
        let known = kind::key(&REPORT_KINDS, &finding.name());
        let known = known.unwrap_or_else(|| panic!("{} is in no schema", finding.name()));
        assert!(known.metric.units.contains(&finding.unit), "{} in '{}'", finding.name(), finding.unit);
        let ordered = finding.low.zip(finding.high).is_none_or(|(low, high)| low <= high);
        assert!(ordered, "{finding:?}");
    }
    assert!(json(&report, &wakeup::KIND).is_ascii() || !text.is_ascii());
}
