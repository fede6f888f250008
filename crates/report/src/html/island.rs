//! JSON data in a page: the findings in their own format.

use fathom_analysis::compare::Verdict;
use fathom_analysis::findings::{Axis, Report};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Change, Entry, Shown};
use crate::chart::Chart;
use crate::json::{ReadError, from_json, json as findings};
use crate::kind::ReportKind;
use crate::schema::VERSION;
use crate::text::visible_json;

/// The `format` of the data in a page.
const FORMAT: &str = "fathom.page";

/// Begin and end of the data in the page.
const OPEN: &str = "<script type=\"application/json\" id=\"fathom-data\">";
const CLOSE: &str = "</script>";

/// Writes the data: `{format, version, axes: {axis: [word]}, reports: [{name, charts, findings}], together: [chart], changes: [{a, b,
/// rows}]}`.
///
/// Every `<` is written as a JSON escape, so that no content can end the element.
pub fn write<'a>(
    entries: &[Entry],
    shown: &[Shown],
    together: impl Iterator<Item = &'a Chart>,
    changes: &[Change],
) -> String {
    let reports: Vec<String> = entries
        .iter()
        .zip(shown)
        .map(|(Entry { name, report, kind }, shown)| {
            let charts = json!(shown.charts().collect::<Vec<_>>());
            format!(
                "{{\"name\": {}, \"charts\": {charts}, \"findings\": {}}}",
                json!(name),
                findings(report, kind).trim_end()
            )
        })
        .collect();
    let changes: Vec<Value> = changes.iter().map(change).collect();
    let data = format!(
        "{{\"format\": \"{FORMAT}\", \"version\": {VERSION}, \"axes\": {}, \"reports\": [{}], \"together\": {}, \"changes\": {}}}",
        axes(),
        reports.join(",\n"),
        json!(together.collect::<Vec<_>>()),
        Value::from(changes)
    );
    visible_json(&data).replace('<', "\\u003c")
}

/// Returns the words of each axis that has some, in the order in which the script lists them.
fn axes() -> Value {
    let all =
        Axis::ALL.iter().filter_map(|axis| Some((axis.name().to_owned(), json!(axis.tokens()?.values))));
    Value::Object(all.collect())
}

fn change(c: &Change) -> Value {
    let rows = c.comparison.rows.iter().map(|r| {
        let tested = !matches!(r.verdict, Verdict::Untested | Verdict::Unmatched);
        json!({
            "name": r.key.name(),
            "change": 100.0 * r.change.value,
            "low": tested.then_some(100.0 * r.change.low),
            "high": tested.then_some(100.0 * r.change.high),
            "differs": r.verdict.token(),
        })
    });
    json!({"a": c.names[0], "b": c.names[1], "rows": rows.collect::<Vec<_>>()})
}

/// Returns whether the text begins like an HTML page.
#[must_use]
pub fn is_page(begin: &str) -> bool {
    begin.trim_start().get(..14).is_some_and(|b| b.eq_ignore_ascii_case("<!doctype html"))
}

#[derive(Deserialize)]
struct Island {
    format: String,
    version: u64,
    reports: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    findings: Box<serde_json::value::RawValue>,
}

/// Reads the reports of a page made by [`html`](super::html()), with their names. `kinds` are as in [`from_json`].
///
/// # Errors
/// A [`ReadError`] if the page has no data, another format or version, or unreadable findings.
pub fn reports(page: &str, kinds: &[&ReportKind]) -> Result<Vec<(String, Report)>, ReadError> {
    let data = page
        .split_once(OPEN)
        .and_then(|(_, rest)| rest.split_once(CLOSE))
        .map(|(data, _)| data)
        .ok_or(ReadError::NoData)?;
    let island: Island = serde_json::from_str(data)?;
    if island.format != FORMAT {
        return Err(ReadError::Format(island.format));
    }
    if island.version > VERSION {
        return Err(ReadError::Version(island.version));
    }
    island
        .reports
        .into_iter()
        .map(|named| Ok((named.name, from_json(named.findings.get(), kinds)?)))
        .collect()
}
