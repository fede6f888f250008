//! What regions of the program count.

use fathom_analysis::findings::{Axis, Finding, Report};
use fathom_analysis::metrics::count as metrics;
use fathom_report::finding_index::FindingIndex;
use fathom_report::number;
use fathom_report::page::{INTERVAL, Page, TextRole, left, measured, right};

/// Renders the section, if there are regions.
pub(super) fn section(page: &mut Page, report: &Report, index: &mut FindingIndex) {
    times(page, report, index);
    events(page, index);
    marks(page, index);
}

fn name(f: &Finding) -> String {
    f.detail.word(metrics::REGION).unwrap_or_default().to_owned()
}

fn times(page: &mut Page, report: &Report, index: &mut FindingIndex) {
    let columns = [&metrics::REGION_ENTERED, &metrics::REGION_TIME, &metrics::REGION_PER_CYCLE];
    let rows = index.rows(columns, &[Axis::Region]);
    if rows.is_empty() {
        return;
    }
    let wall = report.find(&metrics::WALL).and_then(Finding::finite).filter(|wall| *wall > 0.0);
    let row = |[entered, time, per_cycle_of]: [Option<&Finding>; 3]| {
        let [value, interval] = number::cells(time);
        let share = wall.zip(time.and_then(Finding::finite));
        let share = share.map(|(wall, time)| format!("{:.1} %", 100.0 * time / wall)).unwrap_or_default();
        let [entered_times, per_cycle] = [entered, per_cycle_of].map(|f| number::cells(f)[0].clone());
        let known = entered.or(time).or(per_cycle_of);
        let runs = known.map(|f| f.count.to_string()).unwrap_or_default();
        vec![known.map(name).unwrap_or_default(), entered_times, value, interval, share, per_cycle, runs]
    };
    page.heading("Regions, with what they call, all threads together");
    let lines: Vec<Vec<String>> = rows.iter().map(|found| row(found.of)).collect();
    let columns = [
        left("region").key(),
        right("entered"),
        measured("ms"),
        INTERVAL,
        right("share of a run's time"),
        right("instructions per cycle"),
        right("runs"),
    ];
    page.table(&columns, &lines, &[]);
}

fn events(page: &mut Page, index: &mut FindingIndex) {
    let columns = [&metrics::REGION_COUNT, &metrics::REGION_PER_THOUSAND];
    let rows = index.rows(columns, &[Axis::Region, Axis::Event]);
    if rows.is_empty() {
        return;
    }
    let lines = rows.iter().filter_map(|row| {
        let [count, per_thousand] = row.of;
        let [value, interval] = number::cells(count);
        let ratio = number::cells(per_thousand)[0].clone();
        let runs = count.map(|f| f.count.to_string()).unwrap_or_default();
        Some(vec![name(count.or(per_thousand)?), row.word(Axis::Event), value, interval, ratio, runs])
    });
    page.heading("Events in regions");
    let columns = [
        left("region").key(),
        left("event").key(),
        measured("count"),
        INTERVAL,
        right("per 1000 instructions"),
        right("runs"),
    ];
    page.table(&columns, &lines.collect::<Vec<_>>(), &[]);
}

/// Shows what marks add to each entry, and what they take.
fn marks(page: &mut Page, index: &mut FindingIndex) {
    let [inside, pair] = [&metrics::MARKS_TIME, &metrics::MARKS_COST].map(|metric| index.one(metric));
    let ns = |f: Option<&Finding>| number::cells(f)[0].clone();
    let mut lines: Vec<Vec<String>> = Vec::new();
    if inside.is_some() || pair.is_some() {
        lines.push(vec!["time, ns".to_owned(), ns(inside), ns(pair), String::new()]);
    }
    for f in index.of(&[&metrics::MARKS_COUNT]) {
        let pair = f.detail.number(metrics::PAIR).map(|ns| number::shown(ns, None, None).value);
        let how = match f.detail.word(metrics::READ_BY) {
            Some("instructions") => "instructions",
            Some("driver") => "instructions that Fathom's driver grants",
            Some("some-by-instructions") => "instructions, on some threads read(2)",
            _ => "read(2)",
        };
        let event = f.key.word(Axis::Event).unwrap_or_default();
        lines.push(vec![event, ns(Some(f)), pair.unwrap_or_default(), how.to_owned()]);
    }
    if lines.is_empty() {
        return;
    }
    page.heading("What a pair of marks adds to each entry");
    let columns =
        [left("of").key(), right("between the marks"), right("ns for the whole pair"), left("read by")];
    page.table(&columns, &lines, &[]);
    let text = "Measured before the program begins, with nothing between the marks. It is in what regions count, once for each entry.";
    page.text(TextRole::Dim, text, "", "  ");
}
