//! HTML page of findings that works offline, and reading of its data.
//!
//! The text is that of the terminal, as HTML. The figures are drawn in the browser from the findings, which the page
//! carries as JSON. Without scripts the terminal's pictures are shown.

mod blocks;
mod directories;
mod island;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use blocks::From;
use fathom_analysis::compare::Comparison;
use fathom_analysis::facts;
use fathom_analysis::findings::{Finding, Report};
use serde::Serialize;

use crate::chart::Chart;
use crate::kind::{Headline, ReportKind};
use crate::page::{Block, Page, TextRole};
use crate::style::Style;
use crate::text::{clean, clean_report, visible};
use crate::{comparison, head, number, sensitivity, warnings};
pub use island::{is_page, reports};

/// A report of a page.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Name on the page.
    pub name: &'a str,
    /// Report.
    pub report: &'a Report,
    /// Kind of the report.
    pub kind: &'a ReportKind,
}

/// A comparison of two of a page's reports.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Names of the two reports, A and B.
    pub names: [&'a str; 2],
    /// Comparison.
    pub comparison: &'a Comparison,
    /// Share above which a difference affects the exit status.
    pub beyond: Option<f64>,
}

const TEMPLATE: &str = include_str!("../web/page.html");
const STYLE: &str = include_str!("../web/style.css");
const SCRIPT: &str = concat!(
    include_str!("../web/page.js"),
    include_str!("../web/charts.js"),
    include_str!("../web/rows.js"),
    include_str!("../web/figure.js")
);
const NOTICE: &str = include_str!("../web/NOTICE");

/// Apache ECharts, only the parts in use, as gzip; made by `web/build`.
const CHARTS: &[u8] = include_bytes!("../web/echarts.min.js.gz");

#[derive(Serialize)]
struct View {
    title: String,
    /// Level of the headings of sections.
    level: u8,
    overlay: Option<&'static str>,
    /// What is shown of all reports.
    together: String,
    changes: Vec<ChangeView>,
    sections: Vec<Section>,
    style: &'static str,
    script: &'static str,
    notice: &'static str,
    charts: String,
    data: String,
}

#[derive(Serialize)]
struct ChangeView {
    a: String,
    b: String,
    body: String,
}

/// A report as rendered.
#[derive(Serialize)]
struct Section {
    id: String,
    name: String,
    /// Lines of the headline.
    headline: Vec<String>,
    /// Summary of warnings and refusals.
    folded: Option<String>,
    lead: String,
    caveat: Option<String>,
    disturbed: Option<Banner>,
    warnings: Vec<WarningItem>,
    body: String,
    facts: Vec<(String, String)>,
    background: Vec<(String, String)>,
    rows: Vec<[String; 6]>,
}

#[derive(Serialize)]
struct Banner {
    bad: bool,
    text: String,
    notes: Vec<String>,
}

/// A warning or a refusal.
#[derive(Serialize)]
struct WarningItem {
    token: String,
    text: String,
    remedy: String,
}

/// Returns a report as a page carries it: without the directories of the machine on which it was made.
pub fn carried(report: &Report) -> Report {
    directories::without(report)
}

/// Renders the page of one or several reports, with their names, and of their comparisons; with comparisons with the
/// published studies if `studies`. `together` is shown before them; its figures draw from all reports, a row for each.
///
/// Text in a report, which may be untrusted, cannot become markup or script.
///
/// # Errors
/// If the template does not render: an error of this crate, covered by its tests.
pub fn html(
    entries: &[Entry],
    changes: &[Change],
    together: &[Block],
    studies: bool,
) -> Result<String, minijinja::Error> {
    let reports: Vec<Report> = entries.iter().map(|entry| carried(entry.report)).collect();
    let entries: Vec<Entry> =
        entries.iter().zip(&reports).map(|(entry, report)| Entry { report, ..*entry }).collect();
    let entries = entries.as_slice();
    // With several records, the sections of each are one level deeper.
    let level = if entries.len() > 1 { 3 } else { 2 };
    let shown: Vec<Shown> = entries.iter().map(|entry| Shown::of(entry, studies)).collect();
    let overlays = shown.iter().filter(|shown| shown.charts().any(Chart::is_overlay)).count();
    let sections: Vec<Section> = shown
        .iter()
        .zip(entries)
        .enumerate()
        .map(|(at, (shown, entry))| section(at, entry.name, shown, level))
        .collect();
    let view = View {
        title: title(entries, changes),
        level,
        overlay: (overlays > 1).then_some("All records in one picture."),
        together: blocks::body(together, From::All, 2),
        changes: changes
            .iter()
            .map(|c| ChangeView {
                a: clean(c.names[0], true),
                b: clean(c.names[1], true),
                body: blocks::body(&comparison::blocks(c.comparison, c.names, c.beyond), From::One(0), 3),
            })
            .collect(),
        sections,
        style: STYLE,
        script: SCRIPT,
        notice: NOTICE,
        charts: BASE64_STANDARD.encode(CHARTS),
        data: island::write(entries, &shown, charts(together), changes),
    };
    let mut env = minijinja::Environment::new();
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::Html);
    env.set_trim_blocks(true);
    env.render_str(TEMPLATE, view)
}

