//! Sections on late activations: the worst with stages and trace, stages of all and of the worst, periodic causes.

use fathom_analysis::findings::{Axis, Finding, tokens};
use fathom_analysis::metrics::wakeup as metrics;
use fathom_analysis::metrics::wakeup::condition;

use super::{Wakeups, word};
use fathom_report::chart::{Chart, Kind, Scale, Series};
use fathom_report::finding_index::FindingIndex;
use fathom_report::notes;
use fathom_report::number;
use fathom_report::page::{INTERVAL, Page, Pieces, TextRole, left, measured, right};

/// Findings of one stage.
pub(super) struct Row<'a> {
    stage: String,
    all: Option<&'a Finding>,
    worst: Option<&'a Finding>,
}

/// Findings of a periodic cause.
pub(super) struct Cause<'a> {
    pub(super) name: String,
    pub(super) period: Option<&'a Finding>,
    pub(super) share: Option<&'a Finding>,
}

/// Trace events per worst activation in the text report; the JSON has all.
const MAX_EVENTS: usize = 6;
/// Columns of the longest bar, if they fit, and of the number before it.
const MAX_BAR: usize = 40;
const LABEL_COLUMNS: usize = 5;
/// Number of stages.
const STAGES: usize = tokens::STAGE.values.len();
/// One character per stage.
const UNICODE: [char; STAGES] = ['\u{2591}', '\u{2592}', '\u{2588}', '\u{2593}', '\u{2586}'];
const ASCII: [char; STAGES] = ['.', ':', '#', 'o', '%'];

pub(super) fn take<'a>(finding_index: &mut FindingIndex<'a>) -> Vec<Row<'a>> {
    let mut rows: Vec<Row> = Vec::new();
    for f in finding_index.of(&[&metrics::STAGE_ALL, &metrics::STAGE_WORST]) {
        let stage = word(f, Axis::Stage);
        if rows.last().is_none_or(|row| row.stage != stage) {
            rows.push(Row { stage, all: None, worst: None });
        }
        let Some(row) = rows.last_mut() else { continue };
        *(if f.is(&metrics::STAGE_WORST) { &mut row.worst } else { &mut row.all }) = Some(f);
    }
    rows
}

pub(super) fn take_causes<'a>(finding_index: &mut FindingIndex<'a>) -> Vec<Cause<'a>> {
    let mut causes: Vec<Cause> = Vec::new();
    for f in finding_index.of(&[&metrics::CAUSE_PERIOD, &metrics::CAUSE_SHARE]) {
        let name = word(f, Axis::Cause);
        if causes.last().is_none_or(|cause| cause.name != name) {
            causes.push(Cause { name, period: None, share: None });
        }
        let Some(cause) = causes.last_mut() else { continue };
        *(if f.is(&metrics::CAUSE_SHARE) { &mut cause.share } else { &mut cause.period }) = Some(f);
    }
    causes
}

/// Returns a phrase for a stage, to follow "lost most of their time".
pub(crate) fn stage_phrase(stage: &str) -> &'static str {
    match stage {
        "before-irq" => "before the timer interrupt (interrupts off, or CPU taken away)",
        "irq-to-wakeup" => "in the timer interrupt, before the task became runnable",
        "wakeup-to-switch" => "waiting for the CPU, between wake-up and switch to the task",
        "wakeup-to-user" => "between wake-up and first instruction of the task (switch not traced)",
        _ => "between switch and first instruction of the task",
    }
}

/// Returns the condition of a worst activation.
pub(super) fn condition(f: &Finding) -> Option<&str> {
    f.detail.word(metrics::CONDITION)
}

/// Returns a condition as text: `no load`, `under stress-mix`.
pub(super) fn load_text(condition: &str) -> String {
    match condition {
        condition::UNLOADED => "no load".to_owned(),
        other => format!("under {other}"),
    }
}

