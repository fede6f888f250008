//! The report of `fathom profile`: functions and lines of the source by their share of samples.

use fathom_analysis::findings::{Axis, Field, Finding, Metric, Report};
use fathom_analysis::metrics::profile as metrics;
use fathom_report::chart::{Chart, Kind, Scale, Series};
use fathom_report::finding_index::FindingIndex;
use fathom_report::number;
use fathom_report::page::{INTERVAL, Page, Pieces, TextRole, left, measured, right};
use fathom_report::rows::show_rest;

/// Functions and lines that a report shows.
const SHOWN: usize = 20;
/// Calls that it shows in characters.
const SHOWN_CALLS: usize = 30;

/// Renders the whole report.
pub(crate) fn view(report: &Report, page: &mut Page) {
    let mut index = FindingIndex::new(report);
    totals(page, &mut index);
    places(page, &mut index, &metrics::FUNCTION_SHARE, "Functions, by share of the samples");
    places(
        page,
        &mut index,
        &metrics::TOTAL_SHARE,
        "Functions with all that they call, by share of the samples",
    );
    calls(page, &mut index);
    places(page, &mut index, &metrics::LINE_SHARE, "Lines of the source, by share of the samples");
    if report.of(&metrics::FUNCTION_SHARE).next().is_some() {
        let kernel = report.find(&metrics::SAMPLE_COUNT).is_some_and(|f| f.detail.flag(metrics::KERNEL));
        let rest =
            if kernel { "The kernel's functions are one." } else { "The kernel's part is not sampled." };
        let text = "A sample names the instruction at which the interrupt arrived: the one that took the time may be before it \
                    (skid).";
        page.text(TextRole::Dim, &format!("{text} {rest}"), "", "  ");
    }
    show_rest(page, index, &[]);
}

fn totals(page: &mut Page, index: &mut FindingIndex) {
    let all: [(&str, &'static Metric); 6] = [
        ("from start to end", &metrics::WALL),
        ("CPU time in user space", &metrics::USER),
        ("CPU time in the kernel", &metrics::SYSTEM),
        ("samples", &metrics::SAMPLE_COUNT),
        ("events, sampled or not", &metrics::COUNTED),
        ("lost records", &metrics::LOST),
    ];
    let row = |(name, metric): &(&str, &'static Metric)| {
        let finding = index.one(*metric)?;
        let by = finding.detail.word(metrics::EVENT).map(|event| format!(" by {event}")).unwrap_or_default();
        let [value, _] = number::cells(Some(finding));
        Some(vec![format!("{name}{by}"), value, finding.unit.to_owned()])
    };
    let rows: Vec<Vec<String>> = all.iter().filter_map(row).collect();
    if !rows.is_empty() {
        page.heading("The run");
        page.table(&[left("what"), right("value"), left("unit")], &rows, &[]);
    }
}

/// Shows the tree of calls: a flame graph, and its largest calls in characters.
fn calls(page: &mut Page, index: &mut FindingIndex) {
    let all = index.along(&metrics::CALL_SHARE, Axis::Call);
    if all.is_empty() {
        return;
    }
    page.heading("Calls, by share of the samples");
    let caption = "A bar is a function as it was called by the one below; its width is the share of the samples in it and in what it \
                   calls. Colours tell files apart. A click shows a call and what it calls.";
    let chart =
        Chart::new("calls", Kind::Flame, Scale::values("% of the samples"), Scale::values(""), caption)
            .with(Series::of(&metrics::CALL_SHARE, "{detail.function}"))
            .label("{detail.file}")
            .tree(Axis::Call, metrics::CALLER);
    page.picture(chart, Vec::new());
    page.listing(largest(&all));
    rest(page, all.len(), SHOWN_CALLS);
    if let Some(known) = index.one(&metrics::WHOLE_SHARE) {
        let [share, interval] = number::cells(Some(known));
        let text = format!(
            "Callers are known back to what started the thread in a share of {share} {interval} of the samples."
        );
        page.text(TextRole::Dim, &text, "", "  ");
    }
}

/// Returns the largest calls, callers before callees, indented where a function calls several of them.
fn largest(all: &[(u64, &Finding)]) -> Vec<Pieces> {
    let share = |f: &Finding| f.finite().unwrap_or(0.0);
    let mut kept = all.to_vec();
    // A caller has at least the share of what it calls.
    kept.sort_by(|a, b| share(b.1).total_cmp(&share(a.1)).then(a.0.cmp(&b.0)));
    kept.truncate(SHOWN_CALLS);
    // Number of the caller, which comes before; 0 if it is not among them.
    let caller = |call: u64, f: &Finding| {
        let number = f.detail.number(metrics::CALLER).unwrap_or(0.0);
        kept.iter()
            .map(|(other, _)| *other)
            .find(|other| *other < call && *other as f64 == number)
            .unwrap_or(0)
    };
    let called = |by: u64| kept.iter().filter(move |(call, f)| caller(*call, f) == by);
    let mut lines = Vec::new();
    // Calls that are still to be written, with their indentation; the next one last.
    let mut left: Vec<(u64, &Finding, usize)> = called(0).rev().map(|(call, f)| (*call, *f, 0)).collect();
    while let Some((call, f, indent)) = left.pop() {
        let word = |field| f.detail.word(field).unwrap_or_default();
        let [value, _] = number::cells(Some(f));
        lines.push(vec![
            (TextRole::Plain, format!("{value:>6}  {:indent$}{}", "", word(metrics::FUNCTION))),
            (TextRole::Dim, format!("  {}", word(metrics::FILE))),
        ]);
        let inside = indent + if called(call).count() > 1 { 2 } else { 0 };
        left.extend(called(call).rev().map(|(call, f)| (*call, *f, inside)));
    }
    lines
}

/// Tells how many of a list are not shown.
fn rest(page: &mut Page, all: usize, shown: usize) {
    if all > shown {
        page.text(TextRole::Dim, &format!("and {} more (--json has {all})", all - shown), "", "  ");
    }
}

fn places(page: &mut Page, index: &mut FindingIndex, metric: &'static Metric, heading: &str) {
    let all = index.along(metric, Axis::Rank);
    if all.is_empty() {
        return;
    }
    page.heading(heading);
    let word = |f: &Finding, field: Field| f.detail.word(field).unwrap_or_default().to_owned();
    let row = |f: &Finding| {
        let [value, interval] = number::cells(Some(f));
        let samples = f.detail.number(metrics::SAMPLES).map(|n| number::shown(n, None, None).value);
        vec![
            value,
            interval,
            samples.unwrap_or_default(),
            word(f, metrics::SOURCE),
            word(f, metrics::FUNCTION),
            word(f, metrics::FILE),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().take(SHOWN).map(|(_, f)| row(f)).collect();
    let columns = [
        measured("share"),
        INTERVAL,
        right("samples"),
        left("line").key(),
        left("function").key(),
        left("file"),
    ];
    page.table(&columns, &rows, &[]);
    rest(page, all.len(), SHOWN);
}
