//! Findings as JSON, and reading of that document.
//!
//! Every top-level key and every row is on a separate line, so that the document can be compared and searched by line.

mod comparison;
mod error;
mod read;
mod sensitivity;

use fathom_analysis::examination::Row;
use fathom_analysis::findings::{self, Coordinate, Detail, Finding, Histogram, Item, Key, Report};
use fathom_units::facts::Study;
use serde_json::{Map, Value, json};

use crate::kind::ReportKind;
use crate::schema::{FORMAT, VERSION};
use crate::text::visible_json;

pub(crate) use sensitivity::{dependence_schema, sensitivity_schema};

pub use comparison::{COMPARISON, COMPARISON_VERSION, comparison, comparison_schema};
pub use error::ReadError;
pub use read::from_json;

/// Returns a number that reads back as the same f64; null if it is not finite. Whole numbers are printed without a
/// fraction (exact: below 2^53 an i64 and an f64 represent the same number).
pub(crate) fn number(v: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if v.fract() == 0.0 && v.abs() < EXACT && !(v == 0.0 && v.is_sign_negative()) {
        return Value::from(v as i64);
    }
    Value::from(v)
}

const NO_VALUE: &str = "the value is not finite";
const NO_LOW: &str = "the lower end of the interval is not finite";
const NO_HIGH: &str = "the upper end of the interval is not finite";

/// Key of a finding that only doubtful ones have.
pub(crate) const DISTURBED_TRIALS: &str = "disturbed_trials";

fn finding(f: &Finding) -> Value {
    let mut notes = f.notes.clone();
    let mut missing = |bad: bool, note: &str| {
        if bad && !notes.iter().any(|n| n == note) {
            notes.push(note.to_string());
        }
    };
    let value = match &f.value {
        findings::Value::Text(text) => json!(text),
        findings::Value::Number(v) => {
            missing(!v.is_finite(), NO_VALUE);
            number(*v)
        }
    };
    missing(f.low.is_some_and(|v| !v.is_finite()), NO_LOW);
    missing(f.high.is_some_and(|v| !v.is_finite()), NO_HIGH);
    let mut row = json!({
        "name": f.name(),
        "metric": f.key.metric.pattern,
        "at": at(&f.key),
        "basis": f.basis.token(),
        "detail": detail(&f.detail),
        "value": value,
        "unit": f.unit,
        "low": f.low.map(number),
        "high": f.high.map(number),
        "count": f.count,
        "trials": f.trials,
        "fitted": f.fitted.map(Study::token),
        "depends_on": f.depends_on.as_ref().map(sensitivity::dependence),
        "notes": notes,
    });
    if f.is_doubtful() {
        row[DISTURBED_TRIALS] = json!(f.disturbed_trials);
    }
    row
}

/// Returns coordinates by axis.
fn at(key: &Key) -> Value {
    let coordinates = key.at.iter().map(|(axis, coordinate)| {
        let value = match coordinate {
            Coordinate::Number(number) => json!(number),
            Coordinate::Word(..) | Coordinate::Text(_) => json!(coordinate.write(*axis)),
        };
        (axis.name().to_owned(), value)
    });
    Value::Object(coordinates.collect())
}

/// Returns fields by name; words with numbers as pairs, in their order.
fn detail(detail: &Detail) -> Value {
    let fields = detail.iter().map(|(name, item)| {
        let value = match item {
            Item::Flag(flag) => json!(flag),
            Item::Number(v) => number(*v),
            Item::Token(word) => json!(word),
            Item::Tokens(words) => json!(words),
            Item::Numbers(pairs) => pairs.iter().map(|(word, v)| json!([word, number(*v)])).collect(),
        };
        (name.to_owned(), value)
    });
    Value::Object(fields.collect())
}

fn histogram(h: &Histogram) -> Value {
    let counts: Vec<Value> = h.counts.iter().map(|(v, n)| json!([number(*v), n])).collect();
    json!({
        "name": h.name(),
        "metric": h.key.metric.pattern,
        "at": at(&h.key),
        "bytes": h.bytes,
        "unit": h.unit,
        "loads_per_sample": h.loads_per_sample,
        "counts": counts,
    })
}

/// Returns the subject's facts as one object. Values of facts with the same name are joined by `; `, because readers
/// differ in how they treat repeated keys.
fn facts(report: &Report) -> Value {
    let mut object = Map::new();
    for (name, value) in &report.facts {
        match object.get_mut(name) {
            Some(Value::String(earlier)) => {
                earlier.push_str("; ");
                earlier.push_str(value);
            }
            _ => {
                object.insert(name.clone(), json!(value));
            }
        }
    }
    Value::Object(object)
}

/// Returns an array with a row per line.
fn rows<T>(items: &[T], row: impl Fn(&T) -> Value) -> String {
    if items.is_empty() {
        return "[]".to_string();
    }
    let lines: Vec<String> = items.iter().map(|item| format!("    {}", row(item))).collect();
    format!("[\n{}\n  ]", lines.join(",\n"))
}

/// Returns the document that `--json` prints, with a final newline.
///
/// A number that is not finite becomes null, with a note in its row.
#[must_use]
pub fn json(report: &Report, kind: &ReportKind) -> String {
    let headline = (kind.headline)(report);
    let headline = json!({
        "answer": headline.answer,
        "confidence": headline.confidence,
        "action": headline.action,
    });
    let subject = json!({"name": report.subject, "trust": report.trust, "facts": facts(report)});
    let keys = [
        ("format", json!(FORMAT).to_string()),
        ("version", json!(VERSION).to_string()),
        ("experiment", json!(report.experiment).to_string()),
        ("headline", headline.to_string()),
        ("subject", subject.to_string()),
        ("seed", json!(report.seed).to_string()),
        ("elapsed_s", number(report.elapsed_s).to_string()),
        ("findings", rows(&report.findings, finding)),
        ("histograms", rows(&report.histograms, histogram)),
        (
            "refusals",
            rows(&report.refusals, |r| json!({"what": r.what, "reason": r.reason, "remedy": r.remedy})),
        ),
        (
            "warnings",
            rows(&report.warnings, |w| json!({"token": w.kind.token(), "text": w.text, "remedy": w.remedy})),
        ),
        ("sensitivity", sensitivity::varied_values(report).to_string()),
    ];
    let lines: Vec<String> = keys.iter().map(|(key, value)| format!("  \"{key}\": {value}")).collect();
    visible_json(&format!("{{\n{}\n}}\n", lines.join(",\n")))
}

/// `format` of the document that [`examination`] returns.
pub const EXAMINATION: &str = "fathom.doctor";

/// Returns the document that `fathom doctor --json` prints: format, version, subject and one flat row per line.
#[must_use]
pub fn examination(subject: &str, found: &[Row]) -> String {
    let row = |r: &Row| json!({"what": r.what, "state": r.state.token(), "found": r.found, "cost": r.cost, "command": r.command});
    let (format, subject) = (json!(EXAMINATION), json!(subject));
    let rows = rows(found, row);
    visible_json(&format!(
        "{{\n  \"format\": {format},\n  \"version\": 1,\n  \"subject\": {subject},\n  \"rows\": {rows}\n}}\n"
    ))
}