/// Returns the stages of a worst activation, in the order of the tokens; 0 for a missing one.
fn parts(f: &Finding) -> Option<[f64; STAGES]> {
    let stages = f.detail.numbers(metrics::STAGES);
    let mut parts = [0.0; STAGES];
    for (stage, value) in stages.iter().filter(|(_, value)| value.is_finite()) {
        let (place, _) = tokens::STAGE.find(stage)?;
        parts[place] = value.max(0.0);
    }
    (!stages.is_empty()).then_some(parts)
}

/// Returns the longest stage of a worst activation and its time in the finding's unit; `None` if it was not traced.
pub(crate) fn longest(f: &Finding) -> Option<(&'static str, f64)> {
    let parts = parts(f)?;
    let place = (0..parts.len()).max_by(|a, b| parts[*a].total_cmp(&parts[*b]))?;
    (parts[place] > 0.0).then(|| (tokens::STAGE.values[place], parts[place]))
}

/// Returns whether the task waited for the CPU in this stage.
pub(crate) fn waits_for_cpu(stage: &str) -> bool {
    matches!(stage, "wakeup-to-switch" | "wakeup-to-user")
}

/// Returns details of a worst activation in one line.
fn details(f: &Finding) -> String {
    let mut details: Vec<String> =
        condition(f).map(|word| format!("({})", load_text(word))).into_iter().collect();
    let count = |field| f.detail.number(field).unwrap_or(0.0);
    let (slept, preempted) = (count(metrics::SLEPT), count(metrics::PREEMPTED));
    if slept > 0.0 || preempted > 0.0 {
        details.push(format!("{slept} missed periods before it, {preempted} involuntary switches"));
    }
    let stages = f.detail.numbers(metrics::STAGES).iter();
    let stages: Vec<String> = stages.map(|(stage, value)| format!("{stage} {value:.1}")).collect();
    if !stages.is_empty() {
        details.push(format!("{}, in {}", stages.join(", "), f.unit));
    }
    details.extend(f.notes.iter().cloned());
    details.join("; ")
}

/// Renders the worst activations, the stages and the periodic causes.
pub(super) fn section(page: &mut Page, wakeups: &Wakeups) {
    worst(page, wakeups);
    table(page, &wakeups.stages);
    cadences(page, &wakeups.causes);
}

/// Returns the chart of the worst activations by stages.
fn chart(unit: &'static str) -> Chart {
    let caption = "The worst activations, each by stages. Trace events are listed below.";
    let x = Scale::values(unit).zero();
    let chart = Chart::new("stages", Kind::Stacked, x.clone(), x, caption)
        .rows(Axis::Rank, "{rank}, {detail.condition}");
    tokens::STAGE.values.iter().fold(chart, |chart, stage| {
        chart.with(Series::of(&metrics::WORST_LATENCY, *stage).part(metrics::STAGES, stage))
    })
}

fn worst(page: &mut Page, wakeups: &Wakeups) {
    let Some(first) = wakeups.worst.first() else { return };
    page.heading(&format!("Worst activations: stages and trace, {}", first.unit));
    let bars = bars(wakeups, page.style().width, page.style().unicode);
    if !bars.is_empty() {
        page.picture(chart(first.unit), bars);
        page.line(TextRole::Plain, "");
    }
    for f in &wakeups.worst {
        let rank = word(f, Axis::Rank);
        page.text(
            TextRole::Plain,
            &format!("{rank}: {} {}", number::value(f).value, details(f)),
            "- ",
            "    ",
        );
        let events = f.detail.numbers(metrics::EVENTS);
        for (what, us) in events.iter().take(MAX_EVENTS) {
            page.text(TextRole::Dim, &format!("+{us:.1} us {what}"), "    ", "      ");
        }
        if events.len() > MAX_EVENTS {
            page.text(
                TextRole::Dim,
                &format!("and {} more (--json)", events.len() - MAX_EVENTS),
                "    ",
                "      ",
            );
        }
    }
}

