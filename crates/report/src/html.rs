//! Findings as one page that works offline, and back: everything that it needs is in it.
//!
//! The text is that of the terminal's sections, in HTML; the figures are drawn in the browser from the findings,
//! which the page carries as JSON. Without scripts the terminal's pictures stand in their place.

mod blocks;
mod island;

use std::io::Write as _;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use fathom_analysis::compare::Comparison;
use fathom_analysis::facts;
use fathom_analysis::findings::{Finding, Key, Report};
use fathom_analysis::metrics::common::DISTURBED;
use fathom_analysis::metrics::latency::LATENCY_TIME;
use fathom_analysis::metrics::survey::{TIER_CAPACITY, TIER_LATENCY, TIER_LATENCY_CYCLES};
use serde::Serialize;

use crate::page::TextRole;
use crate::text::{clean, clean_report};
use crate::{number, sections};
pub use island::{is_page, reports};

/// A comparison of two of a page's reports.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// What the two are called, A and B.
    pub names: [&'a str; 2],
    /// What was found.
    pub comparison: &'a Comparison,
    /// The share from which on a difference counts for the exit status.
    pub beyond: Option<f64>,
}

const TEMPLATE: &str = include_str!("../web/page.html");
const STYLE: &str = include_str!("../web/style.css");
const SCRIPT: &str = concat!(
    include_str!("../web/page.js"),
    include_str!("../web/conflict.js"),
    include_str!("../web/wakeup.js"),
    include_str!("../web/dma.js"),
    include_str!("../web/figure.js")
);
const NOTICE: &str = include_str!("../web/NOTICE");

/// Apache ECharts, only the parts in use, as gzip: made by `web/build`.
const CHARTS: &[u8] = include_bytes!("../web/echarts.min.js.gz");

#[derive(Serialize)]
struct View {
    title: String,
    /// Of the headings of sections.
    level: u8,
    overlay: Option<&'static str>,
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

/// One report.
#[derive(Serialize)]
struct Section {
    id: String,
    name: String,
    lead: String,
    caveat: Option<&'static str>,
    disturbed: Option<Banner>,
    cautions: Vec<Caution>,
    tiles: Vec<Tile>,
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
struct Caution {
    token: String,
    text: String,
    remedy: String,
}

/// One tier, for who only glances.
#[derive(Serialize)]
struct Tile {
    name: String,
    value: String,
    under: String,
    more: String,
}

/// The page of one report or several, under their names, and of what was found in comparing them.
///
/// Nothing in a report, which may come from anywhere, can become markup or script.
///
/// # Errors
/// A template that does not render: a fault of this crate's, which its tests would meet.
pub fn html(named: &[(&str, &Report)], changes: &[Change]) -> Result<String, minijinja::Error> {
    let cleaned: Vec<Report> = named.iter().map(|(_, report)| clean_report(report, true)).collect();
    // Under the name of its record a section is a level deeper.
    let level = if named.len() > 1 { 3 } else { 2 };
    let curves = cleaned.iter().filter(|r| has_curve(r)).count();
    let sections: Vec<Section> = cleaned
        .iter()
        .zip(named)
        .enumerate()
        .map(|(at, (report, (name, _)))| section(at, name, report, level))
        .collect();
    let view = View {
        title: title(named, changes),
        level,
        overlay: (curves > 1).then_some("All records in one picture: the access time of one load."),
        changes: changes
            .iter()
            .map(|c| ChangeView {
                a: clean(c.names[0], true),
                b: clean(c.names[1], true),
                body: blocks::body(&sections::compare::blocks(c.comparison, c.names, c.beyond), 0, 3),
            })
            .collect(),
        sections,
        style: STYLE,
        script: SCRIPT,
        notice: NOTICE,
        charts: BASE64_STANDARD.encode(CHARTS),
        data: island::write(named, changes),
    };
    let mut env = minijinja::Environment::new();
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::Html);
    env.set_trim_blocks(true);
    env.render_str(TEMPLATE, view)
}

fn title(named: &[(&str, &Report)], changes: &[Change]) -> String {
    let text = match (named, changes) {
        ([(_, only)], _) => format!("{} of {}", capital(&only.experiment), only.subject),
        (_, []) => format!("{} records", named.len()),
        (all, _) => format!("{} records compared", all.len()),
    };
    clean(&text, true)
}

/// Has it points that can be laid over another record's?
fn has_curve(report: &Report) -> bool {
    report.of(&LATENCY_TIME).next().is_some()
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|c| c.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

fn section(at: usize, name: &str, report: &Report, level: u8) -> Section {
    let caution = |token: &str, text: &str, remedy: &str| Caution {
        token: token.to_string(),
        text: text.to_string(),
        remedy: remedy.to_string(),
    };
    // What was measured, and how it can be done again, for everybody; the rest for who asks.
    let (head, background) = report
        .facts
        .iter()
        .cloned()
        .partition::<Vec<_>, _>(|(name, _)| facts::is_head(name) || name.starts_with("run."));
    Section {
        id: format!("record-{at}"),
        name: clean(name, true),
        lead: sections::headline(report),
        caveat: sections::caveat(&report.trust),
        disturbed: report.find(&DISTURBED).map(banner),
        cautions: report
            .warnings
            .iter()
            .map(|w| caution(w.token, &w.text, &w.remedy))
            .chain(
                report
                    .refusals
                    .iter()
                    .map(|r| caution(&format!("refused: {}", r.what), &r.reason, &r.remedy)),
            )
            .collect(),
        tiles: tiles(report),
        body: blocks::body(&sections::blocks(report), at, level),
        facts: head.into_iter().chain([("seed".to_string(), report.seed.to_string())]).collect(),
        background,
        rows: report.findings.iter().map(row).collect(),
    }
}

fn banner(f: &Finding) -> Banner {
    let (role, text) = sections::disturbance(f);
    Banner { bad: role == TextRole::Bad, text, notes: f.notes.clone() }
}

fn row(f: &Finding) -> [String; 6] {
    let (shown, unit) = number::in_cells(f);
    [f.name().clone(), shown.value, shown.interval, unit.to_string(), f.count.to_string(), f.notes.join("; ")]
}

/// The tiers of a survey: what most readers came for.
fn tiles(report: &Report) -> Vec<Tile> {
    let find = |key: Key| report.find(key).filter(|f| f.word().is_none());
    let with_unit = |f: &Finding| {
        let (shown, unit) = number::in_cells(f);
        format!("{} {unit}", shown.value).trim().to_string()
    };
    (1_u64..)
        .map_while(|n| Some((n, find(TIER_LATENCY.at([n.into()]))?)))
        .map(|(n, latency)| {
            let cycles = find(TIER_LATENCY_CYCLES.at([n.into()])).map(with_unit);
            Tile {
                name: format!("tier {n}"),
                value: cycles.clone().unwrap_or_else(|| with_unit(latency)),
                under: cycles.map(|_| with_unit(latency)).unwrap_or_default(),
                more: find(TIER_CAPACITY.at([n.into()]))
                    .map(|f| format!("up to {}", with_unit(f)))
                    .unwrap_or_default(),
            }
        })
        .collect()
}

/// Escapes text for an element or for an attribute in double quotes.
fn escaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    for c in text.bytes() {
        // Writing to memory does not fail.
        let _ = match c {
            b'&' => out.write_all(b"&amp;"),
            b'<' => out.write_all(b"&lt;"),
            b'>' => out.write_all(b"&gt;"),
            b'"' => out.write_all(b"&quot;"),
            b'\'' => out.write_all(b"&#39;"),
            c => out.write_all(&[c]),
        };
    }
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests;
