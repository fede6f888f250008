//! What a program does over time: rates, and slices of the time as curves.

use fathom_analysis::findings::{Axis, Finding, Metric, Report};
use fathom_analysis::metrics::count as metrics;
use fathom_report::chart::{Chart, Kind, Scale, Series};
use fathom_report::finding_index::FindingIndex;
use fathom_report::number;
use fathom_report::page::{Page, TextRole, left, measured, right};
use fathom_report::plot::{Plot, draw};

/// Rows of a curve in characters.
const CURVE_ROWS: usize = 8;

/// Renders the section, if there are slices.
pub(super) fn section(page: &mut Page, report: &Report, index: &mut FindingIndex) {
    let Some(time) = index.one(&metrics::COUNTED_TIME) else { return };
    let slices = time.detail.number(metrics::SLICES).unwrap_or(0.0);
    let [value, _] = number::cells(Some(time));
    page.heading(&format!("Over time: {value} {} in {slices} slices", time.unit));
    rates(page, report, index);
    let cpus = index.along(&metrics::SLICE_CPUS, Axis::Elapsed);
    curve(page, &cpus, &metrics::SLICE_CPUS, "CPUs", "CPU time over time");
    let per_cycle = index.along(&metrics::SLICE_PER_CYCLE, Axis::Elapsed);
    curve(page, &per_cycle, &metrics::SLICE_PER_CYCLE, "instructions per cycle", "Instructions per cycle");
    if index.of(&[&metrics::SLICE_RATE]).len() > 1 {
        let caption = "Events a second, by time since counting began.";
        let chart = Chart::new("rates", Kind::Lines, elapsed(), Scale::values("1/s").log(), caption)
            .with(Series::of(&metrics::SLICE_RATE, "{event}").by(Axis::Event));
        page.picture(chart, Vec::new());
    }
}

/// Shows what is counted a second, and its range over slices.
fn rates(page: &mut Page, report: &Report, index: &mut FindingIndex) {
    let of_a_process = report.of(&metrics::COUNT).next().is_none();
    let range = |f: &Finding| {
        let end = |field| {
            f.detail.number(field).map(|value| number::shown(value, None, None).value).unwrap_or_default()
        };
        format!("{} to {}", end(metrics::P10), end(metrics::P90))
    };
    let row = |name: String, f: &Finding, more: String| {
        let [value, _] = number::cells(Some(f));
        vec![name, value, f.unit.to_owned(), range(f), more, f.count.to_string()]
    };
    let cpus = index.one(&metrics::CPUS).map(|f| row("CPUs".to_owned(), f, String::new()));
    // Of a program, the table of its runs has the second column.
    let per_thousand = |event: &str| {
        let found = report.find(metrics::PER_THOUSAND.at([event.into()])).filter(|_| of_a_process);
        number::cells(found)[0].clone()
    };
    if of_a_process {
        index.of(&[&metrics::PER_THOUSAND]);
    }
    let all = index.rows([&metrics::RATE], &[Axis::Event]);
    let events = all.iter().filter_map(|found| {
        let name = found.word(Axis::Event);
        let more = per_thousand(&name);
        Some(row(name, found.of[0]?, more))
    });
    let rows: Vec<Vec<String>> = cpus.into_iter().chain(events).collect();
    let columns = [
        left("what").key(),
        measured("value"),
        left("unit"),
        right("10 to 90 % of the slices"),
        right("per 1000 instructions"),
        right("slices"),
    ];
    page.table(&columns, &rows, &[]);
    let text = "Page faults are those of user space. Events of the processor have their time in turns, if there are several sets.";
    page.text(TextRole::Dim, text, "", "  ");
}

fn elapsed() -> Scale {
    Scale::of(Axis::Elapsed, "ms since counting began")
}

/// Draws a quantity of each slice.
fn curve(
    page: &mut Page,
    slices: &[(u64, &Finding)],
    metric: &'static Metric,
    unit: &'static str,
    title: &str,
) {
    let points: Vec<(f64, f64)> =
        slices.iter().filter_map(|(end, f)| Some((*end as f64, f.finite()?))).collect();
    if points.len() < 2 {
        return;
    }
    let plot = Plot {
        points,
        plateaus: Vec::new(),
        marks: Vec::new(),
        log_x: false,
        log_y: false,
        from_zero: true,
        rows: CURVE_ROWS,
        x_label: |ms| format!("{} s", number::shown(ms / 1e3, None, None).value),
        y_label: |v| number::shown(v, None, None).value,
    };
    page.text(TextRole::Plain, &format!("{title}, by time:"), "", "  ");
    let caption = format!("{title} in each slice, by its end.");
    let chart =
        Chart::new(unit.replace(' ', "_"), Kind::Lines, elapsed(), Scale::values(unit).zero(), caption)
            .with(Series::of(metric, unit));
    page.picture(chart, draw(&plot, page.style().width, page.style().unicode));
}
