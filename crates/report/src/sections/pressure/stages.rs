//! Where the late ones went: the worst with their stages and what ran, stages of all against the worst, cadences.

use fathom_analysis::findings::Finding;

use super::{Wakeups, finite, nth};
use crate::number;
use crate::page::{Chart, INTERVAL, Ink, Page, Pieces, left, measured, right};
use crate::schema::values;
use crate::sections::notes;
use crate::sections::shelf::Shelf;

/// What is known of a stage.
pub(super) struct Row<'a> {
    stage: &'static str,
    all: Option<&'a Finding>,
    worst: Option<&'a Finding>,
}

/// What comes back periodically.
pub(super) struct Cause<'a> {
    pub(super) name: &'static str,
    pub(super) period: Option<&'a Finding>,
    pub(super) share: Option<&'a Finding>,
}

/// Lines of what ran that a worst activation gets here; all are in the JSON.
const RAN: usize = 6;
/// Columns of the longest bar of stages, where there is room, and of a number before it.
const BAR: usize = 40;
const NUMBER: usize = 5;
/// A stage each.
const UNICODE: [char; 4] = ['\u{2591}', '\u{2592}', '\u{2588}', '\u{2593}'];
const ASCII: [char; 4] = ['.', ':', '#', 'o'];

pub(super) fn take<'a>(shelf: &mut Shelf<'a>) -> Vec<Row<'a>> {
    let found = shelf.take_by(|parts| match parts {
        ["stage", stage, what @ ("all" | "worst")] => Some((nth("STAGE", stage)?, *what == "worst")),
        _ => None,
    });
    let mut rows: Vec<Row> = Vec::new();
    for ((stage, worst), f) in found {
        let stage = values("STAGE")[stage];
        if rows.last().is_none_or(|row| row.stage != stage) {
            rows.push(Row { stage, all: None, worst: None });
        }
        let Some(row) = rows.last_mut() else { continue };
        *(if worst { &mut row.worst } else { &mut row.all }) = Some(f);
    }
    rows
}

pub(super) fn take_causes<'a>(shelf: &mut Shelf<'a>) -> Vec<Cause<'a>> {
    let found = shelf.take_by(|parts| match parts {
        ["cause", name, what @ ("period" | "share")] => Some((nth("CAUSE", name)?, *what == "share")),
        _ => None,
    });
    let mut causes: Vec<Cause> = Vec::new();
    for ((name, share), f) in found {
        let name = values("CAUSE")[name];
        if causes.last().is_none_or(|cause| cause.name != name) {
            causes.push(Cause { name, period: None, share: None });
        }
        let Some(cause) = causes.last_mut() else { continue };
        *(if share { &mut cause.share } else { &mut cause.period }) = Some(f);
    }
    causes
}

/// What a stage is, after "lost most time".
pub(super) fn meaning(stage: &str) -> &'static str {
    match stage {
        "before-irq" => "before the timer's interrupt: interrupts were off, or the CPU was taken away",
        "irq-to-wakeup" => "in the timer's interrupt, before the task was made runnable",
        "wakeup-to-switch" => "between the wake-up and the switch to the task: waiting for the CPU",
        _ => "between the hand-over of the CPU and the task's first own instruction",
    }
}

/// The condition that a worst activation came under.
pub(super) fn condition(f: &Finding) -> Option<&str> {
    f.notes.iter().find_map(|note| note.strip_prefix("under "))
}

/// What ran on the CPU until it was switched to the task: the last switch before the task ran.
pub(super) fn ran_before(f: &Finding) -> Option<&str> {
    let late = finite(f)?;
    let switch = |note: &'_ String| -> Option<(f64, usize)> {
        let (at, rest) = note.strip_prefix('+')?.split_once(" us switch ")?;
        Some((at.parse().ok()?, rest.find(" -> ")?))
    };
    let before = |note: &&String| switch(note).is_some_and(|(at, _)| at <= late);
    let last = f.notes.iter().rfind(before)?;
    last.split_once(" us switch ")?.1.split(" -> ").next()
}

/// The four stages of a worst activation, from the note that has them.
fn parts(f: &Finding) -> Option<[f64; 4]> {
    let names = values("STAGE");
    f.notes.iter().find_map(|note| {
        let (stages, _) = note.rsplit_once(", in ")?;
        let mut all = stages.split(", ").zip(names);
        let mut parts = [0.0; 4];
        for part in &mut parts {
            let (text, name) = all.next()?;
            let value = text.strip_prefix(*name)?.trim().parse::<f64>().ok()?;
            *part = if value.is_finite() { value.max(0.0) } else { return None };
        }
        Some(parts)
    })
}

/// The stage in which most of the worst lost most of their time, and how many did.
pub(super) fn dominant(wakeups: &Wakeups) -> Option<(&'static str, usize)> {
    let mut counts = [0usize; 4];
    for (_, f) in &wakeups.worst {
        let Some(parts) = parts(f) else { continue };
        let most = (0..parts.len()).max_by(|a, b| parts[*a].total_cmp(&parts[*b])).unwrap_or(0);
        counts[most] += 1;
    }
    let most = (0..counts.len()).max_by_key(|at| counts[*at])?;
    (counts[most] > 0).then(|| (values("STAGE")[most], counts[most]))
}