fn title(entries: &[Entry], changes: &[Change]) -> String {
    let text = match (entries, changes) {
        ([only], _) => format!("{} of {}", capital(&only.report.experiment), only.report.subject),
        (_, []) => format!("{} records", entries.len()),
        (all, _) => format!("{} records compared", all.len()),
    };
    clean(&text, true)
}

/// A report with its text cleaned for output.
struct Shown {
    report: Report,
    headline: Headline,
    blocks: Vec<Block>,
}

impl Shown {
    fn of(entry: &Entry, studies: bool) -> Shown {
        let report = clean_report(entry.report, true);
        let mut page = Page::new(Style { studies, ..Style::default() });
        (entry.kind.view)(&report, &mut page);
        sensitivity::section(&mut page, &report);
        Shown { headline: (entry.kind.headline)(&report), blocks: page.blocks(), report }
    }

    /// Returns its charts, in the order of its figures.
    fn charts(&self) -> impl Iterator<Item = &Chart> {
        charts(&self.blocks)
    }
}

fn charts(blocks: &[Block]) -> impl Iterator<Item = &Chart> {
    blocks.iter().filter_map(|block| match block {
        Block::Picture { chart, .. } => Some(chart.as_ref()),
        _ => None,
    })
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|c| c.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

fn section(at: usize, name: &str, shown: &Shown, level: u8) -> Section {
    let report = &shown.report;
    let item = |token: &str, text: &str, remedy: &str| WarningItem {
        token: token.to_string(),
        text: text.to_string(),
        remedy: remedy.to_string(),
    };
    // Facts about the measured machine and the run are shown; the rest is folded.
    let (head, background) = report
        .facts
        .iter()
        .cloned()
        .partition::<Vec<_>, _>(|(name, _)| facts::is_head(name) || name.starts_with("run."));
    Section {
        id: format!("record-{at}"),
        name: clean(name, true),
        headline: shown.headline.lines().map(|line| clean(line, true)).collect(),
        folded: warnings::folded(report),
        lead: head::lead(report),
        caveat: head::caveat(report),
        disturbed: banner(report),
        warnings: report
            .warnings
            .iter()
            .map(|w| item(w.kind.token(), &w.text, &w.remedy))
            .chain(
                report.refusals.iter().map(|r| item(&format!("refused: {}", r.what), &r.reason, &r.remedy)),
            )
            .collect(),
        body: blocks::body(&shown.blocks, From::One(at), level),
        facts: head.into_iter().chain([("seed".to_string(), report.seed.to_string())]).collect(),
        background,
        rows: report.findings.iter().map(row).collect(),
    }
}

fn banner(report: &Report) -> Option<Banner> {
    let (role, text, causes) = head::disturbance(report)?;
    Some(Banner { bad: role == TextRole::Bad, text, notes: causes.to_vec() })
}

fn row(f: &Finding) -> [String; 6] {
    let (shown, unit) = number::in_cells(f);
    let fitted = f.fitted.map(|study| format!("fitted to study {}", study.token()));
    let mut notes: Vec<String> = fitted.into_iter().chain(f.notes.iter().cloned()).collect();
    if f.is_doubtful() {
        notes.push(format!("{} of its {} trials were disturbed", f.disturbed_trials, f.distinct_trials()));
    }
    [f.name().clone(), shown.value, shown.interval, unit.to_string(), f.count.to_string(), notes.join("; ")]
}

/// Escapes text for an element or for an attribute in double quotes; hidden characters are shown by number.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::SCRIPT;

    /// Figures are declared by their views: no script contains a metric or parses a name.
    #[test]
    fn scripts_contain_no_metric_names() {
        for pattern in [".{", "startsWith(", "tier", "wakeup", "dma", "latency", "stride", "conflict"] {
            assert!(!SCRIPT.contains(pattern), "{pattern}");
        }
    }
}