/// Draws each of the worst activations as a bar of its stages, on one scale.
fn bars(wakeups: &Wakeups, width: usize, unicode: bool) -> Vec<Pieces> {
    let columns = MAX_BAR.min(width - LABEL_COLUMNS);
    let pens = if unicode { UNICODE } else { ASCII };
    let staged: Vec<(String, [f64; STAGES])> =
        wakeups.worst.iter().filter_map(|f| Some((word(f, Axis::Rank), parts(f)?))).take(99).collect();
    let longest = staged.iter().map(|(_, parts)| parts.iter().sum::<f64>()).fold(0.0, f64::max);
    if !(longest > 0.0 && longest.is_finite()) {
        return Vec::new();
    }
    let mut lines: Vec<Pieces> = Vec::new();
    for (n, parts) in &staged {
        let label: String = n.chars().take(4).collect();
        let mut line = vec![(TextRole::Plain, format!("{label:>4} "))];
        let (mut sum, mut drawn) = (0.0, 0);
        for (stage, part) in parts.iter().enumerate() {
            sum += part;
            let to = ((sum / longest * columns as f64).round() as usize).min(columns);
            line.push((TextRole::Tier(stage + 1), pens[stage].to_string().repeat(to - drawn)));
            drawn = to;
        }
        line.retain(|(_, text)| !text.is_empty());
        lines.push(line);
    }
    // Two per line of the legend, so that it fits forty columns.
    let drawn: Vec<usize> = (0..pens.len()).filter(|s| staged.iter().any(|(_, p)| p[*s] > 0.0)).collect();
    for pair in drawn.chunks(2) {
        let mut key = vec![(TextRole::Plain, " ".to_owned())];
        for (at, stage) in pair.iter().enumerate() {
            key.push((TextRole::Tier(stage + 1), pens[*stage].to_string().repeat(2)));
            let gap = if at + 1 < pair.len() { "  " } else { "" };
            key.push((TextRole::Dim, format!(" {}{gap}", tokens::STAGE.values[*stage])));
        }
        lines.push(key);
    }
    lines
}

fn table(page: &mut Page, stages: &[Row]) {
    let Some(unit) = stages.iter().find_map(|row| row.all.or(row.worst)).map(|f| f.unit) else { return };
    page.heading(&format!("Stages of a wake-up: median of all activations and of the worst, {unit}"));
    let rows: Vec<Vec<String>> = stages
        .iter()
        .map(|row| {
            let mut cells = vec![row.stage.clone()];
            cells.extend(number::cells(row.all));
            cells.extend(number::cells(row.worst));
            let dominates = row.worst.and_then(|f| f.detail.number(metrics::DOMINATES));
            cells.push(dominates.map(|n| number::shown(n, None, None).value).unwrap_or_default());
            cells
        })
        .collect();
    let count = stages.iter().find_map(|row| row.worst).map_or(0, |f| f.count);
    let columns = [left("stage"), measured("all"), INTERVAL, measured("worst"), INTERVAL, right("dominates")];
    page.table(&columns, &rows, &[]);
    let text = format!(
        "worst: the {count} latest activations; dominates: in how many of them the stage is the longest"
    );
    page.text(TextRole::Dim, &text, "  ", "    ");
    let labelled: Vec<(String, &Finding)> = stages
        .iter()
        .flat_map(|row| [row.all, row.worst].into_iter().flatten().map(|f| (row.stage.clone(), f)))
        .collect();
    notes(page, &labelled);
}

fn cadences(page: &mut Page, causes: &[Cause]) {
    if causes.is_empty() {
        return;
    }
    page.heading("Periodic late activations");
    let rows: Vec<Vec<String>> = causes
        .iter()
        .map(|cause| {
            let mut row = vec![cause.name.clone()];
            row.extend(number::cells(cause.period));
            row.extend(number::cells(cause.share));
            row.push(cause.share.or(cause.period).map(|f| f.count.to_string()).unwrap_or_default());
            row
        })
        .collect();
    let columns = [left("cause"), measured("period ms"), INTERVAL, measured("share"), INTERVAL, right("n")];
    page.table(&columns, &rows, &[]);
    let labelled: Vec<(String, &Finding)> = causes
        .iter()
        .flat_map(|cause| [cause.period, cause.share].into_iter().flatten().map(|f| (cause.name.clone(), f)))
        .collect();
    notes(page, &labelled);
}