/// The worst, the stages and the cadences.
pub(super) fn section(page: &mut Page, wakeups: &Wakeups) {
    worst(page, wakeups);
    table(page, &wakeups.stages);
    cadences(page, &wakeups.causes);
}

fn worst(page: &mut Page, wakeups: &Wakeups) {
    let Some((_, first)) = wakeups.worst.first() else { return };
    page.heading(&format!("The worst activations: their stages, and what ran then, {}", first.unit));
    let bars = bars(wakeups, page.style().width, page.style().unicode);
    if !bars.is_empty() {
        page.picture(Chart::Stages, bars);
        page.line(Ink::Plain, "");
    }
    for (n, f) in &wakeups.worst {
        let (ran, others): (Vec<&String>, Vec<&String>) =
            f.notes.iter().partition(|note| note.starts_with('+'));
        let said: Vec<&str> = others.into_iter().map(String::as_str).collect();
        page.text(Ink::Plain, &format!("{n}: {} {}", number::value(f).value, said.join("; ")), "- ", "    ");
        for event in ran.iter().take(RAN) {
            page.text(Ink::Dim, event, "    ", "      ");
        }
        if ran.len() > RAN {
            page.text(Ink::Dim, &format!("and {} more (--json)", ran.len() - RAN), "    ", "      ");
        }
    }
}

/// Each of the worst as a bar of its stages, all on the scale of the worst.
fn bars(wakeups: &Wakeups, width: usize, unicode: bool) -> Vec<Pieces> {
    let room = BAR.min(width - NUMBER);
    let pens = if unicode { UNICODE } else { ASCII };
    let staged: Vec<(u64, [f64; 4])> =
        wakeups.worst.iter().filter_map(|(n, f)| Some((*n, parts(f)?))).take(99).collect();
    let longest = staged.iter().map(|(_, parts)| parts.iter().sum::<f64>()).fold(0.0, f64::max);
    if !(longest > 0.0 && longest.is_finite()) {
        return Vec::new();
    }
    let mut lines: Vec<Pieces> = Vec::new();
    for (n, parts) in &staged {
        let label: String = n.to_string().chars().take(4).collect();
        let mut line = vec![(Ink::Plain, format!("{label:>4} "))];
        let (mut sum, mut drawn) = (0.0, 0);
        for (stage, part) in parts.iter().enumerate() {
            sum += part;
            let to = ((sum / longest * room as f64).round() as usize).min(room);
            line.push((Ink::Tier(stage + 1), pens[stage].to_string().repeat(to - drawn)));
            drawn = to;
        }
        line.retain(|(_, text)| !text.is_empty());
        lines.push(line);
    }
    // Two lines of a key, so that it fits forty columns.
    for pair in [0, 2] {
        let mut key = vec![(Ink::Plain, " ".to_owned())];
        for stage in [pair, pair + 1] {
            key.push((Ink::Tier(stage + 1), pens[stage].to_string().repeat(2)));
            let gap = if stage == pair { "  " } else { "" };
            key.push((Ink::Dim, format!(" {}{gap}", values("STAGE")[stage])));
        }
        lines.push(key);
    }
    lines
}

fn table(page: &mut Page, stages: &[Row]) {
    let Some(unit) = stages.iter().find_map(|row| row.all.or(row.worst)).map(|f| f.unit) else { return };
    page.heading(&format!("Stages of a wake-up: all activations against the worst, {unit}"));
    let rows: Vec<Vec<String>> = stages
        .iter()
        .map(|row| {
            let mut cells = vec![row.stage.to_owned()];
            cells.extend(number::cells(row.all));
            cells.extend(number::cells(row.worst));
            cells
        })
        .collect();
    page.table(&[left("stage"), measured("all"), INTERVAL, measured("worst"), INTERVAL], &rows, &[]);
    let labelled: Vec<(String, &Finding)> = stages
        .iter()
        .flat_map(|row| [row.all, row.worst].into_iter().flatten().map(|f| (row.stage.to_owned(), f)))
        .collect();
    notes(page, &labelled);
}

fn cadences(page: &mut Page, causes: &[Cause]) {
    if causes.is_empty() {
        return;
    }
    page.heading("What comes back: periods of the late activations");
    let rows: Vec<Vec<String>> = causes
        .iter()
        .map(|cause| {
            let mut row = vec![cause.name.to_owned()];
            row.extend(number::cells(cause.period));
            row.extend(number::cells(cause.share));
            row.push(cause.share.or(cause.period).map(|f| f.count.to_string()).unwrap_or_default());
            row
        })
        .collect();
    let columns = [left("cause"), measured("every ms"), INTERVAL, measured("share"), INTERVAL, right("n")];
    page.table(&columns, &rows, &[]);
    let labelled: Vec<(String, &Finding)> = causes
        .iter()
        .flat_map(|cause| {
            [cause.period, cause.share].into_iter().flatten().map(|f| (cause.name.to_owned(), f))
        })
        .collect();
    notes(page, &labelled);
}
