//! The report of `fathom profile`: functions and lines of the source by their share of samples.

use fathom_analysis::findings::{Axis, Field, Finding, Metric, Report};
use fathom_analysis::metrics::{common, profile as metrics};
use fathom_report::call_tree::CallTree;
use fathom_report::finding_index::FindingIndex;
use fathom_report::number;
use fathom_report::page::{INTERVAL, Page, TextRole, left, measured, right};
use fathom_report::rows::show_rest;

/// Functions and lines that a report shows.
const SHOWN: usize = 20;

/// Renders the whole report.
pub(crate) fn view(report: &Report, page: &mut Page) {
    let mut index = FindingIndex::new(report);
    totals(page, &mut index);
    pmus(page, &mut index);
    places(page, &mut index, &metrics::FUNCTION_SHARE, "Functions, by share of the samples");
    places(
        page,
        &mut index,
        &metrics::TOTAL_SHARE,
        "Functions with all that they call, by share of the samples",
    );
    calls(page, &mut index);
    places(page, &mut index, &metrics::LINE_SHARE, "Lines of the source, by share of the samples");
    places(page, &mut index, &metrics::INSTRUCTION_SHARE, "Instructions, by share of the samples");
    levels(page, &mut index);
    walks(page, &mut index);
    objects(page, &mut index);
    if report.of(&metrics::FUNCTION_SHARE).next().is_some() {
        let samples = report.find(&metrics::SAMPLE_COUNT);
        let kernel = samples.is_some_and(|f| f.detail.flag(metrics::KERNEL));
        let event = samples.and_then(|f| f.detail.word(metrics::EVENT)).unwrap_or_default();
        let rest =
            if kernel { "The kernel's functions are one." } else { "The kernel's part is not sampled." };
        let text = if super::has_skid(event) {
            "A sample names the instruction at which the interrupt arrived: the one that took the time may be before it (skid)."
        } else if super::is_precise(event) {
            "A sample names the instruction itself."
        } else {
            "A sample names the instruction whose access faulted."
        };
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

/// Shows what each PMU has sampled, where there are several.
fn pmus(page: &mut Page, index: &mut FindingIndex) {
    let all = index.along(&metrics::PMU_SAMPLES, Axis::Pmu);
    if all.is_empty() {
        return;
    }
    page.heading("CPUs of several types");
    let row = |f: &Finding| {
        let counted = f.detail.number(metrics::PMU_COUNTED).map(|n| number::shown(n, None, None).value);
        let [samples, _] = number::cells(Some(f));
        vec![word(f, metrics::PMU), word(f, metrics::CPUS), samples, counted.unwrap_or_default()]
    };
    let rows: Vec<Vec<String>> = all.iter().map(|(_, f)| row(f)).collect();
    let columns = [left("PMU").key(), left("CPUs"), right("samples"), right("events")];
    page.table(&columns, &rows, &[]);
    let text = "Shares are of the samples of all of them together: an event of one type of core is counted as one of another.";
    page.text(TextRole::Dim, text, "", "  ");
}

/// Shows the tree of calls: a flame graph, and its largest calls in characters.
fn calls(page: &mut Page, index: &mut FindingIndex) {
    let tree = CallTree {
        figure: "calls",
        metric: &metrics::CALL_SHARE,
        caller: metrics::CALLER,
        function: metrics::FUNCTION,
        file: metrics::FILE,
        whole: "samples",
        axis: "% of the samples",
    };
    if !tree.show(page, index) {
        return;
    }
    if let Some(known) = index.one(&metrics::WHOLE_SHARE) {
        let [share, interval] = number::cells(Some(known));
        let text = format!(
            "Callers are known back to what started the thread in a share of {share} {interval} of the samples."
        );
        page.text(TextRole::Dim, &text, "", "  ");
    }
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
    let row = |f: &Finding| {
        let [value, interval, samples] = share(f);
        let offset = f.detail.number(common::INSTRUCTION_OFFSET).unwrap_or(0.0);
        vec![
            value,
            interval,
            samples,
            word(f, metrics::SOURCE),
            number::place(f.detail.word(metrics::FUNCTION).unwrap_or_default(), offset),
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

/// Shows the data that was accessed.
fn objects(page: &mut Page, index: &mut FindingIndex) {
    let all = index.along(&metrics::OBJECT_SHARE, Axis::Rank);
    if all.is_empty() {
        return;
    }
    page.heading("Data, by share of the samples");
    let has_latency = all.iter().any(|(_, f)| f.detail.number(metrics::LATENCY).is_some());
    let row = |f: &Finding| {
        let latency = if has_latency { latency(f) } else { Vec::new() };
        share(f)
            .into_iter()
            .chain(latency)
            .chain([word(f, metrics::OBJECT), word(f, metrics::FILE)])
            .collect()
    };
    let rows: Vec<Vec<String>> = all.iter().take(SHOWN).map(|(_, f)| row(f)).collect();
    let mut columns = vec![measured("share"), INTERVAL, right("samples")];
    columns.extend([right(MEDIAN), right(P90)].into_iter().filter(|_| has_latency));
    columns.extend([left("object").key(), left("file")]);
    page.table(&columns, &rows, &[]);
    rest(page, all.len(), SHOWN);
}

/// Heads of latencies.
const MEDIAN: &str = "median, cycles";
const P90: &str = "p90, cycles";

/// Shows where the data of accesses were.
fn levels(page: &mut Page, index: &mut FindingIndex) {
    let all = index.along(&metrics::LEVEL_SHARE, Axis::Rank);
    if all.is_empty() {
        return;
    }
    page.heading("Where the data of accesses were");
    let row = |f: &Finding| share(f).into_iter().chain(latency(f)).chain([level(f)]).collect();
    let rows: Vec<Vec<String>> = all.iter().map(|(_, f)| row(f)).collect();
    let columns =
        [measured("share"), INTERVAL, right("samples"), right(MEDIAN), right(P90), left("level").key()];
    page.table(&columns, &rows, &[]);
    let text = "Latencies are what the processor tells of the sampled accesses, from their begin to their end, with the wait for others; fathom does \
                not measure them.";
    page.text(TextRole::Dim, text, "", "  ");
}

/// Returns the place of a row, with the processor's number if that is not known.
fn level(f: &Finding) -> String {
    let number = f.detail.number(metrics::LEVEL_NUMBER).map(|n| number::shown(n, None, None).value);
    let number = number.map(|number| format!(" (source {number})")).unwrap_or_default();
    word(f, metrics::LEVEL) + &number
}

/// Shows the accesses that walked page tables.
fn walks(page: &mut Page, index: &mut FindingIndex) {
    let Some(found) = index.one(&metrics::WALK_SHARE) else { return };
    page.heading("Accesses whose translation was in no TLB");
    let row = share(found).into_iter().chain(latency(found)).collect();
    let columns = [measured("share"), INTERVAL, right("samples"), right(MEDIAN), right(P90)];
    page.table(&columns, &[row], &[]);
    let text = "Page tables were walked. The share is one of the accesses that tell whether they were.";
    page.text(TextRole::Dim, text, "", "  ");
}

/// Returns median and 90th percentile of the latency.
fn latency(f: &Finding) -> Vec<String> {
    let shown =
        |field| f.detail.number(field).map(|n| number::shown(n, None, None).value).unwrap_or_default();
    vec![shown(metrics::LATENCY), shown(metrics::LATENCY_P90)]
}

fn word(f: &Finding, field: Field) -> String {
    f.detail.word(field).unwrap_or_default().to_owned()
}

/// Returns share, interval and samples.
fn share(f: &Finding) -> [String; 3] {
    let [value, interval] = number::cells(Some(f));
    let samples = f.detail.number(metrics::SAMPLES).map(|n| number::shown(n, None, None).value);
    [value, interval, samples.unwrap_or_default()]
}
